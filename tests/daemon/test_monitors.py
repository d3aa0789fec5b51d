"""Status, watchdog and metrics endpoint of a running loop, and across a reload."""

import json
import os
import socket
import time
import urllib.request
from itertools import count

import numpy as np
import pytest
from edge_tvbo_adapters.monitoring.prometheus import open_endpoint
from edge_tvbo_adapters.monitoring.systemd import SystemdNotifier
from support.controllers import controller_settings
from support.mosquitto import TIMEOUT_S
from support.ports import free_port

from edge_tvbo import SensorField, make_policy
from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.config.settings import Metrics
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.loop import Loop
from edge_tvbo.daemon.memory import resident_bytes
from edge_tvbo.daemon.monitors import Monitors
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.daemon.status import (
    MIN_AWAY_S,
    MIN_TIMEOUTS,
    SILENT_AFTER_S,
    StatusCollector,
)
from edge_tvbo.daemon.status_dump import lines
from edge_tvbo.messages.commands import Activate
from edge_tvbo.messages.documents import LinkStatus
from edge_tvbo.messages.events import (
    ActivationRequested,
    DeadlineElapsed,
    IntervalElapsed,
    Reading,
    ResetRequested,
)

EPOCH = 1_000_000.0


class Clock:
    """A clock moved by hand."""

    speed, min_reply_time, now = 1.0, 0.0, 0.0
    is_set = is_synced = counts_as_synced = True

    def resync(self):
        return 0.0

    def is_stepped(self):
        return False

    def elapsed(self):
        return self.now

    def wall(self, elapsed):
        return EPOCH + elapsed

    def catch_up(self, due, interval):
        return 1


class Link:
    """A link without a broker, whose state the test sets."""

    def __init__(self):
        self.online, self.moving = True, True
        self.activations, self.other = {"heat": 0}, {}

    def status(self):
        return LinkStatus(self.activations, **self.other)

    def alive(self, now):
        return self.moving

    def interest(self):
        return None

    def wake_at(self):
        return time.monotonic() + 10

    def service(self, mask, now):
        return ()

    def recall(self, field):
        return ()

    def requests(self):
        return iter(())

    def show(self, field, hotspot):
        pass

    def expect_readings(self, fields):
        pass

    def send(self, field, command):
        pass

    def report(self, health):
        pass


def controller(sensors=2, interval=60.0):
    names = ("a", "b") if sensors == 2 else tuple(f"s{n}" for n in range(sensors))
    field = SensorField(names, 0.5 + 0.5 * np.eye(sensors), noise_variance=0.01)
    timing = {"on_reading": True} if interval is None else {"interval": interval}
    settings = controller_settings(reply_timeout=10, max_age=60, **timing)
    return Controller(make_policy("gp-ucb", field, seed=0), settings)


class Field:
    """One field whose status is collected, with a clock and a link moved by hand."""

    def __init__(self, interval=60.0, sensors=2):
        self.controller, self.link, self.clock = controller(sensors, interval), Link(), Clock()
        self.collector = StatusCollector(self.clock)
        self.collector.attach({"heat": self.controller}, self.link)
        self.collector.service(time.monotonic())

    def happens(self, event):
        for command in self.controller.handle(event):
            self.collector("heat", command)
            self.link.activations["heat"] += self.link.online and isinstance(command, Activate)

    def reads(self, sensor, value):
        at = self.clock.wall(self.clock.now)
        self.happens(Reading(sensor, value, at, at, stamped=True))

    def status(self):
        return self.collector.status().fields["heat"]


# --- status ---------------------------------------------------------------------------------------


def test_the_health_follows_each_decision_and_the_end_of_its_interval():
    """So `edge-tvbo status` shows counters and a decision of the same moment."""
    field = Field()
    idle = field.collector.wake_at()
    field.happens(IntervalElapsed(EPOCH))
    decided = field.collector.wake_at()
    field.collector.service(time.monotonic() + 2.0)
    published = field.collector.wake_at()
    field.reads(field.controller.health().selected, 0.5)
    ended = field.collector.wake_at()

    assert decided < idle and ended < published


