"""Shared decoding steps of the payload formats: text, finite numbers, unknown settings."""

from collections.abc import Mapping
from math import isfinite

from edge_tvbo.errors import ConfigError, PayloadError, hint, nearest

TABLE = ("topic", "scale", "offset", "payload")  # keys that are not settings of a payload format
JSON_SETTINGS = ("value", "time", "timezone")  # settings of the payload format json
MIN_CLOCK_S = 1e9  # s since 1970; an earlier time means that the device's clock was never set
MAX_SHOWN_LENGTH = 40  # characters of a payload that an error message quotes


def decode_text(payload: bytes) -> str:
    """Return a payload as text; raises `PayloadError` if it is not UTF-8."""
    try:
        return payload.decode("utf-8")
    except UnicodeDecodeError:
        raise PayloadError("not-utf8", "the payload is not UTF-8") from None


def parse_number(text: str) -> float:
    """Decode a payload's `text` as a finite number; raises `PayloadError` for any other text.

    >>> parse_number(" 21.3 ")
    21.3
    """
    text = text.strip()
    if not text:
        raise PayloadError("empty", "the text is empty")
    try:
        value = float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        value = None
    if value is None:
        comma = "; does it have a decimal comma?" if text.count(",") == 1 else ""
        raise PayloadError("not-a-number", f"{text[:MAX_SHOWN_LENGTH]!r} is not a number{comma}")
    return finite(value)


def finite(value: float) -> float:
    """Return a format's decoded value unchanged; raises `PayloadError` if it is NaN or infinite."""
    if not isfinite(value):
        raise PayloadError("non-finite", f"the value is {value}")
    return value


def device_time(at: float) -> float | None:
    """Return `at`, the time in a device's payload, in s since 1970.

    Returns None if the device's clock was never set.

    >>> device_time(1674473304.1), device_time(253.0)
    (1674473304.1, None)
    """
    return at if at > MIN_CLOCK_S else None


def check_settings(settings: Mapping[str, str], known: tuple[str, ...], payload: str) -> None:
    """Raise `ConfigError` for a setting that the decoder of the format `payload` does not have."""
    for name in settings:
        if name not in known:
            has = f"its settings: {', '.join(known)}" if known else "it has no settings of its own"
            near = hint(name, [*known, *TABLE])
            if not known and nearest(name, [*JSON_SETTINGS, *TABLE]) in JSON_SETTINGS:
                near = f' Remove {name}; or, if the messages are JSON, set payload = "json".'
            raise ConfigError(f"payload {payload!r} has no setting {name!r}; {has}.{near}")
