"""Home Assistant discovery: the message that makes the daemon appear as one device.

One retained message describes all entities:

    <prefix>/device/edge_tvbo_<instance>/config

The message contains no states. It is published after each start of Home Assistant, and whenever the
copy that the broker retains differs from the daemon's message. To remove the entity of a removed
field, the message names the entity with its platform only. The daemon finds such entities in the
broker's copy, so the daemon does not have to store them.

The message follows the rules of Home Assistant 2026.11, which are in its
`components/mqtt/schemas.py` and in one module for each platform. `tests/support/ha_schema.py`
checks the message against these rules.
"""

import re
from collections.abc import Mapping
from functools import partial
from math import ceil, inf
from random import Random
from typing import Any, get_args

import msgspec
from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.settings import HomeAssistant
from edge_tvbo.messages.documents import NoticeKind, Reason
from edge_tvbo_adapters.mqtt.subscriber import topic_of

COPY_TIMEOUT_S = 2.0  # from the subscription until the broker has sent its copy, if it has one
BIRTH_DELAY_S = (1.0, 10.0)  # random delay after Home Assistant's start, to spread the load
EXPIRE_AFTER_INTERVALS = 3  # intervals without a message until a state becomes unknown
MAX_OPTIONS = 100  # sensors that can be listed as options; with more sensors none is listed

PLATFORMS = ("sensor", "binary_sensor", "event", "switch", "button")
_KEY = re.compile(r"[a-z0-9_-]{1,128}")
DEVICE_CLASSES = {  # by unit; homeassistant/components/sensor/const.py, DEVICE_CLASS_UNITS
    **dict.fromkeys(("°C", "°F", "K"), "temperature"),
    **dict.fromkeys(("Pa", "hPa", "kPa", "mbar", "bar", "psi", "mmHg", "inHg"), "pressure"),
    **dict.fromkeys(("m/s", "km/h", "mph", "kn", "ft/s", "mm/s"), "speed"),
    **dict.fromkeys(("W", "kW", "mW", "MW"), "power"),
    **dict.fromkeys(("V", "mV", "kV"), "voltage"),
    **dict.fromkeys(("A", "mA"), "current"),
    **dict.fromkeys(("Hz", "kHz", "MHz", "GHz"), "frequency"),
    **dict.fromkeys(("mm", "cm", "m", "km", "in", "ft", "mi"), "distance"),
    **dict.fromkeys(("Bq/m³", "pCi/L"), "radon"),
    "dBA": "sound_pressure",
    "dBm": "signal_strength",
    "lx": "illuminance",
    "W/m²": "irradiance",
}

Component = dict[str, Any]


class DiscoveryField(msgspec.Struct, frozen=True):
    """The properties of one field that the discovery message describes."""

    sensors: tuple[str, ...]
    unit: str
    decimals: int  # of values in `unit`
    interval: float | None  # s; None if each reading ends an interval
    has_alert: bool = False  # whether the hot spot has a threshold


# --- the message ----------------------------------------------------------------------------------


def topic_for(prefix: str, instance: str) -> str:
    """Return the topic of a daemon's discovery message.

    >>> topic_for("homeassistant", "pi1")
    'homeassistant/device/edge_tvbo_pi1/config'
    """
    return f"{prefix}/device/edge_tvbo_{instance}/config"


def payload(instance: str, fields: Mapping[str, DiscoveryField], version: str) -> dict[str, Any]:
    """Return the discovery message of a daemon, ready to be encoded as JSON.

    Parameters
    ----------
    instance : str
        The daemon's name.
    fields : mapping of str to DiscoveryField
        Every field by its name.
    version : str
        The daemon's version.
    """
    base = f"edge_tvbo/{instance}"
    components = _daemon_entities(instance, base)
    for name, field in fields.items():
        components |= _field_entities(instance, base, name, field)
    return {
        "device": {
            "identifiers": [f"edge_tvbo_{instance}"],
            "name": f"Edge TVBO {instance}",
            "manufacturer": "edge_tvbo",
            "model": "Sensor scheduler",
            "sw_version": version,
        },
        "origin": {"name": "edge_tvbo", "sw_version": version},
        "availability_topic": f"{base}/status",
        "qos": 1,
        "components": components,
    }


