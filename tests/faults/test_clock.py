"""The wall clock of a running daemon is set, as by NTP, by a person, or after a start in 1970.

A test may not set this machine's clock, so the daemon's `time.time` is replaced: `MOVED` returns
the real time plus the number of seconds that the test writes to a file. Everything else is real:
the process, the broker, and the monotonic clock.
"""

import json
import mmap
import os
import re
import signal
import struct
import time
from datetime import UTC, datetime
from itertools import count
from zoneinfo import ZoneInfo

import pytest
from support.gateway import Gateway

INTERVAL = 1.0  # s
NUMBERS = count()  # of gateways: what one had retained is no other's
WITHIN = 0.05  # s of the grid
MAX_DATE_ERROR_S = 600.0  # far less than each step of the clock, and longer than each test
DAY = 86_400.0
BERLIN = ZoneInfo("Europe/Berlin")
SUMMER = datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp()  # when Berlin's clocks are put forward
WINTER = datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp()  # ... and back
MOVED = """\
import mmap, os, struct, time
with open(os.environ["TEST_CLOCK"], "rb") as file:
    _ahead = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
_time = time.time
time.time = lambda: _time() + struct.unpack("d", _ahead)[0]
"""
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")

pytestmark = pytest.mark.timeout(300)


class Machine(Gateway):
    """A gateway whose wall clock the test sets, and sensors that stamp their readings."""

    def __init__(self, directory, port, peer, *, ahead=0.0, stamp=float, reading="", zone="UTC"):
        (directory / "sitecustomize.py").write_text(MOVED)
        path = directory / "forward"
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._file = mmap.mmap(file.fileno(), 8)
        self.set_ahead(ahead)
        self._environment = os.environ | {
            "PYTHONPATH": str(directory),
            "TEST_CLOCK": str(path),
            "TZ": zone,
        }
        self._reading = reading
        self._stamp = stamp  # from the wall time to what a sensor writes
        self.arrived = []  # monotonic, of each activation
        super().__init__(directory, port, peer, f"clock-{next(NUMBERS)}")
        self.world = peer(port, f"edge_tvbo/{self.name}/#")

    def configure(self, *, extra="", **changes):
        super().configure(interval="1s", policy="et-gp-ucb", **changes)
        text = self.config.read_text()
        for before, after in (
            ('reply_timeout = "100ms"', 'reply_timeout = "950ms"\nmax_age = "60s"'),
            ('/t" }', f'/t", payload = "json", value = "t", time = "ts"{self._reading} }}'),
        ):
            assert before in text
            text = text.replace(before, after)
        self.config.write_text('health = "1s"\n' + text + extra)

    def boot(self):
        self.start(env=self._environment)
        self.wait_for_activations()

    # --- its clock ------------------------------------------------------------------------------

    def set_ahead(self, seconds):
        """Set the wall clock so far ahead of this machine's."""
        self.ahead = seconds
        struct.pack_into("d", self._file, 0, seconds)

    def wall(self):
        return time.time() + self.ahead

    # --- its sensors ----------------------------------------------------------------------------

    def _answer(self, client, userdata, message):
        self.arrived.append(time.monotonic())  # first: `_shift` pairs them in another thread
        self.activations.append(json.loads(message.payload))
        reading = {"t": 20.0, "ts": self._stamp(self.wall())}
        client.publish(message.topic.replace("/go", "/t"), json.dumps(reading))

    # --- what is seen of it ---------------------------------------------------------------------

    def on(self, topic):
        return self.world.documents(f"edge_tvbo/{self.name}/{topic}")

    def assert_undisturbed(self, step, by=0.0):
        """Check that activations came as if the clock had not been set by `by` at index `step`.

        They say themselves when they were due; when they come depends on how busy the machine is.
        So the most punctual ones before and after `step` are compared. A daemon that stands still
        for more than an interval skips a number.
        """
        self.wait(lambda: abs(self._shift(step)) < WITHIN)
        activations = list(self.activations)
        numbers = [number for number, _ in activations]
        assert numbers == sorted(set(numbers))
        due = [at - n * INTERVAL - by * (i >= step) for i, (n, at) in enumerate(activations)]
        off = max(due) - min(due)
        print(
            f"due within {1e3 * off:.1f} ms of the grid; came {1e3 * self._shift(step):.1f} ms off"
        )
        assert off < WITHIN
        events = {each["event"] for each in self.on("lab/event")}
        assert events <= {"sensor-lost", "sensor-back"}  # if the test stood still
        assert self.on("lab/selected")[-1]["model"]["resets"] == 0

    def _shift(self, step):
        """Return how much later activations come since index `step`, in s."""
        numbers = [number for number, _ in self.activations]
        came = [at - n * INTERVAL for n, at in zip(numbers, self.arrived, strict=False)]
        return min(came[step:]) - min(came[:step])

    def assert_dated(self, since):
        """Check that decisions from interval `since` on are dated by the clock as it is now."""
        decisions = [each for each in self.on("lab/selected") if each["interval"] >= since]
        assert decisions
        for decision in decisions:
            assert RFC3339.fullmatch(decision["at"])
            at = datetime.fromisoformat(decision["at"]).timestamp()
            assert abs(at - self.wall()) < MAX_DATE_ERROR_S


