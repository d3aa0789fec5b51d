"""Contract of every registered policy; a new policy is checked without an entry here."""

import math
import pickle
import re
import sys
from copy import deepcopy
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.examples import max_examples
from support.policy_cases import (
    CASES,
    FITTED,
    NON_ADAPTIVE,
    POSITIONS,
    SEEDS,
    SLOW,
    UPPER,
    UPPER_CASES,
    WINDOWS,
    WITH_MODEL,
    K,
    assert_equal_histories,
    assert_resumes,
    assert_valid,
    every_case,
    examples,
    field_of,
    fully_correlated,
    histories,
    make,
    parameters,
    run,
    take,
    uncorrelated,
    with_parameter,
)

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.field import grid
from edge_tvbo.models.posteriors.window import WindowPosterior
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.policy import make_policy, needing_positions, policies
from edge_tvbo.policy.argument_checks import MAX_READING
from edge_tvbo.policy.registry import settings_class

# --- reproducible -------------------------------------------------------------------------------


@examples(30, history=histories(), seed=SEEDS)
def test_same_seed_gives_the_same_history(case, history, seed):
    assert_equal_histories(make(case, seed=seed), make(case, seed=seed), history)


CUTS = st.integers(0, 30)  # places in a history, modulo its length


@examples(50, history=histories(), before=histories(), cut=CUTS, select_first=st.booleans())
def test_restored_anywhere_it_continues_bit_for_bit(case, history, before, cut, select_first):
    cut %= len(history) + 1
    policy, other = make(case, seed=3), make(case, seed=3)
    run(other, before)
    assert_resumes(policy, other, history, cut, select_first=select_first)


@every_case
def test_snapshot_before_a_reply_keeps_the_selected_arm(case):
    policy = make(case)
    arm = policy.select().arm
    other = make(case)
    other.restore(policy.snapshot())
    assert other.observe(arm, 3.0) == policy.observe(arm, 3.0)


@every_case
def test_a_copied_or_pickled_policy_continues_bit_for_bit(case):
    policy = make(case, seed=3)
    history = [(None, 1.0), (2, -0.5), None, (None, 0.4), None, (3, 2.0), None] * 2
    run(policy, history)
    policy.select()
    copies = deepcopy(policy), pickle.loads(pickle.dumps(policy))
    unbroken = run(policy, history)
    for each in copies:
        assert run(each, history) == unbroken
        assert each.snapshot() == policy.snapshot()


def test_different_seeds_break_the_first_tie_differently():
    for name in policies():
        if name != "round-robin":
            made = (make_policy(name, uncorrelated(5), seed=seed) for seed in range(60))
            assert {policy.select().arm for policy in made} == {0, 1, 2, 3, 4}, name


# --- no side effects ----------------------------------------------------------------------------


@examples(30, history=histories())
def test_selecting_twice_returns_the_same_choice_and_changes_none(case, history):
    selected_once, selected_often = make(case), make(case)
    for step in history:
        first = selected_often.select()
        assert [selected_often.select() for _ in range(3)] == [first] * 3
        selected_often.posterior()
        selected_often.snapshot()
        assert take(selected_often, step) == take(selected_once, step)


@every_case
def test_kernel_positions_and_field_stay_unchanged(case):
    given_kernel, positions = K.copy(), POSITIONS.copy()
    field = field_of(given_kernel, positions=positions)
    kernel, fingerprint = field.kernel.copy(), field.fingerprint()
    policy = make(case, field)
    run(policy, [(None, 1.0), None, (2, -4.0), None] * 8)
    policy.select_many(3)
    mean, std = policy.posterior()
    mean[:], std[:] = np.nan, np.nan  # copies: the policy must not change
    assert np.isfinite(policy.posterior()).all()
    assert np.array_equal(given_kernel, K)
    assert np.array_equal(positions, POSITIONS)
    assert np.array_equal(field.kernel, kernel)
    assert np.array_equal(field.positions, POSITIONS)
    assert field.fingerprint() == fingerprint


