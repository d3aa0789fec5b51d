"""
A new policy
============

Thompson sampling, in a dozen lines: draw a value for each arm from the model of an existing policy,
and select the highest. (To be short, the draws are independent. This explores more than usual.)
"""

import matplotlib.pyplot as plt
import numpy as np

from edge_tvbo import make_policy
from edge_tvbo.models.field import grid
from edge_tvbo.models.spatial_kernels import SpatialKernel

INTERVALS, RUNS, EPSILON, NOISE_STD = 150, 20, 0.03, 0.1


class ThompsonSampling:
    """A policy that draws a value for each arm from the posterior, and selects the highest."""

    def __init__(self, field, seed):
        self.model = make_policy("tv-gp-ucb", field, epsilon=EPSILON)
        self.rng = np.random.default_rng(seed)

    def select(self):
        mean, std = self.model.posterior()
        return int(np.argmax(self.rng.normal(mean, std)))

    def observe(self, arm, y):
        self.model.observe(arm, y)
        self.model.advance()


# %%
# In each interval, a share of the field is replaced by a new draw. The model assumes such changes.

field = grid(5, SpatialKernel(length_scale=0.3), NOISE_STD**2)
L = np.linalg.cholesky(field.kernel + 1e-9 * np.eye(len(field)))
regret = np.empty((2, RUNS))
for seed in range(RUNS):
    rng = np.random.default_rng(seed)
    thompson, ucb = ThompsonSampling(field, seed), make_policy("tv-gp-ucb", field, epsilon=EPSILON)
    f, total = L @ rng.standard_normal(len(field)), np.zeros(2)
    for _ in range(INTERVALS):
        noise = NOISE_STD * rng.standard_normal()
        arms = thompson.select(), ucb.select().arm
        thompson.observe(arms[0], f[arms[0]] + noise)
        ucb.observe(arms[1], f[arms[1]] + noise)
        ucb.advance()
        total += f.max() - f[list(arms)]
        f = (1 - EPSILON) ** 0.5 * f + EPSILON**0.5 * L @ rng.standard_normal(len(field))
    regret[:, seed] = total / INTERVALS

for name, each in zip(("Thompson", "tv-gp-ucb"), regret, strict=True):
    print(f"{name:10} {each.mean():.3f} ± {each.std(ddof=1) / RUNS**0.5:.3f} (standard error)")
plt.boxplot(regret.T, tick_labels=["Thompson sampling", "tv-gp-ucb"])
plt.ylabel("regret per interval")
plt.show()
