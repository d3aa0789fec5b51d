"""Decision text: the bounds that a decision compares are those of the policy's own width."""

import numpy as np

from edge_tvbo.control.decision_text import DecisionBuilder
from edge_tvbo.messages.documents import ModelState
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy.base import Choice

FIELD = SensorField(("a", "b", "c"), np.eye(3), 0.01, unit="°C", center=20.0)


class KnownPosterior:
    """A policy whose posterior is given."""

    name = "gp-ucb"
    field = FIELD
    uses_readings = True
    observations = 5

    def __init__(self, mean, std):
        self._posterior = np.array(mean), np.array(std)

    def posterior(self):
        return self._posterior

    def facts(self):
        return ()


def factors_of(policy, choice, eligible=None):
    decision = DecisionBuilder(policy).decision(
        choice,
        eligible,
        because=None,
        interval=0,
        at=0.0,
        expires_at=60.0,
        model=ModelState(observations=5, resets=0, last_reset=None),
        ineligible_reason=lambda arm: f"{FIELD.sensors[arm]} is backed off",
    )
    return decision.factors


def test_runner_up_has_its_bound_where_the_choice_is_certain():
    """The standard deviation of the choice is 0, so its own bound does not show the width."""
    policy = KnownPosterior(mean=[3.0, 1.0, 2.0], std=[0.0, 0.5, 0.1])
    choice = Choice(0, "a", 3.0, 0.0, 3.0, 2.0)

    assert factors_of(policy, choice) == ["its bound is 23 °C", "next is c with 22.2 °C"]


def test_ineligible_sensors_are_listed_by_their_bounds():
    policy = KnownPosterior(mean=[3.0, 1.0, 2.0], std=[0.0, 1.5, 0.1])
    choice = Choice(0, "a", 3.0, 0.0, 3.0, 2.0)

    factors = factors_of(policy, choice, np.array([True, False, False]))

    assert factors == ["its bound is 23 °C", "b is backed off", "c is backed off"]
