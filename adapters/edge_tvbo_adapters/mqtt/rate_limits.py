"""Rate limits: how many messages a sensor may send, and how long decoding them may take."""

from collections.abc import Callable
from time import perf_counter, thread_time

BURST_S = 10.0  # a sensor may send the messages of this time at once
MAX_DECODING_SHARE = 0.05  # of the processor, for decoding the messages of one sensor
SLOW_S = 1e-3  # if decoding takes longer, the message is slow, or the process was preempted


class TokenBucket:
    """Rate limit of one sensor: `rate` tokens per second, saved up for at most `BURST_S` seconds.

    A token stands for one message, or for one second of processor time.

    >>> allowance = TokenBucket(0.1)
    >>> [allowance.allows(now) for now in (0.0, 1.0, 11.0)]
    [True, False, True]
    """

    __slots__ = ("_at", "_capacity", "_left", "_rate")

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._capacity = max(1.0, rate * BURST_S)
        self._left = self._capacity
        self._at = 0.0

    def allows(self, now: float) -> bool:
        """Return whether the limit allows a message at monotonic time `now`; if so, count it."""
        self._refill(now)
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    def _refill(self, now: float) -> None:
        passed, self._at = now - self._at, now
        if passed > 0.0:
            left = self._left + passed * self._rate
            self._left = left if left < self._capacity else self._capacity


class DecodingTime(TokenBucket):
    """Limit of the processor time for decoding the messages of one sensor.

    The attribute `clock` is the clock with which to measure the decoding. At first, it is the
    monotonic clock, which is exact enough as long as no message is slow. After a slow message, it
    is the clock of the thread's processor time, which takes five times as long to read.
    """

    __slots__ = ("clock",)

    def __init__(self) -> None:
        super().__init__(MAX_DECODING_SHARE)
        self.clock: Callable[[], float] = perf_counter

    def is_spent(self, now: float) -> bool:
        """Return whether the sensor has used up its decoding time at the monotonic time `now`."""
        self._refill(now)
        return self._left <= 0.0

    def spend(self, seconds: float) -> None:
        """Subtract the `seconds` that decoding one message took, measured with `clock`.

        The time of the first slow message is not subtracted, because the process may have been
        preempted.
        """
        if seconds > SLOW_S and self.clock is not thread_time:
            self.clock = thread_time
        else:
            self._left -= seconds
