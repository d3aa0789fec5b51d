"""What systemd and Prometheus are told by a daemon at work, and over a reload."""

import json
import os
import socket
import time
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest
from edge_tvbo_adapters.monitoring.systemd import notifier
from edge_tvbo_adapters.simulation import local_broker
from support.controllers import controller_settings

from edge_tvbo import SensorField, make_policy
from edge_tvbo.config.settings import Metrics
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.loop import Loop
from edge_tvbo.daemon.monitors import Monitors
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.daemon.status import AWAY_LEAST, SILENT, StatusCollector
from edge_tvbo.messages.events import DeadlineElapsed, IntervalElapsed, Reading

EPOCH = 1_000_000.0


class Clock:
    """The network's time, moved by hand."""

    speed, patience, now, is_set = 1.0, 0.0, 0.0, True

    def follow(self):
        return 0.0

    def elapsed(self):
        return self.now

    def wall(self, elapsed):
        return EPOCH + elapsed

    def settle(self, due, interval):
        return 1


class Link:
    """A link that does nothing, and says of itself what the test wants."""

    def __init__(self):
        self.online, self.moving = True, True

    def alive(self, now):
        return self.moving

    def interest(self):
        return None

    def wake_at(self):
        return time.monotonic() + 10

    def service(self, mask, now):
        return iter(())

    def requests(self):
        return iter(())

    def show(self, field, hotspot):
        pass

    def send(self, field, command):
        pass

    def report(self, health):
        pass


def controller():
    field = SensorField(("a", "b"), np.array([[1, 0.5], [0.5, 1]]), noise_variance=0.01)
    return Controller(
        make_policy("gp-ucb", field, seed=0), controller_settings(reply_timeout=10, max_age=60)
    )


class Field:
    """One field under an overview, with a clock and a link moved by hand."""

    def __init__(self, interval=60.0):
        self.controller, self.link, self.clock = controller(), Link(), Clock()
        self.overview = StatusCollector(
            {"heat": self.controller}, self.link, {"heat": interval}, self.clock
        )
        self.overview.service(time.monotonic())

    def happens(self, event):
        for command in self.controller.handle(event):
            self.overview("heat", command)

    def reads(self, sensor, value):
        at = self.clock.wall(self.clock.now)
        self.happens(Reading(sensor, value, at, at, stamped=True))

    def status(self):
        return self.overview.status().fields["heat"]


# --- the overview -----------------------------------------------------------------------------


def test_what_the_controller_does_is_counted():
    field = Field()
    field.happens(IntervalElapsed(EPOCH))
    field.reads(field.controller.health().selected, 0.5)
    field.clock.now = 60.0
    field.happens(IntervalElapsed(EPOCH + 60))
    field.happens(DeadlineElapsed(1, EPOCH + 70))

    tally = field.status().tally
    assert (tally.decisions, tally.activations) == (2, 2)
    assert (tally.answered, tally.missed) == (1, 1)


def test_the_last_reading_of_a_sensor_is_shown_until_it_is_silent():
    field = Field()
    field.reads("a", 0.5)
    field.reads("b", 0.7)
    assert {name: each.value for name, each in field.status().latest.items()} == {
        "a": 0.5,
        "b": 0.7,
    }

    field.clock.now = SILENT - 1
    field.reads("b", 0.8)
    field.clock.now = SILENT + 1
    assert set(field.status().latest) == {"b"}


@pytest.mark.acceptance(17)
def test_a_sensor_that_does_not_answer_is_shown_no_more():
    field = Field()
    field.reads("a", 0.5)
    field.reads("b", 0.7)
    field.happens(IntervalElapsed(EPOCH))
    asked = field.controller.health().selected
    field.happens(DeadlineElapsed(0, EPOCH + 10))

    assert set(field.status().latest) == {"a", "b"} - {asked}
    assert field.status().suspects == 1


@pytest.mark.parametrize(("interval", "allowed"), [(600.0, 1800.0), (1.0, AWAY_LEAST), (None, 60)])
def test_it_is_unhealthy_when_the_broker_is_away_for_long(interval, allowed, monkeypatch):
    field = Field(interval)
    began = time.monotonic()
    assert field.overview.status().healthy

    field.link.online = False
    field.overview.service(began)
    monkeypatch.setattr(time, "monotonic", lambda: began + allowed - 1)
    assert field.overview.status().healthy
    monkeypatch.setattr(time, "monotonic", lambda: began + allowed + 1)
    status = field.overview.status()
    assert not status.healthy
    assert "the broker has been away for" in status.reason

    field.link.online = True
    field.overview.service(began)
    assert field.overview.status().healthy
    assert field.overview.status().reconnects == 1


