"""Snapshots and documents: round trips, and what is rejected with which message."""

import tracemalloc
import zlib
from hashlib import sha256

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models import snapshot
from edge_tvbo.models.fingerprint import Fingerprint
from edge_tvbo.models.snapshot import (
    DocumentFormat,
    NewerFormatError,
    check_arrays,
    check_covariances,
    decode_snapshot,
    decode_struct,
    encode_snapshot,
    encode_struct,
    read_bytes,
    read_count,
    read_number,
)


class Content(msgspec.Struct, frozen=True):
    name: str


STATE = {
    "mean": np.array([1.0, -0.0, 2.5]),
    "arms": np.array([[0, 3]]),
    "covariances": np.array([[[2.0, 0.5], [0.5, 1.0]]] * 3),
    "none": np.zeros((0, 4, 4)),
    "empty": np.zeros((3, 0, 0)),
    "time": 7,
    "inner": b"\x00\x01",
    "asked": ["a", 1.5],
}
FIELD = Fingerprint("field", "field, rounded")
FORMAT = DocumentFormat(b"edge_tvbo test\n\n", Content)


def test_a_state_round_trips_bit_for_bit():
    state = decode_snapshot("kind 1", FIELD, encode_snapshot("kind 1", FIELD, STATE))
    assert state.keys() == STATE.keys()
    for name, value in STATE.items():
        if isinstance(value, np.ndarray):
            assert state[name].dtype == value.dtype
            assert state[name].shape == value.shape
            assert state[name].tobytes() == value.tobytes()
        else:
            assert state[name] == value


def test_too_little_memory_does_not_count_as_damage(monkeypatch):
    def full(*_):
        raise MemoryError

    blob = encode_snapshot("kind 1", FIELD, STATE)
    monkeypatch.setattr(snapshot, "_array", full)
    with pytest.raises(MemoryError):
        decode_snapshot("kind 1", FIELD, blob)


@given(st.integers(0, 10**6), st.integers(0, 9))
def test_matrices_that_are_larger_than_their_bytes_are_rejected_before_memory_is_used(rows, size):
    state = {"K": ["<f8 triangles", [rows, rows], bytes(8 * size)]}
    blob = encode_snapshot("kind 1", FIELD, state)
    if 2 * size == rows * (rows + 1):
        assert decode_snapshot("kind 1", FIELD, blob)["K"].shape == (rows, rows)
        return
    with pytest.raises(SnapshotError, match="invalid array"):
        decode_snapshot("kind 1", FIELD, blob)


@given(st.integers(80, 130), st.sampled_from(["<f8", "<i8"]), st.booleans(), st.integers(0, 99))
def test_large_arrays_round_trip_bit_for_bit_in_planes(size, dtype, symmetric, seed):
    """All bit patterns: infinite numbers, NaN and -0.0 are among them."""
    bits = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, (2, size, size))
    bits[:, 0, :4] = [0, -(2**63), 0x7FF0 << 48, 0x7FF8 << 48]
    if symmetric:
        bits = np.triu(bits) | np.triu(bits, 1).swapaxes(-1, -2)
    for array in (bits.view(dtype), bits.view(dtype).transpose(1, 2, 0), bits.view(dtype)[0]):
        blob = encode_snapshot("k", FIELD, {"K": array})
        kind, _, data = msgspec.msgpack.decode(blob)[3]["K"]
        assert kind.endswith(" planes") == (len(data) >= snapshot.MIN_PLANES_BYTES)
        read = decode_snapshot("k", FIELD, blob)["K"]
        assert read.dtype == array.dtype
        assert read.shape == array.shape
        assert read.tobytes() == array.tobytes()


@pytest.mark.parametrize("size", [0, 7, 8, 64, 808])
def test_planes_of_another_size_than_their_array_are_rejected(size):
    for kind in ("<f8 planes", "<i8 planes", "<f8 triangles planes"):
        blob = encode_snapshot("k", FIELD, {"K": [kind, [100, 100], bytes(size)]})
        with pytest.raises(SnapshotError, match="invalid array"):
            decode_snapshot("k", FIELD, blob)
    blob = encode_snapshot("k", FIELD, {"K": ["<f4 planes", [1], bytes(8)]})
    with pytest.raises(SnapshotError, match="array of unknown type '<f4'"):
        decode_snapshot("k", FIELD, blob)


def test_a_symmetric_matrix_takes_half_the_bytes():
    K = np.ones((50, 50))
    askew = K.copy()
    askew[0, 1] = 2.0
    symmetric, full = (len(encode_snapshot("k", FIELD, {"K": each})) for each in (K, askew))
    assert symmetric < 0.52 * full


def test_a_snapshot_of_another_kind_field_or_format_is_rejected():
    blob = encode_snapshot("kind 1", FIELD, STATE)
    assert decode_snapshot("kind 1", None, blob)["time"] == 7
    with pytest.raises(SnapshotError, match="is of 'kind 1', not of 'kind 2'"):
        decode_snapshot("kind 2", FIELD, blob)
    with pytest.raises(SnapshotError, match="a field with other sensors"):
        decode_snapshot("kind 1", Fingerprint("other field"), blob)
    _, *rest = msgspec.msgpack.decode(blob)
    with pytest.raises(SnapshotError, match="has format 2, and this version reads format 1"):
        decode_snapshot("kind 1", FIELD, msgspec.msgpack.encode([2, *rest]))


