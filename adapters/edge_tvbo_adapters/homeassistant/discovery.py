"""Home Assistant discovery: the message that makes the daemon appear as one device.

One retained message describes all entities:

    <prefix>/device/edge_tvbo_<instance>/config

The message contains no states. It is published after each start of Home Assistant, and whenever the
copy that the broker retains differs from the daemon's message. The daemon publishes the states of
the fields only after Home Assistant has processed the message (`Discovery.settled`). Without this
delay, Home Assistant could reject a state that its old entities do not allow, and a changed entity
could lose its state.

Home Assistant removes an entity if the message contains only the key and the platform of the
entity. In this way, the daemon removes the entities of a removed field. The daemon does not have to
store these entities, because the copy that the broker retains still contains them. After the
removal, the daemon clears the retained states of the removed field.

If the removals do not fit in one message, they are divided among several messages. The first
message already replaces the broker's copy, which then no longer contains the entities that the
later messages remove. Therefore the daemon remembers a removal until the broker has acknowledged
the message with the removal, and Home Assistant has had time to process this message. If the
connection is lost earlier, or the configuration is reloaded, the next session repeats the removal.

In two cases, Home Assistant keeps obsolete entities:

- The daemon restarts, or reloads a configuration without ``[homeassistant]``, before it has
  published all messages. Then the daemon forgets the removals in the remaining messages.
- Home Assistant is disconnected while the messages are published. When it connects, it receives
  only the last message, and not the removals in the earlier messages.

The message follows the rules of Home Assistant 2026.11 and 2025.10, which are in
`components/mqtt/schemas.py` and in one module for each platform. `tests/support/ha_schema.py`
checks the message against these rules, and `make test-homeassistant` runs both versions.
"""

import logging
import re
from collections.abc import Mapping
from itertools import islice
from math import inf
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace
from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.settings import HomeAssistant
from edge_tvbo_adapters.homeassistant.described_field import DiscoveryField
from edge_tvbo_adapters.homeassistant.entities import Entities, availability
from edge_tvbo_adapters.mqtt.topics import topic_of

log = logging.getLogger(__name__)

COPY_TIMEOUT_S = 2.0  # longest wait for the broker's copy, after the subscription
BIRTH_DELAY_S = (1.0, 10.0)  # random delay after Home Assistant's start, to spread the load
SETTLE_S = 1.0  # time after a message in which Home Assistant creates the entities
# Brokers limit the size of packets; the shipped mosquitto.conf sets 65536 bytes. If the
# entities would take more than `MAX_COMPONENTS` bytes, names and options of a field's sensors, and
# entities of single sensors, are left out. Removals that would make a message larger than
# `MAX_MESSAGE` bytes follow in further messages.
MAX_COMPONENTS, MAX_MESSAGE = 63_600, 65_000
MAX_REMOVALS = 5000  # largest number of remembered removals, and of remembered removed fields

PLATFORMS = ("sensor", "binary_sensor", "event", "switch", "button", "select", "number", "text")
_KEY = re.compile(r"[a-zA-Z0-9_-]{1,200}")
Removals = Mapping[str, dict[str, str]]  # key of the entity: {"platform": ...}
_OF_FIELD = re.compile(r"([a-z0-9_-]{1,64})_selected")  # the entity that every field has


# --- the message ----------------------------------------------------------------------------------


def topic_for(prefix: str, instance: str) -> str:
    """Return the topic of a daemon's discovery message.

    >>> topic_for("homeassistant", "pi1")
    'homeassistant/device/edge_tvbo_pi1/config'
    """
    return f"{prefix}/device/edge_tvbo_{instance}/config"


def payload(
    instance: str,
    settings: HomeAssistant,
    fields: Mapping[str, DiscoveryField],
    version: str,
    *,
    commands: bool = True,
) -> dict[str, Any]:
    """Return the discovery message of a daemon, ready to be encoded as JSON.

    Parameters
    ----------
    instance : str
        The daemon's name.
    settings : HomeAssistant
        The links that the device shows.
    fields : mapping of str to DiscoveryField
        The fields; each key is the name of a field.
    version : str
        The daemon's version.
    commands : bool
        Whether the daemon executes commands.
    """
    entities = Entities(instance, commands=commands)
    components = _of_fields(entities, fields)
    size = len(msgspec.json.encode(components))
    for name, field in fields.items():
        for group in entities.of_sensors(name, field):
            with_group = size + len(msgspec.json.encode(group))
            if with_group <= MAX_COMPONENTS:
                components, size = components | group, with_group
    device = {
        "identifiers": [f"edge_tvbo_{instance}"],
        "name": f"Edge TVBO {instance}",
        "manufacturer": "edge_tvbo",
        "model": "Sensor scheduler",
        "sw_version": version,
        "configuration_url": settings.dashboard_url,
    }
    origin = {"name": "edge_tvbo", "sw_version": version, "support_url": settings.support_url}
    return {
        "device": {key: each for key, each in device.items() if each},
        "origin": {key: each for key, each in origin.items() if each},
        "availability": availability(entities.base),
        "qos": 1,
        "components": components,
    }


