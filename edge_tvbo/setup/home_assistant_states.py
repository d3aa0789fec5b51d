"""States of Home Assistant: the topics of its MQTT Statestream, which look like those of ESPHome.

Home Assistant publishes ``<base>/sensor/hall_temperature/state``, and a node of ESPHome publishes
``<node>/sensor/temperature/state``. If the base topic is not ``homeassistant``, two signs
distinguish Home Assistant from ESPHome: Home Assistant can publish the attributes of an entity
beside its state, and a node of ESPHome publishes whether the node is online.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from edge_tvbo.messages.payloads import DetectedSensor
from edge_tvbo.messages.sensor_ids import MAX_NAME_LENGTH
from edge_tvbo.setup.known_quantities import INSIDE, NOT_CURRENT, QUANTITIES
from edge_tvbo.setup.sensor_groups import PLACEHOLDER, SensorGroup

MIN_ENTITIES = 3  # sensors of one quantity by which Home Assistant is recognised without a sign
# The base topic of a node of ESPHome has at most two levels:
_BASE = rf"(.{{1,{2 * MAX_NAME_LENGTH + 1}}})"
_STATUS = re.compile(rf"{_BASE}/status")
_ATTRIBUTE = re.compile(rf"{_BASE}/sensor/[^/]+/(friendly_name|last_changed|last_updated)")
_STATE = re.compile(r"(.*)\{sensor\}/sensor/([^/{}]+)/state")


def states_of_home_assistant(base: str, entity: str) -> Iterator[tuple[str, DetectedSensor]]:
    """Yield the payload format and the sensor of a state that Home Assistant publishes over MQTT.

    The name of the entity consists of the names of the sensor and of a known quantity. Setpoints,
    forecasts and temperatures inside a device yield nothing.

    >>> for payload, seen in states_of_home_assistant("ha", "hall_temperature"):
    ...     print(payload, seen.sensor, seen.topic)
    number hall ha/sensor/{sensor}_temperature/state
    """
    for word in QUANTITIES:
        sensor = entity.removesuffix(f"_{word}")
        words = sensor.split("_")
        is_named = sensor not in ("", entity)
        if is_named and words[-1] not in NOT_CURRENT and INSIDE.isdisjoint(words):
            topic = f"{base}/sensor/{PLACEHOLDER}_{word}/state"
            yield "number", DetectedSensor(sensor, topic, ())


def sign_of_base(topic: str, payload: bytes) -> tuple[str, bool] | None:
    """Return the base topic of a message, and whether the message is a sign of Home Assistant.

    Return None if the message is neither a sign of Home Assistant nor of a node of ESPHome.

    >>> sign_of_base("ha/sensor/hall/friendly_name", b'"Hall"'), sign_of_base("a/status", b"online")
    (('ha', True), ('a', False))
    """
    if attribute := _ATTRIBUTE.fullmatch(topic):
        return attribute[1], True
    status = _STATUS.fullmatch(topic) if payload in (b"online", b"offline") else None
    return (status[1], False) if status else None


def named_by_entity(
    groups: Iterable[SensorGroup], signs: Mapping[str, bool]
) -> Iterator[SensorGroup]:
    """Yield the sensor groups, with the sensors of Home Assistant named by their entities.

    `signs` says for a base topic whether it belongs to Home Assistant; see `sign_of_base`. For any
    other base topic, `_has_many` decides this. States of Home Assistant that belong to no known
    quantity are left out.
    """
    found: dict[str, list[tuple[DetectedSensor, SensorGroup, str]]] = {}  # by base topic
    for group in (groups := list(groups)):
        for base, name, entity in _states(group):
            states = states_of_home_assistant(base, entity)
            found.setdefault(base, []).extend((seen, group, name) for _, seen in states)
    homes = {base for base, states in found.items() if signs.get(base, _has_many(states))}
    for group in groups:
        homely = {name for base, name, _ in _states(group) if base in homes}
        if names := [name for name in group.readings if name not in homely]:
            yield group.part(names, dict.fromkeys(names, ""))
    for base in homes:
        yield from _groups_of(found[base])


def _states(group: SensorGroup) -> Iterator[tuple[str, str, str]]:
    """Yield ``(base topic, name, entity)`` for each state in a sensor group.

    `name` is the name of the sensor in the group. Nothing is yielded if the topic of the group does
    not look like that of a state of Home Assistant.
    """
    if match := _STATE.fullmatch(group.topic):
        yield from ((match[1] + name, name, match[2]) for name in group.readings)


def _has_many(states: Iterable[tuple[DetectedSensor, SensorGroup, str]]) -> bool:
    """Return whether a base topic has so many sensors that it belongs to Home Assistant.

    It belongs to Home Assistant if it has at least `MIN_ENTITIES` sensors of one quantity. A sensor
    that several base topics have does not count, because nodes of ESPHome often have sensors with
    equal names.
    """
    counts = Counter(seen.topic for seen, group, _ in states if len(group.readings) == 1)
    return max(counts.values(), default=0) >= MIN_ENTITIES


def _groups_of(
    states: Iterable[tuple[DetectedSensor, SensorGroup, str]],
) -> Iterator[SensorGroup]:
    """Yield one sensor group for each topic of the states of one Home Assistant.

    The number of messages of a new group is a sum over its states: each state adds the number of
    messages of its former group, divided by the number of readings of this former group.
    """
    by_topic: dict[str, list[tuple[str, SensorGroup, str]]] = {}
    for seen, group, name in states:
        by_topic.setdefault(seen.topic, []).append((seen.sensor, group, name))
    for topic, each in by_topic.items():
        yield SensorGroup(
            "number",
            topic,
            None,
            None,
            dict(sorted((sensor, group.readings[name]) for sensor, group, name in each)),
            sum(group.messages // len(group.readings) for _, group, _ in each),
            tuple(sensor for sensor, group, name in each if name in group.retained),
        )
