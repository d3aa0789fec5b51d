"""A year in an afternoon: the real daemon and a real mosquitto, with a clock that runs fast.

The clock runs thousands of times as fast as real time. The year 2028 has a leap day, and the
sensors date their readings in the local time of Berlin, with its two changes of clocks. In the
year, the broker is upgraded three times, certificates are renewed twice, the disk is full for a
week, and forty sensors fail: they are silent, are stuck or drift, and recover. The test measures
what a leak would increase from month to month: memory, descriptors, threads, files and the time of
a decision.
"""

import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import cycle, pairwise
from math import nan, pi, sin
from operator import itemgetter
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from support import certificates
from support.gateway import Daemon
from support.mosquitto import stop
from support.ports import free_port

SPEED = float(os.environ.get("EDGE_TVBO_YEAR_SPEED", "10800"))  # simulated s in one s
HOUR, DAY, MIB = 3600.0, 86_400.0, 1024**2
BERLIN = ZoneInfo("Europe/Berlin")
SENSORS = [f"s{n}" for n in range(24)]
DISK = 48 * MIB
NOT_STORED = "the state cannot be stored"
MONTHS = 12  # twelfths of a run
MAX_FILE_SIZE = 16 * MIB  # of the history, and of the record of readings
STARTS_WITHIN_S = 10.0
REPORT_PERIOD = 6 * HOUR  # of each sensor, without being activated
CONFIG = """\
instance = "year"
health = "1s"
[mqtt]
host = "127.0.0.1"
port = {port}
reconnect = {{ min = "100ms", max = "300ms" }}
[mqtt.tls]
ca = "trusted.pem"
certificate = "edge.pem"
key = "edge.key"
[state]
dir = "{state}"
checkpoint = "1s"
history = "16MiB"
readings = "16MiB"
[fields.hall]
interval = "{interval:g}s"
reply_timeout = "{timeout:g}s"
policy = {{ name = "auto" }}
kernel = {{ name = "matern-5/2", length_scale = 6.0, variance = 9.0, noise_variance = 0.05, \
mean = 20 }}
sensors = {sensors}
max_rate = 1000
reading = {{ topic = "hall/{{sensor}}/t", payload = "json", value = "t", time = "ts", \
timezone = "Europe/Berlin" }}
activate = {{ mode = "live", topic = "hall/{{sensor}}/go", payload = '[{{interval}}, {{at}}]' }}
[fields.hall.positions]
{positions}
"""
FAST = """\
import time
from edge_tvbo.cli import main
from edge_tvbo.daemon import app
from edge_tvbo.daemon.clock import LiveClock
from edge_tvbo.daemon.loop import Loop
from edge_tvbo.messages.events import IntervalElapsed

SPEED, OFFSET = {speed}, {offset}

class FastClock(LiveClock):
    speed = SPEED
    def __init__(self):
        super().__init__()
        self._offset = OFFSET
    def elapsed(self):
        return time.monotonic() * SPEED
    def resync(self):
        return 0.0
    def is_stepped(self):
        return False
    def catch_up(self, due, interval):
        return 1 + max(0, int((self.elapsed() - due) // interval))

handle, times = Loop._handle, open({times!r}, "w", buffering=1)

def timed(self, field, event):
    began = time.thread_time()
    handle(self, field, event)
    if isinstance(event, IntervalElapsed):
        print(event.at, event.intervals, 1e3 * (time.thread_time() - began), file=times)

Loop._handle = timed
app.LiveClock = FastClock
app.MAX_CONNECT_TIME_S *= SPEED
main()
"""


class Plan(NamedTuple):
    """Length and speed of a run; its events are at fixed fractions of its length."""

    start: datetime
    days: float
    interval: float  # s
    failures: int
    speed: float  # simulated s in one s

    @property
    def first(self):
        return self.start.timestamp()

    @property
    def last(self):
        return self.first + self.days * DAY

    def at(self, fraction):
        return self.first + fraction * self.days * DAY


YEAR = Plan(datetime(2028, 1, 1, tzinfo=UTC), 365.0, 1800.0, 40, SPEED)
SPRING = Plan(datetime(2028, 2, 27, tzinfo=UTC), 30.0, 3 * HOUR, 4, 86_400.0)
UPGRADES = {  # when, and what the new version of the broker's configuration adds
    0.15: "max_packet_size 65536\n",
    0.45: "max_packet_size 65536\ntls_version tlsv1.3\n",
    0.80: "max_inflight_messages 10\nsys_interval 1\n",
}
RENEWALS = {0.30: "ca", 0.60: "ca-2"}  # when, and the authority from then on
FULL_DISK = 0.68, 0.70


