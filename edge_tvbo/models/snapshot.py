"""State as bytes: arrays and numbers in msgpack, with what they belong to. No pickle."""

from typing import Any

import msgspec
import numpy as np

from edge_tvbo.errors import SnapshotError

FORMAT = 1
DTYPES = ("<f8", "<i8")
TRIANGLES = "<f8 triangles"  # symmetric matrices, of which the upper triangles are kept
MOST = 2**53  # of anything counted
LARGEST = 1e100  # of a number: squares stay finite, and sums of them
SLACK = 1e-6  # of the largest variance: what rounding does to a covariance at the most


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
        name: _packed(value) if isinstance(value, np.ndarray) else value
        for name, value in state.items()
    }
    return msgspec.msgpack.encode(_Sealed(FORMAT, kind, field, packed))


def unseal(kind: str, field: str | None, blob: bytes) -> dict[str, Any]:
    """Give back the state that `seal` made bytes of, or raise `SnapshotError`.

    `field` None takes that of any field.
    """
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
    if field is not None and sealed.field != field:
        raise SnapshotError("The snapshot belongs to other sensors, another kernel or other noise.")
    return {name: _unpacked(value) for name, value in sealed.state.items()}


def check_arrays(arrays: dict[str, np.ndarray[Any, Any]], state: dict[str, Any]) -> None:
    """Raise `SnapshotError` unless `state` has a sound namesake for each array."""
    for name, array in arrays.items():
        saved = state.get(name)
        if not isinstance(saved, np.ndarray) or saved.shape != array.shape:
            raise SnapshotError(f"The snapshot has no {name!r} of shape {array.shape}.")
        if saved.dtype != array.dtype or not (np.abs(saved) <= LARGEST).all():
            raise SnapshotError(f"The snapshot's {name!r} holds no numbers that can be.")


def check_covariances(name: str, prior: np.ndarray[Any, Any], state: dict[str, Any]) -> None:
    """Raise `SnapshotError` unless `name` (..., M, M), which was checked, co-varies as can be.

    No variance is negative, and no covariance is beyond its two standard deviations' product by
    more than what rounding does to numbers as large as those of `prior`.
    """
    C = state[name]
    variances = np.diagonal(C, axis1=-2, axis2=-1)
    if (variances < 0).any():
        raise SnapshotError(f"The snapshot's {name!r} holds a negative variance.")
    deviations = np.sqrt(variances)
    most = deviations[..., :, None] * deviations[..., None, :]
    if (np.abs(C) > most + SLACK * max(prior.max(), variances.max(initial=0.0))).any():
        raise SnapshotError(f"The snapshot's {name!r} holds a covariance that cannot be.")


def copy_arrays(arrays: dict[str, np.ndarray[Any, Any]], state: dict[str, Any]) -> None:
    """Copy from `state`, which was checked, into each array."""
    for name, array in arrays.items():
        array[...] = state[name]


def number(state: dict[str, Any], name: str) -> float:
    """Give the number saved as `name`, or raise `SnapshotError`."""
    value = state.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST:
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


def _packed(array: np.ndarray[Any, Any]) -> list[Any]:
    """Give what array it is, its shape and its bytes: half of them where it mirrors itself."""
    if not _is_symmetric(array):
        return [array.dtype.str, array.shape, array.tobytes()]
    upper = np.triu_indices(array.shape[-1])
    return [TRIANGLES, array.shape, array[..., upper[0], upper[1]].tobytes()]


def _is_symmetric(array: np.ndarray[Any, Any]) -> bool:
    """Say whether the last two axes hold symmetric matrices, to the last bit."""
    if array.dtype.str != "<f8" or array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        return False
    bits = np.ascontiguousarray(array).view(np.int64)  # which tells -0.0 from 0.0
    return bool(np.array_equal(bits, bits.swapaxes(-1, -2)))


def _unpacked(value: Any) -> Any:
    match value:
        case [str(dtype), [*shape], bytes(data)]:
            try:
                return _array(dtype, shape, data)
            except (TypeError, ValueError, IndexError, MemoryError) as error:
                raise SnapshotError(f"The snapshot holds a broken array: {error}.") from error
        case _:
            return value


def _array(dtype: str, shape: list[int], data: bytes) -> np.ndarray[Any, Any]:
    if dtype in DTYPES:
        return np.frombuffer(data, np.dtype(dtype)).reshape(shape)
    if dtype != TRIANGLES:
        raise SnapshotError(f"The snapshot holds an array of {dtype[:20]!r}.")
    *several, rows, columns = shape
    if 0 in several:
        return np.empty(shape)
    if rows != columns or rows > len(data):  # said before room is made for them
        raise ValueError(f"{len(data)} bytes are no triangles of {rows} by {columns}")
    first, second = np.triu_indices(rows)
    upper = np.frombuffer(data, np.float64).reshape([*several, len(first)])
    array = np.empty([*upper.shape[:-1], rows, rows])
    array[..., first, second] = array[..., second, first] = upper
    return array
