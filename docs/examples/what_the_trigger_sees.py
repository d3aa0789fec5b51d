r"""
The view of the event trigger
=============================

The event trigger of ET-GP-UCB compares each reply with the model's estimate. If the error exceeds a
threshold, the model is stale and is reset. Here the field is replaced at interval 100, and again at
interval 200.
"""

import matplotlib.pyplot as plt
import numpy as np

from edge_tvbo import make_policy
from edge_tvbo.models.field import grid
from edge_tvbo.models.spatial_kernels import SpatialKernel

INTERVALS, CHANGES, NOISE_STD = 300, (100, 200), 0.1

field = grid(5, SpatialKernel(length_scale=0.3), NOISE_STD**2)
L = np.linalg.cholesky(field.kernel + 1e-9 * np.eye(len(field)))
policy = make_policy("et-gp-ucb", field, delta_b=0.1)

# %%
# `observe` returns what the trigger saw: the error, the threshold, and whether it fired. The
# threshold is that of lemma 3 of the paper,
#
# .. math:: \kappa_t = \sqrt{\rho_{t'}}\,\sigma_t(x_t) + \bar w_{t'}, \qquad
#    \rho_{t'} = 2\ln\frac{2\pi_{t'}}{\delta_B}, \qquad
#    \bar w_{t'} = \sqrt{2\sigma_n^2\ln\frac{2\pi_{t'}}{\delta_B}},
#
# with :math:`\pi_{t'} = \pi^2 t'^2 / 6` after :math:`t'` replies since the last reset.

rng = np.random.default_rng(6)
results = []
for t in range(INTERVALS):
    if t == 0 or t in CHANGES:
        f = L @ rng.standard_normal(len(field))
    arm = policy.select().arm
    results.append(policy.observe(arm, f[arm] + NOISE_STD * rng.standard_normal()))
    policy.advance()

resets = [t for t, result in enumerate(results) if result.reset]
print("changes in intervals", *CHANGES)
print("resets  in intervals", *resets)

# %%
# An arm that was not read since the last reset has a wide posterior, so its threshold is high. When
# the policy reads the same few arms again and again, the noise alone determines the threshold.

plt.semilogy([result.abs_error for result in results], ".", label="error of the estimate")
plt.semilogy([result.threshold for result in results], label="threshold")
for t in resets:
    plt.axvline(t, color="tab:red", linewidth=1, label="reset" if t == resets[0] else None)
plt.xlabel("interval")
plt.ylabel("model units")
plt.legend()
plt.show()