MASKS = st.lists(st.booleans(), min_size=len(K), max_size=len(K)).map(np.array)


@examples(30, history=histories(), mask=MASKS)
def test_only_eligible_arms_are_selected(case, history, mask):
    assume(mask.any())
    policy = make(case)
    run(policy, history)
    before = mask.copy()
    choice = policy.select(mask)
    assert mask[choice.arm]
    assert policy.select(mask) == choice
    assert np.array_equal(mask, before)
    if mask.all():
        assert choice == policy.select()


def test_mask_of_another_dtype_or_shape_is_rejected():
    """Kernels that were compiled ahead of time would read beyond it."""
    masks = (np.ones(len(K)), np.ones(len(K) + 1, np.bool_))
    for case, mask in product(CASES, masks):
        policy = make(case)
        with pytest.raises(ValueError, match=rf"it must be bool\[{len(K)}\]"):
            policy.select(mask)
        with pytest.raises(ValueError, match=rf"it must be bool\[{len(K)}\]"):
            policy.select_many(2, mask)


def test_reading_of_no_arm_or_without_a_value_is_rejected_and_changes_nothing():
    """An index of -1 would be the last arm; a NaN would stay in the model."""
    arms = (-1, len(K), 0.5, 1.0, True, "n1", (0,), None)
    wrong = ((0, math.nan), (0, math.inf), (0, 10**400), *((arm, 0.0) for arm in arms))
    for case, (arm, y) in product(CASES, wrong):
        policy = make(case)
        policy.select()
        before = policy.snapshot()
        with pytest.raises(ValueError, match="it must be finite|it can be 0 to"):
            policy.observe(arm, y)
        assert policy.snapshot() == before


def test_prediction_of_no_arm_is_rejected():
    """An index of -1 was the last arm."""
    for case, arm in product(CASES, (-1, len(K), 10**400, 1.0, True, np.int64(-1), "n1", None)):
        with pytest.raises(ValueError, match="it can be 0 to 4, and must be an int"):
            make(case).prediction(arm)


@pytest.mark.parametrize("y", [1e160, -1e160, 1e308])
def test_a_reading_too_large_to_square_is_rejected_and_changes_nothing(y):
    """`auto` was NaN after it; other policies estimated an infinite mean."""
    for case in CASES:
        policy = make(case)
        before = policy.snapshot()
        with pytest.raises(ValueError, match=re.escape(f"is {y:g} in model units; it can be")):
            policy.observe(0, y)
        assert policy.snapshot() == before, case


@pytest.mark.parametrize("y", [MAX_READING, -MAX_READING])
def test_the_largest_reading_leaves_the_posterior_finite(y):
    for case in CASES:
        policy = make(case)
        for t in range(8):
            policy.observe(policy.select().arm, y if t in (3, 5) else 0.1)
            assert np.isfinite(policy.posterior()).all(), case
            policy.advance()


@pytest.mark.parametrize("y", [MAX_READING, -MAX_READING])
def test_policies_with_the_largest_readings_can_be_restored(y):
    """The numbers in a snapshot were limited to less than a reading, so `select_many` failed."""
    for case in CASES:
        policy, restored = make(case), make(case)
        for _ in range(3):
            policy.observe(policy.select().arm, y)
            policy.advance()
        restored.restore(policy.snapshot())
        assert restored.snapshot() == policy.snapshot(), case
        assert len(policy.select_many(2)) == 2


@pytest.mark.parametrize("y", [-1e20, MAX_READING])
def test_policies_that_forget_a_huge_reading_can_be_restored(y):
    """A sliding window kept rounding errors of the size of a reading that it had dropped."""
    for case in ("sw-gp-ucb", *WINDOWS):
        policy, restored = make(case), make(case)
        for t in range(14):
            policy.observe(policy.select().arm, y if t == 2 else 0.1 * t)
            policy.advance()
            restored.restore(policy.snapshot())
            assert restored.snapshot() == policy.snapshot(), case


