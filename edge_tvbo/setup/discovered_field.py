"""Discovered field: a field whose sources are sensor groups, which may use different units."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from edge_tvbo.messages.formatting import may_be_same_unit
from edge_tvbo.messages.sensor_ids import ids
from edge_tvbo.setup.config_template import FieldValues, SourceValues
from edge_tvbo.setup.sensor_groups import SensorGroup, Unit
from edge_tvbo.setup.sensor_units import (
    OtherUnit,
    announced_unit,
    conversion,
    other_unit,
    reference_group,
    unit_of,
    units_of,
)


class DiscoveredSource(NamedTuple):
    """One source of a discovered field: sensors of one group."""

    group: SensorGroup
    sensors: Mapping[str, str]  # sensor ids, each with the sensor's name in topics
    scale: float  # of the conversion to the field's unit
    offset: float
    other: OtherUnit | None  # unit that the sensors seem to use, without a conversion

    @property
    def is_converted(self) -> bool:
        """Whether `scale` and `offset` change the readings of the source."""
        return (self.scale, self.offset) != (1.0, 0.0)

    @property
    def sent(self) -> dict[str, float]:
        """The last reading of each sensor of the source, before the conversion."""
        return {sensor: self.group.readings[name] for sensor, name in self.sensors.items()}

    @property
    def readings(self) -> dict[str, float]:
        """The last reading of each sensor of the source, after the conversion."""
        return {sensor: self.scale * value + self.offset for sensor, value in self.sent.items()}

    def values(self) -> SourceValues:
        """Return the values that fill the configuration template for this source."""
        return SourceValues(
            sensors=self.sensors,
            topic=self.group.topic,
            payload=self.group.integration,
            value=self.group.value,
            unit=self.group.unit.name if self.group.unit else None,
            scale=self.scale,
            offset=self.offset,
            activate=self.group.activate,
        )


class DiscoveredField(NamedTuple):
    """A field of discovered sensors, made by `discovered_fields`."""

    groups: Sequence[SensorGroup]  # all measure the same quantity
    unit: str
    reference: SensorGroup  # `reference_group` of all groups that measure the quantity
    sources: Sequence[DiscoveredSource]

    @property
    def comparable(self) -> dict[str, float]:
        """The last readings of the field's sources; sources in other units are left out."""
        found: dict[str, float] = {}
        for each in self.sources:
            found |= each.readings if each.other is None else {}
        return found

    @property
    def unannounced(self) -> dict[str, float]:
        """The `comparable` readings of all sensors except those that announce the field's unit."""
        announced = {
            sensor
            for each in self.sources
            for sensor, name in each.sensors.items()
            if (unit := each.group.announced.get(name))
            and (each.group.announced_unit or may_be_same_unit(unit, self.unit))
        }
        return {key: value for key, value in self.comparable.items() if key not in announced}

    @property
    def sent(self) -> dict[str, float]:
        """The last readings of the field's converted sources, before their conversion."""
        converted = (each.sent for each in self.sources if each.is_converted)
        return {sensor: value for sent in converted for sensor, value in sent.items()}

    @property
    def others(self) -> dict[tuple[str, OtherUnit], list[SensorGroup]]:
        """The sensor groups of the field that use another unit than the field.

        The keys of the result are pairs of an integration and a unit.
        """
        found: dict[tuple[str, OtherUnit], list[SensorGroup]] = {}
        for each in self.sources:
            if each.other is not None:
                found.setdefault((each.group.integration, each.other), []).append(each.group)
        return found

    @property
    def whole(self) -> SensorGroup:
        """One group with the readings of all sensors of the field, under the sensors' ids.

        Readings of sources in other units are left out, unless all sources are in other units.
        """
        readings = self.comparable
        for each in () if readings else self.sources:
            readings |= each.readings
        units = units_of(self.reference.quantity).values()
        factor = next(
            (each.factor for each in units if may_be_same_unit(each.name, self.unit)), 1.0
        )
        return replace(self.reference, readings=readings, unit=Unit(self.unit, factor))

    def values(self, mean: float | None, spread: float | None) -> FieldValues:
        """Return the values that fill the configuration template for this field.

        If `mean` or `spread` is None, it is estimated from the readings.
        """
        whole = self.whole
        return FieldValues(
            name=whole.quantity.name,
            sources=tuple(each.values() for each in self.sources),
            unit=self.unit,
            mean=whole.mean if mean is None else mean,
            spread=whole.spread if spread is None else spread,
        )


def discovered_fields(
    parts: Sequence[Sequence[SensorGroup]], unit: str | None
) -> list[DiscoveredField]:
    """Return a field for each list of sensor groups in `parts`.

    All groups measure the same quantity, and each group becomes a source of its field. If `unit` is
    None, and all sensors announce the same unit, the fields have this unit. Otherwise, `unit_of`
    determines the unit of the fields. The unit of a source is the announced unit, or is found by a
    comparison of all groups in all parts.
    """
    groups = list(chain(*parts))
    announced = groups[0].announced_unit
    if unit is None and all(each.announced_unit == announced for each in groups):
        unit = announced
    unit = unit_of(groups[0].quantity, unit)
    reference = reference_group(groups, unit)
    return [
        DiscoveredField(groups, unit, reference, list(_sources(groups, reference, unit)))
        for groups in parts
    ]


def typical_group(fields: Sequence[DiscoveredField]) -> SensorGroup:
    """Return one sensor group with the readings of all `fields`.

    Readings in another unit than the unit of the fields are left out, unless all readings are in
    other units.
    """
    readings = [value for field in fields for value in field.comparable.values()]
    numbered = {str(number): value for number, value in enumerate(readings)}
    reference = fields[0].reference
    return replace(reference, readings=numbered or reference.readings)


def _sources(
    groups: Sequence[SensorGroup], reference: SensorGroup, unit: str
) -> Iterator[DiscoveredSource]:
    """Yield the sources of a discovered field.

    `reference` is the group, of this field or of another field of the same quantity, that most
    probably sends its readings in `unit`.

    If several integrations recognise the messages of a sensor, only the first of these integrations
    gets the sensor.
    """
    taken: set[str] = set()  # ids of the sensors
    seen: dict[tuple[str, str], str] = {}  # topic and sensor -> the first integration
    for group in groups:
        names = [
            name
            for name in group.readings
            if seen.setdefault((group.topic, name), group.integration) == group.integration
        ]
        if not names:
            continue
        sensors = ids(names, taken)
        taken.update(sensors)
        scale, offset, other = 1.0, 0.0, None
        if announced := announced_unit(group, unit):
            scale, offset = announced.scale, announced.offset
        elif group.announced_unit is None:
            scale, offset = conversion(group, reference)
            is_converted = (scale, offset) != (1.0, 0.0)
            other = None if is_converted else other_unit(group, reference, unit)
        yield DiscoveredSource(group, sensors, scale, offset, other)
