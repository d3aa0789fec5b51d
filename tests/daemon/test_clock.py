"""Wall clock: steps while a daemon runs, in one process whose `time` the test sets.

``tests/faults/test_clock.py`` does the same with a real daemon.
"""

import time
from collections import defaultdict
from contextlib import contextmanager
from itertools import pairwise, repeat
from math import inf

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.controllers import controller_settings
from support.lives import Life, Time
from support.naive import se

from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon import clock as clock_module
from edge_tvbo.daemon.clock import (
    MAX_DRIFT_S,
    MAX_SYNC_WAIT_S,
    SYNC_CHECK_PERIOD_S,
    LiveClock,
    ReplayClock,
)
from edge_tvbo.daemon.command_handler import CommandHandler
from edge_tvbo.daemon.decision_log import DecisionLog
from edge_tvbo.daemon.loop import Loop
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.daemon.status import MIN_HEALTH_PERIOD_S, StatusCollector
from edge_tvbo.messages.commands import Activate, Notify, PublishState
from edge_tvbo.messages.documents import LinkStatus, Request
from edge_tvbo.messages.events import (
    ClockStepped,
    ClockSyncChanged,
    ClockUnset,
    IntervalElapsed,
    Reading,
    Unreadable,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.policy import make_policy

NOW = 1.8e9  # s since 1970, in truth, when the monotonic clock says BOOT
BOOT = 50.0
TICK = 0.5  # s between two turns of the loop
TICKS = 10  # in an interval
LAST = 8  # intervals of a run
DAY = 86_400.0
FIELD = SensorField(
    ("a", "b", "c"), se(np.array([[0.0], [0.4], [1.0]]), 0.4), 0.01, center=20.0, scale=2.0
)


class World:
    """A daemon's loop, the clocks of its machine, and sensors that reply by a script.

    Parameters
    ----------
    script : list
        For each interval the delay of the reply in ticks, its value, and how often it is
        delivered.
    stamps : mapping
        The clock of each sensor's time stamps: "ours", "true", or None for no stamp.
    ahead : float
        Seconds by which the wall clock is ahead of the truth.
    synced_at : float
        Monotonic time since which the system reports that the wall clock is synchronised.
    """

    def __init__(
        self, script, stamps, *, ahead=0.0, synced_at=BOOT, policy="et-gp-ucb", on_reading=False
    ):
        self.now, self.ahead, self.synced_at = BOOT, ahead, synced_at
        self.script, self.stamps = script, stamps
        limits = controller_settings(reply_timeout=4.0, max_age=60.0, on_reading=on_reading)
        self.controller = Controller(make_policy(policy, FIELD), limits)
        self.coming = defaultdict(list)  # by monotonic time: (sensor, value, stamp)
        self.decisions, self.began, self.announced, self.reports, self.notices = [], [], [], [], []
        self.online, self.set_in_turn = True, 0.0
        clock = LiveClock()
        schedule = Scheduler({"lab": None if on_reading else TICK * TICKS}, clock, first=BOOT)
        self.clock = clock
        self.collector, self.log = StatusCollector(clock), DecisionLog()
        self.loop = self.loop_with({"lab": self.controller}, schedule)

    def loop_with(self, controllers, schedule):
        handler = CommandHandler(
            controllers, self.collector.health, self.log.decisions, schedule.next_interval
        )
        self.collector.attach(
            controllers,
            self,
            period=1e9,
            rejected=lambda: handler.rejected,
        )
        return Loop(
            self,
            controllers,
            schedule,
            self.clock,
            handler=handler,
            observers=[self.log.update, self.collector],
            services=[self.collector],
            on_change=self.collector.publish_soon,
        )

    def status(self):
        return LinkStatus()

    def alive(self, now):
        return True

    def true(self):
        return NOW + self.now - BOOT

    def wall(self):
        return self.true() + self.ahead

    def turn(self):
        self.loop.turn(0)
        self.now += TICK

    # --- a link ---------------------------------------------------------------------------------

    def service(self, mask, now):
        for sensor, value, stamp in self.coming.pop(self.now, ()):
            received = self.clock.wall(self.now)
            if self.stamps[sensor] and not stamp:  # measured now; a copy has the stamp of the first
                stamp.append(self.wall() if self.stamps[sensor] == "ours" else self.true())
            yield "lab", Reading(sensor, value, *(stamp or [received]), received, bool(stamp))
        self.ahead += self.set_in_turn
        self.set_in_turn = 0.0

    def send(self, field, command):
        match command:
            case Activate(sensor=sensor, interval=interval):
                self.began.append(self.now)
                delay, value, copies = self.script[interval % len(self.script)]
                stamp = []
                for n in range(copies):
                    self.coming[self.now + (delay + n) * TICK].append((sensor, value, stamp))
            case PublishState(decision=decision):
                self.decisions.append(decision)
            case Notify(notice=notice):
                self.notices.append((notice.event, notice.sensor))

    def recall(self, field):
        return ()

    def requests(self):
        return iter(())

    def show(self, field, hotspot):
        pass

    def expect_readings(self, fields):
        pass

    def announce(self, notice):
        self.announced.append(notice)

    def report(self, health):
        if self.reports[-1:] != [health.clock_synced]:  # a report follows each decision, too
            self.reports.append(health.clock_synced)


@contextmanager
def world(*args, **options):
    """Yield a world whose clocks replace those of the machine."""
    with pytest.MonkeyPatch.context() as patch:
        made = []
        patch.setattr(time, "monotonic", lambda: made[0].now if made else BOOT)
        ahead = options.get("ahead", 0.0)
        patch.setattr(time, "time", lambda: made[0].wall() if made else NOW + ahead)
        patch.setattr(clock_module, "_system_is_synced", lambda: made[0].now >= made[0].synced_at)
        made.append(World(*args, **options))
        yield made[0]


def run(script, stamps, steps, **options):
    """Run a world whose clock is set by `steps`: tick -> (s, within a turn); return it."""
    with world(script, stamps, **options) as it:
        for tick in range(TICKS * LAST):
            by, in_turn = steps.get(tick, (0.0, False))
            it.set_in_turn = by if in_turn else 0.0
            it.ahead += 0.0 if in_turn else by
            it.turn()
        return it


def without_times(decision):
    """Return the content of a decision without its times."""
    content = msgspec.to_builtins(decision)
    content["model"].pop("last_reset")
    return {name: content[name] for name in content if name not in ("at", "expires_at")}


def assert_same(one, other):
    assert one.began == other.began
    assert [without_times(each) for each in one.decisions] == [
        without_times(each) for each in other.decisions
    ]
    assert one.notices == other.notices
    assert one.controller.health() == other.controller.health()
    for ours, theirs in zip(
        one.controller.policy.posterior(), other.controller.policy.posterior(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


# --- steps of a clock -----------------------------------------------------------------------------

# not multiples of a tick, so that no two readings have the same stamp
BY = st.sampled_from([-60 * 365 * DAY, -2 * DAY, -3600.0, -60.6, -2.6, 2.6, 10_800.0, 1e7, 1e9])
STAMPS = st.fixed_dictionaries({each: st.sampled_from(["ours", None]) for each in "abc"})
VALUES = st.sampled_from([18.0, 20.0, 20.5, 24.0])
STEPS = st.dictionaries(
    st.integers(0, TICKS * LAST - 1), st.tuples(BY, st.booleans()), min_size=1, max_size=4
)


@st.composite
def scripts(draw, steps):
    """Draw the replies; every sensor replies near a step, as none is backed off there."""
    script = []
    for n in range(LAST):
        disturbed = any(n * TICKS - 1 <= tick <= (n + 1) * TICKS for tick in steps)
        copies = draw(st.sampled_from([1, 1, 2, 3] if disturbed else [0, 1, 1, 2, 3]))
        script.append((draw(st.integers(1, 7)), draw(VALUES), copies))
    return script


@given(st.data(), STEPS, STAMPS, st.sampled_from(["et-gp-ucb", "tv-gp-ucb", "auto"]))
def test_step_of_the_clock_changes_no_decision_and_no_posterior(data, steps, stamps, name):
    script = data.draw(scripts(steps))
    plain = run(script, stamps, {}, policy=name)
    stepped = run(script, stamps, steps, policy=name)
    assert_same(plain, stepped)
    assert stepped.began == [BOOT + n * TICK * TICKS for n in range(LAST)]


@given(STEPS, STAMPS, st.integers(1, 7))
def test_step_of_the_clock_changes_no_decision_if_intervals_follow_the_readings(
    steps, stamps, delay
):
    script = [(delay, 20.0, 1), (delay, 21.0, 1)]
    options = {"policy": "et-gp-ucb", "on_reading": True}
    assert_same(run(script, stamps, {}, **options), run(script, stamps, steps, **options))


@given(STEPS)
def test_each_step_of_the_clock_has_one_notice(steps):
    stepped = run([(1, 20.0, 1)], dict.fromkeys("abc"), steps, ahead=3e9)
    late = TICKS * LAST - 1  # a step within the last turn has no next turn that detects it
    seen = [by for tick, (by, in_turn) in sorted(steps.items()) if not (tick == late and in_turn)]
    merged = together(steps, late)
    assert len(stepped.announced) == len(merged) <= len(seen)
    for notice, by in zip(stepped.announced, merged, strict=True):
        assert f"{'forward' if by > 0 else 'back'} by {abs(by):.1f} s" in notice.text


def together(steps, late):
    """Return the steps that the turns detect; a step within a turn is detected in the next."""
    seen = defaultdict(float)
    for tick, (by, in_turn) in steps.items():
        seen[tick + in_turn] += by
    return [seen[tick] for tick in sorted(seen) if tick <= late and abs(seen[tick]) > MAX_DRIFT_S]


@given(st.floats(-1e-3, 1e-3))
def test_slewed_clock_does_not_count_as_set(rate):
    steps = dict.fromkeys(range(TICKS * LAST), (rate * TICK, False))
    drifting = run([(1, 20.0, 1)], dict.fromkeys("abc", "ours"), steps)
    assert drifting.announced == []
    assert drifting.clock.wall(drifting.now) == pytest.approx(drifting.wall(), abs=2e-3)
    assert drifting.controller.health().refused == {}


@pytest.mark.usefixtures("first_timeout_counts")
@pytest.mark.parametrize("by", [-2 * DAY, 3 * 3600.0])
def test_reply_stamped_before_a_step_is_rejected_and_its_sensor_not_backed_off(by):
    with world([(9, 20.0, 0)], dict.fromkeys("abc", "ours")) as it:
        it.turn()
        stamp, activated = it.wall(), it.decisions[0].sensor
        it.ahead += by
        it.coming[it.now + TICK].append((activated, 20.0, [stamp]))
        for _ in range(TICKS):
            it.turn()
    assert sum(it.controller.health().refused.values()) == 1
    assert it.controller.health().missed == 1
    assert it.controller.health().suspects == []


@pytest.mark.parametrize("by", [-2 * DAY, 3 * 3600.0])
def test_unstamped_reply_of_the_same_value_after_a_step_is_used(by):
    with world([(9, 20.0, 0)], dict.fromkeys("abc")) as it:
        it.coming[BOOT] = [(each, 20.0, []) for each in "abc"]
        it.turn()
        it.ahead += by
        it.coming[it.now] = [(it.decisions[0].sensor, 20.0, [])]
        it.turn()
    assert it.controller.health().refused == {}
    assert it.controller.health().answered == 1


# --- a clock that is not set yet ------------------------------------------------------------------


@given(
    st.integers(1, TICKS * LAST - 1),
    st.fixed_dictionaries({each: st.sampled_from(["ours", "true", None]) for each in "abc"}),
    st.lists(st.tuples(st.integers(1, 7), VALUES, st.integers(1, 3)), min_size=1, max_size=LAST),
)
def test_start_in_1970_causes_the_same_decisions_and_one_notice_when_the_clock_is_set(
    tick, stamps, script
):
    started = run(script, stamps, {tick: (NOW, False)}, ahead=-NOW)
    assert_same(run(script, stamps, {}), started)
    assert [each.event for each in started.announced] == ["clock-synced"]
    assert started.reports == [False, True]
    assert started.decisions[0].at == "1970-01-01T00:00:00Z"
    assert started.began[0] == BOOT


def test_clock_set_in_two_steps_is_synced_by_the_one_that_leaves_1970():
    steps = {5: (10 * DAY, False), 15: (NOW - 10 * DAY, False), 25: (3.0, False)}
    started = run([(1, 20.0, 1)], dict.fromkeys("abc", "true"), steps, ahead=-NOW)
    events = [each.event for each in started.announced]
    assert events == ["clock-step", "clock-synced", "clock-step"]
    assert started.controller.health().refused == {}


def test_age_of_a_reading_is_checked_once_the_clock_is_set():
    with world([(9, 20.0, 0)], dict.fromkeys("abc", "true"), ahead=-NOW) as it:
        for age in (DAY, 2 * DAY):
            it.coming[it.now] = [("a", 20.0, [NOW - age]), ("b", 20.0, [NOW + age])]
            it.turn()
            it.ahead = 0.0
    assert it.controller.policy.observations == 2
    assert it.controller.health().refused == {"late": 1, "future-dated": 1}


def test_clock_set_back_to_1970_is_unset():
    steps = {5: (-NOW, False)}
    started = run([(1, 20.0, 1)], dict.fromkeys("abc", "true"), steps)
    assert [each.event for each in started.announced] == ["clock-step"]
    assert started.reports == [True, False]
    assert started.controller.health().refused == {}


def test_start_at_the_time_of_the_last_shutdown_rejects_no_reading_if_the_system_reports_it():
    """The clock is a day behind, and is set when it is synchronised, in the second interval."""
    script, stamps = [(1, 20.0, 1), (2, 21.0, 2)], dict.fromkeys("abc", "true")
    steps, synced_at = {TICKS: (DAY, False)}, BOOT + TICKS * TICK
    started = run(script, stamps, steps, ahead=-DAY, synced_at=synced_at)
    assert_same(run(script, stamps, {}), started)
    assert started.controller.health().answered == LAST
    assert started.reports == [False, True]
    assert [each.event for each in started.announced] == ["clock-step"]


def test_right_clock_that_is_never_synchronised_changes_no_decision():
    """As on a machine with a real-time clock and without a network."""
    script, stamps = [(1, 20.0, 1), (2, 21.0, 2)], {"a": "ours", "b": "true", "c": None}
    unsynced = run(script, stamps, {}, synced_at=inf)
    assert_same(run(script, stamps, {}), unsynced)
    assert unsynced.reports == [False]


@pytest.mark.parametrize("waited, refused", [(-2 * TICK, {}), (0.0, {"future-dated": 1})])
def test_readings_are_future_dated_again_if_the_clock_is_not_synchronised_in_the_first_hour(
    waited, refused, caplog
):
    """As on a machine with a real-time clock and without a network; `health` stays honest."""
    caplog.set_level("INFO", "edge_tvbo")
    with world([(9, 20.0, 0)], dict.fromkeys("abc", "true"), synced_at=inf) as it:
        it.turn()
        it.now = BOOT + MAX_SYNC_WAIT_S + waited
        it.turn()
        it.coming[it.now] = [("a", 20.0, [NOW + DAY])]
        it.turn()
    assert it.controller.health().refused == refused
    assert it.reports == [False]
    texts = [each.message for each in caplog.records if "not synchronised" in each.message]
    assert len(texts) == (2 if refused else 1)


def test_readings_are_future_dated_at_the_time_of_the_last_shutdown_if_the_system_does_not_report():
    """Only systemd-timesyncd reports that this clock, which looks set, is not synchronised.

    A machine without it, or a container, keeps this limit: the readings of right clocks are
    rejected until the clock is set.
    """
    steps = {TICKS: (DAY, False)}
    started = run([(1, 20.0, 1)], dict.fromkeys("abc", "true"), steps, ahead=-DAY)
    assert started.controller.health().refused == {"future-dated": 1}
    assert started.controller.health().answered == LAST - 1
    assert started.reports == [True]


def test_clock_of_a_sensor_that_is_set_back_makes_no_reading_late_while_ours_is_not_synchronised():
    controller, _ = daily(at=NOW)
    controller.handle(ClockSyncChanged(False))
    for value, stamp in ((1.0, NOW + DAY), (1.1, NOW + 1.0), (1.2, NOW + 2.0)):
        controller.handle(Reading("a", value, stamp, NOW + 3.0, stamped=True))
    controller.handle(Reading("a", 1.3, NOW + 1.5, NOW + 3.0, stamped=True))
    controller.handle(Reading("a", 1.4, NOW - DAY, NOW + 3.0, stamped=True))
    assert controller.policy.observations == 3
    assert controller.health().refused == {"late": 2}


def test_readings_are_future_dated_again_once_the_clock_is_synchronised():
    controller, _ = daily(at=NOW)
    for synced in (False, True):
        controller.handle(ClockSyncChanged(synced))
        controller.handle(Reading("a", 1.0 + synced, NOW + DAY, NOW, stamped=True))
    assert controller.policy.observations == 1
    assert controller.health().refused == {"future-dated": 1}


# --- season ---------------------------------------------------------------------------------------


def daily(at):
    """Return a controller of `auto` whose model has a season, and a function for its hour."""
    structure = prior_structure(FIELD.kernel, 3600.0)
    field = SensorField(("a", "b", "c"), FIELD.kernel, 0.01, structure=structure)
    controller = Controller(
        make_policy("auto", field), controller_settings(reply_timeout=4.0, max_age=60.0)
    )
    controller.handle(IntervalElapsed(at))
    return controller, lambda: round(24 * controller.policy._posterior._phase())


def test_season_follows_a_step_of_the_clock():
    controller, hour = daily(at=7 * 3600.0 + 20 * DAY)
    assert hour() == 7
    controller.handle(ClockStepped(3 * 3600.0, 10 * 3600.0 + 20 * DAY))
    controller.handle(IntervalElapsed(10 * 3600.0 + 20 * DAY + 60))
    assert hour() == 10


@pytest.mark.parametrize("event", [ClockUnset(), ClockSyncChanged(False)], ids=["unset", "behind"])
@pytest.mark.parametrize("at", [1e20, -1e20])
def test_time_that_no_clock_shows_is_rejected_while_the_clock_is_not_set(at, event):
    """Such a time fits in no database; all later times of real clocks are accepted."""
    controller, _ = daily(at=NOW)
    controller.handle(event)
    sensor = controller.policy.field.sensors[0]
    controller.handle(Reading(sensor, 20.0, at, 60.0))
    controller.handle(Reading(sensor, 20.0, NOW + 1e6, 61.0))
    refused = {"future-dated": 1} if at > 0 else {"late": 1}
    assert controller.health().refused == refused


def test_season_advances_by_intervals_while_the_clock_is_not_set():
    controller, hour = daily(at=7 * 3600.0 + 20 * DAY)
    controller.handle(ClockUnset())
    controller.handle(IntervalElapsed(60.0))
    assert hour() == 8


@pytest.mark.parametrize("policy", ["auto", "kalman-ucb"])
@given(
    st.lists(st.tuples(st.floats(0.1, 3e4), st.sampled_from(["", "restart", "step"])), max_size=8),
    st.booleans(),
)
def test_time_passes_for_a_model_of_unequal_intervals_while_the_clock_is_not_set(
    policy, waits, was_set
):
    """Without a season, the model of a clock that is not set equals that of a clock that is."""
    rows = 0 if policy == "auto" else 1000
    structure = replace(prior_structure(FIELD.kernel, None, period=0.0), rows=rows)
    field = SensorField(FIELD.sensors, FIELD.kernel, 0.01, structure=structure)

    def controller():
        return Controller(make_policy(policy, field), controller_settings(interval="on-reading"))

    def reply(value):
        sensor = known.health().selected
        for each, at in ((known, now), (unset, now - behind)):
            each.handle(Reading(sensor, value, at, at, stamped=False))

    known, unset, behind, now = controller(), controller(), NOW, NOW
    known.handle(IntervalElapsed(NOW))
    if was_set:
        unset.handle(IntervalElapsed(NOW))
        unset.handle(ClockStepped(-behind, 0.0))
    unset.handle(ClockUnset())
    if not was_set:
        unset.handle(IntervalElapsed(0.0))
    for wait, happens in waits:
        if happens == "restart":
            blob, unset = unset.snapshot(), controller()
            unset.restore(blob)
        if happens:
            behind -= 1000.0
            unset.handle(ClockStepped(1000.0, now - behind))
            unset.handle(ClockUnset())
        now += wait
        reply(wait % 1.0)
    if was_set:
        unset.handle(ClockStepped(behind, now))
        now, behind = now + 5000.0, 0.0
        reply(0.5)
    assert unset.health().selected == known.health().selected
    np.testing.assert_allclose(unset.policy.posterior(), known.policy.posterior(), atol=1e-9)


@pytest.mark.parametrize(
    ("policy", "interval"),
    [("auto", 3600.0), ("auto", None), ("kalman-ucb", 3600.0), ("kalman-ucb", None)],
)
def test_after_a_restart_the_course_is_its_mean_until_the_clock_is_set(policy, interval):
    """The restored model used the course of the time of its snapshot, 6 o'clock."""
    course = np.repeat(5.0 * np.sin(2 * np.pi * np.arange(24) / 24)[:, None], 3, axis=1)
    fitted = replace(prior_structure(FIELD.kernel, interval), rows=1000, course=course)
    field = SensorField(("a", "b", "c"), FIELD.kernel, 0.01, structure=fitted)

    def controller():
        return Controller(make_policy(policy, field), controller_settings(reply_timeout=4.0))

    morning, noon = 20 * DAY + 6 * 3600.0, 21 * DAY + 12 * 3600.0
    before, unset, known = controller(), controller(), controller()
    before.handle(IntervalElapsed(morning))
    for each in (unset, known):
        each.restore(before.snapshot())
    unset.handle(ClockUnset())
    unset.handle(IntervalElapsed(60.0))
    np.testing.assert_allclose(unset.policy.posterior()[0], 0.0, atol=1e-9)
    unset.handle(ClockStepped(noon - 60.0, noon))
    for each in (unset, known):
        each.handle(IntervalElapsed(noon))
    np.testing.assert_allclose(unset.policy.posterior()[0], course[12], atol=1e-9)
    if policy == "auto":  # the time that passed counts once
        np.testing.assert_allclose(unset.policy.posterior(), known.policy.posterior(), atol=1e-9)


# --- restarts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wall", [30.0, NOW - 2 * DAY, NOW + 1e6])
def test_restored_readings_have_times_of_the_present_clock(wall):
    """Unset or two days back, the wall clock shows no elapsed time; otherwise it does."""
    clock, stored = Time(), []
    life = Life(clock, stored)
    life.live(50.0)
    now = clock.now.wall
    life.controller.handle(Reading("a", 0.5, now, now, stamped=True))
    life.checkpoints.close()
    clock.reboot(5.0, wall=wall)
    life = Life(clock, stored)
    gone = max(0.0, wall - now)
    assert life.controller.last_readings()["a"].received == pytest.approx(wall - gone)
    life.controller.handle(Reading("a", 0.6, wall, wall, stamped=True))
    life.controller.handle(Reading("a", 0.6, wall, wall, stamped=True))
    assert life.controller.health().refused == {"duplicate": 1}


def test_stamps_before_a_step_make_no_later_reading_late_after_a_restart():
    clock, stored = Time(), []
    life = Life(clock, stored)
    life.live(50.0)
    now = clock.now.wall
    life.controller.handle(Reading("a", 0.5, now, now, stamped=True))
    clock.now = clock.now.__class__(now - DAY, clock.now.monotonic, clock.now.boot)
    life.controller.handle(ClockStepped(-DAY, now - DAY))
    life.checkpoints.close()
    life = Life(clock, stored)
    for stamp in (now - DAY + 60, now - DAY + 30):
        life.controller.handle(Reading("a", 0.6, stamp, now - DAY + 60, stamped=True))
    assert life.controller.health().refused == {"late": 1}
    assert life.controller.policy.observations == 2


def test_restart_within_one_boot_detects_a_step_of_the_clock():
    clock, stored = Time(), []
    life = Life(clock, stored)
    life.live(50.0)
    now = clock.now.wall
    life.controller.handle(Reading("a", 0.5, now, now, stamped=False))
    life.checkpoints.close()
    clock.now = clock.now.__class__(now + 10 - DAY, clock.now.monotonic + 10, clock.now.boot)
    life = Life(clock, stored)
    assert life.controller.last_readings()["a"].received == pytest.approx(now - DAY)


# --- clocks ---------------------------------------------------------------------------------------


def test_live_clock_ignores_a_step_until_resync(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(time, "time", lambda: NOW)
    clock = LiveClock()
    monkeypatch.setattr(time, "time", lambda: NOW - DAY)
    assert clock.wall(101.0) == NOW + 1
    assert clock.resync() == pytest.approx(-DAY)
    assert clock.resync() == 0.0
    assert clock.wall(101.0) == NOW - DAY + 1


def preempted(monkeypatch, delays):
    """Let the process be preempted for `delays` (s) before its next readings of the clocks."""
    elapsed, delays = 0.0, iter(delays)

    def read(clock):
        def reading():
            nonlocal elapsed
            elapsed += next(delays, 0.0)
            return clock + elapsed

        return reading

    monkeypatch.setattr(time, "time", read(NOW))
    monkeypatch.setattr(time, "monotonic", read(100.0))


@pytest.mark.parametrize("delay", [0.4, 60.0])
@pytest.mark.parametrize("pair", [[1, 0], [0, 1]], ids=["before the time", "after the time"])
def test_process_preempted_between_two_clock_reads_is_not_misdated(monkeypatch, delay, pair):
    preempted(monkeypatch, [0, *(delay * each for each in pair)])
    clock = LiveClock()
    assert clock.wall(100.0) == pytest.approx(NOW, abs=1e-3)
    preempted(monkeypatch, [0, *(delay * each for each in pair)])
    assert clock.resync() == 0.0
    assert clock.wall(100.0) == pytest.approx(NOW, abs=1e-3)


def test_process_preempted_at_every_clock_read_keeps_its_offset(monkeypatch):
    preempted(monkeypatch, [])
    clock = LiveClock()
    preempted(monkeypatch, repeat(0.4))
    assert clock.resync() == 0.0
    assert clock.wall(100.0) == NOW


def test_a_step_is_noticed_until_the_clock_is_synchronised_again(monkeypatch):
    clock = LiveClock()
    offset = time.time() - time.monotonic()
    monkeypatch.setattr(time, "time", lambda: time.monotonic() + offset + 1.5)
    assert not clock.is_stepped()
    monkeypatch.setattr(time, "time", lambda: time.monotonic() + offset - 7200.0)
    assert clock.is_stepped()
    assert clock.resync() == pytest.approx(-7200.0, abs=0.1)
    assert not clock.is_stepped()


def test_live_clock_is_synced_as_soon_as_timesyncd_reports_it_and_looks_rarely(
    monkeypatch, tmp_path
):
    looks, now = [], 100.0
    reported = clock_module._system_is_synced
    monkeypatch.setattr(clock_module, "_system_is_synced", lambda: looks.append(now) or reported())
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(clock_module, "TIMESYNC", tmp_path)
    clock = LiveClock()
    assert not clock.is_synced
    (tmp_path / "synchronized").touch()
    now += SYNC_CHECK_PERIOD_S / 2
    assert not clock.is_synced
    now += SYNC_CHECK_PERIOD_S / 2
    assert clock.is_synced
    (tmp_path / "synchronized").unlink()  # systemd-timesyncd was restarted
    now += SYNC_CHECK_PERIOD_S
    assert clock.is_synced
    assert looks == [100.0, 100.0 + SYNC_CHECK_PERIOD_S]


def test_live_clock_counts_as_synced_without_timesyncd(monkeypatch, tmp_path):
    monkeypatch.setattr(clock_module, "TIMESYNC", tmp_path / "timesync")
    assert LiveClock().is_synced


def test_replay_clock_is_always_set():
    clock = ReplayClock(1078646400.0, speed=60.0)
    assert clock.is_set and clock.is_synced and clock.counts_as_synced and not clock.is_stepped()
    assert clock.resync() == 0.0


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_commands_publish_health_at_once_and_at_most_once_a_second(requests):
    with world([(1, 20.0, 1)], dict.fromkeys("abc")) as it:
        it.turn()
        published, activated = [], []
        it.now += MIN_HEALTH_PERIOD_S
        it.report = lambda health: published.append((it.now, health.refused))
        for count in [*requests, 0, 0]:
            it.requests = lambda count=count: iter([Unreadable("flooding", "t", "")] * count)
            activated += [it.now] * bool(count)
            it.turn()

    times = [at for at, _ in published]
    assert all(any(at <= each < at + 2 * MIN_HEALTH_PERIOD_S for each in times) for at in activated)
    assert all(later - at >= MIN_HEALTH_PERIOD_S for at, later in pairwise(times))
    if activated:
        assert times[-1] >= activated[-1]
        assert published[-1][1] == {"flooding": sum(requests)}


def test_a_loop_that_replaces_another_continues_its_uptime_and_decisions():
    with world([(1, 20.0, 1)], dict.fromkeys("abc")) as it:
        for _ in range(TICKS * 2):
            it.turn()
        controllers = {"lab": it.controller, "new": it.controller}
        schedule = Scheduler({"lab": 5.0, "new": 5.0}, it.clock, first=it.now)
        after = it.loop_with(controllers, schedule)
        request = ("status", Request())
        answers = []
        it.requests = lambda: iter([request])
        it.respond = lambda verb, response: answers.append(response)
        after.turn(0)

    (answer,) = answers
    assert answer.data.health.uptime_s == TICKS * 2 * TICK
    assert answer.data.selected["lab"].interval >= 1
