"""State over kills, damage and full disks: it starts every time, and never acts twice.

The daemons here are processes, killed by their own id, against a real mosquitto.
"""

import errno
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from edge_tvbo_adapters.file_store import ASIDE, FileStore
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lives import Life, Time

from edge_tvbo.errors import SnapshotError
from edge_tvbo.model.field import SensorField
from edge_tvbo.policies import make_policy, policies
from edge_tvbo.runtime import checkpoints
from edge_tvbo.runtime.checkpoints import ORDINARY, decode, encode

ROOT = Path(__file__).resolve().parents[2]
KIB, MIB = 1024, 1024**2
DAY = 86400


@contextmanager
def moved_by_hand(clock):
    """Let the checkpoints go by a clock that stands still."""
    real = checkpoints.time.monotonic
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints.time, "monotonic", clock.elapsed)
        yield
    assert time.monotonic is real


# --- damage -------------------------------------------------------------------------------------


@st.composite
def damages(draw):
    """Draw what becomes of a file: a function of its content."""
    where, bit = draw(st.floats(0.0, 0.999999)), draw(st.integers(0, 7))

    def flipped(data):
        at = int(where * len(data))
        return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]

    kinds = {
        "empty": lambda data: b"",
        "truncated": lambda data: data[: int(where * len(data))],
        "flipped": flipped,
        "zeroed": lambda data: bytes(len(data)),
        "longer": lambda data: data + b"\0",
        "gone": None,
    }
    return kinds[draw(st.sampled_from(sorted(kinds)))]


def two_generations(clock, directory):
    life = Life(clock, FileStore(directory, "lab"))
    began = life.live(3000.0)
    return began[-1][0], life.controller.snapshot()


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damages(), st.booleans())
def test_with_either_generation_damaged_it_goes_on_from_the_other(tmp_path_factory, damage, newer):
    directory, clock = tmp_path_factory.mktemp("state"), Time()
    with moved_by_hand(clock):
        last, _ = two_generations(clock, directory)
        path = directory / ("lab.state" if newer else "lab.state.previous")
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage(path.read_bytes()))
        life = Life(clock, FileStore(directory, "lab"))
        assert life.controller.interval > 0
        assert life.controller.policy.observations == 0
        assert life.live(1300.0)[0][0] > last
    aside = [each for each in directory.iterdir() if "damaged" in each.name]
    assert len(aside) == (1 if newer and damage is not None else 0)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damages(), damages())
def test_with_both_generations_damaged_it_begins_anew(tmp_path_factory, one, two):
    directory, clock = tmp_path_factory.mktemp("state"), Time()
    with moved_by_hand(clock):
        two_generations(clock, directory)
        for name, damage in (("lab.state", one), ("lab.state.previous", two)):
            path = directory / name
            if damage is None:
                path.unlink()
            else:
                path.write_bytes(damage(path.read_bytes()))
        life = Life(clock, FileStore(directory, "lab"))
        assert life.live(10.0)[0][0] == 0


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_bytes_that_are_no_document_are_refused(data):
    with pytest.raises(SnapshotError):
        decode(data)


@settings(max_examples=300)
@given(st.data())
def test_a_document_whose_checksum_fits_is_refused_or_believed_but_never_crashes(data):
    """As one that somebody made on purpose, which no checksum keeps out."""
    clock = Time()
    with moved_by_hand(clock):
        life = Life(clock, [])
        life.live(1300.0)
        document = decode(life.store.kept[0])
        kept = document.fields["lab"]
        blob = bytearray(kept.controller)
        for _ in range(data.draw(st.integers(1, 3))):
            blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
        fields = {"lab": kept.__class__(bytes(blob), kept.interval, kept.reserved, 600.0, 10.0)}
        forged = encode(document.__class__(document.anchor, False, fields))
        for _ in Life(clock, [forged]).live(1300.0):
            pass


