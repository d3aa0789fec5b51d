"""How far a controller is: what its snapshot holds beside the policy, the suspects and energy."""

from math import inf, isfinite

import msgspec

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import inner, unseal, whole

KIND = "controller"  # of snapshot
MOST_REASONS = 32  # reasons counted by name; the rest are "other"
MOST = 2**53  # of anything counted
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
        try:
            progress = msgspec.msgpack.decode(blob, type=cls)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise SnapshotError(f"The controller's snapshot does not decode: {error}.") from error
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
            and min(self.selected, 0) <= self.interval <= MOST
            and not (self.waiting and self.selected < 0)
            and isfinite(self.began)
            and len(self.last_reset or "") <= LONGEST
            and len(self.refused) <= MOST_REASONS + 1
            and all(0 <= count <= MOST for count in counts)
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
    state = unseal(KIND, None, blob)
    progress = ControllerState.of(inner(state, "progress"), MOST)
    return Counters(
        progress.interval,
        progress.answered,
        progress.missed,
        whole(state, "resets") if "resets" in state else None,
        progress.last_reset,
        dict(progress.refused),
        progress.paused,
    )
