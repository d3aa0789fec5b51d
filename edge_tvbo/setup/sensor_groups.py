"""Sensor groups: sensors of one integration that measure the same quantity.

This module chooses the groups of one field, and finds the sensors that are in no chosen group.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median

import msgspec

from edge_tvbo.messages.formatting import (
    counted,
    decimals,
    range_text,
    significant_in_spread,
)
from edge_tvbo.messages.payloads import Activation
from edge_tvbo.messages.sensor_ids import is_displayable
from edge_tvbo.setup.known_quantities import (
    GENERIC,
    INSIDE,
    QUANTITIES,
    Quantity,
    field_name,
    known_quantity,
    quantity_of,
)

PLACEHOLDER = "{sensor}"
MIN_SPREAD = 1e-9  # a smaller spread is rounding error
LISTED_SENSORS = 3  # sensors that the description of a group names
_PLAIN = {"number": "plain numbers", "json": "JSON"}  # formats without an integration
# The number of a probe, if a device has several probes:
_NUMBER = re.compile(r"[-_:](0x)?[A-F]*\d[\dA-F]*(?=[./]|$)|\d+$")
_ORDER = list(dict.fromkeys(each.name for each in QUANTITIES.values()))


class Unit(msgspec.Struct, frozen=True):
    """The unit to which a codec converts the readings of a group."""

    name: str  # as in the setting `unit`
    factor: float  # number of this unit in the usual unit of the quantity


class SensorGroup(msgspec.Struct, frozen=True):
    """Group of sensors of one integration that measure the same quantity."""

    integration: str
    topic: str  # with {sensor} in place of the sensor's name
    value: str | None  # the setting `value`; None if a payload is one number
    activate: Activation | None
    readings: dict[str, float]  # the last value of each sensor, by its name in the topic
    messages: int
    retained: tuple[str, ...] = ()  # sensors from which only a retained message was received
    unit: Unit | None = None  # the setting `unit` of the codec; None if it is not needed
    announced: dict[str, str] = {}  # announced units of sensors; only units of the quantity

    @property
    def announced_unit(self) -> str | None:
        """The unit that all sensors of the group announce; None if there is no such unit."""
        units = set(self.announced.values())
        is_complete = len(units) == 1 and len(self.announced) == len(self.readings)
        return units.pop() if is_complete else None

    def part(self, sensors: Iterable[str], announced: Mapping[str, str]) -> "SensorGroup":
        """Return a group that contains only `sensors`, with the units in `announced`.

        In `announced`, the unit of a sensor that announces none is "".
        """
        readings = {name: self.readings[name] for name in sensors}
        units = {name: unit for name in readings if (unit := announced[name])}
        retained = tuple(name for name in self.retained if name in readings)
        return msgspec.structs.replace(self, readings=readings, retained=retained, announced=units)

    @property
    def topics(self) -> set[str]:
        """The topic of each sensor of the group, up to and including the sensor's name."""
        place = self.topic.partition(PLACEHOLDER)[0]
        return {place + name for name in self.readings}

    @property
    def probe(self) -> tuple[str, str, str, str]:
        """The group's integration, topic and value, without the number of a probe.

        A device can have several probes, such as ``DS18B20-1`` and ``DS18B20-2``. The result is
        equal for the groups of all these probes.
        """
        place, _, below = self.topic.partition(PLACEHOLDER)
        return self.integration, place, _NUMBER.sub("", below), _NUMBER.sub("", self.value or "")

    @property
    def is_plain(self) -> bool:
        """Whether the group sends plain numbers or JSON, and belongs to no known integration."""
        return self.integration in _PLAIN

    @property
    def quantity(self) -> Quantity:
        """The quantity that the group's sensors measure, derived from `value` or from the topic."""
        if known := known_quantity_in(self.topic, self.value):
            return known
        name = field_name(_last_word(self.topic, self.value))
        tenth = 0.1 * abs(self.center)
        return Quantity(name, "", tenth if tenth > MIN_SPREAD else 1.0)

    def measures(self, quantity: str) -> bool:
        """Return whether `quantity`, in any spelling, is the group's quantity or its `value`."""
        spellings = {quantity.lower(), known_quantity(quantity).name.lower()}
        return self.quantity.name in spellings or (self.value or "").lower() in spellings

    @property
    def center(self) -> float:
        """Median of the last readings of the group; one faulty sensor hardly affects the median."""
        return median(self.readings.values())

    @property
    def spread(self) -> float:
        """The group's standard deviation, estimated from the median absolute deviation.

        The result is at least the usual spread of the quantity.
        """
        center = self.center
        deviation = median(abs(each - center) for each in self.readings.values())
        usual = self.quantity.spread * (self.unit.factor if self.unit else 1.0)
        return max(1.5 * deviation, usual)

    @property
    def mean(self) -> float:
        """The prior mean of the group's field: `center`, rounded to 1/100 of `spread` or finer."""
        return round(self.center, decimals(self.spread))

    def describe(self) -> str:
        """Return one line of text about the sensors of the group."""
        values, quantity = self.readings.values(), self.quantity
        count = len(values)
        number, messages = counted(count, "sensor"), counted(self.messages, "message")
        source = source_name(self.integration)
        unit = self.unit.name if self.unit else self.announced_unit or quantity.unit
        span = f"{range_text(values, 4)} {unit}".rstrip()
        width = max(values) - min(values)
        some = [
            f"{shown(name)} {significant_in_spread(value, width, 4)}"
            for name, value in self.readings.items()
        ][:LISTED_SENSORS]
        more = ", ..." if count > LISTED_SENSORS else ""
        name = quantity.name
        if self.value not in (None, name) and _NUMBER.search(self.value):
            name += f" ({shown(self.value)})"  # the probes of a device have the same name
        return f"{number} of {source}: {name}, {span} in {messages}: {', '.join(some)}{more}"