def test_what_is_damaged_or_newer_is_set_aside_said_and_few_are_kept(tmp_path, caplog, monkeypatch):
    clock = Time()
    with moved_by_hand(clock):
        for _ in range(ASIDE + 2):
            (tmp_path / "lab.state").write_bytes(b"rubbish")
            Life(clock, FileStore(tmp_path, "lab"))
        document = decode((tmp_path / "lab.state").read_bytes())
        monkeypatch.setattr(checkpoints, "FORMAT", 2)
        (tmp_path / "lab.state").write_bytes(encode(document))
        monkeypatch.undo()
    with moved_by_hand(clock):
        Life(clock, FileStore(tmp_path, "lab"))
    aside = sorted(each.name for each in tmp_path.iterdir() if "-" in each.name)
    assert aside == ["lab.state.damaged-4", "lab.state.damaged-5", "lab.state.newer-6"]
    assert len(aside) == ASIDE
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert sum("damaged-" in each for each in said) == ASIDE + 2
    assert "format 2, and this version of edge_tvbo reads 1 at the most" in said[-1]


# --- crashes in the middle of writing -----------------------------------------------------------

DYING = """
import os, sys
from pathlib import Path
from edge_tvbo_adapters.file_store import FileStore

left = int(sys.argv[2])

def dying(call):
    def instead(*arguments, **more):
        global left
        left -= 1
        if left < 0:
            if call is os.write:
                call(arguments[0], arguments[1][:7])
            os._exit(9)
        return call(*arguments, **more)
    return instead

store = FileStore(Path(sys.argv[1]), "lab")
for name in ("mkdir", "open", "write", "fsync", "close", "replace", "rename", "unlink"):
    setattr(os, name, dying(getattr(os, name)))
for word in ("second", "third"):
    store.save((word * 9).encode())
    print(word, flush=True)
"""


def test_killed_at_any_call_of_the_system_one_generation_is_whole(tmp_path):
    """The process really ends there: nothing is tidied up behind it."""
    left, ended = 0, 9
    while ended == 9:
        directory = tmp_path / str(left)
        FileStore(directory, "lab").save(b"first" * 9)
        command = [sys.executable, "-c", DYING, str(directory), str(left)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode in (0, 9), done.stderr
        ended = done.returncode
        words = ["first", *done.stdout.split()]
        newest, *_ = [document for _, document in FileStore(directory, "lab").generations()]
        position = words.index(words[-1])
        allowed = {words[-1], *["second", "third"][position : position + 1]}
        assert newest in {(word * 9).encode() for word in allowed}, (left, words)
        assert FileStore(directory, "lab").save(b"fourth")
        left += 1
    assert left > 10


# --- disks that are full, read-only, or out of reach --------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """Give a maker of file systems of 64 KiB, with mount options of one's own."""
    mounted = []

    def mount(options):
        where = tmp_path / f"disk{len(mounted)}"
        where.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size=64k,{options}", "tmpfs", str(where)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("mounting wants more rights")
        mounted.append(where)
        return where

    yield mount
    for where in mounted:
        subprocess.run(["umount", str(where)], check=True)


def said(caplog):
    return [record.getMessage() for record in caplog.records]


def test_a_full_disk_is_said_once_and_so_is_its_end(small_disk, caplog):
    caplog.set_level(logging.INFO)
    disk = small_disk("mode=700")
    store = FileStore(disk, "lab")
    assert store.save(b"x" * KIB)
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(KIB))
    for _ in range(3):
        assert not store.save(b"y" * 8 * KIB)
    assert [document for _, document in store.generations()] == [b"x" * KIB]
    assert len(said(caplog)) == 1
    assert "No space left on device" in said(caplog)[0]
    (disk / "filler").unlink()
    assert store.save(b"z")
    assert said(caplog)[1:] == [f"state: it is kept in {disk} again"]
    assert [document for _, document in store.generations()] == [b"z", b"x" * KIB]


def test_a_read_only_disk_is_said_once(small_disk, caplog):
    store = FileStore(small_disk("ro") / "state", "lab")
    for _ in range(3):
        assert not store.save(b"x")
    assert [("Read-only file system" in line) for line in said(caplog)] == [True]


@pytest.mark.parametrize("place", ["/dev/null/state", "/proc/edge_tvbo"])
def test_a_directory_that_cannot_be_made_is_said_once(place, caplog):
    store = FileStore(Path(place), "lab")
    for _ in range(3):
        assert not store.save(b"x")
    assert list(store.generations()) == [] and store.written == 0
    assert sum("nothing can be kept" in line for line in said(caplog)) == 1


