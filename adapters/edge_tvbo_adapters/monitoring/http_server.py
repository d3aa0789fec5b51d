"""HTTP server of the daemon's loop: answers GET and HEAD for a few short pages, without threads.

The server checks the Host header of each request. Without this check, a page of another site could
read from the server through a host name that resolves to this machine (DNS rebinding).

Each connection carries one request. The size of a request, its duration and the number of
connections are bounded. The server registers its sockets with its own selector, and the daemon's
loop waits for the file descriptor of that selector.
"""

import hmac
import logging
import re
import selectors
import socket
from collections.abc import Callable
from http import HTTPStatus
from math import inf
from typing import NamedTuple

from edge_tvbo.config.field_types import is_loopback
from edge_tvbo.errors import EdgeTvboError

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 8  # open at once; further connections wait in the kernel's queue
REQUEST_TIMEOUT_S = 5.0  # from the connection to the end of the response
MAX_REQUEST_SIZE = 8192  # bytes, with the headers
ACCEPT_RETRY_DELAY_S = 1.0  # pause in accepting connections if no descriptor is left
_REQUEST = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,1023}) HTTP/1\.[01]\r?\n")
_END = re.compile(rb"\r?\n\r?\n")
_HOST = re.compile(rb"^host:[ \t]*([^\r\n]*?)[ \t]*\r?$", re.I | re.M)
_TOKEN = re.compile(rb"^authorization:[ \t]*bearer[ \t]+([^\r\n]*?)[ \t]*\r?$", re.I | re.M)


class Page(NamedTuple):
    """Response of the HTTP server to a request: status, content type and body."""

    status: HTTPStatus
    content_type: str
    body: bytes


