"""What experiments share whose runs are drawn one by one, most of them on a grid of [0, 1]²."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.experiments import truth
from edge_tvbo.experiments.experiment import Printed, Row
from edge_tvbo.experiments.play import rng
from edge_tvbo.model.field import SensorField, grid
from edge_tvbo.model.kernels import SpatialKernel

SIDE = 50


class RunByRun(ABC):
    """An experiment that carries its runs out one after the other, each with its own chance."""

    name: str
    block = 1

    def measure(self, runs: range, seed: int) -> list[Row]:
        """Carry out some runs."""
        return [row for run in runs for row in self._run(run, rng(self.name, seed, run))]

    def printed(self) -> list[Printed]:
        """Give nothing: the paper has figures, no numbers."""
        return []

    @abstractmethod
    def _run(self, run: int, generator: np.random.Generator) -> Iterator[Row]:
        """Yield the rows of one run, all its chance taken from `generator`."""


class Gridded:
    """An experiment with one prior over `side` x `side` places."""

    spatial: SpatialKernel
    noise_variance: float

    def __init__(self, data_dirs: tuple[str, ...] = (), *, side: int = SIDE) -> None:
        self._side = side

    @cached_property
    def _field(self) -> SensorField:
        return grid(self._side, self.spatial, self.noise_variance)

    @cached_property
    def _factor(self) -> NDArray[np.float64]:
        return truth.factor(self._field.kernel)


class OnGrid(Gridded, RunByRun):
    """Both: runs one by one over such places."""
