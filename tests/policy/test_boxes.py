"""Policies in a box, whose arms are points: reproducible, restorable and inside."""

import math
import pickle
from copy import deepcopy

import numpy as np
import pytest
from support.policy_cases import UPPER, VARIANTS, make, run, take, with_parameter
from support.policy_snapshots import assert_rejected, resealed

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.field import grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.policy import make_policy, policies

BOXES = {
    1: BoxField([-1.0], [3.0], SpatialKernel(math.inf, 0.6, 2.0), 0.05, candidates=16),
    2: BoxField([-1.0, 0.0], [1.0, 9.0], SpatialKernel(2.5, (0.5, 2.0)), 0.05, candidates=16),
}
ANYWHERE = [name for name in policies() if name not in ("auto", "kalman-ucb")]  # these reject a box
ONCE = (  # in a box all windows have the same posterior
    *(case for case in VARIANTS if case != "auto length scale"),
    "gp-ucb window=6",
)
IN_BOXES = [*((name, d) for name in ANYWHERE for d in BOXES), *((case, 1) for case in ONCE)]
in_boxes = pytest.mark.parametrize(("case", "d"), IN_BOXES)


def box_history(box):
    """Replies, a reading of an arm that was not selected, intervals with and without readings."""
    middle = tuple(float(x) for x in (box.lower + box.upper) / 2)
    replies = [(None, 1.0), None, (None, -0.5), None, (middle, 2.0), None, None, (None, 5.0)]
    return [*replies, None, (middle, -2.0), (None, 0.3)]


@pytest.mark.slow
@in_boxes
def test_in_a_box_it_is_reproducible_and_restorable(case, d):
    box = BOXES[d]
    history, policy, same = box_history(box), make(case, box, seed=5), make(case, box, seed=5)
    traces, snapshots = [], {}
    for now, step in enumerate(history):
        if now in (5, 9):
            policy.select()
            snapshots[now] = policy.snapshot()
        traces.append(take(policy, step))
    assert run(same, history) == traces
    assert same.snapshot() == policy.snapshot()

    other = make(case, box, seed=5)
    run(other, [(None, 3.0), None])
    for cut in (9, 5):
        other.restore(snapshots[cut])
        assert other.snapshot() == snapshots[cut]
        if cut == 9:
            other.observe(other.select().arm, 1.0)  # a reading that must be forgotten
    assert run(other, history[5:]) == traces[5:]
    assert other.snapshot() == policy.snapshot()


@pytest.mark.slow
@pytest.mark.parametrize("name", ANYWHERE)
def test_in_a_box_a_copied_or_pickled_policy_continues_bit_for_bit(name):
    box = BOXES[1]
    history, policy = box_history(box), make(name, box, seed=5)
    run(policy, history)
    copies = deepcopy(policy), pickle.loads(pickle.dumps(policy))
    unbroken = run(policy, history)
    for each in copies:
        assert run(each, history) == unbroken
        assert each.snapshot() == policy.snapshot()


@in_boxes
def test_choices_are_points_of_the_box_and_the_posterior_finite(case, d):
    box = BOXES[d]
    policy = make(case, box)
    for step in box_history(box)[-5:]:
        choice, *_ = take(policy, step)
        assert isinstance(choice.arm, tuple)
        assert all(type(x) is float for x in choice.arm)
        assert box.contains(np.array([choice.arm]))
        assert choice.sensor == box.name(choice.arm)
        assert all(type(value) is float for value in (choice.mean, choice.std, choice.ucb))
    choice = policy.select()
    predicted = policy.prediction(choice.arm)
    assert predicted.mean == pytest.approx(choice.mean, rel=1e-9, abs=1e-9)
    assert predicted.std == pytest.approx(choice.std, rel=1e-9, abs=1e-9)
    mean, std = policy.posterior()
    assert mean.shape == std.shape == (16,)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()


@in_boxes
def test_select_many_returns_different_points_and_changes_nothing(case, d):
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
        run(policy, [(None, 1.0), None])
    assert len({choice.arm for choice in policy.select_many(99)}) == 16


@in_boxes
def test_with_a_mask_only_eligible_candidates_are_selected(case, d):
    box = BOXES[d]
    policy = make(case, box)
    run(policy, [(None, 1.0), None])
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
    BoxField([-1.0], [3.0], SpatialKernel(math.inf, 0.6, 2.0), 0.05, candidates=16, center=2.0),
    BoxField(
        [-1.0], [3.0], SpatialKernel(math.inf, 0.6, 2.0), 0.05, candidates=16, objective="min"
    ),
    BOXES[2],
    grid(4, SpatialKernel(math.inf, 0.6, 2.0), 0.05),
]


@pytest.mark.parametrize("name", ANYWHERE)
def test_snapshot_of_another_box_is_rejected(name):
    policy = make(name, BOXES[1])
    run(policy, [(None, 1.0), None])
    for other in OTHER_BOXES:
        snapshot = make(name, other).snapshot()
        assert_rejected(policy, snapshot, match=f"other sensors|is of '{name} ")


@pytest.mark.parametrize("name", [name for name in UPPER if name in ANYWHERE])
def test_snapshot_with_a_selected_arm_that_is_no_point_is_rejected(name):
    policy = make(name, BOXES[1])
    for asked in (["a"], [0], [[0.1, 0.2]], [[1]], [[]], [[True]], [[None]]):
        assert_rejected(policy, resealed(policy.snapshot(), asked=asked), match="asked")


def test_window_of_no_readings_is_rejected_in_a_box_too():
    for name in with_parameter("window"):
        with pytest.raises(ConfigError, match="window is 0; allowed: "):
            make_policy(name, BOXES[1], window=0)