def test_texts_of_the_status_have_the_names_of_sensors(monkeypatch):
    names = {"a": "Room a", "b": "Room b"}
    monkeypatch.setattr(ControllerSettings, "sensor_names", names)
    field = Field()
    field.happens(IntervalElapsed(EPOCH))

    assert f"heat: Room {field.controller.health().selected} (" in field.collector.summary()
    assert field.status().names == names


def test_decisions_activations_and_endings_are_counted():
    field = Field()
    field.happens(IntervalElapsed(EPOCH))
    field.reads(field.controller.health().selected, 0.5)
    field.clock.now = 60.0
    field.happens(IntervalElapsed(EPOCH + 60))
    field.happens(DeadlineElapsed(1, EPOCH + 70))

    status = field.status()
    assert (status.decisions, status.activations) == (2, 2)
    assert (status.health.answered, status.health.missed) == (1, 1)
    assert status.endings == {"answered": 1, "missed": 1}


def test_the_health_of_an_interval_is_published_soon_after_its_decision():
    field, reports = Field(), []
    field.link.report = reports.append
    assert field.collector.wake_at() > time.monotonic() + 10

    field.happens(IntervalElapsed(EPOCH))
    field.collector.service(field.collector.wake_at())

    assert field.collector.wake_at() > time.monotonic() + 10
    assert reports[-1].fields["heat"].interval == field.controller.health().interval == 0


def test_an_activation_that_did_not_leave_is_not_counted():
    field = Field()
    field.link.online = False
    field.happens(IntervalElapsed(EPOCH))

    assert (field.status().decisions, field.status().activations) == (1, 0)


def test_the_age_of_the_oldest_unacknowledged_publication_is_in_the_health():
    field = Field()
    field.link.other = {"unacknowledged_s": 12.34}

    assert field.collector.status().health.unacknowledged_s == 12.3


def test_silent_inputs_are_a_problem():
    field = Field()
    assert field.collector.health().problem is None

    field.link.other = {"inputs_silent": True}
    assert "no sensor has sent a message" in field.collector.health().problem


def test_a_second_daemon_is_a_problem_and_this_daemon_stays_healthy():
    """A restart by the watchdog would not end the second daemon."""
    field = Field()
    assert not field.collector.status().second_daemon

    field.link.other = {"second_daemon": "another daemon is running"}
    status = field.collector.status()
    assert status.health.problem == "another daemon is running"
    assert status.second_daemon
    assert status.healthy


def test_the_health_contains_the_id_of_the_process():
    collector = StatusCollector(Clock(), "5f3a9c1e")
    collector.attach({}, Link())

    assert collector.health().process == "5f3a9c1e"


def test_lost_messages_are_counted_over_reloads_and_waiting_messages_are_not():
    """The new link has dropped a notice before it was attached: it took over too many."""
    field, after = Field(), Link()
    field.link.other = {"lost": 3, "queued": 9}
    after.other = {"lost": 1, "queued": 4}
    for _ in range(2):  # a reload, and a failed reload
        field.collector.attach({"heat": field.controller}, after)
        after.other["lost"] += 1
    status = field.collector.status()

    assert (status.lost, status.queued) == (3 + 1 + 2, 4)


def test_messages_that_the_broker_does_not_accept_are_one_problem():
    field = Field()
    left_out = {f"edge_tvbo/k/{name}/posterior": 71_234 for name in "abcdef"}
    field.link.other = {"left_out": left_out}

    assert field.collector.health().problem == (
        "messages are not published, because the broker does not accept them:"
        " edge_tvbo/k/a/posterior (71 kB), edge_tvbo/k/b/posterior (71 kB),"
        " edge_tvbo/k/c/posterior (71 kB) and 3 more; raise the broker's limit for the size of"
        " packets (mosquitto: max_packet_size), or allow the topics in the broker's ACL, and reload"
        " the daemon"
    )


