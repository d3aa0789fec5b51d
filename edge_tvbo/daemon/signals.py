"""Signals: recorded when they arrive, taken by the loop when it gets to them."""

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Signals:
    """Signals that arrived and were not taken yet."""

    def __init__(self, wakeup: int) -> None:
        self._pending: list[int] = []
        self._wakeup = wakeup

    def fileno(self) -> int:
        """Return the descriptor that a signal makes readable."""
        return self._wakeup

    def any(self) -> bool:
        """Return whether a signal is pending."""
        return bool(self._pending)

    def take(self, number: int) -> bool:
        """Return whether signal `number` arrived, however often; it is pending no longer."""
        arrived = number in self._pending
        while number in self._pending:
            self._pending.remove(number)  # in place: `put` may be called in between
        return arrived

    def put(self, number: int, frame: object) -> None:
        """Record that signal `number` arrived."""
        self._pending.append(number)


@contextmanager
def catch_signals(*numbers: signal.Signals) -> Iterator[Signals]:
    """Record these signals inside the context; restore their handlers at its end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        caught = Signals(ours.fileno())
        handlers = {number: signal.signal(number, caught.put) for number in numbers}
        try:
            yield caught
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)


@contextmanager
def stop_on_signal() -> Iterator[tuple[Callable[[], bool], int]]:
    """Yield whether SIGTERM or SIGINT arrived, and a descriptor that either makes readable."""
    with catch_signals(signal.SIGTERM, signal.SIGINT) as caught:
        yield caught.any, caught.fileno()
