"""
Reading a decision
==================

In each interval the daemon publishes what it selected and why, on ``<field>/selected``.
"""

import matplotlib.pyplot as plt
import msgspec
import numpy as np

from edge_tvbo.messages.commands import PublishState
from edge_tvbo.models.field import grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.recording import Recording
from edge_tvbo.simulation.replay import replay
from edge_tvbo.simulation.row_range import RowRange

rooms = ("hall", "attic", "kitchen", "office", "cellar", "bath", "studio", "garage", "loft")
K = grid(3, SpatialKernel(length_scale=0.5), 0.01).kernel
steps = np.random.default_rng(3).standard_normal((216, 9))
values = 20 + 0.3 * (steps @ np.linalg.cholesky(K + 1e-9 * np.eye(9)).T).cumsum(axis=0)
recording = Recording(
    name="rooms",
    unit="°C",
    objective="max",
    sensors=rooms,
    start=1_772_323_200.0,  # 1 March 2026
    interval=600.0,
    values=values,
    observed=np.ones(values.shape, bool),
    source="synthetic",
)

# %%
# The controller of the daemon replays the last half day, and its commands contain the decisions.

backtest = Backtest(recording, RowRange(0, 144), RowRange(144, 216))
commands = []
controller = backtest.controller("et-gp-ucb", {}, seed=0)
replay(recording, backtest.test_span, controller, commands.append)
decisions = [each.decision for each in commands if isinstance(each, PublishState)]
for decision in decisions[:60:6]:
    print(f"{decision.interval:2} {decision.reason:8} {decision.text}")

# %%
# The whole document of one decision. It contains the estimate ``mean`` ± ``std``, the bound ``ucb``
# that led to the selection, the ``factors`` of the choice, and the state of the model.

print(msgspec.json.format(msgspec.json.encode(decisions[30]), indent=2).decode())

mean, std = (np.array([getattr(each, name) for each in decisions]) for name in ("mean", "std"))
plt.fill_between(range(len(mean)), mean - 2 * std, mean + 2 * std, alpha=0.3, label="± 2 std")
plt.plot(mean, label="estimate of the selected sensor")
plt.plot(values[144:].max(axis=1), "k:", label="hottest sensor")
plt.gca().set(xlabel="interval", ylabel="°C")
plt.legend()
plt.show()
