"""Snapshots: the state of objects as bytes, in memory and on disk, with checks when bytes are read.

There are two formats, which guard against different faults: the *snapshot* and the *document*.

A *snapshot* is the state of one object, such as a posterior, a policy or a controller, in memory or
inside another snapshot. A snapshot is msgpack of ``[format, kind, exact, state, rounded]``. `kind`
names the object and its settings. `exact` and `rounded` are the `Fingerprint` of the field. `state`
maps names to arrays, numbers, text and inner snapshots. Version 0.1.0 did not write `rounded`, and
does not read it. Only an object of the same kind on the same field can read the snapshot. A
symmetric matrix is stored as its upper triangle. The numbers of a large array are stored in planes:
the lowest byte of each number, then the second-lowest byte of each number, and so on. In a
covariance, only the two planes with the exponents are compressible; the other six bytes of each
number are noise.

A *document* is a file with all snapshots of a daemon. Disks lose and flip bits, and the version of
edge_tvbo that reads a file can differ from the version that wrote the file. So a document starts
with a header:

    magic, 16 bytes | format, 4 | SHA-256 of format and content, 32 | content, zlib of msgpack

A document of an older format is migrated step by step to the current format; a document of a newer
format is rejected.

Pickle is not used, so that reading a snapshot never runs code from it. If any part of a snapshot or
document is invalid, `SnapshotError` is raised.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from io import BytesIO
from math import prod
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.fingerprint import Fingerprint, kinds_agree

SNAPSHOT_FORMAT = 1
MAX_COUNT = 2**53  # largest count in a state
MAX_NUMBER = 1e110  # largest number in a state, so that sums of squares stay finite
MAX_DOCUMENT_SIZE = 2**28  # bytes, uncompressed
MIN_PLANES_BYTES = 2**16  # smallest size of an array that is stored in planes
BLOCK_BYTES = 2**15  # a document has blocks of this size, compressed or stored as they are
SMALL_BYTES = 2**12  # largest content that is compressed without a sample
SLICE_BYTES, SLICE_STEP = 2**8, 2**11  # a block's sample: 256 bytes out of every 2048 bytes
MAX_SHARE = 0.97  # a block is compressed if its sample shrinks to at most this share
COVARIANCE_TOLERANCE = 1e-6  # as a share of the largest variance; rounding errors are smaller

_DTYPES = ("<f8", "<i8")
_ITEM_BYTES = 8  # size of a number of these types
_TRIANGLES = "<f8 triangles"  # type of symmetric matrices that are stored as their upper triangles
_PLANES = " planes"  # end of the type of arrays whose numbers are stored in planes
_ZLIB_HEADER = b"\x78\x01"  # deflate with a window of 32 KiB, the fastest compression

State = dict[str, Any]  # name -> array, number, text, bytes or None
AnyArray = np.ndarray[Any, Any]
Decoded = TypeVar("Decoded")


# --- snapshots ----------------------------------------------------------------------------------


class _Envelope(msgspec.Struct, array_like=True, frozen=True):
    format: int
    kind: str
    exact: str
    state: dict[str, Any]
    rounded: str = ""


def encode_snapshot(kind: str, fingerprint: Fingerprint, state: State) -> bytes:
    """Return the state of one object as the bytes of a snapshot.

    Parameters
    ----------
    kind : str
        Class and settings of the object that the state belongs to.
    fingerprint : Fingerprint
        Fingerprint of the object's field.
    state : dict
        Maps names to arrays, numbers, text, bytes or None.
    """
    packed = {
        name: _packed_array(value) if isinstance(value, np.ndarray) else value
        for name, value in state.items()
    }
    exact, rounded = fingerprint
    return msgspec.msgpack.encode(_Envelope(SNAPSHOT_FORMAT, kind, exact, packed, rounded))


def decode_snapshot(kind: str, fingerprint: Fingerprint | None, blob: bytes) -> State:
    """Return the state that the bytes of a snapshot hold.

    Parameters
    ----------
    kind, fingerprint
        As for `encode_snapshot`; a `fingerprint` of None accepts the state of any field.
    blob : bytes
        Bytes from `encode_snapshot`.

    Raises
    ------
    SnapshotError
        If the bytes cannot be decoded, or the snapshot is of another format, kind or field.
    """
    envelope = decode_struct("The snapshot", _Envelope, blob)
    if envelope.format != SNAPSHOT_FORMAT:
        raise SnapshotError(
            f"The snapshot has format {envelope.format}, and this version reads format "
            f"{SNAPSHOT_FORMAT}."
        )
    if not kinds_agree(envelope.kind, kind):
        raise SnapshotError(f"The snapshot is of {envelope.kind!r}, not of {kind!r}.")
    found = Fingerprint(envelope.exact, envelope.rounded)
    if fingerprint is not None and not found.agrees(fingerprint):
        raise SnapshotError(
            "The snapshot is of a field with other sensors or positions, or with another kernel, "
            "model or objective."
        )
    return {name: _unpacked(value) for name, value in envelope.state.items()}


def snapshot_kind(blob: bytes) -> str:
    """Return the kind of a snapshot; raise `SnapshotError` if the snapshot's bytes are invalid."""
    return decode_struct("The snapshot", _Envelope, blob).kind


