"""What Home Assistant is told, so that the daemon appears there as one device with its entities.

The rules are those of Home Assistant 2026.11, `components/mqtt/schemas.py` and one module for each
platform; `tests/support/ha_schema.py` has them as checks. One retained message says everything:

    <prefix>/device/edge_tvbo_<instance>/config

It is published where the broker's own copy differs, and after Home Assistant has started; never
with a state. An entity that there is no more, of a field that was taken away, is named in it with
nothing but its platform, which removes it; so the broker's copy is all that has to be remembered.
"""

import re
from collections.abc import Mapping
from functools import partial
from math import ceil, inf
from random import Random
from typing import Any, get_args

import msgspec

from edge_tvbo.messages.documents import Kind, Reason
from edge_tvbo.ports import HomeAssistant, Shown
from edge_tvbo_adapters.mqtt.codec import Message
from edge_tvbo_adapters.mqtt.subscriber import topic_of

SETTLE = 2.0  # s; a broker that has a copy sends it within this after we subscribe
JITTER = (1.0, 10.0)  # s after Home Assistant's start, so that not everybody answers at once
MISSED = 3  # intervals without news, after which a state is not known any more
MOST_OPTIONS = 100  # sensors that are listed; with more, any text is taken for one

PLATFORMS = ("sensor", "binary_sensor", "event", "switch", "button")
_KEY = re.compile(r"[a-z0-9_-]{1,128}")
CLASSES = {  # homeassistant/components/sensor/const.py, DEVICE_CLASS_UNITS; where a unit has one
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


def topic_for(prefix: str, instance: str) -> str:
    """Give the topic of the one message that describes a daemon."""
    return f"{prefix}/device/edge_tvbo_{instance}/config"


def payload(instance: str, settings: HomeAssistant) -> dict[str, Any]:
    """Give the message that describes a daemon, as JSON would have it."""
    base = f"edge_tvbo/{instance}"
    components = _daemon(instance, base)
    for field, shown in settings.fields.items():
        components |= _field(instance, base, field, shown)
    return {
        "device": {
            "identifiers": [f"edge_tvbo_{instance}"],
            "name": f"Edge TVBO {instance}",
            "manufacturer": "edge_tvbo",
            "model": "Sensor scheduler",
            "sw_version": settings.version,
        },
        "origin": {"name": "edge_tvbo", "sw_version": settings.version},
        "availability_topic": f"{base}/status",
        "qos": 1,
        "components": components,
    }


# --- the entities -------------------------------------------------------------------------------


def _entity(instance: str, key: str, platform: str, name: str, **rest: Any) -> Component:
    daemon = instance.replace("_", "U")  # without _, it ends where the next one is
    readable = re.sub("[_-]+", "_", f"edge_tvbo_{instance}_{key}").strip("_")
    return {
        "platform": platform,
        "unique_id": f"edge_tvbo_{daemon}_{key}",
        "default_entity_id": f"{platform}.{readable}",
        "name": name,
        **rest,
    }


def _daemon(instance: str, base: str) -> dict[str, Component]:
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
        "events": _events(instance, "events", "Events", f"{base}/event"),
    }


def _field(instance: str, base: str, field: str, shown: Shown) -> dict[str, Component]:
    entity = partial(_entity, instance)
    named = _titled(field)
    selected, hotspot = f"{base}/{field}/selected", f"{base}/{field}/hotspot"
    fresh = {} if shown.interval is None else {"expire_after": ceil(MISSED * shown.interval)}
    measured = {
        "state_topic": hotspot,
        "state_class": "measurement",
        "suggested_display_precision": shown.decimals,
        **({"unit_of_measurement": shown.unit} if shown.unit else {}),
        **fresh,
    }
    device_class = {"device_class": CLASSES[shown.unit]} if shown.unit in CLASSES else {}
    diagnostic = {"entity_category": "diagnostic", "state_topic": selected}
    components = {
        "selected": entity(
            f"{field}_selected",
            "sensor",
            f"{named} selected sensor",
            icon="mdi:radar",
            state_topic=selected,
            value_template="{{ value_json.sensor }}",
            json_attributes_topic=selected,
            **_options(shown.sensors),
            **fresh,
        ),
        "reason": entity(
            f"{field}_reason",
            "sensor",
            f"{named} reason",
            device_class="enum",
            options=[each.value for each in Reason],
            value_template="{{ value_json.reason }}",
            **diagnostic,
        ),
        "hotspot": entity(
            f"{field}_hotspot",
            "sensor",
            f"{named} hotspot",
            value_template="{{ value_json.value }}",
            json_attributes_topic=hotspot,
            **device_class,
            **measured,
        ),
        "hotspot_sd": entity(
            f"{field}_hotspot_sd",
            "sensor",
            f"{named} hotspot uncertainty",
            entity_category="diagnostic",
            value_template="{{ value_json.std }}",
            **measured,
        ),
        "resets": entity(
            f"{field}_resets",
            "sensor",
            f"{named} model resets",
            state_class="total_increasing",
            value_template="{{ value_json.model.resets }}",
            **diagnostic,
        ),
        "last_reset": entity(
            f"{field}_last_reset",
            "sensor",
            f"{named} last model reset",
            device_class="timestamp",
            value_template="{{ value_json.model.last_reset }}",
            **diagnostic,
        ),
        "events": _events(instance, f"{field}_events", f"{named} events", f"{base}/{field}/event"),
    }
    return {f"{field}_{key}": component for key, component in components.items()}


