"""MQTT session with a server on loopback; the test writes the bytes of the server."""

import gc
import selectors
import socket
import time
from contextlib import closing
from itertools import repeat
from threading import Event
from weakref import finalize

import pytest
from edge_tvbo_adapters.mqtt.connect import Attempt
from edge_tvbo_adapters.mqtt.session import MAX_BATCH, MAX_FILTERS, Session, SessionState
from support.mqtt_bytes import CONNACK, PINGREQ, PINGRESP, packet, publish

from edge_tvbo.config.mqtt_settings import Mqtt

CONNACK_5 = b"\x20\x03\x00\x00\x00"
REASON = b"\x09\x1f\x00\x06la\nter"  # the properties of a packet: the broker's own words
SHORT_S = 1  # the shortest keep-alive in MQTT
KEEPALIVE_S = 3  # a machine that stands still for less than two of them is no silent broker
CALM_S = 600  # no keep-alive comes among the messages
TIMEOUT_S = 60.0


class Connection:
    """A session and the broker's socket of it."""

    def __init__(self, server, connack_5_timeout_s=TIMEOUT_S, **settings):
        port = server.getsockname()[1]
        mqtt = Mqtt(host="127.0.0.1", port=port, **({"keepalive": CALM_S} | settings))
        self.session = Session(
            mqtt,
            "test",
            time.monotonic(),
            max_packet=10**6,
            connack_5_timeout_s=connack_5_timeout_s,
        )
        self.messages = []
        self.broker, _ = server.accept()
        self.broker.settimeout(TIMEOUT_S)

    def turn(self, longest=0.05):
        interest = self.session.interest()
        mask = 0
        with selectors.DefaultSelector() as selector:
            if interest is not None:
                selector.register(*interest)
                mask = sum(mask for _, mask in selector.select(longest))
        self.messages += self.session.service(mask, time.monotonic())

    def until(self, condition):
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline
            self.turn()

    def accept(self, connack=CONNACK):
        """Answer the CONNECT, and wait until the session is connected."""
        self.until(lambda: self.session.state is SessionState.AWAITING_CONNACK)
        self.broker.sendall(connack)
        self.until(lambda: self.session.state is SessionState.CONNECTED)

    def close(self):
        self.session.close()
        self.broker.close()


