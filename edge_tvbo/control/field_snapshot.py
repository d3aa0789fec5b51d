"""Field snapshot: the checked values of a snapshot that concern the field as a whole."""

import msgspec

from edge_tvbo.control.activations import ActivationsState
from edge_tvbo.control.controller_state import ControllerState
from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import State, read_bytes, read_count, read_names, read_number


class StoredField(msgspec.Struct, frozen=True):
    """The checked values of a field's snapshot that concern the field as a whole.

    A value that an old version did not store is None, 0, False or "".
    """

    held: ControllerState
    activations: ActivationsState
    policy: bytes
    resets: int
    undelivered: int
    skipped: int
    used: int | None  # highest number that may have been used; None if it is unknown
    clock_set_forward: bool
    model_time: float | None  # None before the first interval, too
    interval_s: float | None  # length of an interval; None for "on-reading", too
    recalled: list[str] | None  # None if no reply is awaited, too
    unit: str  # of the values
    former_unit: str
    charges_energy: bool  # whether activations were charged to energy budgets

    @classmethod
    def decode(cls, state: State, sensors: int) -> "StoredField":
        """Return the values in the `state` of a field; `sensors` is the number of its sensors.

        Raises `SnapshotError` for invalid values.
        """
        held = ControllerState.decode(read_bytes(state, "progress"), sensors)
        skipped, reserved = _count(state, "skipped"), _count(state, "used")
        is_unknown = held.interval < 0 and "used" not in state
        return cls(
            held=held,
            activations=ActivationsState.decode(state, held, sensors),
            policy=read_bytes(state, "policy"),
            resets=_count(state, "resets"),
            undelivered=_count(state, "undelivered"),
            skipped=skipped,
            used=None if is_unknown else max(held.interval + skipped, reserved),
            clock_set_forward=bool(_count(state, "clock_set_forward")),
            model_time=_number(state, "model_time"),
            interval_s=_length(state),
            recalled=read_names(state, "recalled") if "recalled" in state else None,
            unit=read_text(state, "unit"),
            former_unit=read_text(state, "former_unit"),
            charges_energy="energy" in state and "own_count" not in state,  # not in mode "advise"
        )


def _count(state: State, key: str) -> int:
    """Return a count of a stored field; 0 if the snapshot does not contain it."""
    return read_count(state, key) if key in state else 0


def _number(state: State, key: str) -> float | None:
    """Return a number of a stored field; None if the snapshot does not contain it."""
    return read_number(state, key) if key in state else None


def _length(state: State) -> float | None:
    """Return the length of an interval of a stored field, in s; None if it is unknown."""
    length = _number(state, "interval_s")
    if length is not None and length <= 0.0:
        raise SnapshotError("The snapshot's 'interval_s' is not positive.")
    return length


def read_text(state: State, key: str) -> str:
    """Return a text of a stored field; "" if the snapshot does not contain it."""
    text = state.get(key, "")
    if not isinstance(text, str):
        raise SnapshotError(f"The snapshot's '{key}' is not a text.")
    return text
