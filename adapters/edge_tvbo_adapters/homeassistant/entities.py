"""Entities of Home Assistant: the components of the discovery message.

The state of each entity is on a retained topic, so that Home Assistant has it after a restart. No
entity has `expire_after`, because every change of the discovery message would then make the entity
unavailable until the next decision. Instead, an entity whose state can be out of date has an
additional availability topic.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, get_args

from edge_tvbo.messages.documents import NoticeKind, Reason
from edge_tvbo_adapters.homeassistant.described_field import (
    DiscoveryField,
    escaped,
    labels_of,
    title_of,
)
from edge_tvbo_adapters.homeassistant.device_classes import STORED_ENERGY
from edge_tvbo_adapters.homeassistant.templates import (
    ATTRIBUTES,
    as_dict,
    label_template,
    of_document,
    of_health,
    of_posterior,
)

MAX_SENSORS = 100  # if a field has more, its sensors get no entities and no options
# With more decimals, the smallest step of a `number`, 0.001, would be more than a tenth of the
# field's standard deviation:
MAX_NUMBER_DECIMALS = 4

DiscoveryComponent = dict[str, Any]
Entity = tuple[str, DiscoveryComponent]  # with the key of the entity in the message


class Entities:
    """Makes the Home Assistant entities of one daemon.

    Parameters
    ----------
    instance : str
        The daemon's name.
    commands : bool
        Whether the daemon executes commands; if not, there are no switches and buttons.
    """

    def __init__(self, instance: str, *, commands: bool = True) -> None:
        self.base = f"edge_tvbo/{instance}"
        self._instance = instance
        self._commands = commands

    def of_daemon(self) -> Iterator[Entity]:
        """Yield the Home Assistant entities of the daemon."""
        health = f"{self.base}/health"
        paused = "value_json.fields.values() | selectattr('paused') | list"
        yield self._entity(
            "problem",
            "binary_sensor",
            "Problem",
            device_class="problem",
            entity_category="diagnostic",
            state_topic=health,
            value_template="{{ 'ON' if value_json.problem else 'OFF' }}",
            json_attributes_topic=health,
            json_attributes_template="{{ {'reason': value_json.problem} | tojson }}",
        )
        yield self._events("events", "Events", f"{self.base}/event")
        if self._commands:
            is_paused = f"{{{{ 'ON' if {paused} else 'OFF' }}}}"  # ON if any field is paused
            yield self._pause("pause", "Pause", {}, is_paused)
            yield self._button(
                "reset", "Reset model", "mdi:restart", "reset", {}, entity_category="config"
            )

    def of_field(self, name: str, field: DiscoveryField, *, has_options: bool) -> Iterator[Entity]:
        """Yield the Home Assistant entities of a field.

        If `has_options` is true, the user can select in Home Assistant which sensor is polled.
        """
        title = title_of(name)
        yield from self._of_decisions(name, field)
        if field.has_model:
            yield from self._of_hotspot(name, field)
        if field.thresholds:
            yield self._alert(name)
            yield self._threshold(name, field, *field.thresholds)
        yield from self._of_energy(name, field)
        yield self._events(f"{name}_events", f"{title} events", f"{self.base}/{name}/event")
        if self._commands:
            yield from self._of_commands(name, field, has_options=has_options)

    # --- the entities of a field ----------------------------------------------------------------

    def _of_decisions(self, name: str, field: DiscoveryField) -> Iterator[Entity]:
        entity, title, topic = self._of(name), title_of(name), f"{self.base}/{name}/selected"
        is_paused = "'offline' if field.paused else 'online'"
        yield entity(
            "selected",
            "sensor",
            f"{title} selected sensor",
            icon="mdi:radar",
            state_topic=topic,
            value_template=of_document(label_template(field)),
            json_attributes_topic=topic,
            json_attributes_template=ATTRIBUTES,
            availability=[
                *availability(self.base),
                {
                    "topic": f"{self.base}/health",
                    "value_template": of_health(name, is_paused, "'online'"),
                },
            ],
            availability_mode="all",
        )
        yield entity(
            "reason",
            "sensor",
            f"{title} reason",
            device_class="enum",
            entity_category="diagnostic",
            options=[each.value for each in Reason],
            state_topic=topic,
            value_template=of_document("value_json.reason"),
        )
        if field.has_model:
            yield entity(
                "resets",
                "sensor",
                f"{title} model resets",
                entity_category="diagnostic",
                state_class="total",  # after a kill, the stored count may be lower than before
                state_topic=topic,
                value_template=of_document("value_json.model.resets"),
            )
            yield entity(
                "last_reset",
                "sensor",
                f"{title} last model reset",
                device_class="timestamp",
                entity_category="diagnostic",
                state_topic=topic,
                value_template=of_document("value_json.model.last_reset"),
            )

    def _of_hotspot(self, name: str, field: DiscoveryField) -> Iterator[Entity]:
        entity, topic = self._of(name), f"{self.base}/{name}/hotspot"
        spot = f"{title_of(name)} {'hotspot' if field.objective == 'max' else 'coldest spot'}"
        yield entity(
            "hotspot",
            "sensor",
            spot,
            state_topic=topic,
            value_template=of_document("value_json.value"),
            json_attributes_topic=topic,
            json_attributes_template=ATTRIBUTES,
            **_measured(field, field.device_class),
        )
        yield entity(
            "hotspot_sensor",
            "sensor",
            f"{spot} sensor",
            icon="mdi:map-marker",
            state_topic=topic,
            value_template=of_document(label_template(field)),
        )
        yield entity(
            "hotspot_sd",
            "sensor",
            f"{spot} uncertainty",
            entity_category="diagnostic",
            state_topic=topic,
            value_template=of_document("value_json.std"),
            **_measured(field, field.spread_class),
        )

    def _alert(self, name: str) -> Entity:
        topic = f"{self.base}/{name}/alert"
        return self._entity(
            f"{name}_alert",
            "binary_sensor",
            f"{title_of(name)} alert",
            device_class="problem",
            state_topic=topic,
            value_template=of_document("('ON' if value_json.active else 'OFF')"),
            json_attributes_topic=topic,
            json_attributes_template=ATTRIBUTES,
        )

    def _threshold(self, name: str, field: DiscoveryField, lowest: float, highest: float) -> Entity:
        """Return the Home Assistant entity of the alert's threshold.

        If commands are off, the platform of the entity is `sensor`. If commands are on, the
        platform is `number`, or `text` if the steps of a `number` are too large for the field. Each
        platform has its own key. With a common key, Home Assistant would keep the old entity when
        the platform changes.
        """
        entity, title = self._of(name), f"{title_of(name)} alert threshold"
        shown = {
            "state_topic": f"{self.base}/{name}/alert",
            "value_template": of_document("value_json.threshold"),
        }
        if not self._commands:
            return entity(
                "threshold",
                "sensor",
                title,
                entity_category="diagnostic",
                **shown,
                **_measured(field, field.device_class),
            )
        settable = {
            "entity_category": "config",
            "command_topic": f"{self.base}/cmd/threshold",
            "command_template": f'{{"field": "{name}", "threshold": {{{{ value | float }}}}}}',
            "retain": False,
        }
        if field.decimals > MAX_NUMBER_DECIMALS:
            unit = f" ({field.unit})" if field.unit else ""  # a text has no unit of its own
            shown["value_template"] = of_document("value_json.threshold", "''")
            return entity("threshold_text", "text", f"{title}{unit}", **shown, **settable)
        return entity(
            "alert_threshold",
            "number",
            title,
            min=round(lowest, field.decimals),
            max=round(highest, field.decimals),
            step=10.0 ** -min(field.decimals, 3),
            mode="box",
            **shown,
            **settable,
            **_unit_and_class(field, field.device_class),
        )

    def _of_energy(self, name: str, field: DiscoveryField) -> Iterator[Entity]:
        entity, title, health = self._of(name), title_of(name), f"{self.base}/health"
        if field.energy_unit is not None:
            unit = {"unit_of_measurement": field.energy_unit} if field.energy_unit else {}
            is_stored = field.energy_unit in STORED_ENERGY
            yield entity(
                "energy_left",
                "sensor",
                f"{title} energy left",
                entity_category="diagnostic",
                state_class="measurement",
                state_topic=health,
                value_template=of_health(name, "field.energy.left if field.energy else None"),
                **unit,
                **({"device_class": "energy_storage"} if is_stored else {}),
            )
        if field.has_batteries:
            low = "field.energy.low_battery if field.energy else []"
            names = of_health(name, f"{{'sensors': {low}}} | tojson", "{} | tojson")
            yield entity(
                "low_battery",
                "binary_sensor",
                f"{title} low battery",
                device_class="battery",
                entity_category="diagnostic",
                state_topic=health,
                value_template=of_health(name, f"'ON' if ({low}) else 'OFF'"),
                json_attributes_topic=health,
                json_attributes_template=names,
            )

    def _of_commands(
        self, name: str, field: DiscoveryField, *, has_options: bool
    ) -> Iterator[Entity]:
        title, labels = title_of(name), labels_of(field)
        is_paused = of_health(name, "'ON' if field.paused else 'OFF'")
        yield self._pause(f"{name}_pause", f"{title} pause", {"field": name}, is_paused)
        again = f"{title} poll again"
        yield self._button(f"{name}_poll_again", again, "mdi:refresh", "activate", {"field": name})
        if has_options and len(field.sensors) <= MAX_SENSORS:
            ids = {label: sensor for sensor, label in labels.items()}
            yield self._entity(
                f"{name}_poll",
                "select",
                f"{title} poll sensor",
                icon="mdi:target",
                options=list(ids),
                state_topic=f"{self.base}/{name}/selected",
                value_template=of_document(f"{as_dict(labels)}.get(value_json.sensor)"),
                command_topic=f"{self.base}/cmd/activate",
                command_template=f"{{{{ {{'field': '{name}', 'sensor': {as_dict(ids)}[value]}}"
                " | tojson }}",
                retain=False,
            )

    # --- the entities of each sensor, which are disabled at first ---------------------------------

    def of_sensors(
        self, name: str, field: DiscoveryField
    ) -> Iterator[dict[str, DiscoveryComponent]]:
        """Yield two groups of entities of a field's sensors: estimates, and switches.

        A switch makes the daemon ignore its sensor. A group without entities is left out. Home
        Assistant makes the ids of these entities from the names of the entities.
        """
        if len(field.sensors) > MAX_SENSORS:
            return
        labels = labels_of(field)
        if field.has_model and field.has_posterior:
            yield dict(self._estimate(name, field, *each) for each in labels.items())
        if self._commands:
            yield dict(self._ignore(name, *each) for each in labels.items())

    def _estimate(self, name: str, field: DiscoveryField, sensor: str, label: str) -> Entity:
        topic = f"{self.base}/{name}/posterior"
        spread = f"{{'std': {of_posterior('std', sensor)}}} | tojson"
        return self._of_sensor(
            f"{name}_estimate_{escaped(sensor)}",
            "sensor",
            f"{title_of(name)} {label} estimate",
            state_topic=topic,
            value_template=of_document(of_posterior("mean", sensor)),
            json_attributes_topic=topic,
            json_attributes_template=of_document(spread, "'{}'"),
            **_measured(field, field.device_class),
        )

    def _ignore(self, name: str, sensor: str, label: str) -> Entity:
        ignored = f"value_json.fields.get('{name}', {{}}).get('ignored', [])"
        return self._of_sensor(
            f"{name}_ignore_{escaped(sensor)}",
            "switch",
            f"{title_of(name)} {label} ignored",
            entity_category="config",
            state_topic=f"{self.base}/health",
            value_template=f"{{{{ ('{sensor}' in {ignored}) | tojson }}}}",
            command_topic=f"{self.base}/cmd/ignore",
            command_template=f'{{"field":"{name}","sensor":"{sensor}","ignored":{{{{ value }}}}}}',
            payload_on="true",
            payload_off="false",
        )

    def _of_sensor(self, *texts: str, **settings: Any) -> Entity:
        key, entity = self._entity(*texts, enabled_by_default=False, **settings)
        del entity["default_entity_id"]
        return key, entity

    # --- entities of one kind -------------------------------------------------------------------

    def _of(self, field: str) -> Callable[..., Entity]:
        """Return a function that makes one Home Assistant entity of `field` at each call."""
        return lambda key, *rest, **settings: self._entity(f"{field}_{key}", *rest, **settings)

    def _entity(self, key: str, platform: str, name: str, **rest: Any) -> Entity:
        daemon = self._instance.replace("_", "U")  # so that the ids of a_b + c and a + b_c differ
        readable = re.sub("[_.-]+", "_", f"edge_tvbo_{self._instance}_{key}").strip("_").lower()
        return key, {
            "platform": platform,
            "unique_id": f"edge_tvbo_{daemon}_{key}",
            "default_entity_id": f"{platform}.{readable}",
            "name": name,
            **rest,
        }

    def _events(self, key: str, name: str, topic: str) -> Entity:
        """Return a Home Assistant event entity for the notices that are published on `topic`."""
        keys = (
            "'event_type': value_json.event, 'text': value_json.text, 'sensor': value_json.sensor"
        )
        return self._entity(
            key,
            "event",
            name,
            event_types=list(get_args(NoticeKind)),
            state_topic=topic,
            value_template=f"{{{{ {{{keys}}} | tojson }}}}",
        )

    def _pause(self, key: str, name: str, request: dict[str, str], is_paused: str) -> Entity:
        on, off = (_json(request | {"paused": paused}) for paused in (True, False))
        return self._entity(
            key,
            "switch",
            name,
            icon="mdi:pause",
            entity_category="config",
            state_topic=f"{self.base}/health",
            value_template=is_paused,
            state_on="ON",
            state_off="OFF",
            command_topic=f"{self.base}/cmd/pause",
            payload_on=on,
            payload_off=off,
            retain=False,
        )

    def _button(
        self, key: str, name: str, icon: str, verb: str, request: dict[str, str], **rest: Any
    ) -> Entity:
        return self._entity(
            key,
            "button",
            name,
            icon=icon,
            command_topic=f"{self.base}/cmd/{verb}",
            payload_press=_json(request),
            retain=False,
            **rest,
        )


def availability(base: str) -> list[dict[str, str]]:
    """Return the setting with which all entities are available while the daemon is online."""
    return [{"topic": f"{base}/status"}]


def _json(request: dict[str, Any]) -> str:
    return json.dumps(request, separators=(",", ":"))


def _measured(field: DiscoveryField, device_class: str | None) -> DiscoveryComponent:
    return {
        "state_class": "measurement",
        "suggested_display_precision": field.decimals,
        **_unit_and_class(field, device_class),
    }


def _unit_and_class(field: DiscoveryField, device_class: str | None) -> DiscoveryComponent:
    return {
        **({"unit_of_measurement": field.unit} if field.unit else {}),
        **({"device_class": device_class} if device_class else {}),
    }
