"""Signals of the operating system: recorded on arrival, and later handled in the loop."""

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Signals:
    """Signals that have arrived and are not handled yet."""

    def __init__(self, wakeup: int) -> None:
        self._pending: list[int] = []
        self._wakeup = wakeup

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when a signal arrives."""
        return self._wakeup

    def any(self) -> bool:
        """Return whether a signal is pending."""
        return bool(self._pending)

    def take(self, number: int) -> bool:
        """Return whether signal `number` is pending, and remove it from the pending signals."""
        arrived = number in self._pending
        while number in self._pending:
            self._pending.remove(number)  # in place, because a signal can call `put` at any time
        return arrived

    def put(self, number: int, frame: object) -> None:
        """Record that signal `number` arrived."""
        self._pending.append(number)


@contextmanager
def catch_signals(*numbers: signal.Signals) -> Iterator[Signals]:
    """Record the signals `numbers` inside the context; restore the old handlers at the end."""
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
    """Yield a function and a descriptor that show whether SIGTERM or SIGINT has arrived.

    After one of these signals, the function returns True, and the descriptor is readable.
    """
    with catch_signals(signal.SIGTERM, signal.SIGINT) as caught:
        yield caught.any, caught.fileno()
