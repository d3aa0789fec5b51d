"""Policies on a box, as a caller in Python uses them: in the unit of the field, and with advice."""

import linecache
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import max_examples
from support.policy_cases import SHORT
from support.policy_snapshots import assert_rejected

from edge_tvbo import BoxField, SpatialKernel, make_policy
from edge_tvbo.errors import ConfigError
from edge_tvbo.models.posteriors.fitted_length_scales import ArdMapPosterior
from edge_tvbo.policy import policies

SE = SpatialKernel(math.inf, 0.3)
FITTING = {  # the policies that fit length scales per dimension, with parameters for few intervals
    name: {"n_lower": 99} if name == "et-gp-ucb" else SHORT.get(name, {})
    for name in (
        "gp-ucb",
        "tv-gp-ucb",
        "ui-tvbo",
        "r-gp-ucb",
        "et-gp-ucb",
        "sw-gp-ucb",
        "igp-ucb",
        "br-gp-ucb",
        "mtv-gp-ucb",
        "ttv-gp-ucb",
    )
}
IN_BOXES = [name for name in policies() if name not in ("auto", "kalman-ucb", "oracle")]


def box(**more):
    return BoxField([0.0], [2.0], SE, 0.01, candidates=16, **more)


def search(policy, f, rounds):
    """Run a policy on the function `f`; return its choices."""
    chosen = []
    for _ in range(rounds):
        chosen.append(policy.select())
        policy.observe(chosen[-1].arm, f(*chosen[-1].arm))
        policy.advance()
    return chosen


@pytest.mark.slow
@max_examples(4)
@pytest.mark.parametrize("name", IN_BOXES)
@given(center=st.floats(-5, 5), scale=st.floats(0.5, 8), seed=st.integers(0, 2**31))
def test_a_minimum_is_searched_as_the_maximum_of_the_negative(name, center, scale, seed):
    low = make_policy(name, box(objective="min", center=center, scale=scale), seed=seed)
    high = make_policy(name, box(center=-center, scale=scale), seed=seed)

    found = search(low, lambda x: center + scale * (x - 0.7) ** 2, 5)
    mirrored = search(high, lambda x: -center - scale * (x - 0.7) ** 2, 5)

    assert [one.arm for one in found] == [other.arm for other in mirrored]
    assert [one.mean for one in found] == [-other.mean for other in mirrored]
    assert [one.ucb for one in found] == [-other.ucb for other in mirrored]
    assert np.array_equal(low.posterior()[0], -high.posterior()[0])


def test_the_minimum_of_a_function_is_found():
    policy = make_policy("gp-ucb", box(objective="min"))

    chosen = search(policy, lambda x: (x - 0.7) ** 2, 20)

    lowest = min(chosen, key=lambda choice: choice.mean)
    assert lowest.arm[0] == pytest.approx(0.7, abs=0.1)
    assert lowest.mean == pytest.approx(0.0, abs=0.1)
    assert all(choice.ucb < choice.mean for choice in chosen[2:])


def test_a_point_may_be_any_sequence_and_must_lie_in_the_box():
    policy = make_policy("gp-ucb", box())
    policy.observe(np.array([0.5]), 1)
    policy.observe([2], 1.0)

    assert policy.observations == 2
    for wrong in (2.1, (2.1,), (0.5, 0.5), (math.nan,), (10**400,), None, {}):
        with pytest.raises(ValueError, match="is not a point of this box; allowed: 1 numbers from"):
            policy.observe(wrong, 1.0)
        with pytest.raises(ValueError, match="is not a point of this box; allowed: 1 numbers from"):
            policy.prediction(wrong)
    with pytest.raises(ValueError, match=r"the reading of \(0.5,\) is 10+; it must be finite"):
        policy.observe((0.5,), 10**400)
    with pytest.raises(ValueError, match=r"the reading of \(0.5,\) is nan; it must be finite"):
        policy.observe((0.5,), math.nan)
    with pytest.raises(ValueError, match=r"is 1e\+160 in model units; it can be -1e\+101 to"):
        policy.observe((0.5,), 1e160)
    assert policy.observations == 2


def line_of(warning):
    """Return the line of code at which a warning points."""
    return linecache.getline(warning.filename, warning.lineno).strip()


def rounds_without_advance(policy, many):
    for _ in range(many):
        policy.observe(policy.select().arm, 0.0)


