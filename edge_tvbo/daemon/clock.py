"""Clocks: `elapsed` is monotonic and schedules; `wall` dates events.

A step of the wall clock does not move `elapsed`. `wall` runs along with it and is corrected by
`resync` alone: between two calls all events are dated by one clock, and the daemon learns by how
much earlier dates are off.

A gateway without a real-time clock starts in 1970, or at the time it was switched off, and is
corrected by the network later. After a suspend the wall clock is ahead of the monotonic one.
"""

import time
from typing import Protocol

RELEASED = 1_767_225_600.0  # 2026-01-01; a wall clock with an earlier time was never set
MAX_DRIFT_S = 2.0  # a smaller difference between the clocks is slewing, not a step
MAX_READ_GAP_S = 0.5  # between reading the two clocks that are compared


class Clock(Protocol):
    """The time of the sensor network, which in a replay is that of the recording; in seconds."""

    speed: float  # seconds of network time in one real second
    min_reply_time: float  # network time that an activated sensor gets at least

    @property
    def is_set(self) -> bool:
        """Whether the wall clock can be right; it shows 1970 until it is set."""
        ...

    def elapsed(self) -> float:
        """Return the monotonic time."""
        ...

    def wall(self, elapsed: float) -> float:
        """Return the time since 1970 at a monotonic time near now."""
        ...

    def resync(self) -> float:
        """Adopt the wall clock as it is now; return by how much it was set since, mostly 0."""
        ...

    def catch_up(self, due: float, interval: float) -> int:
        """Return how many intervals have begun since the one that was `due`, it included."""
        ...


class LiveClock:
    """Real time: skipped intervals, as after a suspend, count as elapsed."""

    speed = 1.0
    min_reply_time = 0.0

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()  # s from the monotonic to the wall clock

    @property
    def is_set(self) -> bool:
        """Whether the wall clock can be right; it shows 1970 until it is set."""
        return self.wall(self.elapsed()) >= RELEASED

    def elapsed(self) -> float:
        """Return the monotonic time."""
        return time.monotonic()

    def wall(self, elapsed: float) -> float:
        """Return the time since 1970 at a monotonic time near now."""
        return elapsed + self._offset

    def resync(self) -> float:
        """Adopt the wall clock as it is now; return by how much it was set since, mostly 0."""
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        if after - before > MAX_READ_GAP_S:
            return 0.0
        step = wall - after - self._offset
        self._offset += step
        return step if abs(step) > MAX_DRIFT_S else 0.0

    def catch_up(self, due: float, interval: float) -> int:
        """Return how many intervals have begun since the one that was `due`, it included."""
        return 1 + max(0, int((time.monotonic() - due) // interval))


class ReplayClock:
    """The time of a recording, run faster; it waits for everything that is late.

    A replay must not depend on the load of the machine. If an interval begins late, the clock is
    turned back to its due time. An activated sensor has at least `reply_time` real seconds, and the
    wall time does not pass the end of the interval whose reply is awaited.

    Parameters
    ----------
    start : float
        Seconds since 1970 at which the replay begins.
    speed : float
        Recorded seconds in one real second.
    reply_time : float
        Real seconds.
    """

    is_set = True

    def __init__(self, start: float, speed: float, reply_time: float = 1.0) -> None:
        self.speed = speed
        self.min_reply_time = reply_time * speed
        self._start = start
        self._interval_end = 0.0  # elapsed
        self._origin = time.monotonic()

    def elapsed(self) -> float:
        """Return the seconds of the recording since its start."""
        return (time.monotonic() - self._origin) * self.speed

    def wall(self, elapsed: float) -> float:
        """Return the recording's time since 1970, exact for whole seconds."""
        return self._start + min(elapsed, self._interval_end)

    def resync(self) -> float:
        """Return 0: a recording's clock is never set."""
        return 0.0

    def catch_up(self, due: float, interval: float) -> int:
        """Turn back to `due` and return 1: no interval is ever skipped."""
        self._origin += max(0.0, self.elapsed() - due) / self.speed
        self._interval_end = due + interval
        return 1
