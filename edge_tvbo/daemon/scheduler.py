"""Scheduler: when each field's next interval begins, and when its activated sensor times out."""

from collections.abc import Iterator, Mapping
from math import inf

from edge_tvbo.control.controller import MIN_REPLY_SHARE
from edge_tvbo.daemon.clock import Clock
from edge_tvbo.messages.commands import Activate, Command, Record
from edge_tvbo.messages.events import DeadlineElapsed, Event, IntervalElapsed


class Scheduler:
    """Turns the clock into events.

    Parameters
    ----------
    intervals : mapping
        Seconds for each field, or None for one whose intervals follow its readings.
    clock : Clock
        The daemon's clock.
    first : float
        The elapsed time at which every field begins.
    last : int or None
        How many intervals a field of fixed intervals runs; None for no limit.
    """

    def __init__(
        self,
        intervals: Mapping[str, float | None],
        clock: Clock,
        *,
        first: float,
        last: int | None = None,
    ) -> None:
        self._clock = clock
        self._timers = {
            name: _FieldTimer(interval, first, inf if last is None else last)
            for name, interval in intervals.items()
        }

    def next_due(self) -> float:
        """Return the elapsed time of the next event; inf for none."""
        return min(timer.due() for timer in self._timers.values())

    def done(self) -> bool:
        """Return whether every field has run its intervals and no reply is awaited."""
        return self.next_due() == inf

    def next_interval(self, field: str) -> tuple[float | None, float, int]:
        """Return a field's interval in seconds, and the two arguments of `resume`.

        Where intervals follow the readings that is (None, 0, 1).
        """
        timer = self._timers[field]
        if timer.interval is None:
            return None, 0.0, 1
        return timer.interval, timer.next - self._clock.elapsed(), timer.skipped + 1

    def resume(self, field: str, begins_in: float, intervals: int) -> None:
        """Begin a field's next interval in `begins_in` seconds, `intervals` after its last one."""
        timer = self._timers[field]
        timer.next = self._clock.elapsed() + min(begins_in, timer.interval or 0.0)
        timer.skipped = intervals - 1

    def due(self) -> Iterator[tuple[str, Event]]:
        """Yield ``(field, event)`` for everything that is due."""
        for name, timer in self._timers.items():
            now = self._clock.elapsed()
            if timer.deadline <= now:
                timer.deadline = inf
                yield name, DeadlineElapsed(timer.activated_in, self._clock.wall(now))
            if timer.due() <= self._clock.elapsed():
                yield name, timer.begin(self._clock)

    def note(self, field: str, command: Command) -> None:
        """Set or clear the deadline that `command` implies."""
        timer = self._timers[field]
        match command:
            case Activate(interval=interval, at=at, expires_at=expires_at):
                now = self._clock.elapsed()
                share = MIN_REPLY_SHARE * (expires_at - at)
                least = max(share, self._clock.min_reply_time)  # where the daemon is late
                left = expires_at - self._clock.wall(now)
                timer.await_reply(interval, now, max(left, least))
            case Record(interval=interval) if interval == timer.activated_in:
                timer.deadline = inf
            case _:
                pass


class _FieldTimer:
    """One field's next interval and pending deadline, in elapsed seconds.

    A pending deadline comes before the next interval. Where several sensors are activated one after
    the other in the same interval, the next one is delayed no further than the last of them could
    reply that was activated in time.
    """

    def __init__(self, interval: float | None, first: float, left: float) -> None:
        self.interval = interval
        self.next = first
        self.left = left  # intervals still to begin
        self.skipped = 0  # intervals that elapsed before this scheduler existed
        self.deadline = inf
        self.max_deadline = inf
        self.activated_in = -1  # the interval whose reply is awaited

    def await_reply(self, interval: int, now: float, allowed: float) -> None:
        """Set the deadline of a reply in `interval`."""
        if interval != self.activated_in:
            self.activated_in = interval
            self.max_deadline = now + allowed + (self.interval or allowed)
        self.deadline = min(now + allowed, self.max_deadline)

    def due(self) -> float:
        """Return when the next event is due."""
        if self.deadline < inf:
            return self.deadline
        return self.next if self.left > 0 else inf

    def begin(self, clock: Clock) -> IntervalElapsed:
        """Begin the next interval."""
        skipped, self.skipped = self.skipped, 0
        if self.interval is None:
            at, self.next = self.next, inf
            return IntervalElapsed(clock.wall(at), 1 + skipped)
        intervals = clock.catch_up(self.next, self.interval)
        at = self.next + (intervals - 1) * self.interval
        self.next = at + self.interval
        self.left -= intervals
        return IntervalElapsed(clock.wall(at), intervals + skipped)
