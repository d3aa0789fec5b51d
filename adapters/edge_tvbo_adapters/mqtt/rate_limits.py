"""Rate limits: how many messages a sensor may send, and how long decoding them may take."""

from collections.abc import Callable
from time import perf_counter, thread_time

BURST_S = 10.0  # a burst may have as many messages as the rate allows in this time
MAX_DECODING_SHARE = 0.05  # share of the processor time for decoding the messages of one sensor
MAX_DECODING_S = 1.0  # unused decoding time that a sensor keeps for later
SLOW_S = 1e-3  # if decoding takes longer, the message is slow, or the process was preempted


class SenderLimits:
    """Limits of one sender: `rate` messages per second, and processor time to decode them.

    Messages and decoding time that a sender does not use are saved for later: at most the messages
    of `BURST_S` seconds, and at most `MAX_DECODING_S` seconds of decoding.

    The caller measures the time for decoding with the clock in the attribute `clock`. At first,
    `clock` is the monotonic clock, which is exact enough as long as no message is slow to decode.
    After a slow message, `clock` is the clock of the thread's processor time, which takes five
    times as long to read.

    >>> limits = SenderLimits(0.1)
    >>> [limits.allows(now) for now in (0.0, 1.0, 11.0)]
    [True, False, True]
    """

    __slots__ = ("_at", "_capacity", "_decoding_left", "_messages_left", "_rate", "clock")

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._capacity = max(1.0, rate * BURST_S)
        self._messages_left = self._capacity
        self._decoding_left = MAX_DECODING_S
        self._at = 0.0
        self.clock: Callable[[], float] = perf_counter

    def allows(self, now: float) -> bool:
        """Return whether the limit allows a message at monotonic time `now`; if so, count it."""
        passed, self._at = now - self._at, now
        if passed > 0.0:
            messages = self._messages_left + passed * self._rate
            self._messages_left = messages if messages < self._capacity else self._capacity
            decoding = self._decoding_left + passed * MAX_DECODING_SHARE
            self._decoding_left = decoding if decoding < MAX_DECODING_S else MAX_DECODING_S
        if self._messages_left < 1.0:
            return False
        self._messages_left -= 1.0
        return True

    def is_decoding_spent(self) -> bool:
        """Return whether the limit of the sender's decoding time is reached.

        Call `allows` first: it adds the decoding time that the sender has saved up.
        """
        return self._decoding_left <= 0.0

    def spend(self, seconds: float) -> None:
        """Subtract `seconds`, the time for decoding one message, from the sender's decoding time.

        The time is measured with `clock`. The time of the first slow message is not subtracted,
        because the process may have been preempted.
        """
        if seconds > SLOW_S and self.clock is not thread_time:
            self.clock = thread_time
        else:
            self._decoding_left -= seconds
