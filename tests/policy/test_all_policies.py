"""What every registered policy owes its callers: one list of checks, a policy added is checked.

A case is a policy with settings. It comes in three natures: with a model, without one but learning,
and blind. A history is a list of ``(arm, y)`` readings and None, the end of an interval; between
the lines the policy is asked for its choice, as a controller would.
"""

import inspect
import math
import sys
from importlib import import_module
from itertools import permutations

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive import se

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.posteriors.regression_posterior import FittedPosterior
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.policy import _REGISTRY, make_policy, needing_positions, parameters, policies
from edge_tvbo.policy.base import UpperConfidence
from edge_tvbo.policy.baselines import ModelFreePolicy

PLACES = np.array([[0.0, 0.0], [0.3, 0.1], [0.3, 0.1], [0.9, 0.4], [0.2, 0.8]])  # one repeated
FAR = 1e3 * np.arange(5.0)[:, None]
K = se(PLACES, 0.4)

SHORT = {  # so that short histories meet their ends
    "r-gp-ucb": {"period": 4},
    "br-gp-ucb": {"period": 6},
    "sw-gp-ucb": {"window": 5},
    "w-gp-ucb": {"window": 8, "gamma": 0.7},
    "w-dbo": {"window": 8, "epsilon": 0.3},
    "rexp3": {"period": 5},
}
VARIANTS = {
    "tv-gp-ucb fitted": ("tv-gp-ucb", {"epsilon": "fitted"}),
    "mtv-gp-ucb fitted": ("mtv-gp-ucb", {"epsilon": "fitted"}),
    "ttv-gp-ucb fitted": ("ttv-gp-ucb", {"tau": "fitted"}),
    "tv-gp-ucb fitted window=6": ("tv-gp-ucb", {"epsilon": "fitted", "window": 6}),
    "auto balanced": ("auto", {"length_scale": "learned"}),
    "et-gp-ucb likelihood-ratio": ("et-gp-ucb", {"trigger": "likelihood-ratio"}),
}
WINDOWS = {
    f"{name} window=6": (name, {**SHORT.get(name, {}), "window": 6})
    for name in policies()
    if "window" in parameters()[name]
}
CASES = {**{name: (name, SHORT.get(name, {})) for name in policies()}, **VARIANTS, **WINDOWS}


def field_of(K, noise_variance=0.05, prefix="n", places=PLACES):
    names = tuple(f"{prefix}{i}" for i in range(len(K)))
    return SensorField(names, K, noise_variance, positions=places[: len(K)])


def unrelated(M, noise_variance=0.05):
    return field_of(np.eye(M), noise_variance, places=FAR)


def alike(M, noise_variance=0.05):
    return field_of(np.ones((M, M)), noise_variance, places=0 * FAR)


def make(case, field=None, **more):
    name, settings = CASES[case]
    return make_policy(name, field_of(K) if field is None else field, **{**settings, **more})


# What a policy is shows in what it is made of, so that a name added finds its place.
MADE = {case: make(case) for case in CASES}
BLIND = ("random", "round-robin", "static")
UPPER = [name for name in policies() if isinstance(MADE[name], UpperConfidence)]
MODELLED = [name for name in policies() if not isinstance(MADE[name], ModelFreePolicy)]
FITTED = [
    case
    for case, policy in MADE.items()
    if isinstance(getattr(policy, "_posterior", None), FittedPosterior)
]
SLOW = [
    *FITTED,
    *(c for c, (name, _) in CASES.items() if _REGISTRY[name].maker.startswith("length_scales")),
]

every_policy = pytest.mark.parametrize("name", policies())
every_case = pytest.mark.parametrize("case", CASES)


def maker(name):
    module, _, function = _REGISTRY[name].maker.partition(":")
    return getattr(import_module(f"edge_tvbo.policy.{module}"), function)


def agnostic(name):
    """Say whether a policy's own width has a unit: B + R ... instead of a number."""
    beta = inspect.signature(maker(name)).parameters.get("beta")
    return beta is not None and beta.default is None


