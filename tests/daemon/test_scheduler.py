"""Scheduler and clocks: due events, with a clock that the test sets."""

import time
from itertools import accumulate, repeat
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.controllers import controller_settings

from edge_tvbo.control.controller import MAX_SINGLE_STEPS, Controller
from edge_tvbo.daemon.clock import LiveClock, ReplayClock
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.messages.commands import Activate, Ending, Recommend, Record
from edge_tvbo.messages.events import (
    ActivationRequested,
    DeadlineElapsed,
    DowntimeElapsed,
    IntervalElapsed,
    Reading,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

EPOCH = 1_000_000.0  # wall time when `elapsed` is 0


class FakeClock:
    """A clock moved by hand; with `skips=False` it never skips an interval, as in a replay.

    In a replay, the wall time stops at the end of the interval.
    """

    speed = 1.0
    step = 0.0  # by which each reading of the clock advances it

    def __init__(self, *, skips=True, min_reply_time=0.0):
        self.now = 0.0
        self.end = inf if skips else 0.0
        self.skips = skips
        self.min_reply_time = min_reply_time

    def elapsed(self):
        self.now += self.step
        return self.now

    def wall(self, elapsed):
        return EPOCH + min(elapsed, self.end)

    def catch_up(self, due, interval):
        if self.skips:
            return 1 + max(0, int((self.now - due) // interval))
        self.now, self.end = min(self.now, due), due + interval
        return 1


def at(schedule, clock, now):
    """Set the clock to `now`, and return the due events."""
    clock.now = now
    return list(schedule.due())


def activation(interval, now, timeout=20.0, sensor="a"):
    return Activate(sensor, interval, EPOCH + now, EPOCH + now + timeout)


def test_repeated_activations_delay_the_next_interval_by_at_most_one_deadline():
    clock = FakeClock()
    schedule = Scheduler({"t": 60.0}, clock, first=0.0)
    at(schedule, clock, 0.0)
    events = []
    for second in range(200):
        clock.now = float(second)
        schedule.note("t", activation(0, clock.now))
        events += at(schedule, clock, clock.now)
        if events:
            break
    assert events[0][1].interval == 0  # the deadline, and then the due interval
    assert isinstance(events[1][1], IntervalElapsed)
    assert clock.now == 80.0


@pytest.mark.parametrize(
    ("interval", "more", "due"),
    [
        (60.0, False, IntervalElapsed(EPOCH + 60.0)),
        (60.0, True, DeadlineElapsed(0, EPOCH + 20)),
        (None, False, DeadlineElapsed(0, EPOCH + 20)),
    ],
)
def test_recommendation_has_a_deadline_only_if_something_follows_it(interval, more, due):
    """A reading may be followed by the next interval, or by another sensor of the interval."""
    clock = FakeClock()
    schedule = Scheduler({"t": interval}, clock, first=0.0)
    at(schedule, clock, 0.0)
    schedule.note("t", Recommend("a", 0, EPOCH, EPOCH + 20.0, more))
    clock.now = schedule.next_due()
    assert list(schedule.due()) == [("t", due)]


def test_late_reply_does_not_end_the_deadline_of_the_next_recommendation():
    clock = FakeClock()
    schedule = Scheduler({"t": 120.0}, clock, first=0.0)
    at(schedule, clock, 0.0)
    schedule.note("t", Recommend("a", 0, EPOCH, EPOCH + 20.0, more=True))
    assert at(schedule, clock, 20.0) == [("t", DeadlineElapsed(0, EPOCH + 20.0))]
    schedule.note("t", Recommend("b", 0, EPOCH + 20.0, EPOCH + 40.0, more=True))
    schedule.note("t", reply(0))
    assert schedule.next_due() == 40.0
    schedule.note("t", reply(0))
    assert schedule.next_due() == 120.0


def reply(interval, ending=Ending.ANSWERED):
    return Record(interval, EPOCH, "a", ending, 1.0, 0.0, None, False)


def test_intervals_begin_at_multiples_even_if_the_scheduler_is_called_late():
    clock = FakeClock()
    schedule = Scheduler({"t": 60.0}, clock, first=0.0)
    seen = [at(schedule, clock, now) for now in (0.0, 59.9, 60.7, 119.0, 120.0)]
    assert seen == [
        [("t", IntervalElapsed(EPOCH))],
        [],
        [("t", IntervalElapsed(EPOCH + 60))],
        [],
        [("t", IntervalElapsed(EPOCH + 120))],
    ]
    assert schedule.next_due() == 180.0


def waiting(clock):
    """Return a schedule that waits for `start` until 10, with a planned field and another one."""
    schedule = Scheduler({"new": 60.0, "planned": 60.0}, clock, first=0.0, latest_start=10.0)
    schedule.resume("planned", 5.0)
    return schedule


@pytest.mark.parametrize("begins_in", [None, 0.0])
def test_no_interval_begins_before_the_schedule_starts(begins_in):
    clock = FakeClock()
    schedule = waiting(clock)
    if begins_in is not None:
        schedule.resume("new", begins_in)
    assert at(schedule, clock, 6.0) == []
    schedule.start()
    assert list(schedule.due()) == [
        ("new", IntervalElapsed(EPOCH + 6)),
        ("planned", IntervalElapsed(EPOCH + 5)),
    ]
    schedule.start()  # a later connection changes nothing
    assert schedule.next_due() == 65.0


def test_schedule_starts_by_itself_if_the_wait_takes_too_long():
    clock = FakeClock()
    schedule = waiting(clock)
    assert schedule.next_due() == 10.0
    assert at(schedule, clock, 10.5) == [
        ("new", IntervalElapsed(EPOCH + 10.5)),
        ("planned", IntervalElapsed(EPOCH + 5)),
    ]
    assert schedule.next_due() == 65.0


def test_interval_that_awaits_the_start_begins_at_the_start_of_the_next_schedule():
    """A reload before the first connection transfers no start time in the past."""
    clock = FakeClock()
    before = waiting(clock)
    clock.now = 9.0
    reloaded = Scheduler({"new": 60.0, "planned": 60.0}, clock, first=9.0, latest_start=19.0)
    for field in ("new", "planned"):
        _, begins_in = before.next_interval(field)
        reloaded.resume(field, begins_in)
    clock.now = 12.0
    reloaded.start()
    assert list(reloaded.due()) == [
        ("new", IntervalElapsed(EPOCH + 12)),
        ("planned", IntervalElapsed(EPOCH + 5)),
    ]


@given(st.lists(st.integers(0, 400), max_size=30))
def test_skipped_intervals_are_counted(pauses):
    clock = FakeClock()
    schedule = Scheduler({"t": 60.0}, clock, first=0.0)
    counted, now = 0, 0
    for pause in [0, *pauses]:
        now += pause
        for _, event in at(schedule, clock, float(now)):
            counted += event.intervals
            assert event.at == EPOCH + 60.0 * (counted - 1)
            assert event.at <= EPOCH + now < event.at + 60.0
        assert counted == 1 + now // 60


def test_deadline_elapses_once_without_a_reply():
    clock = FakeClock()
    schedule = Scheduler({"t": 60.0}, clock, first=0.0)
    at(schedule, clock, 0.0)
    schedule.note("t", activation(0, 0.0))
    assert schedule.next_due() == 20.0
    assert at(schedule, clock, 19.9) == []
    assert at(schedule, clock, 20.5) == [("t", DeadlineElapsed(0, EPOCH + 20.5))]
    assert at(schedule, clock, 21.0) == []
    assert schedule.next_due() == 60.0


def test_reply_clears_the_deadline_of_its_own_interval_only():
    clock = FakeClock()
    schedule = Scheduler({"t": 60.0}, clock, first=0.0)
    at(schedule, clock, 0.0)
    schedule.note("t", activation(3, 0.0))
    schedule.note("t", reply(2))
    assert schedule.next_due() == 20.0
    schedule.note("t", reply(3))
    assert schedule.next_due() == 60.0


def test_deadline_elapses_before_the_interval_that_is_due_with_it():
    clock = FakeClock()
    schedule = Scheduler({"t": 60.0}, clock, first=0.0)
    at(schedule, clock, 0.0)
    schedule.note("t", activation(0, 0.0, timeout=60.0))
    assert at(schedule, clock, 65.0) == [
        ("t", DeadlineElapsed(0, EPOCH + 65)),
        ("t", IntervalElapsed(EPOCH + 60)),
    ]


@pytest.mark.parametrize("interval", [60.0, None])
def test_deadline_that_passes_while_the_clock_is_read_begins_no_interval(interval):
    clock = FakeClock()
    schedule = Scheduler({"t": interval}, clock, first=0.0)
    at(schedule, clock, 0.0)
    schedule.note("t", activation(0, 0.0))
    clock.step = 1e-6  # between two readings of the clock
    events = at(schedule, clock, 20.0 - 1.5e-6) + at(schedule, clock, 20.1)
    assert [type(event) for _, event in events] == [DeadlineElapsed]


def test_reply_is_awaited_past_the_next_interval():
    clock = FakeClock()
    schedule = Scheduler({"t": 60.0}, clock, first=0.0)
    at(schedule, clock, 0.0)
    schedule.note("t", activation(0, 0.0, timeout=130.0))
    assert at(schedule, clock, 61.0) == []
    assert at(schedule, clock, 130.0) == [
        ("t", DeadlineElapsed(0, EPOCH + 130)),
        ("t", IntervalElapsed(EPOCH + 130, 2)),
    ]
    assert at(schedule, clock, 180.0) == [("t", IntervalElapsed(EPOCH + 180))]


def test_interval_that_awaits_a_reply_begins_when_the_reply_arrives():
    clock = FakeClock()
    schedule = Scheduler({"t": 60.0}, clock, first=0.0)
    at(schedule, clock, 0.0)
    schedule.note("t", activation(0, 50.0, timeout=40.0))
    clock.now = 75.0
    schedule.note("t", reply(0))
    assert at(schedule, clock, 75.1) == [("t", IntervalElapsed(EPOCH + 75))]
    assert at(schedule, clock, 120.0) == [("t", IntervalElapsed(EPOCH + 120))]


class Run:
    """A controller and its schedule; events that are due are handled up to a second late."""

    def __init__(self, timeout):
        self.clock = FakeClock()
        self.timeout = timeout
        self.schedule = Scheduler({"t": 60.0}, self.clock, first=0.0)
        field = SensorField(("a", "b"), np.eye(2), 0.01)
        policy = make_policy("round-robin", field)
        self.controller = Controller(policy, controller_settings(timeout))
        self.activated_at = []

    def handle(self, event):
        for command in self.controller.handle(event):
            self.schedule.note("t", command)
            if isinstance(command, Activate):
                self.activated_at.append(command.at)
                left = command.expires_at - (EPOCH + self.clock.now)
                assert self.timeout - 1.001 <= left <= self.timeout + 0.001

    def step(self, wait, late, what):
        until = self.clock.now + wait
        while self.schedule.next_due() <= until:
            self.clock.now = max(self.clock.now, self.schedule.next_due() + late)
            for _, event in self.schedule.due():
                self.handle(event)
        self.clock.now = max(self.clock.now, until)
        now = EPOCH + self.clock.now
        if what == "ask":
            self.handle(ActivationRequested("b", now))
        elif what == "reply":
            self.handle(Reading(self.controller.health().selected, 0.0, now, now))


def steps(*what):
    step = st.tuples(st.floats(0.0, 90.0), st.floats(0.0, 1.0), st.sampled_from(["wait", *what]))
    return st.lists(step).map(lambda drawn: [(0.0, 0.0, "wait"), *drawn])


@given(st.floats(12.0, 60.0), steps("ask", "reply"))
def test_sensor_that_is_activated_after_a_long_wait_has_the_whole_time_to_reply(timeout, steps):
    """A requested sensor may reply in the next interval, which begins after this reply."""
    run = Run(timeout)
    for step in steps:
        run.step(*step)


@given(st.floats(12.0, 60.0) | st.just(60.0), steps("reply"))
def test_awaited_reply_delays_no_interval_unless_a_user_activates_a_sensor(timeout, steps):
    """Even if the time to reply is as long as the interval, and the deadline is handled late."""
    run = Run(timeout)
    for step in steps:
        run.step(*step)
    assert run.activated_at == [EPOCH + 60.0 * n for n in range(len(run.activated_at))]


@pytest.mark.parametrize("start", [EPOCH, 1.7e9 + 0.3])
@pytest.mark.parametrize("interval", [0.7, 1.0, 86.4])
def test_a_missing_reply_delays_no_interval_of_a_replay(start, interval):
    """The end of the last wait and the start of the next interval are rounded differently."""
    clock = ReplayClock(start, speed=1e4, reply_time=0.0)
    schedule = Scheduler({"t": interval}, clock, first=0.0, last=50)
    began = []
    while not schedule.done():
        for _, event in schedule.due():
            if isinstance(event, IntervalElapsed):
                began.append(event.at)
                expires_at = event.at + interval
                clock.hold(expires_at)
                schedule.note("t", Activate("a", len(began), event.at, expires_at))
    starts = accumulate(repeat(interval, 49), initial=0.0)
    assert began == [start + elapsed for elapsed in starts]


def test_min_reply_time_extends_the_deadline():
    clock = FakeClock(min_reply_time=50.0)
    schedule = Scheduler({"t": 60.0}, clock, first=0.0)
    at(schedule, clock, 0.0)
    schedule.note("t", activation(0, 0.0, timeout=20.0))
    assert schedule.next_due() == 50.0


@pytest.mark.parametrize("min_reply_time", [50.0, 600.0])
def test_each_of_many_activations_has_the_min_reply_time(min_reply_time):
    """A replay turns its clock back, so a late deadline delays no interval of the recording."""
    clock = FakeClock(skips=False, min_reply_time=min_reply_time)
    schedule = Scheduler({"t": 60.0}, clock, first=0.0)
    at(schedule, clock, 0.0)
    for number in range(16):
        now = number * min_reply_time
        schedule.note("t", activation(0, now))
        assert schedule.next_due() == now + min_reply_time
        clock.now = now + min_reply_time
        assert isinstance(next(schedule.due())[1], DeadlineElapsed)
    assert at(schedule, clock, clock.now) == [("t", IntervalElapsed(EPOCH + 60, 1))]


def test_nothing_is_due_after_the_last_interval_and_its_reply():
    clock = FakeClock()
    schedule = Scheduler({"t": 60.0}, clock, first=0.0, last=2)
    at(schedule, clock, 0.0)
    assert not schedule.done()
    at(schedule, clock, 60.0)
    schedule.note("t", activation(1, 60.0))
    assert not schedule.done()
    schedule.note("t", reply(1))
    assert schedule.done()
    assert schedule.next_due() == inf
    assert at(schedule, clock, 1000.0) == []


def test_skipped_intervals_count_towards_the_last():
    clock = FakeClock()
    schedule = Scheduler({"t": 60.0}, clock, first=0.0, last=3)
    at(schedule, clock, 0.0)
    assert at(schedule, clock, 125.0) == [("t", IntervalElapsed(EPOCH + 120, 2))]
    assert schedule.done()


def test_first_interval_begins_at_the_given_time():
    clock = FakeClock()
    clock.now = 7.0
    schedule = Scheduler({"t": 60.0, "u": None}, clock, first=30.0)
    assert list(schedule.due()) == []
    assert schedule.next_due() == 30.0
    assert at(schedule, clock, 31.0) == [
        ("t", IntervalElapsed(EPOCH + 30)),
        ("u", IntervalElapsed(EPOCH + 30)),
    ]
    assert schedule.next_due() == 90.0


def test_each_field_has_its_own_intervals():
    clock = FakeClock()
    schedule = Scheduler({"fast": 10.0, "slow": 25.0}, clock, first=0.0, last=3)
    names = [name for now in range(61) for name, _ in at(schedule, clock, float(now))]
    assert names == ["fast", "slow", "fast", "fast", "slow", "slow"]
    assert schedule.done()


def test_field_that_follows_its_readings_begins_once_and_then_has_deadlines_only():
    clock = FakeClock()
    schedule = Scheduler({"t": None}, clock, first=0.0)
    assert at(schedule, clock, 0.0) == [("t", IntervalElapsed(EPOCH))]
    assert at(schedule, clock, 1e6) == []
    schedule.note("t", activation(0, 1e6))
    schedule.note("t", reply(0))
    schedule.note("t", activation(1, 1e6 + 5))
    assert at(schedule, clock, 1e6 + 24) == []
    assert at(schedule, clock, 1e6 + 25) == [("t", DeadlineElapsed(1, EPOCH + 1e6 + 25))]


@given(st.lists(st.integers(0, 400), max_size=30))
def test_replay_neither_repeats_nor_skips_an_interval(pauses):
    clock = FakeClock(skips=False)
    schedule = Scheduler({"t": 60.0}, clock, first=0.0)
    events = []
    for pause in [0, *pauses]:
        events += at(schedule, clock, clock.now + pause)
    assert [event for _, event in events] == [
        IntervalElapsed(EPOCH + 60.0 * n) for n in range(len(events))
    ]


# --- clocks ---------------------------------------------------------------------------------------


@pytest.fixture
def monotonic(monkeypatch):
    """Return a function that sets the machine's clocks, monotonic and wall, which stand still."""

    def set_to(now, wall=0.0):
        monkeypatch.setattr(time, "monotonic", lambda: now)
        monkeypatch.setattr(time, "time", lambda: wall)

    set_to(1000.0)
    return set_to


def test_late_replay_clock_turns_back_to_the_due_time(monotonic):
    clock = ReplayClock(EPOCH, speed=10.0, reply_time=2.0)
    assert clock.min_reply_time == 20.0
    monotonic(1100.0)
    assert clock.elapsed() == 1000.0
    assert clock.catch_up(due=60.0, interval=60.0) == 1
    assert clock.elapsed() == pytest.approx(60.0)
    assert clock.wall(60.0) == EPOCH + 60.0
    monotonic(1103.0)
    assert clock.elapsed() == pytest.approx(90.0)


def test_early_replay_clock_is_not_turned_forward(monotonic):
    clock = ReplayClock(EPOCH, speed=1.0)
    monotonic(1010.0)
    assert clock.catch_up(due=60.0, interval=60.0) == 1
    assert clock.elapsed() == 10.0


@pytest.mark.parametrize(
    ("now", "intervals"), [(1000.0, 1), (1059.0, 1), (1060.0, 2), (1185.0, 4), (999.0, 1)]
)
def test_live_clock_counts_skipped_intervals(monotonic, now, intervals):
    monotonic(now)
    assert LiveClock().catch_up(due=1000.0, interval=60.0) == intervals


@given(late=st.integers(0, 2 * MAX_SINGLE_STEPS) | st.integers(0, 10**9))
def test_a_long_suspension_counts_all_intervals_and_the_schedule_skips_them(late):
    clock = FakeClock()
    schedule = Scheduler({"t": 2.0}, clock, first=0.0)
    now = 2.0 * late
    events = [IntervalElapsed(EPOCH + now, 1 + late)]
    if late >= MAX_SINGLE_STEPS:
        events = [DowntimeElapsed(EPOCH + now - 2.0, late), IntervalElapsed(EPOCH + now)]
    assert at(schedule, clock, now) == [("t", event) for event in events]
    assert at(schedule, clock, now + 1.0) == []
    assert at(schedule, clock, now + 2.0) == [("t", IntervalElapsed(EPOCH + now + 2.0))]


def test_wall_time_of_a_live_clock_is_the_system_time(monotonic):
    monotonic(1000.0, wall=EPOCH)
    assert LiveClock().wall(1005.0) == EPOCH + 5.0
    assert LiveClock().elapsed() == 1000.0


def test_wall_time_of_a_replay_clock_stops_at_the_end_of_the_interval():
    clock = ReplayClock(EPOCH, speed=1e9)
    clock.catch_up(0.0, 600.0)

    assert clock.wall(clock.elapsed() + 1e6) == EPOCH + 600.0


def test_deadline_stays_until_each_sensor_that_was_activated_at_once_has_replied():
    clock = FakeClock()
    schedule = Scheduler({"t": 60.0}, clock, first=0.0)
    at(schedule, clock, 0.0)
    schedule.note("t", activation(0, 0.0))
    schedule.note("t", replace(activation(0, 0.0, sensor="b"), replaces=False))
    schedule.note("t", reply(0))
    assert schedule.next_due() == 20.0
    schedule.note("t", reply(0))
    assert schedule.next_due() == 60.0


def test_deadline_of_a_replaced_activation_is_not_awaited():
    clock = FakeClock()
    schedule = Scheduler({"t": 60.0}, clock, first=0.0)
    at(schedule, clock, 0.0)
    schedule.note("t", activation(0, 0.0))
    schedule.note("t", activation(0, 1.0, sensor="b"))
    schedule.note("t", reply(0))
    assert schedule.next_due() == 60.0


def test_replay_clock_stands_still_at_the_time_of_hold_until_the_next_interval():
    clock = ReplayClock(EPOCH, speed=1e6)
    clock.catch_up(0.0, 600.0)
    clock.hold(EPOCH + 120.0)
    assert clock.wall(5000.0) == EPOCH + 120.0
    clock.catch_up(600.0, 600.0)
    assert clock.wall(5000.0) == EPOCH + 1200.0
