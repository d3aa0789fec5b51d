"""Versions of MQTT: the properties of packets in MQTT 5, and reason codes as texts."""

from math import ceil, inf, isfinite

from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

PROTOCOLS = {"3.1.1": MQTTProtocolVersion.MQTTv311, "5": MQTTProtocolVersion.MQTTv5}
OLD, NEW = PROTOCOLS
MAX_REASON = 200  # longest text of a broker about a reason, in characters


def connect_properties(version: str, max_packet: int) -> Properties | None:
    """Return the MQTT 5 properties of a CONNECT; None in MQTT 3.1.1.

    With these properties, the broker sends no packet of more than `max_packet` bytes, and ends the
    session together with the connection.
    """
    if version == OLD:
        return None
    properties = _empty(PacketTypes.CONNECT)
    properties.MaximumPacketSize = max_packet
    properties.SessionExpiryInterval = 0
    return properties


def publish_properties(version: str, expires_in: float) -> Properties | None:
    """Return the MQTT 5 properties of a message that expires after `expires_in` seconds.

    A broker deletes an expired message, even while the message waits for a sensor with a persistent
    session. Brokers such as mosquitto count only full seconds of their clock, and could delete a
    message too early. Therefore the expiry in the properties is up to two seconds longer. Returns
    None in MQTT 3.1.1, and for a message that does not expire.
    """
    if version == OLD or not isfinite(expires_in):
        return None
    properties = _empty(PacketTypes.PUBLISH)
    properties.MessageExpiryInterval = 1 + max(0, ceil(expires_in))
    return properties


def largest_packet(properties: Properties | None) -> float:
    """Return the packet size limit in a CONNACK of MQTT 5, in bytes; inf if there is no limit."""
    return float(getattr(properties, "MaximumPacketSize", inf))


def most_in_flight(properties: Properties | None) -> int:
    """Return how many unacknowledged messages a CONNACK allows at the same time.

    MQTT 3.1.1 has no limit. The limit of MQTT 5 is 65535 if the broker states no other limit.
    """
    return int(getattr(properties, "ReceiveMaximum", 65_535))


def reason_text(reason: ReasonCode, properties: Properties | None) -> str:
    """Return a reason code of either MQTT version as text.

    The text contains the broker's own words, if the broker sent any. Characters that could control
    a terminal are left out.
    """
    words = "".join(filter(str.isprintable, getattr(properties, "ReasonString", "")))[:MAX_REASON]
    return f"{reason}: {words}" if words else str(reason)


def _empty(packet_type: int) -> Properties:
    return Properties(packet_type)  # type: ignore[no-untyped-call]  # of paho
