"""Intervals of any length: exact on models whose time is a real number, refused by the others."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import max_examples
from support.naive import NaivePosterior, temporal
from support.policy_cases import make

from edge_tvbo.models.box import BoxField
from edge_tvbo.models.field import grid
from edge_tvbo.models.momentum import Momentum
from edge_tvbo.models.posteriors.regression_posterior import RegressionPosterior
from edge_tvbo.models.posteriors.state_space import StateSpacePosterior
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.temporal_models import Static, TimeVarying, UncertaintyInjection
from edge_tvbo.policy import policies

BOX = BoxField([-1.0], [3.0], SpatialKernel(math.inf, 0.6, 2.0), 0.05, candidates=16)
FITTED_BOX = BoxField(
    [-1.0], [3.0], SpatialKernel(math.inf, 0.6, 2.0), 0.05, candidates=16, length_scales="fitted"
)
FIELD = grid(3, SpatialKernel(2.5, 0.4), 0.05)
MODELS = {
    "static": (Static(), None),
    "tv": (TimeVarying(0.1), 0.1),
    "ui": (UncertaintyInjection(0.2), 0.2),
}
NO_TIME = ("random", "round-robin", "static", "oracle")
FITTED = ("tv-gp-ucb fitted", "ttv-gp-ucb fitted")
ON_BOXES = ("gp-ucb", "tv-gp-ucb", "ui-tvbo", "et-gp-ucb", "sw-gp-ucb", "igp-ucb", "mtv-gp-ucb")
ON_BOXES += ("ttv-gp-ucb", "w-gp-ucb", "w-dbo", *FITTED, *NO_TIME)
ON_SENSORS = ("gp-ucb", "tv-gp-ucb", "ui-tvbo", "et-gp-ucb", "igp-ucb", *FITTED, *NO_TIME)
COUNTING = [name for name in (*policies(), "mtv-gp-ucb fitted") if name not in ON_SENSORS]
steps = st.floats(0.01, 30.0)


def lasting(case, field):
    """Return a policy that is not reset in a few intervals."""
    return make(case, field, **({"n_lower": 99} if case.startswith("et-gp-ucb") else {}))


@max_examples(15)
@pytest.mark.parametrize("kind", MODELS)
@given(times=st.lists(steps, min_size=1, max_size=6), seed=st.integers(0, 2**31))
def test_posteriors_equal_their_twin_at_real_times(kind, times, seed):
    model, parameter = MODELS[kind]
    twin = NaivePosterior(FIELD.kernel, 0.05, temporal(kind, parameter))
    recursive = StateSpacePosterior(FIELD, model.transition())
    regression = RegressionPosterior(FIELD, model, 16)
    rng = np.random.default_rng(seed)
    for dt in times:
        arm, y = int(rng.integers(9)), float(rng.normal())
        for one in (twin, recursive, regression):
            one.observe(arm, y)
        twin.time += dt
        recursive.advance_by(dt)
        regression.advance_by(dt)

    for one in (recursive, regression):
        # estimates are of order 1; with times such as [1, 1, 26, 0.25, 1], rounding reached 1e-9
        np.testing.assert_allclose(np.array(one.mean_std()), twin.mean_std(), rtol=1e-7, atol=1e-8)


@given(
    times=st.lists(st.floats(0.0, 50.0), min_size=2, max_size=9),
    epsilon=st.floats(0.01, 0.999),
    share=st.floats(0.0, 1.0),
)
def test_momentum_has_a_valid_covariance_at_real_times(times, epsilon, share):
    kernel = Momentum(epsilon, share * epsilon).kernel(np.array(times), np.array(times))

    assert np.linalg.eigvalsh(kernel).min() > -1e-12


@pytest.mark.parametrize("case", ["gp-ucb", "tv-gp-ucb", "ui-tvbo"])
def test_two_steps_of_a_sensor_field_equal_one_of_their_length(case):
    twice, once = make(case, FIELD), make(case, FIELD)
    for one, lengths in ((twice, (1.0, 1.0, 0.3, 0.4)), (once, (2.0, 0.7))):
        one.observe(4, 1.0)
        for dt in lengths:
            one.advance(dt)

    np.testing.assert_allclose(twice.posterior(), once.posterior(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", [each for each in ON_BOXES if each != "w-dbo"])
def test_two_steps_on_a_box_equal_one_of_their_length_to_the_last_bit(case):
    """Except of w-dbo, which removes readings at the end of each interval."""
    twice, once = lasting(case, BOX), lasting(case, BOX)
    for one, lengths in ((twice, (1.0, 1.0, 0.25, 0.5)), (once, (2.0, 0.75))):
        for x in (0.5, 2.0):
            one.observe((x,), 1.0)
        for dt in lengths:
            one.advance(dt)

    assert np.array(twice.posterior()).tobytes() == np.array(once.posterior()).tobytes()


@pytest.mark.parametrize(
    ("case", "field"),
    [*((case, BOX) for case in ON_BOXES), *((case, FIELD) for case in ON_SENSORS)]
    + [(case, FITTED_BOX) for case in ("tv-gp-ucb", "mtv-gp-ucb")],
)
def test_a_policy_that_is_restored_at_a_real_time_continues_to_the_last_bit(case, field):
    def play(policy, lengths):
        for k, dt in enumerate(lengths):
            policy.observe(policy.select().arm, math.sin(k))
            policy.advance(dt)
        return policy

    first, other = (play(lasting(case, field), (0.4, 1.0, 2.7, 0.3)) for _ in range(2))
    blob = first.snapshot()
    play(other, (5.5, 1.0)).restore(blob)

    assert other.snapshot() == blob
    assert play(first, (1.0, 0.3)).snapshot() == play(other, (1.0, 0.3)).snapshot()
    assert first.select() == other.select()


def test_times_that_are_whole_again_are_stored_as_they_always_were():
    halves, whole = (RegressionPosterior(BOX, TimeVarying(0.1), 8) for _ in range(2))
    for one in (halves, whole):
        one.observe((0.5,), 1.0)
    halves.advance_by(0.5)
    halves.advance_by(0.5)
    whole.advance()

    assert halves.snapshot() == whole.snapshot()


@pytest.mark.parametrize("case", COUNTING)
def test_a_policy_that_counts_intervals_refuses_other_lengths(case):
    policy = make(case)
    policy.observe(0, 1.0)
    before = policy.snapshot()
    with pytest.raises(ValueError, match=r"dt is 0\.5; "):
        policy.advance(0.5)

    assert policy.snapshot() == before
    policy.advance(1)


def test_the_policies_with_periods_or_batches_refuse_them_on_a_box_too():
    unknown = {name for name in policies() if name not in ("auto", "kalman-ucb")} - {*ON_BOXES}
    for name in (*unknown, "mtv-gp-ucb fitted"):
        with pytest.raises(ValueError, match=r"dt is 0\.5; "):
            make(name, BOX).advance(0.5)


@pytest.mark.parametrize("dt", [0.0, -1.0, math.nan, math.inf, 10**400])
def test_a_length_that_is_no_number_above_0_is_refused(dt):
    for name in ("tv-gp-ucb", "random", "auto"):
        with pytest.raises(ValueError, match="must be a finite number above 0"):
            make(name).advance(dt)
