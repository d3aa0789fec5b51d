"""Sensor positions, from a table in the configuration or from a file with lines `id x y`."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edge_tvbo.config.errors import KeyPath, Report, did_you_mean, listed, shown
from edge_tvbo.config.field_settings import Position
from edge_tvbo.errors import Code

_NUMBERED = re.compile(r"(?:.*[^0-9])([0-9]+)", re.DOTALL)
MAX_REPORTED_LINES = 10  # invalid lines of one file


def of_sensors(
    source: object, base: Path, sensors: Sequence[str], path: KeyPath, report: Report
) -> dict[str, Position]:
    """Return the position of each sensor, by its id; report invalid and missing positions."""
    if isinstance(source, dict):
        found = _from_table(source, sensors, path, report)
        known = set(source)
    else:
        found = _from_file(base / str(source), path, report)
        known = set(found)
    missing = [sensor for sensor in sensors if not _names(sensor) & known]
    if missing and known:
        report.add(
            path,
            f"has no position for {listed(missing)}; each sensor needs a position",
            code=Code.MISSING,
        )
    return {
        sensor: found[name]
        for sensor in sensors
        for name in sorted(_names(sensor) & set(found), key=lambda name: name != sensor)[:1]
    }


def _names(sensor: str) -> set[str]:
    """Return the ids under which a file of positions can list `sensor`.

    These are the sensor's id, and the number at the end of the id, such as `1` for `mote-1`.
    """
    numbered = _NUMBERED.fullmatch(sensor)
    return {sensor, numbered[1]} if numbered else {sensor}


def _from_table(
    table: dict[str, Any], sensors: Sequence[str], path: KeyPath, report: Report
) -> dict[str, Position]:
    found = {}
    wanted = {name for sensor in sensors for name in _names(sensor)}
    if not table:
        report.add(path, "is an empty table; allowed: { id = [x, y], ... }, in m")
    for name, value in table.items():
        where = (*path, name)
        position = _position(value)
        if position is None:
            report.add(where, f"is {shown(value)}; allowed: [x, y], in m")
        elif sensors and name not in wanted:
            report.add(
                where,
                "is not one of the sensors",
                did_you_mean(name, sensors),
                code=Code.UNKNOWN_NAME,
            )
        else:
            found[name] = position
    return found


def _position(value: object) -> Position | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in value):
        return None
    if not all(-1e9 <= one <= 1e9 for one in value):
        return None
    return float(value[0]), float(value[1])


def _from_file(file: Path, path: KeyPath, report: Report) -> dict[str, Position]:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")  # the lines are counted as in editors
    except (OSError, ValueError) as error:
        report.add(path, f"is {shown(str(file))}, which {unreadable(error)}", code=Code.NAMED_FILE)
        return {}
    found: dict[str, Position] = {}
    wrong = 0
    for number, line in enumerate(lines, start=1):
        if not (words := line.partition("#")[0].split()):
            continue
        if problem := _add_line(words, found):
            wrong += 1
            if wrong <= MAX_REPORTED_LINES:
                report.add_elsewhere(file, number, problem)
    if not found and not wrong:
        report.add(
            path, f"is {shown(str(file))}, which contains no line `id x y`", code=Code.NAMED_FILE
        )
    return found


def _add_line(words: list[str], found: dict[str, Position]) -> str | None:
    """Add the sensor position in one line of the positions file to `found`.

    Return an error text if the line is invalid, and None if it is valid.
    """
    try:
        name, x, y = words
        position = float(x), float(y)
    except ValueError:
        return f"{shown(' '.join(words))} is not a position; a line is `id x y`, in m"
    if not all(math.isfinite(one) for one in position):
        return f"the position of {shown(name)} is not finite; a line is `id x y`, in m"
    if found.setdefault(name, position) != position:
        return f"{shown(name)} has two lines with different positions; remove one of them"
    return None


def unreadable(error: Exception) -> str:
    """Return why the positions file cannot be read; the text quotes no content of the file."""
    match error:
        case FileNotFoundError():
            return "does not exist; paths are relative to the directory of the configuration"
        case OSError(strerror=str(reason)):
            return f"cannot be read: {reason}"
        case UnicodeDecodeError():
            return "is not a UTF-8 text file"
        case _:
            return "cannot be read"