def test_without_descriptors_nothing_is_lost_and_it_is_said_once(tmp_path, caplog):
    store = FileStore(tmp_path, "lab")
    assert store.save(b"before")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(3):
            assert not store.save(b"during")
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [os.strerror(errno.EMFILE) in line for line in said(caplog)] == [True]
    assert store.save(b"after")
    assert [document for _, document in store.generations()] == [b"after", b"before"]


# --- sizes --------------------------------------------------------------------------------------

M = 54
PLACES = np.random.default_rng(0).uniform(0.0, 40.0, (M, 2))
APART = np.linalg.norm(PLACES[:, None] - PLACES, axis=2)
LAB = SensorField(
    tuple(f"mote-{n}" for n in range(1, M + 1)),
    np.exp(-(APART**2) / 72.0) + 1e-6 * np.eye(M),
    0.01,
    positions=PLACES,
)
PAPERS = {name: (name, {}) for name in policies() if name not in ("auto", "oracle")}
PAPERS["tv-gp-ucb fitted"] = ("tv-gp-ucb", {"epsilon": "fitted"})

SLOW = (
    "a-gp-ucb",
    "lb-gp-ucb",
    "lnb-gp-ucb",
    "mle-gp-ucb",
    "mcmc-gp-ucb",
)  # of windows, full or not


class Counting:
    """A store that keeps nothing and counts."""

    newest = ""

    def __init__(self):
        self.sizes = []

    @property
    def written(self):
        return sum(self.sizes)

    def generations(self):
        return iter(())

    def save(self, document):
        self.sizes.append(len(document))
        return True


def a_day_of(name, parameters):
    """Give the sizes of a day's documents; nobody has to choose, which some are slow at."""
    clock, chance = Time(), np.random.default_rng(1)
    readings = 12 if name in SLOW or "epsilon" in parameters else 999
    policy = make_policy(name, LAB, **parameters)
    with moved_by_hand(clock):
        store = Counting()
        life = Life(clock, store, policy=policy, every=10.0 * DAY)
        for n in range(DAY // 300):
            life.live(0.0, step=300.0)
            if n < readings:
                policy.observe(int(chance.integers(M)), float(chance.normal()))
                policy.advance()
        life.checkpoints.close()
    return store.sizes


@pytest.mark.parametrize("case", PAPERS)
def test_the_papers_policies_write_64_kib_at_a_time_and_6_mib_a_day(case, record_property):
    sizes = a_day_of(*PAPERS[case])
    print(f"{case}: {max(sizes) / KIB:.1f} KiB, {sum(sizes) / MIB:.2f} MiB a day")
    assert max(sizes) <= 64 * KIB
    assert sum(sizes) <= 6 * MIB
    assert len(sizes) >= DAY // 900


@pytest.mark.parametrize("parameters", [{}, {"length_scale": "learned"}], ids=["kernel", "learned"])
def test_auto_writes_24_mib_a_day(parameters):
    sizes = a_day_of("auto", parameters)
    print(f"auto {parameters}: {max(sizes) / KIB:.1f} KiB, {sum(sizes) / MIB:.2f} MiB a day")
    assert sum(sizes) <= 24 * MIB
    assert len(sizes) >= DAY / 900 / -(-2 * max(sizes) // ORDINARY)


# --- real daemons -------------------------------------------------------------------------------

INTERVAL, PERIOD = 0.2, 1.0  # s
CONFIG = """
instance = "k"
[mqtt]
port = {port}
reconnect = {{ min = "100ms", max = "300ms" }}
[state]
dir = "{dir}"
checkpoint = "1s"
[fields.lab]
interval = "{interval}"
reply_timeout = "100ms"
policy = {{ name = "{policy}" }}
kernel = {{ name = "se", length_scale = 6.0, variance = 4.0, noise_variance = 0.04, mean = 20 }}
sensors = ["a", "b", "c"]
reading = {{ topic = "lab/{{sensor}}/t" }}
activate = {{ mode = "live", topic = "lab/{{sensor}}/go", payload = '[{{interval}}, {{at}}]' }}
[fields.lab.positions]
a = [0, 0]
b = [5, 0]
c = [9, 9]
"""


class Gateway:
    """A configuration, a broker, sensors that answer, and one daemon after another."""

    def __init__(self, directory, port, peer):
        self.config = directory / "edge.toml"
        self.state = directory / "state" / "k.state"
        self.log = directory / "log"
        self.port = port
        self.configure()
        self.sensors = peer(port, "lab/+/go")
        self.sensors.client.on_message = self._answer
        self.asked = []  # [interval, at], in the order in which the sensors heard
        self.process = None

    def configure(self, **changes):
        chosen = {"dir": "state", "interval": "200ms", "policy": "tv-gp-ucb", **changes}
        self.config.write_text(CONFIG.format(port=self.port, **chosen))

    def _answer(self, client, userdata, message):
        self.asked.append(json.loads(message.payload))
        client.publish(message.topic.replace("/go", "/t"), str(20 + len(self.asked) % 7))

    def start(self, **limits):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "edge_tvbo", "run", str(self.config)],
                stderr=log,
                cwd=ROOT,
                **limits,
            )
        self._from = self.log.stat().st_size

    def said(self):
        """Give what the present daemon has logged."""
        return self.log.read_bytes()[self._from :].decode()

    def wait(self, condition, within=60.0):
        deadline = time.monotonic() + within
        while not condition():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.02)

    def asks(self, times=3):
        """Wait until so many activations more have come."""
        goal = len(self.asked) + times
        self.wait(lambda: len(self.asked) >= goal)

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def stop(self):
        self.process.terminate()
        assert self.process.wait(20) == 0, self.said()

    def kept(self):
        """Give the newest document that is whole."""
        for path in (self.state, Path(f"{self.state}.previous")):
            with suppress(OSError, SnapshotError):
                return decode(path.read_bytes())
        return None

    def assert_never_twice(self):
        numbers = [number for number, _ in self.asked]
        assert numbers == sorted(set(numbers))
        gaps = [later - earlier for (_, earlier), (_, later) in pairwise(self.asked)]
        assert min(gaps) > INTERVAL - 0.05


