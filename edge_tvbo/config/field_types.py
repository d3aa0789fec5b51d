"""Types of values that TOML does not have: durations, sizes, secrets, hosts and file names.

Each parser takes a TOML value and returns the value of the setting. For an invalid value, it raises
`ValueError` with a hint, which may be empty. The description of the allowed values is declared
together with the setting.
"""

import math
import re
from ipaddress import ip_address
from typing import Any, Literal, TypeGuard

from edge_tvbo.config.time_zones import load_timezone
from edge_tvbo.errors import ConfigError, nearest

_SIZES = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10}
_SIZE = re.compile(r"([0-9]{1,6}) ?(KiB|MiB|GiB)")
_UNITS = {"d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 0.001}
_UNIT_WORDS = {
    "": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
    "m": "min", "mins": "min", "minute": "min", "minutes": "min",
    "hr": "h", "hrs": "h", "hour": "h", "hours": "h", "day": "d", "days": "d",
    "msec": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
    "month": "", "months": "",  # no units; without these entries, the hint would be "minutes"
}  # fmt: skip
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) ?(ms|s|min|h|d)")
_CLOCK = "([01][0-9]|2[0-3]):([0-5][0-9])"
_QUIET_HOURS = re.compile(f"{_CLOCK} ?- ?{_CLOCK}")
_HOST = re.compile(r"[A-Za-z0-9_.:%-]{1,253}")
MAX_READING = 1e100  # largest absolute value of a setting that is in the unit of the readings


class Secret:
    """A secret text, such as a password; logs and reprs show *** instead.

    >>> print(Secret("hunter2"), [Secret("hunter2")], Secret("hunter2").reveal())
    *** [***] hunter2
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret text."""
        return self._text

    def __repr__(self) -> str:
        """Return asterisks instead of the secret text."""
        return "***"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        """Return whether `other` is a `Secret` with the same text."""
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        """Return a hash of the secret text; equal secrets have equal hashes."""
        return hash((Secret, self._text))


def seconds(text: str) -> float:
    """Return the duration in the `text` of a setting or an option, in s.

    Raises `ConfigError` if the text is not a duration.

    >>> seconds("500ms"), seconds("1.5h"), seconds("10min")
    (0.5, 5400.0, 600.0)
    """
    try:
        return _seconds(text)
    except ValueError as error:
        hint = f" ({error})" if str(error) else ""
    raise ConfigError(
        f'"{text}" is not a duration, such as "500ms", "10s", "10min", "1.5h" or "1d"{hint}'
    )


def _seconds(text: str) -> float:
    """Convert the text of a setting to a duration in s; raise ValueError(hint) if it is invalid."""
    if found := _DURATION.fullmatch(text):
        return float(found[1]) * _UNITS[found[2]]
    raise ValueError(_duration_hint(text))


def duration_text(value: float) -> str:
    """Return a duration in s as a setting's text, in the largest unit that gives a whole number.

    >>> duration_text(90.0), duration_text(7200.0), duration_text(0.01)
    ('90s', '2h', '10ms')
    """
    for unit, size in _UNITS.items():
        if value and math.isclose(value / size, round(value / size), rel_tol=1e-9):
            return f"{round(value / size)}{unit}"
    return f"{value:g}s"


def _duration_hint(text: str) -> str:
    """Return a hint with the duration that the invalid `text` probably means; "" if unknown.

    >>> _duration_hint("5 minuts"), _duration_hint("1,5 hours"), _duration_hint("5 milis")
    ('did you mean "5min"?', 'did you mean "1.5h"?', 'did you mean "5ms"?')
    >>> _duration_hint("2 months"), _duration_hint("soon")
    ('', '')
    """
    text = text.strip()
    unit = text.lstrip("0123456789.,")
    number, unit = text.removesuffix(unit), unit.strip().lower()
    number = re.sub(r",([0-9]{1,2})$", r".\1", number)  # three digits may be thousands
    if unit not in _UNITS:
        unit = _UNIT_WORDS.get(nearest(unit, _UNIT_WORDS) or unit, unit)
    guess = number + unit
    return f'did you mean "{guess}"?' if _DURATION.fullmatch(guess) else ""


