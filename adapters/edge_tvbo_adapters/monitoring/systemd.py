"""systemd notifications: sd_notify(3) datagrams, without libsystemd.

No method raises an error or blocks. Without ``$NOTIFY_SOCKET`` the methods do nothing.
"""

import logging
import os
import socket
import time
from collections.abc import Mapping

log = logging.getLogger(__name__)

MAX_STATUS_LENGTH = 256  # characters


class SystemdNotifier:
    """Sends notifications to systemd, the service manager that started this process.

    Parameters
    ----------
    environment : mapping
        Environment variables: the socket (``$NOTIFY_SOCKET``) and the watchdog's timeout
        (``$WATCHDOG_USEC``).

    Attributes
    ----------
    watchdog_timeout : float or None
        Seconds after which systemd restarts the daemon if `alive` is not called; None if systemd
        does not watch the daemon.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = socket_address(environment.get("NOTIFY_SOCKET", ""))
        self.watchdog_timeout = watchdog_timeout(environment) if self._address else None
        self._status = ""

    def ready(self, text: str) -> bool:
        """Report to systemd that the start, or a reload, is complete.

        Return False if systemd did not receive the report; the caller then has to report again.
        """
        is_received = self._send(f"READY=1\nSTATUS={_line(text)}")
        if is_received:
            self._status = text
        return is_received

    def status(self, text: str) -> None:
        """Report a one-line status to systemd if the status has changed since the last report."""
        if text != self._status and self._send(f"STATUS={_line(text)}"):
            self._status = text

    def alive(self) -> bool:
        """Report to systemd's watchdog that the daemon makes progress.

        Return False if systemd did not receive the report; the caller then has to report again.
        """
        return self._send("WATCHDOG=1")

    def reloading(self) -> None:
        """Report to systemd that a reload begins.

        The report contains the time, which Type=notify-reload requires.
        """
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Report to systemd that the daemon is stopping."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> bool:
        if not self._address:
            return True
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.sendto(message.encode(), self._address)
        except OSError as error:  # the socket is gone or full; a later message may succeed
            log.debug("systemd did not receive %r: %s", message, error)
            return False
        return True


def socket_address(text: str) -> str:
    r"""Return the address of the socket that ``$NOTIFY_SOCKET`` names.

    `text` is the value of this variable: a path, or @ followed by an abstract name. Returns "" for
    any other text.

    >>> socket_address("/run/systemd/notify"), socket_address("@/org/systemd")
    ('/run/systemd/notify', '\x00/org/systemd')
    >>> socket_address("vsock:2:99")
    ''
    """
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else ""


def watchdog_timeout(environment: Mapping[str, str]) -> float | None:
    """Return systemd's ``$WATCHDOG_USEC`` in s; None if it is invalid or meant for another process.

    >>> watchdog_timeout({"WATCHDOG_USEC": "30000000"}), watchdog_timeout({"WATCHDOG_USEC": "soon"})
    (30.0, None)
    >>> watchdog_timeout({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"})
    """
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdigit() and int(text) > 0 else None


def _line(text: str) -> str:
    """Return a status as one line of systemd's message."""
    return " ".join(text.split())[:MAX_STATUS_LENGTH]
