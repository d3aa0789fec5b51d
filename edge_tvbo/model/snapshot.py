"""State as bytes: arrays and numbers in msgpack, with what they belong to. No pickle."""

from math import isfinite
from typing import Any

import msgspec
import numpy as np

from edge_tvbo.errors import SnapshotError

FORMAT = 1
DTYPES = ("<f8", "<i8")
MOST = 2**53  # of anything counted


class _Sealed(msgspec.Struct, array_like=True, frozen=True):
    format: int
    kind: str
    field: str
    state: dict[str, Any]


def seal(kind: str, field: str, state: dict[str, Any]) -> bytes:
    """Give `state` (arrays, numbers, text, bytes or None by name) as bytes.

    `kind` says what wrote it and `field` over which sensors; `unseal` wants the same again.
    """
    packed = {
        name: [value.dtype.str, value.shape, value.tobytes()]
        if isinstance(value, np.ndarray)
        else value
        for name, value in state.items()
    }
    return msgspec.msgpack.encode(_Sealed(FORMAT, kind, field, packed))


def unseal(kind: str, field: str, blob: bytes) -> dict[str, Any]:
    """Give back the state that `seal` made bytes of, or raise `SnapshotError`."""
    try:
        sealed = msgspec.msgpack.decode(blob, type=_Sealed)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise SnapshotError(f"The snapshot does not decode: {error}.") from error
    if sealed.format != FORMAT:
        raise SnapshotError(
            f"The snapshot has format {sealed.format}; this version reads {FORMAT}."
        )
    if sealed.kind != kind:
        raise SnapshotError(f"The snapshot is of {sealed.kind!r}, not of {kind!r}.")
    if sealed.field != field:
        raise SnapshotError("The snapshot belongs to other sensors, another kernel or other noise.")
    return {name: _unpacked(value) for name, value in sealed.state.items()}


def check_arrays(arrays: dict[str, np.ndarray[Any, Any]], state: dict[str, Any]) -> None:
    """Raise `SnapshotError` unless `state` has a sound namesake for each array."""
    for name, array in arrays.items():
        saved = state.get(name)
        if not isinstance(saved, np.ndarray) or saved.shape != array.shape:
            raise SnapshotError(f"The snapshot has no {name!r} of shape {array.shape}.")
        if saved.dtype != array.dtype or not np.isfinite(saved).all():
            raise SnapshotError(f"The snapshot's {name!r} holds no numbers that can be.")


def copy_arrays(arrays: dict[str, np.ndarray[Any, Any]], state: dict[str, Any]) -> None:
    """Copy from `state`, which was checked, into each array."""
    for name, array in arrays.items():
        array[...] = state[name]


def number(state: dict[str, Any], name: str) -> float:
    """Give the number saved as `name`, or raise `SnapshotError`."""
    value = state.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        raise SnapshotError(f"The snapshot has no number {name!r}.")
    return float(value)


def whole(state: dict[str, Any], name: str) -> int:
    """Give the whole number, 0 or more, saved as `name`, or raise `SnapshotError`."""
    value = state.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise SnapshotError(f"The snapshot has no whole number {name!r}.")
    return value


def inner(state: dict[str, Any], name: str) -> bytes:
    """Give the snapshot saved as `name` within another, or raise `SnapshotError`."""
    value = state.get(name)
    if not isinstance(value, bytes):
        raise SnapshotError(f"The snapshot has no snapshot {name!r} in it.")
    return value


def _unpacked(value: Any) -> Any:
    match value:
        case [str(dtype), [*shape], bytes(data)]:
            if dtype not in DTYPES:
                raise SnapshotError(f"The snapshot holds an array of {dtype[:20]!r}.")
            try:
                return np.frombuffer(data, np.dtype(dtype)).reshape(shape)
            except (TypeError, ValueError) as error:
                raise SnapshotError(f"The snapshot holds a broken array: {error}.") from error
        case _:
            return value
