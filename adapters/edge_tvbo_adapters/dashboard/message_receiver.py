"""Receiver of the daemon's messages for the dashboard. It publishes no messages."""

import asyncio
import logging
import os
import selectors
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from random import Random

from msgspec.structs import replace

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code
from edge_tvbo.messages.formatting import listed
from edge_tvbo_adapters.dashboard.state import MAX_MESSAGE_SIZE, DashboardState, SseEvent
from edge_tvbo_adapters.mqtt.backoff import Backoff
from edge_tvbo_adapters.mqtt.connection_problems import ConnectionProblem, ended_session
from edge_tvbo_adapters.mqtt.session import Session, SessionState
from edge_tvbo_adapters.mqtt.topics import MAX_TOPIC_LENGTH, default_client_id, topic_of

log = logging.getLogger(__name__)

REFUSED = "the broker refuses the dashboard; the dashboard's log says why"
UNREACHABLE = "the broker is unreachable"
KEEPALIVE_S = 5  # short, because a lost broker is noticed only after two keep-alives
MAX_WAIT_S = 5.0  # between two attempts to connect; short, because a user may be waiting
MAX_DESCRIPTOR_WAIT_S = 1.0


async def listen(
    mqtt: Mqtt, instance: str, state: DashboardState, publish: Callable[[list[SseEvent]], None]
) -> None:
    """Update the dashboard's state with the broker's messages until the task is cancelled.

    After each change, `publish` is called with the server-sent events that describe the change.
    """
    logged = ""
    mqtt = replace(mqtt, keepalive=KEEPALIVE_S)
    client_id = f"{mqtt.client_id or default_client_id(instance)}-{os.getpid()}"
    backoff = Backoff(min(mqtt.reconnect.min, 1.0), MAX_WAIT_S, Random())
    while True:
        problem = await _run_session(mqtt, client_id, state, publish)
        if state.connections().broker.online or problem.text != logged:
            logged = problem.text  # the page does not show this text, which may contain the login
            log.warning("broker %s: %s", mqtt.address, logged)
        publish(state.broker_lost(REFUSED if problem.lasting else UNREACHABLE))
        await asyncio.sleep(backoff.wait())


async def _run_session(
    mqtt: Mqtt,
    client_id: str,
    state: DashboardState,
    publish: Callable[[list[SseEvent]], None],
) -> ConnectionProblem:
    """Run one MQTT session of the dashboard until it ends; return the problem that ended it."""
    max_packet = MAX_MESSAGE_SIZE + MAX_TOPIC_LENGTH
    subscribed = False
    with closing(Session(mqtt, client_id, time.monotonic(), max_packet=max_packet)) as session:
        while session.problem is None:
            mask = await _ready(session.interest(), session.wake_at() - time.monotonic())
            for message in session.service(mask, time.monotonic()):
                topic, _ = topic_of(message)
                if changes := state.process(topic, bytes(message.payload), retained=message.retain):
                    publish(changes)
            if session.state is SessionState.CONNECTED and not subscribed:
                subscribed = True
                publish(state.forget_alerts())
                session.subscribe(state.topics)
            if session.granted is not None and not state.connections().broker.online:
                if refusal := _refusal(state.topics, session):
                    if not any(session.granted):
                        return refusal
                    log.warning("broker %s: %s", mqtt.address, refusal.text)
                publish(state.broker_connected())
        return ended_session(session.problem, mqtt) if subscribed else session.problem


def _refusal(topics: Sequence[str], session: Session) -> ConnectionProblem | None:
    """Return the connection problem if the broker refuses subscriptions of the dashboard.

    Returns None if the broker refuses no subscription.
    """
    answers = zip(topics, session.granted or (), strict=True)
    refused = [topic for topic, is_granted in answers if not is_granted]
    if not refused:
        return None
    why = f" ({session.why_not_granted})" if session.why_not_granted else ""
    text = f"the broker refuses subscriptions to {listed(refused)}{why}; allow them in its ACL"
    return ConnectionProblem(text, Code.FORBIDDEN, lasting=True)


async def _ready(interest: tuple[int, int] | None, timeout: float) -> int:
    """Wait up to `timeout` seconds until the socket of the dashboard's MQTT session is ready.

    Returns the `selectors` events for which the socket is ready; 0 after a time-out.
    """
    await asyncio.sleep(0)  # lets the web server work even if messages arrive very fast
    if interest is None:
        return 0
    loop = asyncio.get_running_loop()
    descriptor, events = interest
    ready = loop.create_future()

    def note(mask: int) -> None:
        if not ready.done():
            ready.set_result(mask)

    if events & selectors.EVENT_READ:
        loop.add_reader(descriptor, note, selectors.EVENT_READ)
    if events & selectors.EVENT_WRITE:
        loop.add_writer(descriptor, note, selectors.EVENT_WRITE)
    try:
        # On Python 3.11, `wait_for` loses a cancellation that coincides with the result.
        async with asyncio.timeout(min(max(0.0, timeout), MAX_DESCRIPTOR_WAIT_S)):
            return int(await ready)
    except TimeoutError:
        return 0
    finally:
        loop.remove_reader(descriptor)
        loop.remove_writer(descriptor)
