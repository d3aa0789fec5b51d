"""Clocks: monotonic time for schedules (`elapsed`), and wall time for dates (`wall`).

A step of the system's wall clock affects neither `elapsed` nor `wall`: `wall` advances together
with `elapsed`, and only `resync` sets it to the system's wall clock. Therefore the dates of all
events between two calls of `resync` have the same error, which the second call returns.

The wall clock steps for two reasons. On a gateway without a real-time clock, it starts in 1970 or
at the time of the last shutdown, and is later corrected over the network. While the machine is
suspended, the wall clock advances, but the monotonic clock does not.

A clock that starts in 1970 is not set. A clock that starts at the time of the last shutdown looks
like a set clock, but is not synchronised. Only systemd-timesyncd reports, in a file, whether the
clock is synchronised; if it is not running, the clock counts as synchronised. The system call
`adjtimex` would report it, too, but the daemon's systemd unit forbids this system call.

A gateway with a correct real-time clock, on a network without a time server, is never synchronised.
Therefore the clock counts as synchronised `MAX_SYNC_WAIT_S` after the start, whatever is reported.
"""

import os
import time
from math import inf
from pathlib import Path
from typing import Protocol

RELEASED_AT = 1_767_225_600.0  # 2026-01-01; a wall clock with an earlier time has not been set
TIMESYNC = Path("/run/systemd/timesync")  # it exists while systemd-timesyncd is running
SYNC_CHECK_PERIOD_S = 10.0  # between two checks of the directory `TIMESYNC`
MAX_SYNC_WAIT_S = 3600.0  # after the start; timesyncd tries again at least every 34 min
MAX_DRIFT_S = 2.0  # a smaller difference between the clocks is slewing, not a step
MAX_READ_GAP_S = 0.002  # for reading both clocks; a longer time may include a preemption
MAX_READS = 4  # attempts to read both clocks with a smaller gap, in case of preemption


class Clock(Protocol):
    """Clock of the sensor network, in seconds; in a replay it shows the time of the recording."""

    speed: float  # seconds of network time in one real second
    min_reply_time: float  # minimum reply timeout of an activated sensor, in network time

    @property
    def is_set(self) -> bool:
        """Whether the wall clock has been set; an unset clock shows a time before `RELEASED_AT`."""
        ...

    @property
    def is_synced(self) -> bool:
        """Whether the wall clock is synchronised; False only if the system says that it is not."""
        ...

    @property
    def counts_as_synced(self) -> bool:
        """Whether the clock is synchronised, or `MAX_SYNC_WAIT_S` have passed since the start."""
        ...

    def elapsed(self) -> float:
        """Return the monotonic time of the clock, in seconds."""
        ...

    def wall(self, elapsed: float) -> float:
        """Return the wall time at the monotonic time `elapsed`, in seconds since 1970."""
        ...

    def resync(self) -> float:
        """Set `wall` to the system's wall clock; return the step in seconds, usually 0."""
        ...

    def is_stepped(self) -> bool:
        """Return whether the system's wall clock was stepped since the last `resync`."""
        ...

    def catch_up(self, due: float, interval: float) -> int:
        """Return how many intervals have begun on the clock since `due`.

        The interval that begins at `due` is included.
        """
        ...