def test_it_is_unhealthy_when_the_link_stands_still():
    field = Field()
    field.link.moving = False

    assert field.overview.status().reason == "the link stands still"


def test_fields_that_stay_keep_their_counts_over_a_reload():
    field = Field()
    field.happens(IntervalElapsed(EPOCH))
    successor = {"heat": controller(), "noise": controller()}
    field.overview.follow(successor, field.link, dict.fromkeys(successor, 60.0))

    fields = field.overview.status().fields
    assert (fields["heat"].tally.decisions, fields["noise"].tally.decisions) == (1, 0)
    field.overview.follow({"noise": successor["noise"]}, field.link, {"noise": 60.0})
    assert set(field.overview.status().fields) == {"noise"}


# --- all of them, at the loop -------------------------------------------------------------------


@pytest.fixture
def systemd(tmp_path):
    """Give what hears as systemd does, and a notifier that speaks to it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.setblocking(False)
        environment = {
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
            "WATCHDOG_USEC": "200000",
            "WATCHDOG_PID": str(os.getpid()),
        }
        yield sock, notifier(environment)


def heard(sock):
    messages = []
    while True:
        try:
            messages.append(sock.recv(4096).decode())
        except BlockingIOError:
            return messages


def settings(port):
    field = SimpleNamespace(interval=60.0)
    return SimpleNamespace(metrics=Metrics(port=port), fields={"heat": field})


def loop_of(watching, port):
    clock, link, controllers = Clock(), Link(), {"heat": controller()}
    watching.follow(settings(port), controllers, link, clock)
    schedule = Scheduler({"heat": 60.0}, clock, first=0.0)
    return Loop(link, controllers, schedule, clock, watch=watching, attendants=[watching]), link


def run_for(loop, seconds):
    until = time.monotonic() + seconds
    loop.run(lambda: time.monotonic() >= until)


def test_the_loop_feeds_the_watchdog_answers_http_and_says_good_bye(systemd):
    pytest.importorskip("prometheus_client")
    sock, ours = systemd
    port = local_broker.free_port()
    watching = Monitors(ours)
    loop, link = loop_of(watching, port)
    assert heard(sock) == []
    run_for(loop, 0.5)

    first, *rest = heard(sock)
    assert first.startswith("READY=1\nSTATUS=heat: ")
    assert 3 <= rest.count("WATCHDOG=1") <= 6
    answers = asked_meanwhile(loop, port)
    assert answers["/healthz"]["healthy"] is True

    link.moving = False
    heard(sock)
    run_for(loop, 0.3)
    assert "WATCHDOG=1" not in heard(sock)
    watching.close()
    assert heard(sock)[-1] == "STOPPING=1"
    loop.close()


def asked_meanwhile(loop, port):
    """Ask for both pages from a thread while the loop turns in this one."""
    from threading import Thread

    answers = {}

    def ask():
        for path in ("/healthz", "/metrics"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
                answers[path] = response.read()

    thread = Thread(target=ask)
    thread.start()
    loop.run(lambda: not thread.is_alive())
    thread.join()
    assert b"edge_tvbo_decisions_total" in answers["/metrics"]
    return {"/healthz": json.loads(answers["/healthz"])}


def test_a_reload_keeps_the_port_or_moves_and_says_when_it_is_over(systemd):
    pytest.importorskip("prometheus_client")
    sock, ours = systemd
    watching = Monitors(ours)
    first, second = local_broker.free_port(), local_broker.free_port()
    loop, _ = loop_of(watching, first)
    run_for(loop, 0.05)
    heard(sock)

    watching.reloading()
    loop, _ = loop_of(watching, first)  # the same port
    assert asked_meanwhile(loop, first)
    said = [each.partition("=")[0] for each in heard(sock)]
    assert said.index("RELOADING") < said.index("READY")
    loop, _ = loop_of(watching, second)
    assert asked_meanwhile(loop, second)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", first), timeout=1)
    loop, _ = loop_of(watching, None)
    assert watching.fileno() == -1
    watching.close()


def test_a_taken_port_stops_no_decision(systemd, caplog):
    pytest.importorskip("prometheus_client")
    watching = Monitors(systemd[1])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        loop, _ = loop_of(watching, taken.getsockname()[1])
    run_for(loop, 0.05)

    assert watching.fileno() == -1
    assert "cannot be listened on" in caplog.text
    watching.close()
