"""A fast experiment for tests of the runner.

Workers may be spawned, and patches of the test's process do not reach those. So they are sent this
module's `measure_runs`, which they import by its name.
"""

import time
from unittest.mock import patch

import numpy as np

from edge_tvbo.research.experiments import runner
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.research.experiments.result_table import Expectation, PublishedValue, Row

original_measure_runs = runner.measure_runs


class TinyExperiment(Experiment):
    """Means of a few normal deviates."""

    name = "E99"
    title = "tiny"
    source = "nowhere"
    runs = 6
    block = 2

    def published(self):
        return [PublishedValue({"sd": "1"}, "mean", 0.0, 0.5, 10)]

    def expectations(self, results):
        return [Expectation("the mean is near 0", abs(results.mean("mean", sd=1)) < 3.0)]

    def draw(self, figure, results):
        axes = figure.subplots()
        for sd in ("1", "2"):
            for run, curve in enumerate(results.curves("drawn", {"sd": sd})):
                axes.plot(curve, label=f"sd {sd}, run {run}")
        axes.legend()

    def _run(self, run, seed):
        rng = np.random.default_rng([seed, 99, run])
        for sd in (1, 2):
            drawn = rng.normal(0.0, sd, 5)
            yield Row(
                run, {"sd": str(sd)}, {"mean": float(drawn.mean())}, {"drawn": drawn.tolist()}
            )


def load(name, data):
    assert name == "tiny"
    return TinyExperiment(data)


def measure_runs(*arguments):
    with patch.object(runner, "load", load):
        return original_measure_runs(*arguments)


def measure_slowly(*arguments):
    time.sleep(0.2)
    return measure_runs(*arguments)