@pytest.fixture
def gateway(tmp_path, mosquitto, peer):
    broker = mosquitto()
    broker.start()
    gateway = Gateway(tmp_path, broker.port, peer)
    yield gateway
    if gateway.process and gateway.process.poll() is None:
        gateway.kill()


def killed(gateway, times, seed):
    """Kill daemons at random moments; give how many had begun, and the most time that was lost."""
    chance, ready, lost = Random(seed), 0, 0.0
    for _ in range(times):
        gateway.start()
        time.sleep(chance.uniform(0.0, 5.0))
        assert gateway.process.poll() is None, gateway.said()
        gateway.kill()
        at = time.time()
        text = gateway.said()
        assert "Traceback" not in text
        assert "cannot be used" not in text
        if "ready:" in text:
            ready += 1
            lost = max(lost, at - gateway.kept().anchor.wall)
    gateway.start()
    gateway.asks()
    assert "state: restored from" in gateway.said()
    gateway.stop()
    gateway.assert_never_twice()
    return ready, lost


@pytest.mark.broker
@pytest.mark.timeout(600)
def test_killed_at_15_random_moments_it_starts_and_never_acts_twice(gateway):
    ready, lost = killed(gateway, 15, seed=5)
    print(f"15 kills, {ready} of them at work: {len(gateway.asked)} intervals, lost {lost:.2f} s")
    assert ready >= 3
    assert lost < PERIOD + 0.5  # a busy machine turns late


@pytest.mark.broker
@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_killed_at_1000_random_moments_it_starts_and_never_acts_twice(gateway):
    ready, lost = killed(gateway, 1000, seed=6)
    print(f"1000 kills, {ready} of them at work: {len(gateway.asked)} intervals, lost {lost:.2f} s")
    assert ready >= 200
    assert lost < PERIOD + 0.5


@pytest.mark.broker
def test_a_daemon_that_was_stopped_goes_on_with_the_next_number_and_its_model(gateway):
    gateway.start()
    gateway.asks(5)
    gateway.stop()
    document, last = gateway.kept(), gateway.asked[-1][0]
    assert document.final
    gateway.start()
    gateway.asks(2)
    gateway.stop()
    assert gateway.asked[-1][0] > last
    assert "1 field(s), 0 readings" not in gateway.said()
    assert "readings in their models" in gateway.said()


