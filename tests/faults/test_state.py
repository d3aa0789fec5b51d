"""State over kills, damage and full disks: the daemon always starts, and never activates twice.

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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from edge_tvbo_adapters.storage.state_files import MAX_REJECTED_FILES, FileStore
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.directories import directory_in_memory
from support.examples import max_examples
from support.gateway import INTERVAL, PERIOD, WITH_JOURNAL, Gateway, program
from support.lives import NOW, Life, Time
from support.ports import free_port

from edge_tvbo.daemon import checkpoint_document, checkpoints
from edge_tvbo.daemon.checkpoint_document import (
    Anchor,
    decode,
    encode,
)
from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.policy import make_policy, policies
from edge_tvbo.training.covariance import with_model, with_structure

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


class Past(NamedTuple):
    """Result of a run: its checkpoints and its clock."""

    last: int  # interval number
    kept: list[bytes]  # checkpoints, the newest first
    anchor: Anchor  # of its clock at the end

    def store_in(self, directory):
        """Write the checkpoints as the run did."""
        store = FileStore(directory, "lab")
        for document in reversed(self.kept):
            assert store.save(document)


@cache  # each example begins with the same run
def past(seconds):
    """Return the result of a run of so many seconds."""
    clock = Time()
    with moved_by_hand(clock):
        life = Life(clock, [])
        began = life.live(seconds)
    return Past(began[-1][0], life.store.kept, clock.now)


@max_examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damages(), st.booleans())
def test_with_one_generation_damaged_it_continues_from_the_other(damage, newer):
    before = past(3000.0)
    with directory_in_memory() as directory:
        before.store_in(directory)
        clock = Time(before.anchor)
        with moved_by_hand(clock):
            path = directory / ("lab.state" if newer else "lab.state.previous")
            if damage is None:
                path.unlink()
            else:
                path.write_bytes(damage(path.read_bytes()))
            life = Life(clock, FileStore(directory, "lab"))
            assert life.controller.interval > 0
            assert life.controller.policy.observations == 0
            assert life.live(1300.0)[0][0] > before.last
        aside = [each for each in directory.iterdir() if "damaged" in each.name]
        assert len(aside) == (1 if newer and damage is not None else 0)


@max_examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damages(), damages())
def test_with_both_generations_damaged_it_starts_without_state(one, two):
    before = past(3000.0)
    with directory_in_memory() as directory:
        before.store_in(directory)
        clock = Time(before.anchor)
        with moved_by_hand(clock):
            for name, damage in (("lab.state", one), ("lab.state.previous", two)):
                path = directory / name
                if damage is None:
                    path.unlink()
                else:
                    path.write_bytes(damage(path.read_bytes()))
            life = Life(clock, FileStore(directory, "lab"))
            assert life.live(10.0)[0][0] == 0


@max_examples(300)
@given(st.binary(max_size=300))
def test_invalid_documents_are_rejected(data):
    with pytest.raises(SnapshotError):
        decode(data)


@max_examples(300)
@given(st.data())
def test_an_invalid_document_with_a_valid_checksum_never_crashes(data):
    """A document damaged on purpose has a valid checksum."""
    before = past(1300.0)
    clock = Time(before.anchor)
    with moved_by_hand(clock):
        document = decode(before.kept[0])
        kept = document.fields["lab"]
        blob = bytearray(kept.controller)
        for _ in range(data.draw(st.integers(1, 3))):
            blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
        fields = {"lab": kept.__class__(bytes(blob), kept.interval, kept.reserved, 600.0, 10.0)}
        forged = encode(document.__class__(document.anchor, False, fields))
        for _ in Life(clock, [forged]).live(1300.0):
            pass


def test_damaged_and_newer_documents_are_renamed_logged_and_few_are_kept(
    tmp_path, caplog, monkeypatch
):
    clock = Time()
    with moved_by_hand(clock):
        for _ in range(MAX_REJECTED_FILES + 2):
            (tmp_path / "lab.state").write_bytes(b"rubbish")
            Life(clock, FileStore(tmp_path, "lab"))
        document = decode((tmp_path / "lab.state").read_bytes())
        monkeypatch.setattr(checkpoint_document, "FORMAT", 2)
        (tmp_path / "lab.state").write_bytes(encode(document))
        monkeypatch.undo()
    with moved_by_hand(clock):
        Life(clock, FileStore(tmp_path, "lab"))
    aside = sorted(each.name for each in tmp_path.iterdir() if "-" in each.name)
    assert aside == ["lab.state.damaged-4", "lab.state.damaged-5", "lab.state.newer-6"]
    assert len(aside) == MAX_REJECTED_FILES
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert sum("damaged-" in each for each in said) == MAX_REJECTED_FILES + 2
    assert "format 2, and this version of edge_tvbo reads up to format 1" in said[-1]


def test_a_file_that_cannot_be_read_is_kept(tmp_path, caplog):
    """A directory cannot be read as a file, not even by root."""
    (tmp_path / "lab.state").mkdir()
    store = FileStore(tmp_path, "lab")
    assert list(store.generations()) == []
    assert store.save(b"later")
    assert (tmp_path / "lab.state.unreadable-1").is_dir()
    assert [content for _, content in store.generations()] == [b"later"]
    assert "lab.state cannot be read: Is a directory" in caplog.text


def test_a_newer_file_is_kept_if_the_disk_is_read_only_at_the_start(small_disk, caplog):
    caplog.set_level(logging.INFO)
    disk = small_disk("rw")
    newer = {"lab.state": b"newer", "lab.state.previous": b"older"}
    for name, content in newer.items():
        (disk / name).write_bytes(content)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    store = FileStore(disk, "lab")
    for generation, _ in store.generations():
        assert "could not be renamed" in store.set_aside(generation, "newer")
    assert not store.save(b"1")
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert store.save(b"2") and store.save(b"3")
    kept = {(disk / f"lab.state.newer-{number}").read_bytes() for number in (1, 2)}
    assert kept == set(newer.values())
    assert [content for _, content in store.generations()] == [b"3", b"2"]
    assert "lab.state was renamed to lab.state.newer-1" in caplog.text


@pytest.mark.parametrize("damaged", [set(), {"lab.state"}, {"lab.state", "lab.state.previous"}])
def test_if_no_stored_state_can_be_used_the_log_does_not_say_that_none_is_stored(
    tmp_path, caplog, damaged
):
    caplog.set_level(logging.INFO)
    for name in ("lab.state", "lab.state.previous"):
        if name in damaged:
            (tmp_path / name).write_bytes(b"rubbish")
        else:
            (tmp_path / name).mkdir()
    Life(Time(), FileStore(tmp_path, "lab"))
    lines = [each for each in said(caplog) if each.endswith("every field starts without readings")]
    why = "no stored state can be used" if damaged else "the stored state cannot be read"
    assert lines == [f"state: {why}; every field starts without readings"]
    assert "no state is stored" not in caplog.text


def test_if_the_state_is_that_of_another_instance_the_log_names_it(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    for name in ("lab", "attic", "lab2"):
        Life(Time(), FileStore(tmp_path / "state", name))
    assert said(caplog) == [
        "state: no state is stored; every field starts without readings",
        f"state: {tmp_path}/state has no state of attic, only of lab; every field starts without "
        "readings",
        f"state: {tmp_path}/state has no state of lab2, only of attic, lab; every field starts "
        "without readings",
    ]
    Life(Time(), FileStore(tmp_path / "state", "lab"))
    assert "state: restored from" in said(caplog)[-1]


# --- one process after another ------------------------------------------------------------------

ENDS = st.tuples(  # how long a process lives, in s, how it ends, and until when there is none
    st.sampled_from([0.0, 50.0, 700.0, 2500.0]),
    st.sampled_from(
        ["killed", "stopped", "killed and damaged", "killed in an entry", "downgraded"]
    ),
    st.sampled_from([0.0, 300.0, 700.0, 5000.0, 90_000.0]),
)


@max_examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ENDS, min_size=2, max_size=8), st.floats(60.0, 2000.0), st.booleans())
def test_no_interval_number_is_used_twice_whenever_processes_end(ends, every, has_journal):
    clock, numbers = Time(), []
    with directory_in_memory() as directory, pytest.MonkeyPatch.context() as patch:
        if has_journal:
            patch.setattr(checkpoints, "LARGE_DOCUMENT_BYTES", 300)
        newest, previous = directory / "lab.state", directory / "lab.state.previous"
        journal = directory / "lab.state.journal"
        with moved_by_hand(clock):
            for seconds, end, away in [*ends, (3 * every, "stopped", 0.0)]:
                life = Life(clock, FileStore(directory, "lab"), every=every)
                numbers += [number for number, _ in life.live(seconds)]
                if end == "stopped":
                    life.checkpoints.close()
                elif "damaged" in end and previous.exists():
                    newest.write_bytes(newest.read_bytes()[:-1])
                elif "entry" in end and journal.exists():
                    journal.write_bytes(journal.read_bytes()[:-1])
                elif end == "downgraded":  # a version that reads no journal
                    journal.unlink(missing_ok=True)
                clock.move(away)
        assert numbers == sorted(set(numbers))


# --- crashes in the middle of writing -----------------------------------------------------------

DYING = """
import os, sys
from pathlib import Path
from edge_tvbo_adapters.storage.state_files import FileStore

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
    store.append((word * 5).encode())
    store.save((word * 9).encode())
    print(word, flush=True)
