"""SenML payloads: sensor measurement lists in JSON, RFC 8428.

``[{"bn": "urn:dev:ow:10e2073a01080063:", "bt": 1.320067464e+09, "bu": "%RH", "v": 20}, ...]``

The fields ``bn``, ``bt``, ``bu`` and others that begin with b are base fields. A base field applies
to the record that contains it, and to all later records. For example, ``bt`` is added to ``t``. A
time below 2^28 is relative to the arrival of the message.

https://www.rfc-editor.org/rfc/rfc8428 (sections 4.3 to 4.6)
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import MAX_SHOWN_LENGTH, check_settings
from edge_tvbo_adapters.payloads.json import json_type, parse_json, to_number

VERSION = 10  # the newest supported version of SenML, and the default of the RFC
MIN_ABSOLUTE_TIME_S = 2**28  # a smaller time is relative to the arrival of the message
_FIELDS = frozenset(
    {"bn", "bt", "bu", "bv", "bs", "bver", "n", "u", "v", "vs", "vb", "vd", "s", "t", "ut"}
)


class Measurement(msgspec.Struct, frozen=True):
    """A numeric SenML record with the base fields added."""

    name: str
    unit: str
    value: float
    time: float  # s since 1970; if below `MIN_ABSOLUTE_TIME_S`, s relative to the arrival

    @property
    def recency(self) -> tuple[bool, float]:
        """Sort key that puts the newest SenML measurement last.

        Relative times count as newer than absolute times.
        """
        return self.time < MIN_ABSOLUTE_TIME_S, self.time


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the SenML codec for the settings ``value`` and ``unit``, both optional.

    ``value`` is the name of a record, or the end of its name. If several records have this name,
    the codec returns the newest value. A message is rejected if several names end with ``value``,
    and no name is equal to ``value``.

    >>> codec({"value": "current"})(
    ...     b'[{"bn": "urn:dev:ow:10e2073a0108006:", "bt": 1.276020076e+09, "bu": "A",'
    ...     b' "n": "voltage", "u": "V", "v": 120.1}, {"n": "current", "t": -5, "v": 1.2},'
    ...     b' {"n": "current", "v": 1.7}]'
    ... )
    (1.7, 1276020076.0)
    """
    check_settings(settings, ("value", "unit"), "senml")
    name, unit = settings.get("value", ""), settings.get("unit")

    def decode(payload: bytes) -> tuple[float, float | timedelta]:
        named = list(measurements(parse_json(payload), name))
        if not named:
            raise PayloadError("missing-value", f"there is no number named {name!r}")
        matching = [each for each in named if unit in (None, each.unit)]
        if not matching:
            found = ", ".join(sorted({each.unit or "none" for each in named}))
            raise PayloadError("wrong-unit", f"the unit is {found[:MAX_SHOWN_LENGTH]}, not {unit}")
        newest = max(reversed(of_one_name(matching, name)), key=lambda each: each.recency)
        return newest.value, absolute_or_relative(newest.time)

    return decode


def of_one_name(matching: Sequence[Measurement], name: str) -> Sequence[Measurement]:
    """Return the SenML measurements in `matching` that are called `name`.

    The names of all measurements in `matching` end with `name`. If no name is equal to `name`, all
    measurements are returned. Raises `PayloadError` if these measurements have different names.
    """
    exact = [each for each in matching if each.name == name]
    names = sorted({each.name for each in exact or matching})
    if len(names) > 1:
        text = f"several records match {name!r}; set `value` to {names[0]} or {names[1]}"
        raise PayloadError("ambiguous", text)
    return exact or matching


def measurements(pack: Any, name: str) -> Iterator[Measurement]:
    """Yield the numeric records of a SenML array whose names end with `name`.

    The values of other records are not read. Therefore a NaN or null, which some programs write for
    a sensor without a value, does not affect the other sensors of the array. Raises `PayloadError`
    for any document that is not a SenML array.
    """
    if not isinstance(pack, list):
        raise PayloadError("not-senml", f"the document is {json_type(pack)}, not an array")
    base: dict[str, Any] = {}
    for record in pack:
        if not isinstance(record, dict):
            raise PayloadError("not-senml", f"a record is {json_type(record)}, not an object")
        for field in record.keys() - _FIELDS:
            if field.endswith("_"):  # RFC 8428, 4.4: reject such unknown fields
                raise PayloadError(
                    "not-understood", f"unknown mandatory field {field[:MAX_SHOWN_LENGTH]!r}"
                )
        base |= {field: record[field] for field in record if field.startswith("b")}
        if to_number(base.get("bver", VERSION)) > VERSION:
            raise PayloadError("not-understood", f"SenML version {base['bver']} is not supported")
        if "v" in record and full_name(record, base).endswith(name):
            yield resolved(record, base)


def full_name(record: dict[str, Any], base: dict[str, Any]) -> str:
    """Return the full name of a SenML record: the base name, followed by the record's name."""
    return to_text(base.get("bn", "")) + to_text(record.get("n", ""))


def resolved(record: dict[str, Any], base: dict[str, Any]) -> Measurement:
    """Return a SenML record with the base fields added.

    Raises `PayloadError` if a field of the record or a base field is invalid.
    """
    return Measurement(
        name=full_name(record, base),
        unit=to_text(record.get("u", base.get("bu", ""))),
        value=to_number(to_number(base.get("bv", 0)) + to_number(record["v"])),
        time=to_number(to_number(base.get("bt", 0)) + to_number(record.get("t", 0))),
    )


def to_text(value: Any) -> str:
    """Return a SenML name or unit; raises `PayloadError` if it is not a text."""
    if not isinstance(value, str):
        raise PayloadError("not-senml", f"a name or unit is {json_type(value)}, not a text")
    return value


def absolute_or_relative(time: float) -> float | timedelta:
    """Return a SenML time as seconds since 1970, or as an offset from the arrival.

    Raises `PayloadError` if the offset is too large.
    """
    if time >= MIN_ABSOLUTE_TIME_S:
        return time
    try:
        return timedelta(seconds=time)
    except OverflowError:
        raise PayloadError("bad-time", f"the relative time {time} s is too large") from None
