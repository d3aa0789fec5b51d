"""Bytes of any kind, in pieces of any size, are the packets that a slow reader finds in them.

The input is ``keep, four sizes of pieces, bytes``. Whatever the pieces, the packets are the same;
where there is no MQTT that is said by `ValueError`, after the packets before it; and what is kept
between two pieces is bounded, however large a packet says it is.
"""

from collections.abc import Iterable, Iterator
from itertools import cycle
from random import Random

from edge_tvbo_adapters.mqtt.codec import Message, Packets, PubAck, acknowledgement, publication
from fuzz.fuzzing import main

Found = list[Message | PubAck | bytes]
HEAD = 5  # bytes of a packet before its body, at the most
SIZES = 4
WHOLE = [
    publication(b"a/b", b"21.3", 0, 0, retain=False),
    publication(b"a/b", b"21.3", 1, 258, retain=True),
    publication(b"", b"", 1, 65535, retain=False),
    publication(b"t", b"x" * 200, 1, 7, retain=False),
    acknowledgement(258),
    b"\x20\x02\x00\x00",  # CONNACK
    b"\x90\x03\x00\x01\x01",  # SUBACK
    b"\xd0\x00",  # PINGRESP
]
BROKEN = [
    b"\x30\xff\xff\xff\xff\x01",  # a length of five bytes
    b"\x30\xff\xff\xff\x7f\x00\x01a",  # 256 MB
    b"\xd0\xff\xff\x7f",
    b"\x34\x05\x00\x01a\x00\x01",  # QoS 2
    b"\x32\x05\x00\x01a\x00\x00",  # QoS 1 without a number
    b"\x30\x03\x00\x09a",  # a topic beyond the end
    b"\x30\x01\x00",
    b"\x30\x82\x80\x00\x00\x00",  # a length written longer than need be
    b"\x41\x02\x00\x01",
]


def seeds() -> list[bytes]:
    """Give every kind of packet alone and all in a row, for several bounds and pieces."""
    rows = [*WHOLE, *BROKEN, b"".join(WHOLE), *(b"".join(WHOLE) + each for each in BROKEN)]
    heads = [b"\x00\x01\x01\x01\x01", b"\x10\x03\x05\x07\x02", b"\xff\xff\x01\x40\x09"]
    return [head + row for head in heads for row in rows]


def check(data: bytes) -> None:
    """Read `data` in its pieces and at once, and compare with the slow reader."""
    keep, sizes, stream = 1 + int.from_bytes(data[:1]), data[1 : 1 + SIZES], data[1 + SIZES :]
    expected = plainly(stream, keep)
    assert read(pieces(stream, sizes), keep) == expected
    assert read([stream], keep) == expected


def mutate(data: bytes, random: Random) -> bytes:
    """Put a packet somewhere, whole or not, or have another bound or other pieces."""
    head, stream = data[: 1 + SIZES].ljust(1 + SIZES, b"\x01"), data[1 + SIZES :]
    if random.random() < 0.2:
        return random.randbytes(len(head)) + stream
    packet = random.choice(WHOLE + BROKEN)
    if random.random() < 0.3:
        payload = random.randbytes(random.randrange(400))
        packet = publication(b"t" * random.randrange(9), payload, 1, 9, retain=False)
    if random.random() < 0.2:
        packet = packet[: random.randrange(len(packet))]
    at = random.choice((0, len(stream), random.randrange(len(stream) + 1)))
    return head + stream[:at] + packet + stream[at:]


def read(parts: Iterable[bytes], keep: int) -> tuple[Found, bool]:
    """Give the packets in `parts`, and whether no MQTT follows; look at what is kept meanwhile."""
    packets, found = Packets(keep), Found()
    for piece in parts:
        packets.feed(piece)
        try:
            while (packet := packets.take()) is not None:
                found.append(packet)
        except ValueError:
            return found, True
        assert not packets.waiting
        held = sum(
            len(each) for each in vars(packets).values() if isinstance(each, bytes | bytearray)
        )
        assert held <= keep + HEAD + len(piece)
    return found, False


def pieces(data: bytes, sizes: bytes) -> Iterator[bytes]:
    """Cut `data` in pieces of these sizes, over and over."""
    at = 0
    for size in cycle(sizes or b"\x01"):
        if at >= len(data):
            return
        yield data[at : at + max(1, size)]
        at += max(1, size)


# --- the slow reader ------------------------------------------------------------------------------


def plainly(data: bytes, keep: int) -> tuple[Found, bool]:
    """Give the packets in all of `data`, and whether no MQTT follows: sections 2.2 and 2.2.3."""
    found = Found()
    while data:
        first, length = data[0], data[1:HEAD]
        digits = next((i + 1 for i, digit in enumerate(length) if digit < 128), None)
        if digits is None:
            return found, len(length) == HEAD - 1
        size = sum((digit & 127) * 128**i for i, digit in enumerate(length[:digits]))
        begin = 1 + digits
        body, is_message = data[begin : begin + min(size, keep)], first >> 4 == 3
        if size > keep and not is_message:
            return found, True
        if len(body) < min(size, keep):
            return found, False
        packet = _message(first & 15, body) if is_message else data[: begin + size]
        if packet is None:
            return found, True
        is_taken = first == 0x40 and size == 2
        found.append(PubAck(int.from_bytes(body)) if is_taken else packet)
        data = data[begin + size :]
    return found, False


def _message(flags: int, body: bytes) -> Message | None:
    """Give a PUBLISH, section 3.3; None where it is none, or of a QoS that nobody asked for."""
    qos = flags >> 1 & 3
    length, rest = int.from_bytes(body[:2]), body[2:]
    topic, rest = rest[:length], rest[length:]
    number = rest[:2] if qos else b""
    mid = int.from_bytes(number)
    if len(body) < 2 or len(topic) < length or qos > 1 or (qos and (len(number) < 2 or not mid)):
        return None
    return Message(topic, rest[len(number) :], mid, bool(flags & 1))


if __name__ == "__main__":
    main("fuzz_packets")