def test_ten_rounds_without_advance_cause_one_warning():
    policy = make_policy("tv-gp-ucb", box())
    rounds_without_advance(policy, 9)
    with pytest.warns(UserWarning, match="`advance` was never called") as caught:
        rounds_without_advance(policy, 1)
    assert line_of(caught[0]) == "policy.observe(policy.select().arm, 0.0)"
    rounds_without_advance(policy, 12)  # a second warning would be an error here


def test_many_readings_in_an_interval_cause_no_warning():
    policy = make_policy("tv-gp-ucb", box())
    for x in np.linspace(0.0, 2.0, 30):
        policy.observe((x,), 0.0)
    for choice in policy.select_many(12):
        policy.observe(choice.arm, 0.0)
    policy.advance()
    rounds_without_advance(policy, 12)


def fill(policy, many):
    for x in np.linspace(0.0, 2.0, many):
        policy.observe((x,), 0.0)


def test_a_reading_that_is_dropped_without_the_callers_will_causes_one_warning():
    policy = make_policy("gp-ucb", box())
    fill(policy, 256)
    with pytest.warns(UserWarning, match="holds 256 readings.*Pass window=N") as caught:
        fill(policy, 1)
    assert line_of(caught[0]) == "policy.observe((x,), 0.0)"
    fill(policy, 3)


@pytest.mark.parametrize(
    ("name", "parameters"), [("gp-ucb", {"window": 4}), ("sw-gp-ucb", {}), ("rexp3", {})]
)
def test_a_window_that_is_a_parameter_causes_no_warning(name, parameters):
    fill(make_policy(name, box(), **parameters), 40)


@pytest.mark.parametrize("name", FITTING)
def test_the_length_scales_of_a_box_are_fitted(name):
    field = BoxField([0.0, -5.0], [1.0, 5.0], SE, 1e-3, candidates=16, length_scales="fitted")
    policy = make_policy(name, field, **FITTING[name])
    assert isinstance(policy._policy._posterior, ArdMapPosterior)

    first = policy.length_scales
    assert first == pytest.approx([1 / 3, 10 / 3])  # the mode of the prior

    for x, y in np.random.default_rng(0).random((25, 2)) * [1.0, 10.0] - [0.0, 5.0]:
        policy.observe((x, y), math.sin(12.0 * x))
    search(policy, lambda x, _: math.sin(12.0 * x), 1)

    short, long = policy.length_scales / [1.0, 10.0]
    assert short < 0.75 * long
    assert short < 1 / 3


def test_fitted_length_scales_and_given_ones_are_different_snapshots():
    fitted = make_policy("gp-ucb", box(length_scales="fitted"))
    search(fitted, math.sin, 3)
    again = make_policy("gp-ucb", box(length_scales="fitted"))
    again.restore(fitted.snapshot())

    assert again.snapshot() == fitted.snapshot()
    assert search(again, math.sin, 2) == search(fitted, math.sin, 2)

    given_scales = make_policy("gp-ucb", box())
    assert_rejected(given_scales, fitted.snapshot(), match="is of")
    assert_rejected(again, given_scales.snapshot(), match="is of")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("w-gp-ucb", {}), ("tv-gp-ucb", {"epsilon": "fitted"})],
)
def test_a_policy_that_cannot_fit_length_scales_says_so(name, parameters):
    with pytest.raises(ConfigError, match="cannot fit the length scales of a box"):
        make_policy(name, box(length_scales="fitted"), **parameters)


def test_length_scales_of_a_rough_kernel_cannot_be_fitted():
    field = BoxField([0.0], [2.0], SpatialKernel(2.5, 0.3), 0.01, length_scales="fitted")
    with pytest.raises(ConfigError, match="nu is 2.5; length scales can be fitted for nu = inf"):
        make_policy("gp-ucb", field)
    with pytest.raises(ConfigError, match='length_scales is .0.3,.; it can be "given" or "fitted"'):
        box(length_scales=(0.3,))


@pytest.mark.parametrize("corner", [10**400, "a", None, [1.0]])
def test_corner_that_is_no_number_is_a_configuration_error(corner):
    with pytest.raises(ConfigError, match="lower and upper must"):
        BoxField([0.0, 0.0], [1.0, corner], SpatialKernel(2.5), 0.01)


def test_a_correct_loop_causes_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(make_policy("tv-gp-ucb", box(), epsilon="fitted"), math.sin, 12)
