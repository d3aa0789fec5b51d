"""MQTT 3.1.1 as bytes: the packets that come and go with every reading. No socket, no session.

A PUBLISH, and the PUBACK of one, are read here, whole, out of bytes in whatever pieces they come;
paho reads a packet in three calls of the system and spends twice as long on it. Every other packet
is rare, and is given as it is, for paho. Sections and numbers are those of the standard:
http://docs.oasis-open.org/mqtt/mqtt/v3.1.1/os/mqtt-v3.1.1-os.html
"""

from typing import NamedTuple

import msgspec

PUBLISH, PUBACK = 0x30, 0x40
RETAIN = 0x01
KIND, QOS = 0xF0, 0x06  # bits of a packet's first byte
MORE = 0x80  # the length goes on in the next byte
LENGTHS = 4  # bytes of a length, at the most


class Message(msgspec.Struct, frozen=True, gc=False):
    """A PUBLISH that came."""

    name: bytes  # its topic, which may be no UTF-8
    payload: bytes
    mid: int = 0  # by which it is acknowledged; 0 at QoS 0
    retain: bool = False

    @property
    def topic(self) -> str:
        """Its topic as text; raises `UnicodeDecodeError`."""
        return self.name.decode()


class PubAck(NamedTuple):
    """The PUBACK of a message that we sent."""

    mid: int


class Packets:
    """Cuts what comes into packets; `feed` it when `take` has nothing more.

    Parameters
    ----------
    keep : int
        Bytes of a packet that are kept: in MQTT 3.1.1 nobody can tell a broker what is too large.
        What a PUBLISH has beyond them is forgotten as it comes.

    >>> packets = Packets(100)
    >>> packets.feed(publication(b"a/b", b"21.3", 0, 0, retain=False)[:5])
    >>> packets.take()
    >>> packets.feed(b"/b21.3")
    >>> packets.take().payload
    b'21.3'
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._data = b""  # what is cut up next
        self._at = 0  # how far that is
        self._begun = bytearray()  # a packet that is not whole
        self._wanted = 0  # bytes of it that would be worth a look
        self._skip = 0  # bytes of a large packet that are still to come, and to be forgotten

    @property
    def waiting(self) -> bool:
        """Whether there is something to `take`, or to find that it is not whole."""
        return self._at < len(self._data)

    def feed(self, data: bytes) -> None:
        """Take in what came."""
        if self._skip:
            skipped = min(self._skip, len(data))
            data, self._skip = data[skipped:], self._skip - skipped
        self._begun += data
        if len(self._begun) >= self._wanted:
            self._data, self._at, self._wanted = bytes(self._begun), 0, 0
            self._begun.clear()

    def take(self) -> Message | PubAck | bytes | None:
        """Give the next packet: read, or as it is; None where no whole one has come.

        Raises `ValueError` for what is no MQTT.
        """
        data, at = self._data, self._at
        if at == len(data):
            return None
        try:
            first, size, begin = data[at], data[at + 1], at + 2
            if size & MORE:
                size, begin = _length(data, begin - 1)
        except IndexError:
            self._await(len(data) - at + 1)
            return None
        end = begin + size
        if end > len(data) or size > self._keep:
            return self._partly(first, begin, end)
        self._at = end
        if first & KIND == PUBLISH:
            return _message(data, first, begin, end)
        if first == PUBACK and size == 2:
            return PubAck(data[begin] << 8 | data[begin + 1])
        return data[at:end]

    def _partly(self, first: int, begin: int, end: int) -> Message | None:
        """Go on with a packet that has not come to its end, or is too large to wait for that."""
        data, kept = self._data, begin + self._keep
        if end <= kept:
            self._await(end - self._at)
            return None
        if first & KIND != PUBLISH:
            raise ValueError(f"a packet of {end - begin} bytes, of type {first >> 4}")
        if len(data) < kept:
            self._await(kept - self._at)
            return None
        self._skip, self._at = max(0, end - len(data)), min(end, len(data))
        return _message(data, first, begin, kept)

    def _await(self, wanted: int) -> None:
        """Set the packet aside until so many of its bytes have come."""
        self._begun[:] = self._data[self._at :]
        self._wanted = wanted
        self._data, self._at = b"", 0


def publication(topic: bytes, payload: bytes, qos: int, mid: int, *, retain: bool) -> bytes:
    """Give a PUBLISH, section 3.3; `mid` counts at QoS 1.

    >>> publication(b"a", b"1", 1, 258, retain=True).hex(" ")
    '33 06 00 01 61 01 02 31'
    """
    identifier = mid.to_bytes(2, "big") if qos else b""
    size = 2 + len(topic) + len(identifier) + len(payload)
    first = PUBLISH | qos << 1 | retain
    head = bytes((first, size)) if size < MORE else bytes((first, *_lengths(size)))
    return b"".join((head, len(topic).to_bytes(2, "big"), topic, identifier, payload))


def acknowledgement(mid: int) -> bytes:
    """Give a PUBACK, section 3.4.

    >>> acknowledgement(258).hex(" ")
    '40 02 01 02'
    """
    return bytes((PUBACK, 2, mid >> 8, mid & 0xFF))


def _message(data: bytes, first: int, begin: int, end: int) -> Message:
    """Read a PUBLISH from its topic to its end; raises `ValueError`."""
    name = begin + 2
    rest = name + (data[begin] << 8 | data[begin + 1]) if end >= name else end + 1
    mid = 0
    if first & QOS:
        rest += 2
        mid = data[rest - 2] << 8 | data[rest - 1] if rest <= end else 0
    if rest > end or first & QOS > 2 or (first & QOS and mid == 0):
        raise ValueError(f"a PUBLISH that is none: {data[begin - 2 : begin + 20].hex(' ')}")
    topic = data[name : rest - 2] if first & QOS else data[name:rest]
    return Message(topic, data[rest:end], mid, bool(first & RETAIN))


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Read a packet's length, section 2.2.3, and give it and where the packet goes on."""
    size = 0
    for index in range(LENGTHS):
        byte = data[at + index]
        size |= (byte & 0x7F) << 7 * index
        if not byte & MORE:
            return size, at + index + 1
    raise ValueError("a length of more than four bytes")


def _lengths(size: int) -> list[int]:
    """Give the bytes of a packet's length."""
    lengths = []
    while size >= MORE:
        lengths.append(size & 0x7F | MORE)
        size >>= 7
    return [*lengths, size]
