"""Decision history: one entry for each interval of each field."""

import msgspec

from edge_tvbo.messages.commands import Record
from edge_tvbo.messages.documents import Decision, Notice


class QuantizedArray(msgspec.Struct, frozen=True):
    """One number for each sensor, in 255 steps of their range: exact enough for the dashboard.

    >>> QuantizedArray(20.0, 30.5, bytes([0, 255, 102])).values()
    [20.0, 30.5, 24.2]
    """

    low: float
    high: float
    steps: bytes  # 0 for `low`, 255 for `high`

    def values(self) -> list[float]:
        """Return the numbers."""
        step = (self.high - self.low) / 255
        return [self.low + step * each for each in self.steps]


class PosteriorSnapshot(msgspec.Struct, frozen=True):
    """Posterior of every sensor at the time of a decision, in the field's unit."""

    sensors: tuple[str, ...]
    mean: QuantizedArray
    std: QuantizedArray


class HistoryEntry(msgspec.Struct, frozen=True):
    """One interval of one field: the decision, and how the interval ended."""

    field: str
    decision: Decision
    record: Record | None = None  # None while it runs, or if the daemon was killed before its end
    notices: tuple[Notice, ...] = ()  # those published while it ran
    posterior: PosteriorSnapshot | None = msgspec.field(default=None, name="beliefs")
