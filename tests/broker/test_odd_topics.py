"""Topics that are no UTF-8, which mosquitto lets nobody send: from a broker that is made up."""

import asyncio
import socket
from contextlib import contextmanager, suppress
from threading import Thread

import pytest
from edge_tvbo_adapters.dashboard import live
from edge_tvbo_adapters.dashboard.state import DashboardState
from edge_tvbo_adapters.mqtt.read_retained import ask
from support.settings import mqtt_settings

STATUS = b"edge_tvbo/lab/status"


@contextmanager
def impostor(subscriptions):
    """Give a broker that grants so many subscriptions, then sends an odd topic and our status."""
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


def test_who_asks_for_the_status_gets_it_beside_a_topic_that_is_no_utf8():
    with impostor(2) as broker:
        assert ask(broker, "lab", (), 5.0).status == "online"


@pytest.mark.timeout(60)
def test_the_dashboard_goes_on_listening_after_a_topic_that_is_no_utf8():
    board = DashboardState("lab", {})

    async def until_told(broker):
        told = asyncio.Event()

        def tell(changes):
            if board.connections().daemon == "online":
                told.set()

        listening = asyncio.create_task(live.listen(broker, "lab", board, tell))
        waiting = asyncio.create_task(told.wait())
        done, _ = await asyncio.wait({listening, waiting}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
        return waiting in done

    with impostor(3) as broker:
        assert asyncio.run(until_told(broker))
