"""Dashboard server: serves one page with its files, server-sent events, and recorded days.

The server answers only GET and HEAD. It checks the Host header of each request. Without this check,
a page of another site could read from the server through a host name that resolves to this machine
(DNS rebinding). The number of open pages and the length of each page's event queue are bounded. If
the event queue of a slow page is full, the server ends the event stream of this page, and the page
reconnects.
"""

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from errno import EACCES, EADDRINUSE
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edge_tvbo.config.field_types import is_loopback
from edge_tvbo.errors import DataError, EdgeTvboError
from edge_tvbo_adapters.dashboard.content import DashboardContent
from edge_tvbo_adapters.dashboard.day import recorded_day
from edge_tvbo_adapters.dashboard.http_protocol import TimedH11Protocol
from edge_tvbo_adapters.dashboard.message_receiver import listen
from edge_tvbo_adapters.dashboard.state import DashboardState, SseEvent
from edge_tvbo_adapters.dashboard.times import now
from edge_tvbo_adapters.monitoring.http_server import host_name

log = logging.getLogger(__name__)

PAGES = Path(__file__).parent / "pages"
CONTENT_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
MAX_OPEN_PAGES = 32
MAX_QUEUED_EVENTS = 256  # for each open page
# After a restart with another configuration, all open pages are loaded again at once. A browser
# opens up to 6 connections for this, and does not repeat a rejected request for a script.
MAX_CONNECTIONS = 8 * MAX_OPEN_PAGES
HEARTBEAT_INTERVAL_S = 5.0
INTERNAL_ERROR = "the dashboard has failed; its log shows the error; restart the dashboard"
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
    "cross-origin-resource-policy": "same-origin",
}


def serve(
    content: DashboardContent,
    host: str,
    port: int,
    root_path: str,
    hosts: Sequence[str],
    ready: Callable[[str], None],
) -> None:
    """Run the dashboard's web server until SIGINT or SIGTERM.

    Raises `EdgeTvboError` if the port is in use.
    """
    listener = _listen(host, port)
    port = listener.getsockname()[1]
    if not is_loopback(host):
        log.warning("dashboard: every computer that can connect to %s can read the dashboard", host)
    dashboard = Dashboard(content)
    application = RequestGuard(dashboard.application(), root_path, (*hosts, host))
    server = DashboardServer(_config(application), dashboard)

    def stop(number: int, frame: object) -> None:
        """Stop the server on a signal, even if uvicorn has not yet installed its own handlers."""
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises these signals again at its end
        signal.signal(number, stop)
    shown_host = f"[{host}]" if ":" in host else host
    ready(f"http://{shown_host}:{port}{root_path}/")
    with listener:
        server.run(sockets=[listener])


def _config(application: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        access_log=False,
        http=TimedH11Protocol,
        limit_concurrency=MAX_CONNECTIONS,
        log_config=None,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        ws="none",
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=MAX_CONNECTIONS)
    except OSError as error:
        is_port = error.errno in (EADDRINUSE, EACCES)
        hint = "choose another port:  --port 8788" if is_port else "change --host"
        raise EdgeTvboError(
            f"The dashboard cannot listen on {host}, port {port}: {error.strerror or error}; {hint}"
        ) from error


