"""Warnings of `init`: sensors that are left out, need a setting, or may use another unit."""

from collections.abc import Iterator
from shlex import quote
from statistics import median

import click

from edge_tvbo.cli.init_prompts import Answers
from edge_tvbo.errors import ConfigError
from edge_tvbo.messages.formatting import listed
from edge_tvbo.messages.sensor_ids import MAX_NAME_LENGTH
from edge_tvbo.setup.config_template import toml_string
from edge_tvbo.setup.discovered_field import DiscoveredField, typical_group
from edge_tvbo.setup.sensor_discovery import SensorDiscovery
from edge_tvbo.setup.sensor_groups import SensorGroup, left_out, same_names, shown, source_name
from edge_tvbo.setup.sensor_units import (
    OtherReading,
    OtherUnit,
    other_readings,
    unconverted_unit,
    unusual_unit,
)


def warn_of_unusable(discovery: SensorDiscovery) -> None:
    """Print a warning if sensors were too many for `init`, or have names that it cannot use."""
    if discovery.is_full:
        click.echo(
            "There are too many sensors on this broker, so init leaves some out. Add the missing"
            " sensors to the file.",
            err=True,
        )
    if discovery.unusable:
        click.echo(
            "Sensors with names that cannot be used are left out: "
            f"{listed(map(shown, discovery.unusable))}. A level of a topic can have 1 to"
            f" {MAX_NAME_LENGTH} characters, without + # {{ }} and invisible characters; rename the"
            " sensors.",
            err=True,
        )


def warn_of_left_out(chosen: list[SensorGroup], groups: list[SensorGroup]) -> None:
    """Print which sensors `init` leaves out, although they measure the quantity of a new field.

    These sensors are in no chosen group. If one of them has the name of a chosen sensor, the two
    may be the same sensor.
    """
    quantities = {each.quantity for each in chosen}
    for number, group in enumerate(groups, 1):
        if group.quantity not in quantities or group in chosen:
            continue
        names = [shown(name) for name in left_out(group, chosen)]
        value = "" if group.value is None else f" The name of their value is {shown(group.value)}."
        if names:
            click.echo(
                f"Sensors of group {number} are left out: {listed(names)}.{value} To use them, run"
                " init in a terminal, and enter the numbers of the groups.",
                err=True,
            )
        if same := [shown(name) for name in same_names(group, chosen)]:
            click.echo(
                f"Sensors of group {number} are left out, because they have the names of chosen"
                f" sensors and are probably the same sensors: {listed(same)}. If they are other"
                " sensors, run init in a terminal, and enter the numbers of the groups.",
                err=True,
            )


def warn_of_retained(chosen: list[SensorGroup]) -> None:
    """Print, for `init`, each chosen sensor from which only a retained message was received."""
    retained = dict.fromkeys(shown(name) for each in chosen for name in each.retained)
    if retained:
        click.echo(
            f"Only a retained message was received from these sensors: {listed(retained)}. Such a"
            " message may be old, and the daemon does not use it. If one of the sensors does not"
            " exist any more, remove it from the file.",
            err=True,
        )


def check_commands(groups: list[SensorGroup]) -> None:
    """Print the integrations of chosen sensors for which `init` knows no activation command.

    Raises `ConfigError` if no activation command is known for any chosen sensor.
    """
    without = [each for each in groups if each.activate is None]
    integrations = " and ".join(dict.fromkeys(source_name(each.integration) for each in without))
    if len(without) == len(groups):
        raise ConfigError(
            f"--mode live needs sensors that reply to a command. There is no known command for"
            f" sensors of {integrations}; use --mode advise, which is for sensors that report on"
            " their own."
        )
    if without:
        click.echo(
            f"There is no known command for sensors of {integrations}. These sensors get a separate"
            ' field, with mode = "advise".',
            err=True,
        )


def warn_of_batteries(chosen: list[SensorGroup], groups: list[SensorGroup]) -> None:
    """Print, for `init`, which sensors possibly do not reply because they run on a battery.

    Only sensors of fields in live mode are printed.
    """
    powered = {
        (each.topic, name)
        for each in groups
        if each.value and each.value.lower().endswith("battery")
        for name in each.readings
    }
    live = [each for each in chosen if each.activate and each.activate.mode == "live"]
    asleep = [name for each in live for name in each.readings if (each.topic, name) in powered]
    if asleep:
        click.echo(
            'With mode = "live", each selected sensor must reply to a command. These sensors report'
            f" a battery: {listed(shown(name) for name in dict.fromkeys(asleep))}. If they sleep"
            ' and only report on their own, they do not reply, and need mode = "advise".',
            err=True,
        )


def warn_of_downlinks(chosen: list[SensorGroup]) -> None:
    """Print, for `init`, which settings the user must adapt to the chosen LoRaWAN devices."""
    lorawan = [each for each in chosen if each.activate and each.activate.mode == "lorawan"]
    devices = dict.fromkeys(shown(name) for each in lorawan for name in each.readings)
    if devices:
        click.echo(
            f"These LoRaWAN devices receive a command only after an uplink: {listed(devices)}."
            " The interval and reply_timeout must be longer than the time between two uplinks."
            " Replace the activation's payload with the command in the manual of the device.",
            err=True,
        )