def each(many, cases=CASES, **strategies):
    """Run a check on what is drawn, `many` times for each case; fewer where that takes long."""

    def decorate(check):
        @pytest.mark.parametrize("case", cases)
        def test(case):
            share = 2 if case in SLOW else max(2, many // 12) if case in WINDOWS else many // 2

            @settings(max_examples=share)
            @given(**strategies)
            def drawn(**arguments):
                check(case, **arguments)

            drawn()

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate


def histories(M=len(K), readings=st.floats(-5, 5)):
    reading = st.tuples(st.integers(0, M - 1) | st.none(), readings)
    return st.lists(reading | st.none(), max_size=30)


SEEDS = st.integers(0, 2**62 - 1)


def tell(policy, step):
    """Carry one step out, an arm of None meaning the chosen one; return all that can be seen."""
    choice = policy.select()
    if step is None:
        outcome = policy.advance()
    else:
        arm, y = step
        outcome = policy.observe(choice.arm if arm is None else arm, y)
    mean, std = policy.posterior()
    return choice, outcome, mean.tobytes(), std.tobytes(), policy.observations, policy.resets


def told(policy, history):
    return [tell(policy, step) for step in history]


# --- the same again -----------------------------------------------------------------------------


def assert_seeded_twice_is_equal(one, two, history):
    assert told(one, history) == told(two, history)
    assert one.snapshot() == two.snapshot()


def assert_goes_on(policy, other, history, cut, *, asked):
    told(policy, history[:cut])
    if asked:
        policy.select()
    other.restore(policy.snapshot())
    assert other.snapshot() == policy.snapshot()
    resumed, unbroken = told(other, history[cut:]), told(policy, history[cut:])
    assert resumed == unbroken
    assert other.snapshot() == policy.snapshot()


@each(30, history=histories(), seed=SEEDS)
def test_seeded_twice_is_equal(case, history, seed):
    assert_seeded_twice_is_equal(make(case, seed=seed), make(case, seed=seed), history)


@each(50, history=histories(), data=st.data())
def test_restored_anywhere_it_goes_on_bit_for_bit(case, history, data):
    cut = data.draw(st.integers(0, len(history)), label="cut")
    policy, other = make(case, seed=3), make(case, seed=3)
    told(other, data.draw(histories(), label="what the other lived through before"))
    asked = data.draw(st.booleans(), label="asked before the cut")
    assert_goes_on(policy, other, history, cut, asked=asked)


@every_case
def test_between_selecting_and_observing_a_snapshot_keeps_which_arm_was_asked(case):
    policy = make(case)
    arm = policy.select().arm
    other = make(case)
    other.restore(policy.snapshot())
    assert other.observe(arm, 3.0) == policy.observe(arm, 3.0)


@pytest.mark.parametrize("name", [name for name in policies() if name != "round-robin"])
def test_different_seeds_break_the_first_tie_differently(name):
    picks = {make_policy(name, unrelated(5), seed=seed).select().arm for seed in range(60)}
    assert picks == {0, 1, 2, 3, 4}


# --- purity and manners -------------------------------------------------------------------------


@each(30, history=histories())
def test_asking_twice_gives_the_same_choice_and_asking_changes_no_later_one(case, history):
    asked_once, asked_often = make(case), make(case)
    for step in history:
        first = asked_often.select()
        assert [asked_often.select() for _ in range(3)] == [first] * 3
        asked_often.posterior()
        asked_often.snapshot()
        assert tell(asked_often, step) == tell(asked_once, step)


@every_case
def test_the_kernel_it_was_given_and_the_field_stay_untouched(case):
    given_kernel, places = K.copy(), PLACES.copy()
    field = field_of(given_kernel, places=places)
    kept, fingerprint = field.kernel.copy(), field.fingerprint()
    policy = make(case, field)
    told(policy, [(None, 1.0), None, (2, -4.0), None] * 8)
    policy.select_many(3)
    mean, std = policy.posterior()
    mean[:], std[:] = np.nan, np.nan  # copies: the policy must not notice
    assert np.isfinite(policy.posterior()).all()
    assert np.array_equal(given_kernel, K)
    assert np.array_equal(places, PLACES)
    assert np.array_equal(field.kernel, kept)
    assert np.array_equal(field.positions, PLACES)
    assert field.fingerprint() == fingerprint


MASKS = st.lists(st.booleans(), min_size=len(K), max_size=len(K)).map(np.array)


@each(30, history=histories(), mask=MASKS)
def test_only_the_eligible_are_chosen(case, history, mask):
    assume(mask.any())
    policy = make(case)
    told(policy, history)
    before = mask.copy()
    choice = policy.select(mask)
    assert mask[choice.arm]
    assert policy.select(mask) == choice
    assert np.array_equal(mask, before)
    if mask.all():
        assert choice == policy.select()


@every_case
@pytest.mark.parametrize("mask", [np.ones(len(K)), np.ones(len(K) + 1, np.bool_)], ids=str)
def test_a_mask_of_another_kind_is_refused(case, mask):
    """Kernels that were compiled ahead of time would read beyond it."""
    policy = make(case)
    if isinstance(policy, ModelFreePolicy):
        return  # no kernel
    for select in (policy.select, lambda mask: policy.select_many(2, mask)):
        with pytest.raises(ValueError, match=rf"it can be bool\[{len(K)}\]"):
            select(mask)


@every_case
def test_where_none_is_eligible_it_says_so(case):
    nobody = np.zeros(len(K), np.bool_)
    with pytest.raises(ValueError, match="no arm is eligible"):
        make(case).select(nobody)
    with pytest.raises(ValueError, match="no arm is eligible"):
        make(case).select_many(2, nobody)


@each(30, history=histories())
def test_a_choice_tells_the_belief_that_posterior_gives(case, history):
    policy = make(case)
    told(policy, history)
    choice = policy.select()
    mean, std = policy.posterior()
    assert choice.sensor == policy.field.sensors[choice.arm]
    assert (choice.mean, choice.std) == pytest.approx((mean[choice.arm], std[choice.arm]))
    assert policy.uses_readings == (case not in BLIND)
    if policy.name in MODELLED:
        assert choice.ucb >= choice.mean
    assert all(type(value) is float for value in (choice.mean, choice.std, choice.ucb))


# --- several at once ----------------------------------------------------------------------------


@each(20, history=histories(), k=st.integers(1, 8), mask=MASKS)
def test_several_are_different_and_eligible_and_the_first_is_the_one(case, history, k, mask):
    assume(mask.any())
    policy = make(case)
    told(policy, history)
    before = mask.copy()
    for eligible, among in ((None, len(K)), (mask, int(mask.sum()))):
        first = policy.select(eligible)
        choices = policy.select_many(k, eligible)
        arms = [choice.arm for choice in choices]
        assert choices[0] == first
        assert len(arms) == len(set(arms)) == min(k, among)
        assert eligible is None or eligible[arms].all()
        assert policy.select_many(1, eligible) == (first,)
    assert np.array_equal(mask, before)


@each(20, history=histories(), k=st.integers(1, 8), step=histories())
def test_asking_for_several_changes_nothing_but_who_was_asked(case, history, k, step):
    policy, other = make(case), make(case)
    told(policy, history)
    told(other, history)
    choice, belief, before = policy.select(), np.array(policy.posterior()), policy.snapshot()
    several = policy.select_many(k)
    assert policy.select_many(k) == several
    assert np.array_equal(policy.posterior(), belief)
    assert policy.select() == choice
    assert policy.snapshot() == before
    policy.select_many(k)
    assert told(policy, step) == told(other, step)


@every_case
def test_a_snapshot_keeps_all_who_were_asked(case):
    policy, other = make(case), make(case)
    told(policy, [(None, 1.0), None])
    several = policy.select_many(3)
    other.restore(policy.snapshot())
    for choice in several[::-1]:
        assert other.observe(choice.arm, 0.5) == policy.observe(choice.arm, 0.5)
    assert other.snapshot() == policy.snapshot()


@pytest.mark.parametrize("case", [c for c in CASES if CASES[c][0] in UPPER])
def test_the_first_answer_of_each_who_was_asked_is_put_to_the_trigger_and_no_other(case):
    policy = make(case)
    choices = policy.select_many(3)
    asked = [choice.arm for choice in choices]
    (stranger, *_) = set(range(len(K))) - set(asked)
    threshold = case in ("et-gp-ucb", "et-gp-ucb window=6")
    for age, choice in enumerate(choices, start=1):
        outcome = policy.observe(choice.arm, choice.mean)
        assert (outcome.reset, outcome.age) == (False, age)
        assert (outcome.threshold is not None) == threshold
        for arm in (stranger, choice.arm):
            again = policy.observe(arm, 0.0)
            assert (again.reset, again.threshold, again.age) == (False, None, age)


def test_a_jump_in_any_of_the_answers_resets():
    for trigger in ("error-bound", "likelihood-ratio"):
        for jump in range(3):
            policy = make_policy("et-gp-ucb", unrelated(3), trigger=trigger)
            told(policy, [(arm, 0.0) for arm in (0, 1, 2) for _ in range(5)])
            choices = policy.select_many(3)
            resets = [policy.observe(c.arm, 9.0 * (i == jump)).reset for i, c in enumerate(choices)]
            assert resets == [i == jump for i in range(3)]


@each(15, cases=[c for c in CASES if CASES[c][0] in UPPER], history=histories())
def test_each_of_several_is_chosen_as_if_those_before_had_read_what_is_expected(case, history):
    """GP-BUCB, Desautels, Krause & Burdick 2014, with readings that are really taken in."""
    policy, other = make(case), make(case)
    told(policy, history)
    other.restore(policy.snapshot())
    left = np.ones(len(K), np.bool_)
    for choice in policy.select_many(len(K)):
        expected = other.select(left)  # another arm where bounds tie
        assert choice.ucb == pytest.approx(expected.ucb, rel=1e-9, abs=1e-9)
        left[choice.arm] = False
        other._posterior.observe(choice.arm, choice.mean)


# --- odd fields ---------------------------------------------------------------------------------


def assert_sound(policy, history):
    for choice, *_ in told(policy, history):
        assert 0 <= choice.arm < len(policy.field)
    mean, std = policy.posterior()
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()


@each(20, history=histories(M=1))
def test_one_arm_is_always_the_choice(case, history):
    policy = make(case, unrelated(1))
    assert {choice.arm for choice, *_ in told(policy, history)} <= {0}
    assert [choice.arm for choice in policy.select_many(3)] == [0]
    assert_sound(policy, history)


@pytest.mark.parametrize("name", [name for name in policies() if "beta" in parameters()[name]])
def test_of_two_arms_a_constant_width_leaves_the_colder_alone(name):
    policy = make_policy(name, unrelated(2, 0.01), beta=1.0)
    policy.observe(0, -3.0)
    policy.observe(1, 3.0)
    assert policy.select().arm == 1


@pytest.mark.parametrize("name", ["random", "round-robin"])
def test_of_two_arms_the_blind_meet_both(name):
    policy = make_policy(name, unrelated(2))
    assert {choice.arm for choice, *_ in told(policy, [None] * 40)} == {0, 1}


def test_round_robin_takes_everyone_in_turn_from_its_seed_on():
    policy = make_policy("round-robin", field_of(K), seed=3)
    assert [choice.arm for choice, *_ in told(policy, [None] * 7)] == [3, 4, 0, 1, 2, 3, 4]


def test_static_takes_the_sensor_it_was_told_or_the_next_that_can_be():
    policy = make_policy("static", field_of(K), sensor="n3")
    assert {choice.sensor for choice, *_ in told(policy, [None] * 7)} == {"n3"}
    assert policy.select(np.array([True, True, True, False, False])).sensor == "n0"
    with pytest.raises(ConfigError, match="'n9'"):
        make_policy("static", field_of(K), sensor="n9")


@pytest.mark.parametrize(  # told, the oracle knows; static never asks
    "case", [case for case in CASES if case not in ("oracle", "static")]
)
def test_while_all_arms_tie_each_is_drawn(case):
    """The kernel of one common value keeps every arm tied for ever, whatever is read."""
    policy = make(case, alike(3))
    length = 12 if case in SLOW else 100
    picks = [choice.arm for choice, *_ in told(policy, [(None, 1.0), None] * length)]
    assert set(picks) == {0, 1, 2}


@each(20, value=st.floats(-100, 100), field=st.sampled_from([field_of, alike, unrelated]))
def test_constant_readings_leave_it_sound(case, value, field):
    size, length = {field_of: K, alike: 4, unrelated: 3}[field], 5 if case in SLOW else 60
    assert_sound(make(case, field(size, 1e-6)), [(None, value), None] * length)


UNITLESS = [
    case
    for case, (name, _) in CASES.items()
    if case not in FITTED  # a search stops where -ln p, which has a unit, changes little
    and ("beta" in parameters()[name] or name not in MODELLED)
]


@each(15, UNITLESS, history=histories(readings=st.integers(-500, 500).map(lambda y: y / 100)))
def test_a_field_of_another_scale_makes_the_same_choices(case, history):
    """Powers of two scale without rounding, so every bit and every tie stays; none subnormal."""
    more = {"beta": 2.0} if agnostic(CASES[case][0]) else {}
    for size in (1e6, 1e-6):
        factor = 2.0 ** round(np.log2(size) / 2)  # of a standard deviation; `size` is of the kernel
        plain = make(case, field_of(K, 0.05), **more)
        scaled = make(case, field_of(K * factor**2, 0.05 * factor**2), **more)
        for step in history:
            arm, outcome = _arm_and_reset(plain, step)
            bigger = None if step is None else (step[0], step[1] * factor)
            assert (arm, outcome) == _arm_and_reset(scaled, bigger)
        assert_sound(scaled, [])
        mean, std = plain.posterior()
        scaled_mean, scaled_std = scaled.posterior()
        np.testing.assert_allclose(scaled_mean, mean * factor, rtol=1e-9, atol=1e-9 * factor)
        np.testing.assert_allclose(scaled_std, std * factor, rtol=1e-6, atol=1e-7 * factor)


def _arm_and_reset(policy, step):
    choice, outcome, *_ = tell(policy, step)
    return choice.arm, None if outcome is None else outcome.reset


# --- grids and boxes ----------------------------------------------------------------------------

GRID = grid(4, SpatialKernel(math.inf, 0.4), 0.05)


@each(9, history=histories(M=16), seed=SEEDS, data=st.data())
def test_on_a_grid_it_is_the_same_again_and_goes_on_bit_for_bit(case, history, seed, data):
    policy = make(case, GRID, seed=seed)
    assert_seeded_twice_is_equal(policy, make(case, GRID, seed=seed), history)
    assert_sound(policy, [])
    policy, other = make(case, GRID, seed=seed), make(case, GRID, seed=seed)
    told(other, [(3, 1.0), None])
    cut = data.draw(st.integers(0, len(history)), label="cut")
    assert_goes_on(policy, other, history, cut, asked=data.draw(st.booleans(), label="asked"))


BOXES = {
    1: BoxField([-1.0], [3.0], SpatialKernel(math.inf, 0.6, 2.0), 0.05, candidates=16),
    2: BoxField([-1.0, 0.0], [1.0, 9.0], SpatialKernel(2.5, (0.5, 2.0)), 0.05, candidates=16),
}
ANYWHERE = [name for name in policies() if name != "auto"]  # which refuses a box
ONCE = (
    *(v for v in VARIANTS if v != "auto balanced"),
    "gp-ucb window=6",
)  # of a box, one for all: there are no other engines
IN_BOXES = [*((name, d) for name in ANYWHERE for d in BOXES), *((case, 1) for case in ONCE)]
in_boxes = pytest.mark.parametrize(("case", "d"), IN_BOXES)


def box_history(box):
    """Answers of the chosen, a reading nobody asked for, intervals with and without any."""
    middle = tuple(float(x) for x in (box.lower + box.upper) / 2)
    answers = [(None, 1.0), None, (None, -0.5), None, (middle, 2.0), None, None, (None, 5.0)]
    return [*answers, None, (middle, -2.0), (None, 0.3)]


@in_boxes
def test_in_a_box_it_is_the_same_again_and_goes_on_bit_for_bit(case, d):
    box = BOXES[d]
    history, policy, twin = box_history(box), make(case, box, seed=5), make(case, box, seed=5)
    traces, snapshots = [], []
    for step in history:
        policy.select()
        snapshots.append(policy.snapshot())
        traces.append(tell(policy, step))
    assert told(twin, history) == traces
    assert twin.snapshot() == policy.snapshot()

    other = make(case, box, seed=5)
    told(other, [(None, 3.0), None])
    for cut in (9, 5):
        other.restore(snapshots[cut])
        assert other.snapshot() == snapshots[cut]
        if cut == 9:
            other.observe(other.select().arm, 1.0)  # a past that must be forgotten
    assert told(other, history[5:]) == traces[5:]
    assert other.snapshot() == policy.snapshot()


@in_boxes
def test_in_a_box_choices_are_points_of_it_and_beliefs_numbers(case, d):
    box = BOXES[d]
    policy = make(case, box)
    for step in box_history(box)[-5:]:
        choice, *_ = tell(policy, step)
        assert isinstance(choice.arm, tuple)
        assert all(type(x) is float for x in choice.arm)
        assert box.contains(np.array([choice.arm]))
        assert choice.sensor == box.name(choice.arm)
        assert all(type(value) is float for value in (choice.mean, choice.std, choice.ucb))
    mean, std = policy.posterior()
    assert mean.shape == std.shape == (16,)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()


@in_boxes
def test_in_a_box_several_are_different_and_asking_for_them_changes_nothing(case, d):
    box = BOXES[d]
    policy = make(case, box)
    for _ in range(2):
        first = policy.select()
        before = policy.snapshot()
        several = policy.select_many(4)
        arms = {choice.arm for choice in several}
        assert several[0] == first
        assert len(several) == len(arms) == 4
        assert box.contains(np.array(sorted(arms)))
        assert policy.select_many(1) == (first,)
        assert policy.snapshot() == before
        told(policy, [(None, 1.0), None])
    assert len({choice.arm for choice in policy.select_many(99)}) == 16


@in_boxes
def test_in_a_box_only_eligible_candidates_are_chosen_where_some_are_not(case, d):
    box = BOXES[d]
    policy = make(case, box)
    told(policy, [(None, 1.0), None])
    mask = np.arange(16) % 3 == 0
    arms = [policy.select(mask).arm, *(choice.arm for choice in policy.select_many(99, mask))]
    assert {box.arm(i) for i in np.flatnonzero(mask)} == set(arms)


OTHER_BOXES = [
    BoxField([-1.0], [3.5], SpatialKernel(math.inf, 0.6, 2.0), 0.05, candidates=16),
    BoxField([-1.5], [3.0], SpatialKernel(math.inf, 0.6, 2.0), 0.05, candidates=16),
    BoxField([-1.0], [3.0], SpatialKernel(2.5, 0.6, 2.0), 0.05, candidates=16),
    BoxField([-1.0], [3.0], SpatialKernel(math.inf, 0.7, 2.0), 0.05, candidates=16),
    BoxField([-1.0], [3.0], SpatialKernel(math.inf, 0.6, 2.1), 0.05, candidates=16),
    BoxField([-1.0], [3.0], SpatialKernel(math.inf, 0.6, 2.0), 0.06, candidates=16),
    BoxField([-1.0], [3.0], SpatialKernel(math.inf, 0.6, 2.0), 0.05, candidates=32),
    BoxField([-1.0], [3.0], SpatialKernel(math.inf, 0.6, 2.0), 0.05, candidates=16, scale=2.0),
    BOXES[2],
    grid(4, SpatialKernel(math.inf, 0.6, 2.0), 0.05),
]


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_snapshot_of_another_box_is_refused_and_changes_nothing(name):
    policy = make(name, BOXES[1])
    told(policy, [(None, 1.0), None])
    for other in OTHER_BOXES:
        assert_refused(policy, make(name, other).snapshot(), match=f"other sensors|is of '{name} ")


@pytest.mark.parametrize("asked", [["a"], [0], [[0.1, 0.2]], [[1]], [[]], [[True]], [[None]]])
@pytest.mark.parametrize("name", [name for name in UPPER if name in ANYWHERE])
def test_in_a_box_what_is_no_point_was_not_asked(name, asked):
    policy = make(name, BOXES[1])
    assert_refused(policy, resealed(policy.snapshot(), asked=asked), match="asked")


@pytest.mark.parametrize("name", [name for name in policies() if name not in needing_positions()])
def test_among_sensors_nothing_of_scipy_is_needed(name, monkeypatch):
    for module in ("scipy.linalg", "scipy.optimize"):
        monkeypatch.setitem(sys.modules, module, None)  # a gateway has none
    policy = make(name)
    told(policy, [(None, 1.0), None, (2, 0.5), (None, -2.0), None] * 3)
    assert all(np.isfinite(each).all() for each in policy.posterior())


# --- snapshots that are not ours ----------------------------------------------------------------


def assert_refused(policy, blob, match=None):
    before, belief = policy.snapshot(), np.array(policy.posterior()).tobytes()
    with pytest.raises(SnapshotError, match=match):
        policy.restore(blob)
    assert policy.snapshot() == before
    assert np.array(policy.posterior()).tobytes() == belief


@pytest.mark.parametrize(("name", "other"), list(permutations(policies(), 2)))
def test_a_snapshot_of_another_policy_is_refused_and_changes_nothing(name, other):
    policy = make(name)
    told(policy, [(None, 1.0), None, (2, 0.5)])
    assert_refused(policy, make(other).snapshot(), match="is of")


@every_policy
@pytest.mark.parametrize(
    "field",
    [
        field_of(K, 0.06),
        field_of(2 * K),
        field_of(K, prefix="m"),
        field_of(K[:4, :4]),
        SensorField(("n0", "n1", "n2", "n3", "n4"), K, 0.05, objective="min", positions=PLACES),
        SensorField(("n0", "n1", "n2", "n3", "n4"), K, 0.05, center=20.0, positions=PLACES),
        SensorField(("n0", "n1", "n2", "n3", "n4"), K, 0.05, scale=2.0, positions=PLACES),
    ],
    ids=["noise", "kernel", "names", "fewer", "objective", "center", "scale"],
)
def test_a_snapshot_of_another_field_is_refused_and_changes_nothing(name, field):
    """RExp3's γ depends on how many arms there are, so that of fewer is another RExp3's."""
    policy = make(name)
    told(policy, [(None, 1.0), None, (2, 0.5)])
    match = "is of 'rexp3" if name == "rexp3" and len(field) < 5 else "belongs to other"
    assert_refused(policy, make(name, field).snapshot(), match=match)


@pytest.mark.parametrize(
    ("name", "mine", "theirs"),
    [
        ("gp-ucb", {}, {"window": 4}),
        ("tv-gp-ucb", {"epsilon": 0.01}, {"epsilon": 0.02}),
        ("tv-gp-ucb", {"epsilon": "fitted"}, {"epsilon": 0.03}),
        ("tv-gp-ucb", {"epsilon": "fitted"}, {"epsilon": "fitted", "window": 6}),
        ("tv-gp-ucb", {"epsilon": "fitted"}, {"epsilon": "fitted", "seed": 1}),
        ("ui-tvbo", {"sigma_w2": 0.01}, {"sigma_w2": 0.02}),
        ("mtv-gp-ucb", {"alpha": 0.5}, {"alpha": 0.6}),
        ("mtv-gp-ucb", {"alpha": 0.5, "window": 4}, {"alpha": 0.6, "window": 4}),
        ("ttv-gp-ucb", {"tau": 5}, {"tau": 6}),
        ("ttv-gp-ucb", {"tau": 5, "window": 4}, {"tau": 6, "window": 4}),
        ("sw-gp-ucb", {"window": 4}, {"window": 5}),
        ("w-gp-ucb", {"gamma": 0.9}, {"gamma": 0.8}),
        ("w-gp-ucb", {"window": 4}, {"window": 5}),
        ("rexp3", {"period": 4, "gamma": 0.1}, {"period": 5, "gamma": 0.1}),
        ("rexp3", {"gamma": 0.1}, {"gamma": 0.2}),
        ("d-ucb", {"gamma": 0.9}, {"gamma": 0.8}),
        ("w-dbo", {"epsilon": 0.01}, {"epsilon": 0.02}),
        ("w-dbo", {"alpha": 0.1}, {"alpha": 0.2}),
        ("w-dbo", {"window": 4}, {"window": 5}),
    ],
)
def test_a_snapshot_of_another_model_of_change_is_refused(name, mine, theirs):
    policy = make_policy(name, field_of(K), **mine)
    assert_refused(policy, make_policy(name, field_of(K), **theirs).snapshot())


BLOBS = {}


def blob_of(case):
    if case not in BLOBS:
        policy = make(case)
        told(policy, [(None, 1.0), None, (2, 0.5), (None, -2.0), None] * 2)
        BLOBS[case] = policy.snapshot()
    return BLOBS[case]


@each(40, data=st.data())
def test_a_snapshot_cut_short_is_refused_and_changes_nothing(case, data):
    blob = blob_of(case)
    policy = make(case)
    assert_refused(policy, blob[: data.draw(st.integers(0, len(blob) - 1), label="length")])


@each(60, policies(), junk=st.binary(max_size=60))
def test_bytes_that_are_no_snapshot_are_refused(case, junk):
    assert_refused(make(case), junk)


@every_policy
def test_bytes_nested_far_deeper_than_a_stack_are_refused(name):
    assert_refused(make(name), b"\x91" * 50_000)


@each(150, data=st.data())
def test_a_damaged_snapshot_is_refused_unchanged_or_restores_a_policy_that_works(case, data):
    blob = bytearray(blob_of(case))
    for _ in range(data.draw(st.integers(1, 3), label="bytes")):
        at = data.draw(st.integers(0, len(blob) - 1), label="at")
        blob[at] = data.draw(st.integers(0, 255), label="becomes")
    policy = make(case)
    before = policy.snapshot()
    try:
        policy.restore(bytes(blob))
    except SnapshotError:
        assert policy.snapshot() == before
        return
    mean, std = policy.posterior()
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    told(policy, [(None, 0.5), None, (1, 0.2)])


def opened(blob):
    """Give the kind, the field and the state of a snapshot."""
    _, kind, field, _ = msgspec.msgpack.decode(blob)
    return kind, field, decode_snapshot(kind, field, blob)


def resealed(blob, **changes):
    """Give a snapshot whose envelope is right and whose state is not."""
    kind, field, state = opened(blob)
    return encode_snapshot(kind, field, {**state, **changes})


def resealed_posterior(case, **changes):
    _, _, state = opened(blob_of(case))
    return resealed(blob_of(case), posterior=resealed(state["posterior"], **changes))


WRONG = [None, "text", -3, [1], {"a": 1}, 1.5, True]
STATES = {name: opened(blob_of(name))[2] for name in policies()}


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, state in STATES.items() for key in state]
)
def test_a_state_of_the_wrong_type_is_refused(name, key, wrong):
    saved = STATES[name][key]
    if type(saved) is type(wrong) and wrong != -3:
        return  # of the right type
    assert_refused(make(name), resealed(blob_of(name), **{key: wrong}))


