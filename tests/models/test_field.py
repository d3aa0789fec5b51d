"""Sensor fields, grids and boxes: unit conversion, fingerprints, rejected arguments."""

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.naive import se

from edge_tvbo.errors import ConfigError
from edge_tvbo.models import field as field_module
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.structural_model import DAY, prior_structure
from edge_tvbo.models.trained_state import TrainedState

K = se(np.array([[0.0], [0.4], [1.0]]), 0.5)
NAMES = ("a", "b", "c")
TRAINED = replace(prior_structure(K, 600.0), rows=1)
NUMBERS = st.floats(-1e6, 1e6)
SCALES = st.floats(1e-3, 1e3)


def field(**changes):
    settings = {"sensors": NAMES, "kernel": K, "noise_variance": 0.01, **changes}
    return SensorField(**settings)


@given(NUMBERS, NUMBERS, SCALES, st.sampled_from(["max", "min"]))
def test_conversion_to_model_units_round_trips(reading, center, scale, objective):
    f = field(center=center, scale=scale, objective=objective)
    assert f.to_unit(f.to_model(reading)) == pytest.approx(reading, rel=1e-9, abs=1e-9)


@given(NUMBERS, NUMBERS, NUMBERS, SCALES, st.sampled_from(["max", "min"]))
def test_the_better_reading_is_higher_in_model_units(one, other, center, scale, objective):
    f = field(center=center, scale=scale, objective=objective)
    a, b = f.to_model(one), f.to_model(other)
    better = one > other if objective == "max" else one < other
    assert not better or a >= b


LOG_FIELDS = st.builds(
    lambda center, scale, log1p_scale, objective: field(
        center=center, scale=scale, log1p_scale=log1p_scale, objective=objective
    ),
    st.floats(0, 1e4),
    SCALES,
    SCALES,
    st.sampled_from(["max", "min"]),
)
READINGS = st.floats(0, 1e5)


@given(LOG_FIELDS, READINGS)
def test_conversion_to_a_log_scale_round_trips(f, reading):
    near = f.center + f.log1p_scale
    assert f.to_unit(f.to_model(reading)) == pytest.approx(reading, rel=1e-7, abs=1e-7 * near)


@given(LOG_FIELDS, st.floats(-1e5, 1e5), st.floats(-1e5, 1e5))
def test_the_better_reading_is_higher_on_a_log_scale(f, one, other):
    a, b = f.to_model(one), f.to_model(other)
    better = one > other if f.objective == "max" else one < other
    assert not better or a >= b
    assert math.isfinite(a)


@given(LOG_FIELDS, st.floats(1e-2, 1e4))
def test_the_log_slope_is_that_of_the_conversion(f, reading):
    step = 1e-5 * (reading + f.log1p_scale)
    rise = abs(f.to_model(reading + step) - f.to_model(reading - step)) / (2 * step)
    assert f.log_slope(np.array([reading]))[0] == pytest.approx(math.log(rise), abs=1e-3)


@given(LOG_FIELDS, st.floats(-1e9, 1e9), st.floats(0, 1e9))
def test_any_value_on_a_log_scale_is_a_finite_reading_of_at_least_0(f, value, std):
    assert 0.0 <= f.to_unit(value) < math.inf
    assert 0.0 <= f.std_to_unit(value, std) < math.inf
    values = np.array([value, value])
    assert np.array_equal(f.to_unit(values), [f.to_unit(value)] * 2)


def test_a_log_scale_is_that_of_log1p():
    f = field(center=3.0, scale=2.0, log1p_scale=0.5)
    assert f.to_model(3.0) == 0.0
    rise = (f.to_model(3.0 + 1e-6) - f.to_model(3.0 - 1e-6)) / 2e-6
    assert rise == pytest.approx(1 / 2.0, rel=1e-6)  # a model unit is `scale` at `center`
    ratio = (f.to_model(9.0) - f.to_model(3.0)) / (f.to_model(3.0) - f.to_model(1.0))
    assert ratio == pytest.approx(math.log(9.5 / 3.5) / math.log(3.5 / 1.5))
    assert f.to_model(-0.2) == f.to_model(0.0)
    assert f.bounds(1e3)[0] == -0.5
    assert field(center=3.0, scale=2.0, objective="min").bounds(2.0) == (-1.0, 7.0)


@pytest.mark.parametrize(
    "changes",
    [{"log1p_scale": 0.0}, {"log1p_scale": math.nan}, {"log1p_scale": 1.0, "center": -1.0}],
)
def test_an_impossible_log_scale_is_rejected(changes):
    with pytest.raises(ConfigError, match=r"log1p_scale|log scale"):
        field(**changes)


def test_objective_min_negates_model_units():
    f = field(center=20.0, scale=2.0, objective="min")
    assert (f.to_model(16.0), f.to_unit(2.0)) == (2.0, 16.0)


def test_a_field_copies_its_kernel():
    kernel = K.copy()
    f = field(kernel=kernel)
    kernel[:] = 0.0
    assert np.array_equal(f.kernel, K)
    assert len(f) == 3


