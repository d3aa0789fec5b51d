"""Scheduler: start times of each field's intervals, and deadlines of activated sensors."""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Annotated

import msgspec
from msgspec import Meta

from edge_tvbo.control.controller import MAX_SINGLE_STEPS
from edge_tvbo.daemon.clock import Clock
from edge_tvbo.messages.commands import MIN_REPLY_SHARE, Activate, Command, Recommend, Record
from edge_tvbo.messages.events import DeadlineElapsed, DowntimeElapsed, Event, IntervalElapsed

MAX_ROUNDING_S = 1e-3  # a smaller difference of two times is a rounding error


class AwaitedReply(msgspec.Struct, frozen=True):
    """A field's pending deadline for replies, which survives a restart or a reload."""

    interval: Annotated[int, Meta(ge=0, le=2**53)]  # number of the interval of the activations
    sensors: Annotated[int, Meta(ge=1, le=2**31)]  # number of sensors whose replies are awaited
    due_in: Annotated[float, Meta(ge=-1e12, le=1e12)]  # s until the deadline


class Scheduler:
    """Source of the events that the clock causes: new intervals and elapsed deadlines.

    Parameters
    ----------
    intervals : mapping
        Length of each field's interval in s; None for the setting "on-reading".
    clock : Clock
        The daemon's clock.
    first : float
        The time of `clock.elapsed` at which every field begins its first interval. If the schedule
        starts later, the first intervals begin when the schedule starts.
    latest_start : float or None
        The time of `clock.elapsed` at which the schedule starts even if `start` was not called.
        None if the schedule has started already. No interval begins before the schedule starts.
    last : int or None
        Maximum number of intervals of each field with a fixed interval; None for no limit.
    """

    def __init__(
        self,
        intervals: Mapping[str, float | None],
        clock: Clock,
        *,
        first: float,
        latest_start: float | None = None,
        last: int | None = None,
    ) -> None:
        self._clock = clock
        self._latest_start = latest_start  # None once the schedule has started
        self._timers = {
            name: _FieldTimer(interval, first, inf if last is None else last)
            for name, interval in intervals.items()
        }

    def next_due(self) -> float:
        """Return the time of the next scheduled event, on the scale of `clock.elapsed`, or inf."""
        if self._latest_start is not None:
            return self._latest_start
        return min(timer.due() for timer in self._timers.values())

    def done(self) -> bool:
        """Return whether the scheduled intervals of all fields have ended."""
        return self.next_due() == inf

    def next_interval(self, field: str) -> tuple[float | None, float]:
        """Return ``(interval, begins_in)`` of a field, both in s.

        `interval` is the length of an interval, and `begins_in` is the time to the start of the
        next one. For a field with the interval "on-reading", the result is (None, 0). If the first
        interval awaits the start of the schedule, `begins_in` is 0.
        """
        timer = self._timers[field]
        if timer.interval is None:
            return None, 0.0
        awaits_start = self._latest_start is not None and not timer.planned
        begins_in = 0.0 if awaits_start else timer.next - self._clock.elapsed()
        return timer.interval, begins_in

    def awaited_reply(self, field: str) -> AwaitedReply | None:
        """Return the pending deadline of a field, for `resume`; None if no reply is awaited."""
        timer = self._timers[field]
        if timer.deadline == inf:
            return None
        due_in = timer.deadline - self._clock.elapsed()
        return AwaitedReply(timer.activated_in, timer.awaited, due_in)

    def start(self) -> None:
        """Start the schedule, because the sensors can be activated now.

        Each field begins its next interval now, unless `resume` has planned it for a later time.
        """
        if self._latest_start is None:
            return
        self._latest_start = None
        for timer in self._timers.values():
            if not timer.planned:
                timer.next = self._clock.elapsed()

    def resume(self, field: str, begins_in: float, reply: AwaitedReply | None = None) -> None:
        """Schedule the start of a field's next interval, `begins_in` seconds from now.

        If `begins_in` is 0, the next interval begins as soon as the schedule starts.
        `reply` is the reply that the running interval still awaits, or None. If a reply is awaited
        and the field has the interval "on-reading", the next interval begins after the reply,
        whatever `begins_in` is.
        """
        timer = self._timers[field]
        timer.planned = begins_in != 0.0
        timer.next = self._clock.elapsed() + min(begins_in, timer.interval or 0.0)
        if reply:
            due_in = min(max(0.0, reply.due_in), timer.interval or inf)
            timer.await_reply(reply.interval, self._clock.elapsed(), due_in)
            timer.awaited = reply.sensors
            if timer.interval is None:
                timer.planned, timer.next = True, inf

    def due(self) -> Iterator[tuple[str, Event]]:
        """Yield ``(field, event)`` for each scheduled interval or deadline that is due."""
        if self._latest_start is not None:
            if self._clock.elapsed() < self._latest_start:
                return
            self.start()
        for name, timer in self._timers.items():
            now = self._clock.elapsed()
            if timer.deadline <= now:
                timer.end_wait(now)
                yield name, DeadlineElapsed(timer.activated_in, self._clock.wall(now))
            if timer.next_interval() <= self._clock.elapsed():
                yield from ((name, event) for event in timer.begin(self._clock))

    def note(self, field: str, command: Command) -> None:
        """Set the reply deadline of `field` after `Activate`; clear it after the last reply.

        A recommendation has a deadline only if the interval of `field` is "on-reading", or if
        a further sensor will be recommended in the same interval.
        """
        timer = self._timers[field]
        match command:
            case Activate() | Recommend():
                if timer.interval is None or isinstance(command, Activate) or command.more:
                    self._await_reply(timer, command)
            case Record(interval=interval) if interval == timer.activated_in:
                timer.awaited -= 1
                if timer.awaited <= 0:
                    timer.end_wait(self._clock.elapsed())
            case _:
                pass

    def _await_reply(self, timer: "_FieldTimer", command: Activate | Recommend) -> None:
        if isinstance(command, Activate):
            replaces = command.replaces
        else:
            replaces = timer.interval is None or command.interval != timer.activated_in
        timer.awaited = 1 if replaces else timer.awaited + 1
        now = self._clock.elapsed()
        share = MIN_REPLY_SHARE * (command.expires_at - command.at)
        least = max(share, self._clock.min_reply_time)  # used if the daemon is late
        left = command.expires_at - self._clock.wall(now)
        timer.await_reply(command.interval, now, max(left, least), self._clock.min_reply_time)