@pytest.mark.parametrize("name", UPPER)
def test_all_that_an_upper_confidence_policy_is_stands_in_its_snapshot(name):
    assert set(STATES[name]) == {"time", "events", "asked", "age", "resets", "posterior"}


@pytest.mark.parametrize("asked", [[5], [-1], ["a"], [True], [1.0], [[0.1]], [None], [0, 5]])
@pytest.mark.parametrize("name", UPPER)
def test_who_is_no_arm_was_not_asked(name, asked):
    assert_refused(make(name), resealed(blob_of(name), asked=asked), match="asked")


def arrays_of(case):
    _, _, state = opened(opened(blob_of(case))[2]["posterior"])
    return {key: value for key, value in state.items() if isinstance(value, np.ndarray)}


INNER = [*UPPER, "tv-gp-ucb fitted", "gp-ucb window=6"]
NONSENSE = {
    "text": lambda a: np.full(a.shape, "a"),
    "not a number": lambda a: np.full(a.shape, np.nan),
    "infinite": lambda a: np.full(a.shape, -np.inf),
    "complex": lambda a: 1j * np.ones(a.shape),
    "bad dtype": lambda a: ["f8,,", list(a.shape), bytes(8 * a.size)],
    "another type": lambda a: a.astype(np.int64 if a.dtype == np.float64 else np.float64),
    "another shape": lambda a: np.zeros((*a.shape, 1), a.dtype),
    "none": lambda a: None,
}


