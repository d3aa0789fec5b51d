"""The broker's messages, on asyncio: a client of its own, which subscribes and never publishes."""

import asyncio
import logging
import os
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import closing
from math import inf
from random import Random
from typing import Any

from paho.mqtt.client import Client, ConnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo_adapters.dashboard.state import MAX_MESSAGE_SIZE, DashboardState, SseEvent
from edge_tvbo_adapters.mqtt.backoff import Backoff
from edge_tvbo_adapters.mqtt.client import SocketClient, hung_up, no_mqtt, refused
from edge_tvbo_adapters.mqtt.connect import PATIENCE, Dialler
from edge_tvbo_adapters.mqtt.outage_log import ConnectionProblem
from edge_tvbo_adapters.mqtt.subscriber import topic_of
from edge_tvbo_adapters.mqtt.topics import default_client_id

log = logging.getLogger(__name__)

REFUSED = "it does not let the dashboard in, whose log says why"
GONE = "it is out of reach"
TICK = 1.0  # s between two looks at the keep-alive
KEEPALIVE = 5  # s; a broker that is gone without a word shows as lost after two of them
LONGEST_WAIT = 5.0  # s until a lost broker is tried again: somebody may be looking at the page


async def listen(
    mqtt: Mqtt,
    instance: str,
    board: DashboardState,
    tell: Callable[[list[SseEvent]], None],
) -> None:
    """Fold what the broker has into `board` for ever, and `tell` what changed."""
    said = ""
    backoff = Backoff(min(mqtt.reconnect.min, 1.0), LONGEST_WAIT, Random())
    with closing(Dialler(mqtt)) as dialler:
        while True:
            outcome = await _dialled(dialler)
            if not isinstance(outcome, ConnectionProblem):
                with closing(outcome):
                    outcome = await _Session(mqtt, instance, outcome, board, tell).run()
            if board.connections().broker.online or outcome.text != said:
                said = outcome.text  # it may name the login, so the page is told less
                log.warning("broker %s:%d: %s", mqtt.host, mqtt.port, said)
            tell(board.broker_lost(REFUSED if outcome.lasting else GONE))
            backoff.clear()
            await asyncio.sleep(backoff.wait())


async def _dialled(dialler: Dialler) -> socket.socket | ConnectionProblem:
    outcome = dialler.start(time.monotonic())
    while outcome is None:
        mask = await _ready(dialler.interest(), dialler.until - time.monotonic())
        outcome = dialler.step(mask, time.monotonic())
    return outcome


class _Session:
    """One session, from the greeting until it is lost."""

    def __init__(
        self,
        mqtt: Mqtt,
        instance: str,
        connected: socket.socket,
        board: DashboardState,
        tell: Callable[[list[SseEvent]], None],
    ) -> None:
        self._mqtt = mqtt
        self._board = board
        self._tell = tell
        self._messages: list[MQTTMessage] = []
        self._trouble: ConnectionProblem | None = None
        self._until = time.monotonic() + PATIENCE  # for the greeting
        self._client_id = f"{mqtt.client_id or default_client_id(instance)}-{os.getpid()}"
        self._client = self._greeting(connected)

    def _greeting(self, connected: socket.socket) -> SocketClient:
        client = SocketClient(
            CallbackAPIVersion.VERSION2,
            client_id=self._client_id,
            protocol=MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
        )
        client.dialled, client.keep = connected, MAX_MESSAGE_SIZE + 2**16
        if self._mqtt.username is not None:
            client.username_pw_set(*self._mqtt.login())
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        return client

    async def run(self) -> ConnectionProblem:
        """Take messages in until there is trouble, and give it."""
        client, mqtt = self._client, self._mqtt
        try:
            client.connect(mqtt.host, mqtt.port, keepalive=KEEPALIVE)
        except OSError as error:
            return ConnectionProblem(str(error))
        while self._trouble is None:
            mask = await _ready(self._interest(), TICK)
            if noise := client.transfer(mask, self._messages):
                self._trouble = no_mqtt(noise, mqtt)
            elif client.socket() is None and self._trouble is None:
                granted = self._until == inf
                self._trouble = (
                    ConnectionProblem("it went away") if granted else hung_up(client, mqtt)
                )
            elif time.monotonic() >= self._until:
                self._trouble = ConnectionProblem("it takes the connection and says nothing")
            self._deliver()
        return self._trouble

    def _interest(self) -> tuple[int, int] | None:
        sock: Any = self._client.socket()
        if sock is None or self._client.pending:
            return None
        write = selectors.EVENT_WRITE if self._client.want_write() else 0
        return sock.fileno(), selectors.EVENT_READ | write

    def _deliver(self) -> None:
        for message in self._messages:
            topic, _ = topic_of(message)
            if told := self._board.process(topic, bytes(message.payload)):
                self._tell(told)
        self._messages.clear()

    # --- what paho calls ----------------------------------------------------------------------

    def _on_connect(
        self,
        client: Client,
        userdata: Any,
        flags: ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            self._trouble = refused(reason, self._mqtt, self._client_id)
        else:
            client.subscribe([(each, 1) for each in self._board.topics])

    def _on_subscribe(
        self,
        client: Client,
        userdata: Any,
        mid: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        self._until = inf
        self._tell(self._board.broker_connected())

    def _on_message(self, client: Client, userdata: Any, message: MQTTMessage) -> None:
        self._messages.append(message)


async def _ready(interest: tuple[int, int] | None, timeout: float) -> int:
    """Wait for a descriptor, for `timeout` seconds at the most; give what it is ready for."""
    if interest is None:
        await asyncio.sleep(min(max(0.0, timeout), 0.01))
        return 0
    loop = asyncio.get_running_loop()
    descriptor, wanted = interest
    came = loop.create_future()

    def note(mask: int) -> None:
        if not came.done():
            came.set_result(mask)

    if wanted & selectors.EVENT_READ:
        loop.add_reader(descriptor, note, selectors.EVENT_READ)
    if wanted & selectors.EVENT_WRITE:
        loop.add_writer(descriptor, note, selectors.EVENT_WRITE)
    try:
        return int(await asyncio.wait_for(came, max(0.0, timeout)))
    except TimeoutError:
        return 0
    finally:
        loop.remove_reader(descriptor)
        loop.remove_writer(descriptor)
