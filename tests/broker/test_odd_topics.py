"""Topics that are not UTF-8: a fake broker sends them, because mosquitto rejects them."""

import asyncio
import socket
from contextlib import contextmanager, suppress
from threading import Thread

import pytest
from edge_tvbo_adapters.dashboard import message_receiver
from edge_tvbo_adapters.dashboard.state import DashboardState
from edge_tvbo_adapters.mqtt.read_retained import read_retained
from support.mosquitto import TIMEOUT_S
from support.settings import mqtt_settings

STATUS = b"edge_tvbo/lab/status"


@contextmanager
def broker_with_odd_topic(subscriptions):
    """Yield the settings of a fake broker that sends a topic that is not UTF-8, then a status.

    Before that, it grants `subscriptions` topic filters.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            theirs, _ = server.accept()
            with theirs, suppress(ConnectionError):
                theirs.recv(4096)
                theirs.sendall(b"\x20\x02\x00\x00")
                theirs.recv(4096)
                theirs.sendall(bytes([0x90, 2 + subscriptions, 0, 1]) + bytes(subscriptions))
                theirs.sendall(published(b"edge_tvbo/lab/\xff\xfe") + published(STATUS))
                while theirs.recv(4096):
                    pass

        thread = Thread(target=serve)
        thread.start()
        yield mqtt_settings(server.getsockname()[1])
        thread.join()


def published(topic):
    payload = b"online"
    body = len(topic).to_bytes(2) + topic + payload
    return bytes([0x30, len(body)]) + body


@pytest.mark.slow
def test_the_status_is_read_despite_a_topic_that_is_not_utf8(monkeypatch):
    monkeypatch.setattr("edge_tvbo_adapters.mqtt.read_retained.QUIET_S", 5.0)
    with broker_with_odd_topic(2) as broker:
        assert read_retained(broker, "lab", (), TIMEOUT_S).status == "online"


@pytest.mark.timeout(2 * TIMEOUT_S)
def test_the_dashboard_continues_after_a_topic_that_is_not_utf8():
    board = DashboardState("lab", {})

    async def is_online(broker):
        online = asyncio.Event()

        def publish(changes):
            if board.connections().daemon == "online":
                online.set()

        listening = asyncio.create_task(message_receiver.listen(broker, "lab", board, publish))
        waiting = asyncio.create_task(online.wait())
        done, _ = await asyncio.wait({listening, waiting}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
        return waiting in done

    with broker_with_odd_topic(3) as broker:
        assert asyncio.run(is_online(broker))
