"""Connecting to a broker in a short-lived thread, so that the daemon's loop does not block.

A name lookup in the C library blocks its caller: for up to half a minute if DNS is down. paho's
`connect` blocks its caller, too. The thread only connects, stores the result, writes one byte to a
socket pair and ends. The loop waits for the other end of the pair as for any other socket. The loop
and the thread share only the result.
"""

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Generic, TypeVar

from edge_tvbo.config.mqtt_settings import Mqtt

CONNECT_TIMEOUT_S = 10.0  # for each step: TCP to one IP address, the TLS handshake, the CONNACK

Connected = TypeVar("Connected")


class Attempt(Generic[Connected]):
    """One attempt to connect to a broker; each attempt runs in a thread of its own.

    Parameters
    ----------
    connect : callable
        Returns the connection or raises an error; the call may block.
    discard : callable
        Closes a connection that was made after the attempt had been abandoned.
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
            Thread(target=self._run, args=(theirs,), name="mqtt-connect", daemon=True).start()
        except (OSError, RuntimeError) as error:  # no descriptor or no thread is left
            self._result = error

    def interest(self) -> tuple[int, int] | None:
        """Return the file descriptor of the attempt to connect, and `EVENT_READ`.

        The descriptor becomes readable when the attempt ends. If the system has no free descriptor
        or thread, this method returns None, and `result` returns the error immediately.
        """
        return (self._ours.fileno(), selectors.EVENT_READ) if self._ours else None

    def result(self) -> Connected | Exception | None:
        """Return the connection or the error of the attempt to connect; None while it runs."""
        if self._result is not None:
            self._close()
        return self._result

    def abandon(self) -> None:
        """Abandon the attempt to connect; a connection that is made later is closed immediately."""
        self._abandoned = True
        self._close()
        self._discard_abandoned()

    def _close(self) -> None:
        if self._ours is not None:
            self._ours.close()

    def _run(self, theirs: socket.socket) -> None:
        try:
            self._result = self._connect()
        except Exception as error:  # the loop turns the error into a `ConnectionProblem`
            error.__context__ = None  # context and traceback would refer to this attempt
            self._result = error.with_traceback(None)
        self._discard_abandoned()
        with theirs, suppress(OSError):  # the loop may have closed its end
            theirs.send(b"\0")

    def _discard_abandoned(self) -> None:
        """Discard the connection of an abandoned attempt.

        The thread calls this method when the connection is made, and the loop calls it when the
        attempt is abandoned. The later of the two calls discards the connection.
        """
        result = self._result
        if self._abandoned and result is not None and not isinstance(result, Exception):
            self._discard(result)


def open_socket(mqtt: Mqtt) -> socket.socket:
    """Return a TCP connection to the broker; blocks until it is made, or raises `OSError`."""
    return socket.create_connection((mqtt.host, mqtt.port), CONNECT_TIMEOUT_S)
