"""The script of findings.md that gives a cold start some parts of a trained model."""

import runpy
from types import SimpleNamespace

import numpy as np
import pytest
from support.paths import ROOT

from edge_tvbo import SensorField, make_policy
from edge_tvbo.models.structure import DAY, prior_structure
from edge_tvbo.research.experiments.auto import TrainTestSplit

HOUR = 3600.0
M, DAYS = 5, 4


@pytest.fixture(scope="module")
def script():
    return SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "cold_parts.py")))


@pytest.fixture(scope="module")
def place(script):
    rng = np.random.default_rng(1)
    hours = np.arange(24 * DAYS)[:, None]
    values = 20 + rng.normal(0, 2, M) + 3 * np.sin(2 * np.pi * (hours / 24 + rng.random(M)))
    values += rng.normal(0, 0.5, values.shape)
    rows = 24 * (DAYS - 1)
    return script.Place(TrainTestSplit(values[:rows], values[rows:], HOUR, 100 * DAY, None))


def arms(place, policy):
    """Return the arms that a policy selects in the recording, one an interval."""
    chosen = []
    for t, values in enumerate(place.values):
        policy.set_time(place.start + t * place.interval)
        chosen.append(policy.select().arm)
        policy.observe(chosen[-1], float(values[chosen[-1]]))
        policy.advance()
    return chosen


def auto(place, structure):
    return make_policy("auto", SensorField(place.names, place.kernel, 0.01, structure=structure))


def test_without_a_part_the_policy_is_a_cold_start(script, place):
    cold = auto(place, prior_structure(place.kernel, place.interval))
    parts = place.policy(frozenset(), (0.0, 1.0), 0)
    assert arms(place, parts) == arms(place, cold)


def test_with_all_parts_the_policy_is_trained(script, place):
    parts = place.policy(script.ALL, (5.0, 2.0), 0)
    assert arms(place, parts) == arms(place, auto(place, place.trained))