def test_bytes_that_are_not_the_struct_are_rejected_by_name():
    assert decode_struct("The state", Content, encode_struct(Content("a"))) == Content("a")
    for blob in (b"", b"\x91" * 50_000, msgspec.msgpack.encode({"name": 3})):
        with pytest.raises(SnapshotError, match="The state cannot be decoded"):
            decode_struct("The state", Content, blob)


def test_missing_and_wrong_values_are_rejected_by_name():
    state = {"text": "1", "flag": True, "negative": -1, "huge": 1e300, "fraction": 0.5}
    for name in ("missing", "text", "flag", "huge"):
        with pytest.raises(SnapshotError, match=f"no number called '{name}'"):
            read_number(state, name)
    for name in ("missing", "text", "flag", "negative", "fraction"):
        with pytest.raises(SnapshotError, match=f"no whole number called '{name}'"):
            read_count(state, name)
    with pytest.raises(SnapshotError, match="no inner snapshot 'text'"):
        read_bytes(state, "text")


def test_invalid_arrays_and_covariances_are_rejected():
    wanted = {"mean": np.zeros(2)}
    for array in (None, np.zeros(3), np.zeros(2, np.int64), np.array([np.nan, 0.0]), [0.0, 0.0]):
        with pytest.raises(SnapshotError, match="'mean'"):
            check_arrays(wanted, {"mean": array})
    for C, message in (([[-1.0, 0.0], [0.0, 1.0]], "negative"), ([[1.0, 2], [2, 1.0]], "impossib")):
        with pytest.raises(SnapshotError, match=message):
            check_covariances("C", np.eye(2), {"C": np.array(C)})


@given(st.data())
def test_a_changed_byte_of_a_document_is_detected(data):
    document = FORMAT.encode(Content("lab"), number=1)
    assert FORMAT.decode(document, number=1, migrations={}) == Content("lab")
    at = data.draw(st.integers(0, len(document) - 1))
    changed = bytearray(document)
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SnapshotError):
        FORMAT.decode(bytes(changed), number=1, migrations={})
    with pytest.raises(SnapshotError):
        FORMAT.decode(document[:at], number=1, migrations={})


SIZED = (st.integers(0, 9), st.integers(0, 3 * snapshot.BLOCK_BYTES))
NOISE = st.builds(lambda seed, size: np.random.default_rng(seed).bytes(size), *SIZED)
TEXT = st.builds(lambda seed, size: b"mote-%d " % seed * (size // 7), *SIZED)


@given(st.lists(NOISE | TEXT, max_size=4))
def test_any_content_becomes_one_zlib_stream_about_as_short_as_that_of_zlib(several):
    content = b"".join(several)
    stream = b"".join(snapshot._compressed(content))
    assert zlib.decompress(stream) == content
    mixed = snapshot.BLOCK_BYTES * len(several)  # blocks that end in another part than they begin
    assert len(stream) <= 1.02 * len(zlib.compress(content, 1)) + mixed


def test_a_document_in_a_single_block_of_zlib_is_read():
    content = Content("lab" * 50_000)
    body = zlib.compress(msgspec.msgpack.encode(content), 1)
    number = (1).to_bytes(4, "big")
    document = b"edge_tvbo test\n\n" + number + sha256(number + body).digest() + body
    assert FORMAT.decode(document, number=1, migrations={}) == content


class Held(msgspec.Struct, frozen=True):
    snapshot: bytes


def test_a_large_covariance_is_written_and_read_with_little_memory():
    """On a gateway with 500 sensors, their covariance is most of the daemon's memory."""
    C = np.random.default_rng(0).normal(size=(800, 800))
    state = {"C": C @ C.T}
    blob = encode_snapshot("k", FIELD, state)
    held = DocumentFormat(b"edge_tvbo test\n\n", Held)
    document = held.encode(Held(blob), number=1)

    def peak(call, *arguments, **keywords):
        tracemalloc.start()
        try:
            call(*arguments, **keywords)
            return tracemalloc.get_traced_memory()[1] / C.nbytes
        finally:
            tracemalloc.stop()

    assert peak(encode_snapshot, "k", FIELD, state) <= 1.4
    assert peak(held.encode, Held(blob), number=1) <= 1.5
    assert peak(held.decode, document, number=1, migrations={}) <= 1.7
    assert peak(decode_snapshot, "k", FIELD, blob) <= 2.1
    assert peak(check_arrays, state, state) <= 0.1
    assert peak(check_covariances, "C", C, state) <= 1.3


def test_a_document_that_could_not_be_read_again_is_not_written(monkeypatch):
    content = Content("x" * 2000)
    monkeypatch.setattr(snapshot, "MAX_DOCUMENT_SIZE", 2000)
    with pytest.raises(SnapshotError, match="the content has 0 MB, and at most 0 MB can be"):
        FORMAT.encode(content, number=1)
    monkeypatch.setattr(snapshot, "MAX_DOCUMENT_SIZE", 2100)
    assert FORMAT.decode(FORMAT.encode(content, number=1), number=1, migrations={}) == content


def test_older_documents_are_migrated_and_newer_ones_rejected():
    old = FORMAT.encode(Content("lab"), number=1)
    steps = {n: lambda content, n=n: {"name": f"{content['name']} {n}"} for n in (1, 2)}
    assert FORMAT.decode(old, number=3, migrations=steps) == Content("lab 1 2")
    new = FORMAT.encode(Content("lab"), number=4)
    with pytest.raises(NewerFormatError, match="the data has format 4, .* reads up to format 3"):
        FORMAT.decode(new, number=3, migrations=steps)