@pytest.mark.parametrize("nonsense", list(NONSENSE))
@pytest.mark.parametrize("case", INNER)
def test_an_array_that_is_none_is_refused_and_changes_nothing(case, nonsense):
    policy, arrays = make(case), arrays_of(case)
    assert arrays
    for key, array in arrays.items():
        if array.size:
            assert_refused(policy, resealed_posterior(case, **{key: NONSENSE[nonsense](array)}))


@pytest.mark.parametrize("case", [case for case in INNER if "covariance" in arrays_of(case)])
def test_a_covariance_with_a_negative_variance_is_refused(case):
    blob = resealed_posterior(case, covariance=-np.eye(len(arrays_of(case)["covariance"])))
    assert_refused(make(case), blob, match="negative variance")


@pytest.mark.parametrize("case", ["tv-gp-ucb", "ui-tvbo", "gp-ucb window=6", "sw-gp-ucb"])
def test_a_negative_scale_of_the_prior_is_refused(case):
    assert_refused(make(case), resealed_posterior(case, prior=-1.0), match="prior")


@pytest.mark.parametrize("arm", [5, -6, 2**40])
@pytest.mark.parametrize(("name", "window"), [("sw-gp-ucb", 5), ("w-gp-ucb", 8), ("w-dbo", 8)])
def test_arms_that_do_not_exist_are_refused_before_compiled_code_meets_them(name, window, arm):
    blob = resealed_posterior(name, arms=np.full(window, arm))
    assert_refused(make(name), blob, match="arms")