def test_numbers_of_numpy_are_readings_like_python_numbers():
    """Compiled functions take a float; a 0-d array is what a numpy function often returns."""
    numbers = (1, np.float32(1.0), np.int64(1), np.longdouble(1.0), np.array(1.0))
    for case, y in product(CASES, numbers):
        policy, same = make(case), make(case)
        arm = policy.select().arm
        assert same.select().arm == arm
        assert policy.observe(np.int64(arm), y) == same.observe(arm, 1.0)
        assert policy.snapshot() == same.snapshot()


def test_number_of_arms_must_be_a_whole_number_above_0():
    for case, k in product(CASES, (0, -1, 1.5)):
        with pytest.raises(ValueError, match="it must be a whole number, 1 or more"):
            make(case).select_many(k)


def test_mask_may_be_a_list():
    mask = [False, True, False, True, False]
    for case in CASES:
        assert make(case).select(mask) == make(case).select(np.array(mask))


def test_mask_without_an_eligible_arm_is_rejected():
    none = np.zeros(len(K), np.bool_)
    for case in CASES:
        with pytest.raises(ValueError, match="no arm is eligible"):
            make(case).select(none)
        with pytest.raises(ValueError, match="no arm is eligible"):
            make(case).select_many(2, none)


@examples(30, history=histories())
def test_choice_holds_the_posterior_and_the_bound_of_its_arm(case, history):
    policy = make(case)
    run(policy, history)
    choice = policy.select()
    mean, std = policy.posterior()
    assert choice.sensor == policy.field.sensors[choice.arm]
    assert (choice.mean, choice.std) == pytest.approx((mean[choice.arm], std[choice.arm]))
    predicted = [policy.prediction(arm) for arm in range(len(policy.field))]
    assert [each.arm for each in predicted] == list(range(len(policy.field)))
    assert [each.mean for each in predicted] == pytest.approx(mean.tolist(), rel=1e-12)
    assert [each.std for each in predicted] == pytest.approx(std.tolist(), rel=1e-12)
    assert policy.uses_readings == (case not in NON_ADAPTIVE)
    assert settings_class(policy.name).has_model == (policy.name in WITH_MODEL)
    if policy.name in WITH_MODEL:
        assert choice.width >= 0
        assert choice.ucb == choice.mean + choice.width * choice.std
        highest = (mean + choice.width * std).max()
        assert not choice.same_width or highest == pytest.approx(choice.ucb, rel=1e-6, abs=1e-6)
    else:
        assert choice.width == 0
    numbers = (choice.mean, choice.std, choice.ucb, choice.width)
    assert all(type(value) is float for value in numbers)


# --- several arms at once -----------------------------------------------------------------------


@examples(20, history=histories(), k=st.integers(1, 8), mask=MASKS)
def test_select_many_returns_different_eligible_arms_best_first(case, history, k, mask):
    assume(mask.any())
    policy = make(case)
    run(policy, history)
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


@examples(20, history=histories(), k=st.integers(1, 8), step=histories())
def test_select_many_changes_nothing_but_the_selected_arms(case, history, k, step):
    policy, other = make(case), make(case)
    run(policy, history)
    run(other, history)
    choice, posterior, before = policy.select(), np.array(policy.posterior()), policy.snapshot()
    several = policy.select_many(k)
    assert policy.select_many(k) == several
    assert np.array_equal(policy.posterior(), posterior)
    assert policy.select() == choice
    assert policy.snapshot() == before
    policy.select_many(k)
    assert run(policy, step) == run(other, step)


def test_select_many_does_not_check_the_state_to_which_it_returns(monkeypatch):
    """With a wide window, the check of the factor took most of each interval."""
    policy = make("et-gp-ucb window=6")
    run(policy, [(None, 1.0), None])
    before = policy.posterior()
    monkeypatch.setattr(WindowPosterior, "_check_factor", None)
    assert len(policy.select_many(3)) == 3
    np.testing.assert_array_equal(policy.posterior(), before)