def test_a_kernel_is_made_exactly_symmetric():
    askew = K.copy()
    askew[0, 1] += 1e-12
    kernel = field(kernel=askew).kernel
    assert np.array_equal(kernel, kernel.T)


def test_the_fingerprint_covers_what_snapshots_depend_on():
    for changes in (
        {"sensors": ("a", "b", "d")},
        {"sensors": ("b", "a", "c")},
        {"kernel": K * (1 + 1e-6)},
        {"noise_variance": 0.011},
        {"center": 1.0},
        {"scale": 2.0},
        {"log1p_scale": 1.0},
        {"objective": "min"},
        {"positions": [[0.0], [0.4], [1.0]]},
        {"structure": TRAINED},
    ):
        assert not field(**changes).fingerprint().agrees(field().fingerprint()), changes


def test_the_fingerprint_covers_a_trained_structure():
    state = TrainedState(8.0, np.ones((10, 3)), np.ones((3, 10, 10)))
    changed = [
        replace(TRAINED, period=2 * TRAINED.period),
        replace(TRAINED, course=TRAINED.course + 1.0),
        replace(TRAINED, spread=2.0 * TRAINED.spread),
        replace(TRAINED, liveliness=2.0 * TRAINED.liveliness),
        replace(TRAINED, correlation=np.eye(3)),
        replace(TRAINED, components=replace(TRAINED.components, decay=3.0)),
        replace(TRAINED, rows=2),
        replace(TRAINED, cycle=DAY / 2),
        replace(TRAINED, state=state),
        replace(TRAINED, state=replace(state, end=9.0)),
        replace(TRAINED, state=replace(state, mean=2.0 * state.mean)),
        replace(TRAINED, state=replace(state, covariances=2.0 * state.covariances)),
    ]
    fingerprints = [field(structure=each).fingerprint() for each in (TRAINED, *changed)]
    assert len({each.exact for each in fingerprints}) == 1 + len(changed)
    assert len({each.rounded for each in fingerprints}) == 1 + len(changed)


def test_only_the_exact_fingerprint_covers_the_interval_of_a_trained_structure():
    """Version 0.1.0 compares the exact one; now, a model continues if the interval changes."""
    here = field(structure=TRAINED).fingerprint()
    there = field(structure=replace(TRAINED, interval=60.0)).fingerprint()
    assert here.exact != there.exact
    assert here.rounded == there.rounded


def test_the_prior_of_a_structure_leaves_the_fingerprint():
    """So a model continues if the user configures intervals of another length."""
    assert field(structure=prior_structure(K, 600.0)).fingerprint() == field().fingerprint()


def test_equal_fields_have_equal_fingerprints_whatever_the_unit():
    assert field().fingerprint() == field(unit="°C").fingerprint()


@given(st.integers(1, 9), st.integers(1, 4), st.floats(-0.2, 0.2), st.integers(0, 2**32 - 1))
def test_covariance_is_checked_by_blocks_as_by_the_whole_matrix(M, block, least, seed):
    """`least` is the lowest eigenvalue of the matrix; a covariance has none below 0."""
    assume(abs(least) > 1e-3)
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(M, M)))[0]
    kernel = (Q * np.append(rng.uniform(0.2, 2.0, M - 1), least)) @ Q.T
    assume((kernel.diagonal() > 0).all())
    names = [str(i) for i in range(M)]
    with mock.patch.object(field_module, "BLOCK", block):
        try:
            found = SensorField(names, kernel, 0.01)
        except ConfigError as error:
            assert least < 0
            assert "semi-definite" in str(error)
        else:
            assert least > 0
            np.testing.assert_array_equal(found.kernel, (kernel + kernel.T) / 2)


def test_invalid_fields_are_rejected_by_name():
    for changes, message in (
        ({"sensors": ("a", "b")}, "kernel has shape"),
        ({"sensors": ("a", "b", "b")}, "sensors"),
        ({"sensors": "abc"}, "sensors is the text 'abc'"),
        ({"sensors": ("a", "b", 3)}, "sensors holds 3"),
        ({"sensors": ()}, "kernel has shape"),
        ({"sensors": (), "kernel": np.zeros((0, 0))}, "at least one"),
        ({"kernel": [[1.0], [1.0, 2.0], [3.0]]}, "not a matrix"),
        ({"kernel": np.ones(3)}, "kernel has shape"),
        ({"kernel": K * np.nan}, "not finite"),
        ({"kernel": K + np.triu(np.ones((3, 3)), 1)}, "not symmetric"),
        ({"kernel": -K}, "diagonal"),
        ({"kernel": np.zeros((3, 3))}, "diagonal"),
        ({"kernel": 2 * np.ones((3, 3)) - np.eye(3)}, "semi-definite"),
        ({"noise_variance": 0.0}, "noise_variance"),
        ({"noise_variance": -1.0}, "noise_variance"),
        ({"noise_variance": np.nan}, "noise_variance"),
        ({"noise_variance": np.inf}, "noise_variance"),
        ({"noise_variance": 10**400}, "noise_variance"),
        ({"center": -(10**400)}, "center"),
        ({"kernel": [[10**400, 0], [0, 1]]}, "kernel is not a matrix of numbers"),
        ({"kernel": {}}, "kernel is not a matrix of numbers"),
        ({"positions": [[10**400], [0]]}, "positions is not a matrix of numbers"),
        ({"noise_variance": [0.1, 0.1, 0.2]}, "one number, which applies to all sensors"),
        ({"positions": [[0.0], [1.0, 2.0], [3.0]]}, "positions is not a matrix"),
        ({"positions": ["a", "b", "c"]}, "positions is not a matrix"),
        ({"positions": np.zeros((3, 2, 2))}, "allowed: 3 rows of d finite coordinates"),
        ({"noise_variance": None}, "one number"),
        ({"center": [20.0, 21.0, 22.0]}, "one number"),
        ({"log1p_scale": [1.0, 2.0, 3.0]}, "one number"),
        ({"scale": K}, "one number"),
        ({"scale": 0.0}, "scale"),
        ({"scale": -1.0}, "scale"),
        ({"scale": np.inf}, "scale"),
        ({"center": np.nan}, "center"),
        ({"objective": "most"}, "objective"),
    ):
        with pytest.raises(ConfigError, match=message):
            field(**changes)


