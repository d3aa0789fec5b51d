"""Model files: a written field is read back bit for bit, and invalid files are rejected."""

import json
from base64 import b64encode

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.naive import se

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structural_model import DAY, WEEK
from edge_tvbo.models.trained_state import LowRankState
from edge_tvbo.policy import make_policy
from edge_tvbo.training.covariance import train, with_structure
from edge_tvbo.training.model_file import MAX_LISTED, read, write

NAMES = st.text(st.characters(codec="utf-8"), max_size=8)


@st.composite
def fields(draw):
    M = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    K = draw(st.floats(1e-6, 1e6)) * se(rng.uniform(0, 1, (M, 2)), 0.4)
    centers = st.floats(-1e9, 1e9)
    return SensorField(
        draw(st.lists(NAMES, min_size=M, max_size=M, unique=True)),
        K,
        draw(st.floats(1e-50, 1e50)),
        unit=draw(NAMES),
        center=draw(centers),
        scale=draw(st.floats(1e-50, 1e50)),
        objective=draw(st.sampled_from(["max", "min"])),
    )


@given(fields())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_field_round_trips_through_a_file_bit_for_bit(tmp_path, field):
    path = tmp_path / "lab.model.json"
    write(path, field)
    back = read(path)
    assert back.kernel.tobytes() == field.kernel.tobytes()
    assert back.center == field.center
    for name in ("sensors", "noise_variance", "unit", "scale", "objective"):
        assert getattr(back, name) == getattr(field, name)
    assert back.fingerprint() == field.fingerprint()


@pytest.mark.parametrize("transform", ["none", "log1p"])
def test_a_trained_field_of_a_week_round_trips_bit_for_bit(tmp_path, transform):
    rng = np.random.default_rng(2)
    readings = 50.0 + rng.standard_normal((15 * 24, 2))
    field = train(readings, ("a", "b"))
    field = with_structure(field, readings, 3600.0, 0.0, period=WEEK, transform=transform)
    write(tmp_path / "lab.json", field)
    back = read(tmp_path / "lab.json")
    assert (back.structure.period, back.structure.cycle) == (WEEK, DAY)
    assert (back.log1p_scale is None) == (transform == "none")
    assert back.fingerprint() == field.fingerprint()
    assert back.to_model(51.0) == field.to_model(51.0)


def test_a_file_of_format_3_is_read(path):
    document = json.loads(path.read_text(encoding="utf-8"))
    del document["log1p_scale"]
    path.write_text(json.dumps({**document, "format": 3}), encoding="utf-8")
    assert read(path).fingerprint() == FIELD.fingerprint()


FIELD = SensorField(("a", "b"), [[1.0, 0.5], [0.5, 1.0]], 0.01, unit="°C", center=20.0, scale=2.0)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "lab.model.json"
    write(path, FIELD)
    return path


def test_the_file_is_readable_json(path):
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["unit"] == "°C"
    assert document["center"] == 20.0
    assert document["kernel"] == [[1.0, 0.5], [0.5, 1.0]]


def test_writing_again_replaces_the_file(path):
    other = SensorField(("c",), [[2.0]], 0.1)
    write(path, other)
    assert read(path).fingerprint() == other.fingerprint()
    assert list(path.parent.iterdir()) == [path]


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_truncated_file_is_rejected(path, tmp_path, data):
    whole = path.read_bytes()
    cut = tmp_path / "cut.json"
    cut.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ConfigError, match="cut.json"):
        read(cut)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_rejected_or_another_field(path, tmp_path, data):
    damaged = bytearray(path.read_bytes())
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    other = tmp_path / "other.json"
    other.write_bytes(bytes(damaged))
    try:
        field = read(other)
    except ConfigError as error:
        assert "other.json" in str(error)
    else:
        assert len(field) == 2


def test_a_document_that_is_not_a_field_is_rejected_by_path(path):
    original = json.loads(path.read_text(encoding="utf-8"))
    for key, value in (
        ("format", 6),
        ("format", "1"),
        ("unit", None),
        ("objective", "most"),
        ("center", [20.0]),
        ("center", [20.0, 20.0, 20.0]),
        ("center", "warm"),
        ("scale", 0.0),
        ("scale", -2.0),
        ("noise_variance", 0.0),
        ("noise_variance", None),
        ("sensors", []),
        ("sensors", ["a", "a"]),
        ("sensors", ["a"]),
        ("kernel", [[1.0, 0.5]]),
        ("kernel", [[1.0, 0.5], [0.5]]),
        ("kernel", [[1.0, 2.0], [2.0, 1.0]]),
        ("kernel", [[1.0, 0.5], [0.4, 1.0]]),
        ("kernel", []),
        ("colour", "red"),
    ):
        path.write_text(json.dumps({**original, key: value}), encoding="utf-8")
        with pytest.raises(ConfigError, match=r"lab\.model\.json"):
            read(path)


def test_a_newer_file_is_rejected_because_of_its_format_whatever_else_it_contains(path):
    document = json.loads(path.read_text(encoding="utf-8"))
    newer = {**document, "format": 6, "kernel": {"rows": 2}, "rates": [0.1]}
    path.write_text(json.dumps(newer), encoding="utf-8")
    said = "json: the model file has format 6; this version reads 1 to 5"
    with pytest.raises(ConfigError, match=said):
        read(path)


def test_a_document_without_a_required_key_is_rejected(path):
    original = json.loads(path.read_text(encoding="utf-8"))
    for key in ("format", "unit", "scale", "kernel", "center"):
        document = {name: value for name, value in original.items() if name != key}
        path.write_text(json.dumps(document), encoding="utf-8")
        with pytest.raises(ConfigError, match=key):
            read(path)


