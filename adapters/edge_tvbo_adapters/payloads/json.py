"""Payload format `json`: paths to the value and the time in ``{"t": 21.3, "ts": 1078646400}``.

A path such as ``a.b[0].c`` is also valid in JMESPath, but JMESPath is not used here:

- JMESPath takes 3.1 µs for the message above; the paths of this module take 0.5 µs;
- JMESPath returns null for a missing key, so a missing value looks like a null value;
- JMESPath requires quotes around keys such as ``temperature:0`` or ``DS18B20-2``.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, tzinfo
from types import NoneType
from typing import Any

import msgspec

from edge_tvbo.config.time_zones import load_timezone
from edge_tvbo.errors import ConfigError, PayloadError
from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import (
    JSON_SETTINGS,
    MAX_SHOWN_LENGTH,
    check_settings,
    decode_text,
    finite,
    parse_number,
)

MAX_SECONDS = 1e11  # the year 5138; a larger number is a time in ms, µs or ns
SMALLER_UNITS = (1e3, 1e6, 1e9)  # ms, µs and ns in a second
Path = tuple[str | int, ...]
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_JSON_TYPES = {
    dict: "an object",
    list: "an array",
    str: "a text",
    bool: "true or false",
    NoneType: "null",
}


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the JSON codec for the paths ``value`` and, optionally, ``time``.

    A path consists of names and indices, such as ``sensors[0].temperature``. Without the path
    ``value``, the document itself is the value. A time is a number of seconds, milliseconds,
    microseconds or nanoseconds since 1970, or a text in RFC 3339 with an offset from UTC. A text
    without an offset is a local time in the zone that the setting ``timezone`` names. Without this
    setting, the text is rejected.

    >>> codec({"value": "t", "time": "ts"})(b'{"t": 21.3, "ts": "2004-03-07T08:00:00Z"}')
    (21.3, 1078646400.0)
    >>> local = codec({"value": "t", "time": "ts", "timezone": "Europe/Berlin"})
    >>> local(b'{"t": 21.3, "ts": "2004-03-07 09:00:00"}')
    (21.3, 1078646400.0)
    """
    check_settings(settings, JSON_SETTINGS, "json")
    value_path = parse_path(settings.get("value", ""))
    time_path = parse_path(settings["time"]) if "time" in settings else None
    zone = load_timezone(settings["timezone"]) if "timezone" in settings else None
    value_key, time_key = _top_level_key(value_path), _top_level_key(time_path)

    def decode(payload: bytes) -> tuple[float, float | None]:
        # Every reading is decoded here, so the usual case calls no function except `to_seconds`.
        try:
            document = msgspec.json.decode(payload)
        except (ValueError, RecursionError):
            document = parse_json(payload)  # raises the error that names the reason
        keys = document if type(document) is dict else ()
        value = (
            document[value_key]
            if value_key in keys
            else find(document, value_path, "missing-value")
        )
        if type(value) is not float:
            value = to_number(value)
        if time_path is None:
            return value, None
        time = document[time_key] if time_key in keys else find(document, time_path, "missing-time")
        return value, to_seconds(time, zone)

    return decode


# --- paths ----------------------------------------------------------------------------------------


def parse_path(text: str) -> Path:
    """Return the steps of a path into a JSON document; raises `ConfigError` if it is invalid.

    >>> parse_path("a.b[0].c")
    ('a', 'b', 0, 'c')
    """
    steps: list[str | int] = []
    rest = text
    while rest:
        rest = rest.removeprefix(".") if steps else rest
        step = _STEP.match(rest)
        if not step:
            raise ConfigError(f"{text!r} is not a path; write names and indices: a.b[0].c")
        steps.append(step[1] if step[1] is not None else int(step[2]))
        rest = rest[step.end() :]
    return tuple(steps)


def find(document: Any, path: Path, reason: str) -> Any:
    """Return the part of a JSON document at `path`.

    If this part is missing, a `PayloadError` with the `reason` is raised.
    """
    for step in path:
        match document, step:
            case dict(), str() if step in document:
                document = document[step]
            case list(), int() if step < len(document):
                document = document[step]
            case _:
                raise PayloadError(reason, f"{step!r} is missing")
    return document


def _top_level_key(path: Path | None) -> str | None:
    """Return the key of a JSON path that has only one key; None for any other path."""
    match path:
        case (str(key),):
            return key
        case _:
            return None


# --- values ---------------------------------------------------------------------------------------


def parse_json(payload: bytes) -> Any:
    """Return the JSON document in a payload; raises `PayloadError` if the JSON is not valid.

    NaN and Infinity are not valid JSON, but some programs write them. A NaN or Infinity becomes a
    text, which no codec accepts as a number. The other values of the message can still be used.
    """
    if not payload.strip():
        raise PayloadError("empty", "the payload is empty")
    text = decode_text(payload)
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise PayloadError("too-deep", "the JSON is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise PayloadError("non-finite", str(error)) from None
    except ValueError as error:  # the base class of msgspec's errors
        word = text.strip()
        if word.lstrip("+-") in ("NaN", "nan", "Infinity", "inf"):
            raise PayloadError("non-finite", f"the value is {word}") from None
        if "NaN" in text or "Infinity" in text:
            with suppress(ValueError, RecursionError):
                return json.loads(text, parse_constant=str)
        raise PayloadError("not-json", str(error)) from None


def to_number(value: Any) -> float:
    """Convert a JSON value to a finite float.

    The value is a number, or a text that contains a number. Raises `PayloadError` for any other
    value.
    """
    if isinstance(value, str):
        return parse_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PayloadError("not-a-number", f"the value is {json_type(value)}")
    try:
        return finite(float(value))
    except OverflowError:
        raise PayloadError("non-finite", "the number is too large") from None


def to_seconds(value: Any, zone: tzinfo | None = None) -> float:
    """Return a time of a JSON document in seconds since 1970.

    The time is a text in RFC 3339, or a number, which can also be written as a text. The size of
    the number shows its unit: seconds, milliseconds, microseconds or nanoseconds. A text in RFC
    3339 without an offset is a local time in `zone`. In autumn, one hour occurs twice: a time in
    this hour belongs to the first occurrence. In spring, one hour is skipped: a time in this hour
    is read as winter time. Raises `PayloadError` if the time is invalid.
    """
    if type(value) is float or type(value) is int:
        if -MAX_SECONDS <= value <= MAX_SECONDS:
            return float(value)
        number = to_number(value)
        units = (unit for unit in SMALLER_UNITS if abs(number) <= MAX_SECONDS * unit)
        return number / next(units, SMALLER_UNITS[-1])
    if isinstance(value, str) and value.replace(".", "", 1).isdecimal():
        return to_seconds(parse_number(value), zone)
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise PayloadError("bad-time", f"{value[:MAX_SHOWN_LENGTH]!r} is not a time") from None
    except TypeError:
        raise PayloadError("bad-time", f"the time is {json_type(value)}") from None
    if time.tzinfo is None and zone is None:
        raise PayloadError(
            "naive-time", f"the time {value[:MAX_SHOWN_LENGTH]!r} has no offset from UTC"
        )
    return (time if time.tzinfo else time.replace(tzinfo=zone)).timestamp()


def json_type(value: Any) -> str:
    """Return the name of a JSON value's type, for error texts.

    >>> json_type([1]), json_type(None)
    ('an array', 'null')
    """
    return _JSON_TYPES.get(type(value), "a number")
