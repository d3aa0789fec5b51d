"""Local broker for demonstrations and tests: mosquitto, or amqtt if mosquitto is not installed."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from edge_tvbo.errors import EdgeTvboError, MissingExtra

START_TIMEOUT_S = 20.0
MOSQUITTO = """\
listener {port} 127.0.0.1
allow_anonymous true
set_tcp_nodelay true
max_queued_messages 100000
persistence false
"""


class Running(NamedTuple):
    """Name and address of a running local broker."""

    name: str
    host: str
    port: int


@contextmanager
def start(port: int = 0) -> Iterator[Running]:
    """Run a local broker on 127.0.0.1 until the context ends; port 0 selects a free port.

    Raises
    ------
    MissingExtra
        If neither mosquitto nor amqtt is installed.
    EdgeTvboError
        If the port is in use, or the broker does not start.
    """
    port = free_port(port)
    with tempfile.TemporaryDirectory(prefix="edge_tvbo-") as directory:
        name, command = choose(port, Path(directory))
        log = Path(directory) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_for(process, port, log)
            yield Running(name, "127.0.0.1", port)
        finally:
            process.terminate()
            process.wait(10)


def choose(port: int, directory: Path) -> tuple[str, list[str]]:
    """Return the name and the command line of an installed local broker.

    A configuration file is written to `directory` if the broker needs one. Raises `MissingExtra` if
    no broker is installed.
    """
    mosquitto = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if mosquitto:
        configuration = directory / "mosquitto.conf"
        configuration.write_text(MOSQUITTO.format(port=port))
        return "mosquitto", [mosquitto, "-c", str(configuration)]
    if find_spec("amqtt"):
        return "amqtt", [
            sys.executable,
            "-m",
            "edge_tvbo_adapters.simulation.local_broker",
            str(port),
        ]
    raise MissingExtra("A broker (mosquitto, or the package amqtt)", "broker")


def free_port(port: int = 0) -> int:
    """Return the port of the local broker: `port`, or a free port if `port` is 0.

    Raises `EdgeTvboError` if the port is in use.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise EdgeTvboError(f"Port {port} of 127.0.0.1: {error.strerror}.") from None
        free: int = probe.getsockname()[1]
        return free


def wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until the local broker accepts a connection.

    Raises `EdgeTvboError` if the broker does not start.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise EdgeTvboError(f"The broker did not start:\n{log.read_text(errors='replace')[-2000:]}")


async def serve(port: int) -> None:
    """Run the broker amqtt on `port` until the process ends."""
    from amqtt.broker import Broker

    broker = Broker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
            "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {}},
        }
    )
    await broker.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
