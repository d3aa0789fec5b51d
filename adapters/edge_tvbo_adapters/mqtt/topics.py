"""Topics of messages, and texts with placeholders such as `{sensor}`; the default client id."""

import re
import socket
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.errors import ConfigError
from edge_tvbo.messages.commands import Activate
from edge_tvbo.messages.sensor_ids import is_displayable

if TYPE_CHECKING:
    from paho.mqtt.client import MQTTMessage

SENSOR_PLACE = "{sensor}"
MAX_TOPIC_LENGTH = 65_535  # bytes; rule MQTT-4.7.3-3 of the MQTT standard


class Template:
    """Topic template: one level contains ``{sensor}``, which stands for the name of a sensor.

    >>> template = Template("lab/{sensor}/temperature")
    >>> template.filter, template.sensor("lab/mote-17/temperature"), template.sensor("lab/x")
    ('lab/+/temperature', 'mote-17', None)
    >>> Template("shellyht-{sensor}/status").sensor("shellyht-08b61f/status")
    '08b61f'
    """

    def __init__(self, text: str) -> None:
        if "+" in text or "#" in text:
            raise ConfigError(
                f"{text!r}: the wildcards + and # are not allowed; {{sensor}} stands for the "
                "sensor."
            )
        if text.count(SENSOR_PLACE) != 1:
            raise ConfigError(f"{text!r}: {{sensor}} must be in the topic exactly once.")
        levels = text.split("/")
        self.filter = "/".join("+" if SENSOR_PLACE in level else level for level in levels)
        self._before, _, self._after = text.partition(SENSOR_PLACE)

    def sensor(self, topic: str) -> str | None:
        """Return the sensor's name in `topic`; None if the topic does not match the template."""
        if not (topic.startswith(self._before) and topic.endswith(self._after)):
            return None
        begin, end = len(self._before), len(topic) - len(self._after)
        return None if begin > end or "/" in topic[begin:end] else topic[begin:end]


def publishable(topic: str) -> bool:
    """Return whether `topic` has a valid length and valid characters for a message.

    >>> publishable("lab/mote-17/activate"), publishable("lab/+/activate"), publishable("")
    (True, False, False)
    """
    return (
        0 < len(topic.encode("utf-8", "surrogatepass")) <= MAX_TOPIC_LENGTH
        and is_displayable(topic)
        and not any(character in topic for character in "+#\0")
    )


def activation_payload(field: FieldSettings, template: str, activate: Activate) -> str:
    """Return the payload for a sensor's activation topic: `template` with placeholders replaced."""
    name = field.names.get(activate.sensor, activate.sensor)
    return fill_in(template, msgspec.structs.replace(activate, sensor=name))


def fill_in(template: str, activate: Activate) -> str:
    """Return `template` with the values of an activation in place of its placeholders.

    Braces that do not belong to a placeholder stay unchanged.

    >>> fill_in('{"at": {at}}', Activate("a", 7, at=600.0, expires_at=720.5))
    '{"at": 600}'
    """
    values = {
        "{sensor}": activate.sensor,
        "{interval}": str(activate.interval),
        "{at}": _number(activate.at),
        "{expires_at}": _number(activate.expires_at),
    }
    return re.sub("|".join(values), lambda place: values[place[0]], template)


def default_client_id(instance: str) -> str:
    """Return the daemon's MQTT client id, made from its instance and the machine's id."""
    try:
        machine = Path("/etc/machine-id").read_bytes()
    except OSError:
        machine = socket.gethostname().encode()
    return f"edge-tvbo-{instance}-{sha256(machine).hexdigest()[:8]}"


def topic_of(message: "MQTTMessage") -> tuple[str, bool]:
    """Return the topic of an MQTT message, and whether the topic is valid UTF-8.

    An invalid byte becomes U+FFFD.
    """
    try:
        return message.topic, True
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace"), False


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