# --- grids and boxes ----------------------------------------------------------------------------

SMOOTH = SpatialKernel(math.inf, 0.3, 2.0)


def box(**changes):
    settings = {"lower": [-1.0, 0.0], "upper": [1.0, 8.0], "spatial": SMOOTH, "candidates": 20}
    return BoxField(**{**settings, "noise_variance": 0.01, **changes})


def test_a_grid_covers_the_unit_square_row_by_row():
    f = grid(3, SMOOTH, 0.01)
    assert len(f) == 9
    assert f.name(5) == "1-2"
    assert f.positions.tolist() == [[a, b] for a in (0, 0.5, 1) for b in (0, 0.5, 1)]
    np.testing.assert_allclose(f.kernel, 2.0 * se(f.positions, 0.3), rtol=1e-12)


def test_candidates_of_a_box_are_spread_and_reproducible():
    f = box()
    assert len(f) == len(f.positions) == 32  # the next power of two
    assert f.contains(f.positions)
    assert np.array_equal(f.positions, box().positions)
    quarters = {(x > 0, y > 4) for x, y in f.positions.tolist()}
    assert len(quarters) == 4
    np.testing.assert_allclose(f.kernel, 2.0 * se(f.positions, 0.3), rtol=1e-12)


def test_the_number_of_candidates_may_be_a_numpy_integer():
    assert len(box(candidates=np.int64(20))) == len(box(candidates=20.0)) == 32


def test_a_point_of_a_box_maps_to_its_nearest_candidate():
    f = box()
    assert [f.index(f.arm(i)) for i in range(32)] == list(range(32))
    x, y = f.arm(7)
    assert f.index((x + 1e-4, y - 1e-4)) == 7
    shares = (f.positions - [0.9, 7.0]) / [2.0, 8.0]
    assert f.index((0.9, 7.0)) == int(np.hypot(*shares.T).argmin())
    assert f.name((0.25, 8.0)) == "0.25 8"


def test_a_box_does_not_contain_points_outside_it():
    f = box()
    assert f.contains(np.array([[-1.0, 0.0], [1.0, 8.0]]))
    for point in ([-1.01, 4.0], [1.01, 4.0], [0.0, -0.01], [0.0, 8.01], [np.nan, 4.0]):
        assert not f.contains(np.array([[0.0, 4.0], point]))


@given(NUMBERS, NUMBERS, SCALES, st.sampled_from(["max", "min"]))
def test_a_box_converts_readings_like_a_sensor_field(reading, center, scale, objective):
    f, other = (make(center=center, scale=scale, objective=objective) for make in (box, field))
    assert f.to_model(reading) == other.to_model(reading)
    assert f.to_unit(reading) == other.to_unit(reading)


def test_invalid_boxes_are_rejected_by_name():
    for changes, message in (
        ({"lower": [1.0, 0.0]}, "below"),
        ({"lower": [2.0, 0.0]}, "below"),
        ({"lower": [], "upper": []}, "below"),
        ({"lower": [0.0]}, "the same number"),
        ({"lower": [0.0, -np.inf]}, "finite"),
        ({"upper": [1.0, np.nan]}, "finite"),
        ({"noise_variance": 0.0}, "noise_variance"),
        ({"noise_variance": np.nan}, "noise_variance"),
        ({"candidates": 1}, "candidates"),
        ({"candidates": 2**16 + 1}, "candidates"),
        ({"candidates": 20.5}, "candidates"),
        ({"spatial": SpatialKernel(2.5, (0.3, 1.0, 2.0))}, "length_scale has 3 numbers"),
        ({"scale": 0.0}, "scale"),
        ({"center": np.inf}, "center"),
        ({"center": [20.0, 21.0]}, "center"),
        ({"objective": "most"}, "objective"),
    ):
        with pytest.raises(ConfigError, match=message):
            box(**changes)
