"""Connecting to a broker without making the loop wait: a blocking call in a short-lived thread.

The C library resolves names in a function that blocks, for half a minute where DNS is down, and
paho connects in one that blocks as well. So the call runs in a thread of its own, which shares
nothing with the loop but its result: it stores that, writes one byte to a socket pair and ends.
The loop waits for the other end of the pair as for any socket. There is a thread only while a
connection is being made.
"""

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Generic, TypeVar

from edge_tvbo.config.mqtt_settings import Mqtt

CONNECT_TIMEOUT_S = 10.0  # for each address, for the TLS handshake, and for the CONNACK

Connected = TypeVar("Connected")


class Attempt(Generic[Connected]):
    """One attempt to connect, in a thread.

    Parameters
    ----------
    connect : callable
        Blocks until it returns the connection, or raises.
    discard : callable
        Closes a connection that is no longer wanted when it is made.
    """

    def __init__(
        self, connect: Callable[[], Connected], discard: Callable[[Connected], None]
    ) -> None:
        self._connect = connect
        self._discard = discard
        self._result: Connected | Exception | None = None
        self._abandoned = False
        self._ours: socket.socket | None = None
        try:
            self._ours, theirs = socket.socketpair()
            Thread(target=self._run, args=(theirs,), daemon=True).start()
        except (OSError, RuntimeError) as error:  # no descriptor or no thread is left
            self._result = error

    def interest(self) -> tuple[int, int] | None:
        """Return the descriptor that is readable once there is a result, and `EVENT_READ`.

        Returns None where the attempt failed for want of a descriptor: the result is there.
        """
        return (self._ours.fileno(), selectors.EVENT_READ) if self._ours else None

    def result(self) -> Connected | Exception | None:
        """Return the connection, or why there is none, or None while the thread runs."""
        if self._result is not None:
            self._close()
        return self._result

    def abandon(self) -> None:
        """Close the connection as soon as it is made."""
        self._abandoned = True
        self._close()
        self._discard_abandoned()

    def _close(self) -> None:
        if self._ours is not None:
            self._ours.close()

    def _run(self, theirs: socket.socket) -> None:
        try:
            self._result = self._connect()
        except Exception as error:  # the loop puts it into words
            self._result = error
        self._discard_abandoned()
        with theirs, suppress(OSError):  # the loop may have closed its end
            theirs.send(b"\0")

    def _discard_abandoned(self) -> None:
        """Discard an unwanted connection; called by both threads, of which either may be last."""
        result = self._result
        if self._abandoned and result is not None and not isinstance(result, Exception):
            self._discard(result)


def open_socket(mqtt: Mqtt) -> socket.socket:
    """Return a TCP connection to the broker; blocks. Raises `OSError`."""
    return socket.create_connection((mqtt.host, mqtt.port), CONNECT_TIMEOUT_S)
