"""A page that shows what a daemon decides: live by MQTT, and day by day as it was kept.

    board.py   what is known of every field, folded from messages; bounded, without I/O
    live.py    the broker's messages, on asyncio
    tape.py    a recorded day as the page replays it
    app.py     the web server: a page, its files, server-sent events
    pages/     what the browser gets

It only ever reads: nothing is published, and nothing a browser sends is kept.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

from edge_tvbo.errors import MissingExtra
from edge_tvbo.ports import Broker, Past, Scene


def serve(
    scenes: Mapping[str, Scene],
    *,
    title: str,
    broker: Broker | None,
    past: Callable[[], Past] | None,
    host: str,
    port: int,
    root_path: str = "",
    hosts: Sequence[str] = (),
    ready: Callable[[str], None],
) -> None:
    """Serve the page until SIGINT or SIGTERM; see `edge_tvbo.ports.Dashboard`."""
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise MissingExtra("A package that the dashboard wants, starlette or uvicorn,", "dashboard")
    from edge_tvbo_adapters.dashboard import server

    server.serve(server.Content(title, scenes, broker, past), host, port, root_path, hosts, ready)