@every_case
def test_snapshot_keeps_all_selected_arms(case):
    policy, other = make(case), make(case)
    run(policy, [(None, 1.0), None])
    several = policy.select_many(3)
    other.restore(policy.snapshot())
    for choice in several[::-1]:
        assert other.observe(choice.arm, 0.5) == policy.observe(choice.arm, 0.5)
    assert other.snapshot() == policy.snapshot()


@pytest.mark.parametrize("case", UPPER_CASES)
def test_only_the_first_reply_of_each_selected_arm_is_tested(case):
    policy = make(case)
    choices = policy.select_many(3)
    selected = [choice.arm for choice in choices]
    (not_selected, *_) = set(range(len(K))) - set(selected)
    has_threshold = case in ("et-gp-ucb", "et-gp-ucb window=6")
    for age, choice in enumerate(choices, start=1):
        result = policy.observe(choice.arm, choice.mean)
        assert (result.reset, result.age) == (False, age)
        assert (result.threshold is not None) == has_threshold
        for arm in (not_selected, choice.arm):
            again = policy.observe(arm, 0.0)
            assert (again.reset, again.threshold, again.age) == (False, None, age)


def test_jump_in_any_of_several_replies_resets():
    for trigger in ("error-bound", "likelihood-ratio"):
        for jump in range(3):
            policy = make_policy("et-gp-ucb", uncorrelated(3), trigger=trigger)
            run(policy, [(arm, 0.0) for arm in (0, 1, 2) for _ in range(5)])
            choices = policy.select_many(3)
            resets = [policy.observe(c.arm, 9.0 * (i == jump)).reset for i, c in enumerate(choices)]
            assert resets == [i == jump for i in range(3)]


# With a structure, the width of `auto` differs for further sensors: tests/policy/test_auto.py.
WITH_ONE_WIDTH = [case for case in UPPER_CASES if case != "auto, structural"]


@examples(15, cases=WITH_ONE_WIDTH, history=histories())
def test_select_many_assumes_that_earlier_arms_read_their_mean(case, history):
    """GP-BUCB, Desautels, Krause & Burdick 2014, compared with readings that are observed.

    The weights and the event trigger of `auto` learn nothing from such a reading.
    """
    policy, other = make(case), make(case)
    run(policy, history)
    other.restore(policy.snapshot())
    weights = getattr(other._posterior, "log_weights", np.zeros(0)).copy()
    other._posterior._check_static_models = lambda arm, y: None
    left = np.ones(len(K), np.bool_)
    for choice in policy.select_many(len(K)):
        expected = other.select(left)  # another arm where bounds tie
        assert choice.ucb == pytest.approx(expected.ucb, rel=1e-9, abs=1e-9)
        left[choice.arm] = False
        other._posterior.observe(choice.arm, choice.mean)
        if len(weights):
            other._posterior.log_weights[:] = weights
            other._posterior._mix()


# --- extreme fields -----------------------------------------------------------------------------


@examples(20, history=histories(M=1))
def test_single_arm_is_always_selected(case, history):
    policy = make(case, uncorrelated(1))
    assert {choice.arm for choice, *_ in run(policy, history)} <= {0}
    assert [choice.arm for choice in policy.select_many(3)] == [0]
    assert_valid(policy, history)


def test_constant_width_selects_the_warmer_of_two_arms():
    for name in with_parameter("beta"):
        policy = make_policy(name, uncorrelated(2, 0.01), beta=1.0)
        policy.observe(0, -3.0)
        policy.observe(1, 3.0)
        assert policy.select().arm == 1, name


@pytest.mark.parametrize("name", ["random", "round-robin"])
def test_non_adaptive_policy_selects_both_of_two_arms(name):
    policy = make_policy(name, uncorrelated(2))
    assert {choice.arm for choice, *_ in run(policy, [None] * 40)} == {0, 1}