@pytest.fixture
def server():
    """Yield a listening socket."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(TIMEOUT_S)
        yield listening


@pytest.fixture
def keepalive():
    """Return the keep-alive of `connected`, s."""
    return CALM_S


@pytest.fixture
def connected(server, keepalive):
    """Yield a connection that the broker has accepted, after reading its CONNECT."""
    with closing(Connection(server, keepalive=keepalive)) as connection:
        connection.accept()
        assert connection.broker.recv(1000)[0] == 0x10
        yield connection


@pytest.fixture
def connected_5(server):
    """Yield a connection that an MQTT 5 broker has accepted."""
    with closing(Connection(server, version="5")) as connection:
        connection.accept(CONNACK_5)
        yield connection


def test_a_connected_session_has_the_address_of_the_broker(server):
    with closing(Connection(server)) as connection:
        assert connection.session.state is SessionState.CONNECTING
        connection.accept()
        assert connection.session.address == "127.0.0.1"
        assert connection.session.problem is None


def test_a_connection_that_was_slow_to_come_is_no_problem_once_it_is_there(server, monkeypatch):
    go_on, connect = Event(), socket.create_connection

    def slow(*arguments, **settings):
        assert go_on.wait(TIMEOUT_S)
        return connect(*arguments, **settings)

    monkeypatch.setattr(socket, "create_connection", slow)
    mqtt = Mqtt(host="127.0.0.1", port=server.getsockname()[1], keepalive=CALM_S)
    session = Session(mqtt, "test", time.monotonic(), max_packet=10**6)
    list(session.service(0, session.deadline))
    assert "no connection after" in session.delay.text
    go_on.set()
    deadline = time.monotonic() + TIMEOUT_S
    while session.state is SessionState.CONNECTING:
        assert time.monotonic() < deadline
        list(session.service(0, time.monotonic()))
    session.close()

    assert session.delay is None


def test_messages_are_returned_in_order_and_a_batch_is_bounded(connected):
    sent = [f"{number}".encode() for number in range(3 * MAX_BATCH)]
    connected.broker.sendall(b"".join(publish("a", payload) for payload in sent))
    counts = []
    while len(connected.messages) < len(sent):
        before = len(connected.messages)
        connected.turn(1.0)
        counts.append(len(connected.messages) - before)
    assert [each.payload for each in connected.messages] == sent
    assert max(counts) <= MAX_BATCH


def test_a_message_that_arrives_while_another_is_handled_is_read_in_the_next_turn(connected):
    """So a reply to an activation has a later time of arrival than this activation."""
    connected.broker.sendall(publish("a", b"1"))
    with selectors.DefaultSelector() as selector:
        selector.register(*connected.session.interest())
        assert selector.select(TIMEOUT_S)
        messages = connected.session.service(selectors.EVENT_READ, time.monotonic())
        assert next(messages).payload == b"1"
        connected.broker.sendall(publish("a", b"2"))
        assert selector.select(TIMEOUT_S)
    assert list(messages) == []
    connected.turn(1.0)
    assert [each.payload for each in connected.messages] == [b"2"]


def test_a_message_is_acknowledged_when_the_caller_has_taken_all(connected):
    connected.broker.sendall(publish("a", b"1", qos=1, packet_id=258))
    with selectors.DefaultSelector() as selector:
        selector.register(*connected.session.interest())
        assert selector.select(TIMEOUT_S)
    messages = connected.session.service(selectors.EVENT_READ, time.monotonic())
    assert next(messages).payload == b"1"
    connected.broker.setblocking(False)
    with pytest.raises(BlockingIOError):
        connected.broker.recv(10)
    assert list(messages) == []
    connected.broker.settimeout(TIMEOUT_S)
    assert connected.broker.recv(10) == b"\x40\x02\x01\x02"


def test_answers_to_several_subscribe_packets_are_combined(connected):
    session = connected.session
    session.subscribe([f"f/{number}" for number in range(MAX_FILTERS + 2)])
    connected.turn(0.0)
    connected.broker.sendall(packet(0x90, b"\x00\x02\x01\x80"))
    connected.until(lambda: len(session._unanswered) == 1)
    assert session.granted is None
    connected.broker.sendall(packet(0x90, b"\x00\x01" + b"\x01" * MAX_FILTERS))
    connected.until(lambda: session.granted is not None)
    assert session.granted == [True] * (MAX_FILTERS + 1) + [False]


def test_an_answer_with_another_packet_id_is_ignored(connected):
    session = connected.session
    session.subscribe(["a", "b"])
    connected.turn(0.0)
    connected.broker.sendall(packet(0x90, b"\x00\x07\x80\x80") + publish("a", b"next"))
    connected.until(lambda: connected.messages)
    assert session.granted is None
    connected.broker.sendall(packet(0x90, b"\x00\x01\x01\x80"))
    connected.until(lambda: session.granted is not None)
    assert session.granted == [True, False]


@pytest.mark.slow
@pytest.mark.parametrize("keepalive", [KEEPALIVE_S])
def test_a_message_that_arrives_slowly_keeps_the_session_alive(connected):
    message = publish("a", bytes(60))
    for byte, pause in zip(message, repeat(3 * KEEPALIVE_S / len(message)), strict=False):
        connected.broker.sendall(bytes((byte,)))
        time.sleep(pause)
        connected.turn()
    connected.until(lambda: connected.messages)
    assert connected.session.problem is None
    assert [each.payload for each in connected.messages] == [bytes(60)]


@pytest.mark.slow
@pytest.mark.parametrize("keepalive", [SHORT_S])
def test_a_silent_broker_ends_the_session_after_two_keepalives(connected):
    connected.until(lambda: connected.session.problem is not None)
    assert "two keep-alives" in connected.session.problem.text
    assert connected.session.state is SessionState.CLOSED
    assert not connected.session.closed_by_broker


@pytest.mark.slow
@pytest.mark.parametrize("keepalive", [KEEPALIVE_S])
def test_a_broker_that_answers_pings_keeps_the_session_alive(connected):
    for _ in range(3):
        connected.broker.settimeout(0.02)
        received = b""
        deadline = time.monotonic() + TIMEOUT_S
        while PINGREQ not in received:
            assert time.monotonic() < deadline
            connected.turn()
            try:
                received += connected.broker.recv(100)
            except TimeoutError:
                continue
        connected.broker.sendall(PINGRESP)
    assert connected.session.problem is None


def test_messages_stay_in_order_if_the_socket_is_full(connected):
    payloads = [bytes((number,)) * 300_000 for number in range(30)]
    sent = []
    for payload in payloads[:-1]:
        if not connected.session.can_send:
            break
        connected.session.publish("a", payload, qos=1)
        sent.append(payload)
    assert not connected.session.can_send
    connected.session.publish("a", payloads[-1], qos=1)
    sent.append(payloads[-1])
    expected = b"".join(
        publish("a", payload, qos=1, packet_id=number) for number, payload in enumerate(sent, 1)
    )
    arrived = b""
    while len(arrived) < len(expected):
        arrived += connected.broker.recv(10**5)
        connected.turn(0.0)
    assert arrived == expected
    assert connected.session.can_send


def test_each_acknowledged_packet_id_is_returned_once(connected):
    sent = connected.session.publish("a", b"1")
    connected.broker.sendall(packet(0x40, sent.to_bytes(2, "big")))
    taken = []
    connected.until(lambda: taken.extend(connected.session.take_acknowledged()) or taken)
    assert taken == [sent]
    assert not connected.session.take_acknowledged()


def test_publishing_after_the_broker_closed_ends_the_session(connected):
    connected.broker.close()
    for _ in range(3):
        connected.session.publish("a", b"1")
    connected.until(lambda: connected.session.problem is not None)
    assert connected.session.closed_by_broker


def test_a_connection_closed_before_connack_is_a_problem_with_advice(server):
    with closing(Connection(server)) as connection:
        connection.until(lambda: connection.session.state is SessionState.AWAITING_CONNACK)
        connection.broker.close()
        connection.until(lambda: connection.session.problem is not None)
        assert "[mqtt.tls]" in connection.session.problem.text


def test_mqtt_5_limits_the_packet_size_of_the_broker(server):
    with closing(Connection(server, version="5")) as connection:
        greeting = connection.broker.recv(1000)
        assert b"MQTT\x05" in greeting
        assert b"\x27" + (10**6).to_bytes(4, "big") in greeting
        assert b"\x11\0\0\0\0" in greeting  # the session ends with the connection


@pytest.mark.parametrize(
    "answer", [b"\x20\x02\x00\x01", b"\x20\x03\x00\x84\x00", b"", b"HTTP/1.1 4"]
)
def test_a_broker_without_mqtt_5_is_connected_to_with_3_1_1(server, answer):
    with closing(Connection(server, version="5")) as connection:
        connection.until(lambda: connection.session.state is SessionState.AWAITING_CONNACK)
        assert b"MQTT\x05" in connection.broker.recv(1000)
        connection.broker.sendall(answer)
        connection.broker.close()
        connection.until(lambda: connection.session.state is SessionState.CONNECTING)
        assert connection.session.interest() is None
        connection.turn()
        connection.broker, _ = server.accept()
        assert b"MQTT\x04" in connection.broker.recv(1000)
        connection.accept()
        assert connection.session.version == "3.1.1"
        assert connection.session.problem is None


def test_a_broker_that_waits_for_the_rest_of_a_connect_is_connected_to_with_3_1_1(server):
    with closing(Connection(server, 0.1, version="5")) as connection:
        connection.until(lambda: connection.session.version == "3.1.1")
        connection.turn()
        connection.broker.close()
        connection.broker, _ = server.accept()
        connection.accept()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0x86, "wrong user or password"),
        (0x87, "not authorised"),
        (0x85, "client id"),
        (0x88, "not available yet"),
        (0x89, "for now: Server busy: later"),
        (0x8A, "banned this client (Banned: later)"),
        (0x97, "refuses the session: Quota exceeded: later"),
    ],
)
def test_mqtt_5_says_why_the_broker_refuses_the_session(server, code, words):
    with closing(Connection(server, version="5")) as connection:
        connection.until(lambda: connection.session.state is SessionState.AWAITING_CONNACK)
        connection.broker.sendall(packet(0x20, bytes([0, code]) + REASON))
        connection.until(lambda: connection.session.problem is not None)
        assert words in connection.session.problem.text


@pytest.mark.parametrize(
    ("code", "words", "lasting"),
    [
        (0x8B, "Server shutting down: later", False),
        (0x8E, "another client has connected with the client id 'test'", False),
        (0x87, "allow the daemon's topics", True),
        (0x95, "Packet too large: later; raise this limit", True),
        (0x82, "ends the session: Protocol error: later", False),
        (0x8D, "ends the session: Keep alive timeout: later", False),
    ],
)
def test_mqtt_5_says_why_the_broker_ends_the_session(connected_5, code, words, lasting):
    connected_5.broker.sendall(packet(0xE0, bytes([code]) + REASON))
    connected_5.until(lambda: connected_5.session.problem is not None)
    assert words in connected_5.session.problem.text
    assert connected_5.session.problem.lasting is lasting
    assert connected_5.session.closed_by_broker


def test_mqtt_5_says_why_a_subscription_is_refused(connected_5):
    connected_5.session.subscribe(["a", "b"])
    connected_5.broker.sendall(packet(0x90, b"\x00\x01" + REASON + b"\x01\x87"))
    connected_5.until(lambda: connected_5.session.granted is not None)
    assert connected_5.session.granted == [True, False]
    assert connected_5.session.why_not_granted == "Not authorized: later"


def test_mqtt_5_says_why_a_message_is_refused(connected_5):
    sent = connected_5.session.publish("a", b"1")
    connected_5.broker.sendall(packet(0x40, sent.to_bytes(2) + b"\x97" + REASON))
    connected_5.until(lambda: connected_5.session._refused)
    assert connected_5.session.take_refused() == {sent: "Quota exceeded: later"}
    assert connected_5.session.take_acknowledged() == [sent]
    assert not connected_5.session.take_refused()


@pytest.mark.parametrize(("version", "is_sent"), [("3.1.1", False), ("5", True)])
def test_only_mqtt_5_sends_the_time_after_which_a_message_expires(server, version, is_sent):
    with closing(Connection(server, version=version)) as connection:
        connection.accept(CONNACK if version == "3.1.1" else CONNACK_5)
        connection.broker.recv(1000)
        connection.session.publish("a", b"1", expires_in=0.25)
        assert (b"\x05\x02\0\0\0\x02" in connection.broker.recv(1000)) is is_sent


def test_an_abandoned_attempt_closes_its_connection_when_it_is_made():
    made, closed = [], []

    def connect():
        made.append(1)
        while not abandoned:
            time.sleep(0.001)
        return "connection"

    abandoned = []
    attempt = Attempt(connect, closed.append)
    attempt.abandon()
    abandoned.append(1)
    deadline = time.monotonic() + TIMEOUT_S
    while not closed:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert set(closed) == {"connection"}


def test_the_result_of_an_attempt_is_its_connection_or_its_error():
    def result_of(connect):
        attempt = Attempt(connect, lambda _: None)
        with selectors.DefaultSelector() as selector:
            selector.register(*attempt.interest())
            assert selector.select(TIMEOUT_S)
        return attempt.result()

    assert result_of(lambda: 7) == 7
    assert isinstance(result_of(lambda: 1 / 0), ZeroDivisionError)


@pytest.mark.parametrize("keepalive", [SHORT_S, CALM_S])
def test_the_keep_alive_does_not_shorten_the_wait_for_the_connack(server, keepalive):
    with closing(Connection(server, keepalive=keepalive)) as connection:
        session = connection.session
        connection.until(lambda: session.state is SessionState.AWAITING_CONNACK)
        session._client._last_msg_out -= 2 * SHORT_S  # of paho; as if this time had passed
        list(session.service(0, session.deadline - 1.0))
        assert session.state is SessionState.AWAITING_CONNACK
        list(session.service(0, session.deadline))
        assert "then sends nothing" in session.problem.text


@pytest.fixture
def no_garbage_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
@pytest.mark.parametrize("refused_host", [None, "127.0.0.1", "no-such-host.invalid"])
def test_the_memory_of_a_closed_session_does_not_wait_for_a_garbage_collection(
    server, refused_host
):
    if refused_host:
        mqtt = Mqtt(host=refused_host, port=server.getsockname()[1])
        server.close()
        session = Session(mqtt, "test", time.monotonic(), max_packet=10**6, address="127.0.0.1")
        while session.state is not SessionState.CLOSED:
            list(session.service(0, time.monotonic()))
    else:
        connection = Connection(server)
        connection.accept()
        connection.close()
        session = connection.session
        del connection
    freed = Event()
    finalize(session, freed.set)
    del session
    assert freed.wait(TIMEOUT_S)  # the thread that connected may still end