def test_timeouts_in_a_row_are_a_problem_until_a_sensor_replies():
    field = Field(sensors=9)
    for interval in range(MIN_TIMEOUTS):
        assert field.collector.health().problem is None
        field.happens(IntervalElapsed(EPOCH + 60 * interval))
        field.happens(DeadlineElapsed(interval, EPOCH + 60 * interval + 10))

    assert field.collector.health().problem == (
        f"no sensor of heat has replied to the last {MIN_TIMEOUTS} activations"
    )
    field.clock.now = 60.0 * MIN_TIMEOUTS
    field.happens(IntervalElapsed(EPOCH + field.clock.now))
    field.reads(field.controller.health().selected, 0.5)
    assert field.collector.health().problem is None


def test_a_majority_of_unresponsive_sensors_is_a_problem():
    field = Field(sensors=3)
    for interval in range(12):
        now = field.clock.now = 60.0 * interval
        field.happens(IntervalElapsed(EPOCH + now))
        if (selected := field.controller.health().selected) == "s0":
            field.reads(selected, 0.5)
        else:
            field.happens(DeadlineElapsed(interval, EPOCH + now + 10))
            field.reads("s0", 0.5)

    assert sorted(field.controller.health().suspects) == ["s1", "s2"]
    assert "2 of 3 sensors of heat do not respond" in field.collector.health().problem


def test_the_limit_of_faulty_sensors_is_a_problem_until_one_agrees_and_again_later():
    field, noise, intervals = Field(sensors=3), np.random.default_rng(0), count()

    def report_until(faulty, get_value):
        """Let all sensors report, `s0` with values from `get_value`, until these are faulty."""
        while list(field.controller.health().faulty) != faulty:
            now = field.clock.now = 60.0 * next(intervals)
            assert now < 60.0 * 500
            field.happens(IntervalElapsed(EPOCH + now))
            field.reads("s0", get_value())
            field.reads("s1", 0.05 * noise.standard_normal())
            field.reads("s2", 0.05 * noise.standard_normal())

    for _ in range(2):
        report_until(["s0"], lambda: 0.02)
        problem = field.collector.health().problem
        assert problem.startswith("s0 in heat seems to be faulty: ")
        assert problem.endswith(
            "; in heat, while at least a third of the sensors seem to be faulty, faults of other "
            "sensors are not reported; if the sensors are not faulty, reset the model"
        )
        report_until([], lambda: 0.05 * noise.standard_normal())
        assert field.collector.health().problem is None


def test_texts_about_the_sensors_of_a_large_network_are_short():
    field = Field(sensors=30)
    interval = 0
    while len(field.controller.health().suspects) < 30:
        field.happens(IntervalElapsed(EPOCH + 60 * interval))
        field.happens(DeadlineElapsed(interval, EPOCH + 60 * interval + 10))
        interval += 1
    for sensor in range(30):
        field.reads(f"s{sensor}", 1e6)

    health = field.collector.health()
    assert len(health.fields["heat"].implausible) == 30
    assert "s11 in heat sent an implausible reading: " in health.problem
    assert health.problem.endswith("; implausible readings of 18 more sensors")
    dump = [*lines(field.collector.status(), {"heat": field.controller}, {})]
    assert "unresponsive: s0, s1, " in dump[3] and " s11 and 18 more; faulty: none" in dump[3]


def test_the_last_reading_is_shown_until_the_sensor_is_silent():
    field = Field()
    field.reads("a", 0.5)
    field.reads("b", 0.7)
    assert {name: each.value for name, each in field.status().last_readings.items()} == {
        "a": 0.5,
        "b": 0.7,
    }

    field.clock.now = SILENT_AFTER_S - 1
    field.reads("b", 0.8)
    field.clock.now = SILENT_AFTER_S + 1
    assert set(field.status().last_readings) == {"b"}


@pytest.mark.acceptance(17)
def test_an_unresponsive_sensor_is_not_shown():
    field = Field()
    field.reads("a", 0.5)
    field.reads("b", 0.7)
    field.happens(IntervalElapsed(EPOCH))
    for _ in range(3):
        field.happens(ActivationRequested("a", EPOCH))
        field.happens(DeadlineElapsed(0, EPOCH + 10))

    assert set(field.status().last_readings) == {"b"}
    assert field.status().health.suspects == ["a"]


