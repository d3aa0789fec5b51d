"""Faults: a year of intervals, one reading in each, changes nothing about how well `auto` does."""

import numpy as np
import pytest
from support.structural_fields import draw_values

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import exchangeable
from edge_tvbo.models.structural_model import DAY, prior_structure
from edge_tvbo.policy import make_policy

M, INTERVAL = 6, 600.0
MONTH, MONTHS = round(30 * DAY / INTERVAL), 12


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_a_year_of_a_steady_field(seed, record_property):
    kernel = exchangeable(M, 0.5)
    field = SensorField(tuple("abcdef"), kernel, 0.01, structure=prior_structure(kernel, INTERVAL))
    policy = make_policy("auto", field)
    regrets, squares, liveliness = np.zeros((3, MONTHS, MONTH))
    values = draw_values(field.structure, np.random.default_rng([31, seed]))
    for t, truth in zip(range(MONTHS * MONTH), values, strict=False):
        policy.set_time(t * INTERVAL)
        arm = policy.select().arm
        month = divmod(t, MONTH)
        regrets[month] = truth.max() - truth[arm]
        squares[month] = ((truth - policy.posterior()[0]) ** 2).mean()
        liveliness[month] = policy._posterior.variation.liveliness.max()
        policy.observe(arm, float(truth[arm]))
        policy.advance()
        if t % MONTH == 0:
            policy.restore(policy.snapshot())
    regret, error = regrets.mean(axis=1), np.sqrt(squares.mean(axis=1))
    record_property(
        "measured",
        f"regret by month {regret.min():.2f} to {regret.max():.2f}, error {error.min():.2f} to "
        f"{error.max():.2f}, highest liveliness {liveliness.max():.2f}",
    )
    assert liveliness.max() < 2.0
    assert 0.7 < policy._posterior.variation.scale < 1.4
    assert error[6:].mean() < 1.2 * error[:6].mean()
    assert regret[6:].mean() < 2.0 * regret[:6].mean()
