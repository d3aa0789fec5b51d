"""Live state: with it, a controller continues from a snapshot as if no process had ended."""

from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack
from support.controllers import INTERVAL, controller_settings, energy_settings
from support.examples import max_examples, naming
from support.policy_cases import CASES, SLOW, STRUCTURED, make

from edge_tvbo.config.alert_settings import AlertSettings
from edge_tvbo.config.controller_settings import SurveySettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.control.energy_budget import BudgetSettings
from edge_tvbo.daemon.clock import RELEASED_AT
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages import events
from edge_tvbo.messages.commands import Activate, Recommend
from edge_tvbo.messages.events import Event
from edge_tvbo.models.fingerprint import Fingerprint
from edge_tvbo.models.snapshot import encode_snapshot
from edge_tvbo.policy.model_free import ModelFreePolicy

NOW = 1.8e9
SENSORS = tuple(f"n{arm}" for arm in range(5))
BUDGET = BudgetSettings(
    (1.0,) * 5, (3.0,) * 5, period=6, field=8.0, least_battery=20.0, battery_age=4
)
KINDS = {
    "plain": {},
    "several": {"per_interval": 3},
    "at once": {"per_interval": 2, "next_activation": "at-once"},
    "survey": {"survey": SurveySettings(per_interval=3, length=4 * INTERVAL)},
    "only activated": {"learn_from": "activated", "max_backoff": 4},
    "energy": {"energy": energy_settings(BUDGET, SENSORS), "per_interval": 2},
    "advise": {"recommends": True, "per_interval": 2},
    "on-reading": {"on_reading": True},
    "advise on-reading": {"recommends": True, "on_reading": True},
    "alert": {"alert": AlertSettings(threshold=1.0, quiet=(22 * 60, 7 * 60))},
}
VALUES = st.sampled_from([-2.0, -0.5, 0.0, 0.25, 0.5, 1.5, 2.5, 1e6])
SENSOR = st.sampled_from(SENSORS)
STEPS = st.one_of(
    st.tuples(st.just("interval"), st.sampled_from([1, 1, 1, 3])),
    st.tuples(st.just("reply"), VALUES),
    st.tuples(st.just("report"), SENSOR, VALUES, st.booleans()),
    st.tuples(st.just("deadline")),
    st.tuples(st.just("undelivered"), st.booleans(), st.just(False)),
    st.tuples(st.just("undelivered"), st.just(False), st.just(True)),
    st.tuples(st.just("battery"), SENSOR, st.sampled_from([5.0, 50.0, 300.0])),
    st.tuples(st.just("clock"), st.sampled_from(["lost", "step", "unset", "unsynced", "synced"])),
    st.tuples(st.just("link"), st.booleans()),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("force"), SENSOR),
    st.tuples(st.just("ignore"), SENSOR, st.booleans()),
    st.tuples(st.just("other"), st.sampled_from(["reset", "threshold", "cleared", "downtime"])),
    st.tuples(st.just("quiet")),
    st.tuples(st.just("unreadable")),
)
HISTORIES = st.lists(STEPS | st.tuples(st.just("interval"), st.just(1)), max_size=40)


def controller_of(case, kind):
    policy = make(case)
    options = dict(KINDS[kind])
    if isinstance(policy, ModelFreePolicy):
        options.pop("alert", None)
    rules = controller_settings(**options)
    return Controller(policy, rules, local_time=lambda at: datetime.fromtimestamp(at, UTC))


