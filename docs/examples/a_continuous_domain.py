"""
A continuous domain
===================

Every point of a box is an arm. For example, a laser can point at any place in the box. The peak
moves, so the policy has to go on searching after it has found the peak.
"""

import matplotlib.pyplot as plt
import numpy as np

from edge_tvbo import BoxField, SpatialKernel, make_policy

INTERVALS = 120
NOISE_STD = 0.05


def peak(t):
    """Return the place of the peak at time t, (2,); the peak moves along an arc."""
    angle = np.pi * t / INTERVALS
    return np.array([2.0 + 1.5 * np.cos(angle), 0.2 + 0.6 * np.sin(angle)])


def value(point, t):
    """Return the value of a point (2,) at time t; it is 2 at the peak."""
    return 2 * np.exp(-0.5 * np.sum(((point - peak(t)) / (1.0, 0.25)) ** 2))


# %%
# There is one length scale for each dimension, in the unit of the corners in this dimension. A
# reading is in the field's unit.

kernel = SpatialKernel(nu=2.5, length_scale=(1.0, 0.25))
field = BoxField([0.0, 0.0], [4.0, 1.0], kernel, NOISE_STD**2, candidates=256)
policy = make_policy("tv-gp-ucb", field, epsilon=0.02, window=60)

rng = np.random.default_rng(0)
points, regret = np.empty((INTERVALS, 2)), np.empty(INTERVALS)
for t in range(INTERVALS):
    choice = policy.select()
    reading = value(choice.arm, t) + NOISE_STD * rng.standard_normal()
    policy.observe(choice.arm, reading)
    policy.advance()
    points[t], regret[t] = choice.arm, 2 - value(choice.arm, t)

for first in range(0, INTERVALS, 30):
    print(f"intervals {first:3}-{first + 29:3}: regret {regret[first : first + 30].mean():.3f}")

course = np.array([peak(t) for t in range(INTERVALS)])
plt.plot(*course.T, color="0.6", label="the peak")
plt.scatter(*points.T, c=np.arange(INTERVALS), s=15, label="selected")
plt.colorbar(label="interval")
plt.legend()
plt.show()
