"""A sensor that may speak, and lies: what it can move, and for how long."""

from itertools import pairwise

import numpy as np
import pytest

from edge_tvbo.controller import Controller, Rules
from edge_tvbo.messages import Activate, DeadlineElapsed, IntervalElapsed, Reading
from edge_tvbo.model.field import SensorField
from edge_tvbo.policies import make_policy

M = 12
PLACES = np.linspace(0.0, 1.0, M)
K = np.exp(-0.5 * ((PLACES[:, None] - PLACES) / 0.3) ** 2) + 1e-6 * np.eye(M)
NAMES = tuple(f"n{arm}" for arm in range(M))
LIAR = "n5"
TRUTH = 20.0 + 2.0 * np.sin(5.0 * PLACES)  # °C
INTERVALS = 80


def followed(policy, lie):
    """Give who was asked in each interval, and the controller, with `lie` (°C) added by one."""
    field = SensorField(NAMES, K, 0.01, unit="°C", center=20.0, scale=2.0)
    controller = Controller(
        make_policy(policy, field, seed=1), Rules(reply_timeout=20.0, max_age=90.0)
    )
    asked = []
    for t in range(INTERVALS):
        (activate,) = (
            each
            for each in controller.handle(IntervalElapsed(100.0 * t))
            if isinstance(each, Activate)
        )
        asked.append(activate.sensor)
        value = TRUTH[NAMES.index(activate.sensor)] + (lie if activate.sensor == LIAR else 0.0)
        at = 100.0 * t + 1.0
        controller.handle(Reading(activate.sensor, float(value), at=at, received=at))
        controller.handle(DeadlineElapsed(activate.interval, activate.expires_at))
    return asked, controller


@pytest.mark.parametrize("policy", ["auto", "et-gp-ucb", "tv-gp-ucb"])
def test_a_sensor_that_reports_a_thousand_too_much_is_left_alone_and_moves_nothing(policy):
    asked, controller = followed(policy, 1000.0)
    when = [t for t, sensor in enumerate(asked) if sensor == LIAR]
    assert all(later - earlier >= 2 for earlier, later in pairwise(when))
    third = when[2] if len(when) > 2 else INTERVALS
    assert sum(t > third for t in when) <= 4  # asked again after 8, 16, 32 ... intervals
    assert controller.health().refused.get("implausible", 0) == len(when)
    mean, _ = controller.policy.posterior()
    assert np.abs(mean).max() < 3.0
    hottest = NAMES[int(np.argmax(np.where(np.array(NAMES) == LIAR, -np.inf, TRUTH)))]
    assert asked[-20:].count(hottest) >= 1


def test_what_is_only_unusual_is_believed():
    _, controller = followed("auto", 8.0)  # four standard deviations
    assert "implausible" not in controller.health().refused
