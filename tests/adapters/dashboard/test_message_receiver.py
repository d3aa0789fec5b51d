"""Live messages of the dashboard: a cancellation ends every wait, and a refusal is shown."""

import asyncio
import gc
import json
import selectors
import socket
import struct
import threading
from contextlib import closing

import msgspec
import pytest
from edge_tvbo_adapters.dashboard import message_receiver, server
from edge_tvbo_adapters.dashboard.content import DashboardContent
from edge_tvbo_adapters.dashboard.frames import DashboardField
from edge_tvbo_adapters.dashboard.server import Dashboard
from edge_tvbo_adapters.dashboard.state import DashboardState
from starlette.applications import Starlette

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.messages.documents import Alert

SCOPE = {  # of a request for the events, as uvicorn describes it
    "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "method": "GET",
    "path": "/events", "headers": [], "query_string": b"", "root_path": "",
}  # fmt: skip


def test_a_cancellation_that_coincides_with_a_message_is_not_lost(monkeypatch):
    """On Python 3.11, `asyncio.wait_for` returns the message, and the task continues for ever."""

    async def run():
        noted = []
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "add_reader", lambda _, note, mask: noted.append((note, mask)))
        monkeypatch.setattr(loop, "remove_reader", lambda _: None)
        monkeypatch.setattr(loop, "remove_writer", lambda _: None)
        task = asyncio.create_task(message_receiver._ready((0, selectors.EVENT_READ), 10.0))
        while not noted:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        note, mask = noted[0]
        note(mask)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


@pytest.mark.parametrize("turns", range(5))
def test_a_cancellation_that_coincides_with_an_event_ends_the_stream(turns):
    async def consume(stream):
        async for _ in stream:
            pass

    async def turn(times):
        for _ in range(times):
            await asyncio.sleep(0)

    async def run():
        dashboard = Dashboard(DashboardContent("", "lab", {}, None, None))
        task = asyncio.create_task(consume(dashboard._stream()))
        await turn(5)
        (queue,) = dashboard._pages
        queue.put_nowait(b"event")
        await turn(turns)
        task.cancel()
        await turn(20)
        assert task.cancelled()

    asyncio.run(run())


def test_an_error_that_ends_the_live_messages_is_logged_and_shown(monkeypatch, caplog):
    async def fail(mqtt, instance, state, publish):
        state.broker_lost("unreachable")
        raise RuntimeError("a bug")

    async def run():
        dashboard = Dashboard(DashboardContent("", "lab", {}, Mqtt(), None))
        async with dashboard.application().router.lifespan_context(None):
            stream = dashboard._stream()
            _, _, event = [await anext(stream) for _ in range(3)]
            return json.loads(event.removeprefix(b"event: connections\ndata: "))

    monkeypatch.setattr(server, "listen", fail)
    connections = asyncio.run(asyncio.wait_for(run(), 30))
    assert not connections["broker"]["online"]
    assert "restart the dashboard" in connections["broker"]["reason"]
    assert "RuntimeError: a bug" in caplog.text


@pytest.mark.parametrize("after", range(4))
def test_a_page_that_is_closed_at_once_is_not_counted_as_open(after):
    async def run():
        dashboard = Dashboard(DashboardContent("", "lab", {}, Mqtt(), None))
        application = Starlette(routes=dashboard.application().routes)

        async def receive():
            for _ in range(after):
                await asyncio.sleep(0)
            return {"type": "http.disconnect"}

        async def send(message):
            await asyncio.sleep(0)

        await application(SCOPE, receive, send)
        gc.collect()
        await asyncio.sleep(0.01)
        assert not dashboard._pages

    asyncio.run(run())


class PartlyRefusingBroker:
    """A mock of a broker that refuses subscriptions by its ACL, as EMQX and HiveMQ do.

    mosquitto grants every subscription. This broker refuses the last `refused` topics, and serves
    one session.
    """

    def __init__(self, refused):
        self._refused = refused
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        client, _ = self._server.accept()
        with client:
            client.recv(1000)
            client.sendall(b"\x20\x02\x00\x00")
            subscribe = client.recv(5000)
            topics, at = 0, 4 + (subscribe[1] >= 128)  # after the packet id
            while at < len(subscribe):
                at += 3 + struct.unpack_from(">H", subscribe, at)[0]
                topics += 1
            answers = bytes(topics - self._refused) + b"\x80" * self._refused
            at = 2 + (subscribe[1] >= 128)
            client.sendall(bytes([0x90, 2 + topics]) + subscribe[at : at + 2] + answers)
            while client.recv(1000):  # until the dashboard disconnects
                pass

    def close(self):
        self._thread.join()
        self._server.close()


def listen_until_connected(state, broker):
    """Return all events that `live.listen` publishes until it publishes its connection."""
    published = []

    async def run():
        shown = asyncio.Event()

        def publish(events):
            published.extend(events)
            if any(name == "connections" for name, _ in events):
                shown.set()

        task = asyncio.create_task(
            message_receiver.listen(Mqtt(port=broker.port), "lab", state, publish)
        )
        await shown.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), 30))
    return published


def state_of_one_field():
    return DashboardState("lab", {"heat": DashboardField(("a",), "°C", "max", 60.0, None)})


@pytest.mark.parametrize(("refused", "online"), [(8, False), (1, True)])
def test_a_refused_subscription_is_logged_and_shown(refused, online, caplog):
    state = state_of_one_field()
    assert len(state.topics) == 8

    with closing(PartlyRefusingBroker(refused)) as broker:
        *_, (_, shown) = listen_until_connected(state, broker)

    assert shown.broker.online == online
    first = "heat/event; allow them in its ACL" if online else "status, "
    assert f"the broker refuses subscriptions to edge_tvbo/lab/{first}" in caplog.text
    if not online:
        assert "refuses the dashboard" in shown.broker.reason


def test_an_alert_that_was_cleared_while_the_dashboard_was_away_is_not_shown():
    """The broker sends the documents that it retains, and nothing on a cleared topic."""
    state = state_of_one_field()
    alert = Alert("", True, None, 30.0, 29.5, "a", 35.0, 0.1, 1.0, {}, "°C", "hot")
    state.process("edge_tvbo/lab/heat/alert", msgspec.json.encode(alert))

    with closing(PartlyRefusingBroker(0)) as broker:
        published = listen_until_connected(state, broker)

    assert state.view().fields["heat"].alert is None
    assert [each["alert"] for name, each in published if name == "field"] == [None]
