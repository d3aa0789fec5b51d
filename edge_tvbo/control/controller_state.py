"""How far a controller is: what its snapshot holds beside the policy, the suspects and energy."""

from math import inf, isfinite

import msgspec

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import (
    MAX_COUNT,
    decode_snapshot,
    decode_struct,
    read_bytes,
    read_count,
)

KIND = "controller"  # of snapshot
MOST_REASONS = 32  # reasons counted by name; the rest are "other"
LONGEST = 64  # characters of a time


class ControllerState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The interval that runs, what was counted, and the last reading of each sensor."""

    interval: int
    began: float
    selected: int
    waiting: bool
    answered: int
    missed: int
    last_reset: str | None
    refused: dict[str, int]
    last_at: list[float]
    last_received: list[float]
    last_value: list[float]
    stepped: float = -inf
    paused: bool = False

    @classmethod
    def of(cls, blob: bytes, sensors: int) -> "ControllerState":
        """Give what `blob` holds, which fits a field of so many sensors; raises `SnapshotError`."""
        progress = decode_struct("The controller's snapshot", cls, blob)
        if not progress._is_sound(sensors):
            raise SnapshotError("The controller's snapshot holds what cannot be.")
        return progress

    @property
    def remembered(self) -> tuple[list[float], list[float], list[float], float]:
        """What the screening was."""
        return self.last_at, self.last_received, self.last_value, self.stepped

    def _is_sound(self, sensors: int) -> bool:
        counts = (self.answered, self.missed, *self.refused.values())
        return (
            -1 <= self.selected < sensors
            and min(self.selected, 0) <= self.interval <= MAX_COUNT
            and not (self.waiting and self.selected < 0)
            and isfinite(self.began)
            and len(self.last_reset or "") <= LONGEST
            and len(self.refused) <= MOST_REASONS + 1
            and all(0 <= count <= MAX_COUNT for count in counts)
        )


class Counters(msgspec.Struct, frozen=True):
    """What a snapshot says was counted, whatever field it is of."""

    interval: int  # the last that began; -1 before the first
    answered: int
    missed: int
    resets: int | None  # of the model; None where the snapshot is of before they were kept
    last_reset: str | None
    refused: dict[str, int]  # by reason
    paused: bool


def counters(blob: bytes) -> Counters:
    """Give what was counted by whoever made the snapshot `blob`; raises `SnapshotError`.

    No policy is built for it.
    """
    state = decode_snapshot(KIND, None, blob)
    progress = ControllerState.of(read_bytes(state, "progress"), MAX_COUNT)
    return Counters(
        progress.interval,
        progress.answered,
        progress.missed,
        read_count(state, "resets") if "resets" in state else None,
        progress.last_reset,
        dict(progress.refused),
        progress.paused,
    )
