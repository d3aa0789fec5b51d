"""A very small HTTP server for the daemon's own loop: no thread, no lock, one descriptor.

It answers GET and HEAD of a few short pages, one request a connection, and bounds all that a
visitor could take: the size of a request, the time for it, and how many come at once. Its own
selector holds the sockets; that selector's descriptor is what the loop waits for.
"""

import logging
import re
import selectors
import socket
from collections.abc import Callable
from http import HTTPStatus
from math import inf
from typing import NamedTuple

from edge_tvbo.errors import EdgeTvboError

log = logging.getLogger(__name__)

VISITORS = 8  # at once; others wait in the kernel's queue
PATIENCE = 5.0  # s from the connection to the end of the answer
LARGEST = 8192  # bytes of a request with its headers
PAUSE = 1.0  # s without new visitors when the process is out of descriptors
_REQUEST = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,1023}) HTTP/1\.[01]\r?\n")
_END = re.compile(rb"\r?\n\r?\n")


class Page(NamedTuple):
    """What a path is answered with."""

    status: HTTPStatus
    content_type: str
    body: bytes


class Connection:
    """One connection."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self.sock = sock
        self.until = until  # monotonic
        self.received = b""
        self.answer = b""


class HttpServer:
    """An attendant of the loop that answers HTTP requests; raises `EdgeTvboError` if it cannot.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one.
    page : callable
        Gives the page at a path, None where there is none.
    """

    def __init__(self, host: str, port: int, page: Callable[[str], Page | None]) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listener = socket.create_server((host, port), family=family, backlog=VISITORS)
        except OSError as error:
            what = error.strerror or str(error)
            raise EdgeTvboError(f"Port {port} of {host} cannot be listened on: {what}.") from None
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._page = page
        self._visitors: set[Connection] = set()
        self._selector = selectors.DefaultSelector()
        self._open = False
        self._open_at = 0.0  # monotonic
        self._resume_accept(0.0)

    def fileno(self) -> int:
        """Give what is readable when a visitor came, spoke, or can be answered."""
        return self._selector.fileno()

    def wake_at(self) -> float:
        """Give when the first visitor's time is over, or the door opens again."""
        door = inf if self._open or len(self._visitors) >= VISITORS else self._open_at
        return min(door, *(each.until for each in self._visitors), inf)

    def service(self, now: float) -> None:
        """Serve whoever is there for as long as they have something to say."""
        for key, _ in self._selector.select(0):
            if key.data is None:
                self._accept(now)
            else:
                self._attend(key.data)
        for each in [each for each in self._visitors if now >= each.until]:
            self._close(each)
        self._resume_accept(now)

    def close(self) -> None:
        """Let everybody go."""
        for each in list(self._visitors):
            self._close(each)
        self._selector.close()
        self._listener.close()

    # --- the door -----------------------------------------------------------------------------

    def _resume_accept(self, now: float) -> None:
        if not self._open and now >= self._open_at and len(self._visitors) < VISITORS:
            self._selector.register(self._listener, selectors.EVENT_READ)
            self._open = True

    def _close_door(self) -> None:
        self._selector.unregister(self._listener)
        self._open = False

    def _accept(self, now: float) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:  # out of descriptors: whoever waits would wake us at once again
            log.warning("no visitor can be let in: %s", error.strerror or error)
            self._close_door()
            self._open_at = now + PAUSE
            return
        sock.setblocking(False)
        visitor = Connection(sock, now + PATIENCE)
        self._visitors.add(visitor)
        self._selector.register(sock, selectors.EVENT_READ, visitor)
        if len(self._visitors) >= VISITORS:
            self._close_door()

    def _close(self, visitor: Connection) -> None:
        self._selector.unregister(visitor.sock)
        self._visitors.discard(visitor)
        visitor.sock.close()

    # --- one visitor --------------------------------------------------------------------------

    def _attend(self, visitor: Connection) -> None:
        try:
            if not visitor.answer:
                self._receive(visitor)
            if visitor.answer:
                self._send(visitor)
        except BlockingIOError:
            pass
        except OSError:  # the visitor has left
            self._close(visitor)

    def _receive(self, visitor: Connection) -> None:
        heard = visitor.sock.recv(LARGEST)
        visitor.received += heard
        if _END.search(visitor.received) or len(visitor.received) >= LARGEST:
            visitor.answer = self._answer(visitor.received)
            self._selector.modify(visitor.sock, selectors.EVENT_WRITE, visitor)
        elif not heard:
            raise ConnectionResetError

    def _send(self, visitor: Connection) -> None:
        sent = visitor.sock.send(visitor.answer)
        visitor.answer = visitor.answer[sent:]
        if not visitor.answer:
            self._close(visitor)

    def _answer(self, request: bytes) -> bytes:
        found = _REQUEST.match(request)
        if not found:
            return written(plain(HTTPStatus.BAD_REQUEST))
        method, path = found[1].decode(), found[2].decode().partition("?")[0]
        if method not in ("GET", "HEAD"):
            return written(plain(HTTPStatus.METHOD_NOT_ALLOWED))
        try:
            page = self._page(path) or plain(HTTPStatus.NOT_FOUND)
        except Exception:
            log.exception("%s cannot be answered", path)
            page = plain(HTTPStatus.INTERNAL_SERVER_ERROR)
        return written(page, head=method == "HEAD")


def plain(status: HTTPStatus) -> Page:
    """Give a page that says its status and no more."""
    return Page(status, "text/plain; charset=utf-8", f"{status.value} {status.phrase}\n".encode())


def written(page: Page, *, head: bool = False) -> bytes:
    """Give a page as the bytes of an HTTP response, without the body where only the head counts."""
    head_lines = (
        f"HTTP/1.0 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Allow: GET, HEAD",
        "Connection: close",
    )
    return "\r\n".join((*head_lines, "", "")).encode() + (b"" if head else page.body)
