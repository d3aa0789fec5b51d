"""What experiments share whose runs are drawn one by one, most of them on a grid of [0, 1]²."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.research.experiments import sample_fields
from edge_tvbo.research.experiments.base import PublishedValue, Row
from edge_tvbo.research.experiments.run_policy import rng

SIDE = 50


class PerRunExperiment(ABC):
    """An experiment that carries its runs out one after the other, each with its own chance."""

    name: str
    block = 1

    def measure(self, runs: range, seed: int) -> list[Row]:
        """Carry out some runs."""
        return [row for run in runs for row in self._run(run, rng(self.name, seed, run))]

    def printed(self) -> list[PublishedValue]:
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
    def _factor(self) -> Array:
        return sample_fields.factor(self._field.kernel)


class OnGrid(Gridded, PerRunExperiment):
    """Both: runs one by one over such places."""