class Failure(NamedTuple):
    """Failure of one sensor from `first` to `last`."""

    sensor: str
    kind: str  # "silent", "stuck" or "drifting"
    first: float  # s since 1970
    last: float


def failures(plan, chance):
    """Return failures over the whole run, each a few hundredths of it long."""
    every = plan.days * DAY / (plan.failures + 1)
    made = []
    for number in range(plan.failures):
        first = plan.first + (number + chance.uniform(0.6, 1.0)) * every
        kind = ("silent", "stuck", "drifting")[number % 3]
        sensor = chance.choice(SENSORS)
        made.append(Failure(sensor, kind, first, first + chance.uniform(0.4, 1.2) * every))
    return made


def value(sensor, at):
    """Return the temperature at a sensor: a season, a day, and a warm place that moves."""
    n = SENSORS.index(sensor)
    x, y = n % 6, n // 6
    season, day = 6 * sin(2 * pi * at / (365 * DAY)), 3 * sin(2 * pi * at / DAY + x / 2)
    return 20 + season + day + 2 * sin(at / (9 * DAY) + x) + sin(at / (4 * DAY) + 2 * y)


class Hall:
    """The sensors: they reply, report by themselves, and fail as planned."""

    def __init__(self, port, plan, broken, offset):
        self.said = []  # numbers of the intervals, in the order of the activations
        self.notices = Counter()
        self.problems = set()
        self.health = None
        self._plan, self._broken, self._offset = plan, broken, offset
        self._chance = Random(1)
        self._client = Client(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(1, 1)
        self._client.on_connect = lambda client, *_: client.subscribe(
            [("hall/+/go", 1), ("edge_tvbo/year/#", 1)]
        )
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def now(self):
        return time.monotonic() * self._plan.speed + self._offset

    def report(self, sensor):
        """Publish a reading of a sensor, dated in local time, unless the sensor is silent."""
        at = self.now()
        reading = value(sensor, at) + self._chance.gauss(0, 0.2)
        for each in self._broken:
            if each.sensor == sensor and each.first <= at < each.last:
                match each.kind:
                    case "silent":
                        return
                    case "stuck":
                        reading = value(sensor, each.first)
                    case "drifting":
                        reading += 2 * (at - each.first) / DAY
        local = datetime.fromtimestamp(at, BERLIN).replace(tzinfo=None)
        payload = json.dumps({"t": round(reading, 3), "ts": local.isoformat()})
        self._client.publish(f"hall/{sensor}/t", payload, qos=1)

    def _on_message(self, client, userdata, message):
        match message.topic.split("/"):
            case ["hall", sensor, "go"]:
                self.said.append(json.loads(message.payload)[0])
                self.report(sensor)
            case [*_, "event"] if not message.retain:
                self.notices[json.loads(message.payload)["event"]] += 1
            case [*_, "health"]:
                self.health = json.loads(message.payload)
                self.problems.add(self.health["problem"])

    @property
    def field(self):
        return self.health["fields"]["hall"]

    def close(self):
        stop(self._client)


class Sample(NamedTuple):
    """Resources of the daemon at one time."""

    at: float
    resident: float  # MiB
    descriptors: int
    threads: int
    state: float  # KiB
    history: float  # KiB, with the WAL
    readings: float  # KiB, with the WAL


class Site:
    """A daemon, its broker, its certificates and its disk."""

    def __init__(self, directory, broker, plan):
        self.directory, self.broker, self.plan = directory, broker, plan
        self.port = free_port()
        self.samples = []
        self.state = directory / "state"
        self.state.mkdir()
        certificates.authority(directory, "ca")
        certificates.authority(directory, "ca-2")
        self.renew("ca")
        self._upgrade = ""
        self.daemon = Daemon(directory)
        places = "\n".join(f"{s} = [{n % 6 * 5}, {n // 6 * 5}]" for n, s in enumerate(SENSORS))
        text = CONFIG.format(
            port=self.port,
            state=self.state,
            interval=plan.interval,
            timeout=0.9 * plan.interval,
            sensors=json.dumps(SENSORS),
            positions=places,
        )
        self.daemon.config.write_text(text)
        self.times = directory / "times"
        # The daemon and the sensors compute the same time from the same monotonic clock.
        offset = plan.first - (time.monotonic() + STARTS_WITHIN_S) * plan.speed
        self.start_broker()
        self.hall = Hall(broker.port, plan, failures(plan, Random(17)), offset)
        self._by = FAST.format(speed=plan.speed, offset=offset, times=str(self.times))

    def start(self):
        self.daemon.start(by=(sys.executable, "-c", self._by))
        self.wait_for_activation()

    def wait_for_activation(self):
        """Wait until the sensors receive one more activation."""
        before = len(self.hall.said)
        self.daemon.wait(lambda: len(self.hall.said) > before)

    def close(self):
        self.daemon.close()
        self.hall.close()

    # --- certificates and brokers -----------------------------------------------------------------

    def renew(self, ca):
        """Make new certificates of the broker and the daemon, signed by `ca`."""
        names = "DNS:localhost,IP:127.0.0.1"
        certificates.certificate(self.directory, "broker", ca=ca, names=names)
        certificates.certificate(self.directory, "edge", ca=ca, names="DNS:edge")
        both = [(self.directory / f"{each}.pem").read_bytes() for each in ("ca", "ca-2")]
        (self.directory / "trusted.pem").write_bytes(b"".join(both))

    def start_broker(self):
        files = {"cafile": "trusted.pem", "certfile": "broker.pem", "keyfile": "broker.key"}
        lines = [f"{key} {self.directory / name}\n" for key, name in files.items()]
        self.broker.extra = (
            f"allow_anonymous true\nlistener {self.port} 127.0.0.1\n{''.join(lines)}"
            f"require_certificate true\n{self._upgrade}"
        )
        self.broker.start()

    def upgrade(self, settings):
        """Stop the broker, and start it after two hours with other settings."""
        self._upgrade = settings
        self.broker.stop()
        time.sleep(2 * HOUR / self.plan.speed)
        self.start_broker()
        self.wait_for_activation()

    def renew_and_reload(self, ca):
        """Renew the certificates; the broker and the daemon use them after their reloads."""
        before, reloads = self._served(), self.hall.notices["reload"]
        self.renew(ca)
        os.kill(self.broker.pid, signal.SIGHUP)
        self.daemon.wait(lambda: self._served() != before)
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.wait(lambda: self.hall.notices["reload"] > reloads)
        self.wait_for_activation()

    def _served(self):
        return ssl.get_server_certificate(("127.0.0.1", self.port))

    # --- the disk ---------------------------------------------------------------------------------

    @contextmanager
    def small_disk(self):
        """Mount a small disk for the state; yield whether that was allowed."""
        options = ["-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(self.state)]
        allowed = not subprocess.run(["mount", *options], capture_output=True).returncode
        try:
            yield allowed
        finally:
            if allowed:
                subprocess.run(["umount", str(self.state)], check=True)

    def fill_disk(self):
        """Fill the disk until the daemon says that it cannot store its state.

        A draft that is being written now makes room for the next one when it is renamed.
        """
        self.daemon.wait(lambda: self._fill() or NOT_STORED in str(self.hall.problems))

    def _fill(self):
        with suppress(OSError), (self.state / "other").open("ab", buffering=0) as file:
            while file.write(bytes(4096)):
                pass

    def empty_disk(self):
        """Empty the disk, and wait until the daemon has stored its state."""
        (self.state / "other").unlink()
        self.daemon.wait(lambda: NOT_STORED not in str(self.hall.health["problem"]))

    # --- measuring --------------------------------------------------------------------------------

    def measure(self):
        daemon = self.daemon

        def kib(*names):
            paths = [self.state / f"year.{each}" for each in names]
            return sum(each.stat().st_size for each in paths if each.exists()) / 1024

        self.samples.append(
            Sample(
                self.hall.now(),
                daemon.resident() / MIB,
                daemon.descriptors(),
                daemon.threads(),
                kib("state"),
                kib("history.db", "history.db-wal"),
                kib("readings.db", "readings.db-wal"),
            )
        )


# --- the run --------------------------------------------------------------------------------------


def live(site, disk):
    """Let a daemon live through the plan, with a full disk if `disk` is a small one."""
    plan, hall = site.plan, site.hall
    events = [(plan.at(n / (4 * MONTHS)), site.measure) for n in range(1, 4 * MONTHS + 1)]
    for when, settings in UPGRADES.items():
        events.append((plan.at(when), partial(site.upgrade, settings)))
    for when, ca in RENEWALS.items():
        events.append((plan.at(when), partial(site.renew_and_reload, ca)))
    if disk:
        acts = site.fill_disk, site.empty_disk
        events += zip(map(plan.at, FULL_DISK), acts, strict=True)
    reports = np.arange(plan.first, plan.last, REPORT_PERIOD / len(SENSORS)).tolist()
    events += zip(reports, (partial(hall.report, each) for each in cycle(SENSORS)), strict=False)
    site.start()
    for at, act in sorted(events, key=itemgetter(0)):
        time.sleep(max(0.0, (at - hall.now()) / plan.speed))
        assert site.daemon.process.poll() is None, site.daemon.log_text()[-5000:]
        act()


class Month(NamedTuple):
    """Resources and decisions of a twelfth of the run; a resource is the highest of 4 samples."""

    decisions: int
    skipped: int  # intervals that the daemon was too late to begin
    resident: float  # MiB
    descriptors: float
    threads: float
    state: float  # KiB
    history: float  # KiB
    readings: float  # KiB
    p50: float  # ms of processor time for a decision
    p99: float


def months(site):
    """Yield the twelfths of the run; the times of a month in which nothing was decided are NaN."""
    at, intervals, work = np.loadtxt(site.times, ndmin=2).T
    twelfth = np.floor(MONTHS * (at - site.plan.first) / (site.plan.last - site.plan.first))
    samples = np.array(site.samples).reshape(MONTHS, 4, -1).max(1)
    for month in range(MONTHS):
        ours = twelfth == month
        skipped = int((intervals[ours] - 1).sum())
        p50, p99 = np.quantile(work[ours], [0.5, 0.99]) if ours.any() else (nan, nan)
        yield Month(int(ours.sum()), skipped, *samples[month, 1:], p50, p99)


def table(rows):
    """Return months as a Markdown table."""
    lines = [
        "| month | decisions | skipped | RSS, MiB | descriptors | threads | state, KiB |"
        " history, KiB | readings, KiB | p50, ms | p99, ms |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for number, row in enumerate(rows, 1):
        counts, files = f"{row.decisions} | {row.skipped}", row[5:8]
        lines.append(
            f"| {number} | {counts} | {row.resident:.1f} | {row.descriptors:.0f} |"
            f" {row.threads:.0f} | {' | '.join(f'{each:.0f}' for each in files)} |"
            f" {row.p50:.2f} | {row.p99:.2f} |"
        )
    return "\n".join(lines)


def lived(directory, broker, plan, record_property):
    """Run the plan, check what must hold at any speed, and return the months."""
    site = Site(directory, broker, plan)
    with site.small_disk() as disk, closing(site):
        live(site, disk)
        site.daemon.stop()
    rows, hall, log = list(months(site)), site.hall, site.daemon.log_text()
    decisions, skipped = (sum(each) for each in list(zip(*rows, strict=True))[:2])
    errors = sum(" ERROR " in line for line in log.splitlines())
    full = "full disk" if disk else "no full disk, for want of the right to mount one"
    record_property(
        "measured",
        f"{24 * plan.days:.0f} hours at {plan.speed:.0f} ×, {len(UPGRADES)} broker upgrades, "
        f"{len(RENEWALS)} renewals, {full}, {plan.failures} sensor failures; {decisions} decisions,"
        f" {skipped} intervals skipped, {len(hall.said)} activations heard, none twice; notices: "
        f"{', '.join(f'{n} {kind}' for kind, n in sorted(hall.notices.items()))}; "
        f"answered {hall.field['answered']}, missed {hall.field['missed']}, rejected "
        f"{hall.field['refused']}; {errors} errors and {len(log) / 1024:.0f} KiB in the log",
    )
    record_property("table", table(rows))
    print(table(rows))
    assert "Traceback" not in log
    at, intervals, _ = np.loadtxt(site.times, ndmin=2).T
    assert intervals[1:].sum() == round((at[-1] - at[0]) / plan.interval)  # decided or skipped
    assert [pair for pair in pairwise(hall.said) if pair[0] >= pair[1]] == []
    assert hall.notices["reload"] == len(RENEWALS)
    assert NOT_STORED in str(hall.problems) or not disk
    assert "cannot be" not in str(hall.health["problem"])
    assert len({row.threads for row in rows}) == 1
    assert max(row.descriptors for row in rows) <= rows[0].descriptors + 2
    assert max(max(row.history, row.readings) for row in rows) <= MAX_FILE_SIZE / 1024
    return rows


@pytest.mark.timeout(300)
def test_a_month_of_spring_with_every_fault_of_a_year(tmp_path, mosquitto, record_property):
    lived(tmp_path, mosquitto(), SPRING, record_property)


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_a_year_in_an_afternoon(tmp_path, mosquitto, record_property):
    rows = lived(tmp_path, mosquitto(), YEAR, record_property)
    assert sum(row.decisions for row in rows) > 0.99 * YEAR.days * DAY / YEAR.interval
    spring, winter = rows[3:6], rows[9:]
    assert np.mean([row.resident for row in winter]) < np.mean([row.resident for row in spring]) + 4
    assert np.mean([row.state for row in winter]) < 1.1 * np.mean([row.state for row in spring])
    assert np.median([row.p99 for row in winter]) < 1.5 * np.median([row.p99 for row in spring])
