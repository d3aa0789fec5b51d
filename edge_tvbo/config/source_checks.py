"""Cross checks of the sources of a field's readings: their sensors and their formats."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from edge_tvbo.config.errors import KeyPath, Report, did_you_mean, dotted, listed, shown
from edge_tvbo.config.field_settings import DEFAULT_VALUES, TIMES
from edge_tvbo.config.reader import Values
from edge_tvbo.errors import Code, Mistake

DEFAULT_COMMANDS = {  # payloads of commands by mode; "1" for every other mode
    "sleepy": '{"seq": {interval}, "expires_at": {expires_at}}',
    "lorawan": "",  # the payload format makes the command
}


class PayloadFormats(Collection[str], Protocol):
    """The names of all payload formats, and the checks of their settings."""

    def mistakes(self, payload: str, settings: Mapping[str, str]) -> Iterable[Mistake]:
        """Return the mistakes in the `settings` of the payload format `payload`.

        The path of each mistake is relative to the table that contains the settings.
        """
        ...

    def has_downlink(self, payload: str) -> bool:
        """Return whether the format `payload` has a default message for the mode "lorawan"."""
        ...


def payload_settings(table: Values) -> dict[str, str]:
    """Return the settings of the payload format of a source or battery.

    If `value` is not set, the result contains the default of the format, if there is one.
    """
    default = DEFAULT_VALUES.get(table.get("payload", ""))
    usual = {} if default is None else {"value": default}
    return {**usual, **table.get("settings", {})}


def value_of(table: Values) -> tuple[object, ...]:
    """Return what selects the value in the messages of a source or battery.

    The result contains the topic, the format and the settings of the format. The settings for the
    time of a reading are left out.
    """
    settings = payload_settings(table).items()
    chosen = frozenset(each for each in settings if each[0] not in TIMES)
    return table.get("topic"), table.get("payload"), chosen


def sources_of(field: Values) -> list[tuple[KeyPath, Values]]:
    """Return ``(key, settings)`` for each source of a field's readings.

    `key` is the key path of the source in the table of the field.
    """
    if sources := field.get("readings"):
        return [(("readings", index), each) for index, each in enumerate(sources)]
    reading = field.get("reading") or {}
    return [(("reading",), {**reading, "sensors": field.get("sensors", ())})]


def commands_of(field: Values) -> list[tuple[KeyPath, Values]]:
    """Return ``(key, settings)`` for the command of each source of a field.

    `key` is the key path of the command in the table of the field.
    """
    if sources := field.get("readings"):
        each_key = ((("readings", index, "activate"), each) for index, each in enumerate(sources))
        return [(key, each.get("activate", {})) for key, each in each_key]
    return [(("activate",), field.get("activate", {}))]


def check_sources(field: Values, path: KeyPath, report: Report) -> None:
    """Check which sensors belong to each source, and add the missing defaults of the sources."""
    reading, sources = field.get("reading", {}), field.get("readings", ({},))
    if reading is None and not sources:
        report.add(
            (*path, "reading"),
            "is missing; allowed: a table",
            "Topic and format of the readings; for several sources, use tables "
            f"[[{dotted((*path, 'readings'))}]]",
            code=Code.MISSING,
        )
    elif reading is not None and sources:
        report.add(
            (*path, "readings"),
            "is set together with `reading`; remove one of them",
            code=Code.CONTRADICTION,
        )
    activate = field.get("activate", {})
    mode = activate.get("mode", "advise")
    if mode == "sleepy":
        _check_retained_commands(field, path, report)
    activate.setdefault("payload", DEFAULT_COMMANDS.get(mode, "1"))
    for source in sources:
        for key in {"topic", "payload"} & set(activate):
            source.get("activate", {}).setdefault(key, activate[key])
    _check_sensors_of_sources(sources, field, (*path, "readings"), report)


def _check_retained_commands(field: Values, path: KeyPath, report: Report) -> None:
    """Check that no command to a sleeping sensor is empty; brokers retain no empty message."""
    for key, command in {("activate",): field["activate"], **dict(commands_of(field))}.items():
        if command.get("payload") == "":
            report.add(
                (*path, *key, "payload"),
                "is empty, but a broker retains no empty message for sensors that sleep; the mode "
                '"sleepy" needs a text, such as "1"',
                code=Code.CONTRADICTION,
            )


def _check_sensors_of_sources(
    sources: tuple[Values, ...], field: Values, path: KeyPath, report: Report
) -> None:
    """Check that each sensor has one source.

    One source may leave out the setting `sensors`. All sensors without another source belong to
    this source.
    """
    sensors = field.get("sensors", ())
    named = _check_named_sensors(sources, sensors, path, report)
    others = tuple(sensor for sensor in dict.fromkeys(sensors) if sensor not in named)
    open_ended = [index for index, each in enumerate(sources) if "sensors" not in each]
    for index in open_ended[1:]:
        report.add(
            (*path, index, "sensors"),
            f"is missing here and in {dotted((*path, open_ended[0]))}; only one table "
            "may leave out `sensors`",
            code=Code.MISSING,
        )
    for index in open_ended[:1]:
        sources[index]["sensors"] = others
        if sensors and not others:
            report.add(
                (*path, index),
                "has no sensor, because the other tables name all sensors of the field; remove "
                "this table or name its sensors",
                code=Code.CONTRADICTION,
            )
    if sources and others and not open_ended and "readings" in field:
        report.add(
            path,
            f"has no source for the sensors {listed(others)}; name them in the `sensors` of a "
            "table, or leave `sensors` out of one table",
            code=Code.MISSING,
        )


def _check_named_sensors(
    sources: tuple[Values, ...], sensors: Collection[str], path: KeyPath, report: Report
) -> Collection[str]:
    """Return the sensors that the sources name.

    Report a named sensor that is not a sensor of the field, or that two sources name.
    """
    named = dict[str, int]()
    for index, source in enumerate(sources):
        for place, sensor in enumerate(source.get("sensors", ())):
            key = (*path, index, "sensors", place)
            if sensors and sensor not in sensors:
                text = f"is {shown(sensor)}, which is not one of the sensors"
                report.add_unknown_name(key, text, sensor, sensors)
            elif sensor in named:
                first = dotted((*path, named[sensor]))
                report.add(
                    key,
                    f"is {shown(sensor)}, which {first} already has; each sensor has one source",
                    code=Code.TWICE,
                )
            named.setdefault(sensor, index)
    return named.keys()


def check_readings(
    field: Values, path: KeyPath, payloads: PayloadFormats | None, report: Report
) -> None:
    """Check, for each source of a field, the format and the scale of the readings.

    In the mode "lorawan", also check that each command has a payload.
    """
    for key, reading in sources_of(field):
        check_format(reading, (*path, *key), payloads, report)
        if reading.get("scale") == 0:
            report.add(
                (*path, *key, "scale"),
                "is 0, so every reading would have the same value; allowed: any other number",
            )

    if field.get("activate", {}).get("mode") == "lorawan" and payloads is not None:
        _check_downlinks(field, path, payloads, report)


def check_format(
    table: Values, path: KeyPath, payloads: PayloadFormats | None, report: Report
) -> None:
    """Check the payload format of a source or battery, and the settings of this format.

    `table` is the table of the source or battery, at the key `path` of the configuration.

    If `payloads` is None, nothing is checked.
    """
    payload = table.get("payload")
    if payload is None or payloads is None:
        return
    if payload not in payloads:
        report.add(
            (*path, "payload"),
            f"is {shown(payload)}; allowed formats: {listed(sorted(payloads), max_words=99)}",
            did_you_mean(payload, payloads),
            code=Code.UNKNOWN_NAME,
        )
        return
    for mistake in payloads.mistakes(payload, table["settings"]):
        report.add((*path, *mistake.path), mistake.problem, code=mistake.code)


def _check_downlinks(
    field: Values, path: KeyPath, payloads: PayloadFormats, report: Report
) -> None:
    """Check that each command in the mode "lorawan" has a payload, set or by default."""
    for (key, command), (_, source) in zip(commands_of(field), sources_of(field), strict=True):
        payload = source.get("payload", "")
        if (
            command.get("payload") == ""
            and payload in payloads
            and not payloads.has_downlink(payload)
        ):
            report.add(
                (*path, *key, "payload"),
                'is missing; only "the-things-stack" and "chirpstack" have a default. Set it to a'
                " downlink message of your network server.",
                code=Code.MISSING,
            )
