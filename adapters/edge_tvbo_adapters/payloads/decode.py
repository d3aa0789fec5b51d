"""Decoding shared by the payload formats: text, finite numbers, unknown settings."""

from collections.abc import Mapping
from math import isfinite

from edge_tvbo.errors import ConfigError, PayloadError, hint


def number_in(text: str) -> float:
    """Give the finite number that `text` is; raises `PayloadError`.

    >>> number_in(" 21.3 ")
    21.3
    """
    text = text.strip()
    if not text:
        raise PayloadError("empty", "there is nothing in it")
    try:
        value = float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        value = None
    if value is None:
        comma = "; a decimal comma?" if text.count(",") == 1 else ""
        raise PayloadError("not-a-number", f"{text[:40]!r} is no number{comma}")
    return finite(value)


def finite(value: float) -> float:
    """Give `value`, or raise `PayloadError` where it is NaN or infinite."""
    if not isfinite(value):
        raise PayloadError("non-finite", f"{value} is no reading")
    return value


def decoded_text(payload: bytes) -> str:
    """Give the payload as text; raises `PayloadError`."""
    try:
        return payload.decode("utf-8")
    except UnicodeDecodeError:
        raise PayloadError("not-utf8", "it is not in UTF-8") from None


def known_settings(settings: Mapping[str, str], known: tuple[str, ...], codec: str) -> None:
    """Raise `ConfigError` for a setting that the codec does not have."""
    for name in settings:
        if name not in known:
            has = ", ".join(known) or "none"
            raise ConfigError(
                f"payload {codec!r} has no setting {name!r}; it has {has}.{hint(name, known)}"
            )
