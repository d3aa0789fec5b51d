"""Policy snapshots: those of version 0.1 load; others, damaged and impossible ones are rejected."""

import base64
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from support.policy_cases import (
    POSITIONS,
    UPPER,
    K,
    every_policy,
    examples,
    field_of,
    make,
    run,
)
from support.policy_snapshots import assert_rejected, in_old_format, opened, resealed

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy, policies

# --- snapshots of version 0.1 -------------------------------------------------------------------

RECORDED = json.loads(Path(__file__).with_name("snapshots_of_0_1.json").read_text("utf-8"))
RECORDED_FIELD = SensorField(  # its numbers are exact, so that its fingerprint is so everywhere
    ("a", "b", "c"),
    [[1.0, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 1.0]],
    0.125,
    positions=[[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]],
)


WINDOWS = ("sw-gp-ucb", "gp-ucb, window", "tv-gp-ucb, window")  # written in fewer bytes now


def recorded_policy(case):
    recorded = RECORDED[case]
    policy = make_policy(recorded["policy"], RECORDED_FIELD, seed=3, **recorded["settings"])
    return policy, zlib.decompress(base64.b64decode(recorded["snapshot"]))


@pytest.mark.parametrize(
    "case", [each for each in RECORDED if not each.startswith("auto") and each not in WINDOWS]
)
def test_snapshot_of_version_0_1_loads_and_is_written_the_same(case):
    policy, blob = recorded_policy(case)
    policy.restore(blob)
    assert in_old_format(policy.snapshot()) == blob
    assert policy.select().sensor in RECORDED_FIELD.sensors


@pytest.mark.parametrize("case", WINDOWS)
def test_window_of_version_0_1_loads_and_its_readings_are_written_the_same(case):
    policy, blob = recorded_policy(case)
    policy.restore(blob)
    other, _ = recorded_policy(case)
    other.restore(policy.snapshot())
    n = other.observations
    old, new = (opened(opened(each)[-1]["posterior"])[-1] for each in (blob, policy.snapshot()))
    assert old.keys() == new.keys()
    for name in ("V", "z", "arms", "y", "times", "priors"):
        np.testing.assert_array_equal(new[name], old[name][:n])
    np.testing.assert_array_equal(new["L"], old["L"][:n, :n][np.tril_indices(n)])
    np.testing.assert_array_equal(other._posterior._L[:n, :n], np.tril(old["L"][:n, :n]))
    assert [new[name] for name in ("time", "prior", "observations", "drops")] == [
        old[name] for name in ("time", "prior", "observations", "drops")
    ]
    assert other.select() == policy.select()


def test_every_policy_of_version_0_1_has_a_recorded_snapshot():
    assert {recorded["policy"] for recorded in RECORDED.values()} <= set(policies())
    assert len({recorded["policy"] for recorded in RECORDED.values()}) == 24


# --- snapshots of others ------------------------------------------------------------------------

BLOBS = {}


def blob_of(case):
    if case not in BLOBS:
        policy = make(case)
        run(policy, [(None, 1.0), None, (2, 0.5), (None, -2.0), None] * 2)
        BLOBS[case] = policy.snapshot()
    return BLOBS[case]


@every_policy
def test_snapshot_of_another_policy_is_rejected(name):
    policy = make(name)
    run(policy, [(None, 1.0), None, (2, 0.5)])
    for other in policies():
        if other != name:
            assert_rejected(policy, blob_of(other), match="is of")


NAMES = ("n0", "n1", "n2", "n3", "n4")
OTHER_FIELDS = [
    field_of(K, 0.06),
    field_of(2 * K),
    field_of(K, prefix="m"),
    field_of(K[:4, :4]),
    SensorField(NAMES, K, 0.05, objective="min", positions=POSITIONS),
    SensorField(NAMES, K, 0.05, center=20.0, positions=POSITIONS),
    SensorField(NAMES, K, 0.05, scale=2.0, positions=POSITIONS),
]


