"""MQTT packets as bytes, for tests that play the broker; section numbers are MQTT 3.1.1's."""

from paho.mqtt.client import MQTTMessage

CONNACK = b"\x20\x02\x00\x00"
PINGREQ, PINGRESP = b"\xc0\x00", b"\xd0\x00"


def packet(first, body):
    """Return a packet, section 2.2.3."""
    size, length = len(body), bytearray()
    while size >= 128:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([first, *length, size]) + body


def publish(topic, payload, *, qos=0, packet_id=0, retain=False):
    """Return a PUBLISH, section 3.3; `topic` may be bytes that are not UTF-8.

    >>> publish("a", b"1", qos=1, packet_id=258, retain=True).hex(" ")
    '33 06 00 01 61 01 02 31'
    """
    name = topic if isinstance(topic, bytes) else topic.encode()
    identifier = packet_id.to_bytes(2, "big") if qos else b""
    body = len(name).to_bytes(2, "big") + name + identifier + payload
    return packet(0x30 | qos << 1 | retain, body)


def message(topic, payload=b"", *, retain=False):
    """Return a message as paho passes it to `on_message`."""
    name = topic if isinstance(topic, bytes) else topic.encode()
    made = MQTTMessage(topic=name)
    made.payload, made.retain = payload, retain
    return made
