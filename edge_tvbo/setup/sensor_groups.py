"""Sensor groups: sensors of one integration that measure the same quantity.

This module chooses the groups of one field, and finds the sensors that are in no chosen group.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import floor, log10
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from edge_tvbo.control.units import OTHER_UNITS
from edge_tvbo.messages.formatting import counted, listed, may_be_same_unit
from edge_tvbo.messages.payloads import Activation
from edge_tvbo.messages.sensor_ids import is_displayable
from edge_tvbo.setup.quantities import (
    GENERIC,
    INSIDE,
    QUANTITIES,
    Quantity,
    field_name,
    quantity_of,
)

PLACEHOLDER = "{sensor}"
MIN_SPREAD = 1e-9  # a smaller spread is rounding error
LISTED_SENSORS = 3  # sensors that the description of a group names
# Distances from the center, in spreads. A value may be in another unit if it is farther away than
# the first distance, and closer than the second distance after its conversion from that unit:
MIN_FAR_SPREADS, MAX_NEAR_SPREADS = 5.0, 2.0
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
        """Whether the group's format is plain numbers or JSON, which belong to no integration."""
        return self.integration in _PLAIN

    @property
    def quantity(self) -> Quantity:
        """The quantity that the group's sensors measure, derived from `value` or from the topic."""
        if known := known_quantity_in(self.topic, self.value):
            return known
        name = field_name(_last_word(self.topic, self.value))
        tenth = 0.1 * abs(self.center)
        return Quantity(name, "", tenth if tenth > MIN_SPREAD else 1.0)

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
        return round(self.center, max(0, 2 - floor(log10(self.spread))))

    def describe(self) -> str:
        """Return one line of text about the sensors of the group."""
        values, quantity = self.readings.values(), self.quantity
        count = len(values)
        number, messages = counted(count, "sensor"), counted(self.messages, "message")
        source = source_name(self.integration)
        unit = self.unit.name if self.unit else quantity.unit
        span = f"{min(values):.4g} to {max(values):.4g} {unit}".rstrip()
        some = [f"{shown(name)} {value:.4g}" for name, value in self.readings.items()][
            :LISTED_SENSORS
        ]
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


def rank(group: SensorGroup) -> tuple[bool, int, int, str]:
    """Return the sort key of a sensor group: known quantities first, then large groups.

    Groups that are equal in these two properties are sorted by the order of known quantities, then
    by topic and value. Numbers in topics and values are sorted as numbers: 2 is before 10.
    """
    name = group.quantity.name
    order = _ORDER.index(name) if name in _ORDER else len(_ORDER)
    place = re.sub(r"\d+", lambda found: found[0].zfill(64), f"{group.topic} {group.value}")
    return order == len(_ORDER), -len(group.readings), order, place


class OtherUnit(NamedTuple):
    """A unit in which sensors may report: value = factor * (value in the field's unit) + shift."""

    name: str
    factor: float
    shift: float

    @property
    def settings(self) -> str:
        """The settings of a source that convert from this unit to the field's unit."""
        return f"scale = {1.0 / self.factor:.5g} and offset = {0.0 - self.shift / self.factor:.5g}"

    def converted(self, value: float) -> float:
        """Return a value in this unit, converted to the field's unit."""
        return (value - self.shift) / self.factor


def _other_units(unit: str) -> list[OtherUnit]:
    """Return the other units of the quantity that the discovered sensors measure in `unit`.

    >>> [each.name for each in _other_units("F")]
    ['°C', 'K']
    """
    names = [name for name in OTHER_UNITS if unit and may_be_same_unit(name, unit)]
    found = [OtherUnit(*each) for name in names for each in OTHER_UNITS[name]]
    known = {*names, *(each.name for each in found)}
    for middle, factor, shift in list(found):
        for name, second, offset in OTHER_UNITS.get(middle, ()):
            if name not in known:
                known.add(name)
                found.append(OtherUnit(name, second * factor, second * shift + offset))
    return found


def in_other_units(
    group: SensorGroup, unit: str, sent: Mapping[str, float] = MappingProxyType({})
) -> Iterator[str]:
    """Yield a text for each sensor that seems to use another unit than `unit`, the group's unit.

    `sent` contains the readings that `scale` and `offset` have converted to `unit`, as they were
    before their conversion.

    >>> rooms = {"attic": 24.0, "hall": 21.0, "office": 22.0, "porch": 66.2}
    >>> print(*in_other_units(SensorGroup("json", "home/{sensor}", "t", None, rooms, 4), "°C"))
    The reading of porch is 66.2. The median of all sensors is 23 °C, but 66.2 °F are 19 °C. If \
porch sends °F, give it a [[fields.<name>.readings]] of its own, with scale = 0.55556 and offset = \
-17.778.
    """
    center, others = group.center, _other_units(unit)
    for sensor, value in group.readings.items():
        name, raw = shown(sensor), sent.get(sensor, value)
        reading, possible = f"{raw:.4g}", others
        if sensor in sent:
            reading += f", which is converted to {value:.4g} {unit}"
            possible = [OtherUnit(unit, 1.0, 0.0), *others]
        for other in possible:
            converted = other.converted(raw)
            if _is_far(value, group) and _is_near(converted, group):
                if other.name == unit:
                    why = ", so the conversion is probably wrong"
                    settings = "without scale and offset"
                else:
                    why = f", but {raw:.4g} {other.name} are {converted:.4g} {unit}"
                    settings = f"with {other.settings}"
                yield (
                    f"The reading of {name} is {reading}. The median of all sensors is "
                    f"{center:.4g} {unit}{why}. If {name} sends {other.name}, give it a "
                    f"[[fields.<name>.readings]] of its own, {settings}."
                )