class Dashboard:
    """The dashboard's web application: answers requests and sends changes to every open page."""

    def __init__(self, content: DashboardContent) -> None:
        self._content = content
        self._state = DashboardState(content.instance, content.fields)
        self._pages: set[asyncio.Queue[bytes | None]] = set()
        self._reading_day = asyncio.Lock()  # only one recorded day is read at a time
        self._load_history()

    def application(self) -> Starlette:
        """Return the server's ASGI application, which receives live messages while it runs."""
        files = {each.name: each for each in PAGES.iterdir() if each.suffix in CONTENT_TYPES}
        routes = [Route("/", _file(files["index.html"]))]
        routes += [Route(f"/{name}", _file(path)) for name, path in files.items()]
        routes += [
            Route("/fields.json", self._fields),
            Route("/day.json", self._day),
            Route("/course.json", self._course),
            Route("/events", self._events),
        ]
        if plan := self._content.plan:
            routes.append(Route("/plan", _content(plan.content, plan.media_type)))
        return Starlette(routes=routes, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, application: Starlette) -> AsyncIterator[None]:
        mqtt, instance = self._content.mqtt, self._content.instance
        live = listen(mqtt, instance, self._state, self._send) if mqtt else None
        task = asyncio.create_task(live, name="mqtt-listen") if live else None
        if task:
            task.add_done_callback(self._report_end)
        yield
        if task:
            task.cancel()
            await asyncio.wait([task])

    def _report_end(self, task: asyncio.Task[None]) -> None:
        """Log and show an error that has ended the live messages of the dashboard."""
        if task.cancelled():
            return
        log.error("the dashboard receives no more messages", exc_info=task.exception())
        self._send(self._state.ended(INTERNAL_ERROR))

    def _load_history(self) -> None:
        """Add the newest history entries to the server's state, if the server has live data."""
        if self._content.mqtt is None or self._content.open_history is None:
            return
        try:
            with closing(self._content.open_history()) as history:
                for name, field in self._state.fields.items():
                    field.load_history(history, name)
        except DataError as error:
            log.warning("%s", error)

    # --- constant and recorded data ---------------------------------------------------------------

    async def _fields(self, request: Request) -> Response:
        document = {
            "title": self._content.title,
            "live": self._content.mqtt is not None,
            "silent_after": self._content.silent_after,
            "plan": {"width": plan.width} if (plan := self._content.plan) else None,
            "fields": self._content.fields,
        }
        return _json(document)

    async def _day(self, request: Request) -> Response:
        name = request.query_params.get("field", "")
        if name not in self._content.fields:
            return PlainTextResponse("there is no such field", 404)
        field = self._state.fields[name]
        frames, notices = list(field.frames), list(field.notices)
        constant, open_history = self._content.fields[name], self._content.open_history
        day = request.query_params.get("day")
        async with self._reading_day:
            document = await run_in_threadpool(
                recorded_day, name, constant, day, open_history, frames, notices
            )
            return _json(document)

    async def _course(self, request: Request) -> Response:
        name = request.query_params.get("field", "")
        sensor = request.query_params.get("sensor")
        try:
            return _json(self._state.fields[name].course(sensor))
        except LookupError:
            return PlainTextResponse("there is no such field or sensor", 404)

    # --- live data --------------------------------------------------------------------------------

    async def _events(self, request: Request) -> Response:
        if self._content.mqtt is None:
            return PlainTextResponse("this dashboard shows recorded days only", 404)
        if len(self._pages) >= MAX_OPEN_PAGES:
            return PlainTextResponse("too many pages are open", 503, {"retry-after": "5"})
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[bytes]:
        """Yield the server-sent events of one page of the dashboard.

        The page counts as open while this generator runs. If the page is closed immediately, the
        generator never runs, so the page never counts as open.
        """
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_QUEUED_EVENTS)
        queue.put_nowait(_encode_event("view", self._state.view()))
        self._pages.add(queue)
        try:
            yield b"retry: 1000\n\n"
            while True:
                try:
                    async with asyncio.timeout(HEARTBEAT_INTERVAL_S):
                        event = await queue.get()
                except TimeoutError:
                    event = _encode_event("heartbeat", {"at": now()})
                if event is None:
                    return
                yield event
        finally:
            self._pages.discard(queue)

    def _send(self, events: list[SseEvent]) -> None:
        """Queue server-sent events for every open page."""
        for name, document in events:
            event = _encode_event(name, document)
            for queue in list(self._pages):
                if queue.full():
                    self._disconnect(queue)
                else:
                    queue.put_nowait(event)

    def disconnect_pages(self) -> None:
        """End the event streams of all open pages of the dashboard."""
        for queue in list(self._pages):
            self._disconnect(queue)

    def _disconnect(self, queue: asyncio.Queue[bytes | None]) -> None:
        """End a page's event stream; the page then reconnects and gets the whole state."""
        self._pages.discard(queue)
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)


class DashboardServer(uvicorn.Server):
    """The dashboard's server, which ends the event streams of all open pages before it stops.

    A server that does not end the event streams would run until every page is closed.
    """

    def __init__(self, config: uvicorn.Config, dashboard: Dashboard) -> None:
        super().__init__(config)
        self._dashboard = dashboard

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the event streams, and then stop the dashboard's server."""
        self._dashboard.disconnect_pages()
        await super().shutdown(sockets)


class RequestGuard:
    """ASGI middleware of the dashboard: checks requests, removes the path prefix, adds headers.

    Parameters
    ----------
    application : ASGIApp
        Answers the accepted requests.
    root_path : str
        The path prefix of a proxy, such as "/dashboard"; "" if there is no prefix. Paths are
        accepted with and without the prefix.
    hosts : sequence of str
        Accepted host names, in addition to those of the loopback interface; ``*`` accepts every
        host name.
    """

    def __init__(self, application: ASGIApp, root_path: str, hosts: Sequence[str]) -> None:
        self._application = application
        self._root_path = root_path
        self._hosts = frozenset(map(str.lower, hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request of the dashboard, or reject it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), text.encode()) for name, text in SECURITY_HEADERS.items()]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        root, path = self._root_path, str(scope["path"])
        if rejection := self._rejection(scope):
            await rejection(scope, receive, send_with_headers)
        elif root and path == root:
            redirect = Response(status_code=307, headers={"location": f"{root}/"})
            await redirect(scope, receive, send_with_headers)
        else:
            inner = path.removeprefix(root) if path.startswith(f"{root}/") else path
            inner_scope = {**scope, "path": inner, "root_path": ""}
            await self._application(inner_scope, receive, send_with_headers)

    def _rejection(self, scope: Scope) -> Response | None:
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("this page is read-only", 405, {"allow": "GET, HEAD"})
        names = [value for name, value in scope["headers"] if name == b"host"]
        if not (len(names) == 1 and self._is_accepted(names[0])):
            text = "this host name is not accepted; start the dashboard with --allow-host NAME"
            return PlainTextResponse(text, 421)
        return None

    def _is_accepted(self, header: bytes) -> bool:
        name = host_name(header.decode("latin-1"))
        return "*" in self._hosts or name in self._hosts or is_loopback(name)


def _file(path: Path) -> Callable[[Request], Response]:
    return _content(path.read_bytes(), CONTENT_TYPES[path.suffix])


def _content(content: bytes, media_type: str) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        return Response(content, media_type=media_type)

    return endpoint


def _json(document: Any) -> Response:
    return Response(msgspec.json.encode(document), media_type="application/json")


def _encode_event(name: str, document: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(document))
