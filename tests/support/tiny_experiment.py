"""An experiment that costs nothing, and a worker that knows it: for tests of the runner.

Workers may be spawned, and what a test patches in its own process does not reach those; what they
are sent is this module's `measure`, by its name.
"""

import time
from unittest.mock import patch

import numpy as np

from edge_tvbo.research.experiments import runner
from edge_tvbo.research.experiments.base import Expectation, PublishedValue, Row

as_it_is = runner.measure


class Tiny:
    """Means of a few normal deviates."""

    name = "E99"
    title = "tiny"
    source = "nowhere"
    runs = 6
    block = 2

    def __init__(self, data_dirs=()):
        pass

    def measure(self, runs, seed):
        return [row for run in runs for row in self._run(run, seed)]

    def printed(self):
        return [PublishedValue({"sd": "1"}, "mean", 0.0, 0.5, 10)]

    def claims(self, summary):
        return [Expectation("the mean is near 0", abs(summary.mean("mean", sd="1")) < 3.0)]

    def draw(self, figure, rows, summary):
        axes = figure.subplots()
        for row in rows:
            axes.plot(row.curves["drawn"], label=f"run {row.run}")
        axes.legend()

    def _run(self, run, seed):
        rng = np.random.default_rng([seed, 99, run])
        for sd in (1, 2):
            drawn = rng.normal(0.0, sd, 5)
            yield Row(
                run, {"sd": str(sd)}, {"mean": float(drawn.mean())}, {"drawn": drawn.tolist()}
            )


def load(name, data_dirs=()):
    assert name == "tiny"
    return Tiny(data_dirs)


def measure(name, seed, data_dirs, runs):
    with patch.object(runner, "load", load):
        return as_it_is(name, seed, data_dirs, runs)


def measure_slowly(*arguments):
    time.sleep(0.2)
    return measure(*arguments)
