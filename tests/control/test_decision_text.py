"""Decision text: bounds have the width of the policy; facts and notices are put into words."""

from typing import get_args

import numpy as np
import pytest

from edge_tvbo.control.decision_text import MAX_INELIGIBLE, DecisionBuilder
from edge_tvbo.control.fact_text import ineligible_text, turn_text
from edge_tvbo.control.facts import (
    INELIGIBILITY,
    BackedOff,
    Ineligible,
    LowBattery,
    OutOfEnergy,
    Refused,
)
from edge_tvbo.control.fault_detection import FaultDetector
from edge_tvbo.control.hotspots import HotspotFinder
from edge_tvbo.control.ignored_sensors import IgnoredSensors
from edge_tvbo.control.notice_text import notice_text
from edge_tvbo.messages.documents import Ineligibility, ModelState, NoticeKind, Reason
from edge_tvbo.models.facts import LeastKnown, PolledInTurn
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


def factors_of(policy, choice, eligible=None, **changes):
    return decision_of(policy, choice, eligible, **changes).factors


def runner_up_of(policy, choice):
    decision = decision_of(policy, choice)
    return decision.width, decision.runner_up, decision.runner_up_ucb


def decision_of(policy, choice, eligible=None, names=None, faulty=()):
    faults = FaultDetector(policy.field, 60.0, 64)
    for arm in faulty:
        faults._exclude(arm, "stuck", 20.0, 20.0, interval=0)
    hotspots = HotspotFinder(policy, faults, IgnoredSensors(policy.field.sensors))
    builder = DecisionBuilder(policy, hotspots, with_text=True, recommends=False, names=names or {})
    return builder.decision(
        choice,
        eligible,
        because=None,
        interval=0,
        at=0.0,
        expires_at=60.0,
        model=ModelState(observations=5, resets=0, last_reset=None),
        ineligible_reasons=lambda arms: {
            arm: BackedOff(until=9, silence=None if arm == 1 else 1080.0) for arm in arms
        },
    )


def test_texts_have_the_names_of_the_sensors_and_the_decision_has_the_id():
    policy = KnownPosterior(mean=[3.0, 1.0, 2.0], std=[0.5, 1.5, 0.1])
    names = {"a": "Living room", "b": "Küche", "c": "Loft"}
    choice = Choice(1, "b", 1.0, 1.5, 4.0, 2.0)

    decision = decision_of(policy, choice, np.array([True, True, False]), names)

    assert decision.sensor == "b"
    assert decision.text.startswith("Küche: 21.0 ± 1.5 °C; its bound is 24.0 °C")
    assert decision.factors[1].startswith("next is Living room with")
    assert decision.runner_up == "a"
    assert decision.factors[-1].startswith("Loft is backed off")


@pytest.mark.parametrize(
    ("std", "text"),
    [(8.03, "20.0 ± 8.0"), (0.123, "20.00 ± 0.12"), (12.3, "20 ± 12"), (0, "20.00 ± <0.01")],
)
def test_an_estimate_has_the_digits_that_its_standard_deviation_allows(std, text):
    policy = KnownPosterior(mean=[0.0, -1.0, -2.0], std=[std, 0.1, 0.1])

    assert f"a: {text}" in decision_of(policy, Choice(0, "a", 0.0, std, std, 1.0)).text


def test_runner_up_has_its_bound_where_the_choice_is_certain():
    """The standard deviation of the choice is 0, so its own bound does not show the width."""
    policy = KnownPosterior(mean=[3.0, 1.0, 2.0], std=[0.0, 0.5, 0.1])
    choice = Choice(0, "a", 3.0, 0.0, 3.0, 2.0)

    assert factors_of(policy, choice) == ["its bound is 23.00 °C", "next is c with 22.20 °C"]
    assert runner_up_of(policy, choice) == (2.0, "c", 22.2)


def test_runner_up_is_published_where_the_width_of_all_bounds_is_0():
    policy = KnownPosterior(mean=[3.0, 1.0, 2.0], std=[0.5, 0.5, 0.1])
    choice = Choice(0, "a", 3.0, 0.5, 3.0, 0.0)

    assert factors_of(policy, choice) == ["its bound is 23.00 °C", "next is c with 22.00 °C"]
    assert runner_up_of(policy, choice) == (0.0, "c", 22.0)


def test_a_sensor_that_was_never_read_has_no_runner_up_because_its_bound_is_wider():
    policy = KnownPosterior(mean=[0.0, 1.0, 2.0], std=[1.0, 0.5, 0.1])
    choice = Choice(0, "a", 0.0, 1.0, 3.0, 3.0, unread=True)

    assert factors_of(policy, choice) == [
        "its bound is 23.0 °C",
        "it was never read, so its bound is wider",
        "c has the highest estimate, 22 °C",
    ]
    assert runner_up_of(policy, choice) == (None, None, None)