@pytest.mark.parametrize(
    ("interval", "allowed"), [(600.0, 1800.0), (1.0, MIN_AWAY_S), (None, 60), (86400.0, 3600.0)]
)
def test_a_long_absence_of_the_broker_is_unhealthy(interval, allowed, monkeypatch):
    field = Field(interval)
    began = time.monotonic()
    assert field.collector.status().healthy

    field.link.online = False
    field.collector.service(began)
    monkeypatch.setattr(time, "monotonic", lambda: began + allowed - 1)
    assert field.collector.status().healthy
    monkeypatch.setattr(time, "monotonic", lambda: began + allowed + 1)
    status = field.collector.status()
    assert not status.healthy
    assert "the daemon has not been connected to the broker for" in status.reason

    field.link.online = True
    field.collector.service(began)
    assert field.collector.status().healthy
    assert field.collector.status().reconnects == 1


def test_a_stalled_link_is_unhealthy():
    field = Field()
    field.link.moving = False

    assert field.collector.status().reason == "the link to the broker makes no progress"


def test_counts_of_remaining_fields_continue_after_a_reload():
    field = Field()
    field.happens(IntervalElapsed(EPOCH))
    successor = {"heat": controller(), "noise": controller()}
    field.collector.attach(successor, Link())

    fields = field.collector.status().fields
    assert (fields["heat"].decisions, fields["noise"].decisions) == (1, 0)
    assert (fields["heat"].activations, fields["noise"].activations) == (1, 0)
    field.collector.attach(successor, field.link)
    field.collector.attach(successor, field.link)
    assert field.collector.status().fields["heat"].activations == 1
    field.collector.attach({"noise": successor["noise"]}, field.link)
    assert set(field.collector.status().fields) == {"noise"}


def test_counters_do_not_fall_after_a_kill():
    """A counter from the stored state is lower then, and its rate in Prometheus would be wrong."""
    before = Field()
    before.happens(IntervalElapsed(EPOCH))
    before.reads(before.controller.health().selected, 0.5)
    before.happens(Reading("x", 0.5, EPOCH, EPOCH))
    before.happens(ResetRequested(EPOCH))
    after, link = controller(), Link()
    after.restore(before.controller.snapshot())
    health, model = after.health(), after.policy
    assert (health.answered, health.refused, model.resets) == (1, {"unknown-sensor": 1}, 1)

    collector = StatusCollector(Clock())
    collector.attach({"heat": after}, link)
    restarted = collector.status().fields["heat"]
    assert (restarted.endings, restarted.refused, restarted.resets) == ({}, {}, 0)

    before.collector.attach({"heat": after}, link)
    reloaded = before.status()
    assert (reloaded.endings, reloaded.refused) == ({"answered": 1}, {"unknown-sensor": 1})
    assert reloaded.resets == 1


def test_the_memory_of_this_process_is_plausible():
    assert 5e6 < resident_bytes() < 1e10


# --- monitors in the loop -------------------------------------------------------------------------


