"""Sensor positions, from a table in the configuration or from a file with lines `id x y`."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from edge_tvbo.config.errors import KeyPath, Report, dot_hint, dotted, listed, shown
from edge_tvbo.config.field_settings import FieldSettings, Position
from edge_tvbo.config.field_types import is_number
from edge_tvbo.config.introspection import settings_of
from edge_tvbo.config.named_files import text_of
from edge_tvbo.errors import Code

_NUMBERED = re.compile(r"(?:.*[^0-9])([0-9]+)", re.DOTALL)
MAX_COORDINATE = 1e9  # m
MAX_REPORTED_LINES = 10  # invalid lines of one file


class _Listed(NamedTuple):
    """Position of a sensor, as a table or a file lists it."""

    position: Position
    line: int = 0  # line number in the file; 0 in a table


def of_sensors(
    source: object, base: Path, sensors: Sequence[str], path: KeyPath, report: Report
) -> dict[str, Position]:
    """Return a dict that maps sensor ids to positions; report invalid and missing positions.

    A sensor whose id ends in a number, such as `mote-1`, can be listed by this number, `1`, unless
    another sensor has the same number, as its id or at the end of its id. If a file lists both
    `mote-1` and `1`, the line with `mote-1` counts, because `1` may belong to another field.
    """
    numbers = _numbers(sensors)
    if isinstance(source, dict):
        found = _from_table(source, sensors, numbers, path, report)
        known = set(source)
    else:
        found = _from_file(base / str(source), path, report)
        known = set(found)
    missing = [each for each in sensors if not {each, numbers.get(each)} & known]
    if missing and known:
        report.add(
            path,
            f"has no position for {listed(missing)}; each sensor needs a position",
            _shared_number(missing, known),
            code=Code.MISSING,
        )
    names = {sensor: sensor if sensor in found else numbers.get(sensor) for sensor in sensors}
    return {sensor: found[name].position for sensor, name in names.items() if name in found}


def _numbers(sensors: Sequence[str]) -> dict[str, str]:
    """Return a dict that maps sensor ids to the numbers by which positions can be listed.

    The number is the end of the id. A number is left out if another sensor has the same number, as
    its id or at the end of its id.

    >>> _numbers(["mote-1", "2", "mote-2", "north-3", "south-3"])
    {'mote-1': '1'}
    """
    numbers = {each: found[1] for each in sensors if (found := _NUMBERED.fullmatch(each))}
    uses = Counter([*sensors, *numbers.values()])
    return {sensor: number for sensor, number in numbers.items() if uses[number] == 1}


def _shared_number(missing: Sequence[str], known: Collection[str]) -> str:
    """Return a hint if a position is listed under a number that several sensors have; otherwise "".

    The sensors in `missing` have no position. If the id of such a sensor ends in a number that
    another sensor also has, a position under this number could belong to either sensor.
    """
    for sensor in missing:
        if (found := _NUMBERED.fullmatch(sensor)) and found[1] in known:
            return f"{shown(found[1])} could mean several sensors; list each sensor by its id"
    return ""


def _from_table(
    table: dict[str, Any],
    sensors: Sequence[str],
    numbers: Mapping[str, str],
    path: KeyPath,
    report: Report,
) -> dict[str, _Listed]:
    found: dict[str, _Listed] = {}
    sensor_of = {number: sensor for sensor, number in numbers.items()}
    if not table:
        report.add(path, "is an empty table; allowed: { id = [x, y], ... }, in m")
    for name, value in table.items():
        where = (*path, name)
        position = _position(value)
        if position is None:
            field = f"[{dotted(path[:-1])}]"
            near = f"{name} belongs in {field}" if name in settings_of(FieldSettings) else ""
            text = f"is {shown(value)}; allowed: [x, y], in m"
            report.add(where, text, near or dot_hint(name, value, list))
        elif sensors and name not in sensors and name not in sensor_of:
            report.add_unknown_name(where, "is not one of the sensors", name, sensors)
        elif _position(table.get(sensor := sensor_of.get(name, name), value)) not in (
            None,
            position,
        ):
            report.add(
                where,
                f"is the sensor {shown(sensor)}, which has another position at "
                f"{report.origin((*path, sensor))}; remove one of the two",
                code=Code.TWICE,
            )
        else:
            found[name] = _Listed(position)
    return found


def _position(value: object) -> Position | None:
    if not isinstance(value, list) or len(value) != 2 or not all(map(is_number, value)):
        return None
    return (float(value[0]), float(value[1])) if _is_in_range(value) else None


def _is_in_range(position: Sequence[float]) -> bool:
    return all(abs(one) <= MAX_COORDINATE for one in position)


def _from_file(file: Path, path: KeyPath, report: Report) -> dict[str, _Listed]:
    text = text_of(file, path, report)
    if text is None:
        return {}
    found: dict[str, _Listed] = {}
    wrong = 0
    for number, line in enumerate(text.split("\n"), start=1):  # counted as in editors
        if not (words := line.partition("#")[0].split()):
            continue
        if problem := _add_line(number, words, found):
            wrong += 1
            if wrong <= MAX_REPORTED_LINES:
                report.add_elsewhere(file, number, problem)
    if not found and not wrong:
        report.add_file(path, file, "contains no line `id x y`")
    return found


def _add_line(number: int, words: list[str], found: dict[str, _Listed]) -> str | None:
    """Add the sensor position in one line of the positions file to `found`.

    Return an error text if the line is invalid, and None if it is valid.
    """
    try:
        name, x, y = words
        position = _coordinate(x), _coordinate(y)
    except ValueError:
        return f"{shown(' '.join(words))} is not a position; a line is `id x y`, in m"
    if not _is_in_range(position):
        return f"the position of {shown(name)} must be -1e9 to 1e9; a line is `id x y`, in m"
    first = found.setdefault(name, _Listed(position, number))
    if first.position != position:
        return (
            f"{shown(name)} has another position in line {first.line}; remove one of the two lines"
        )
    return None


def _coordinate(text: str) -> float:
    """Return a sensor's coordinate; reject ``1_5`` and ``١٥``, which `float` would read as 15."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)