def encode_struct(value: msgspec.Struct) -> bytes:
    """Return a struct as msgpack bytes, so that the state in a snapshot can contain it."""
    return msgspec.msgpack.encode(value)


def decode_struct(name: str, kind: type[Decoded], blob: bytes) -> Decoded:
    """Decode `blob`, the msgpack bytes of a struct of type `kind`, and return the struct.

    Raises `SnapshotError`, with a text that starts with `name`, if the bytes cannot be decoded.
    """
    try:
        return msgspec.msgpack.decode(blob, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise SnapshotError(f"{name} cannot be decoded: {error}.") from error


# --- documents on disk --------------------------------------------------------------------------


class NewerFormatError(SnapshotError):
    """Raised for a document that a later version of edge_tvbo wrote."""


class DocumentFormat(Generic[Decoded]):
    """The format of a document on disk: header, checksum, compression, migrations.

    Parameters
    ----------
    magic : bytes
        The first 16 bytes of every document.
    content : type
        Type of the struct that a document of the current format holds.
    """

    def __init__(self, magic: bytes, content: type[Decoded]) -> None:
        self._magic = magic
        self._content = content
        self._header = struct.Struct(f">{len(magic)}sI32s")

    def encode(self, value: Decoded, *, number: int) -> bytes:
        """Return the bytes of a document on disk, with the content `value` in the format `number`.

        Raises `SnapshotError` if the document is too large to be read again.
        """
        content = msgspec.msgpack.encode(value)
        if len(content) > MAX_DOCUMENT_SIZE:
            raise SnapshotError(
                f"the content has {len(content) / 1e6:.0f} MB, and at most "
                f"{MAX_DOCUMENT_SIZE / 1e6:.0f} MB can be read again"
            )
        document = BytesIO()
        document.write(bytes(self._header.size))
        for part in _compressed(content):
            document.write(part)
        with document.getbuffer() as buffer:
            checksum = _checksum(number, buffer[self._header.size :])
            self._header.pack_into(buffer, 0, self._magic, number, checksum)
        return document.getvalue()

    def decode(
        self, data: bytes, *, number: int, migrations: Mapping[int, Callable[[Any], Any]]
    ) -> Decoded:
        """Return the content of a document on disk, migrated to the format `number`.

        Parameters
        ----------
        data : bytes
            The document.
        number : int
            Number of the current format.
        migrations : mapping
            Maps the number of each older format to a function that converts content of that format
            to content of the next format.

        Raises
        ------
        NewerFormatError
            If the document has a newer format.
        SnapshotError
            If the document is damaged, or was written by another program.
        """
        if len(data) < self._header.size:
            raise SnapshotError(f"the data has {len(data)} bytes, which is less than a header")
        magic, found, checksum = self._header.unpack_from(data)
        body = memoryview(data)[self._header.size :]
        if magic != self._magic:
            raise SnapshotError("the data does not start like a state file of edge_tvbo")
        if checksum != _checksum(found, body):
            raise SnapshotError("the checksum does not match the content")
        if found > number:
            raise NewerFormatError(
                f"the data has format {found}, and this version of edge_tvbo reads up to format "
                f"{number}; run the version that wrote the file"
            )
        try:
            content = msgspec.msgpack.decode(_decompressed(body))
            for step in range(found, number):
                content = migrations[step](content)
            return msgspec.convert(content, self._content)
        except (
            KeyError,
            TypeError,
            ValueError,
            RecursionError,
            zlib.error,
            msgspec.MsgspecError,
        ) as error:
            raise SnapshotError(f"the data cannot be decoded: {error}") from error


def _checksum(number: int, body: memoryview) -> bytes:
    checksum = sha256(number.to_bytes(4, "big"))
    checksum.update(body)
    return checksum.digest()


def _compressed(content: bytes) -> Iterator[bytes]:
    """Yield the parts of a zlib stream with the `content` of a document.

    A block that compression hardly shortens is stored as it is, because zlib is slow with such
    blocks. Each block ends with a full flush, so no block refers to another block. Small content is
    always compressed, because that is faster than to compress a sample first.
    """
    if len(content) <= SMALL_BYTES:
        yield zlib.compress(content, 1)
        return
    shortening, storing = (zlib.compressobj(level, wbits=-zlib.MAX_WBITS) for level in (1, 0))
    yield _ZLIB_HEADER
    for start in range(0, len(content), BLOCK_BYTES):
        block = content[start : start + BLOCK_BYTES]
        sample = b"".join(block[at : at + SLICE_BYTES] for at in range(0, len(block), SLICE_STEP))
        is_noise = len(zlib.compress(sample, 1)) > MAX_SHARE * len(sample)
        stream = storing if is_noise else shortening
        yield stream.compress(block) + stream.flush(zlib.Z_FULL_FLUSH)
    yield shortening.flush() + zlib.adler32(content).to_bytes(4, "big")


def _decompressed(body: memoryview) -> bytes:
    reader = zlib.decompressobj()
    content = reader.decompress(body, MAX_DOCUMENT_SIZE)
    if not reader.eof or reader.unused_data:
        raise ValueError("the end of the data is missing, or the data is too large")
    return content


# --- reading a state ----------------------------------------------------------------------------


def check_arrays(arrays: Mapping[str, AnyArray], state: State) -> None:
    """Raise `SnapshotError` unless `state` has a valid array for each name in `arrays`.

    All numbers of a valid array are finite. Its shape and type are those of the array with the same
    name in `arrays`.
    """
    for name, array in arrays.items():
        saved = state.get(name)
        if not isinstance(saved, np.ndarray) or saved.shape != array.shape:
            raise SnapshotError(f"The snapshot has no {name!r} of shape {array.shape}.")
        limits = saved.min(initial=0), saved.max(initial=0)
        if saved.dtype != array.dtype or not -MAX_NUMBER <= limits[0] <= limits[1] <= MAX_NUMBER:
            raise SnapshotError(f"The snapshot's {name!r} holds values that are not valid numbers.")


def check_covariances(name: str, prior: AnyArray, state: State) -> None:
    """Raise `SnapshotError` unless the array `name` (..., M, M) holds valid covariances.

    No variance may be negative. The covariance of two arms may exceed the product of their standard
    deviations only by a rounding error: by at most `COVARIANCE_TOLERANCE` times the largest
    variance in `prior` or in the array. Call `check_arrays` first.
    """
    C = state[name]
    variances = np.diagonal(C, axis1=-2, axis2=-1)
    if (variances < 0).any():
        raise SnapshotError(f"The snapshot's {name!r} holds a negative variance.")
    deviations = np.sqrt(variances)
    most = deviations[..., :, None] * deviations[..., None, :]
    most += COVARIANCE_TOLERANCE * max(prior.max(), variances.max(initial=0.0))
    if (most < C).any() or (np.negative(most, out=most) > C).any():
        raise SnapshotError(f"The snapshot's {name!r} holds an impossible covariance.")


def copy_arrays(arrays: Mapping[str, AnyArray], state: State) -> None:
    """Copy the arrays of a snapshot's checked `state` into the `arrays` of the same names."""
    for name, array in arrays.items():
        array[...] = state[name]


def read_number(state: State, name: str) -> float:
    """Return the number called `name` in a snapshot's state, or raise `SnapshotError`."""
    value = state.get(name)
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not abs(value) <= MAX_NUMBER
    ):
        raise SnapshotError(f"The snapshot has no number called {name!r}.")
    return float(value)