def test_random_draws_each_set_of_arms_with_the_same_probability():
    """A chi-squared test of the 10 ways to take two of five arms, at a level of 1e-6."""
    policy = make_policy("random", uncorrelated(5), seed=3)
    counts = dict.fromkeys(combinations(range(5), 2), 0)
    for _ in range(20_000):
        counts[tuple(sorted(choice.arm for choice in policy.select_many(2)))] += 1
        policy.advance()
    assert sum((n - 2000) ** 2 / 2000 for n in counts.values()) < 45.1


@pytest.mark.parametrize("name", ["random", "rexp3", "ada-opkb"])
def test_a_draw_after_a_reply_is_independent_of_the_first_draw(name):
    """A chi-squared test of the 20 ways to take one arm after the other, at a level of 1e-6."""
    parameters = {"gamma": 1.0} if name == "rexp3" else {}
    policy = make_policy(name, uncorrelated(5), seed=3, **parameters)
    counts = dict.fromkeys(permutations(range(5), 2), 0)
    for _ in range(4000):
        first = policy.select().arm
        policy.observe(first, 0.0)
        second = policy.select(np.arange(5) != first).arm
        policy.observe(second, 0.0)
        counts[first, second] += 1
        policy.advance()
    assert sum((n - 200) ** 2 / 200 for n in counts.values()) < 63.7


