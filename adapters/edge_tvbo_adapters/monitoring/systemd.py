"""What systemd is told, by datagrams to the socket that it named: sd_notify(3), without libsystemd.

Nothing here raises or waits: a daemon does not stumble over its supervisor. Without a socket in
the environment all of it is silent.
"""

import logging
import os
import socket
import time
from collections.abc import Mapping

log = logging.getLogger(__name__)

LONGEST = 256  # characters of a status that systemd is shown


def notifier(environment: Mapping[str, str] = os.environ) -> "SystemdNotifier":
    """Give a notifier for whoever started this process, as its environment says."""
    return SystemdNotifier(environment)


class SystemdNotifier:
    """A `Notifier` to the socket in ``$NOTIFY_SOCKET``; see `notifier`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = address(environment.get("NOTIFY_SOCKET", ""))
        self._patience = patience(environment) if self._address else None
        self._said = ""

    @property
    def patience(self) -> float | None:
        """Seconds that systemd waits for `feed`; None where it does not."""
        return self._patience

    def ready(self, text: str) -> None:
        """Say that the start, or a reload, is over."""
        self._send(f"READY=1\nSTATUS={self._line(text)}")

    def status(self, text: str) -> None:
        """Say in one line how it goes, once for each text."""
        if text != self._said:
            self._send(f"STATUS={self._line(text)}")

    def feed(self) -> None:
        """Feed the watchdog."""
        self._send("WATCHDOG=1")

    def reloading(self) -> None:
        """Say that the configuration is read again; Type=notify-reload wants the time too."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Say that the end has begun."""
        self._send("STOPPING=1")

    def _line(self, text: str) -> str:
        self._said = text
        return " ".join(text.split())[:LONGEST]

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.sendto(message.encode(), self._address)
        except OSError as error:  # gone, or full: the next message may get through
            log.debug("systemd was not told %r: %s", message, error)


def address(text: str) -> str:
    r"""Give what to send to: a path, or with @ an abstract name; nothing for what is neither.

    >>> address("/run/systemd/notify"), address("@/org/systemd"), address("vsock:2:99")
    ('/run/systemd/notify', '\x00/org/systemd', '')
    """
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else ""


def patience(environment: Mapping[str, str]) -> float | None:
    """Give the seconds in ``$WATCHDOG_USEC`` where they are meant for this process.

    >>> patience({"WATCHDOG_USEC": "30000000"}), patience({"WATCHDOG_USEC": "soon"})
    (30.0, None)
    >>> patience({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"})
    """
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdigit() and int(text) > 0 else None
