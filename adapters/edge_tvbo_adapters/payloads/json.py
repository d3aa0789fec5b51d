"""A payload in JSON, with paths to the value and to the time: ``{"t": 21.3, "ts": 1078646400}``."""

import re
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any

import msgspec

from edge_tvbo.errors import ConfigError, PayloadError, hint
from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import decoded_text, finite, known_settings, number_in

MILLISECONDS = 1e11  # a time above this is in ms: as seconds it would lie after the year 5138
Path = tuple[str | int, ...]
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Give the codec for the paths ``value`` and, optionally, ``time``.

    A path is names and indices: ``sensors[0].temperature``; none at all is the document itself.
    A time is seconds or milliseconds since 1970, or RFC 3339 with its offset; without the offset
    it is refused, unless ``timezone`` names the zone in which it is local.

    >>> codec({"value": "t", "time": "ts"})(b'{"t": 21.3, "ts": "2004-03-07T08:00:00Z"}')
    (21.3, 1078646400.0)
    >>> local = codec({"value": "t", "time": "ts", "timezone": "Europe/Berlin"})
    >>> local(b'{"t": 21.3, "ts": "2004-03-07 09:00:00"}')
    (21.3, 1078646400.0)
    """
    known_settings(settings, ("value", "time", "timezone"), "json")
    value_path = path(settings.get("value", ""))
    time_path = path(settings["time"]) if "time" in settings else None
    zone = timezone(settings["timezone"]) if "timezone" in settings else None

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parsed(payload)
        value = number(at(document, value_path, "missing-value"))
        if time_path is None:
            return value, None
        return value, moment(at(document, time_path, "missing-time"), zone)

    return decode


def path(text: str) -> Path:
    """Give the steps of a path such as ``a.b[0].c``; raises `ConfigError`."""
    steps: list[str | int] = []
    rest = text
    while rest:
        rest = rest.removeprefix(".") if steps else rest
        step = _STEP.match(rest)
        if not step:
            raise ConfigError(f"{text!r} is no path; write names and indices: a.b[0].c")
        steps.append(step[1] if step[1] is not None else int(step[2]))
        rest = rest[step.end() :]
    return tuple(steps)


def parsed(payload: bytes) -> Any:
    """Give the document; raises `PayloadError`."""
    if not payload.strip():
        raise PayloadError("empty", "there is nothing in it")
    text = decoded_text(payload)
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise PayloadError("too-deep", "it is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise PayloadError("non-finite", str(error)) from None
    except (msgspec.DecodeError, ValueError) as error:
        word = text.strip()
        if word.lstrip("+-") in ("NaN", "nan", "Infinity", "inf"):
            raise PayloadError("non-finite", f"{word} is no reading") from None
        raise PayloadError("not-json", str(error)) from None


def at(document: Any, steps: Path, reason: str) -> Any:
    """Give what stands at the end of the path; raises `PayloadError` with `reason`."""
    for step in steps:
        match document, step:
            case dict(), str() if step in document:
                document = document[step]
            case list(), int() if step < len(document):
                document = document[step]
            case _:
                raise PayloadError(reason, f"there is no {step!r}")
    return document


def number(value: Any) -> float:
    """Give a JSON number, or a text that is one, as a finite float; raises `PayloadError`."""
    if isinstance(value, str):
        return number_in(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PayloadError("not-a-number", f"{type(value).__name__} is no number")
    try:
        return finite(float(value))
    except OverflowError:
        raise PayloadError("non-finite", "it is too large") from None


def timezone(name: str) -> tzinfo:
    """Give the zone of that name in the machine's database; raises `ConfigError`."""
    from zoneinfo import ZoneInfo, available_timezones  # few need it

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        known = available_timezones()
    if not known:
        raise ConfigError(
            f"timezone is {name!r}, and this machine knows no time zones; "
            "install them: apt install tzdata, or pip install tzdata"
        )
    raise ConfigError(
        f"timezone is {name!r}; it can be a name such as 'Europe/Berlin'.{hint(name, known)}"
    )


def moment(value: Any, zone: tzinfo | None = None) -> float:
    """Give a time as seconds since 1970, one without an offset as of `zone`; raises `PayloadError`.

    When summer time ends, an hour comes twice, and its first pass is meant; when it begins, one is
    left out, and a time in it is that of a clock which was not put forward yet.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = number(value)
        return seconds / 1000 if abs(seconds) > MILLISECONDS else seconds
    try:
        when = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise PayloadError("bad-time", f"{str(value)[:40]!r} is no time") from None
    if when.tzinfo is None and zone is None:
        raise PayloadError("naive-time", f"{str(value)[:40]!r} has no offset from UTC")
    return (when if when.tzinfo else when.replace(tzinfo=zone)).timestamp()
