"""Cross checks of MQTT topics: within a field, and between the fields."""

from collections.abc import Collection, Mapping
from typing import Any

from edge_tvbo.config.errors import KeyPath, Report, dotted, shown
from edge_tvbo.config.field_settings import TIMES
from edge_tvbo.config.field_units import may_be_charge
from edge_tvbo.config.reader import Values
from edge_tvbo.config.source_checks import commands_of, payload_settings, sources_of, value_of
from edge_tvbo.config.topic_types import OWN_TOPICS
from edge_tvbo.errors import Code


def check_topics(field: Values, path: KeyPath, report: Report) -> None:
    """Check the topics of a field, and the sensor names that the topics contain."""
    for sensors in _senders(field):
        check_topic_names(sensors, field, path, report)
    for key, command in commands_of(field):
        mode = field.get("activate", {}).get("mode", "advise")
        if mode != "advise" and command.get("topic", "") is None:
            report.add(
                (*path, *key, "topic"),
                f'is missing; the mode "{mode}" needs a topic with {{sensor}}',
                code=Code.MISSING,
            )
    for sensor in field.get("names", ()):
        if sensor not in field.get("sensors", (sensor,)):
            where = (*path, "names", sensor)
            report.add_unknown_name(where, "is not one of the sensors", sensor, field["sensors"])
    for key, table in (*sources_of(field), *commands_of(field)):
        topic = table.get("topic")
        if topic and topic != topic.strip():
            where = (*path, *key, "topic")
            report.warn(
                where,
                f"{dotted(where)} is {shown(topic)}, which begins or ends with a space; MQTT "
                "compares topics character by character, so remove the space if the sensors' "
                "topics do not contain it",
            )
        if topic and topic.startswith("{sensor}/") and OWN_TOPICS in field.get("sensors", ()):
            report.add(
                (*path, *key, "topic"),
                f"begins with {{sensor}}, so the sensor {OWN_TOPICS} would use topics of the "
                "daemon; rename the sensor, or change the topic",
            )


def check_topic_names(
    sensors: Collection[str], field: Values, path: KeyPath, report: Report
) -> None:
    """Check that no two of the `sensors` have the same name in topics."""
    first: dict[str, str] = {}
    for sensor in dict.fromkeys(sensors):
        name = field.get("names", {}).get(sensor, sensor)
        other = first.setdefault(name, sensor)
        if other != sensor:
            key = sensor if sensor in field["names"] else other
            report.add(
                (*path, "names", key),
                f"is {shown(name)}, so {other} and {sensor} have the same topics; each sensor "
                "needs its own name",
                code=Code.TWICE,
            )


def _senders(field: Values) -> list[tuple[str, ...]]:
    """Return groups of sensors; the sensors of a group need different names in MQTT topics.

    All sensors whose readings have the same topic and options are one group. In the mode "sleepy",
    all sensors with the same command topic are a group too, because their commands are retained.
    """
    groups: dict[Any, tuple[str, ...]] = {}
    for (_, command), (_, source) in zip(commands_of(field), sources_of(field), strict=True):
        keys = [(source.get("topic"), *sorted(payload_settings(source).items()))]
        if field.get("activate", {}).get("mode") == "sleepy":
            keys.append((command.get("topic"), "command"))
        for key in keys:
            groups[key] = groups.get(key, ()) + tuple(source.get("sensors", ()))
    return list(dict.fromkeys(groups.values()))


def check_between_fields(fields: Mapping[str, Values], report: Report) -> None:
    """Check that the topics of different fields, for readings and for commands, do not conflict."""
    readings: dict[Any, str] = {}
    command_topics: dict[str, str] = {}
    topics = _subscribed_topics(fields)
    for name, field in fields.items():
        path = ("fields", name)
        _check_battery_topic(path, field, fields, report)
        for key, source in sources_of(field):
            _check_reading_topic((*path, *key, "topic"), name, field, source, readings, report)
        if field.get("activate", {}).get("mode") == "sleepy":
            _check_command_topics(name, field, command_topics, report)
        for key, command in commands_of(field):
            if command.get("topic") and command["topic"] in topics:
                report.add(
                    (*path, *key, "topic"),
                    f"is {shown(command['topic'])}, which is the {topics[command['topic']]}; "
                    "allowed: any other topic",
                    code=Code.TWICE,
                )