def known_quantity_in(topic: str, value: str | None) -> Quantity | None:
    """Return the known quantity that `value` or the topic of a group names, or None.

    The quantity is the last word that is neither a number nor a generic word like ``value``. So
    ``temperature:0.id`` is an id, not a temperature. A number at the end of the word is ignored:
    ``Temperature1`` and ``temperature_1`` are temperatures.

    In a topic, the word may also end with the quantity, as in ``living_room_temperature`` of
    ESPHome. A word like ``cpu_temperature`` is an exception: the temperature inside a device is
    another quantity.
    """
    last = _last_word(topic, value)
    if known := quantity_of(last):
        return known
    if value is None and not INSIDE.intersection(last.split("_")):  # as in ESPHome
        for word, known in QUANTITIES.items():
            if last.endswith(f"_{word}"):
                return known
    return None


def _last_word(topic: str, value: str | None) -> str:
    """Return the word that can name a group's quantity, from `value` or else from the topic."""
    words = re.split(r"[./:]", value or topic.replace(PLACEHOLDER, "").removesuffix("/"))
    while any(words[:-1]) and (words[-1].lower() in GENERIC or words[-1].isdecimal()):
        words.pop()
    return words[-1].lower()


def rank(group: SensorGroup) -> tuple[bool, int, int, int, str]:
    """Return the sort key of a sensor group: known quantities first, then large groups.

    Groups that are equal in these two properties are sorted by the order of known quantities, then
    by the depth of the value in JSON, then by topic and value. Numbers in topics and values are
    sorted as numbers: 2 is before 10.
    """
    name = group.quantity.name
    order = _ORDER.index(name) if name in _ORDER else len(_ORDER)
    place = re.sub(r"\d+", lambda found: found[0].zfill(64), f"{group.topic} {group.value}")
    depth = (group.value or "").count(".")
    return order == len(_ORDER), -len(group.readings), order, depth, place


