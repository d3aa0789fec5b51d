"""What every registered policy owes its callers: one list of checks, a policy added is checked.

A history is a list of ``(arm, y)`` readings and None, the end of an interval; between the lines the
policy is asked for its choice, as a controller would.
"""

import inspect
from importlib import import_module
from itertools import permutations

import msgspec
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from naive import se

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.model.field import SensorField
from edge_tvbo.model.snapshot import seal, unseal
from edge_tvbo.policies import _REGISTRY, make_policy, parameters, policies

every_policy = pytest.mark.parametrize("name", policies())
LEARNERS = [name for name in policies() if name not in ("random", "round-robin")]
AGNOSTIC = ("sw-gp-ucb", "igp-ucb", "br-gp-ucb")  # whose own width has a unit
SHORT = {"r-gp-ucb": {"period": 4}, "sw-gp-ucb": {"window": 5}}  # so that short histories meet them

PLACES = np.array([[0.0, 0.0], [0.3, 0.1], [0.3, 0.1], [0.9, 0.4], [0.2, 0.8]])  # one repeated
K = se(PLACES, 0.4)


def field_of(K, noise_variance=0.05, prefix="n"):
    return SensorField(tuple(f"{prefix}{i}" for i in range(len(K))), K, noise_variance)


def make(name, field=None, **more):
    return make_policy(name, field_of(K) if field is None else field, **SHORT.get(name, {}), **more)


def histories(M=len(K), readings=st.floats(-5, 5)):
    reading = st.tuples(st.integers(0, M - 1) | st.none(), readings)
    return st.lists(reading | st.none(), max_size=30)


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


@every_policy
@given(history=histories(), seed=st.integers(0, 2**62 - 1))
@settings(max_examples=30)
def test_seeded_twice_is_equal(name, history, seed):
    one, two = make(name, seed=seed), make(name, seed=seed)
    assert told(one, history) == told(two, history)
    assert one.snapshot() == two.snapshot()


@every_policy
@given(history=histories(), data=st.data())
@settings(max_examples=50)
def test_restored_anywhere_it_goes_on_bit_for_bit(name, history, data):
    cut = data.draw(st.integers(0, len(history)), label="cut")
    policy, other = make(name, seed=3), make(name, seed=3)
    told(other, data.draw(histories(), label="what the other lived through before"))
    told(policy, history[:cut])
    if data.draw(st.booleans(), label="asked before the cut"):
        policy.select()
    other.restore(policy.snapshot())
    assert other.snapshot() == policy.snapshot()
    resumed, unbroken = told(other, history[cut:]), told(policy, history[cut:])
    assert resumed == unbroken
    assert other.snapshot() == policy.snapshot()


@every_policy
def test_between_selecting_and_observing_a_snapshot_keeps_which_arm_was_asked(name):
    policy = make(name)
    arm = policy.select().arm
    other = make(name)
    other.restore(policy.snapshot())
    assert other.observe(arm, 3.0) == policy.observe(arm, 3.0)


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "sw-gp-ucb"] + ["random"])
def test_different_seeds_break_the_first_tie_differently(name):
    picks = {make_policy(name, field_of(np.eye(5)), seed=seed).select().arm for seed in range(60)}
    assert picks == {0, 1, 2, 3, 4}


# --- purity and manners -------------------------------------------------------------------------


@every_policy
@given(history=histories())
@settings(max_examples=30)
def test_asking_twice_gives_the_same_choice_and_asking_changes_no_later_one(name, history):
    asked_once, asked_often = make(name), make(name)
    for step in history:
        first = asked_often.select()
        assert [asked_often.select() for _ in range(3)] == [first] * 3
        asked_often.posterior()
        asked_often.snapshot()
        assert tell(asked_often, step) == tell(asked_once, step)


@every_policy
def test_the_kernel_it_was_given_and_the_field_stay_untouched(name):
    given_kernel = K.copy()
    field = field_of(given_kernel)
    kept, fingerprint = field.kernel.copy(), field.fingerprint()
    policy = make(name, field)
    told(policy, [(None, 1.0), None, (2, -4.0), None] * 8)
    mean, std = policy.posterior()
    mean[:], std[:] = np.nan, np.nan  # copies: the policy must not notice
    assert np.isfinite(policy.posterior()).all()
    assert np.array_equal(given_kernel, K)
    assert np.array_equal(field.kernel, kept)
    assert field.fingerprint() == fingerprint


