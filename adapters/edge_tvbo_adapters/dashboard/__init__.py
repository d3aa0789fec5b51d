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
from edge_tvbo.ports import Broker
from edge_tvbo_adapters.dashboard.state import DashboardField, DecisionHistory


def serve(
    scenes: Mapping[str, DashboardField],
    *,
    title: str,
    broker: Broker | None,
    past: Callable[[], DecisionHistory] | None,
    host: str,
    port: int,
    root_path: str = "",
    hosts: Sequence[str] = (),
    ready: Callable[[str], None],
) -> None:
    """Serve the fields until SIGINT or SIGTERM; raises `EdgeTvboError` where that is impossible.

    Parameters
    ----------
    scenes : mapping
        Every field.
    title : str
        The title of the page.
    broker : Broker, optional
        Where live data come from; None for recorded days alone.
    past : callable, optional
        Opens the decision history; None where there is none.
    host, port
        The address to listen on.
    root_path : str
        The prefix that a proxy adds to our paths, "/dashboard"; "" for none.
    hosts : sequence of str
        Further host names that requests may be for.
    ready : callable
        Is called with the page's address once it can be visited.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise MissingExtra("A package that the dashboard wants, starlette or uvicorn,", "dashboard")
    from edge_tvbo_adapters.dashboard import server

    server.serve(server.Content(title, scenes, broker, past), host, port, root_path, hosts, ready)