@pytest.mark.parametrize("place", [5.0, -1.0, 0.5, 1e300])
def test_places_that_do_not_exist_are_refused(place):
    blob = resealed_posterior("mtv-gp-ucb window=6", places=np.full((6, 1), place))
    assert_refused(make("mtv-gp-ucb window=6"), blob, match="places")


@pytest.mark.parametrize(
    "changes",
    [{"times": 9}, {"times": -1}, {"observations": 9}, {"time": 0}, {"time": -1}],
    ids=str,
)
@pytest.mark.parametrize(("case", "window"), [("w-gp-ucb", 8), ("mtv-gp-ucb window=6", 6)])
def test_readings_that_cannot_have_been_are_refused(case, window, changes):
    if "times" in changes:
        changes = {"times": np.full(window, changes["times"])}
    assert_refused(make(case), resealed_posterior(case, **changes))


@pytest.mark.parametrize(
    "values", [[1.5], [-0.1], [np.nan], [0.1, 0.1], []], ids=["above", "below", "nan", "two", "no"]
)
def test_a_fitted_parameter_that_cannot_be_is_refused(values):
    blob = resealed_posterior("tv-gp-ucb fitted", temporal=np.array(values))
    assert_refused(make("tv-gp-ucb fitted"), blob)


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": np.zeros(5)},
        {"weights": np.array([1.0, 1.0, -1.0, 1.0, 1.0])},
        {"chances": np.array([0.0, 1.5, 0.0, 0.0, 0.0])},
        {"chances": np.array([0.0, -0.5, 0.0, 0.0, 0.0])},
    ],
    ids=str,
)
def test_weights_and_chances_that_cannot_be_are_refused(changes):
    assert_refused(make("rexp3"), resealed(blob_of("rexp3"), **changes))


