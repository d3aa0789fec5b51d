"""
Energy
======

With an energy budget, a sensor is activated only if its reading is worth the energy. Fewer
activations do not always mean more regret. In an interval without activation, the regret is that of
the sensor with the best estimate.
"""

import matplotlib.pyplot as plt
import numpy as np

from edge_tvbo.models.field import grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.recording import Recording
from edge_tvbo.simulation.replay import Pace
from edge_tvbo.simulation.row_range import RowRange

DAYS, PER_DAY, DRIFT = 8, 96, 0.01

# %%
# Eight days of 16 sensors, one reading in a quarter of an hour. In each interval, 1 % of the field
# is replaced by a new draw.

places = grid(4, SpatialKernel(length_scale=0.4), 0.01)
L = np.linalg.cholesky(places.kernel + 1e-9 * np.eye(16))
rng = np.random.default_rng(0)
values = np.empty((DAYS * PER_DAY, 16))
f = L @ rng.standard_normal(16)
for t in range(len(values)):
    values[t] = 20 + f + 0.1 * rng.standard_normal(16)
    f = (1 - DRIFT) ** 0.5 * f + DRIFT**0.5 * L @ rng.standard_normal(16)
recording = Recording(
    name="synthetic",
    unit="°C",
    objective="max",
    sensors=places.sensors,
    start=0.0,
    interval=900.0,
    values=values,
    observed=np.ones(values.shape, bool),
    source="synthetic",
)

train, test = RowRange(0, 5 * PER_DAY), RowRange(5 * PER_DAY, DAYS * PER_DAY)
budgets, regret = (96, 48, 24, 12, 6), []
for budget in budgets:
    backtest = Backtest(recording, train, test, pace=Pace(budget=float(budget)))
    result = backtest.run("tv-gp-ucb", {"epsilon": DRIFT}, seeds=4)
    regret.append(result.regret.mean())
    spent = np.mean(result.activations) / 3
    print(f"at most {budget:2} a day: {spent:4.1f} spent, regret {regret[-1]:.3f} sd per interval")

plt.plot(budgets, regret, "o-")
plt.xlabel("activations per day, at most")
plt.ylabel("regret per interval, in standard deviations")
plt.ylim(0)
plt.show()
