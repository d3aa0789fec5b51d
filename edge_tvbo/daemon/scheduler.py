"""What is due when: each field's intervals, and the deadline of the sensor it has asked."""

from collections.abc import Iterator, Mapping
from math import inf

from edge_tvbo.control.controller import LEAST_TIME
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
        What time it is.
    first : float
        The elapsed time at which every field begins.
    last : int or None
        How many intervals a field of fixed intervals runs for; for ever without it.
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
        self._lines = {
            name: _FieldTimer(interval, first, inf if last is None else last)
            for name, interval in intervals.items()
        }

    def next_due(self) -> float:
        """Give the elapsed time at which `due` has something to say; inf for never again."""
        return min(line.due() for line in self._lines.values())

    def done(self) -> bool:
        """Say whether every field has run its intervals and none is waiting."""
        return self.next_due() == inf

    def next_interval(self, field: str) -> tuple[float | None, float, int]:
        """Give the seconds of a field's interval, and when the next one begins, as for `resume`.

        None, 0 and 1 where intervals follow the readings.
        """
        line = self._lines[field]
        if line.interval is None:
            return None, 0.0, 1
        return line.interval, line.next - self._clock.elapsed(), line.skipped + 1

    def resume(self, field: str, begins_in: float, intervals: int) -> None:
        """Let a field's next interval begin in so many seconds, `intervals` after its last one."""
        line = self._lines[field]
        line.next = self._clock.elapsed() + min(begins_in, line.interval or 0.0)
        line.skipped = intervals - 1

    def due(self) -> Iterator[tuple[str, Event]]:
        """Yield ``(field, event)`` for all that is due by now."""
        for name, line in self._lines.items():
            now = self._clock.elapsed()
            if line.deadline <= now:
                line.deadline = inf
                yield name, DeadlineElapsed(line.asked, self._clock.wall(now))
            if line.due() <= self._clock.elapsed():
                yield name, line.begin(self._clock)

    def note(self, field: str, command: Command) -> None:
        """Set or lift the deadline as the controller's command implies."""
        line = self._lines[field]
        match command:
            case Activate(interval=interval, at=at, expires_at=expires_at):
                now = self._clock.elapsed()
                enough = LEAST_TIME * (expires_at - at)
                least = max(enough, self._clock.min_reply_time)  # where we are late
                line.wait(interval, now, max(expires_at - self._clock.wall(now), least))
            case Record(interval=interval) if interval == line.asked:
                line.deadline = inf
            case _:
                pass


class _FieldTimer:
    """One field's next interval and pending deadline, in elapsed seconds.

    A pending deadline comes before the next interval: whoever was asked is waited for. Where one
    sensor after the other is asked in the same interval, the next one is put off no further than
    the last of them could answer that was asked in time.
    """

    def __init__(self, interval: float | None, first: float, left: float) -> None:
        self.interval = interval
        self.next = first
        self.left = left  # intervals still to begin
        self.skipped = 0  # intervals that went by before this schedule began
        self.deadline = inf
        self.latest = inf  # that the deadline can be
        self.asked = -1

    def wait(self, interval: int, now: float, allowed: float) -> None:
        if interval != self.asked:
            self.asked, self.latest = interval, now + allowed + (self.interval or allowed)
        self.deadline = min(now + allowed, self.latest)

    def due(self) -> float:
        if self.deadline < inf:
            return self.deadline
        return self.next if self.left > 0 else inf

    def begin(self, clock: Clock) -> IntervalElapsed:
        if self.interval is None:
            at, self.next = self.next, inf
            skipped, self.skipped = self.skipped, 0
            return IntervalElapsed(clock.wall(at), 1 + skipped)
        intervals = clock.catch_up(self.next, self.interval)
        at = self.next + (intervals - 1) * self.interval
        self.next = at + self.interval
        self.left -= intervals
        skipped, self.skipped = self.skipped, 0
        return IntervalElapsed(clock.wall(at), intervals + skipped)