def test_round_robin_takes_arms_in_turn_from_its_seed():
    policy = make_policy("round-robin", field_of(K), seed=3)
    assert [choice.arm for choice, *_ in run(policy, [None] * 7)] == [3, 4, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("at_once", [True, False])
@given(k=st.integers(2, 5), seed=SEEDS)
@max_examples(20)
def test_round_robin_continues_after_the_last_of_several_arms(at_once, k, seed):
    policy = make_policy("round-robin", field_of(K), seed=seed)
    arms = []
    for _ in range(7):
        if at_once:
            arms += [choice.arm for choice in policy.select_many(k)]
        else:
            left = np.ones(5, np.bool_)
            for _ in range(min(k, 4)):  # with one arm left, the caller determines the arm
                arm = policy.select(left).arm
                arms.append(arm)
                left[arm] = False
                policy.restore(policy.snapshot())
        policy.advance()
    assert arms == [(seed + turn) % 5 for turn in range(len(arms))]


def test_requested_arm_and_ineligible_arms_take_no_turn_of_round_robin():
    policy = make_policy("round-robin", field_of(K))
    assert policy.select().arm == 0
    assert policy.select(np.arange(5) == 3).arm == 3
    policy.advance()
    assert policy.select(np.arange(5) != 1).arm == 2
    policy.advance()
    assert policy.select().arm == 2


def test_restored_round_robin_forgets_the_turns_of_before():
    policy, other = make_policy("round-robin", field_of(K)), make_policy("round-robin", field_of(K))
    other.advance()
    policy.select_many(3)
    policy.advance()
    policy.select_many(3)
    policy.restore(other.snapshot())
    assert [choice.arm for choice, *_ in run(policy, [None] * 3)] == [1, 2, 3]


def test_static_selects_its_sensor_or_the_next_eligible_one():
    policy = make_policy("static", field_of(K), sensor="n3")
    assert {choice.sensor for choice, *_ in run(policy, [None] * 7)} == {"n3"}
    assert policy.select(np.array([True, True, True, False, False])).sensor == "n0"
    with pytest.raises(ConfigError, match="'n9'"):
        make_policy("static", field_of(K), sensor="n9")


@pytest.mark.parametrize(  # the oracle knows the last reading, and static never changes
    "case", [case for case in CASES if case not in ("oracle", "static")]
)
def test_arms_that_tie_are_all_drawn(case):
    """The kernel of one common value keeps every arm tied for ever, whatever is read."""
    policy = make(case, fully_correlated(3))
    length = 12 if case in SLOW else 100
    picks = [choice.arm for choice, *_ in run(policy, [(None, 1.0), None] * length)]
    assert set(picks) == {0, 1, 2}


FIELDS = st.sampled_from([field_of, fully_correlated, uncorrelated])


@examples(20, value=st.floats(-100, 100), field=FIELDS)
def test_constant_readings_keep_the_posterior_valid(case, value, field):
    size = {field_of: K, fully_correlated: 4, uncorrelated: 3}[field]
    length = 5 if case in SLOW else 60
    assert_valid(make(case, field(size, 1e-6)), [(None, value), None] * length)


UNITLESS = [
    case
    for case, (name, _) in CASES.items()
    if case not in FITTED  # a search stops where -ln p, which has a unit, changes little
    and ("beta" in parameters(name) or name not in WITH_MODEL)
]
HUNDREDTHS = st.integers(-500, 500).map(lambda y: y / 100)


@examples(15, UNITLESS, history=histories(readings=HUNDREDTHS))
def test_field_of_another_scale_gives_the_same_choices(case, history):
    """Powers of two scale without rounding, so every bit and every tie stays; none subnormal."""
    beta = parameters(CASES[case][0]).get("beta")
    agnostic = beta is not None and beta.default is None  # its width B + R ... has a unit
    more = {"beta": 2.0} if agnostic else {}
    for size in (1e6, 1e-6):
        factor = 2.0 ** round(np.log2(size) / 2)  # of a standard deviation; `size` is of the kernel
        plain = make(case, field_of(K, 0.05), **more)
        scaled = make(case, field_of(K * factor**2, 0.05 * factor**2), **more)
        for step in history:
            arm_and_reset = _arm_and_reset(plain, step)
            bigger = None if step is None else (step[0], step[1] * factor)
            assert arm_and_reset == _arm_and_reset(scaled, bigger)
        assert_valid(scaled)
        mean, std = plain.posterior()
        scaled_mean, scaled_std = scaled.posterior()
        np.testing.assert_allclose(scaled_mean, mean * factor, rtol=1e-9, atol=1e-9 * factor)
        np.testing.assert_allclose(scaled_std, std * factor, rtol=1e-6, atol=1e-7 * factor)


def _arm_and_reset(policy, step):
    choice, result, *_ = take(policy, step)
    return choice.arm, None if result is None else result.reset


GRID = grid(4, SpatialKernel(math.inf, 0.4), 0.05)


@examples(9, history=histories(M=16), seed=SEEDS, cut=CUTS, select_first=st.booleans())
def test_on_a_grid_it_is_reproducible_and_restorable(case, history, seed, cut, select_first):
    cut %= len(history) + 1
    policy = make(case, GRID, seed=seed)
    assert_equal_histories(policy, make(case, GRID, seed=seed), history)
    assert_valid(policy)
    policy, other = make(case, GRID, seed=seed), make(case, GRID, seed=seed)
    run(other, [(3, 1.0), None])
    assert_resumes(policy, other, history, cut, select_first=select_first)


def test_policy_that_needs_scipy_says_so_when_it_is_built(monkeypatch):
    for module in ("scipy", "scipy.linalg", "scipy.optimize"):
        monkeypatch.setitem(sys.modules, module, None)  # a gateway has none
    needing = set()
    for case in CASES:
        try:
            policy = make(case)
        except MissingExtra:
            needing.add(case)
            continue
        run(policy, [(None, 1.0), None, (2, 0.5), (None, -2.0), None] * 3)
        assert all(np.isfinite(each).all() for each in policy.posterior()), case
    windows_of_two_components = {"mtv-gp-ucb window=6", "ttv-gp-ucb window=6"}
    learners = {case for case, (name, _) in CASES.items() if name in needing_positions()}
    assert needing == {*FITTED, *learners, *windows_of_two_components}


def test_upper_confidence_policies_are_found():
    """The lists that the tests above run over hold what they say."""
    assert {"gp-ucb", "auto", "w-dbo", "lb-gp-ucb"} <= set(UPPER)
    assert not set(UPPER) & {"random", "rexp3", "d-ucb", "oracle"}