class Run:
    """Turns steps into the events of a controller, and handles them."""

    def __init__(self, controller):
        self.controller = controller
        self.at = NOW
        self.awaited = []  # (sensor, interval)

    def take(self, steps):
        """Handle the events of the steps; return the events and the commands."""
        handled = []
        for step in steps:
            self.at += 7.5
            if event := self.event(*step):
                handled.append((event, self.handle(event)))
        return handled

    def handle(self, event):
        commands = self.controller.handle(event)
        for each in commands:
            if isinstance(each, Activate | Recommend):
                self.awaited.append((each.sensor, each.interval))
        return commands

    def event(self, kind, *values):
        at = self.at
        match kind, *values:
            case "interval", count:
                self.at += INTERVAL * count
                return events.IntervalElapsed(self.at, count)
            case "reply", value if self.awaited:
                return events.Reading(self.awaited.pop()[0], value, at, at, stamped=False)
            case "report", sensor, value, stamped:
                return events.Reading(sensor, value, at - 3.0 * stamped, at, stamped)
            case ("deadline",):
                return events.DeadlineElapsed(self.controller.interval, at)
            case "undelivered", left, refused if self.awaited:
                return events.ActivationUndelivered(*self.awaited[-1], left, refused)
            case "battery", sensor, percent:
                return events.BatteryReported(sensor, percent, at)
            case "clock", how:
                return self.clock_event(how)
            case "link", restored:
                return events.LinkRestored(at) if restored else events.LinkLost()
            case "pause", paused:
                return events.PauseRequested(at) if paused else events.ResumeRequested(at)
            case "force", sensor if self.controller.begun:  # as the daemon checks
                return events.ActivationRequested(sensor, at)
            case "ignore", sensor, ignored:
                return events.IgnoreRequested(sensor, ignored, at)
            case "other", "reset":
                return events.ResetRequested(at)
            case "other", "threshold":
                return events.ThresholdRequested(0.5, at)
            case "other", "cleared":
                return events.DocumentsCleared()
            case "other", "downtime":
                return events.DowntimeElapsed(at, 2)
            case ("quiet",):
                return events.QuietHoursEnded(at)
            case ("unreadable",):
                return events.Unreadable("not-a-number", "lab/n1/t", "x")
        return None

    def clock_event(self, how):
        match how:
            case "lost":
                self.at = RELEASED_AT / 2
                return events.ClockUnset()
            case "unset":
                return events.ClockUnset()
            case "step":
                before, self.at = self.at, max(self.at, NOW) + 43_200.0
                return events.ClockStepped(self.at - before, self.at)
            case _:
                return events.ClockSyncChanged(how == "synced")

    def look(self):
        """Read everything that the daemon publishes; this must not change the controller."""
        self.controller.health()
        self.controller.hotspot(self.at)
        self.controller.alert(self.at)


def as_journalled(event):
    """Return an event as the journal contains it: encoded and decoded again."""
    return msgpack.decode(msgpack.encode(event), type=Event)


def check_continues(case, kind, before, after):
    run = Run(controller_of(case, kind))
    run.take(before)
    snapshot, live = run.controller.snapshot(), run.controller.live()
    assert run.controller.snapshot() == snapshot
    handled = []
    for step in after:
        handled += run.take([step])
        run.look()
    other = controller_of(case, kind)
    other.restore(snapshot)
    other.restore_live(live)
    for event, commands in handled:
        assert other.handle(as_journalled(event)) == commands
    assert other.live() == run.controller.live()
    assert other.snapshot() == run.controller.snapshot()
    assert other.digest() == run.controller.digest()


@max_examples(40)
@given(before=HISTORIES, after=HISTORIES)
def test_a_snapshot_and_the_later_events_are_the_controller_that_never_stopped(before, after):
    for case, kind in product(("tv-gp-ucb", *STRUCTURED), KINDS):
        with naming(f"{case}, {kind}"):
            check_continues(case, kind, before, after)


FAST = [case for case in CASES if case not in SLOW]


@pytest.mark.parametrize(("number", "cases"), [(3, SLOW), (10, FAST)], ids=["slow", "fast"])
def test_every_policy_continues(number, cases):
    @max_examples(number)
    @given(st.sampled_from(sorted(KINDS)), HISTORIES, HISTORIES)
    def drawn(kind, before, after):
        for case in cases:
            with naming(f"{case}, {kind}"):
                check_continues(case, kind, before, after)

    drawn()


def test_the_digest_shows_that_an_event_is_missing():
    one, other = (Run(controller_of("tv-gp-ucb", "plain")) for _ in range(2))
    one.take([("interval", 1), ("report", "n1", 0.5, False), ("report", "n2", 0.5, False)])
    other.take([("interval", 1), ("report", "n1", 0.5, False)])
    assert one.controller.digest() != other.controller.digest()


@pytest.mark.parametrize("live", [b"", b"\xc0", encode_snapshot("x", Fingerprint(""), {})])
def test_an_invalid_live_state_is_rejected(live):
    controller = controller_of("tv-gp-ucb", "plain")
    with pytest.raises(SnapshotError):
        controller.restore_live(live)