@pytest.mark.broker
@pytest.mark.parametrize("place", ["/proc/edge_tvbo", "/dev/null/x"])
def test_without_a_place_for_its_state_it_decides_on_and_says_so(gateway, place):
    gateway.configure(dir=place)
    gateway.start()
    gateway.asks(12)
    assert gateway.said().count("nothing can be kept") == 1
    gateway.stop()


@pytest.mark.broker
def test_with_files_that_may_not_grow_it_decides_on_and_says_so(gateway):
    """As on a full disk; the log is a file too, which is why a few lines fit."""
    size = (resource.RLIMIT_FSIZE, (2000, 2000))
    gateway.configure(policy="mtv-gp-ucb")
    gateway.start(preexec_fn=lambda: resource.setrlimit(*size))
    gateway.asks(15)
    gateway.stop()
    assert gateway.said().count("nothing can be kept") <= 1
    gateway.assert_never_twice()


@pytest.mark.broker
def test_with_an_empty_dir_it_never_writes(gateway, tmp_path):
    gateway.configure(dir="")
    before = set(tmp_path.rglob("*"))
    gateway.start()
    gateway.asks(12)
    gateway.stop()
    assert set(tmp_path.rglob("*")) == before | {gateway.log}
    assert "state:" not in gateway.said()


# --- SIGHUP and SIGUSR1 -------------------------------------------------------------------------


@pytest.mark.broker
def test_a_reload_of_a_bad_configuration_changes_nothing_and_names_every_mistake(gateway):
    gateway.start()
    gateway.asks()
    good = gateway.config.read_text()
    gateway.config.write_text(good.replace("200ms", "200").replace("[state]", "[stat]"))
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait(lambda: "nothing is changed" in gateway.said())
    assert f"{gateway.config}:6: stat is not a setting" in gateway.said()
    assert f"{gateway.config}:10: fields.lab.interval" in gateway.said()
    gateway.asks()
    gateway.stop()
    gateway.assert_never_twice()


@pytest.mark.broker
def test_a_reload_of_a_good_configuration_keeps_the_model_and_the_grid(gateway):
    gateway.start()
    gateway.asks(6)
    text = gateway.config.read_text()
    gateway.config.write_text(text.replace('"tv-gp-ucb"', '"tv-gp-ucb", beta = 4.0'))
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait(lambda: "reload: done" in gateway.said())
    assert "lab begins anew" not in gateway.said()
    gateway.process.send_signal(signal.SIGUSR1)
    gateway.wait(lambda: "diagnosis: lab: interval" in gateway.said())
    (line,) = [line for line in gateway.said().splitlines() if "diagnosis: lab: interval" in line]
    readings = int(line.partition("tv-gp-ucb with ")[2].split()[0])
    assert readings >= 5
    gateway.asks()
    gateway.stop()
    gateway.assert_never_twice()


@pytest.mark.broker
def test_a_reload_to_another_policy_begins_anew_and_says_so_but_numbers_go_on(gateway):
    gateway.start()
    gateway.asks(4)
    gateway.configure(policy="et-gp-ucb")
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait(lambda: "reload: done" in gateway.said())
    assert "reload: lab begins anew: The snapshot is of 'tv-gp-ucb'" in gateway.said()
    gateway.asks()
    gateway.stop()
    gateway.assert_never_twice()


@pytest.mark.broker
def test_reloads_and_diagnoses_without_end_leave_nothing_behind(gateway, peer):
    watcher = peer(gateway.port, "edge_tvbo/k/status")
    gateway.start()
    gateway.asks()

    def sessions():  # the log says what repeats itself only once
        return watcher.on("edge_tvbo/k/status").count(b"online")

    def descriptors():
        return len(list(Path(f"/proc/{gateway.process.pid}/fd").iterdir()))

    before = descriptors()
    for n in range(10):
        gateway.process.send_signal(signal.SIGHUP)
        gateway.wait(lambda n=n: sessions() == n + 2)
        gateway.process.send_signal(signal.SIGUSR1)
    gateway.asks()
    assert descriptors() <= before + 1
    assert "thread(s)," in gateway.said() and "MiB resident" in gateway.said()
    assert "diagnosis: lab: " in gateway.said()
    gateway.stop()
    gateway.assert_never_twice()