class HttpConnection:
    """One connection of an HTTP client."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock = sock
        self.deadline = deadline  # monotonic
        self.received = b""
        self.response = b""  # the bytes of the response that are not sent yet


class HttpServer:
    """HTTP server that the daemon's loop drives; raises `EdgeTvboError` if the port is in use.

    Parameters
    ----------
    host, port
        The address to listen on; port 0 selects a free port.
    page : callable
        Returns the page at a path; None if there is no such page.
    accepts : callable
        Returns whether requests to a host name are answered. A request without a Host header is
        answered, because it cannot come from a browser.
    token : str, optional
        The bearer token that each request must contain; None if no token is required.
    """

    def __init__(
        self,
        host: str,
        port: int,
        page: Callable[[str], Page | None],
        accepts: Callable[[str], bool] = is_loopback,
        token: str | None = None,
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listener = socket.create_server(
                (host, port), family=family, backlog=MAX_CONNECTIONS
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise EdgeTvboError(f"Cannot listen on {host}, port {port}: {reason}.") from None
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._page = page
        self._accepts = accepts
        self._token = None if token is None else token.encode()
        self._connections: set[HttpConnection] = set()
        self._selector = selectors.DefaultSelector()
        self._is_accepting = False
        self._accept_at = 0.0  # monotonic
        self._resume_accept(0.0)

    def fileno(self) -> int:
        """Return the file descriptor of the HTTP server.

        The descriptor is readable when one of the server's sockets is ready.
        """
        return self._selector.fileno()

    def wake_at(self) -> float:
        """Return the monotonic time by which the HTTP server's `service` must be called.

        At this time, a connection times out, or the server tries again to accept connections.
        """
        is_waiting = not self._is_accepting and len(self._connections) < MAX_CONNECTIONS
        accept_at = self._accept_at if is_waiting else inf
        return min(accept_at, *(each.deadline for each in self._connections), inf)

    def service(self, now: float) -> None:
        """Accept HTTP connections, answer requests, and close connections that timed out."""
        for key, _ in self._selector.select(0):
            if key.data is None:
                self._accept(now)
            else:
                self._exchange(key.data)
        for each in [each for each in self._connections if now >= each.deadline]:
            self._close(each)
        self._resume_accept(now)

    def close(self) -> None:
        """Close all connections of the HTTP server and stop listening."""
        for each in list(self._connections):
            self._close(each)
        self._selector.close()
        self._listener.close()

    # --- accepting ----------------------------------------------------------------------------

    def _resume_accept(self, now: float) -> None:
        has_place = len(self._connections) < MAX_CONNECTIONS
        if not self._is_accepting and now >= self._accept_at and has_place:
            self._selector.register(self._listener, selectors.EVENT_READ)
            self._is_accepting = True

    def _pause_accept(self) -> None:
        self._selector.unregister(self._listener)
        self._is_accepting = False

    def _accept(self, now: float) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # No descriptor is left. Without a pause, the waiting client would immediately wake the
            # loop again.
            log.warning("metrics: cannot accept a connection: %s", error.strerror or error)
            self._pause_accept()
            self._accept_at = now + ACCEPT_RETRY_DELAY_S
            return
        sock.setblocking(False)
        connection = HttpConnection(sock, now + REQUEST_TIMEOUT_S)
        self._connections.add(connection)
        self._selector.register(sock, selectors.EVENT_READ, connection)
        if len(self._connections) >= MAX_CONNECTIONS:
            self._pause_accept()

    def _close(self, connection: HttpConnection) -> None:
        self._selector.unregister(connection.sock)
        self._connections.discard(connection)
        connection.sock.close()

    # --- one connection -----------------------------------------------------------------------

    def _exchange(self, connection: HttpConnection) -> None:
        try:
            if not connection.response:
                self._receive(connection)
            if connection.response:
                self._send(connection)
        except BlockingIOError:
            pass
        except OSError:  # the client closed the connection
            self._close(connection)

    def _receive(self, connection: HttpConnection) -> None:
        chunk = connection.sock.recv(MAX_REQUEST_SIZE)
        connection.received += chunk
        if _END.search(connection.received) or len(connection.received) >= MAX_REQUEST_SIZE:
            connection.response = self._respond(connection.received)
            self._selector.modify(connection.sock, selectors.EVENT_WRITE, connection)
        elif not chunk:
            raise ConnectionResetError

    def _send(self, connection: HttpConnection) -> None:
        count = connection.sock.send(connection.response)
        connection.response = connection.response[count:]
        if not connection.response:
            self._close(connection)

    def _respond(self, request: bytes) -> bytes:
        match = _REQUEST.match(request)
        if not match:
            return encode_response(status_page(HTTPStatus.BAD_REQUEST))
        method, path = match[1].decode(), match[2].decode().partition("?")[0]
        if method not in ("GET", "HEAD"):
            return encode_response(status_page(HTTPStatus.METHOD_NOT_ALLOWED))
        try:
            page = self._rejection(request) or self._page(path)
            page = page or status_page(HTTPStatus.NOT_FOUND)
        except Exception:
            log.exception("metrics: %s cannot be answered", path)
            page = status_page(HTTPStatus.INTERNAL_SERVER_ERROR)
        return encode_response(page, with_body=method == "GET")

    def _rejection(self, request: bytes) -> Page | None:
        """Return the page that refuses an HTTP request; None if the request is accepted."""
        head = _END.split(request, 1)[0]
        hosts = [host_name(each.decode("latin-1")) for each in _HOST.findall(head)]
        if len(hosts) > 1 or not all(map(self._accepts, hosts)):
            log.warning(
                "metrics: a request was refused because of its host name; if this name belongs to "
                "this machine, add the name to allow_hosts in [metrics]"
            )
            return status_page(HTTPStatus.MISDIRECTED_REQUEST, "add this host name to allow_hosts")
        if self._token is None:
            return None
        tokens = _TOKEN.findall(head)
        if len(tokens) == 1 and hmac.compare_digest(tokens[0], self._token):
            return None
        return status_page(HTTPStatus.UNAUTHORIZED)


def host_name(header: str) -> str:
    """Return the host name in the Host header that the HTTP server of /metrics has received.

    The name is in lower case, without the port.

    >>> [host_name(each) for each in ("Gateway.lan:9464", "[::1]:80", "127.0.0.1")]
    ['gateway.lan', '::1', '127.0.0.1']
    """
    name = header.lower()
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]


def status_page(status: HTTPStatus, advice: str = "") -> Page:
    """Return a page of the daemon's HTTP server: a status, such as "404 Not Found", and advice."""
    text = f"{status.value} {status.phrase}{': ' if advice else ''}{advice}\n"
    return Page(status, "text/plain; charset=utf-8", text.encode())


def encode_response(page: Page, *, with_body: bool = True) -> bytes:
    """Return a response of the daemon's HTTP server as bytes; for HEAD, without its body."""
    head = [
        f"HTTP/1.0 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Allow: GET, HEAD",
        "Connection: close",
    ]
    if page.status is HTTPStatus.UNAUTHORIZED:
        head.append("WWW-Authenticate: Bearer")
    return "\r\n".join((*head, "", "")).encode() + (page.body if with_body else b"")