def _of_fields(entities: Entities, fields: Mapping[str, DiscoveryField]) -> dict[str, Any]:
    """Return the entities of the daemon and its fields for the discovery message.

    The templates in a field's entities contain the names of the field's sensors, and the entity
    *poll sensor* has an option for each sensor. These names and options are added for one field
    after the other. If they would make the message too large, the options of the field are left
    out, and if necessary also the names.
    """
    of_daemon = dict(entities.of_daemon())
    chosen = {
        name: dict(entities.of_field(name, replace(field, names={}), has_options=False))
        for name, field in fields.items()
    }
    size = len(msgspec.json.encode([of_daemon, *chosen.values()]))
    for name, field in fields.items():
        for has_options in (True, False):
            group = dict(entities.of_field(name, field, has_options=has_options))
            added = len(msgspec.json.encode(group)) - len(msgspec.json.encode(chosen[name]))
            if size + added <= MAX_COMPONENTS:
                chosen[name], size = group, size + added
                break
    return {key: each for group in (of_daemon, *chosen.values()) for key, each in group.items()}


# --- when it is published -------------------------------------------------------------------------


class Discovery:
    """Scheduler of the discovery message; adds removals of obsolete entities to the message.

    Parameters
    ----------
    instance : str
        The daemon's name.
    settings : HomeAssistant
        The discovery prefix and the birth topic.
    message : mapping
        The discovery message, which `payload` returns.
    rng : Random
        Draws the delay after a start of Home Assistant.
    removals : Removals, optional
        The unacknowledged removals of the `Discovery` that was used before a reload.

    Attributes
    ----------
    topic : str
        Topic of the discovery message.
    filters : list of str
        Topics to subscribe to.
    max_size : int
        Size of the largest retained copy that is read from the broker, in bytes.
    removed : set of str
        Fields whose entities were removed, or are being removed.
    removals : Removals
        Removals that the broker has not acknowledged yet, or that Home Assistant has not had time
        to process.
    """

    def __init__(
        self,
        instance: str,
        settings: HomeAssistant,
        message: Mapping[str, Any],
        rng: Random,
        removals: Removals | None = None,
    ) -> None:
        self.topic = topic_for(settings.prefix, instance)
        self.filters = [self.topic, settings.birth]
        self._birth = settings.birth
        self._message = message
        self._rng = rng
        self._payload = msgspec.json.encode(self._message)
        if len(self._payload) > MAX_MESSAGE:
            log.warning(
                "homeassistant: the discovery message describes %d entities in %d bytes; if the "
                "broker ends every connection, raise its limit for the size of packets (mosquitto: "
                "max_packet_size)",
                len(self._message["components"]),
                len(self._payload),
            )
        self._copy = b""  # the message that the broker retains
        self._compare_at = inf  # monotonic
        self._repeat_at = inf  # monotonic
        self._following: list[bytes] = []  # messages with further removals, the last one first
        self._settled_at = inf  # monotonic time from which states can be published
        self.removed: set[str] = set()
        self.removals: Removals = {
            key: each for key, each in (removals or {}).items() if key not in message["components"]
        }
        self.max_size = 4 * len(self._payload)

    def begin(self, now: float) -> None:
        """Begin an MQTT session: expect the broker's retained copy of the discovery message."""
        self._copy, self._following = b"", []
        self._compare_at, self._repeat_at, self._settled_at = now + COPY_TIMEOUT_S, inf, inf

    def put(self, message: MQTTMessage, now: float) -> bool:
        """Process a message on the topic of the discovery message, or on the birth topic.

        Returns False for a message on any other topic.
        """
        topic, _ = topic_of(message)
        if topic == self.topic:
            copy = bytes(message.payload)
            is_known = self._compare_at == inf and copy == self._payload  # the daemon published it
            if message.retain and not is_known:
                self._copy, self._compare_at = copy, now
            return True
        if topic != self._birth:
            return False
        if message.payload == b"online" and not message.retain:  # retained: an earlier start
            self._repeat_at = min(self._repeat_at, now + self._rng.uniform(*BIRTH_DELAY_S))
        return True

    def due(self, now: float, *, acknowledged: bool = True) -> bytes | None:
        """Return the discovery message if it has to be published now, otherwise None.

        `acknowledged` says whether the broker has acknowledged the previous message. A message with
        further removals waits for this acknowledgement.
        """
        is_due = now >= self._repeat_at
        if is_due:
            self._repeat_at = inf
        if now >= self._compare_at:
            self._compare_at, self._settled_at = inf, now
            described, repeated = obsolete_entities(self._message, self._copy)
            removals = {**self.removals, **described}
            self.removals = dict(islice(removals.items(), MAX_REMOVALS))
            messages = with_removals(self._message, removals, repeated)
            removed = self.removed.union(*map(removed_fields, messages))
            self.removed = set(islice(removed, MAX_REMOVALS))
            self._following = [msgspec.json.encode(each) for each in reversed(messages)]
            is_due = is_due or len(messages) > 1 or self._following[0] != self._copy
            self._payload = self._following.pop()
        elif is_due and self._following:
            if not acknowledged:
                self._repeat_at = now + SETTLE_S
                return None
            _, done = obsolete_entities(self._message, self._payload)
            self.removals = {key: self.removals[key] for key in self.removals if key not in done}
            self._payload = self._following.pop()
        if not is_due:
            return None
        self._settled_at = now + SETTLE_S
        if self._following:
            self._repeat_at = self._settled_at
        return self._payload

    def settled(self, now: float, *, acknowledged: bool = True) -> bool:
        """Return whether Home Assistant has become ready for states since the last call.

        Home Assistant is ready when it has had time to create the entities. After each repeat of
        the discovery message, Home Assistant has to become ready again. `acknowledged` says whether
        the broker has acknowledged the last discovery message.
        """
        if now < self._settled_at:
            return False
        if not acknowledged:
            self._settled_at = now + SETTLE_S
            return False
        self._settled_at, self.removals = inf, {}
        return True

    def wake_at(self) -> float:
        """Return the monotonic time of the next necessary call of `due` or `settled`."""
        return min(self._compare_at, self._repeat_at, self._settled_at)