def companions(first: SensorGroup, groups: Iterable[SensorGroup]) -> list[SensorGroup]:
    """Return the groups that become sources of one field: `first` and its companions.

    A companion measures the same quantity as `first`. The first group of each integration is
    returned. Further groups of an integration are returned only in three cases:

    - The groups are probes of the same devices, such as ``DS18B20-1`` and ``DS18B20-2``.
    - Each topic contains one value, as in ESPHome, and the groups have no sensor in common. There
      may be a topic for each device.
    - Several topics need the same setting `value`, and the groups have no sensor in common. In
      Zigbee2MQTT, there may be a topic for each room.

    Some integrations publish their readings a second time, as plain numbers or JSON. Therefore a
    group of plain numbers or JSON is left out if one of its sensors has the name of a sensor in an
    earlier group.
    """
    found: list[SensorGroup] = []
    names: set[str] = set()
    probes: set[tuple[str, ...]] = set()
    topics: dict[str, set[str]] = {}  # of each integration
    values: dict[str, set[str | None]] = {}  # of each integration
    for group in (first, *groups):
        if group.quantity != first.quantity or (found and group == first):
            continue
        kind = group.integration
        is_possible = kind not in topics or (not group.is_plain and group.value in values[kind])
        is_repeated = (group.is_plain and not names.isdisjoint(group.readings)) or (
            kind in topics and not topics[kind].isdisjoint(group.topics)
        )
        if group.probe in probes or (is_possible and not is_repeated):
            found.append(group)
            names.update(group.readings)
            probes.add(group.probe)
            topics.setdefault(kind, set()).update(group.topics)
            values.setdefault(kind, {None}).add(group.value)
    return found


def first_groups(groups: Sequence[SensorGroup], quantities: Iterable[str]) -> list[SensorGroup]:
    """Return the groups that become fields by default: those of the wanted `quantities`.

    For each quantity, the function returns the first group that measures it, and the `companions`
    of this group. Without a wanted quantity, the quantity of the first group is chosen. Each group
    is returned once, even if its quantity is wanted twice, as in ``temperature`` and ``temp``.
    """
    firsts = [
        next(each for each in groups if each.measures(wanted))
        for wanted in dict.fromkeys(quantities)
    ]
    chosen: list[SensorGroup] = []
    for first in firsts or groups[:1]:
        chosen += [each for each in companions(first, groups) if each not in chosen]
    return chosen


def left_out(group: SensorGroup, chosen: Collection[SensorGroup]) -> list[str]:
    """Return the names of the sensors of `group` that are not in the `chosen` groups.

    A sensor with the name of a chosen sensor is returned only in two cases: it is another sensor of
    the same device, or a sensor of another device of the same integration. In any other case, both
    names probably belong to the same sensor, because some integrations publish the readings of a
    sensor twice.
    """
    used = {(each.topic, each.value, name) for each in chosen for name in each.readings}
    names = {name for _, _, name in used}
    devices = {(each.integration, name) for each in chosen for name in each.readings}
    messages = {(each.integration, each.topic, name) for each in chosen for name in each.readings}
    has_own_topic = group.value is None and not group.is_plain  # as in ESPHome
    is_probe = group.probe in {each.probe for each in chosen}
    return [
        name
        for name in group.readings
        if (group.topic, group.value, name) not in used
        and (
            has_own_topic
            or is_probe
            or name not in names
            or (group.integration, group.topic, name) in messages
            or (group.is_plain and (group.integration, name) in devices)
        )
    ]


def same_names(group: SensorGroup, chosen: Collection[SensorGroup]) -> list[str]:
    """Return the names of the sensors of `group` that are probably the same as `chosen` sensors.

    `left_out` does not return these sensors, because chosen sensors have the same names. If the
    topics of two sensors are equal up to and including the name of the sensor, both are certainly
    the same sensor. Such a sensor is not returned.

    >>> hall = SensorGroup("zigbee2mqtt", "zigbee2mqtt/{sensor}", "t", None, {"hall": 20.0}, 1)
    >>> for topic in ("garage/{sensor}/temperature", "zigbee2mqtt/{sensor}/temperature"):
    ...     print(same_names(SensorGroup("number", topic, None, None, {"hall": 5.0}, 1), [hall]))
    ['hall']
    []
    """
    place = group.topic.partition(PLACEHOLDER)[0]
    topics = {topic for each in chosen for topic in each.topics}
    others = {*left_out(group, chosen)}
    return [name for name in group.readings if name not in others and place + name not in topics]


def shown(name: str) -> str:
    """Return the name of a discovered sensor or topic, short and without control characters.

    >>> print(shown("a" * 50), shown("hall"), shown(""), shown(chr(10)) == repr(chr(10)))
    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa hall '' True
    """
    short = name[:40]
    return short if short and is_displayable(short) else repr(short)


def source_name(integration: str) -> str:
    """Return the name of a discovered integration or plain format, as it appears in a sentence."""
    return _PLAIN.get(integration, integration)