@every_policy
@given(history=histories(), data=st.data())
@settings(max_examples=30)
def test_only_the_eligible_are_chosen(name, history, data):
    policy = make(name)
    told(policy, history)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(K), max_size=len(K))))
    assume(mask.any())
    before = mask.copy()
    choice = policy.select(mask)
    assert mask[choice.arm]
    assert policy.select(mask) == choice
    assert np.array_equal(mask, before)
    if mask.all():
        assert choice == policy.select()


@every_policy
def test_where_none_is_eligible_it_says_so(name):
    with pytest.raises(ValueError, match="no arm is eligible"):
        make(name).select(np.zeros(len(K), np.bool_))


@every_policy
@given(history=histories())
@settings(max_examples=30)
def test_a_choice_tells_the_belief_that_posterior_gives(name, history):
    policy = make(name)
    told(policy, history)
    choice = policy.select()
    mean, std = policy.posterior()
    assert choice.sensor == policy.field.sensors[choice.arm]
    assert (choice.mean, choice.std) == pytest.approx((mean[choice.arm], std[choice.arm]))
    assert policy.learns == (name in LEARNERS)
    if policy.learns:
        assert choice.ucb >= choice.mean
    assert all(type(value) is float for value in (choice.mean, choice.std, choice.ucb))


# --- odd fields ---------------------------------------------------------------------------------


def assert_sound(policy, history):
    for choice, *_ in told(policy, history):
        assert 0 <= choice.arm < len(policy.field)
    mean, std = policy.posterior()
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()


@every_policy
@given(history=histories(M=1))
@settings(max_examples=20)
def test_one_arm_is_always_the_choice(name, history):
    policy = make(name, field_of(np.eye(1)))
    assert {choice.arm for choice, *_ in told(policy, history)} <= {0}
    assert_sound(policy, history)


@pytest.mark.parametrize("name", LEARNERS)
def test_of_two_arms_a_constant_width_leaves_the_colder_alone(name):
    policy = make_policy(name, field_of(np.eye(2), 0.01), beta=1.0)
    policy.observe(0, -3.0)
    policy.observe(1, 3.0)
    assert policy.select().arm == 1


@pytest.mark.parametrize("name", ["random", "round-robin"])
def test_of_two_arms_the_blind_meet_both(name):
    policy = make_policy(name, field_of(np.eye(2)))
    assert {choice.arm for choice, *_ in told(policy, [None] * 40)} == {0, 1}


def test_round_robin_takes_everyone_in_turn_from_its_seed_on():
    policy = make_policy("round-robin", field_of(K), seed=3)
    assert [choice.arm for choice, *_ in told(policy, [None] * 7)] == [3, 4, 0, 1, 2, 3, 4]


@every_policy
def test_while_all_arms_tie_each_is_drawn(name):
    """The kernel of one common value keeps every arm tied for ever, whatever is read."""
    policy = make(name, field_of(np.ones((3, 3))))
    picks = [choice.arm for choice, *_ in told(policy, [(None, 1.0), None] * 100)]
    assert set(picks) == {0, 1, 2}


@every_policy
@given(value=st.floats(-100, 100), kernel=st.sampled_from([K, np.ones((4, 4)), np.eye(3)]))
@settings(max_examples=20)
def test_constant_readings_leave_it_sound(name, value, kernel):
    assert_sound(make(name, field_of(kernel, 1e-6)), [(None, value), None] * 60)


@every_policy
@pytest.mark.parametrize("size", [1e6, 1e-6])
@given(history=histories(readings=st.integers(-500, 500).map(lambda y: y / 100)))  # none subnormal
@settings(max_examples=15)
def test_a_field_of_another_scale_makes_the_same_choices(name, size, history):
    """Powers of two scale without rounding, so every bit and every tie stays."""
    more = {"beta": 2.0} if name in AGNOSTIC else {}  # its own width is B + R ..., with a unit
    factor = 2.0 ** round(np.log2(size) / 2)  # of a standard deviation; `size` is of the kernel
    plain = make(name, field_of(K, 0.05), **more)
    scaled = make(name, field_of(K * factor**2, 0.05 * factor**2), **more)
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
        SensorField(("n0", "n1", "n2", "n3", "n4"), K, 0.05, objective="min"),
        SensorField(("n0", "n1", "n2", "n3", "n4"), K, 0.05, center=20.0),
        SensorField(("n0", "n1", "n2", "n3", "n4"), K, 0.05, scale=2.0),
    ],
    ids=["noise", "kernel", "names", "fewer", "objective", "center", "scale"],
)
def test_a_snapshot_of_another_field_is_refused_and_changes_nothing(name, field):
    policy = make(name)
    told(policy, [(None, 1.0), None, (2, 0.5)])
    assert_refused(policy, make(name, field).snapshot(), match="belongs to other")