def read_count(state: State, name: str) -> int:
    """Return the count `name` (0 or more) in a snapshot's state, or raise `SnapshotError`."""
    value = state.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
        raise SnapshotError(f"The snapshot has no whole number called {name!r}.")
    return value


def read_names(state: State, name: str) -> list[str]:
    """Return the list of texts called `name` in a snapshot's state, or raise `SnapshotError`."""
    value = state.get(name)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise SnapshotError(f"The snapshot has no list of names called {name!r}.")
    return value


def read_bytes(state: State, name: str) -> bytes:
    """Return the inner snapshot called `name` in a snapshot's state, or raise `SnapshotError`."""
    value = state.get(name)
    if not isinstance(value, bytes):
        raise SnapshotError(f"The snapshot has no inner snapshot {name!r}.")
    return value


# --- arrays as msgpack --------------------------------------------------------------------------


def _packed_array(array: AnyArray) -> list[Any]:
    """Return the type, the shape and the bytes of a snapshot's array.

    The bytes of a symmetric matrix contain only one triangle.
    """
    kind, values = array.dtype.str, array
    if _is_symmetric(array):
        rows = range(array.shape[-1])
        kind, values = _TRIANGLES, np.concatenate([array[..., i, i:] for i in rows], axis=-1)
    if values.nbytes < MIN_PLANES_BYTES:
        return [kind, array.shape, values.tobytes()]
    numbers = np.ascontiguousarray(values).view(np.uint8).reshape(-1, _ITEM_BYTES)
    return [kind + _PLANES, array.shape, numbers.T.tobytes()]