class _FieldTimer:
    """One field's next interval and pending deadline, as times of `clock.elapsed`.

    A pending deadline is handled before the next interval begins. So a late deadline delays the
    next interval until the wait for the reply ends; the sensor of the next interval still has its
    whole time to reply. Later intervals begin on time, unless they are delayed in the same way.
    The delay is bounded even if users activate several sensors in the same interval: see
    `max_deadline`. In a replay, the delay is not bounded, because each sensor has the minimum time
    to reply. But the wall time stops and the clock is turned back, so the delay is not visible.
    """

    def __init__(self, interval: float | None, first: float, left: float) -> None:
        self.interval = interval
        self.next = first
        self.planned = False  # whether `resume` has set `next` to a later time
        self.left = left  # number of intervals that have not begun yet
        self.deadline = inf
        self.waited_until = -inf  # end of the last wait for replies
        self.awaited = 0  # number of sensors that must reply before the deadline
        self.max_deadline = inf  # latest deadline of the interval, for any number of activations
        self.activated_in = -1  # number of the last interval with an activation

    def await_reply(self, interval: int, now: float, allowed: float, least: float = 0.0) -> None:
        """Set the deadline for replies in the interval with the number `interval`.

        At the present time, `now`, the sensor has `allowed` s to reply. The deadline is not later
        than `max_deadline`, unless the sensor would then have less than `least` s.
        """
        if interval != self.activated_in:
            self.activated_in = interval
            self.max_deadline = now + allowed + (self.interval or allowed)
        self.deadline = max(min(now + allowed, self.max_deadline), now + least)

    def end_wait(self, now: float) -> None:
        """Stop waiting for replies; the wait has ended now, or at the deadline if it has passed."""
        if self.deadline < inf:
            self.waited_until, self.deadline = min(now, self.deadline), inf

    def due(self) -> float:
        """Return the time of the field's next scheduled event, on the scale of `clock.elapsed`."""
        return min(self.deadline, self.next_interval())

    def next_interval(self) -> float:
        """Return when the field's next interval is scheduled; inf while a reply is awaited."""
        return self.next if self.deadline == inf and self.left > 0 else inf

    def begin(self, clock: Clock) -> Iterator[Event]:
        """Begin the field's next scheduled interval; yield the events that announce it.

        If more than `MAX_SINGLE_STEPS` intervals have begun, because the process was suspended, all
        but the last one are announced as a downtime.
        """
        if self.interval is None:
            at, self.next = self.next, inf
            yield IntervalElapsed(clock.wall(at))
            return
        waited_until = clock.wall(self.waited_until)  # before `catch_up`, which may turn back time
        intervals = clock.catch_up(self.next, self.interval)
        at = self.next + (intervals - 1) * self.interval
        self.next = at + self.interval
        self.left -= intervals
        if intervals > MAX_SINGLE_STEPS:
            yield DowntimeElapsed(clock.wall(at - self.interval), intervals - 1)
            intervals = 1
        begins = clock.wall(at)
        if waited_until > begins + MAX_ROUNDING_S:
            begins = waited_until
        yield IntervalElapsed(begins, intervals)
