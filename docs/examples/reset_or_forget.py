"""
Reset or forget?
================

Is it better to reset, or to forget gradually? The field changes suddenly, or by 3 % per interval.
"""

import matplotlib.pyplot as plt
import numpy as np

from edge_tvbo import make_policy
from edge_tvbo.models.field import grid
from edge_tvbo.models.spatial_kernels import SpatialKernel

INTERVALS, SEEDS, NOISE_STD = 240, range(10), 0.1
POLICIES = {
    "auto": {},
    "et-gp-ucb": {"delta_b": 0.1},  # resets on an event
    "r-gp-ucb": {"period": 20},  # resets periodically
    "tv-gp-ucb": {"epsilon": 0.03},  # forgets
    "gp-ucb": {},  # neither
}

field = grid(5, SpatialKernel(length_scale=0.3), NOISE_STD**2)
L = np.linalg.cholesky(field.kernel + 1e-9 * np.eye(len(field)))


def sudden(t):
    return float(t % 80 == 0)


def steady(t):
    return 0.03


def mean_regret(name, parameters, share, seed):
    """Return a policy's regret per interval; `share(t)` of the field is new after interval t."""
    rng = np.random.default_rng(seed)
    policy = make_policy(name, field, seed=seed, **parameters)
    f, total = L @ rng.standard_normal(len(field)), 0.0
    for t in range(1, INTERVALS + 1):
        arm = policy.select().arm
        total += f.max() - f[arm]
        policy.observe(arm, f[arm] + NOISE_STD * rng.standard_normal())
        policy.advance()
        f = (1 - share(t)) ** 0.5 * f + share(t) ** 0.5 * L @ rng.standard_normal(len(field))
    return total / INTERVALS


for offset, share in ((-0.2, sudden), (0.2, steady)):
    runs = np.array([[mean_regret(n, p, share, s) for s in SEEDS] for n, p in POLICIES.items()])
    mean, error = runs.mean(axis=1), runs.std(axis=1, ddof=1) / len(SEEDS) ** 0.5
    for name, m, e in zip(POLICIES, mean, error, strict=True):
        print(f"{share.__name__:7} {name:10} {m:.3f} ± {e:.3f}")
    plt.bar(np.arange(len(POLICIES)) + offset, mean, 0.4, yerr=error, label=share.__name__)
plt.xticks(range(len(POLICIES)), POLICIES)
plt.ylabel("regret per interval")
plt.legend(title="change")
plt.show()