def _events(instance: str, key: str, name: str, topic: str) -> Component:
    """Give an event entity; Home Assistant wants the kind of an event as `event_type`."""
    told = "'event_type': value_json.event, 'text': value_json.text, 'sensor': value_json.sensor"
    return _entity(
        instance,
        key,
        "event",
        name,
        event_types=list(get_args(Kind)),
        state_topic=topic,
        value_template=f"{{{{ {{{told}}} | tojson }}}}",
    )


def _options(sensors: tuple[str, ...]) -> Component:
    if len(sensors) > MOST_OPTIONS:
        return {}
    return {"device_class": "enum", "options": list(sensors)}


def _titled(field: str) -> str:
    return re.sub("[_-]+", " ", field).strip().capitalize() or field


# --- when it is told ----------------------------------------------------------------------------


class Discovery:
    """Decides when the message is to be published.

    Parameters
    ----------
    instance : str
        Which daemon this is.
    settings : HomeAssistant
        What is to be shown.
    chance : Random
        Draws how long Home Assistant is left alone after it has started.
    """

    def __init__(self, instance: str, settings: HomeAssistant, chance: Random) -> None:
        self.topic = topic_for(settings.prefix, instance)
        self.filters = [self.topic, settings.birth]
        self._birth = settings.birth
        self._described = payload(instance, settings)
        self._chance = chance
        self._payload = msgspec.json.encode(self._described)
        self._copy = b""  # what the broker has
        self._compare_at = inf  # monotonic
        self._again_at = inf
        self.largest = 4 * len(self._payload)  # bytes of a copy that are worth reading

    def begin(self, now: float) -> None:
        """Wait for the broker's copy: a new session begins."""
        self._copy = b""
        self._compare_at, self._again_at = now + SETTLE, inf

    def put(self, message: Message, now: float) -> bool:
        """Take a message in, if it is for us, and say whether it is."""
        topic, _ = topic_of(message)
        if topic == self.topic:
            if message.retain:
                self._copy, self._compare_at = message.payload, now
            return True
        if topic != self._birth:
            return False
        if message.payload == b"online" and not message.retain:  # a retained one is no news
            self._again_at = min(self._again_at, now + self._chance.uniform(*JITTER))
        return True

    def due(self, now: float) -> bytes | None:
        """Give the message where it is to be published now."""
        again = now >= self._again_at
        if again:
            self._again_at = inf
        if now >= self._compare_at:
            self._compare_at = inf
            self._payload = msgspec.json.encode(with_removals(self._described, self._copy))
            again = again or self._payload != self._copy
        return self._payload if again else None


def with_removals(described: Mapping[str, Any], copy: bytes) -> dict[str, Any]:
    """Give the message with a removal for each entity that only the broker's copy has.

    The copy is what anybody may have written: of it nothing is taken but keys and platforms.
    """
    try:
        before = msgspec.json.decode(copy, type=_Before).components if copy else {}
    except (msgspec.MsgspecError, ValueError, RecursionError):
        before = {}
    components = dict(described["components"])
    for key, component in before.items():
        if key not in components and _KEY.fullmatch(key) and component.platform in PLATFORMS:
            components[key] = {"platform": component.platform}
    return {**described, "components": components}


class _Platform(msgspec.Struct, frozen=True):
    platform: str


class _Before(msgspec.Struct, frozen=True):
    components: dict[str, _Platform]
