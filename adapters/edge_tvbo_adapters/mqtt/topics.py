"""Texts with places to fill in: topics, activations, and the name we go by."""

import re
import socket
from hashlib import sha256
from pathlib import Path

import msgspec

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.errors import ConfigError
from edge_tvbo.messages.commands import Activate

PLACE = "{sensor}"
LONGEST = 65_535  # bytes, [MQTT-4.7.3-3]


class Template:
    """A topic in which ``{sensor}``, in one of its levels, stands for the sensor's id.

    >>> template = Template("lab/{sensor}/temperature")
    >>> template.filter, template.sensor("lab/mote-17/temperature"), template.sensor("lab/x")
    ('lab/+/temperature', 'mote-17', None)
    >>> Template("shellyht-{sensor}/status").sensor("shellyht-08b61f/status")
    '08b61f'
    """

    def __init__(self, text: str) -> None:
        if "+" in text or "#" in text:
            raise ConfigError(f"{text!r}: + and # are wildcards; {{sensor}} stands for the sensor.")
        if text.count(PLACE) != 1:
            raise ConfigError(f"{text!r}: {{sensor}} must be in the topic, once.")
        self._levels = text.split("/")
        self._place = next(i for i, level in enumerate(self._levels) if PLACE in level)
        self._before, _, self._after = self._levels[self._place].partition(PLACE)
        self.filter = "/".join("+" if PLACE in level else level for level in self._levels)

    def sensor(self, topic: str) -> str | None:
        """Give the sensor that a message on `topic` is from; None where it is no such topic."""
        levels = topic.split("/")
        if len(levels) != len(self._levels):
            return None
        level, levels[self._place] = levels[self._place], self._levels[self._place]
        if levels != self._levels or len(level) < len(self._before) + len(self._after):
            return None
        if not (level.startswith(self._before) and level.endswith(self._after)):
            return None
        return level[len(self._before) : len(level) - len(self._after)]


def publishable(topic: str) -> bool:
    """Say whether a broker accepts messages on `topic`.

    >>> publishable("lab/mote-17/activate"), publishable("lab/+/activate"), publishable("")
    (True, False, False)
    """
    return (
        0 < len(topic.encode("utf-8", "surrogatepass")) <= LONGEST
        and topic.isprintable()
        and not any(character in topic for character in "+#\0")
    )


def activation_topic(field: FieldSettings, sensor: str) -> str | None:
    """Return the topic that activates `sensor`; None without one, or for an unknown sensor."""
    activate = field.activate
    if activate.mode == "advise" or activate.topic is None or sensor not in field.sensors:
        return None
    return activate.topic.replace(PLACE, field.names.get(sensor, sensor))


def activation_payload(field: FieldSettings, template: str, activate: Activate) -> str:
    """Return the payload that activates a sensor: `template`, its places filled in."""
    name = field.names.get(activate.sensor, activate.sensor)
    return filled(template, msgspec.structs.replace(activate, sensor=name))


def filled(template: str, activate: Activate) -> str:
    """Give an activation's payload, its places filled in; nothing else in it has a meaning.

    >>> filled('{"at": {at}}', Activate("a", 7, at=600.0, expires_at=720.5))
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
    """Give a client id that differs between machines and between instances, and stays."""
    try:
        machine = Path("/etc/machine-id").read_bytes()
    except OSError:
        machine = socket.gethostname().encode()
    return f"edge-tvbo-{instance}-{sha256(machine).hexdigest()[:8]}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
