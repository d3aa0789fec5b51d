"""Findings of the fuzzers as tests, and each fuzzer on its initial inputs."""

import json
import logging
from importlib import import_module
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest
from fuzz import fuzz_model_file, fuzz_snapshot
from support.lives import BOOT
from support.policy_snapshots import opened, resealed

from edge_tvbo.config import sensor_positions
from edge_tvbo.config.errors import Report
from edge_tvbo.daemon.checkpoint_document import (
    Anchor,
    Document,
    FieldCheckpoint,
    decode,
)
from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.models.snapshot import encode_snapshot
from edge_tvbo.training import model_file

FUZZERS = sorted(each.stem for each in Path(__file__).parent.glob("fuzz_*.py"))
KEPT = FieldCheckpoint(b"", 5, 9, 100.0, 70.0)


@pytest.fixture(autouse=True)
def log():
    """Enable the log, which the fuzzers disable."""
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUZZERS)
def test_a_fuzzer_passes_its_initial_inputs_and_changes_of_them(name):
    fuzzer, random = import_module(f"fuzz.{name}"), Random(1)
    mutate = getattr(fuzzer, "mutate", lambda data, random: b"")
    for seed in fuzzer.seeds():
        fuzzer.check(seed)
        for _ in range(5):
            fuzzer.check(mutate(seed, random) or seed[: random.randrange(len(seed))])


def test_the_snapshot_fuzzer_reaches_the_code_behind_the_checksum():
    for seed in fuzz_snapshot.seeds():
        assert decode(fuzz_snapshot.seal(seed)).fields


# --- states -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kept",
    [
        msgspec.structs.replace(KEPT, every=0.0),  # ZeroDivisionError at the start
        msgspec.structs.replace(KEPT, every=5e-324),  # OverflowError
        msgspec.structs.replace(KEPT, every=float("nan")),
        msgspec.structs.replace(KEPT, every=-1e10),  # an interval that ended before it began
        msgspec.structs.replace(KEPT, next_in=float("-inf")),
        msgspec.structs.replace(KEPT, next_in=float("nan")),
        msgspec.structs.replace(KEPT, reserved=2**64 - 1),  # numbers that no snapshot takes back
        msgspec.structs.replace(KEPT, interval=-(2**63)),
    ],
    ids=lambda kept: f"{kept.every} {kept.next_in} {kept.interval} {kept.reserved}",
)
def test_a_state_with_impossible_times_or_numbers_is_rejected(kept):
    with pytest.raises(SnapshotError, match="Expected"):
        decode(fuzz_snapshot.seal(msgspec.msgpack.encode(Document(BOOT, False, {"lab": kept}))))


@pytest.mark.parametrize("wall", [float("nan"), 1e300, -1e300])
def test_a_state_with_an_impossible_date_is_rejected(wall):
    document = Document(Anchor(wall, 5.0, "boot"), False, {"lab": KEPT})
    with pytest.raises(SnapshotError, match="Expected"):
        decode(fuzz_snapshot.seal(msgspec.msgpack.encode(document)))


@pytest.mark.parametrize("at", [1e300, -1e300, 2.0**62, -6.3e10, 2.6e11])
def test_any_time_has_a_text(at):
    assert rfc3339(at) in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")


@pytest.mark.parametrize("name", ["tv-gp-ucb", "auto", "structural", "mtv-gp-ucb", "ttv-gp-ucb"])
def test_an_impossible_covariance_is_rejected(name):
    """An element far too large, off the diagonal, made the next decisions NaN."""
    controller = fuzz_snapshot.restarted(name)
    before = controller.snapshot()
    found = 0
    for part, array in _covariances(controller.policy._posterior):
        kept = array.copy()
        array[..., 0, 1] = array[..., 1, 0] = 1e3
        damaged = controller.snapshot()
        array[...] = kept
        with pytest.raises(SnapshotError, match=f"{part}.*impossible covariance"):
            controller.restore(damaged)
        assert controller.snapshot() == before
        found += 1
    assert found


@pytest.mark.parametrize(("part", "value"), [("V", 1e99), ("L", 0.0), ("z", 1e99), ("y", 55.0)])
def test_a_factor_that_does_not_match_its_readings_is_rejected(part, value):
    """An entry of V far too large made the next decisions NaN."""
    controller = fuzz_snapshot.restarted("windowed")
    before = controller.snapshot()
    array = controller.policy._posterior._arrays()[part]
    first = array.flat[0]
    array.flat[0] = value
    damaged = controller.snapshot()
    array.flat[0] = first
    with pytest.raises(SnapshotError, match="does not match its readings"):
        controller.restore(damaged)
    assert controller.snapshot() == before


def _covariances(posterior):
    for name, array in posterior._arrays().items():
        if "covariance" in name and array.size:
            yield name, array


# --- files --------------------------------------------------------------------------------------


def test_an_error_about_a_field_of_any_name_is_one_line():
    text = (
        '[fields."a\\nb"]\nreading = { topic = "lab/{sensor}/x" }\n'
        '[fields.policy]\nactivate = { topic = "lab/{sensor}/x" }\n'
    )
    import_module("fuzz.fuzz_config").check(text.encode())


@pytest.mark.parametrize("blank", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_positions_count_lines_as_editors_do(tmp_path, blank):
    (tmp_path / "locs.txt").write_text(f"a 0 0{blank}\nwrong\n", encoding="utf-8")
    report = Report(tmp_path / "config.toml", dict, {})
    sensor_positions.of_sensors("locs.txt", tmp_path, ("a",), ("positions",), report)
    assert [(Path(each.file).name, each.line) for each in report.findings()] == [("locs.txt", 2)]


@pytest.mark.parametrize("number", [1.7e308, 1e-320])
@pytest.mark.parametrize(
    ("part", "key"),
    [
        *(("field", key) for key in ("noise_variance", "scale", "kernel")),
        *(("structure", key) for key in ("spread", "liveliness", "correlation")),
    ],
)
def test_a_model_with_overflowing_squares_is_rejected(tmp_path, part, key, number):
    """Decisions over it were NaN after the first reading."""
    model = json.loads(json.dumps(fuzz_model_file.MODEL))
    table = model["structure"] if part == "structure" else model
    table[key] = (np.ones_like(table[key]) * number).tolist()
    file = tmp_path / "model.json"
    file.write_text(json.dumps(model))
    with pytest.raises(ConfigError, match=str(file)):
        model_file.read(file)


def test_a_model_with_an_impossible_number_of_rows_is_rejected(tmp_path):
    """The width of the bound overflowed."""
    model = json.loads(json.dumps(fuzz_model_file.MODEL))
    model["structure"]["rows"] = -(2**63)
    file = tmp_path / "model.json"
    file.write_text(json.dumps(model))
    with pytest.raises(ConfigError, match="rows"):
        model_file.read(file)


def test_names_of_other_sensors_that_are_no_texts_are_rejected():
    """A name was looked up that cannot be a key."""
    policy = fuzz_snapshot.restarted("structural").policy
    blob = policy.snapshot()
    kind, field, state = opened(blob)
    inner = resealed(state["posterior"], sensors=[{}, "a", "b"])
    with pytest.raises(SnapshotError, match="sensors"):
        policy.restore_sensors(encode_snapshot(kind, field, {**state, "posterior": inner}))
    assert policy.snapshot() == blob
