"""The script of findings.md that gives a cold start some parts of a trained model."""

import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
from support.paths import ROOT

from edge_tvbo import SensorField, make_policy
from edge_tvbo.models.structural_model import DAY, prior_structure
from edge_tvbo.research.experiments.split_experiment import TrainTestSplit

HOUR = 3600.0
M, DAYS = 5, 4


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(ROOT / "docs")
        return import_module("cold_parts")


def test_the_script_runs_with_the_kernel_that_these_tests_have_compiled(script):
    """numba stores the name of the kernel's module, which the script must be able to import."""
    command = [sys.executable, ROOT / "docs" / "cold_parts.py", "--help"]
    assert subprocess.run(command, capture_output=True, timeout=300).returncode == 0


def split():
    """Return the readings of M sensors on four days, the last of which is the test day."""
    rng = np.random.default_rng(1)
    hours = np.arange(24 * DAYS)[:, None]
    values = 20 + rng.normal(0, 2, M) + 3 * np.sin(2 * np.pi * (hours / 24 + rng.random(M)))
    values += rng.normal(0, 0.5, values.shape)
    rows = 24 * (DAYS - 1)
    return TrainTestSplit(values[:rows], values[rows:], HOUR, 100 * DAY, None)


@pytest.fixture(scope="module")
def place(script):
    return script.Place(split())


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


def test_rows_without_a_reading_are_left_out(script):
    training, test, *rest = split()
    values = np.concatenate([training, test])
    values[np.arange(len(values)) % 24 < 6] = np.nan
    place = script.Place(TrainTestSplit(values[: len(training)], values[len(training) :], *rest))
    assert place.trained.rows == len(training) * 3 // 4
    for given in (frozenset(), script.ALL):
        regret = place.regret(given, 0)
        assert len(regret) == 10 and np.isfinite(regret).all()