def _is_symmetric(array: AnyArray) -> bool:
    """Return whether the last two axes of a snapshot's array are symmetric to the last bit."""
    if array.ndim < 2 or not 0 < array.shape[-1] == array.shape[-2] or array.dtype.str != "<f8":
        return False
    bits = np.ascontiguousarray(array).view(np.int64)  # integers distinguish -0.0 from 0.0
    return bool((bits == bits.swapaxes(-1, -2)).all())


def _unpacked(value: Any) -> Any:
    match value:
        case [str(dtype), [*shape], bytes(data)]:
            try:
                return _array(dtype, shape, data)
            except (TypeError, ValueError, IndexError) as error:
                raise SnapshotError(f"The snapshot contains an invalid array: {error}.") from error
        case _:
            return value


def _array(dtype: str, shape: list[int], data: bytes) -> AnyArray:
    if dtype.endswith(_PLANES):
        planes = np.frombuffer(data, np.uint8).reshape(_ITEM_BYTES, -1)
        dtype, data = dtype.removesuffix(_PLANES), planes.T.tobytes()
    if dtype in _DTYPES:
        return np.frombuffer(data, np.dtype(dtype)).reshape(shape)
    if dtype != _TRIANGLES:
        raise SnapshotError(f"The snapshot contains an array of unknown type {dtype[:20]!r}.")
    *several, rows, columns = shape
    if 0 in several:
        return np.empty(shape)
    size = prod(several) * rows * (rows + 1) // 2 * 8
    if rows != columns or size != len(data):  # check this before memory is allocated
        raise ValueError(f"{len(data)} bytes do not fit symmetric {rows} by {columns} matrices")
    upper = np.frombuffer(data, np.float64).reshape([*several, rows * (rows + 1) // 2])
    array, end = np.empty(shape), 0
    for i in range(rows):
        start, end = end, end + rows - i
        array[..., i, i:] = array[..., i:, i] = upper[..., start:end]
    return array
