"""A field written and read is the same to the last bit; anything else is refused."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive import se

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.field import SensorField
from edge_tvbo.training.model_file import read, write

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
def test_written_and_read_it_is_the_same_to_the_last_bit(tmp_path, field):
    path = tmp_path / "lab.model.json"
    write(path, field)
    back = read(path)
    assert back.kernel.tobytes() == field.kernel.tobytes()
    assert back.center == field.center
    for name in ("sensors", "noise_variance", "unit", "scale", "objective"):
        assert getattr(back, name) == getattr(field, name)
    assert back.fingerprint() == field.fingerprint()


FIELD = SensorField(("a", "b"), [[1.0, 0.5], [0.5, 1.0]], 0.01, unit="°C", center=20.0, scale=2.0)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "lab.model.json"
    write(path, FIELD)
    return path


def test_a_person_can_read_it(path):
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["unit"] == "°C"
    assert document["center"] == 20.0
    assert document["kernel"] == [[1.0, 0.5], [0.5, 1.0]]


def test_writing_again_replaces_the_file_and_leaves_none_beside_it(path):
    other = SensorField(("c",), [[2.0]], 0.1)
    write(path, other)
    assert read(path).fingerprint() == other.fingerprint()
    assert list(path.parent.iterdir()) == [path]


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_cut_short_is_refused(path, tmp_path, data):
    whole = path.read_bytes()
    cut = tmp_path / "cut.json"
    cut.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ConfigError, match="cut.json"):
        read(cut)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_refused_or_is_another_field(path, tmp_path, data):
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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", 3),
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
    ],
)
def test_a_document_that_is_no_field_is_refused_with_the_files_name(path, key, value):
    document = {**json.loads(path.read_text(encoding="utf-8")), key: value}
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"lab\.model\.json"):
        read(path)


@pytest.mark.parametrize("key", ["format", "unit", "scale", "kernel", "center"])
def test_a_document_without_a_key_is_refused(path, key):
    document = json.loads(path.read_text(encoding="utf-8"))
    del document[key]
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ConfigError, match=key):
        read(path)


@pytest.mark.parametrize("number", ["1e999", "NaN", "Infinity"])
def test_numbers_that_are_not_finite_are_refused(path, number):
    text = path.read_text(encoding="utf-8").replace('"scale":2.0', f'"scale":{number}')
    assert number in text
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError):
        read(path)


def test_a_file_that_is_not_there_or_a_directory_is_refused(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            read(path)
