"""Fields of a first configuration: their sensors are named by the user, or found on the broker."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from edge_tvbo.cli.init_prompts import Answers
from edge_tvbo.errors import Code, ConfigError, LinkError

if TYPE_CHECKING:
    from edge_tvbo.config.mqtt_settings import Mqtt
    from edge_tvbo.setup.config_template import FieldValues
    from edge_tvbo.setup.quantities import Quantity
    from edge_tvbo.setup.sensor_discovery import SensorDiscovery
    from edge_tvbo.setup.sensor_groups import OtherUnit, SensorGroup

# `init` prints the first groups, up to this number. It also prints all further groups with the
# quantity of the first group, or with a quantity that the user wants.
MAX_LISTED_GROUPS = 9
QUANTITY = "{quantity}"  # stands for the quantity in --topic
OPTIONS = {  # of `init`, for settings that the text of a connection problem names
    "mqtt.host": "--host",
    "mqtt.port": "--port",
    "mqtt.username": "--user",
    "mqtt.password_file": "--password-file",
    "[mqtt.tls]": "--tls",
    "mqtt.tls.ca": "--ca",
}
Choose = Callable[["list[SensorGroup]", Answers], "list[SensorGroup]"]


class NothingFound(LinkError):
    """Error if no message on the broker was a reading of a quantity that the user wants."""

    def __init__(self, text: str) -> None:
        super().__init__(text, Code.ARGUMENT)


def make_fields(answers: Answers, password: str | None, choose: Choose) -> "list[FieldValues]":
    """Return the template values of each field of a first configuration.

    The sensors of the fields are named in `answers`, or found by listening to the broker.
    """
    if answers.password_file is not None and answers.user is None:
        raise ConfigError("--password-file needs a user name; add  --user NAME")
    if answers.sensors:
        return _named_sensors(answers)
    if answers.seconds is None:
        raise ConfigError(
            "There are no sensors.\nName them:  --sensor hall --sensor attic\n"
            "Or find them by listening to the broker:  --listen 60s"
        )
    return _found_sensors(answers, password, choose)


def _named_sensors(answers: Answers) -> "list[FieldValues]":
    """Return, for each quantity that the named sensors measure, the template values of a field."""
    from edge_tvbo.setup.sensor_discovery import is_usable_name

    for sensor in answers.sensors:
        if not is_usable_name(sensor):
            raise ConfigError(
                f"--sensor is {sensor!r}; allowed: the name of a sensor in its topic, 1 to 64"
                " characters without / + # { }"
            )
    names = tuple(dict.fromkeys(answers.quantities)) or ("temperature",)
    if len(names) > 1 and QUANTITY not in answers.topic and answers.value is None:
        raise ConfigError(
            f"The quantities {', '.join(names)} cannot have the same topic. Write {QUANTITY} where"
            f" the topics differ:  --topic 'home/{{sensor}}/{QUANTITY}'"
        )
    return [_named_field(name, answers) for name in names]


def _named_field(name: str, answers: Answers) -> "FieldValues":
    """Return the template values of a field of named sensors, which measure the quantity `name`."""
    from edge_tvbo.messages.sensor_ids import ids
    from edge_tvbo.setup.config_template import FieldValues, SourceValues
    from edge_tvbo.setup.quantities import field_name, known_quantity

    quantity = known_quantity(name)
    value = None if answers.value is None else answers.value.replace(QUANTITY, name)
    unit = quantity.unit if answers.unit is None else answers.unit
    source = SourceValues(
        sensors=ids(dict.fromkeys(answers.sensors)),
        topic=answers.topic.replace(QUANTITY, name),
        payload=answers.payload,
        value=value,
        unit=_unit_setting(answers.payload, value, unit),
    )
    return FieldValues(
        name=field_name(name),
        sources=(source,),
        unit=unit,
        mean=20.0 if answers.mean is None else answers.mean,
        spread=quantity.spread if answers.spread is None else answers.spread,
    )


def _unit_setting(payload: str, value: str | None, unit: str) -> str | None:
    """Return `unit` if the payload format needs it as the setting `unit`; otherwise None."""
    from edge_tvbo_adapters.payloads import convertible_units

    try:
        return unit if unit in convertible_units(payload, value) else None
    except ConfigError:  # the check of the new file reports it, and names the option
        return None


def _found_sensors(answers: Answers, password: str | None, choose: Choose) -> "list[FieldValues]":
    """Listen to the broker; return the template values of fields for the sensors that were found.

    Each field contains the chosen groups with the same quantity and the same activation mode.
    """
    from edge_tvbo.messages.formatting import listed
    from edge_tvbo.setup.sensor_discovery import MAX_NAME_LENGTH
    from edge_tvbo.setup.sensor_groups import shown

    discovery, listened = _listen(answers, password)
    groups = _groups(discovery, answers._replace(seconds=listened))
    chosen = choose(groups, answers)
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
    _name_left_out(chosen, groups)
    _name_retained(chosen)
    if answers.mode == "live":
        _check_commands(chosen)
        _warn_of_batteries(chosen, discovery.groups())
        _warn_of_downlinks(chosen)
    fields: dict[tuple[Quantity, str], list[SensorGroup]] = {}
    for group in sorted(chosen, key=lambda each: _mode(each, answers) == "advise"):
        fields.setdefault((group.quantity, _mode(group, answers)), []).append(group)
    return [_field_of_groups(each, answers) for each in fields.values()]


def _mode(group: "SensorGroup", answers: Answers) -> str:
    """Return the activation mode that `init` writes for the sensors of a group.

    The mode is "advise" if the user has chosen this mode, or if no command is known that activates
    the sensors.
    """
    return "advise" if answers.mode == "advise" or not group.activate else group.activate.mode


def _field_of_groups(groups: "list[SensorGroup]", answers: Answers) -> "FieldValues":
    """Return the settings that `init` writes for a field with the sensors of all `groups`.

    All groups measure the same quantity. Each group becomes a source of the field.
    """
    from msgspec.structs import replace

    from edge_tvbo.messages.sensor_ids import ids
    from edge_tvbo.setup import sensor_groups
    from edge_tvbo.setup.config_template import FieldValues, SourceValues

    unit = groups[0].quantity.unit if answers.unit is None else answers.unit
    right = sensor_groups.reference(groups, unit)
    sources: list[SourceValues] = []
    readings: dict[str, float] = {}
    sent: dict[str, float] = {}  # the readings that are converted, before their conversion
    unusable: set[str] = set()  # sensors whose readings seem to be in another unit
    others: dict[tuple[str, OtherUnit], list[SensorGroup]] = {}  # the groups of these sensors
    seen: dict[tuple[str, str], str] = {}  # the first integration of each topic and sensor
    for group in groups:
        names = [
            name
            for name in group.readings
            if seen.setdefault((group.topic, name), group.integration) == group.integration
        ]
        sensors = ids(names, readings)
        scale, offset = sensor_groups.conversion(group, right)
        readings |= {
            sensor: scale * group.readings[name] + offset for sensor, name in sensors.items()
        }
        if sensors and (scale, offset) != (1.0, 0.0):
            sent |= {sensor: group.readings[name] for sensor, name in sensors.items()}
            click.echo(
                f"Sensors of {sensor_groups.source_name(group.integration)} seem to send"
                f" {group.quantity.unit}. scale and offset in the file convert their readings to"
                f" {unit}.",
                err=True,
            )
        elif sensors and (other := sensor_groups.other_unit(group, right, unit)):
            unusable.update(sensors)
            others.setdefault((group.integration, other), []).append(group)
        if sensors:
            sources.append(
                SourceValues(
                    sensors=sensors,
                    topic=group.topic,
                    payload=group.integration,
                    value=group.value,
                    unit=group.unit.name if group.unit else None,
                    scale=scale,
                    offset=offset,
                    activate=group.activate,
                )
            )
    for (_, other), found in others.items():
        click.echo(sensor_groups.other_unit_text(found, groups, right, unit, other), err=True)
    usable = {sensor: value for sensor, value in readings.items() if sensor not in unusable}
    every = replace(right, readings=usable or readings)
    for text in sensor_groups.in_other_units(every, unit, sent):
        click.echo(text, err=True)
    if not unusable and not right.unit:
        texts = (sensor_groups.unconverted_text(each, unit) for each in groups)
        for text in dict.fromkeys(filter(None, texts)):
            click.echo(text, err=True)
    return FieldValues(
        name=every.quantity.name,
        sources=tuple(sources),
        unit=unit,
        mean=every.mean if answers.mean is None else answers.mean,
        spread=every.spread if answers.spread is None else answers.spread,
    )


def _check_commands(groups: "list[SensorGroup]") -> None:
    """Print the integrations of chosen sensors for which `init` knows no activation command.

    Raises `ConfigError` if no activation command is known for any chosen sensor.
    """
    from edge_tvbo.setup.sensor_groups import source_name

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


def _name_left_out(chosen: "list[SensorGroup]", groups: "list[SensorGroup]") -> None:
    """Print which sensors `init` leaves out, although they measure the quantity of a new field.

    These sensors are in no chosen group. If one of them has the name of a chosen sensor, the two
    may be the same sensor.
    """
    from edge_tvbo.messages.formatting import listed
    from edge_tvbo.setup.sensor_groups import left_out, same_names, shown

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


def _name_retained(chosen: "list[SensorGroup]") -> None:
    """Print, for `init`, each chosen sensor from which only a retained message was received."""
    from edge_tvbo.messages.formatting import listed
    from edge_tvbo.setup.sensor_groups import shown

    retained = dict.fromkeys(shown(name) for each in chosen for name in each.retained)
    if retained:
        click.echo(
            f"Only a retained message was received from these sensors: {listed(retained)}. Such a"
            " message may be old, and the daemon does not use it. If one of the sensors does not"
            " exist any more, remove it from the file.",
            err=True,
        )


def _warn_of_batteries(chosen: "list[SensorGroup]", groups: "list[SensorGroup]") -> None:
    """Print, for `init`, which sensors possibly do not reply because they run on a battery.

    Only sensors of fields in live mode are printed.
    """
    from edge_tvbo.messages.formatting import listed
    from edge_tvbo.setup.sensor_groups import shown

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


def _warn_of_downlinks(chosen: "list[SensorGroup]") -> None:
    """Print, for `init`, which settings the user must adapt to the chosen LoRaWAN devices."""
    from edge_tvbo.messages.formatting import listed
    from edge_tvbo.setup.sensor_groups import shown

    lorawan = [each for each in chosen if each.activate and each.activate.mode == "lorawan"]
    devices = dict.fromkeys(shown(name) for each in lorawan for name in each.readings)
    if devices:
        click.echo(
            f"These LoRaWAN devices receive a command only after an uplink: {listed(devices)}."
            " The interval and reply_timeout must be longer than the time between two uplinks."
            " Replace the activation's payload with the command in the manual of the device.",
            err=True,
        )


def _listen(answers: Answers, password: str | None) -> "tuple[SensorDiscovery, float]":
    """Listen to the broker for `answers.seconds`, or until Ctrl-C.

    Return the sensors that `init` has found, and for how many seconds it listened.
    """
    from edge_tvbo_adapters.mqtt.listen import listen
    from edge_tvbo_adapters.payloads import all_presets, convertible_units, make_codec

    from edge_tvbo.setup.sensor_discovery import SensorDiscovery

    discovery = SensorDiscovery(all_presets(), make_codec, convertible_units, answers.unit)
    address, seconds = f"{answers.host}:{answers.port}", answers.seconds or 0.0
    start = monotonic()
    try:
        click.echo(
            f"Listening to {address} for {seconds:g} s; press Ctrl-C to stop earlier.", err=True
        )
        with _naming_options(answers):
            listen(_mqtt(answers, password), "init", seconds, discovery.add_message)
    except KeyboardInterrupt:
        click.echo(
            f"Ended after {monotonic() - start:.0f} s. Sensors that sent nothing in this time are"
            " missing.",
            err=True,
        )
    return discovery, min(seconds, round(monotonic() - start, 1))


@contextmanager
def _naming_options(answers: Answers) -> Iterator[None]:
    """Replace names of settings by options of `init` in the text of a connection problem.

    There is no configuration yet in which the user could change a setting. Raises `ConfigError` if
    the file of --ca is invalid.
    """
    try:
        yield
    except LinkError as error:
        if error.code is Code.NAMED_FILE:
            text = f"--ca is {answers.ca}, which has no certificate in PEM format."
            raise ConfigError(text) from None
        options = OPTIONS if answers.ca is None else OPTIONS | {"[mqtt.tls]": "--ca"}
        keys = "|".join(rf"{re.escape(key)}(?!\w)" for key in options)
        text = re.sub(keys, lambda key: options[key[0]], str(error))
        raise LinkError(text, error.code) from None


def _mqtt(answers: Answers, password: str | None) -> "Mqtt":
    from edge_tvbo.config.field_types import Secret
    from edge_tvbo.config.mqtt_settings import Mqtt, Tls

    if answers.password_file is not None:
        password = _password_in(answers.password_file)
    return Mqtt(
        host=answers.host,
        port=answers.port,
        username=answers.user,
        password=None if password is None else Secret(password),
        tls=Tls(ca=answers.ca) if answers.is_encrypted else None,
    )


def _password_in(file: Path) -> str:
    """Return the content of `file`: the password for the broker to which `init` listens."""
    try:
        return file.read_text(encoding="utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigError(
            f"--password-file is {file}, which is not a UTF-8 text file; save it as UTF-8."
        ) from None


def _groups(discovery: "SensorDiscovery", answers: Answers) -> "list[SensorGroup]":
    """Print and return the sensor groups that `init` found for the wanted quantities.

    Raises `NothingFound` if a wanted quantity has no group.
    """
    wanted = answers.quantities
    groups = [
        each
        for each in discovery.groups()
        if not wanted or any(_is_wanted(each, quantity) for quantity in wanted)
    ]
    listed: list[SensorGroup] = []
    others: list[SensorGroup] = []
    for place, group in enumerate(groups):
        is_first = place < MAX_LISTED_GROUPS or group.quantity == groups[0].quantity
        (listed if wanted or is_first else others).append(group)
    for number, group in enumerate(listed, 1):
        click.echo(f"{number:>3}  {group.describe()}")
    _name_unlisted(others)
    missing = [each for each in wanted if not any(_is_wanted(group, each) for group in groups)]
    if not groups or missing:
        raise NothingFound(_nothing_found(discovery, answers, missing))
    return listed


def _is_wanted(group: "SensorGroup", quantity: str) -> bool:
    """Return whether `quantity`, in any spelling, is the quantity or the `value` of a group."""
    from edge_tvbo.setup.quantities import known_quantity

    spellings = {quantity.lower(), known_quantity(quantity).name.lower()}
    return group.quantity.name in spellings or (group.value or "").lower() in spellings


def _name_unlisted(groups: "list[SensorGroup]") -> None:
    """Print the known quantities of the sensor groups that `init` has found but does not list."""
    from edge_tvbo.messages.formatting import counted, listed

    known = [each.quantity.name for each in groups if each.quantity.unit]
    if known:
        click.echo(
            f"     {counted(len(known), 'more group')} of {listed(dict.fromkeys(known))}; to list"
            " all groups of a quantity, name the quantity with --quantity"
        )


def first_groups(groups: "list[SensorGroup]", answers: Answers) -> "list[SensorGroup]":
    """Return the groups that `init` chooses by default, for each quantity that `answers` names.

    For each quantity, the function returns the first group with this quantity, and the `companions`
    of this group: the groups that become sources of the same field. If `answers` names no quantity,
    the quantity of the first group is chosen. Each group is returned once, even if `answers` names
    its quantity twice, as in ``--quantity temperature --quantity temp``.
    """
    from edge_tvbo.setup.sensor_groups import companions

    firsts = [
        next(each for each in groups if _is_wanted(each, wanted))
        for wanted in dict.fromkeys(answers.quantities)
    ]
    chosen: list[SensorGroup] = []
    for first in firsts or groups[:1]:
        chosen += [each for each in companions(first, groups) if each not in chosen]
    return chosen


def groups_without_prompt(groups: "list[SensorGroup]", answers: Answers) -> "list[SensorGroup]":
    """Return the `first_groups`; if `answers` names no quantity, print the other quantities.

    These are the quantities that were found, have a known unit, and do not become a field.
    """
    from edge_tvbo.messages.formatting import listed

    chosen = first_groups(groups, answers)
    known = dict.fromkeys(each.quantity for each in groups if each.quantity.unit)
    others = [each.name for each in known if each not in {group.quantity for group in chosen}]
    if others and not answers.quantities:
        click.echo(
            f"Only {chosen[0].quantity.name} becomes a field. Other quantities were found:"
            f" {listed(others)}. Name each wanted quantity with --quantity.",
            err=True,
        )
    return chosen


def chosen_groups(groups: "list[SensorGroup]", answers: Answers) -> "list[SensorGroup]":
    """Return the groups that the user of `init` chooses for the fields.

    If there is only one choice, the user is not prompted.
    """
    if len(groups) <= max(1, len(set(answers.quantities))):
        return groups
    usual = [groups.index(each) + 1 for each in first_groups(groups, answers)]

    def read(text: str) -> list[int]:
        words = text.replace(",", " ").split()
        numbers = [int(each) if each.isdecimal() else 0 for each in words]
        if not numbers or not all(0 < each <= len(groups) for each in numbers):
            raise click.BadParameter(f"{text!r} is not a list of numbers from 1 to {len(groups)}.")
        return sorted(set(numbers))

    chosen = click.prompt(
        "Numbers of the groups to use, separated by spaces; each quantity becomes a field",
        default=" ".join(map(str, usual)),
        value_proc=read,
    )
    return [groups[number - 1] for number in chosen]


def _nothing_found(discovery: "SensorDiscovery", answers: Answers, missing: list[str]) -> str:
    from edge_tvbo.messages.formatting import listed
    from edge_tvbo.setup.sensor_groups import shown

    of = f" of {', '.join(missing)}" if missing else ""
    quantities = dict.fromkeys(shown(each.quantity.name) for each in discovery.groups())
    lines = [
        f"None of the {discovery.messages} messages in {answers.seconds:g} s was a reading{of} in a"
        " format that init recognises."
    ]
    if not discovery.messages:
        lines = [
            f"No message was received in {answers.seconds:g} s: no sensor reported, or this login"
            " has no permission to read the topics of the sensors."
        ]
    if quantities:
        lines.append(f"Readings of other quantities: {listed(quantities)}.")
    if discovery.unknown:
        lines.append(f"Topics of other messages: {', '.join(map(shown, discovery.unknown))}")
    return "\n".join(
        [
            *lines,
            "Listen for longer, or name the sensors and their topic:",
            "    edge-tvbo init --sensor hall --topic 'home/{sensor}/temperature' --payload json",
        ]
    )
