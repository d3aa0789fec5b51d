"""Policies of other packages: what the controller says about an invalid result of their methods."""

import numpy as np
import pytest
from msgspec.structs import replace
from support.controllers import controller_settings

from edge_tvbo.control.checked_policy import PolicyFailed, checked
from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.events import IgnoreRequested, IntervalElapsed
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.built_in import DEFAULT_POLICY

FIELD = SensorField(("a", "b", "c", "d"), np.eye(4), 0.01)


@pytest.mark.parametrize("name", ["gp-ucb", "round-robin", DEFAULT_POLICY.__struct_config__.tag])
def test_a_built_in_policy_is_used_without_checks(name):
    policy = make_policy(name, FIELD)
    assert checked(policy) is policy


def test_a_built_in_class_under_the_name_of_another_package_is_checked():
    """For example `UpperConfidence` with a posterior of another package."""
    policy = make_policy("gp-ucb", FIELD)
    policy.name = "foreign"
    assert checked(policy) is not policy


class ForeignPolicy:
    """A policy whose choices and posterior are changed by `change` and `posterior`."""

    def __init__(self, change, posterior=None):
        self._policy = make_policy("gp-ucb", FIELD)
        self._change = change
        if posterior:
            self.posterior = lambda: posterior
        self.name = "foreign"

    def __getattr__(self, name):
        return getattr(self._policy, name)

    def select(self, eligible=None):
        return self._change(self._policy.select(eligible))

    def select_many(self, k, eligible=None):
        return tuple(map(self._change, self._policy.select_many(k, eligible)))


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda choice: None, "the policy 'foreign' selected None; it must be a Choice"),
        (
            lambda choice: replace(choice, arm=4),
            "a choice whose arm is 4; it must be a number of type int, 0 to 3",
        ),
        (lambda choice: replace(choice, arm=-1), "a choice whose arm is -1"),
        (lambda choice: replace(choice, arm=np.int64(1)), r"a choice whose arm is np.int64\(1\)"),
        (
            lambda choice: replace(choice, sensor="d" if choice.sensor != "d" else "a"),
            r"a choice whose sensor is '.'; the name of arm . is '.'",
        ),
        (
            lambda choice: replace(choice, mean=float("nan")),
            "a choice whose mean is nan; it must be finite, of type float",
        ),
        (lambda choice: replace(choice, std=float("inf")), "a choice whose std is inf"),
        (
            lambda choice: replace(choice, mean=np.float64(0.5)),
            r"a choice whose mean is np.float64\(0.5\)",
        ),
        (lambda choice: replace(choice, std=-0.1), "a choice whose std is -0.1"),
        (lambda choice: replace(choice, ucb=np.float32(1)), "a choice whose ucb is np.float32"),
    ],
)
def test_an_invalid_choice_is_an_error_that_names_the_policy(change, found, several):
    settings = controller_settings(per_interval=2, next_activation="at-once")
    controller = Controller(ForeignPolicy(change), settings if several else controller_settings())
    with pytest.raises(ValueError, match=found):
        controller.handle(IntervalElapsed(0.0))


def test_a_choice_that_is_not_eligible_is_an_error():
    def first(choice):
        return replace(choice, arm=0, sensor="a")

    controller = Controller(ForeignPolicy(first), controller_settings())
    controller.handle(IgnoreRequested("a", True, 0.0))
    with pytest.raises(
        ValueError, match="the policy 'foreign' selected arm 0, which is not eligible"
    ):
        controller.handle(IntervalElapsed(1.0))


@pytest.mark.parametrize("shapes", [((4,), (4, 4)), ((3,), (4,)), ((4,), (1,))])
def test_a_posterior_of_another_shape_is_an_error(shapes):
    mean, std = (np.zeros(shape) for shape in shapes)
    controller = Controller(
        ForeignPolicy(lambda choice: choice, (mean, std)), controller_settings()
    )
    with pytest.raises(ValueError, match=r"the policy 'foreign' .*posterior.*\(4,\)"):
        controller.handle(IntervalElapsed(0.0))


class UnreadableSnapshot(ForeignPolicy):
    """A policy of a new version, which cannot read the snapshots of its former version."""

    def __init__(self):
        super().__init__(lambda choice: choice)

    def restore(self, blob):
        raise KeyError("rates")

    def restore_sensors(self, blob):
        raise KeyError("rates")


@pytest.mark.parametrize("restore", ["restore", "restore_partial"])
def test_a_snapshot_that_a_policy_cannot_read_does_not_end_the_daemon(restore):
    """At every start, the daemon ended with the exception, until its state was removed."""
    snapshot = Controller(UnreadableSnapshot(), controller_settings()).snapshot()
    controller = Controller(UnreadableSnapshot(), controller_settings())
    with pytest.raises(PolicyFailed, match="The policy 'foreign' .* KeyError: 'rates'"):
        getattr(controller, restore)(snapshot)


def test_a_snapshot_that_is_no_bytes_is_an_error():
    """The checkpoint was stored, but could not be restored at the next start."""
    policy = ForeignPolicy(lambda choice: choice)
    policy.snapshot = lambda: {"time": 1}
    with pytest.raises(
        ValueError, match="the policy 'foreign' returned a snapshot of type dict; it must be"
    ):
        Controller(policy, controller_settings()).snapshot()


def test_another_exception_of_a_built_in_policy_is_no_damaged_snapshot(monkeypatch):
    """A failed allocation can end in a SystemError; the state must not be discarded for it."""
    policy = make_policy("gp-ucb", FIELD)
    snapshot = Controller(policy, controller_settings()).snapshot()
    monkeypatch.setattr(type(policy), "restore", lambda self, blob: bytes.fromhex(1))
    with pytest.raises(TypeError):
        Controller(make_policy("gp-ucb", FIELD), controller_settings()).restore(snapshot)
