"""Sensor units: finds discovered readings that are not in the unit of their field.

A unit is recognised from the readings: after a conversion from this unit, they are close to the
other readings of the field. For sensors that the user names, this module converts the usual
readings of the quantity.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from edge_tvbo.config.field_units import wrong_unit
from edge_tvbo.control.mistaken_units import OTHER_UNITS
from edge_tvbo.messages.formatting import may_be_same_unit
from edge_tvbo.setup.known_quantities import Quantity
from edge_tvbo.setup.sensor_groups import SensorGroup

# Distances from the center, in spreads. A value may be in another unit if it is farther away than
# the first distance, and closer than the second distance after its conversion from that unit:
MIN_FAR_SPREADS, MAX_NEAR_SPREADS = 5.0, 2.0

ONE_UNIT = ("zigbee2mqtt", "shelly", "tasmota")  # formats that always use the usual unit
NAMES_CELSIUS = re.compile(r"(_c|tempc|temperaturec|\btc|celsius)\b", re.IGNORECASE)
RARE_UNITS = {  # unit -> (another unit that a user may name, but that no reading suggests, factor)
    "hPa": (
        ("mbar", 1.0),
        ("bar", 0.001),
        ("mmHg", 0.750062),
        ("inHg", 0.02953),
        ("psi", 0.0145038),
    )
}


class OtherUnit(NamedTuple):
    """A unit in which sensors may report: value = factor * (value in the field's unit) + shift."""

    name: str
    factor: float
    shift: float

    @property
    def scale(self) -> float:
        """The setting `scale` of a source, to convert from this unit to the field's unit."""
        return 1.0 / self.factor

    @property
    def offset(self) -> float:
        """The setting `offset` of a source, to convert from this unit to the field's unit."""
        return 0.0 - self.shift / self.factor

    def converted(self, value: float) -> float:
        """Convert `value` from this unit to the field's unit, and return the result."""
        return (value - self.shift) / self.factor


class OtherReading(NamedTuple):
    """A reading that seems to be in another unit than the readings of other sensors."""

    sensor: str
    sent: float  # as the sensor sent it
    value: float  # after the conversion that the configuration contains
    is_converted: bool  # whether there is such a conversion
    other: OtherUnit  # the unit in which the sensor seems to have sent the reading


def other_units(unit: str) -> list[OtherUnit]:
    """Return the units, other than `unit`, in which sensors may report the same quantity.

    >>> [each.name for each in other_units("F")]
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


def units_of(quantity: Quantity) -> dict[str, OtherUnit]:
    """Return the units in which sensors may report `quantity`; the keys are the units' names.

    Each unit is described by its conversion from the usual unit of the quantity. The result is
    empty for an unknown quantity.

    >>> list(units_of(Quantity("temperature", "°C", 3.0))), units_of(Quantity("radon", "", 10.0))
    (['°C', '°F', 'K'], {})
    """
    if not quantity.unit:
        return {}
    rare = (OtherUnit(*each, 0.0) for each in RARE_UNITS.get(quantity.unit, ()))
    units = (OtherUnit(quantity.unit, 1.0, 0.0), *other_units(quantity.unit), *rare)
    return {each.name: each for each in units}


def unit_of(quantity: Quantity, unit: str | None) -> str:
    """Return the unit for `quantity`: the user's `unit`, or else the usual unit of the quantity.

    The usual unit is returned if `unit` is None, or if only other quantities have this unit.

    >>> heat, damp = Quantity("temperature", "°C", 3.0), Quantity("humidity", "%", 10.0)
    >>> unit_of(heat, "°F"), unit_of(damp, "°F"), unit_of(damp, "%RH"), unit_of(heat, None)
    ('°F', '%', '%RH', '°C')
    """
    return quantity.unit if unit is None or wrong_unit(quantity.name, unit) else unit


def usual_readings(quantity: Quantity, unit: str) -> tuple[float, float]:
    """Return the usual mean and spread of the readings of `quantity` in `unit`.

    An unknown unit, such as "%RH", counts as another name of the quantity's unit.

    >>> usual_readings(Quantity("temperature", "°C", spread=3.0, mean=20.0), "K")
    (293.15, 3.0)
    """
    for other in units_of(quantity).values():
        if unit and may_be_same_unit(other.name, unit):
            return other.factor * quantity.mean + other.shift, other.factor * quantity.spread
    return quantity.mean, quantity.spread


def other_readings(
    readings: Mapping[str, float],
    typical: SensorGroup,
    unit: str,
    sent: Mapping[str, float] = MappingProxyType({}),
) -> Iterator[OtherReading]:
    """Yield the `readings` that seem to be in another unit than `unit`.

    The group `typical` has readings in `unit`. For readings that `scale` and `offset` have
    converted to `unit`, the mapping `sent` contains the values before the conversion. If such a
    value seems to be in `unit` already, the conversion is wrong, and the reading is yielded, too.

    >>> rooms = {"attic": 24.0, "hall": 21.0, "office": 22.0, "porch": 66.2}
    >>> group = SensorGroup("json", "home/{sensor}", "t", None, rooms, 4)
    >>> [(each.sensor, each.sent, each.other.name) for each in other_readings(rooms, group, "°C")]
    [('porch', 66.2, '°F')]
    """
    others = other_units(unit)
    for sensor, value in readings.items():
        if not _is_far(value, typical):
            continue
        raw, is_converted = sent.get(sensor, value), sensor in sent
        for other in [OtherUnit(unit, 1.0, 0.0), *others] if is_converted else others:
            if _is_near(other.converted(raw), typical):
                yield OtherReading(sensor, raw, value, is_converted, other)


def _is_far(value: float, group: SensorGroup) -> bool:
    """Return whether `value` is so far from the center of `group` that it may have another unit."""
    return abs(value - group.center) > MIN_FAR_SPREADS * group.spread


def _is_near(value: float, group: SensorGroup) -> bool:
    """Return whether a converted `value` is so near the center of `group` that the units agree."""
    return abs(value - group.center) < MAX_NEAR_SPREADS * group.spread


def reference_group(groups: Sequence[SensorGroup], unit: str) -> SensorGroup:
    """Return the group of a field that most probably sends its readings in `unit`.

    If the codec of a group converts to `unit`, this group is returned. Otherwise, each group is
    compared with all groups, and the result is the group with the most groups near it. Another
    group is near if its median is near, as it stands or after a conversion from another unit.
    """

    def agreeing(group: SensorGroup) -> int:
        return sum(
            not _is_far(each.center, group) or other_unit(each, group, unit) is not None
            for each in groups
        )

    possible = [each for each in groups if announced_unit(each, unit) is None] or groups
    return next((each for each in groups if each.unit), None) or max(possible, key=agreeing)


def announced_unit(group: SensorGroup, unit: str) -> OtherUnit | None:
    """Return the unit that all sensors of `group` announce; None if this is `unit` itself.

    The result is also None if the sensors do not announce one common unit, or if one of the two
    units is unknown.

    >>> group = SensorGroup("json", "home/{sensor}", "pressure", None, {"hall": 1013.0}, 1,
    ...     announced={"hall": "hPa"})
    >>> announced_unit(group, "kPa").converted(1013.0), announced_unit(group, "hPa")
    (101.3, None)
    """
    units = units_of(group.quantity)
    sent = units.get(group.announced_unit or "")
    wanted = next((each for each in units.values() if may_be_same_unit(each.name, unit)), None)
    if sent is None or wanted is None or sent == wanted:
        return None
    factor = sent.factor / wanted.factor
    return OtherUnit(sent.name, factor, sent.shift - factor * wanted.shift)


def unusual_unit(group: SensorGroup) -> OtherUnit | None:
    """Return the unit, other than the usual one, in which the readings of `group` would be usual.

    The result is None if there is no such unit, or if the readings are usual in the usual unit of
    their quantity. The result is also None if the format or the name of the value shows that the
    readings are in the usual unit.

    >>> values = {"attic": 70.0, "hall": 71.0, "office": 72.0}
    >>> group = SensorGroup("json", "home/{sensor}", "temp", None, values, 3)
    >>> in_celsius = SensorGroup("json", "home/{sensor}", "temp_c", None, values, 3)
    >>> unusual_unit(group).name, unusual_unit(in_celsius)
    ('°F', None)
    """
    quantity, center = group.quantity, group.center
    if group.integration in ONE_UNIT or NAMES_CELSIUS.search(group.value or group.topic):
        return None
    if abs(center - quantity.mean) <= MIN_FAR_SPREADS * quantity.spread:
        return None
    near = MAX_NEAR_SPREADS * quantity.spread
    others = other_units(quantity.unit)
    return next(
        (each for each in others if abs(each.converted(center) - quantity.mean) < near), None
    )


def other_unit(group: SensorGroup, reference: SensorGroup, unit: str) -> OtherUnit | None:
    """Return the unit that `group` seems to use instead of `unit`.

    The group `reference` uses `unit`. The result is None if `group` also seems to use `unit`, or if
    no other unit fits. The result is also None if the codec of `group` converts to `unit`.
    """
    if group.unit is not None or not _is_far(group.center, reference):
        return None
    others = other_units(unit)
    return next(
        (each for each in others if _is_near(each.converted(group.center), reference)), None
    )


def unconverted_unit(group: SensorGroup, unit: str) -> OtherUnit | None:
    """Return the usual unit of a group's quantity if `group` may use it instead of `unit`.

    The result is None if `unit` is the usual unit, or cannot be converted to it. The result is also
    None if the unit of the readings is known, because the sensors announce the unit, or because the
    codec converts to it.

    >>> hall = SensorGroup("zigbee2mqtt", "zigbee2mqtt/{sensor}", "temperature", None,
    ...     {"hall": 21.0}, 1)
    >>> unconverted_unit(hall, "K").name, unconverted_unit(hall, "°C")
    ('°C', None)
    """
    if group.unit is not None or group.announced_unit is not None:
        return None
    usual = group.quantity.unit
    return next((each for each in other_units(unit) if each.name == usual), None)


def conversion(group: SensorGroup, other: SensorGroup) -> tuple[float, float]:
    """Return the scale and the offset that convert a group's readings to the unit of `other`.

    The result is (1, 0), which changes nothing, unless three conditions hold:

    - The codec of the group `other` converts its readings.
    - The codec of `group` converts nothing.
    - The conversion brings the median of `group` closer to the median of `other`.

    >>> from edge_tvbo.setup.sensor_groups import Unit
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
