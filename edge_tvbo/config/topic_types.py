"""Types of MQTT topics, of the sensor names in topics, and of the payloads of commands.

The parsers follow the same rules as those in `field_types`.
"""

import re
import unicodedata

from edge_tvbo.config.field_types import InvalidItems
from edge_tvbo.messages.sensor_ids import MAX_NAME_LENGTH, is_displayable, is_usable_name

OWN_TOPICS = "edge_tvbo"  # first level of every topic that the daemon publishes
PAYLOAD_WORDS = ("sensor", "interval", "at", "expires_at")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LONG_NAME = "x" * MAX_NAME_LENGTH


def _topic(value: object) -> str:
    """Check that the MQTT topic in a setting obeys the rules of all topics; return the topic."""
    if not isinstance(value, str):
        raise ValueError
    if any(c in value for c in "+#"):
        raise ValueError("the wildcards + and # are not allowed")
    if any(unicodedata.category(c) == "Cc" for c in value):
        raise ValueError("the topic contains a control character")
    if value.startswith("$"):
        raise ValueError("topics that begin with $ are reserved for the broker")
    if value.split("/")[0] == OWN_TOPICS:
        raise ValueError(f"topics under {OWN_TOPICS}/ are reserved for the daemon")
    for word in _PLACEHOLDER.findall(value):
        if word != "sensor":
            raise ValueError(
                "{" + word + "} is not a placeholder; the only placeholder is {sensor}"
            )
    if any(c in value.replace("{sensor}", "") for c in "{}"):
        raise ValueError("braces are allowed only in {sensor}")
    if len(value.replace("{sensor}", _LONG_NAME).encode()) >= 65535:
        raise ValueError("the topic is too long: MQTT allows 65535 bytes")
    return value


def reading_topic(value: object) -> str:
    """Check the setting that names the MQTT topic of readings, and return it unchanged."""
    topic = _topic(value)
    if topic.count("{sensor}") != 1:
        raise ValueError("the topic must contain {sensor} exactly once")
    return topic


READING_TOPIC = {
    "parse": reading_topic,
    "expected": "a topic with {sensor} in one of its levels",
}


def activate_topic(value: object) -> str:
    """Check the setting that names the MQTT topic of commands, and return it unchanged."""
    topic = _topic(value)
    if "{sensor}" not in topic:
        raise ValueError("without {sensor}, each command would activate all sensors")
    if not is_displayable(topic):
        raise ValueError("the topic contains a character that cannot be printed")
    return topic


ACTIVATE_TOPIC = {"parse": activate_topic, "expected": "a topic with {sensor} in it"}


def topic_names(value: object) -> dict[str, str]:
    """Check the setting that maps sensor ids to names in MQTT topics, and return it unchanged."""
    if not isinstance(value, dict):
        raise ValueError
    wrong = {
        key: name
        for key, name in value.items()
        if not isinstance(name, str) or not is_usable_name(name)
    }
    if wrong:
        raise InvalidItems(wrong, f"1 to {MAX_NAME_LENGTH} characters without / + # {{ }}")
    return value


def activate_payload(value: object) -> str:
    """Check the placeholders in the setting for a command's payload, and return it unchanged."""
    if not isinstance(value, str):
        raise ValueError
    for word in _PLACEHOLDER.findall(value):
        if word not in PAYLOAD_WORDS:
            raise ValueError("{" + word + "} is not a placeholder")
    return value


ACTIVATE_PAYLOAD = {
    "parse": activate_payload,
    "expected": "a text; {sensor}, {interval}, {at} and {expires_at} are replaced with their"
    " values",
}