def test_the_choice_is_not_named_as_another_sensor_with_the_highest_estimate():
    """The estimate of c is higher, but c is faulty, and only selected to try it again."""
    policy = KnownPosterior(mean=[1.0, 0.0, 2.0], std=[1.0, 0.5, 0.1])
    choice = Choice(0, "a", 1.0, 1.0, 3.0, 2.0)

    assert factors_of(policy, choice)[-1] == "c has the highest estimate, 22 °C"
    assert factors_of(policy, choice, faulty=[2]) == [
        "its bound is 23.0 °C",
        "next is c with 22.2 °C",
    ]


def test_runner_up_is_left_out_if_it_was_compared_with_another_width():
    policy = KnownPosterior(mean=[3.0, 1.0, 2.0], std=[0.1, 0.5, 0.1])
    choice = Choice(0, "a", 3.0, 0.1, 3.2, 2.0, same_width=False)

    assert factors_of(policy, choice) == ["its bound is 23.20 °C"]
    assert runner_up_of(policy, choice) == (None, None, None)


@pytest.mark.parametrize("turn", [LeastKnown(), PolledInTurn(8)])
def test_text_of_a_turn_compares_no_bounds(turn):
    policy = KnownPosterior(mean=[1.0, 0.0, 2.0], std=[1.0, 0.5, 0.1])
    lower = Choice(0, "a", 1.0, 1.0, 1.5, 0.5, same_width=False, turn=turn)
    highest = Choice(2, "c", 2.0, 0.1, 2.05, 0.5, same_width=False, turn=turn)

    explore, exploit = decision_of(policy, lower), decision_of(policy, highest)

    assert (explore.reason, exploit.reason) == (Reason.EXPLORE, Reason.EXPLOIT)
    assert explore.text == "a: 21.0 ± 1.0 °C; selected in turn, not by its bound"
    assert exploit.text == "c: 22.00 ± 0.10 °C; selected in turn, not by its bound"
    assert explore.factors == [turn_text(turn), "c has the highest estimate, 22 °C"]
    assert exploit.factors == [turn_text(turn)]
    assert explore.in_turn and exploit.in_turn
    assert not decision_of(policy, Choice(0, "a", 1.0, 1.0, 1.5, 0.5)).in_turn


def test_ineligible_sensors_are_listed_by_their_bounds():
    policy = KnownPosterior(mean=[3.0, 1.0, 2.0], std=[0.0, 1.5, 0.1])
    choice = Choice(0, "a", 3.0, 0.0, 3.0, 2.0)

    decision = decision_of(policy, choice, np.array([True, False, False]))

    assert decision.factors == [
        "its bound is 23.00 °C",
        "b is backed off until interval 9: it has sent no reading yet",
        "c is backed off until interval 9: its last reading is 18 min old",
    ]
    assert decision.ineligible == {"b": "backed-off", "c": "backed-off"}
    assert decision_of(policy, choice).ineligible == {}


def test_every_reason_of_an_ineligible_sensor_has_a_key():
    assert set(INELIGIBILITY) == set(get_args(Ineligible))
    assert set(INELIGIBILITY.values()) == set(Ineligibility)


def test_a_decision_has_a_bounded_number_of_ineligible_sensors_with_the_highest_bounds():
    M = MAX_INELIGIBLE + 3
    policy = KnownPosterior(mean=np.arange(float(M)), std=np.ones(M))
    policy.field = SensorField([f"s{arm}" for arm in range(M)], np.eye(M), 0.01)
    eligible = np.zeros(M, np.bool_)
    eligible[0] = True

    decision = decision_of(policy, Choice(0, "s0", 0.0, 1.0, 2.0, 2.0), eligible)

    assert list(decision.ineligible) == [f"s{arm}" for arm in range(M - 1, 2, -1)]
    assert decision.factors[-1] == f"{M - 1 - 5} other sensors cannot be activated now"


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (LowBattery(7.5), "a has 7.5 % battery left"),
        (OutOfEnergy(0.123456, "J"), "a has 0.123 J left"),
        (
            Refused(41),
            "a is not activated before interval 41: the broker refuses its activations; "
            "`edge-tvbo status` says what to allow in the broker's ACL",
        ),
    ],
)
def test_reason_of_an_ineligible_sensor_has_the_digits_that_mean_something(reason, text):
    assert ineligible_text("a", reason) == text


def test_every_notice_of_a_controller_has_a_text():
    of_the_daemon = {
        "clock-step",
        "clock-synced",
        "inputs-silent",
        "message-refused",
        "reload",
        "second-daemon",
        "state-removed",
    }
    with_values = {"alert", "alert-over", "sensor-implausible", "threshold-set"}
    for kind in set(get_args(NoticeKind)) - of_the_daemon - with_values:
        text = notice_text(kind, "attic", 7.0)
        assert text
        assert not set("{}") & set(text)
    assert "attic" not in notice_text("model-reset")