def warn_of_units(fields: list[DiscoveredField], answers: Answers) -> None:
    """Print, for `init`, which sensors seem to use another unit than their field.

    `fields` are the fields of one quantity. If the user has not named the unit of this quantity,
    and the unit of the fields is unusual or uncertain, this unit is printed, too.
    """
    groups = [group for field in fields for group in field.groups]
    unit, reference, typical = fields[0].unit, fields[0].reference, typical_group(fields)
    sources = [source for field in fields for source in field.sources]
    converted: dict[tuple[str, str | None], list[SensorGroup]] = {}
    for source in sources:
        if source.is_converted:
            key = source.group.integration, source.group.announced_unit
            converted.setdefault(key, []).append(source.group)
    for found in converted.values():
        click.echo(_converted_text(found, groups, unit), err=True)
    for field in fields:
        for (_, other), found in field.others.items():
            text = _other_unit_text(found, groups, field, other)
            if answers.mean is None and not field.comparable:
                mean = other.converted(_median(found))
                text += f", and set the mean of its field to {mean:.4g}"
            click.echo(f"{text}.", err=True)
        for reading in other_readings(field.unannounced, typical, unit, field.sent):
            click.echo(_other_reading_text(reading, typical.center, unit), err=True)
    if all(each.other is None for each in sources) and not reference.unit:
        for text in dict.fromkeys(_unconverted_texts(groups, unit)):
            click.echo(text, err=True)
        if answers.unit is None and (text := _assumed_unit_text(fields, typical)):
            click.echo(text, err=True)


def _assumed_unit_text(fields: list[DiscoveredField], typical: SensorGroup) -> str:
    """Return a text about the unit of the fields, which the user has not named.

    The result is "" if the fields have the usual unit, and the readings seem to be in this unit.
    """
    unit, quantity, center = fields[0].unit, typical.quantity, typical.center
    groups = [group for field in fields for group in field.groups]
    if unit != quantity.unit:
        return (
            f"All sensors announce {unit}, so {unit} is the unit of {quantity.name}. To convert to"
            f" {quantity.unit}, remove the file and repeat the command with  --unit"
            f" {quote(quantity.unit)}"
        )
    units = [None if each.announced else unusual_unit(each) for each in groups]
    other = units[0]
    if other is None or any(each != other for each in units):
        return ""
    tables = [
        f"[fields.{quantity.name}{f'-{n}' if n > 1 else ''}]" for n in range(1, len(fields) + 1)
    ]
    return (
        f"The readings of {quantity.name}, with a median of {center:.4g}, count as {unit}, because"
        f" no message states their unit. {center:.4g} {other.name} are"
        f" {other.converted(center):.3g} {unit}: if the sensors send {other.name}, set  unit ="
        f" {toml_string(other.name)}  in {' and '.join(tables)}"
    )


def _converted_text(found: list[SensorGroup], groups: list[SensorGroup], unit: str) -> str:
    """Return a text about groups of one integration whose readings are converted to `unit`.

    `groups` are all groups of the quantity.
    """
    announced = found[0].announced_unit
    sent = f"announce {announced}" if announced else f"seem to send {found[0].quantity.unit}"
    return (
        f"Sensors of {_sensors_text(found, groups)} {sent}. scale and offset in the file convert"
        f" their readings to {unit}."
    )


def _other_unit_text(
    found: list[SensorGroup],
    groups: list[SensorGroup],
    field: DiscoveredField,
    other: OtherUnit,
) -> str:
    """Return a warning about groups of one integration, which seem to use the unit `other`.

    `groups` are all groups of the quantity. The last sentence of the warning has no full stop.
    """
    center = _median(found)
    return (
        f"Sensors of {_sensors_text(found, groups)} seem to send {other.name}: their median is"
        f" {center:.4g}, and {center:.4g} {other.name} are {other.converted(center):.4g}"
        f" {field.unit}. The median of {_sensors_text([field.reference], groups)} is"
        f" {field.reference.center:.4g} {field.unit}. If the sensors send {other.name}, add"
        f" {_settings(other)} to their source in the file"
    )


def _median(found: list[SensorGroup]) -> float:
    return median(value for each in found for value in each.readings.values())


def _sensors_text(some: list[SensorGroup], groups: list[SensorGroup]) -> str:
    """Return a text that names the integration of sensor groups.

    `some` contains these groups, and `groups` contains all groups of the quantity. If the
    integration has further groups, the text also names the sensors. In ESPHome, for example, each
    device is a group.
    """
    integration = some[0].integration
    text = source_name(integration)
    if len(some) == sum(each.integration == integration for each in groups):
        return text
    return f"{text} ({listed(shown(name) for each in some for name in each.readings)})"


def _other_reading_text(reading: OtherReading, center: float, unit: str) -> str:
    """Return a warning about a `reading` that seems to be in another unit than its field.

    `center` is the median of the field's readings, in `unit`, the unit of the field.
    """
    name, other = shown(reading.sensor), reading.other
    sent = f"{reading.sent:.4g}"
    converted = f", which is converted to {reading.value:.4g} {unit}"
    if other.name == unit:
        why = ", so the conversion is probably wrong"
        settings = "without scale and offset"
    else:
        why = f", but {sent} {other.name} are {other.converted(reading.sent):.4g} {unit}"
        settings = f"with {_settings(other)}"
    return (
        f"The reading of {name} is {sent}{converted if reading.is_converted else ''}. The median of"
        f" all sensors is {center:.4g} {unit}{why}. If {name} sends {other.name}, add a"
        f" separate table [[fields.<name>.readings]] for {name}, {settings}."
    )


def _unconverted_texts(groups: list[SensorGroup], unit: str) -> Iterator[str]:
    """Yield a warning for each sensor group whose readings may not be in `unit`.

    These readings may be in the usual unit of the quantity instead.
    """
    for group in groups:
        if usual := unconverted_unit(group, unit):
            yield (
                f"Readings of {source_name(group.integration)} count as {unit} and are not"
                f" converted. If the sensors send {usual.name}, add {_settings(usual)} to their"
                " source in the file."
            )


def _settings(other: OtherUnit) -> str:
    """Return the settings, as text, with which a source converts readings from the unit `other`."""
    return f"scale = {other.scale:.5g} and offset = {other.offset:.5g}"
