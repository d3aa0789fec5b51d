"""Time for the loop: `elapsed` to schedule by, `wall` to say when.

`elapsed` is monotonic and knows nothing of dates; a step of the wall clock does not move it. `wall`
goes along with it, and is set right by `resync` alone: between two calls of it, all that happens
is dated by one clock, and whoever remembers dates learns by how much they are off.

A machine without a clock of its own begins in 1970, or where it was switched off, and is set right
by the network later; one that was asleep is ahead of its monotonic clock by as long.
"""

import time
from typing import Protocol

RELEASED = 1_767_225_600.0  # 2026-01-01; a wall clock before it was never set
STEP = 2.0  # s; a wall clock that is off by less is being slowed down or hurried on
UNSURE = 0.5  # s; two clocks that were not read within it were not read together


class Clock(Protocol):
    """Seconds of the network's time, which for a replay is not ours."""

    speed: float  # seconds of the network's time in one real second
    min_reply_time: float  # s of the network's time that an activated sensor gets at the least

    @property
    def is_set(self) -> bool:
        """Whether the wall clock can be right; it says 1970 until somebody sets it."""
        ...

    def elapsed(self) -> float:
        """Give the monotonic time, in s."""
        ...

    def wall(self, elapsed: float) -> float:
        """Give the time since 1970 that belongs to a monotonic time near now."""
        ...

    def resync(self) -> float:
        """Go by the wall clock as it is now; give by how many s it was set since, mostly 0."""
        ...

    def catch_up(self, due: float, interval: float) -> int:
        """Come to terms with an interval that was `due`; give how many have gone by, 1 or more."""
        ...


class LiveClock:
    """The time of the world: what was slept through has gone by."""

    speed = 1.0
    min_reply_time = 0.0

    def __init__(self) -> None:
        self._ahead = time.time() - time.monotonic()  # s, the wall clock of the monotonic one

    @property
    def is_set(self) -> bool:
        """Whether the wall clock can be right; it says 1970 until somebody sets it."""
        return self.wall(self.elapsed()) >= RELEASED

    def elapsed(self) -> float:
        """Give the monotonic time, in s."""
        return time.monotonic()

    def wall(self, elapsed: float) -> float:
        """Give the time since 1970 that belongs to a monotonic time near now."""
        return elapsed + self._ahead

    def resync(self) -> float:
        """Go by the wall clock as it is now; give by how many s it was set since, mostly 0."""
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        if after - before > UNSURE:
            return 0.0
        by = wall - after - self._ahead
        self._ahead += by
        return by if abs(by) > STEP else 0.0

    def catch_up(self, due: float, interval: float) -> int:
        """Give how many intervals have gone by since the one that was `due` began, it included."""
        return 1 + max(0, int((time.monotonic() - due) // interval))


class ReplayClock:
    """The time of a recording, run faster, which stands still for whoever is late.

    A replay must not depend on how busy the machine is: an interval that begins late turns the
    clock back to where it was due, an activated sensor has `wait` real seconds at the least, and
    the date does not pass the end of the interval that has begun while it is waited for.
    """

    is_set = True

    def __init__(self, start: float, speed: float, wait: float = 1.0) -> None:
        self.speed = speed
        self.min_reply_time = wait * speed
        self._start = start
        self._until = 0.0  # elapsed: the end of the interval that has begun
        self._origin = time.monotonic()

    def elapsed(self) -> float:
        """Give the seconds of the recording since its start."""
        return (time.monotonic() - self._origin) * self.speed

    def wall(self, elapsed: float) -> float:
        """Give the recording's time since 1970, exact for whole seconds."""
        return self._start + min(elapsed, self._until)

    def resync(self) -> float:
        """Give 0: nobody sets a recording's clock."""
        return 0.0

    def catch_up(self, due: float, interval: float) -> int:
        """Turn back to `due`: no interval is ever skipped."""
        self._origin += max(0.0, self.elapsed() - due) / self.speed
        self._until = due + interval
        return 1