def test_numbers_that_are_not_finite_are_rejected(path):
    original = path.read_text(encoding="utf-8")
    assert '"scale":2.0' in original
    for number in ("1e999", "NaN", "Infinity"):
        text = original.replace('"scale":2.0', f'"scale":{number}')
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=r"lab\.model\.json"):
            read(path)


def test_a_structural_model_is_read_back_bit_for_bit(tmp_path):
    rng = np.random.default_rng(0)
    readings = np.sin(np.arange(96) / 4)[:, None] * [1.0, 2.0] + rng.normal(size=(96, 2))
    field = with_structure(train(readings, ("a", "b")), readings, 1800.0, 0.0)
    path = tmp_path / "days.model.json"
    write(path, field)
    assert read(path).fingerprint() == field.fingerprint()
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["structure"]["rows"] == 96
    assert document["format"] == 4


@pytest.fixture(scope="module")
def many():
    """A trained field of more sensors than a model file lists."""
    names = tuple(f"s{i}" for i in range(MAX_LISTED + 1))
    readings = np.random.default_rng(0).normal(size=(16, len(names)))
    return with_structure(train(readings, names), readings, 43_200.0, 0.0)


def test_matrices_of_very_many_sensors_are_packed_and_read_back_bit_for_bit(many, tmp_path):
    path = tmp_path / "many.model.json"
    write(path, many)
    assert isinstance(many.structure.state.covariances, LowRankState)
    assert read(path).fingerprint() == many.fingerprint()
    assert path.stat().st_size < 3 * 8 * len(many) ** 2
    document = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(document["kernel"], str)
    assert document["format"] == 5
    for damaged in ("", "AAAA", "not base64", document["kernel"][:-8]):
        path.write_text(json.dumps({**document, "kernel": damaged}), encoding="utf-8")
        with pytest.raises(ConfigError, match=r"many\.model\.json"):
            read(path)


@pytest.mark.parametrize("key", ["factors", "factor_covariance", "cross", "covariance"])
def test_damaged_low_rank_state_is_rejected(many, tmp_path, key):
    path = tmp_path / "many.model.json"
    write(path, many)
    document = json.loads(path.read_text(encoding="utf-8"))
    covariances = document["structure"]["state"]["covariances"]
    infinite = b64encode(np.full_like(getattr(many.structure.state.covariances, key), np.inf))
    for damaged in ("", covariances[key][:-8], infinite.decode()):
        document["structure"]["state"]["covariances"] = {**covariances, key: damaged}
        path.write_text(json.dumps(document), encoding="utf-8")
        with pytest.raises(ConfigError, match=r"many\.model\.json"):
            read(path)


def test_file_of_format_4_with_whole_matrices_is_read(many, tmp_path):
    """Format 4 has covariances by eigenvector, and all numbers of the symmetric matrices."""
    path = tmp_path / "many.model.json"
    write(path, many)
    document = json.loads(path.read_text(encoding="utf-8"))
    structure, n = document["structure"], len(many.structure.state.mean)
    document["format"] = 4
    document["kernel"] = b64encode(many.kernel).decode()
    structure["correlation"] = b64encode(many.structure.correlation).decode()
    structure["state"]["covariances"] = np.tile(np.eye(n), (len(many), 1, 1)).tolist()
    path.write_text(json.dumps(document), encoding="utf-8")
    field = read(path)
    np.testing.assert_array_equal(field.kernel, many.kernel)
    np.testing.assert_array_equal(field.structure.correlation, many.structure.correlation)
    assert field.structure.state.covariances.shape == (len(many), n, n)


def test_policy_of_a_read_low_rank_state_learns_and_is_restored(many, tmp_path):
    path = tmp_path / "many.model.json"
    write(path, many)
    field = read(path)
    policy, other = (make_policy("auto", field, seed=0) for _ in range(2))
    for t in range(3):
        policy.set_time(43_200.0 * t)
        for choice in policy.select_many(2):
            policy.observe(choice.arm, 0.5)
        policy.advance()
    before = field.structure.state.covariances.factors.copy()
    other.restore(policy.snapshot())
    np.testing.assert_array_equal(field.structure.state.covariances.factors, before)
    assert other.select() == policy.select()


def test_few_sensors_have_no_low_rank_state(tmp_path):
    readings = np.random.default_rng(0).normal(size=(20, 2))
    field = with_structure(train(readings, ("a", "b")), readings, 1800.0, 0.0)
    path = tmp_path / "few.model.json"
    write(path, field)
    document = json.loads(path.read_text(encoding="utf-8"))
    names = ("factors", "factor_covariance", "cross", "covariance")
    document["structure"]["state"]["covariances"] = dict.fromkeys(names, "")
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ConfigError, match="few.model.json: 'covariances' of up to 500 sensors"):
        read(path)


def test_a_structure_of_another_number_of_sensors_is_rejected(tmp_path):
    readings = np.random.default_rng(0).normal(size=(20, 2))
    field = with_structure(train(readings, ("a", "b")), readings, 1800.0, 0.0)
    path = tmp_path / "days.model.json"
    write(path, field)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["structure"]["spread"] = [1.0]
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ConfigError, match="spread"):
        read(path)


def test_on_a_full_disk_the_error_names_the_file_and_the_former_model_remains(path):
    before, field = path.read_bytes(), read(path)
    path.with_name(f"{path.name}.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as failed:
        write(path, field)
    assert failed.value.filename == str(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_file_or_a_directory_is_rejected(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            read(path)