def _entity(instance: str, key: str, platform: str, name: str, **rest: Any) -> Component:
    daemon = instance.replace("_", "U")  # without _, so that the ids of a_b + c and a + b_c differ
    readable = re.sub("[_-]+", "_", f"edge_tvbo_{instance}_{key}").strip("_")
    return {
        "platform": platform,
        "unique_id": f"edge_tvbo_{daemon}_{key}",
        "default_entity_id": f"{platform}.{readable}",
        "name": name,
        **rest,
    }


def _daemon_entities(instance: str, base: str) -> dict[str, Component]:
    entity = partial(_entity, instance)
    health = f"{base}/health"
    return {
        "problem": entity(
            "problem",
            "binary_sensor",
            "Problem",
            device_class="problem",
            entity_category="diagnostic",
            state_topic=health,
            value_template="{{ 'ON' if value_json.problem else 'OFF' }}",
            json_attributes_topic=health,
            json_attributes_template="{{ {'reason': value_json.problem} | tojson }}",
        ),
        "pause": entity(
            "pause",
            "switch",
            "Pause",
            icon="mdi:pause",
            entity_category="config",
            state_topic=health,
            value_template="{{ 'ON' if value_json.paused else 'OFF' }}",
            state_on="ON",
            state_off="OFF",
            command_topic=f"{base}/cmd/pause",
            payload_on='{"paused":true}',
            payload_off='{"paused":false}',
            retain=False,
        ),
        "reset": entity(
            "reset",
            "button",
            "Reset model",
            icon="mdi:restart",
            entity_category="config",
            command_topic=f"{base}/cmd/reset",
            payload_press="{}",
            retain=False,
        ),
        "events": _event_entity(instance, "events", "Events", f"{base}/event"),
    }


def _field_entities(
    instance: str, base: str, name: str, field: DiscoveryField
) -> dict[str, Component]:
    entity = partial(_entity, instance)
    title = _title(name)
    selected, hotspot = f"{base}/{name}/selected", f"{base}/{name}/hotspot"
    expiry = _expiry(field.interval)
    measured = {
        "state_topic": hotspot,
        "state_class": "measurement",
        "suggested_display_precision": field.decimals,
        **({"unit_of_measurement": field.unit} if field.unit else {}),
        **expiry,
    }
    diagnostic = {"entity_category": "diagnostic", "state_topic": selected}
    components = {
        "selected": entity(
            f"{name}_selected",
            "sensor",
            f"{title} selected sensor",
            icon="mdi:radar",
            state_topic=selected,
            value_template="{{ value_json.sensor }}",
            json_attributes_topic=selected,
            **_options(field.sensors),
            **expiry,
        ),
        "reason": entity(
            f"{name}_reason",
            "sensor",
            f"{title} reason",
            device_class="enum",
            options=[each.value for each in Reason],
            value_template="{{ value_json.reason }}",
            **diagnostic,
        ),
        "hotspot": entity(
            f"{name}_hotspot",
            "sensor",
            f"{title} hotspot",
            value_template="{{ value_json.value }}",
            json_attributes_topic=hotspot,
            **_device_class(field.unit),
            **measured,
        ),
        "hotspot_sd": entity(
            f"{name}_hotspot_sd",
            "sensor",
            f"{title} hotspot uncertainty",
            entity_category="diagnostic",
            value_template="{{ value_json.std }}",
            **measured,
        ),
        "resets": entity(
            f"{name}_resets",
            "sensor",
            f"{title} model resets",
            state_class="total_increasing",
            value_template="{{ value_json.model.resets }}",
            **diagnostic,
        ),
        "last_reset": entity(
            f"{name}_last_reset",
            "sensor",
            f"{title} last model reset",
            device_class="timestamp",
            value_template="{{ value_json.model.last_reset }}",
            **diagnostic,
        ),
        "events": _event_entity(
            instance, f"{name}_events", f"{title} events", f"{base}/{name}/event"
        ),
    }
    if field.has_alert:
        components["alert"] = _alert_entity(instance, base, name)
    return {f"{name}_{key}": component for key, component in components.items()}


def _alert_entity(instance: str, base: str, name: str) -> Component:
    topic = f"{base}/{name}/alert"
    return _entity(
        instance,
        f"{name}_alert",
        "binary_sensor",
        f"{_title(name)} alert",
        device_class="problem",
        state_topic=topic,
        value_template="{{ 'ON' if value_json.active else 'OFF' }}",
        json_attributes_topic=topic,
    )


