"""Controller state: the running interval, counters and last readings, as stored in a snapshot."""

from math import inf, isfinite, nan

import msgspec
from msgspec.structs import replace

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import (
    MAX_COUNT,
    decode_snapshot,
    decode_struct,
    read_bytes,
    read_count,
    read_names,
)

SNAPSHOT_KIND = "controller"  # the kind of snapshot
MAX_REASONS = 32  # rejection reasons counted by name; any further reason is "other"
MAX_TIME_LENGTH = 64  # characters of RFC 3339 text


class ControllerState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """State of a controller in a snapshot: running interval, counters, last readings."""

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
    def decode(cls, blob: bytes, sensors: int) -> "ControllerState":
        """Return the controller state that is encoded in `blob`, a part of a field's snapshot.

        `sensors` is the number of sensors of the field. Raises `SnapshotError` for an invalid
        state.
        """
        state = decode_struct("The controller's snapshot", cls, blob)
        if not state._is_valid(sensors):
            raise SnapshotError("The controller's snapshot contains invalid values.")
        return state

    def without_readings(self) -> "ControllerState":
        """Return a copy of the controller state in which no sensor has sent a reading."""
        M = len(self.last_at)
        return replace(  # three lists, because the reading filter changes each of them
            self, last_at=[-inf] * M, last_received=[-inf] * M, last_value=[nan] * M
        )

    def _is_valid(self, sensors: int) -> bool:
        counts = (self.answered, self.missed, *self.refused.values())
        return (
            -1 <= self.selected < sensors
            and min(self.selected, 0) <= self.interval <= MAX_COUNT
            and not (self.waiting and self.selected < 0)
            and isfinite(self.began)
            and len(self.last_reset or "") <= MAX_TIME_LENGTH
            and len(self.refused) <= MAX_REASONS + 1
            and all(0 <= count <= MAX_COUNT for count in counts)
        )


class Counters(msgspec.Struct, frozen=True):
    """The counters in the snapshot of a controller."""

    interval: int | None  # number of the last interval that began; None before the first
    answered: int
    missed: int
    resets: int | None  # resets of the model; None in the snapshot of an old version
    last_reset: str | None
    refused: dict[str, int]  # by reason
    paused: bool
    ignored: list[str]  # sensors
    undelivered: int


def counters(blob: bytes) -> Counters:
    """Return the counters of the controller state in a snapshot; raises `SnapshotError`.

    The function needs no policy, so it can read the snapshot of any controller.
    """
    state = decode_snapshot(SNAPSHOT_KIND, None, blob)
    held = ControllerState.decode(read_bytes(state, "progress"), MAX_COUNT)
    return Counters(
        held.interval if held.interval >= 0 else None,
        held.answered,
        held.missed,
        read_count(state, "resets") if "resets" in state else None,
        held.last_reset,
        dict(held.refused),
        held.paused,
        read_names(state, "ignored") if "ignored" in state else [],
        read_count(state, "undelivered") if "undelivered" in state else 0,
    )
