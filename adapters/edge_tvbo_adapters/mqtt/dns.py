"""Host names to addresses, without ever waiting for a name server.

The C library resolves names in one function that blocks, for half a minute where DNS is down, and
has no form that does not. The house has one thread and one loop, so this is the exception, kept as
small as it can be: a daemon thread that is given two values, calls that function, writes one
message to a socket pair and ends. It reads nothing of ours, and nothing of ours reads anything of
its; the loop sleeps on the other end of the pair as on any socket, so there is nothing to lock.
There is a thread only while a name is being resolved, and never a second one: an attempt that
gives up leaves it to end by itself, and the next attempt waits for the same answer. Addresses need
none. (A process would keep the rule to the letter, at 30 ms and 10 MB for each attempt; a resolver
of our own would miss what /etc/nsswitch.conf says, .local names among it.)
"""

import ipaddress
import socket
from contextlib import suppress
from threading import Thread
from typing import Any, NamedTuple

import msgspec

LARGEST = 65_536  # bytes of an answer


class Address(NamedTuple):
    """Where a socket can be connected to."""

    family: int
    place: Any  # what `socket.connect` takes


class Resolver:
    """Finds the addresses of one host, again for each attempt to reach it."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._ours: socket.socket | None = None

    def fileno(self) -> int | None:
        """Give the descriptor that becomes readable with the answer, if one is waited for."""
        return self._ours.fileno() if self._ours else None

    def start(self) -> list[Address]:
        """Give the addresses where they are known at once; else see that they are looked up."""
        if is_address(self._host):
            return _looked_up(self._host.encode(), self._port, socket.AI_NUMERICHOST)
        if self._ours is None:
            self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._ours.setblocking(False)
            Thread(target=_answer, args=(theirs, self._host, self._port), daemon=True).start()
        return []

    def answer(self) -> list[Address] | str | None:
        """Give the addresses, or why there are none, or None where that is not known yet."""
        if self._ours is None:
            return "nobody asked"
        try:
            said = self._ours.recv(LARGEST)
        except BlockingIOError:
            return None
        self.close()
        found = msgspec.json.decode(said, type=list[Address] | str)
        if isinstance(found, list):  # an array comes back as a list, and `connect` wants a tuple
            found = [Address(family, tuple(place)) for family, place in found]
        return found or "the name has no address"

    def close(self) -> None:
        """Stop listening for an answer."""
        if self._ours is not None:
            self._ours.close()
            self._ours = None


def is_address(host: str) -> bool:
    """Say whether `host` is an IP address, and no name.

    >>> is_address("192.168.1.5"), is_address("::1"), is_address("broker.local")
    (True, True, False)
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _answer(theirs: socket.socket, host: str, port: int) -> None:
    """Look `host` up and say what was found; all that the thread does."""
    try:
        said: list[Address] | str = _looked_up(host, port)
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or str(error)
    with theirs, suppress(OSError):  # nobody may be listening any more
        theirs.send(msgspec.json.encode(said)[:LARGEST])


def _looked_up(host: str | bytes, port: int, flags: int = 0) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [Address(int(family), place) for family, _, _, _, place in found]
