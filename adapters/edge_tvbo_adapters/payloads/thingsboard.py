"""ThingsBoard payloads: telemetry in each of its forms.

A record is ``{"temperature": 42}``, or ``{"ts": 1451649600512, "values": {"temperature": 42}}``
with milliseconds since 1970. A payload is a record, an array of records, or a gateway's message
``{"Device A": [...]}`` about one device. The default topics of ThingsBoard do not contain the
sensor, so the sensors have to publish on other topics.

https://thingsboard.io/docs/reference/mqtt-api/telemetry/
https://thingsboard.io/docs/reference/gateway-api/telemetry/
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import check_settings
from edge_tvbo_adapters.payloads.json import (
    Path,
    find,
    json_type,
    parse_json,
    parse_path,
    to_number,
    to_seconds,
)


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the ThingsBoard codec for the path ``value``.

    From a message with several readings, the codec returns the newest reading.

    >>> codec({})(
    ...     b'[{"ts": 1451649601000, "values": {"temperature": 22.7}},'
    ...     b' {"ts": 1451649600000, "values": {"temperature": 22.5}}]'
    ... )
    (22.7, 1451649601.0)
    """
    check_settings(settings, ("value",), "thingsboard")
    value_path = parse_path(settings.get("value", "temperature"))

    def decode(payload: bytes) -> tuple[float, float | None]:
        found = list(readings(records(parse_json(payload)), value_path))
        if not found:
            raise PayloadError("missing-value", "no record contains the value")
        value, time = max(reversed(found), key=lambda each: each[1])
        return to_number(value), None if time == inf else time

    return decode


def records(document: Any) -> list[Any]:
    """Return the records of a ThingsBoard document.

    Raises `PayloadError` for a document of another type, or with records of several devices.
    """
    if isinstance(document, list):
        return document
    if not isinstance(document, dict):
        text = f"the document is {json_type(document)}, not an object or an array"
        raise PayloadError("missing-value", text)
    arrays = [each for each in document.values() if isinstance(each, list)]
    if len(arrays) != len(document) or not arrays:
        return [document]
    if len(arrays) > 1:
        text = (
            f"the message has records of {len(arrays)} devices; publish one message for each device"
        )
        raise PayloadError("several-devices", text)
    return arrays[0]


def readings(records: list[Any], value_path: Path) -> Iterator[tuple[Any, float]]:
    """Yield the value and the time of each ThingsBoard record; inf stands for a missing time."""
    for record in records:
        if isinstance(record, dict) and isinstance(record.get("values"), dict):
            time = to_seconds(record["ts"]) if "ts" in record else inf
            values = record["values"]
        else:
            time, values = inf, record
        try:
            yield find(values, value_path, "missing-value"), time
        except PayloadError:
            continue