def _event_entity(instance: str, key: str, name: str, topic: str) -> Component:
    """Return an event entity, from whose `event_type` Home Assistant reads the kind of event."""
    keys = "'event_type': value_json.event, 'text': value_json.text, 'sensor': value_json.sensor"
    return _entity(
        instance,
        key,
        "event",
        name,
        event_types=list(get_args(NoticeKind)),
        state_topic=topic,
        value_template=f"{{{{ {{{keys}}} | tojson }}}}",
    )


def _expiry(interval: float | None) -> Component:
    """Return the setting `expire_after` of an entity.

    Returns an empty dict if the field has no fixed interval.
    """
    return {} if interval is None else {"expire_after": ceil(EXPIRE_AFTER_INTERVALS * interval)}


def _device_class(unit: str) -> Component:
    return {"device_class": DEVICE_CLASSES[unit]} if unit in DEVICE_CLASSES else {}


def _options(sensors: tuple[str, ...]) -> Component:
    if len(sensors) > MAX_OPTIONS:
        return {}
    return {"device_class": "enum", "options": list(sensors)}


def _title(field: str) -> str:
    return re.sub("[_-]+", " ", field).strip().capitalize() or field


# --- when it is published -------------------------------------------------------------------------


class Discovery:
    """Schedules the discovery message, and adds to it the removal of obsolete entities.

    Parameters
    ----------
    instance : str
        The daemon's name.
    settings : HomeAssistant
        The discovery prefix and the birth topic.
    fields : mapping of str to DiscoveryField
        Every field by its name.
    version : str
        The daemon's version.
    rng : Random
        Draws the delay after a start of Home Assistant.

    Attributes
    ----------
    topic : str
        Topic of the discovery message.
    filters : list of str
        Topics to subscribe to.
    max_size : int
        Size of the largest retained copy that is read from the broker, in bytes.
    """

    def __init__(
        self,
        instance: str,
        settings: HomeAssistant,
        fields: Mapping[str, DiscoveryField],
        version: str,
        rng: Random,
    ) -> None:
        self.topic = topic_for(settings.prefix, instance)
        self.filters = [self.topic, settings.birth]
        self._birth = settings.birth
        self._message = payload(instance, fields, version)
        self._rng = rng
        self._payload = msgspec.json.encode(self._message)
        self._copy = b""  # the message that the broker retains
        self._compare_at = inf  # monotonic
        self._repeat_at = inf  # monotonic
        self.max_size = 4 * len(self._payload)

    def begin(self, now: float) -> None:
        """Begin an MQTT session: expect the broker's retained copy of the discovery message."""
        self._copy = b""
        self._compare_at, self._repeat_at = now + COPY_TIMEOUT_S, inf

    def put(self, message: MQTTMessage, now: float) -> bool:
        """Process the broker's copy or a birth message; return False for any other message."""
        topic, _ = topic_of(message)
        if topic == self.topic:
            if message.retain:
                self._copy, self._compare_at = bytes(message.payload), now
            return True
        if topic != self._birth:
            return False
        if message.payload == b"online" and not message.retain:  # retained: an earlier start
            self._repeat_at = min(self._repeat_at, now + self._rng.uniform(*BIRTH_DELAY_S))
        return True

    def due(self, now: float) -> bytes | None:
        """Return the discovery message if it has to be published now, otherwise None."""
        is_due = now >= self._repeat_at
        if is_due:
            self._repeat_at = inf
        if now >= self._compare_at:
            self._compare_at = inf
            self._payload = msgspec.json.encode(with_removals(self._message, self._copy))
            is_due = is_due or self._payload != self._copy
        return self._payload if is_due else None


def with_removals(message: Mapping[str, Any], copy: bytes) -> dict[str, Any]:
    """Return the discovery message with a removal for each entity that only `copy` contains.

    `copy` is the message that the broker retains. Because any client could have written it, only
    its keys and platforms are used.
    """
    try:
        earlier = msgspec.json.decode(copy, type=_Copy).components if copy else {}
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        earlier = {}
    components = dict(message["components"])
    for key, component in earlier.items():
        if key not in components and _KEY.fullmatch(key) and component.platform in PLATFORMS:
            components[key] = {"platform": component.platform}
    return {**message, "components": components}


class _Platform(msgspec.Struct, frozen=True):
    platform: str


class _Copy(msgspec.Struct, frozen=True):
    components: dict[str, _Platform]
