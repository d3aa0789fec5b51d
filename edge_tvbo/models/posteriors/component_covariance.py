"""Component covariance: the covariance of the state of a structural posterior.

`DenseCovariance` is exact. For more than `MAX_EXACT_SENSORS` sensors, `LowRankCovariance` is used
instead.
"""

from typing import Protocol

import numpy as np

from edge_tvbo.models.facts import Fact
from edge_tvbo.models.posteriors.select import MAX_EXACT_SENSORS
from edge_tvbo.models.snapshot import AnyArray, State, check_covariances
from edge_tvbo.models.structural_model import ComponentTable, StructuralModel
from edge_tvbo.models.trained_state import LowRankState
from edge_tvbo.numerics import structural
from edge_tvbo.numerics.types import Array, Indices


class ComponentCovariance(Protocol):
    """Covariance of a state that has n components for each of M sensors.

    Component k of sensor i has the index k M + i in the state. The methods are the steps of a
    Kalman filter. `condition` and `evolve` also update m, which is the mean of the state.
    """

    def reset(self) -> None:
        """Reset the component covariance to the prior."""
        ...

    def load_training(self, covariances: Array | LowRankState) -> None:
        """Load the `covariances` of a `TrainedState` into the component covariance."""
        ...

    def moments(self, m: Array, load: Array, mean: Array, variance: Array) -> None:
        """Fill `mean` and `variance`, (M,), from the mean m and the component covariance.

        The results are the moments of the sensors' values. The value of a sensor is the sum of its
        components, where component k is multiplied by `load[k]`.
        """
        ...

    def condition(
        self, m: Array, load: Array, arm: int, y: float, noise_variance: float, square: float
    ) -> float:
        """Update the component covariance and the mean m of the state with a reading.

        Return the squared standardised error of the reading. `numerics.structural.condition`
        explains the arguments.
        """
        ...

    def evolve(self, m: Array, retain: Array) -> None:
        """Advance the component covariance and the mean m of the state by one step in time.

        Component k is multiplied by `retain[k]`, and noise is added.
        """
        ...

    def facts(self) -> tuple[Fact, ...]:
        """Return the facts that describe how the component covariance is approximated."""
        ...

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays that a snapshot of the component covariance contains, by name."""
        ...

    def arrays_for(self, components: int, sensors: int, state: State) -> dict[str, AnyArray]:
        """Return zero arrays of the shapes that a snapshot of the component covariance has.

        `state` is the state in the snapshot. `sensors` is the number of sensors in the snapshot,
        and each of these sensors has `components` components.
        """
        ...

    def check(self, state: State) -> None:
        """Raise `SnapshotError` unless `state` holds a valid component covariance."""
        ...

    def follow_arrays(self) -> None:
        """Recompute all values that depend on the arrays of the component covariance.

        Call this method after loading the arrays.
        """
        ...

    def load_sensors(self, state: State, here: Indices, there: Indices, sensors: int) -> None:
        """Load the component covariance of the sensors that a snapshot and this field both contain.

        `state` is the checked state in the snapshot, and `sensors` is the number of sensors in the
        snapshot. The sensor `there[i]` of the snapshot is the sensor `here[i]` of this field. The
        other sensors of this field keep their prior.
        """
        ...


def make_covariance(model: StructuralModel, table: ComponentTable) -> ComponentCovariance:
    """Return the prior covariance of the components: exact for few sensors, else of low rank."""
    if len(model.spread) <= MAX_EXACT_SENSORS:
        return DenseCovariance(model, table)
    from edge_tvbo.models.posteriors.low_rank_covariance import LowRankCovariance

    return LowRankCovariance(model, table)


class DenseCovariance:
    """The exact covariance of all components of all sensors, a matrix of shape (n M, n M).

    Parameters
    ----------
    model : StructuralModel
        Structural model of M sensors.
    table : ComponentTable
        The n components of the model.
    """

    def __init__(self, model: StructuralModel, table: ComponentTable) -> None:
        self._correlation, self._table = model.correlation, table
        self._M, self._n = len(model.spread), len(table.kind)
        size = self._n * self._M
        self._P = np.zeros((size, size))
        self._workspace = np.zeros(size)
        self.reset()

    def reset(self) -> None:
        """Reset the dense covariance to the prior."""
        table = self._table
        self._P[:] = 0.0
        for a, (variance, common) in enumerate(zip(table.variance, table.common, strict=True)):
            block = slice(a * self._M, (a + 1) * self._M)
            self._P[block, block] = variance * (common + (1.0 - common) * self._correlation)

    def load_training(self, covariances: Array | LowRankState) -> None:
        """Load the `covariances` of a `TrainedState` into the dense covariance.

        `covariances` (M, n, n) holds one matrix for each eigenvector of the sensors' correlation.
        """
        assert not isinstance(covariances, LowRankState), "only large fields have a low-rank state"
        _, U = np.linalg.eigh(self._correlation)
        blocks = [
            [(U * covariances[:, a, b]) @ U.T for b in range(self._n)] for a in range(self._n)
        ]
        both = np.block(blocks)
        self._P[:] = (both + both.T) / 2

    def moments(self, m: Array, load: Array, mean: Array, variance: Array) -> None:
        """Fill the sensors' `mean` and `variance` from the mean m and covariance of the state."""
        structural.moments(m, self._P, load, mean, variance)

    def condition(
        self, m: Array, load: Array, arm: int, y: float, noise_variance: float, square: float
    ) -> float:
        """Update the mean m of the state and the dense covariance with a reading.

        Return the squared standardised error of the reading.
        """
        return structural.condition(
            m, self._P, load, arm, y, noise_variance, square, self._workspace
        )

    def evolve(self, m: Array, retain: Array) -> None:
        """Advance the mean m of the state, and the dense covariance, by one step in time."""
        table = self._table
        inject = table.variance * (1.0 - retain**2)
        structural.evolve(m, self._P, retain, inject, table.common, self._correlation)

    def facts(self) -> tuple[Fact, ...]:
        """Return an empty tuple of facts, because the dense covariance is exact."""
        return ()

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays that a snapshot of the dense covariance contains, by name.

        A Kalman step updates only the lower triangle of the matrix. This method copies the lower
        triangle to the upper triangle.
        """
        structural.mirror(self._P)
        return {"covariance": self._P}

    def arrays_for(self, components: int, sensors: int, state: State) -> dict[str, AnyArray]:
        """Return zero arrays of the shapes that a snapshot of the dense covariance has."""
        size = components * sensors
        return {"covariance": np.zeros((size, size))}

    def check(self, state: State) -> None:
        """Raise `SnapshotError` unless `state` holds a valid dense covariance."""
        check_covariances("covariance", self._P.diagonal(), state)

    def follow_arrays(self) -> None:
        """Do nothing: no other value depends on the arrays of a dense covariance."""

    def load_sensors(self, state: State, here: Indices, there: Indices, sensors: int) -> None:
        """Load the dense covariance of the sensors that a snapshot and this field both contain."""
        saved = len(state["covariance"]) // sensors
        parts = np.arange(min(self._n, saved))[:, None]
        rows, others = (parts * self._M + here).reshape(-1), (parts * sensors + there).reshape(-1)
        self._P[rows] = 0.0
        self._P[:, rows] = 0.0
        self._P[np.ix_(rows, rows)] = state["covariance"][np.ix_(others, others)]