@pytest.fixture
def machine(broker, peer, tmp_path):
    """Return a function that makes gateways."""
    made = []

    def make(**options):
        made.append(Machine(tmp_path, broker.port, peer, **options))
        return made[-1]

    yield make
    for each in made:
        if each.process and each.process.poll() is None:
            each.kill()


@pytest.mark.parametrize(("by", "way"), [(3 * 3600.0, "forward"), (-2 * DAY, "back")])
def test_a_clock_step_moves_no_activation_and_is_reported_once(machine, by, way):
    gateway = machine()
    gateway.boot()
    gateway.wait_for_activations(4)
    step = len(gateway.activations)
    known = gateway.on("lab/selected")[-1]["model"]["observations"]
    gateway.set_ahead(by)
    on_their_way = len(gateway.activations) - known  # usually 1; these readings have the old time
    gateway.wait_for_activations(6)
    gateway.wait(lambda: gateway.on("event"))
    gateway.assert_undisturbed(step, by)
    gateway.assert_dated(gateway.activations[step + 1][0])
    gateway.stop()
    (event,) = gateway.on("event")
    assert event["event"] == "clock-step"
    assert f"set {way} by {abs(by):.1f} s" in event["text"]
    assert gateway.log_text().count("clock-step") == 1
    refused = gateway.on("health")[-1]["fields"]["lab"]["refused"]
    assert sum(refused.values()) <= on_their_way, refused


def local(wall):
    """Return the local time in Berlin without its zone."""
    return datetime.fromtimestamp(wall, BERLIN).replace(tzinfo=None).isoformat()


@pytest.mark.parametrize(
    ("change", "stamp", "reading"),
    [(SUMMER, local, ', timezone = "Europe/Berlin"'), (WINTER, float, "")],
)
def test_a_change_to_or_from_summer_time_has_no_effect(machine, change, stamp, reading):
    options = {"stamp": stamp, "reading": reading, "zone": "Europe/Berlin"}
    for margin in (12.0, 30.0, 60.0):  # s from the start to the change
        gateway = machine(ahead=change - time.time() - margin, **options)
        gateway.boot()
        if gateway.wall() < change - 2 * INTERVAL:
            break
        gateway.stop()
    assert gateway.wall() < change, "the start took too long"
    gateway.wait(lambda: gateway.wall() > change)
    step = len(gateway.activations)
    gateway.wait_for_activations(4)
    gateway.assert_undisturbed(step)
    gateway.assert_dated(0)
    gateway.stop()
    assert gateway.on("event") == []
    assert gateway.on("health")[-1]["fields"]["lab"]["refused"] == {}


def true(wall):
    """Return the true time as ISO 8601, independent of the daemon's clock."""
    return datetime.now(UTC).isoformat()


def test_with_a_clock_in_1970_it_decides_and_is_synced_once(machine):
    gateway = machine(ahead=-time.time() + 5.0, stamp=true)
    gateway.boot()
    gateway.wait_for_activations(4)
    step = len(gateway.activations)
    assert gateway.on("lab/selected")[0]["at"].startswith("1970-01-01T00:00:")
    gateway.wait(lambda: gateway.on("health"))
    gateway.wait(lambda: gateway.on("health")[-1]["fields"]["lab"]["answered"] >= 4)
    assert not any(each["clock_synced"] for each in gateway.on("health"))
    by = -gateway.ahead
    gateway.set_ahead(0.0)
    gateway.wait(lambda: gateway.on("health")[-1]["clock_synced"])
    gateway.wait_for_activations(6)
    gateway.assert_undisturbed(step, by)
    gateway.assert_dated(gateway.activations[-5][0])
    gateway.stop()
    assert [each["event"] for each in gateway.on("event")] == ["clock-synced"]
    synced = [each["clock_synced"] for each in gateway.on("health")]
    assert synced == sorted(synced)
    last = gateway.on("health")[-1]["fields"]["lab"]
    assert last["refused"] == {}
    blamed = {each["sensor"] for each in gateway.on("lab/event")}  # while the test stood still
    assert set(last["suspects"]) <= blamed


def test_a_successful_reload_is_an_event_and_a_rejected_one_is_not(machine):
    gateway = machine()
    gateway.boot()
    good = gateway.config.read_text()
    gateway.config.write_text(good.replace("1s", "1"))
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait_for_log("nothing is changed")
    gateway.config.write_text(good)
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait_for_log("reload: done")
    gateway.wait(lambda: gateway.on("event"))
    gateway.stop()
    (event,) = gateway.on("event")
    assert (event["event"], event["text"]) == ("reload", "done; the fields are lab")
