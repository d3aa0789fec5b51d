"""Base class of the experiments whose fields are drawn from a prior over a grid of [0, 1]²."""

from functools import cached_property

from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.research import random_fields
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.simulation.dataset_lookup import DataSource

SIDE = 50


class GridExperiment(Experiment):
    """An experiment on a grid of `side` x `side` places, with one kernel and one noise variance."""

    spatial: SpatialKernel
    noise_variance: float

    def __init__(self, data: DataSource | None = None, *, side: int = SIDE) -> None:
        super().__init__(data)
        self._side = side

    @cached_property
    def _field(self) -> SensorField:
        return grid(self._side, self.spatial, self.noise_variance)

    @cached_property
    def _factor(self) -> Array:
        return random_fields.factor(self._field.kernel)
