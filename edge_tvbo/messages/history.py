"""Decision history: the entries that the history database keeps."""

import msgspec

from edge_tvbo.messages.commands import Record
from edge_tvbo.messages.documents import Decision, Notice


class QuantizedArray(msgspec.Struct, frozen=True):
    """One number for each sensor, to a 510th of their range: enough to draw them.

    >>> QuantizedArray(20.0, 30.5, bytes([0, 255, 102])).values()
    [20.0, 30.5, 24.2]
    """

    low: float
    high: float
    steps: bytes  # 0 for `low`, 255 for `high`

    def values(self) -> list[float]:
        """Give the numbers."""
        step = (self.high - self.low) / 255
        return [self.low + step * each for each in self.steps]


class PosteriorSnapshot(msgspec.Struct, frozen=True):
    """What was believed of every sensor when one of them was chosen, in the field's unit."""

    sensors: tuple[str, ...]
    mean: QuantizedArray
    std: QuantizedArray


class Entry(msgspec.Struct, frozen=True):
    """One interval of one field: what was decided, and what became of it."""

    field: str
    decision: Decision
    record: Record | None = None  # None while it runs, and where the daemon did not live to see
    notices: tuple[Notice, ...] = ()  # those that came while it ran
    beliefs: PosteriorSnapshot | None = None