class LiveClock:
    """Clock that shows real time; if the daemon is late, the skipped intervals count as elapsed."""

    speed = 1.0
    min_reply_time = 0.0

    def __init__(self) -> None:
        _, self._offset = _compare_clocks()  # s from the monotonic to the wall clock
        self._started = time.monotonic()
        self._is_synced = False
        self._sync_check_at = -inf  # monotonic time of the next check; unused once synchronised

    @property
    def is_set(self) -> bool:
        """Whether the wall clock has been set; an unset clock shows a time before `RELEASED_AT`."""
        return self.wall(self.elapsed()) >= RELEASED_AT

    @property
    def is_synced(self) -> bool:
        """Whether the wall clock is synchronised; False only if the system says that it is not.

        A clock that was synchronised once always counts as synchronised, because it drifts slowly.
        """
        if not self._is_synced and time.monotonic() >= self._sync_check_at:
            self._is_synced = _system_is_synced()
            self._sync_check_at = time.monotonic() + SYNC_CHECK_PERIOD_S
        return self._is_synced

    @property
    def counts_as_synced(self) -> bool:
        """Whether the clock is synchronised, or `MAX_SYNC_WAIT_S` have passed since the start."""
        return self.is_synced or time.monotonic() - self._started >= MAX_SYNC_WAIT_S

    def elapsed(self) -> float:
        """Return the monotonic time of the live clock, in seconds."""
        return time.monotonic()

    def wall(self, elapsed: float) -> float:
        """Return the wall time at the monotonic time `elapsed`, in seconds since 1970."""
        return elapsed + self._offset

    def resync(self) -> float:
        """Set `wall` to the system's wall clock; return the step in seconds, usually 0."""
        gap, offset = _compare_clocks()
        if gap > MAX_READ_GAP_S:
            return 0.0
        step = offset - self._offset
        self._offset += step
        return step if abs(step) > MAX_DRIFT_S else 0.0

    def is_stepped(self) -> bool:
        """Return whether the system's wall clock was stepped since the last `resync`."""
        gap, offset = _compare_clocks()
        return gap <= MAX_READ_GAP_S and abs(offset - self._offset) > MAX_DRIFT_S

    def catch_up(self, due: float, interval: float) -> int:
        """Return how many intervals began on this clock since `due`, skipped intervals included."""
        return 1 + max(0, int((time.monotonic() - due) // interval))


def _system_is_synced() -> bool:
    """Return False if systemd-timesyncd is running and has not synchronised the wall clock yet."""
    is_running = os.access(TIMESYNC, os.F_OK)
    return not is_running or os.access(TIMESYNC / "synchronized", os.F_OK)


def _compare_clocks() -> tuple[float, float]:
    """Compare the wall clock with the monotonic clock; return ``(duration, offset)`` in s.

    `duration` is how long the comparison took, and `offset` is the wall time minus the monotonic
    time. If the process is preempted while it reads the clocks, the comparison takes longer, and
    the offset may be wrong. In this case, the clocks are compared again, and the result of the
    shortest comparison is returned.
    """
    closest = inf, 0.0
    for _ in range(MAX_READS):
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        closest = min(closest, (after - before, wall - after))
        if closest[0] <= MAX_READ_GAP_S:
            break
    return closest


class ReplayClock:
    """Clock of a replay: the time of the recording at a higher speed, without skipped intervals.

    A replay must not depend on the load of the machine:

    - If an interval begins late, the clock is turned back to the time when the interval was due.
    - An activated sensor has at least `reply_time` real seconds to reply.
    - The wall time stops at the end of the running interval, and continues when the next interval
      begins. After a call of `hold`, it stops at the time that was passed to `hold` instead.

    Parameters
    ----------
    start : float
        Seconds since 1970 at which the replay begins.
    speed : float
        Seconds of the recording in one real second.
    reply_time : float
        Minimum time to reply, in real seconds.
    """

    is_set = is_synced = counts_as_synced = True

    def __init__(self, start: float, speed: float, reply_time: float = 1.0) -> None:
        self.speed = speed
        self.min_reply_time = reply_time * speed
        self._start = start
        self._last = 0.0  # elapsed
        self._origin = time.monotonic()

    def elapsed(self) -> float:
        """Return the replay clock's time since the start, in seconds of the recording."""
        return (time.monotonic() - self._origin) * self.speed

    def wall(self, elapsed: float) -> float:
        """Return the replay clock's wall time at `elapsed`, in seconds since 1970.

        The wall times at which intervals begin and end are exact if they are whole seconds.
        """
        return self._start + min(elapsed, self._last)

    def hold(self, at: float) -> None:
        """Stop the wall time at `at`, in s since 1970, until the next interval begins."""
        self._last = at - self._start

    def resync(self) -> float:
        """Return the clock's correction: always 0, because the clock of a replay is never set."""
        return 0.0

    def is_stepped(self) -> bool:
        """Return False, because a replay clock never jumps."""
        return False

    def catch_up(self, due: float, interval: float) -> int:
        """Turn the replay clock back to `due`, and return 1 because a replay skips no interval."""
        self._origin += max(0.0, self.elapsed() - due) / self.speed
        self._last = due + interval
        return 1
