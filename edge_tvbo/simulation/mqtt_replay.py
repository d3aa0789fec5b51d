"""A recording replayed through a real broker: the sensors are clients in another process."""

import select
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import IO

from edge_tvbo_adapters.payloads import make_codec

from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.clock import ReplayClock
from edge_tvbo.daemon.loop import Link, Loop, sleep
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.daemon.signals import stop_on_signal
from edge_tvbo.daemon.status import StatusCollector
from edge_tvbo.errors import EdgeTvboError
from edge_tvbo.messages.commands import Command
from edge_tvbo.plugins import load
from edge_tvbo.ports import Broker, Wiring
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.replay import Tally

FIELD = "replay"
READING_TOPIC = "lab/{sensor}/reading"
ACTIVATE_TOPIC = "lab/{sensor}/activate"
ACTIVATE_PAYLOAD = '{"interval": {interval}, "at": {at}, "expires_at": {expires_at}}'
CONNECT_TIMEOUT = 30.0  # s
CODEC_SETTINGS = {"value": "t", "time": "ts"}


def over_mqtt(
    backtest: Backtest,
    controller: Controller,
    broker: Broker,
    speed: float,
    watch: Callable[[Command], None] = lambda command: None,
) -> Tally:
    """Drive `controller` through the test days over `broker`, `speed` times as fast as they were.

    The nodes must be connected already (`nodes`). Raises `KeyboardInterrupt` on SIGINT and SIGTERM.
    """
    recording, span = backtest.recording, backtest.test_span
    tally = Tally(recording, span)
    wiring = Wiring(
        tuple(recording.sensors),
        READING_TOPIC,
        make_codec("json", CODEC_SETTINGS),
        ACTIVATE_TOPIC,
        ACTIVATE_PAYLOAD,
    )
    intervals = span.last - span.first
    clock = ReplayClock(recording.start + span.first * recording.interval, speed)
    link = load("links", "mqtt")(broker, {FIELD: wiring}, wall=lambda: clock.wall(clock.elapsed()))

    def take(field: str, command: Command) -> None:
        tally.take(command)
        watch(command)

    with closing(link), stop_on_signal() as (stop, wakeup):
        _connect(link, stop)
        schedule = Scheduler({FIELD: recording.interval}, clock, first=0.0, last=intervals)
        status = StatusCollector(clock)
        status.attach({FIELD: controller}, link, {FIELD: recording.interval})
        loop = Loop(
            link,
            {FIELD: controller},
            schedule,
            clock,
            observers=[take, status],
            services=[status],
        )
        loop.run(lambda: stop() or schedule.done(), wakeup)
        interrupted = stop()
    if interrupted:
        raise KeyboardInterrupt
    return tally


def _connect(link: Link, stop: Callable[[], bool]) -> None:
    give_up = time.monotonic() + CONNECT_TIMEOUT
    with selectors.DefaultSelector() as selector:
        while not (link.online or stop()):
            if time.monotonic() > give_up:
                raise EdgeTvboError("The broker does not let us in, or not subscribe; see above.")
            mask = sleep(selector, link, min(0.1, link.wake_at() - time.monotonic()))
            for _ in link.service(mask, time.monotonic()):
                pass


@contextmanager
def nodes(arguments: Sequence[str], broker: Broker) -> Iterator[subprocess.Popen[str]]:
    """Run ``edge-tvbo nodes`` against `broker` in another process, and wait until it is ready.

    `arguments` name the recording.
    """
    _check_broker(broker)
    command = [sys.executable, "-m", "edge_tvbo", "nodes", *arguments]
    command += ["--host", broker.host, "--port", str(broker.port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if not _said(process.stdout).startswith("ready"):
                raise EdgeTvboError("The simulated nodes did not get ready; see above.")
            yield process
        finally:
            process.terminate()


def _check_broker(broker: Broker) -> None:
    try:
        socket.create_connection((broker.host, broker.port), timeout=CONNECT_TIMEOUT).close()
    except OSError as error:
        raise EdgeTvboError(
            f"{broker.host}:{broker.port}: {error.strerror or error}; is a broker running there?"
        ) from None


def _said(output: IO[str]) -> str:
    """Give the next line of `output`, or nothing where there is none in time."""
    ready, _, _ = select.select([output], [], [], CONNECT_TIMEOUT)
    return output.readline() if ready else ""