def _subscribed_topics(fields: Mapping[str, Values]) -> dict[Any, str]:
    """Return a dict that maps each topic that the daemon subscribes to, to a text about its use."""
    batteries: dict[Any, str] = {}
    readings: dict[Any, str] = {}
    for name, field in fields.items():
        of_field = f"of {dotted(('fields', name))}"
        battery = (field.get("energy") or {}).get("battery") or {}
        batteries[battery.get("topic")] = f"battery topic {of_field}"
        for _, source in sources_of(field):
            readings[source.get("topic")] = f"reading topic {of_field}"
    return batteries | readings


def _check_reading_topic(
    path: KeyPath,
    name: str,
    field: Values,
    source: Values,
    readings: dict[Any, str],
    report: Report,
) -> None:
    """Check that no other field reads a value that the field `name` reads from `source`.

    `readings` maps each value of a sensor's messages to the first field that reads this value. The
    values of `source` are added to `readings`.
    """
    topic, names = source.get("topic"), field.get("names", {})
    chosen = payload_settings(source).items()
    value = frozenset(each for each in chosen if each[0] not in TIMES)
    for sensor in source.get("sensors", ()) if topic else ():
        same = (topic, value, names.get(sensor, sensor))
        if (first := readings.setdefault(same, name)) != name:
            report.add(
                path,
                f"is {shown(topic)}, from which {dotted(('fields', first))} also reads {sensor}; "
                "fields with the same topic must differ in the setting `value` or in the sensors",
                code=Code.TWICE,
            )
            return


def _check_battery_topic(
    path: KeyPath, field: Values, fields: Mapping[str, Values], report: Report
) -> None:
    """Check that no other field reads the battery charges of the field at `path` as its readings.

    A field whose readings may be battery charges is not checked, because such a field can look for
    the emptiest battery.
    """
    battery = (field.get("energy") or {}).get("battery") or {}
    own = _names_in_topics(field, field.get("sensors", ()))
    for name, other in fields.items():
        if not battery.get("topic") or other is field or may_be_charge(name, other.get("unit", "")):
            continue
        for _, source in sources_of(other):
            is_same = value_of(source) == value_of(battery)
            if is_same and own & _names_in_topics(other, source.get("sensors", ())):
                report.add(
                    (*path, "energy", "battery", "topic"),
                    f"is {shown(battery['topic'])}, so the battery charge and the reading of "
                    f"{dotted(('fields', name))} would be the same value of a message; set "
                    '`value`, such as value = "battery", or the topic of the charges',
                    code=Code.TWICE,
                )
                return


def _names_in_topics(field: Values, sensors: Collection[str]) -> set[str]:
    names = field.get("names", {})
    return {names.get(sensor, sensor) for sensor in sensors}


def _check_command_topics(
    name: str, field: Values, command_topics: dict[str, str], report: Report
) -> None:
    """Check that no other field retains commands on a command topic of the field `name`.

    Otherwise the two fields would clear each other's commands.
    """
    names = field.get("names", {})
    for (key, command), (_, source) in zip(commands_of(field), sources_of(field), strict=True):
        topic = command.get("topic") or ""
        for sensor in source.get("sensors", ()):
            own_topic = topic.replace("{sensor}", names.get(sensor, sensor))
            if topic and (first := command_topics.setdefault(own_topic, name)) != name:
                report.add(
                    ("fields", name, *key, "topic"),
                    f"is {shown(topic)}, on which {dotted(('fields', first))} also sends "
                    f"commands to {sensor}; allowed: a topic that no other field uses",
                    code=Code.TWICE,
                )
                return
