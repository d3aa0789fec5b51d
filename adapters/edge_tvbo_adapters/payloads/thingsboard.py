"""ThingsBoard's telemetry, in each of its forms.

``{"temperature": 42}``, ``{"ts": 1451649600512, "values": {"temperature": 42}}`` with milliseconds
since 1970, an array of either, and a gateway's ``{"Device A": [...]}`` with one device in it. Their
own topics name no sensor: have yours send to one that does.

https://thingsboard.io/docs/reference/mqtt-api/telemetry/
https://thingsboard.io/docs/reference/gateway-api/telemetry/
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import known_settings
from edge_tvbo_adapters.payloads.json import Path, at, moment, number, parsed, path


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Give the codec for the path ``value``; of several readings it gives the newest.

    >>> codec({})(
    ...     b'[{"ts": 1451649601000, "values": {"temperature": 22.7}},'
    ...     b' {"ts": 1451649600000, "values": {"temperature": 22.5}}]'
    ... )
    (22.7, 1451649601.0)
    """
    known_settings(settings, ("value",), "thingsboard")
    value_path = path(settings.get("value", "temperature"))

    def decode(payload: bytes) -> tuple[float, float | None]:
        found = list(readings(of_one_device(parsed(payload)), value_path))
        if not found:
            raise PayloadError("missing-value", "there is no such value in it")
        value, when = max(reversed(found), key=lambda each: each[1])
        return number(value), None if when == inf else when

    return decode


def of_one_device(document: Any) -> list[Any]:
    """Give the records in a document; raises `PayloadError` where a gateway sends several's."""
    if isinstance(document, list):
        return document
    if not isinstance(document, dict):
        raise PayloadError("missing-value", "it is neither an object nor an array")
    arrays = [each for each in document.values() if isinstance(each, list)]
    if len(arrays) != len(document) or not arrays:
        return [document]
    if len(arrays) > 1:
        raise PayloadError("several-devices", f"{len(arrays)} devices are in it; send each alone")
    return arrays[0]


def readings(records: list[Any], value_path: Path) -> Iterator[tuple[Any, float]]:
    """Yield each record's value and time, inf where it has none: it is of now."""
    for record in records:
        if isinstance(record, dict) and isinstance(record.get("values"), dict):
            when = moment(record["ts"]) if "ts" in record else inf
            values = record["values"]
        else:
            when, values = inf, record
        try:
            yield at(values, value_path, "missing-value"), when
        except PayloadError:
            continue
