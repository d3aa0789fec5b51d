"""
Your own CSV
============

A file with a row for each time and a column for each sensor is enough to compare policies. The
file of this example is invented: it contains five rooms and eight days. Replace it by your own
file.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from edge_tvbo_adapters.datasets.csv import read

from edge_tvbo.simulation.backtest import Backtest, results_table
from edge_tvbo.simulation.row_range import RowRange

ROOMS = ("hall", "attic", "kitchen", "office", "cellar")
DAYS, PER_DAY = 8, 48  # readings every half hour

hour = np.arange(DAYS * PER_DAY) / 2
warmest = np.array([15, 17, 19, 13, 6])  # o'clock
rng = np.random.default_rng(1)
rooms = 20 + 3 * np.cos((hour[:, None] - warmest) * np.pi / 12)
rooms += rng.standard_normal(rooms.shape).cumsum(axis=0) * 0.1

# %%
# Dates in ISO 8601, decimal points, one header line. The reader understands many other forms.

lines = ["time," + ",".join(ROOMS)]
for t, row in enumerate(rooms.round(2).tolist()):
    day, minute = divmod(30 * t, 24 * 60)
    clock = f"2026-03-{day + 1:02}T{minute // 60:02}:{minute % 60:02}Z"
    lines.append(f"{clock}," + ",".join(map(str, row)))
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "rooms.csv"
    file.write_text("\n".join(lines))
    recording = read(file)
print("\n".join(lines[:3]))
print(f"{len(recording.values)} intervals of {recording.interval:.0f} s, {recording.sensors}")

# %%
# The first six days train the covariance of the sensors; the last two are replayed. The command
# ``edge-tvbo compare rooms.csv`` does the same, with all policies.

train, test = RowRange(0, 6 * PER_DAY), RowRange(6 * PER_DAY, DAYS * PER_DAY)
backtest = Backtest(recording, train, test)
results = [backtest.run(name, {}, 3) for name in ("auto", "et-gp-ucb", "static", "random")]
print(results_table(results))

for result in results:
    plt.plot(result.regret.mean(axis=0).cumsum(), label=result.policy)
plt.xlabel("interval of the test days")
plt.ylabel("total regret, in standard deviations")
plt.legend()
plt.show()
