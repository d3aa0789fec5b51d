"""
Population-based training
=========================

Eight learners train side by side, as in PB2 (Parker-Holder, Nguyen & Roberts 2020). After each
interval, the two worst copy the weights of the two best, and a policy selects new settings. The
gradient is noisy (Zhang et al. 2019), so the best learning rate falls until the task changes.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from edge_tvbo import BoxField, SpatialKernel, make_policy

INTERVALS, STEPS, SEEDS, CURVATURE = 40, 20, range(10), np.geomspace(1, 0.003, 50)
LOWER, UPPER = np.array([[-5, -1.3], [1, 0]])  # log10 of the learning rate and of 1 - momentum
POLICIES = {"tv-gp-ucb": {"epsilon": 0.05, "window": 80}, "gp-ucb": {"window": 80}, "random": {}}
field = BoxField(LOWER, UPPER, SpatialKernel(np.inf, (1.8, 0.4)), 0.25, scale=0.05, candidates=64)


def best_losses(name, seed):
    """Return log10 of the loss of the best learner after each interval."""
    rng, best, copies = np.random.default_rng(seed), [], 0 if name == "random search" else 2
    policy = make_policy(name, field, seed=seed, **POLICIES[name]) if name in POLICIES else None
    (first, second), (w, v) = 3 * rng.standard_normal((2, 50)), np.zeros((2, 8, 50))
    settings = rng.uniform(LOWER, UPPER, (8, 2))
    for t in range(INTERVALS):
        goal = first + (second - first) * np.clip((t - INTERVALS / 2) / 5, 0, 1)
        before, (rate, friction) = (w - goal) ** 2 @ CURVATURE, 10 ** settings.T[:, :, None]
        for noise in CURVATURE**0.5 * rng.standard_normal((STEPS, 8, 50)):
            v = (1 - friction) * v - rate * (CURVATURE * (w - goal) + noise)
            w = np.clip(w + v, -100, 100)
        loss = (w - goal) ** 2 @ CURVATURE
        best.append(np.log10(loss.min()))
        parents, _, worst = np.split(np.argsort(loss), [copies, 8 - copies])
        if policy:  # the reading is higher if the settings reduced the loss by a larger factor
            gain = np.log10(before / loss)
            for each, reading in zip(settings, gain - np.median(gain), strict=True):
                policy.observe(each, np.clip(reading, -0.1, 0.1))
            policy.advance()
            new = [choice.arm for choice in policy.select_many(copies)]
        else:  # PBT: a parent's setting times 0.8 or 1.2; with probability 1/4, a random one
            near = settings[parents] + np.log10(rng.choice([0.8, 1.2], (copies, 2)))
            far = rng.random((copies, 2)) < 0.25
            new = np.where(far, rng.uniform(LOWER, UPPER, far.shape), np.clip(near, LOWER, UPPER))
        w[worst], v[worst], settings[worst] = w[parents], v[parents], new
    return best


runs = {each: [best_losses(each, s) for s in SEEDS] for each in (*POLICIES, "PBT", "random search")}
for name, each in runs.items():
    more = np.mean(each, axis=1) - np.mean(runs["tv-gp-ucb"], axis=1)
    half = stats.t.ppf(0.975, len(more) - 1) * stats.sem(more)  # half of the 95 % interval
    print(f"{name:13} {np.mean(each):.3f}, more than tv-gp-ucb by {more.mean():.3f} ± {half:.3f}")
    plt.plot(np.mean(each, axis=0), label=name)
plt.gca().set(xlabel="interval", ylabel="log10 of the loss of the best learner")
plt.legend()
plt.show()