def test_counts_below_nothing_are_refused():
    blob = resealed(blob_of("d-ucb"), counts=np.array([1.0, 0.0, -1.0, 0.0, 0.0]))
    assert_refused(make("d-ucb"), blob, match="counts")


@every_policy
def test_a_count_past_what_the_compiled_code_can_hold_is_refused(name):
    counts = {key: 2**63 for key, value in STATES[name].items() if type(value) is int}
    assert "time" in counts
    assert_refused(make(name), resealed(blob_of(name), **counts))


# --- the registry -------------------------------------------------------------------------------


@every_policy
def test_the_listed_parameters_are_the_makers_signature(name):
    signature = inspect.signature(maker(name)).parameters
    keywords = [p for p in signature.values() if p.kind is p.KEYWORD_ONLY]
    assert set(parameters()[name]) == {p.name for p in keywords}
    assert len(parameters()[name]) == len(keywords)
    assert [p.name for p in signature.values() if p.kind is not p.KEYWORD_ONLY] == ["name", "field"]
    assert all(p.default is not p.empty for p in keywords)


def test_parameters_are_listed_for_every_policy_and_no_other():
    assert tuple(parameters()) == policies()


@every_policy
def test_a_policy_goes_by_the_name_it_was_asked_for_by(name):
    assert make(name).name == name