"""


def test_killed_at_any_system_call_one_generation_stays_valid(tmp_path):
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
        store = FileStore(directory, "lab")
        newest, *_ = [document for _, document in store.generations()]
        position = words.index(words[-1])
        allowed = {words[-1], *["second", "third"][position : position + 1]}
        assert newest in {(word * 9).encode() for word in allowed}, (left, words)
        assert FileStore(directory, "lab").save(b"fourth")
        left += 1
    assert left > 10


# --- disks that are full, read-only, or out of reach --------------------------------------------


def said(caplog):
    return [record.getMessage() for record in caplog.records]


def test_a_full_disk_and_its_end_are_logged_once(small_disk, caplog):
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
    assert said(caplog)[1:] == [f"state: storing in {disk} works again"]
    assert [document for _, document in store.generations()] == [b"z", b"x" * KIB]


def test_the_newest_file_becomes_the_previous_one_even_on_a_full_disk(small_disk):
    disk = small_disk("mode=700")
    store = FileStore(disk, "lab")
    for document in (b"first", b"second"):
        assert store.save(document)
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(KIB))
    for _ in range(2):
        store.demote_newest()
        ((generation, document),) = store.generations()
        assert (document, generation == store.newest) == (b"second", False)


def test_on_a_full_disk_the_store_notes_how_long_nothing_is_stored(small_disk):
    store = FileStore(disk := small_disk("mode=700"), "lab")
    assert store.save(b"first")
    assert store.unsaved_until() is None
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(KIB))
    for until in (NOW, NOW + 60.0):
        store.mark_unsaved(until)
        assert FileStore(disk, "lab").unsaved_until() == until
    (disk / "filler").unlink()
    assert store.save(b"second")
    assert store.unsaved_until() is None


def test_without_a_directory_nothing_is_noted(tmp_path):
    store = FileStore(tmp_path / "missing", "lab")
    store.mark_unsaved(NOW)
    assert store.unsaved_until() is None


def test_an_entry_that_does_not_fit_on_the_disk_leaves_the_others(small_disk, caplog):
    disk = small_disk("mode=700")
    store = FileStore(disk, "lab")
    assert store.save(b"x" * KIB)
    assert store.append(b"first")
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(KIB))
    assert not store.append(b"y" * 8 * KIB)
    (journal,) = store.journals()
    assert journal.startswith(b"first")
    assert "No space left on device" in caplog.text


def test_a_journal_is_kept_as_long_as_its_state_file(tmp_path):
    store = FileStore(tmp_path, "lab")
    for document, entries in (("first", "ab"), ("second", "c"), ("third", "")):
        assert store.save(document.encode())
        for entry in entries:
            assert store.append(entry.encode())
    assert list(FileStore(tmp_path, "lab").journals()) == [b"c"]
    assert store.save(b"fourth")
    assert list(FileStore(tmp_path, "lab").journals()) == []
    assert store.written == len("firstsecondthirdfourthabc")


def test_a_read_only_disk_is_logged_once(small_disk, caplog):
    store = FileStore(small_disk("ro") / "state", "lab")
    for _ in range(3):
        assert not store.save(b"x")
    assert [("Read-only file system" in line) for line in said(caplog)] == [True]


@pytest.mark.parametrize("place", ["/dev/null/state", "/proc/edge_tvbo"])
def test_a_directory_that_cannot_be_created_is_logged_once(place, caplog):
    store = FileStore(Path(place), "lab")
    for _ in range(3):
        assert not store.save(b"x")
    assert list(store.generations()) == [] and store.written == 0
    assert sum("cannot be stored" in line for line in said(caplog)) == 1


def test_without_free_descriptors_nothing_is_lost_and_it_is_logged_once(tmp_path, caplog):
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
LARGE = ("auto", "master-gp-ucb")  # MASTER has a model for each of its orders
PAPERS = {name: (name, {}) for name in policies() if name not in (*LARGE, "oracle")}
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

    def why_empty(self):
        return ""

    def save(self, document):
        self.sizes.append(len(document))
        return True

    def append(self, entry):
        self.sizes.append(len(entry))
        return True

    def journals(self):
        return iter(())


def a_day_of(name, parameters, field=LAB):
    """Return the sizes of a day's documents, without the time of choosing sensors."""
    clock, chance = Time(), np.random.default_rng(1)
    readings = 12 if name in SLOW or "epsilon" in parameters else 999
    policy = make_policy(name, field, **parameters)
    with moved_by_hand(clock):
        store = Counting()
        life = Life(clock, store, policy=policy, every=10.0 * DAY)
        for n in range(DAY // 300):
            life.live(0.0, step=300.0)
            if n < readings:
                policy.set_time(clock.now.wall)
                policy.observe(int(chance.integers(M)), float(chance.normal()))
                policy.advance()
        life.checkpoints.close()
    return store.sizes


@pytest.mark.parametrize("case", PAPERS)
def test_policies_of_the_papers_write_64_kib_at_a_time_and_6_mib_a_day(case, record_property):
    sizes = a_day_of(*PAPERS[case])
    print(f"{case}: {max(sizes) / KIB:.1f} KiB, {sum(sizes) / MIB:.2f} MiB a day")
    assert max(sizes) <= 64 * KIB
    assert sum(sizes) <= 6 * MIB
    assert len(sizes) >= DAY // 900


def learned():
    """Return the field of the lab with its structure, as `edge-tvbo fit` writes it."""
    moments, chance = np.arange(0.0, 8 * DAY, 600.0), np.random.default_rng(2)
    course = np.sin(2 * np.pi * moments[:, None] / DAY + np.linspace(0.0, 1.0, M))
    slow = np.cumsum(chance.normal(0.0, 0.03, (len(moments), M)), axis=0)
    noise = chance.normal(0.0, 0.1, (len(moments), M))
    field = with_structure(LAB, course + slow + noise, 600.0, NOW // DAY * DAY)
    assert field.structure is not None
    return field


@pytest.mark.parametrize(
    ("sensors", "most"), [(10, 4.0), (46, 4.0), (54, 4.0), (200, 5.0), (500, 14.0), (2000, 5.0)]
)
def test_auto_writes_its_state_a_few_times_a_day_for_any_number_of_sensors(sensors, most):
    """With 2000 sensors, whose neighbours are correlated, there are as many factors as possible."""
    places = np.random.default_rng(0).uniform(0.0, 1.0, (sensors, 2))
    kernel = SpatialKernel(2.5, 0.1)(places, places)
    names = tuple(f"s{arm}" for arm in range(sensors))
    structure = prior_structure(kernel, 600.0)
    policy = make_policy("auto", SensorField(names, kernel, 0.01, structure=structure))
    for t in range(min(144, 40_000 // sensors)):
        policy.set_time(NOW + 600.0 * t)
        policy.observe(policy.select().arm, float(t % 5))
        policy.advance()
    clock, store = Time(), Counting()
    with moved_by_hand(clock):
        life = Life(clock, store, policy=policy, every=10.0 * DAY)
        size = max(store.sizes)
        assert life.checkpoints.wake_at() == clock.elapsed() + 900.0
        written = store.written
        for _ in range(4 * DAY // 900):
            life.live(0.0, step=900.0)
    documents = sum(each > size // 2 for each in store.sizes[2:])
    a_day = (store.written - written) / MIB / 4
    print(f"auto, {sensors} sensors: {size // KIB} KiB, {documents} in 4 days, {a_day:.1f} MiB")
    assert a_day <= most


@pytest.mark.parametrize(
    "case", ["kernel", "own readings", "learned length scales", "learned days"]
)
def test_auto_of_54_sensors_writes_8_mib_a_day(case):
    parameters = {"length_scale": "learned"} if "scales" in case else {}
    if case == "own readings":
        field = with_model(LAB, prior_structure(LAB.kernel, 300.0))
    else:
        field = learned() if case == "learned days" else LAB
    sizes = a_day_of("auto", parameters, field)
    print(f"auto, {case}: {max(sizes) / KIB:.1f} KiB, {sum(sizes) / MIB:.2f} MiB a day")
    assert sum(sizes) <= 8 * MIB
    assert len(sizes) >= DAY // 900  # documents, or entries of the journal


def test_master_writes_10_mib_a_day():
    assert sum(a_day_of("master-gp-ucb", {})) <= 10 * MIB


# --- real daemons -------------------------------------------------------------------------------


@pytest.fixture
def make(tmp_path, mosquitto, peer):
    """Return a function that makes gateways by name, all at one broker."""
    broker = mosquitto()
    broker.start()
    made = []

    def gateway(name):
        directory = tmp_path / name
        directory.mkdir()
        made.append(Gateway(directory, broker.port, peer, name))
        return made[-1]

    yield gateway
    for each in made:
        each.close()


@pytest.fixture
def gateway(make):
    return make("k")


class Killer:
    """Kills the daemons of one gateway, in each phase of their lives, at random moments."""

    def __init__(self, gateway, seed):
        self._gateway = gateway
        self._draft = Path(f"{gateway.state}.new")
        self._chance = Random(seed)
        self._starting = 2.0  # s from the start of a daemon until it is ready, the last time
        self.at_work = 0  # daemons that had begun
        self.torn = 0  # killed with a document half written
        self.lost = 0  # activations, at most, after what was stored last
        self.replayed = 0  # daemons that have read a journal

    def kill(self, times):
        """Kill so many, and check after each that it had begun well and what it left."""
        moments = (self._in_its_start, self._at_work, self._in_a_checkpoint)
        for _ in range(times):
            before = stamp(self._draft)
            self._gateway.start()
            self._chance.choice(moments)()
            assert self._gateway.process.poll() is None, self._gateway.log_text()
            self._gateway.kill()
            self.torn += stamp(self._draft) not in (None, before)
            self._look()
        return self

    def _look(self):
        self._gateway.wait_for_sensors()
        text = self._gateway.log_text()
        assert "Traceback" not in text
        assert "cannot be used" not in text
        self.replayed += "read from the event journal" in text
        assert "event journal cannot be used for" not in text
        if "ready:" in text:
            self.at_work += 1
            stored = self._gateway.stored_until()
            lost = sum(at > stored for _, at in self._gateway.activations)
            self.lost = max(self.lost, lost)

    def _in_its_start(self):
        time.sleep(self._chance.uniform(0.0, 1.1 * self._starting))

    def _at_work(self):
        began = time.monotonic()
        self._gateway.wait_for_log("ready:")
        self._starting = time.monotonic() - began
        time.sleep(self._chance.uniform(0.0, 2.2 * PERIOD))

    def _in_a_checkpoint(self):
        for _ in range(self._chance.randint(1, 3)):
            before, deadline = stamp(self._draft), time.monotonic() + 60.0
            while stamp(self._draft) in (None, before):
                assert time.monotonic() < deadline, self._gateway.log_text()
                time.sleep(0.0002)
        time.sleep(self._chance.uniform(0.0, 0.001))


def stamp(path):
    """Return what identifies the present draft, or None without one."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def killed(gateways, times, seed):
    """Kill so many daemons of all gateways, one of each at a time; say how it went."""
    has_journal = gateways[0].program != Gateway.program
    with ThreadPoolExecutor(len(gateways)) as pool:
        killers = [Killer(each, seed + n) for n, each in enumerate(gateways)]
        killers = list(pool.map(lambda each: each.kill(times // len(gateways)), killers))
    for each in gateways:
        each.start()
        each.wait_for_log("ready:")  # all earlier kills may have come before the first checkpoint
        if has_journal:
            each.kill_with_journal()
        else:
            each.kill()
        each.start()
        each.wait_for_activations()
        assert "state: restored from" in each.log_text()
        assert ("read from the event journal" in each.log_text()) is has_journal
        each.stop()
        each.assert_never_twice()
    at_work, torn = sum(each.at_work for each in killers), sum(each.torn for each in killers)
    lost = max(each.lost for each in killers)
    assert at_work >= times / 4
    replayed = sum(each.replayed for each in killers)
    # All events are stored until the journal is full.
    assert lost <= (4 if has_journal else 1) * PERIOD / INTERVAL + 1
    intervals = sum(len(each.activations) for each in gateways)
    return (
        f"{times} kills, {at_work} at work, {torn} with a document half written, {replayed} starts "
        "with a journal; "
        f"{intervals} intervals, none twice; lost {lost} of them at most, of a {PERIOD:g} s period"
    )


@pytest.mark.timeout(600)
def test_killed_at_15_random_moments_it_starts_and_never_acts_twice(make):
    print(killed([make("k0"), make("k1"), make("k2")], 15, seed=5))


@pytest.mark.timeout(600)
def test_killed_at_15_random_moments_with_a_journal_it_starts_and_never_acts_twice(make):
    print(killed(with_journal([make("k0"), make("k1"), make("k2")]), 15, seed=7))


def with_journal(gateways):
    for each in gateways:
        each.program = (sys.executable, "-c", WITH_JOURNAL)
    return gateways


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_killed_at_1000_random_moments_it_starts_and_never_acts_twice(make, record_property):
    record_property("measured", killed([make("k0"), make("k1")], 1000, seed=6))


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_killed_at_1000_random_moments_with_a_journal_it_never_acts_twice(make, record_property):
    record_property("measured", killed(with_journal([make("k0"), make("k1")]), 1000, seed=8))


def test_a_second_daemon_on_the_same_state_ends_and_names_the_first(gateway):
    gateway.start()
    gateway.wait_for_log("ready:")
    os.kill(gateway.process.pid, signal.SIGHUP)
    gateway.wait_for_log("reload: done")
    second = program("run", str(gateway.config))
    assert second.returncode == 78
    assert f"process {gateway.process.pid}" in second.stderr
    assert str(gateway.state.parent) in second.stderr
    gateway.kill()
    gateway.start()
    gateway.wait_for_activations()
    gateway.stop()
    gateway.assert_never_twice()


def test_a_reload_to_a_state_in_use_changes_nothing(make):
    one, other = make("k0"), make("k1")
    for each in (one, other):
        each.start()
        each.wait_for_log("ready:")
    one.configure(dir=str(other.state.parent))
    one.config.write_text(one.config.read_text().replace('instance = "k0"', 'instance = "k1"'))
    os.kill(one.process.pid, signal.SIGHUP)
    one.wait_for_log("reload: nothing is changed", f"process {other.process.pid}")
    for each in (one, other):
        each.wait_for_activations()
        each.stop()
        each.assert_never_twice()


def test_the_last_line_of_the_log_says_that_the_daemon_has_stopped(gateway):
    """The count of a warning's repeats is not logged at the end."""
    pytest.importorskip("prometheus_client")
    port = free_port()
    gateway.configure(extra=f"[metrics]\nport = {port}\n")
    gateway.start()
    gateway.wait_for_log("metrics: http")
    for _ in range(3):
        request = Request(f"http://127.0.0.1:{port}/metrics", headers={"Host": "evil.example"})
        with pytest.raises(HTTPError, match="421"):
            urlopen(request, timeout=20)
    gateway.stop()
    lines = gateway.log_text().splitlines()
    assert lines[-1].endswith("INFO stopped")
    assert len([line for line in lines if "refused because of its host name" in line]) == 1


def test_with_a_file_size_limit_it_decides_and_logs_it(gateway):
    """As on a full disk; the log is a file too, but shorter than this policy's state."""
    gateway.configure(policy="auto")
    gateway.start_with_small_files(4000)
    gateway.wait_for_activations(15)
    gateway.stop()
    assert gateway.log_text().count("state: cannot be stored") == 1
    assert not gateway.stored_state().final  # stored before the state exceeded the limit
    gateway.assert_never_twice()


def test_with_an_empty_dir_setting_it_never_writes(gateway, tmp_path):
    gateway.configure(dir="")
    before = set(tmp_path.rglob("*"))
    gateway.start()
    gateway.wait_for_activations(12)
    gateway.stop()
    assert set(tmp_path.rglob("*")) == before | {gateway.log}
    assert "state:" not in gateway.log_text()


# --- SIGHUP and SIGUSR1 -------------------------------------------------------------------------


def test_a_reload_of_an_invalid_configuration_changes_nothing_and_logs_every_error(gateway):
    gateway.start()
    gateway.wait_for_activations()
    good = gateway.config.read_text()
    gateway.config.write_text(good.replace("200ms", "200").replace("[state]", "[stat]"))
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait(lambda: "nothing is changed" in gateway.log_text())
    wrong = [each for each in gateway.log_text().splitlines() if f"{gateway.config}:" in each]
    assert [":6:" in wrong[0], "stat is not a setting" in wrong[0]] == [True, True]
    assert [":10:" in wrong[1], "fields.lab.interval" in wrong[1]] == [True, True]
    gateway.wait_for_activations()
    gateway.stop()
    gateway.assert_never_twice()


def test_a_reload_of_a_valid_configuration_keeps_the_model_and_the_schedule(gateway, peer):
    selected = "edge_tvbo/k/lab/selected"
    watcher = peer(gateway.port, selected)

    def observations():
        decisions = [json.loads(each) for each in watcher.on(selected)]
        return decisions[-1]["model"]["observations"] if decisions else 0

    gateway.start()
    gateway.wait(lambda: observations() >= 5)
    text = gateway.config.read_text()
    gateway.config.write_text(text.replace('"tv-gp-ucb"', '"tv-gp-ucb", beta = 4.0'))
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait(lambda: "reload: done" in gateway.log_text())
    assert "field lab starts without readings" not in gateway.log_text()
    gateway.process.send_signal(signal.SIGUSR1)
    gateway.wait(lambda: "status: lab: interval" in gateway.log_text())
    (line,) = [line for line in gateway.log_text().splitlines() if "status: lab: interval" in line]
    readings = int(line.partition("tv-gp-ucb with ")[2].split()[0])
    assert readings >= 5
    gateway.wait_for_activations()
    gateway.stop()
    gateway.assert_never_twice()


def test_a_reload_to_another_policy_resets_logs_it_and_continues_the_numbers(gateway):
    gateway.start()
    gateway.wait_for_activations(4)
    gateway.configure(policy="et-gp-ucb")
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait(lambda: "reload: done" in gateway.log_text())
    assert (
        "reload: the field lab starts without readings: The snapshot is of 'tv-gp-ucb'"
        in gateway.log_text()
    )
    gateway.wait_for_activations()
    gateway.stop()
    gateway.assert_never_twice()


def test_many_reloads_and_status_dumps_leave_nothing_behind(gateway, peer):
    watcher = peer(gateway.port, "edge_tvbo/k/status")
    gateway.start()
    gateway.wait_for_activations()

    def sessions():  # the log says what repeats itself only once
        return watcher.on("edge_tvbo/k/status").count(b"online")

    before = gateway.descriptors()
    for n in range(10):
        gateway.process.send_signal(signal.SIGHUP)
        gateway.wait(lambda n=n: sessions() == n + 2)
        gateway.process.send_signal(signal.SIGUSR1)
    gateway.wait_for_activations()
    gateway.wait(lambda: gateway.descriptors() <= before + 4)  # 3 are of the reading database
    gateway.wait_for_log("thread(s),", "MiB resident", "status: lab: ")
    gateway.stop()
    gateway.assert_never_twice()