def obsolete_entities(message: Mapping[str, Any], copy: bytes) -> tuple[Removals, Removals]:
    """Return two dicts of removals, for the entities that the discovery message does not contain.

    `copy` is the discovery message that the broker retains. The first dict removes the entities
    that `copy` describes. The second dict repeats the removals in `copy`. Because any client could
    have written the copy, only its keys and platforms are used.
    """
    try:
        earlier = msgspec.json.decode(copy, type=_Copy).components if copy else {}
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        earlier = {}
    described: dict[str, dict[str, str]] = {}
    removed: dict[str, dict[str, str]] = {}
    for key, component in earlier.items():
        if key in message["components"] or not _KEY.fullmatch(key):
            continue
        if (platform := component.get("platform")) in PLATFORMS:
            group = removed if len(component) == 1 else described
            group[key] = {"platform": platform}
    return described, removed


def with_removals(
    message: Mapping[str, Any], removals: Removals, repeated: Removals
) -> list[dict[str, Any]]:
    """Return the discovery messages that describe and remove entities, in order of publication.

    Each returned message contains `message`, and as many of the `removals` as fit. The last message
    also contains as many of the `repeated` removals as fit. The broker will retain only the last
    message.
    """
    room = MAX_MESSAGE - len(msgspec.json.encode(message))
    groups: list[dict[str, Any]] = [{}]
    left, omitted = room, 0
    for key, removal in {**removals, **repeated}.items():
        size = len(msgspec.json.encode({key: removal}))
        if size > left and key in removals and size <= room:
            groups.append({})
            left = room
        if size <= left:
            groups[-1][key] = removal
            left -= size
        elif key in removals:
            omitted += 1
    if omitted:
        log.warning(
            "homeassistant: the discovery message has no room to remove %d obsolete entities; "
            "delete them in Home Assistant",
            omitted,
        )
    return [{**message, "components": message["components"] | group} for group in groups]


def removed_fields(message: Mapping[str, Any]) -> set[str]:
    """Return the names of the fields whose entities the discovery message removes.

    >>> sorted(removed_fields({"components": {"heat_selected": {"platform": "sensor"}}}))
    ['heat']
    """
    found = {
        _OF_FIELD.fullmatch(key): component for key, component in message["components"].items()
    }
    return {match[1] for match, component in found.items() if match and len(component) == 1}


class _Copy(msgspec.Struct, frozen=True):
    components: dict[str, dict[str, Any]]
