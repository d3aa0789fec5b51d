"""The web server: one page and its files, what changes by server-sent events, recorded days.

It trusts nothing that a browser sends: only GET and HEAD, only paths it knows, and a Host that it
answers to, so that no page of somebody else's can have itself resolved to us. How many pages listen
is bounded, and so is what waits for a slow one, which then has to come again.
"""

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from ipaddress import ip_address
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

from edge_tvbo.errors import DataError, EdgeTvboError
from edge_tvbo.ports import Broker
from edge_tvbo_adapters.dashboard.day import tape
from edge_tvbo_adapters.dashboard.live import listen
from edge_tvbo_adapters.dashboard.state import (
    DashboardField,
    DashboardState,
    DecisionHistory,
    SseEvent,
    now,
)

log = logging.getLogger(__name__)

PAGES = Path(__file__).parent / "pages"
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
MOST_LISTENERS = 32  # pages at once
MOST_WAITING = 256  # events that a slow page may be behind
MOST_CONNECTIONS = 2 * MOST_LISTENERS
PULSE = 5.0  # s between two signs of life
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
    "cross-origin-resource-policy": "same-origin",
}


class Content(msgspec.Struct, frozen=True):
    """What there is to see."""

    title: str
    scenes: Mapping[str, DashboardField]
    broker: Broker | None  # None: recorded days only
    past: Callable[[], DecisionHistory] | None


def serve(
    content: Content,
    host: str,
    port: int,
    root_path: str,
    hosts: Sequence[str],
    ready: Callable[[str], None],
) -> None:
    """Serve until SIGINT or SIGTERM; raises `EdgeTvboError` for a taken port."""
    listening = _listening(host, port)
    port = listening.getsockname()[1]
    if not is_loopback(host):
        log.warning("dashboard on %s: whoever reaches this machine can look at it", host)
    answered = None if not is_loopback(host) and not hosts else (*hosts, host)
    application = Guarded(Dashboard(content).application(), root_path, answered)
    config = uvicorn.Config(
        application,
        access_log=False,
        limit_concurrency=MOST_CONNECTIONS,
        log_config=None,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        ws="none",
    )
    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn hands them on when it has stopped
        signal.signal(number, lambda number, frame: None)
    shown = f"[{host}]" if ":" in host else host
    ready(f"http://{shown}:{port}{root_path}/")
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=MOST_CONNECTIONS)
    except OSError as error:
        raise EdgeTvboError(
            f"The dashboard cannot listen on {host}, port {port}: {error.strerror or error}; "
            "name another:  --port 8788"
        ) from error


class Dashboard:
    """Answers requests, and tells every open page what changes."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._board = DashboardState(
            content.broker.instance if content.broker else "", content.scenes
        )
        self._listeners: set[asyncio.Queue[bytes | None]] = set()
        self._reading = asyncio.Lock()  # of one recorded day at a time
        self._recall()

    def application(self) -> Starlette:
        """Give the application, which listens to the broker while it lives."""
        files = {each.name: each for each in PAGES.iterdir() if each.suffix in TYPES}
        routes = [Route("/", _file(files["index.html"]))]
        routes += [Route(f"/{name}", _file(path)) for name, path in files.items()]
        routes += [
            Route("/scene.json", self._scene),
            Route("/tape.json", self._tape),
            Route("/events", self._events),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, application: Starlette) -> AsyncIterator[None]:
        broker = self._content.broker
        task = asyncio.create_task(listen(broker, self._board, self._tell)) if broker else None
        yield
        if task:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _recall(self) -> None:
        """Begin with what the history has."""
        if self._content.broker is None or self._content.past is None:
            return
        try:
            with closing(self._content.past()) as past:
                for name, field in self._board.fields.items():
                    field.recall(past, name)
        except DataError as error:
            log.warning("%s", error)

    # --- what does not change -----------------------------------------------------------------

    async def _scene(self, request: Request) -> Response:
        document = {
            "title": self._content.title,
            "live": self._content.broker is not None,
            "fields": self._content.scenes,
        }
        return _json(document)

    async def _tape(self, request: Request) -> Response:
        field = request.query_params.get("field", "")
        if field not in self._content.scenes:
            return PlainTextResponse("no such field", 404)
        board = self._board.fields[field]
        heard, notices = list(board.frames), list(board.notices)
        day, past = request.query_params.get("day"), self._content.past
        sensors = self._content.scenes[field].sensors
        async with self._reading:
            return _json(await run_in_threadpool(tape, field, sensors, day, past, heard, notices))

    # --- what does ----------------------------------------------------------------------------

    async def _events(self, request: Request) -> Response:
        if self._content.broker is None:
            return PlainTextResponse("nothing is live here", 404)
        if len(self._listeners) >= MOST_LISTENERS:
            return PlainTextResponse("too many pages are open", 503, {"retry-after": "5"})
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)
        queue.put_nowait(_event("view", self._board.view()))
        self._listeners.add(queue)
        return StreamingResponse(self._stream(queue), media_type="text/event-stream")

    async def _stream(self, queue: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        try:
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), PULSE)
                except TimeoutError:
                    event = _event("pulse", {"at": now()})
                if event is None:
                    return
                yield event
        finally:
            self._listeners.discard(queue)

    def _tell(self, told: list[SseEvent]) -> None:
        for name, document in told:
            event = _event(name, document)
            for queue in list(self._listeners):
                if queue.full():
                    self._dismiss(queue)
                else:
                    queue.put_nowait(event)

    def _dismiss(self, queue: asyncio.Queue[bytes | None]) -> None:
        """End the stream of a page that is too slow; it comes again, and is given all there is."""
        self._listeners.discard(queue)
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)


class Guarded:
    """Refuses what is not for us, takes the prefix off, and adds the headers that browsers obey.

    Parameters
    ----------
    application : ASGIApp
        Who answers the rest.
    root_path : str
        What a proxy may leave before our paths, "/dashboard"; "" for nothing.
    hosts : sequence of str, optional
        The names that we are reached by; None for any.
    """

    def __init__(self, application: ASGIApp, root_path: str, hosts: Sequence[str] | None) -> None:
        self._application = application
        self._root = root_path
        self._hosts = None if hosts is None else frozenset(map(str.lower, hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *ours]
            await send(message)

        path: str = scope["path"]
        if refusal := self._refusal(scope):
            await refusal(scope, receive, guarded)
        elif self._root and path == self._root:
            await Response(status_code=307, headers={"location": f"{self._root}/"})(
                scope, receive, guarded
            )
        else:
            inside = path.removeprefix(self._root) if path.startswith(f"{self._root}/") else path
            await self._application({**scope, "path": inside, "root_path": ""}, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("this page only shows", 405, {"allow": "GET, HEAD"})
        names = [value for name, value in scope["headers"] if name == b"host"]
        if self._hosts is not None and not (len(names) == 1 and self._is_ours(names[0])):
            text = "not the name this dashboard answers to; start it with --allow-host NAME"
            return PlainTextResponse(text, 421)
        return None

    def _is_ours(self, header: bytes) -> bool:
        name = header.decode("latin-1").lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        return name in (self._hosts or ()) or is_loopback(name)


def is_loopback(host: str) -> bool:
    """Say whether `host` is this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _file(path: Path) -> Callable[[Request], Response]:
    content, media_type = path.read_bytes(), TYPES[path.suffix]

    def endpoint(request: Request) -> Response:
        return Response(content, media_type=media_type)

    return endpoint


def _json(document: Any) -> Response:
    return Response(msgspec.json.encode(document), media_type="application/json")


def _event(name: str, document: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(document))