@every_policy
def test_snapshot_of_another_field_is_rejected(name):
    """RExp3's γ depends on the number of arms, so that with fewer of them it is another RExp3."""
    policy = make(name)
    run(policy, [(None, 1.0), None, (2, 0.5)])
    for field in OTHER_FIELDS:
        match = "is of 'rexp3" if name == "rexp3" and len(field) < 5 else "with other sensors"
        assert_rejected(policy, make(name, field).snapshot(), match=match)


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
        ("lb-gp-ucb", {"growth": 0.5}, {"growth": 0.6}),
        ("a-gp-ucb", {"bound": 1.0}, {"bound": 2.0}),
    ],
)
def test_snapshot_with_other_parameters_is_rejected(name, mine, theirs):
    policy = make_policy(name, field_of(K), **mine)
    assert_rejected(policy, make_policy(name, field_of(K), **theirs).snapshot())


# --- damaged snapshots --------------------------------------------------------------------------


PLACES = st.integers(-(2**20), -1)  # from the end of a snapshot, modulo its length


@examples(40, length=PLACES)
def test_truncated_snapshot_is_rejected(case, length):
    blob = blob_of(case)
    assert_rejected(make(case), blob[: length % len(blob)])


@examples(60, policies(), junk=st.binary(max_size=60))
def test_random_bytes_are_rejected(case, junk):
    assert_rejected(make(case), junk)


@every_policy
def test_bytes_nested_deeper_than_a_stack_are_rejected(name):
    assert_rejected(make(name), b"\x91" * 50_000)


DAMAGE = st.lists(st.tuples(PLACES, st.integers(0, 255)), min_size=1, max_size=3)


@examples(150, damage=DAMAGE)
def test_damaged_snapshot_is_rejected_or_restores_a_working_policy(case, damage):
    blob = bytearray(blob_of(case))
    for at, becomes in damage:
        blob[at % len(blob)] = becomes
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
    run(policy, [(None, 0.5), None, (1, 0.2)])


# --- impossible states --------------------------------------------------------------------------


def resealed_posterior(case, **changes):
    _, _, state = opened(blob_of(case))
    return resealed(blob_of(case), posterior=resealed(state["posterior"], **changes))


WRONG_TYPES = [None, "text", -3, [1], {"a": 1}, 1.5, True]


def state_of(case):
    return opened(blob_of(case))[2]


@every_policy
def test_state_of_the_wrong_type_is_rejected(name):
    policy, blob = make(name), blob_of(name)
    for key, saved in state_of(name).items():
        for wrong in WRONG_TYPES:
            if type(saved) is not type(wrong) or wrong == -3:
                assert_rejected(policy, resealed(blob, **{key: wrong}))


def test_upper_confidence_snapshot_holds_exactly_the_state():
    more = {
        "glr-gp-ucb": {"held", "counts"},
        "master-gp-ucb": {"orders", "began", "order", "totals", "lowest", "starts"},
    }
    for name in UPPER:
        state = {"time", "events", "asked", "age", "resets", "posterior"}
        found = {key for key in state_of(name) if not key.startswith("instance ")}
        assert found == state | more.get(name, set()), name


@pytest.mark.parametrize("name", UPPER)
def test_selected_arms_that_do_not_exist_are_rejected(name):
    policy, blob = make(name), blob_of(name)
    for asked in ([5], [-1], ["a"], [True], [1.0], [[0.1]], [None], [0, 5]):
        assert_rejected(policy, resealed(blob, asked=asked), match="asked")


def arrays_of(case):
    _, _, state = opened(opened(blob_of(case))[2]["posterior"])
    return {key: value for key, value in state.items() if isinstance(value, np.ndarray)}


