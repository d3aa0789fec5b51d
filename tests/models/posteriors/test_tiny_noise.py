"""A noise variance far below the rounding errors: no posterior amplifies these errors."""

import numpy as np
import pytest

from edge_tvbo import SensorField, make_policy
from edge_tvbo.models.regression import JITTER

PLACES = np.random.default_rng(0).uniform(0.0, 5.0, (6, 2))
K = np.exp(-((PLACES[:, None] - PLACES[None]) ** 2).sum(axis=2) / 8.0)
POLICIES = [
    ("auto", {}),
    ("gp-ucb", {}),
    ("gp-ucb", {"window": 50}),
    ("tv-gp-ucb", {}),
    ("ui-tvbo", {"window": 50}),
    ("sw-gp-ucb", {"window": 50}),
    ("w-gp-ucb", {}),
    ("w-dbo", {}),
    ("mtv-gp-ucb", {}),
]


def policy_after(repeats, noise_variance, name, parameters):
    """Return a policy after 150 intervals with `repeats` different readings of the selected arm."""
    policy = make_policy(name, SensorField(tuple("abcdef"), K, noise_variance), **parameters)
    for interval in range(150):
        arm = policy.select().arm
        for repeat in range(repeats):
            policy.observe(arm, float(np.sin(interval / 20 + arm)) + 0.01 * repeat)
        policy.advance()
    return policy


@pytest.mark.parametrize("noise_variance", [1e-17, 1e-50])
@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize(("name", "parameters"), POLICIES)
def test_noise_below_the_rounding_errors_is_taken_as_the_jitter(
    name, parameters, repeats, noise_variance
):
    policy = policy_after(repeats, noise_variance, name, parameters)

    usual = policy_after(repeats, JITTER, name, parameters)
    np.testing.assert_array_equal(policy.posterior(), usual.posterior())
    assert np.abs(policy.posterior()[0]).max() < 3.0
    policy.restore(policy.snapshot())
