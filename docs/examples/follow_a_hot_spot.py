"""
Follow a hot spot
=================

A warm spot moves in a circle over a floor with 49 sensors. One sensor is read in each interval. If
the model of a policy assumes a changing field, the policy follows the spot, although 48 of 49
readings are missing.
"""

import matplotlib.pyplot as plt
import numpy as np

from edge_tvbo import make_policy
from edge_tvbo.models.field import grid
from edge_tvbo.models.spatial_kernels import SpatialKernel

INTERVALS = 300
NOISE_STD = 0.1

field = grid(7, SpatialKernel(length_scale=0.25), NOISE_STD**2)
angle = 2 * np.pi * np.arange(INTERVALS) / 150  # two rounds
spot = 0.5 + 0.35 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
distance = np.linalg.norm(spot[:, None, :] - field.positions, axis=2)
truth = 2 * np.exp(-0.5 * (distance / 0.25) ** 2)  # (intervals, sensors)


# %%
# A policy runs in a loop of three calls. `select` returns the sensor to read, `observe` passes the
# reading of this sensor to the model, and `advance` ends the interval.


def play(policy):
    """Return an array with the sensor that a policy selects in each interval."""
    rng = np.random.default_rng(0)
    arms = np.empty(INTERVALS, int)
    for t in range(INTERVALS):
        arms[t] = policy.select().arm
        policy.observe(arms[t], truth[t, arms[t]] + NOISE_STD * rng.standard_normal())
        policy.advance()
    return arms


selected = {
    "tv-gp-ucb": play(make_policy("tv-gp-ucb", field, epsilon=0.03)),
    "gp-ucb": play(make_policy("gp-ucb", field)),
    "round-robin": play(make_policy("round-robin", field)),
}

# %%
# The regret of an interval is the value of the hottest sensor minus that of the selected one.

for name, arms in selected.items():
    regret = truth.max(axis=1) - truth[np.arange(INTERVALS), arms]
    plt.plot(regret.cumsum(), label=name)
    print(f"{name:12} {regret.mean():.3f} per interval")
plt.xlabel("interval")
plt.ylabel("total regret")
plt.legend()
plt.show()