def duration(least: str, most: str = "366d", default: str | None = None) -> dict[str, Any]:
    """Return the `extra` of a `msgspec.Meta` for a setting that is a duration.

    `least` and `most` are the limits of the duration, as texts such as "10s".
    """

    def parse(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            hint = f': did you mean "{value}s"?' if 0 < value < 1e12 else ""
            raise ValueError(f"a duration is a text with a unit{hint}")
        if not isinstance(value, str):
            raise ValueError
        length = _seconds(value)
        if not seconds(least) <= length <= seconds(most):
            raise ValueError
        return length

    expected = f"a duration, {least} to {most}"
    return {"parse": parse, "expected": expected, "to_text": duration_text} | (
        {"default": default} if default else {}
    )


def size(least: str, most: str) -> dict[str, Any]:
    """Return the `extra` of a `msgspec.Meta` for a setting that is a size in bytes.

    `least` and `most` are the limits of the size, as texts such as "1MiB".
    """

    def parse(value: object) -> int:
        if not isinstance(value, str) or not _SIZE.fullmatch(value):
            raise ValueError('a size is a text such as "64MiB"')
        if not _bytes(least) <= _bytes(value) <= _bytes(most):
            raise ValueError
        return _bytes(value)

    return {"parse": parse, "expected": f"a size, {least} to {most}"}


def size_or_off(least: str, most: str) -> dict[str, Any]:
    """Return the `extra` of a `msgspec.Meta` for a setting that is a size in bytes or "off".

    The limits are as for `size`. The text "off" is read as None.
    """
    sized = size(least, most)

    def parse(value: object) -> int | None:
        found: int | None = None if value == "off" else sized["parse"](value)
        return found

    return {"parse": parse, "expected": f'{sized["expected"]}, or "off"', "to_text": size_text}


def size_text(value: int | None) -> str:
    """Return a size in bytes as a setting's text, in the largest unit that gives a whole number.

    >>> size_text(2**26), size_text(None)
    ('64MiB', 'off')
    """
    if value is None:
        return "off"
    unit = next(unit for unit, size in _SIZES.items() if value % size == 0)
    return f"{value // _SIZES[unit]}{unit}"


def _bytes(text: str) -> int:
    """Convert the value of a setting, a size such as "64MiB", to a number of bytes.

    >>> _bytes("64MiB")
    67108864
    """
    found = _SIZE.fullmatch(text)
    assert found is not None
    return int(found[1]) * _SIZES[found[2]]


_parse_interval = duration("10ms")["parse"]


def interval(value: object) -> float | Literal["on-reading"]:
    """Convert the setting `interval` to seconds, or to "on-reading"."""
    if value == "on-reading":
        return "on-reading"
    if isinstance(value, str) and value.replace("_", "-").lower().startswith("on"):
        raise ValueError('did you mean "on-reading"?')
    length: float = _parse_interval(value)
    return length


PERIODS = {"day": 86_400.0, "week": 604_800.0, "year": 31_557_600.0, "none": 0.0}  # s
_parse_period = duration("1s")["parse"]


def period(value: object) -> float | Literal["auto"]:
    """Convert the setting `period` to seconds.

    The value for "none" is 0. The text "auto" is returned unchanged.
    """
    if value == "auto":
        return "auto"
    if isinstance(value, str) and value in PERIODS:
        return PERIODS[value]
    length: float = _parse_period(value)
    return length


def plausible(value: object) -> float | tuple[float, float]:
    """Convert the setting `plausible`: a number of standard deviations, or the two ends of a range.

    >>> plausible(20), plausible([-40, 60])
    (20.0, (-40.0, 60.0))
    """
    if not isinstance(value, list):
        if not is_number(value) or value <= 0:
            raise ValueError
        return float(value)
    if len(value) != 2 or not all(map(is_number, value)):
        raise ValueError("a range has two numbers: the lowest and the highest plausible value")
    lowest, highest = map(float, value)
    if lowest > highest:
        raise ValueError(f"write the lowest value first: [{highest:g}, {lowest:g}]")
    if lowest == highest:
        raise ValueError("the range is empty")
    return lowest, highest


def quiet_hours(value: object) -> tuple[int, int]:
    """Convert a setting for quiet hours to ``(begin, end)``, in minutes after midnight.

    >>> quiet_hours("22:00-06:30")
    (1320, 390)
    """
    match = _QUIET_HOURS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError
    begin, end = (int(match[n]) * 60 + int(match[n + 1]) for n in (1, 3))
    if begin == end:
        raise ValueError(
            "the quiet hours would last the whole day; to disable alerts, remove the table `alert`"
        )
    return begin, end


def timezone(value: object) -> str:
    """Check the name of a time zone in a setting, and return it unchanged.

    The time zone must be in the database of this machine.
    """
    if not isinstance(value, str):
        raise ValueError
    try:
        load_timezone(value)
    except ConfigError:
        raise ValueError("it is not in the time-zone database of this machine") from None
    return value


def is_number(value: object) -> TypeGuard[float]:
    """Return whether the value of a setting is a number, and not too large for a reading."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= MAX_READING


def keepalive(value: object) -> int:
    """Convert the value of the setting `keepalive` to whole seconds.

    The value is a number of seconds or a duration.
    """
    length = _seconds(value) if isinstance(value, str) else value
    if not (is_number(length) and 5 <= length <= 3600 and length == int(length)):
        raise ValueError
    return int(length)


def secret(value: object) -> Secret:
    """Convert the text in a setting, such as a password, to a `Secret`."""
    if not isinstance(value, str) or not value:
        raise ValueError
    return Secret(value)


def host(value: object) -> str:
    """Check the host name or IP address in a setting or an option, and return it unchanged.

    The error for a URL does not repeat the URL, because a URL can contain a password.
    """
    if not isinstance(value, str):
        raise ValueError
    if "/" in value or "@" in value:
        raise ValueError("write only the host name, without mqtt://, user or path")
    if not _HOST.fullmatch(value):
        raise ValueError
    if ":" in value and not is_address(value):
        name, _, port = value.partition(":")
        is_port = port.isdecimal() and name
        raise ValueError(f'write host = "{name}" and port = {port}' if is_port else "")
    return value


HOST = {"parse": host, "expected": "a host name or an IP address"}


def is_loopback(host: str) -> bool:
    """Return whether `host`, from a setting or a request, can be reached only from this machine.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "a.localhost", "lab")]
    [True, True, True, True, False]
    """
    if is_address(host):
        return ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def is_address(host: str) -> bool:
    """Return whether `host`, from a setting or a request, is an IP address, and not a name.

    >>> [is_address(host) for host in ("192.168.1.5", "::1", "lab", "127.0.0.1.evil.example")]
    [True, True, False, False]
    """
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def text_or_table(value: object) -> object:
    """Check that the setting `positions` is a file name or a table, and return it unchanged."""
    if isinstance(value, dict) or (isinstance(value, str) and value):
        return value
    raise ValueError


def file_name(value: object) -> str:
    """Check that a setting can be the name of a file, and return it unchanged.

    A later check finds out whether the file exists.
    """
    if isinstance(value, str) and value and "\0" not in value:
        return value
    raise ValueError


SECRET_TEXT = {"parse": secret, "expected": "a text that is not empty", "secret": True}
SECRET_FILE = {
    "parse": file_name,
    "expected": "the name of a file, in $CREDENTIALS_DIRECTORY or relative to the directory of the"
    " configuration",
}


def directory(value: object) -> str:
    """Check that a setting is empty or can be the name of a directory; return it unchanged."""
    if isinstance(value, str) and "\0" not in value:
        return value
    raise ValueError


class InvalidItems(ValueError):
    """Error for the invalid `items` of a table; `allowed` describes valid values."""

    def __init__(self, items: dict[str, object], allowed: str) -> None:
        super().__init__(allowed)
        self.items, self.allowed = items, allowed


def device_classes(value: object) -> dict[str, str]:
    """Check the setting that maps fields to device classes, and return it unchanged."""
    if not isinstance(value, dict):
        raise ValueError
    if wrong := {key: name for key, name in value.items() if not isinstance(name, str)}:
        raise InvalidItems(wrong, "the name of a device class, or an empty text")
    return value
