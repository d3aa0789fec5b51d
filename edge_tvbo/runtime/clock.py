"""Time for the loop: `elapsed` to schedule by, `wall` to say when.

`elapsed` is monotonic and knows nothing of dates; a step of the wall clock does not move it.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds of the network's time, which for a replay is not ours."""

    speed: float  # seconds of the network's time in one real second
    patience: float  # s of the network's time that an activated sensor gets at the least

    def elapsed(self) -> float:
        """Give the monotonic time, in s."""
        ...

    def wall(self, elapsed: float) -> float:
        """Give the time since 1970 that belongs to a monotonic time near now."""
        ...

    def settle(self, due: float, interval: float) -> int:
        """Come to terms with an interval that was `due`; give how many have gone by, 1 or more."""
        ...


class LiveClock:
    """The time of the world: what was slept through has gone by."""

    speed = 1.0
    patience = 0.0

    def elapsed(self) -> float:
        """Give the monotonic time, in s."""
        return time.monotonic()

    def wall(self, elapsed: float) -> float:
        """Give the time since 1970 that belongs to a monotonic time near now."""
        return time.time() + (elapsed - time.monotonic())

    def settle(self, due: float, interval: float) -> int:
        """Give how many intervals have gone by since the one that was `due` began, it included."""
        return 1 + max(0, int((time.monotonic() - due) // interval))


class ReplayClock:
    """The time of a recording, run faster, which stands still for whoever is late.

    A replay must not depend on how busy the machine is: an interval that begins late turns the
    clock back to where it was due, an activated sensor has `wait` real seconds at the least, and
    the date does not pass the end of the interval that has begun while it is waited for.
    """

    def __init__(self, start: float, speed: float, wait: float = 1.0) -> None:
        self.speed = speed
        self.patience = wait * speed
        self._start = start
        self._until = 0.0  # elapsed: the end of the interval that has begun
        self._origin = time.monotonic()

    def elapsed(self) -> float:
        """Give the seconds of the recording since its start."""
        return (time.monotonic() - self._origin) * self.speed

    def wall(self, elapsed: float) -> float:
        """Give the recording's time since 1970, exact for whole seconds."""
        return self._start + min(elapsed, self._until)

    def settle(self, due: float, interval: float) -> int:
        """Turn back to `due`: no interval is ever skipped."""
        self._origin += max(0.0, self.elapsed() - due) / self.speed
        self._until = due + interval
        return 1
