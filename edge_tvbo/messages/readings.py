"""Recorded readings: what the daemon keeps of each accepted reading."""

from typing import NamedTuple


class RecordedReading(NamedTuple):
    """One accepted reading of a field."""

    field: str
    sensor: str
    at: float  # when it was measured, s since 1970
    value: float
    unit: str = ""  # of the field when the reading was recorded; empty if it is not known
