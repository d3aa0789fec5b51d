"""Dashboard: a web page that shows the daemon's decisions live over MQTT, or replays recorded days.

    times.py             times in documents
    frames.py            what is stored for each interval, and the parts of it that a page shows
    reading_times.py     which readings in a posterior are new
    field_state.py       the state of one field, updated by documents; of bounded size, without I/O
    state.py             the state of all fields and of the connections, updated by messages
    message_receiver.py  the connection to the broker, on asyncio
    day.py               a recorded day, which the page replays
    plan.py              the image behind the map of the sensors
    content.py           what a dashboard shows, and where its data come from
    http_protocol.py     the time limit of a request
    server.py            the web server: the page, its files, server-sent events
    pages/               the files for the browser

The dashboard is read-only: it publishes nothing and stores nothing that a browser sends.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec

from edge_tvbo.errors import MissingExtra
from edge_tvbo_adapters.dashboard.content import DashboardContent


def serve(
    content: DashboardContent,
    *,
    host: str,
    port: int,
    root_path: str = "",
    hosts: Sequence[str] = (),
    ready: Callable[[str], None],
) -> None:
    """Serve the dashboard over HTTP until SIGINT or SIGTERM.

    Parameters
    ----------
    content : DashboardContent
        What the dashboard shows.
    host, port
        The address to listen on.
    root_path : str
        The path prefix under which a proxy serves the dashboard, such as "/dashboard"; "" if there
        is no prefix.
    hosts : sequence of str
        Further host names that are accepted in the Host header of requests.
    ready : callable
        Called with the page's address once the page can be opened.

    Raises
    ------
    MissingExtra
        If starlette or uvicorn is not installed.
    EdgeTvboError
        If the port is in use.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise MissingExtra("A package that the dashboard needs, starlette or uvicorn,", "dashboard")
    from edge_tvbo_adapters.dashboard import server

    server.serve(content, host, port, root_path, hosts, ready)