@pytest.fixture
def systemd(tmp_path):
    """Yield a socket that receives notifications as systemd does, and a notifier for it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.setblocking(False)
        environment = {
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
            "WATCHDOG_USEC": "200000",
            "WATCHDOG_PID": str(os.getpid()),
        }
        yield sock, SystemdNotifier(environment)


def notifications(sock):
    messages = []
    while True:
        try:
            messages.append(sock.recv(4096).decode())
        except BlockingIOError:
            return messages


def loop_of(monitors, port, collector=None):
    clock, link, controllers = Clock(), Link(), {"heat": controller()}
    collector = collector or StatusCollector(clock)
    collector.attach(controllers, link)
    monitors.attach(link.alive, collector.summary)
    monitors.listen(Metrics(port=port), collector.status)
    schedule = Scheduler({"heat": 60.0}, clock, first=0.0)
    services = [collector, monitors]
    return Loop(link, controllers, schedule, clock, observers=[collector], services=services), link


def run_for(loop, seconds):
    until = time.monotonic() + seconds
    loop.run(lambda: time.monotonic() >= until)


def run_until(loop, sock, message, times):
    """Run the loop until so many notifications were sent; return all of them."""
    sent, deadline = [], time.monotonic() + TIMEOUT_S

    def is_over():
        sent.extend(notifications(sock))
        assert time.monotonic() < deadline, sent
        return sent.count(message) >= times

    loop.run(is_over)
    return sent


@pytest.mark.slow
def test_the_loop_notifies_systemd_and_serves_http(systemd):
    pytest.importorskip("prometheus_client")
    sock, notifier = systemd
    port = free_port()
    monitors = Monitors(notifier, open_endpoint)
    loop, link = loop_of(monitors, port)
    assert notifications(sock) == []
    began = time.monotonic()
    first, *rest = run_until(loop, sock, "WATCHDOG=1", 4)

    assert first.startswith("READY=1\nSTATUS=heat: ")
    assert rest.count("WATCHDOG=1") == 4
    assert time.monotonic() - began >= 0.29  # one every 0.1 s
    pages = pages_during(loop, port)
    assert pages["/healthz"]["healthy"] is True

    link.moving = False
    notifications(sock)
    run_for(loop, 0.3)
    assert "WATCHDOG=1" not in notifications(sock)
    monitors.close()
    assert notifications(sock)[-1] == "STOPPING=1"


def pages_during(loop, port):
    """Return both pages, requested from a thread while the loop turns in this one."""
    from threading import Thread

    pages = {}

    def request():
        for path in ("/healthz", "/metrics"):
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S
            ) as response:
                pages[path] = response.read()

    thread = Thread(target=request)
    thread.start()
    loop.run(lambda: not thread.is_alive())
    thread.join()
    assert b"edge_tvbo_decisions_total" in pages["/metrics"]
    return {"/healthz": json.loads(pages["/healthz"])}


def test_a_reload_keeps_or_moves_the_port_and_notifies_systemd(systemd):
    pytest.importorskip("prometheus_client")
    sock, notifier = systemd
    monitors = Monitors(notifier, open_endpoint)
    first, second = free_port(), free_port()
    loop, _ = loop_of(monitors, first)
    run_for(loop, 0.05)
    notifications(sock)

    monitors.reloading()
    loop, _ = loop_of(monitors, first)  # the same port
    assert pages_during(loop, first)
    sent = [each.partition("=")[0] for each in notifications(sock)]
    assert sent.index("RELOADING") < sent.index("READY")
    loop, _ = loop_of(monitors, second)
    assert pages_during(loop, second)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", first), timeout=1)
    loop, _ = loop_of(monitors, None)
    assert monitors.fileno() == -1
    monitors.close()


def test_a_port_in_use_does_not_stop_the_loop(systemd, caplog):
    pytest.importorskip("prometheus_client")
    monitors = Monitors(systemd[1], open_endpoint)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        loop, _ = loop_of(monitors, taken.getsockname()[1])
    run_for(loop, 0.05)

    assert monitors.fileno() == -1
    assert "Cannot listen on" in caplog.text
    monitors.close()


def test_the_endpoint_is_opened_when_its_address_becomes_free(systemd, monkeypatch):
    """After a boot, the network may assign the address of the endpoint later."""
    pytest.importorskip("prometheus_client")
    monkeypatch.setattr("edge_tvbo.daemon.monitors.RETRY_DELAY_S", 0.01)
    monitors = Monitors(systemd[1], open_endpoint)
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        loop, _ = loop_of(monitors, port)
        run_for(loop, 0.05)
        assert monitors.fileno() == -1
    deadline = time.monotonic() + TIMEOUT_S
    loop.run(lambda: monitors.fileno() >= 0 or time.monotonic() >= deadline)

    assert pages_during(loop, port)
    monitors.close()