def _is_far(value: float, group: SensorGroup) -> bool:
    """Return whether `value` is so far from the center of `group` that its unit may be another."""
    return abs(value - group.center) > MIN_FAR_SPREADS * group.spread


def _is_near(value: float, group: SensorGroup) -> bool:
    """Return whether `value`, after a conversion, is as it would be in the unit of `group`."""
    return abs(value - group.center) < MAX_NEAR_SPREADS * group.spread


def reference(groups: Sequence[SensorGroup], unit: str) -> SensorGroup:
    """Return the group of sensors, of a field, that most probably sends its readings in `unit`.

    If the codec of a group converts to `unit`, this group is returned. Otherwise, it is the group
    whose median is near the medians of most other groups; the median of another group may be near
    before, or after, a conversion from another unit.
    """

    def agreeing(group: SensorGroup) -> int:
        return sum(
            not _is_far(each.center, group) or other_unit(each, group, unit) is not None
            for each in groups
        )

    return next((each for each in groups if each.unit), None) or max(groups, key=agreeing)


def other_unit(group: SensorGroup, right: SensorGroup, unit: str) -> OtherUnit | None:
    """Return the unit that a group seems to use instead of `unit`, the unit of the group `right`.

    The result is None if there is no such unit, or if the codec of `group` converts to `unit`.
    """
    if group.unit is not None or not _is_far(group.center, right):
        return None
    others = _other_units(unit)
    return next((each for each in others if _is_near(each.converted(group.center), right)), None)


def other_unit_text(
    found: Sequence[SensorGroup],
    groups: Sequence[SensorGroup],
    right: SensorGroup,
    unit: str,
    other: OtherUnit,
) -> str:
    """Return a text about the groups `found`, which seem to use the unit `other`; see `other_unit`.

    The groups `found` are of one integration, and `groups` are all groups of the field. If the
    field has further groups of this integration, the text names the sensors: in ESPHome, for
    example, each device is a group.
    """
    center = median(value for each in found for value in each.readings.values())
    return (
        f"Sensors of {_sensors_text(found, groups)} seem to send {other.name}: their median is "
        f"{center:.4g}, and {center:.4g} {other.name} are {other.converted(center):.4g} {unit}. "
        f"The median of {_sensors_text([right], groups)} is {right.center:.4g} {unit}. If the "
        f"sensors send {other.name}, add {other.settings} to their source in the file."
    )


def _sensors_text(some: Sequence[SensorGroup], groups: Sequence[SensorGroup]) -> str:
    """Return the integration of `some` groups, and their sensors if it has further groups."""
    integration = some[0].integration
    text = source_name(integration)
    if len(some) == sum(each.integration == integration for each in groups):
        return text
    return f"{text} ({listed(shown(name) for each in some for name in each.readings)})"


def unconverted_text(group: SensorGroup, unit: str) -> str | None:
    """Return a text if the readings of a group may be in the usual unit, and not in `unit`.

    >>> hall = SensorGroup("zigbee2mqtt", "zigbee2mqtt/{sensor}", "temperature", None,
    ...     {"hall": 21.0}, 1)
    >>> print(unconverted_text(hall, "K"))
    Readings of zigbee2mqtt count as K and are not converted. If the sensors send °C, add scale = \
1 and offset = 273.15 to their source in the file.
    >>> unconverted_text(hall, "°C") is None
    True
    """
    usual = group.quantity.unit
    for each in _other_units(unit):
        if each.name == usual and group.unit is None:
            return (
                f"Readings of {source_name(group.integration)} count as {unit} and are not "
                f"converted. If the sensors send {usual}, add {each.settings} to their source in "
                "the file."
            )
    return None


def conversion(group: SensorGroup, other: SensorGroup) -> tuple[float, float]:
    """Return the scale and the offset that convert a group's readings to the unit of `other`.

    There is a conversion only if the codec of `other` converts its readings, the codec of `group`
    converts nothing, and the conversion brings the median of `group` closer to the median of
    `other`. Otherwise the result is (1, 0), which changes nothing.

    >>> tasmota = SensorGroup("tasmota", "tele/{sensor}/SENSOR", "Temperature", None,
    ...     {"hall": 71.6}, 1, unit=Unit("°F", 1.8))
    >>> zigbee = SensorGroup("zigbee2mqtt", "zigbee2mqtt/{sensor}", "temperature", None,
    ...     {"attic": 23.0}, 1)
    >>> conversion(zigbee, tasmota), conversion(tasmota, tasmota)
    ((1.8, 32.0), (1.0, 0.0))
    """
    if other.unit is None or group.unit is not None:
        return 1.0, 0.0
    for unit, factor, shift in OTHER_UNITS.get(group.quantity.unit, ()):
        distance = abs(factor * group.center + shift - other.center)
        is_closer = distance < abs(group.center - other.center)
        if may_be_same_unit(unit, other.unit.name) and is_closer:
            return factor, shift
    return 1.0, 0.0


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

    `left_out` does not return these sensors, because chosen sensors have the same names. A sensor
    is not returned if it is certainly a chosen sensor, because the topics of both are the same up
    to and including the name of the sensor.

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