@every_policy
def test_a_misspelt_name_is_refused_with_the_one_that_was_meant(name):
    with pytest.raises(ConfigError, match=f"Did you mean '{name}'"):
        make_policy(name + "x", field_of(K))


def test_a_name_like_no_other_is_refused_without_a_guess():
    with pytest.raises(ConfigError) as error:
        make_policy("zzz", field_of(K))
    assert "'zzz'" in str(error.value)
    assert "Did you mean" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "keyword"), [(name, keyword) for name in policies() for keyword in parameters()[name]]
)
def test_a_misspelt_setting_is_refused_with_the_one_that_was_meant(name, keyword):
    with pytest.raises(ConfigError, match=f"Did you mean '{keyword}'"):
        make_policy(name, field_of(K), **{keyword + "s": 1})


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("tv-gp-ucb", {"epsilon": -0.1}),
        ("tv-gp-ucb", {"epsilon": 1.1}),
        ("tv-gp-ucb", {"epsilon": float("nan")}),
        ("ui-tvbo", {"sigma_w2": -0.1}),
        ("ui-tvbo", {"sigma_w2": float("inf")}),
        ("r-gp-ucb", {"period": 0}),
        *((name, {"window": 0}) for name in policies() if "window" in parameters()[name]),
        ("tv-gp-ucb", {"epsilon": "fitted", "window": 0}),
        ("mtv-gp-ucb", {"epsilon": 0.5, "alpha": 0.6}),
        ("mtv-gp-ucb", {"epsilon": 0.5, "alpha": 0.6, "window": 4}),
        ("ttv-gp-ucb", {"rho": 0.0}),
        ("ttv-gp-ucb", {"tau": float("inf"), "window": 4}),
        ("w-gp-ucb", {"gamma": 0.0}),
        ("w-gp-ucb", {"gamma": 1.1}),
        ("w-gp-ucb", {"gamma": float("nan")}),
        ("rexp3", {"period": 0}),
        ("rexp3", {"gamma": 0.0}),
        ("rexp3", {"gamma": 1.1}),
        ("d-ucb", {"gamma": 0.0}),
        ("d-ucb", {"gamma": 1.1}),
        ("d-ucb", {"xi": 0.0}),
        ("d-ucb", {"xi": float("nan")}),
        ("w-dbo", {"epsilon": -0.1}),
        ("w-dbo", {"epsilon": 1.0}),
        ("w-dbo", {"alpha": -0.1}),
        ("et-gp-ucb", {"delta_b": 0.0}),
        ("et-gp-ucb", {"delta_b": 1.0}),
        ("et-gp-ucb", {"n_lower": 0}),
        ("et-gp-ucb", {"n_lower": 5, "n_upper": 4}),
        ("et-gp-ucb", {"noise_cap": 0}),
        ("gp-ucb", {"beta": 0.0}),
        ("gp-ucb", {"beta": {"c3": 1.0}}),
        ("gp-ucb", {"beta": {"c1": -1.0}}),
    ],
)
def test_a_value_out_of_range_is_refused(name, wrong):
    with pytest.raises(ConfigError):
        make_policy(name, field_of(K), **wrong)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("random", {"seed": -1}),
        ("random", {"seed": 2**63}),
        ("random", {"seed": 1.5}),
        ("sw-gp-ucb", {"window": 2.5}),
        ("et-gp-ucb", {"n_lower": True}),
        ("gp-ucb", {"beta": True}),
        ("gp-ucb", {"beta": "x"}),
        ("tv-gp-ucb", {"epsilon": "fit"}),
        ("tv-gp-ucb", {"epsilon": True}),
        ("mtv-gp-ucb", {"epsilon": "x"}),
        ("w-dbo", {"epsilon": "fitted"}),
        ("w-dbo", {"epsilon": True}),
        ("ttv-gp-ucb", {"tau": "x"}),
        ("et-gp-ucb", {"trigger": "x"}),
        ("et-gp-ucb", {"noise_cap": 3, "trigger": "likelihood-ratio"}),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_when_the_policy_is_made(name, settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        make_policy(name, field_of(K), **settings)


@pytest.mark.parametrize("name", [name for name in policies() if "window" in parameters()[name]])
def test_a_window_without_readings_is_refused_in_a_box_too(name):
    with pytest.raises(ConfigError):
        make_policy(name, BOXES[1], window=0)
