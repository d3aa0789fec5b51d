"""SenML, sensor measurement lists in JSON: RFC 8428.

``[{"bn": "urn:dev:ow:10e2073a01080063:", "bt": 1.320067464e+09, "bu": "%RH", "v": 20}, ...]``:
what begins with b is added to each record from there on. A time below 2^28 is from now.

https://www.rfc-editor.org/rfc/rfc8428 (sections 4.3 to 4.6)
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import known_settings
from edge_tvbo_adapters.payloads.json import number, parsed

VERSION = 10  # the newest that we know, and the one that is meant where none is said
ABSOLUTE = 2**28  # s; what is less is a time from now
_KNOWN = frozenset(
    {"bn", "bt", "bu", "bv", "bs", "bver", "n", "u", "v", "vs", "vb", "vd", "s", "t", "ut"}
)


class Measurement(msgspec.Struct, frozen=True):
    """A record with a number in it, resolved: nothing of it depends on the records before."""

    name: str
    unit: str
    value: float
    time: float  # s: since 1970, or below 2^28 from now

    @property
    def age_rank(self) -> tuple[bool, float]:
        """What sorts the newest last; times from now are taken for newer than any date."""
        return self.time < ABSOLUTE, self.time


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Give the codec for the name ``value`` and the ``unit``, of which either may be left out.

    A name is the whole one, or what it ends in. Of several records it gives the newest.

    >>> codec({"value": "current"})(
    ...     b'[{"bn": "urn:dev:ow:10e2073a0108006:", "bt": 1.276020076e+09, "bu": "A",'
    ...     b' "n": "voltage", "u": "V", "v": 120.1}, {"n": "current", "t": -5, "v": 1.2},'
    ...     b' {"n": "current", "v": 1.7}]'
    ... )
    (1.7, 1276020076.0)
    """
    known_settings(settings, ("value", "unit"), "senml")
    name, unit = settings.get("value", ""), settings.get("unit")

    def decode(payload: bytes) -> tuple[float, float | timedelta]:
        named = [each for each in measurements(parsed(payload)) if each.name.endswith(name)]
        if not named:
            raise PayloadError("missing-value", f"there is no number named {name!r}")
        meant = [each for each in named if unit in (None, each.unit)]
        if not meant:
            found = ", ".join(sorted({each.unit or "none" for each in named}))
            raise PayloadError("wrong-unit", f"it is in {found[:40]}, not in {unit}")
        newest = max(reversed(meant), key=lambda each: each.age_rank)
        return newest.value, when(newest.time)

    return decode


def measurements(pack: Any) -> Iterator[Measurement]:
    """Yield the numbers of a pack; raises `PayloadError` where it is no SenML."""
    if not isinstance(pack, list):
        raise PayloadError("not-senml", "it is no array")
    base: dict[str, Any] = {}
    for record in pack:
        if not isinstance(record, dict):
            raise PayloadError("not-senml", "a record is no object")
        for field in record.keys() - _KNOWN:
            if field.endswith("_"):
                raise PayloadError("not-understood", f"{field[:40]!r} must be, and is not")
        base |= {field: record[field] for field in record if field.startswith("b")}
        if number(base.get("bver", VERSION)) > VERSION:
            raise PayloadError("not-understood", f"version {base['bver']} of SenML")
        if "v" in record:
            yield resolved(record, base)


def resolved(record: dict[str, Any], base: dict[str, Any]) -> Measurement:
    """Give what a record with a ``v`` says; raises `PayloadError`."""
    return Measurement(
        name=text(base.get("bn", "")) + text(record.get("n", "")),
        unit=text(record.get("u", base.get("bu", ""))),
        value=number(number(base.get("bv", 0)) + number(record["v"])),
        time=number(number(base.get("bt", 0)) + number(record.get("t", 0))),
    )


def text(value: Any) -> str:
    """Give a text, or raise `PayloadError`."""
    if not isinstance(value, str):
        raise PayloadError("not-senml", f"a name or unit is of {type(value).__name__}")
    return value


def when(time: float) -> float | timedelta:
    """Give a moment, or a time from now; raises `PayloadError`."""
    if time >= ABSOLUTE:
        return time
    try:
        return timedelta(seconds=time)
    except OverflowError:
        raise PayloadError("bad-time", f"{time} s from now is no time") from None
