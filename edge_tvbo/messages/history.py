"""Decision history: one entry for each interval of each field."""

from typing import Protocol

import msgspec

from edge_tvbo.messages.commands import Record
from edge_tvbo.messages.documents import Decision, Notice


class QuantizedArray(msgspec.Struct, frozen=True):
    """One number for each sensor, rounded to one of 256 levels between `low` and `high`.

    The rounded numbers are exact enough for the dashboard.

    >>> QuantizedArray(20.0, 30.5, bytes([0, 255, 102])).values()
    [20.0, 30.5, 24.2]
    """

    low: float
    high: float
    steps: bytes  # 0 for `low`, 255 for `high`

    def values(self) -> list[float]:
        """Return the rounded numbers of the history as floats, one for each sensor."""
        step = (self.high - self.low) / 255
        return [self.low + step * each for each in self.steps]


class PosteriorSnapshot(msgspec.Struct, frozen=True):
    """Posterior of every sensor at the time of a decision, in the field's unit."""

    sensors: tuple[str, ...]
    mean: QuantizedArray
    std: QuantizedArray


class EarlierActivation(msgspec.Struct, frozen=True):
    """An activation that was not the last one of its interval."""

    decision: Decision
    record: Record | None = None  # how the activation ended; `HistoryEntry` explains None


class HistoryEntry(msgspec.Struct, frozen=True):
    """One interval of one field: the last decision in it, and how the activation ended."""

    field: str
    decision: Decision
    # None until the activation ends; also if the daemon was killed before the end:
    record: Record | None = None
    notices: tuple[Notice, ...] = ()  # published while the interval ran
    posterior: PosteriorSnapshot | None = msgspec.field(default=None, name="beliefs")
    earlier: tuple[EarlierActivation, ...] = ()  # earlier activations of the interval, oldest first


class DecisionHistory(Protocol):
    """Interface of a stored decision history; every method may raise `DataError`."""

    def newest(self, field: str, count: int) -> list[HistoryEntry]:
        """Return the last `count` stored entries of `field`, the newest first."""
        ...

    def close(self) -> None:
        """Close the file of the decision history."""
        ...
