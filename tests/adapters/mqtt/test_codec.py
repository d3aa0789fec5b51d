"""Packets, cut out of bytes: the same however the bytes come, and the same as paho's."""

import socket

import pytest
from edge_tvbo_adapters.mqtt.codec import Message, Packets, PubAck, acknowledgement, publication
from fuzz import fuzz_packets
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

KEEP = 300
topics = st.text(st.characters(codec="utf-8", exclude_characters="+#\0"), min_size=1, max_size=20)
messages = st.tuples(
    topics, st.binary(max_size=200), st.sampled_from([0, 1]), st.integers(1, 65535), st.booleans()
)
pings = st.just(b"\xd0\0")
sequences = st.lists(messages | st.integers(1, 65535) | pings, max_size=12)


def written(each):
    """Give a message, the number of an acknowledgement or a packet of another kind as bytes."""
    match each:
        case (topic, payload, qos, mid, retain):
            return publication(topic.encode(), payload, qos, mid, retain=retain)
        case int():
            return acknowledgement(each)
        case _:
            return each


def read(each):
    """Give what is to be read of it."""
    match each:
        case (topic, payload, qos, mid, retain):
            return Message(topic.encode(), payload, mid if qos else 0, retain)
        case int():
            return PubAck(each)
        case _:
            return each


def cut(packets, *pieces):
    """Give all that the pieces hold."""
    found = []
    for piece in pieces:
        packets.feed(piece)
        while (packet := packets.take()) is not None:
            found.append(packet)
        assert not packets.waiting
    return found


def pieces_of(data, sizes):
    """Cut `data` in pieces of these sizes, over and over."""
    at, pieces = 0, []
    while at < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[at : at + size])
        at += size
    return pieces


@given(sequences, st.lists(st.integers(1, 90), min_size=1, max_size=5))
def test_whatever_the_pieces_what_was_written_is_read(sequence, sizes):
    data = b"".join(map(written, sequence))
    assert cut(Packets(KEEP), *pieces_of(data, sizes)) == [read(each) for each in sequence]


@given(st.integers(0, 3000), st.integers(1, 500))
def test_of_a_large_message_the_beginning_is_kept_and_what_follows_is_read(size, piece):
    large = publication(b"t", b"x" * size, 1, 7, retain=False)
    data = large + acknowledgement(9)
    first, second = cut(Packets(KEEP), *pieces_of(data, [piece]))
    assert first == Message(b"t", b"x" * min(size, KEEP - 5), 7)
    assert second == PubAck(9)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("30 ff ff ff ff 01", "length"),
        ("d0 ff ff 7f", "type 13"),
        ("34 05 00 01 61 00 01", "PUBLISH"),  # QoS 2, which we never ask for
        ("32 05 00 01 61 00 00", "PUBLISH"),  # QoS 1 without a number
        ("30 03 00 09 61", "PUBLISH"),  # a topic beyond the end
        ("30 01 00", "PUBLISH"),
    ],
)
def test_what_the_standard_forbids_is_named(data, why):
    packets = Packets(KEEP)
    packets.feed(bytes.fromhex(data))
    with pytest.raises(ValueError, match=why):
        packets.take()


@given(messages)
def test_a_message_is_written_as_paho_writes_it(message):
    topic, payload, qos, mid, retain = message
    ours, theirs = socket.socketpair()
    with ours, theirs:
        client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv311)
        client._sock = theirs
        client._last_mid = mid - 1
        client.publish(topic, payload, qos, retain)
        assert ours.recv(1000) == written(message)
        client._sock = None


@given(st.lists(messages, min_size=1, max_size=6), st.lists(st.integers(1, 90), min_size=1))
def test_messages_are_read_as_paho_reads_them(sequence, sizes):
    ours, theirs = socket.socketpair()
    data, heard = b"".join(map(written, sequence)), []
    with ours, theirs:
        theirs.setblocking(False)
        client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv311)
        client._sock = theirs
        client.on_message = lambda client, userdata, each: heard.append(
            Message(each.topic.encode(), each.payload, each.mid, each.retain)
        )
        ours.sendall(data)
        while len(heard) < len(sequence):
            client.loop_read()
        client._sock = None
    assert cut(Packets(KEEP), *pieces_of(data, sizes)) == heard


@given(st.integers(1, 65535))
def test_an_acknowledgement_is_read_as_paho_reads_it(mid):
    ours, theirs = socket.socketpair()
    taken = []
    with ours, theirs:
        theirs.setblocking(False)
        client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv311)
        client._sock = theirs
        client._last_mid = mid - 1
        client.on_publish = lambda client, userdata, each, reason, properties: taken.append(each)
        client.publish("t", b"", 1)
        ours.sendall(acknowledgement(mid))
        client.loop_read()
        client._sock = None
    assert [each.mid for each in cut(Packets(KEEP), acknowledgement(mid))] == taken == [mid]


# --- bytes of any kind ----------------------------------------------------------------------------

strange = st.binary(max_size=40) | st.sampled_from(fuzz_packets.BROKEN)
streams = st.lists(st.builds(written, messages) | st.sampled_from(fuzz_packets.WHOLE) | strange)


@given(st.integers(1, 256), streams.map(b"".join), st.lists(st.integers(1, 255), min_size=1))
def test_whatever_the_bytes_and_their_pieces_a_slow_reader_finds_the_same(keep, data, sizes):
    expected = fuzz_packets.plainly(data, keep)
    assert fuzz_packets.read(pieces_of(data, sizes), keep) == expected
    assert fuzz_packets.read([data], keep) == expected


@given(st.integers(0, 100_000), st.integers(1, 500), st.sampled_from([0, 1]))
def test_of_a_message_of_any_size_no_more_is_held_than_is_kept(size, piece, qos):
    data = publication(b"t", b"x" * size, qos, 7, retain=False)
    ((message,), is_broken) = fuzz_packets.read(pieces_of(data, [piece]), KEEP)  # and it looks
    assert len(message.payload) == min(size, KEEP - 3 - 2 * qos)
    assert not is_broken