@pytest.mark.parametrize(
    ("name", "mine", "theirs"),
    [
        ("tv-gp-ucb", {"epsilon": 0.01}, {"epsilon": 0.02}),
        ("ui-tvbo", {"sigma_w2": 0.01}, {"sigma_w2": 0.02}),
        ("sw-gp-ucb", {"window": 4}, {"window": 5}),
    ],
)
def test_a_snapshot_of_another_model_of_change_is_refused(name, mine, theirs):
    policy = make_policy(name, field_of(K), **mine)
    assert_refused(policy, make_policy(name, field_of(K), **theirs).snapshot())


BLOBS = {}


def blob_of(name):
    if name not in BLOBS:
        policy = make(name)
        told(policy, [(None, 1.0), None, (2, 0.5), (None, -2.0), None] * 2)
        BLOBS[name] = policy.snapshot()
    return BLOBS[name]


@every_policy
@given(data=st.data())
@settings(max_examples=40)
def test_a_snapshot_cut_short_is_refused_and_changes_nothing(name, data):
    blob = blob_of(name)
    policy = make(name)
    assert_refused(policy, blob[: data.draw(st.integers(0, len(blob) - 1), label="length")])


@every_policy
@given(junk=st.binary(max_size=60))
@settings(max_examples=60)
@example(b"\x91" * 50_000)  # nested far deeper than a stack
def test_bytes_that_are_no_snapshot_are_refused(name, junk):
    assert_refused(make(name), junk)


@every_policy
@given(data=st.data())
@settings(max_examples=150)
def test_a_damaged_snapshot_is_refused_unchanged_or_restores_a_policy_that_works(name, data):
    blob = bytearray(blob_of(name))
    for _ in range(data.draw(st.integers(1, 3), label="bytes")):
        at = data.draw(st.integers(0, len(blob) - 1), label="at")
        blob[at] = data.draw(st.integers(0, 255), label="becomes")
    policy = make(name)
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


def resealed(name, **changes):
    """A snapshot whose envelope is right and whose state is not."""
    fingerprint = field_of(K).fingerprint()
    return seal(name, fingerprint, {**unseal(name, fingerprint, blob_of(name)), **changes})


def resealed_posterior(name, **changes):
    fingerprint = field_of(K).fingerprint()
    inner = unseal(name, fingerprint, blob_of(name))["posterior"]
    kind = msgspec.msgpack.decode(inner)[1]
    state = {**unseal(kind, fingerprint, inner), **changes}
    return resealed(name, posterior=seal(kind, fingerprint, state))


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("wrong", [None, "text", -3, [1], {"a": 1}, 1.5, True], ids=repr)
@pytest.mark.parametrize("key", ["time", "events", "asked", "age", "resets", "posterior"])
def test_a_state_of_the_wrong_type_is_refused(name, key, wrong):
    assert_refused(make(name), resealed(name, **{key: wrong}))


NONSENSE = {
    "text": np.array(["a"] * 25).reshape(5, 5),
    "not a number": np.full((5, 5), np.nan),
    "infinite": np.full((5, 5), np.inf),
    "negative variance": -np.eye(5),
    "complex": 1j * np.eye(5),
    "bad dtype": ["f8,,", [5, 5], bytes(200)],
    "flat": np.zeros(25),
}


@pytest.mark.parametrize("nonsense", list(NONSENSE))
@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "sw-gp-ucb"])
@pytest.mark.filterwarnings("ignore:.*discards the imaginary")
def test_a_covariance_that_is_none_is_refused_and_changes_nothing(name, nonsense):
    assert_refused(make(name), resealed_posterior(name, covariance=NONSENSE[nonsense]))


@pytest.mark.parametrize("arms", [[5] * 5, [-6] * 5, [2**40] * 5])
def test_arms_that_do_not_exist_are_refused_before_compiled_code_meets_them(arms):
    blob = resealed_posterior("sw-gp-ucb", arms=np.array(arms, np.int64))
    assert_refused(make("sw-gp-ucb"), blob)


@every_policy
def test_a_count_past_what_the_compiled_code_can_hold_is_refused(name):
    assert_refused(make(name), resealed(name, time=2**63, events=2**63))


# --- the registry -------------------------------------------------------------------------------


@every_policy
def test_the_listed_parameters_are_the_makers_signature(name):
    module, _, function = _REGISTRY[name].maker.partition(":")
    maker = getattr(import_module(f"edge_tvbo.policies.{module}"), function)
    signature = inspect.signature(maker).parameters
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
        ("sw-gp-ucb", {"window": 0}),
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
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_when_the_policy_is_made(name, settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        make_policy(name, field_of(K), **settings)