MODELS_WITH_ARRAYS = [name for name in UPPER if name != "kalman-ucb"]  # its snapshot holds another
WITH_ARRAYS = [*MODELS_WITH_ARRAYS, "tv-gp-ucb fitted", "gp-ucb window=6"]
INVALID_ARRAYS = {
    "text": lambda a: np.full(a.shape, "a"),
    "not a number": lambda a: np.full(a.shape, np.nan),
    "infinite": lambda a: np.full(a.shape, -np.inf),
    "complex": lambda a: 1j * np.ones(a.shape),
    "bad dtype": lambda a: ["f8,,", list(a.shape), bytes(8 * a.size)],
    "another type": lambda a: a.astype(np.int64 if a.dtype == np.float64 else np.float64),
    "another shape": lambda a: np.zeros((*a.shape, 1), a.dtype),
    "none": lambda a: None,
}
EITHER_TYPE = {("tv-gp-ucb fitted", "times")}  # whole times are int64, others float64


@pytest.mark.parametrize("case", WITH_ARRAYS)
def test_invalid_array_is_rejected(case):
    policy, arrays = make(case), arrays_of(case)
    assert arrays
    for kind, invalid in INVALID_ARRAYS.items():
        for key, array in arrays.items():
            if array.size and not (kind == "another type" and (case, key) in EITHER_TYPE):
                assert_rejected(policy, resealed_posterior(case, **{key: invalid(array)}))


def test_covariance_with_a_negative_variance_is_rejected():
    cases = [case for case in WITH_ARRAYS if "covariance" in arrays_of(case)]
    assert cases
    for case in cases:
        blob = resealed_posterior(case, covariance=-np.eye(len(arrays_of(case)["covariance"])))
        assert_rejected(make(case), blob, match="negative variance")


@pytest.mark.parametrize("case", ["tv-gp-ucb", "ui-tvbo", "gp-ucb window=6", "sw-gp-ucb"])
def test_negative_prior_scale_is_rejected(case):
    assert_rejected(make(case), resealed_posterior(case, prior=-1.0), match="prior")


@pytest.mark.parametrize(("name", "window"), [("sw-gp-ucb", 5), ("w-gp-ucb", 8), ("w-dbo", 8)])
def test_readings_of_unknown_arms_are_rejected(name, window):
    """Compiled code would read beyond its arrays."""
    for arm in (5, -6, 2**40):
        blob = resealed_posterior(name, arms=np.full(window, arm))
        assert_rejected(make(name), blob, match="arms")


@pytest.mark.parametrize("place", [5.0, -1.0, 0.5, 1e300])
def test_readings_at_unknown_places_are_rejected(place):
    blob = resealed_posterior("mtv-gp-ucb window=6", places=np.full((6, 1), place))
    assert_rejected(make("mtv-gp-ucb window=6"), blob, match="places")


@pytest.mark.parametrize(
    "changes",
    [{"times": 9}, {"times": -1}, {"observations": 9}, {"time": 0}, {"time": -1}],
    ids=str,
)
@pytest.mark.parametrize(("case", "window"), [("w-gp-ucb", 8), ("mtv-gp-ucb window=6", 6)])
def test_readings_at_impossible_times_are_rejected(case, window, changes):
    if "times" in changes:
        changes = {"times": np.full(window, changes["times"])}
    assert_rejected(make(case), resealed_posterior(case, **changes))


@pytest.mark.parametrize(
    "values", [[1.5], [-0.1], [np.nan], [0.1, 0.1], []], ids=["above", "below", "nan", "two", "no"]
)
def test_fitted_parameter_out_of_range_is_rejected(values):
    blob = resealed_posterior("tv-gp-ucb fitted", temporal=np.array(values))
    assert_rejected(make("tv-gp-ucb fitted"), blob)


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
def test_impossible_weights_and_probabilities_are_rejected(changes):
    assert_rejected(make("rexp3"), resealed(blob_of("rexp3"), **changes))


def test_negative_counts_are_rejected():
    blob = resealed(blob_of("d-ucb"), counts=np.array([1.0, 0.0, -1.0, 0.0, 0.0]))
    assert_rejected(make("d-ucb"), blob, match="counts")


@every_policy
def test_count_beyond_64_bits_is_rejected(name):
    counts = {key: 2**63 for key, value in state_of(name).items() if type(value) is int}
    assert "time" in counts
    assert_rejected(make(name), resealed(blob_of(name), **counts))
