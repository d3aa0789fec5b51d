"""What engines share that hold the last readings and compute everything from them anew."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.state_space import StateSpaceBase
from edge_tvbo.models.snapshot import whole
from edge_tvbo.models.transitions import Transition


class HeldReadings(StateSpaceBase):
    """A posterior whose state is W readings at the most, and the time.

    Parameters
    ----------
    field, temporal
        As for `StateSpaceBase`; one under which the prior's scale stays 1.
    window : int
        W.
    """

    def __init__(self, field: SensorField, temporal: Transition, window: int) -> None:
        if window < 1:
            raise ConfigError(f"window is {window}; it must be 1 reading or more.")
        super().__init__(field, temporal)
        self._arms = np.zeros(window, np.int64)
        self._y = np.zeros(window)
        self._times = np.zeros(window, np.int64)
        self._time = 0
        self.mean = np.zeros(len(field))
        self.variance = np.diag(field.kernel).copy()

    def observe(self, arm: int, y: float) -> None:
        """Take in a reading of `arm`, in model units; of a full window one makes room."""
        if self.observations == len(self._y):
            self._forget(self._dispensable())
        n = self.observations
        self._arms[n], self._y[n], self._times[n] = arm, y, self._time
        self.observations = n + 1
        self._predict()

    def advance(self) -> None:
        """Move on by one interval."""
        self._time += 1
        self._predict()

    def remove(self, index: int) -> None:
        """Forget a reading, 0 being the oldest."""
        self._forget(index)
        self._predict()

    def reset(self) -> None:
        """Forget every reading, not the time: the prior of the current interval is left."""
        self.observations = 0
        self._predict()

    def _dispensable(self) -> int:
        """Give which of the readings makes room for another: the oldest."""
        return 0

    def _forget(self, index: int) -> None:
        n = self.observations
        for array in (self._arms, self._y, self._times):
            array[index : n - 1] = array[index + 1 : n]
        self.observations = n - 1

    @abstractmethod
    def _predict(self) -> None:
        """Fill `mean` and `variance` for the current interval."""

    def _counts(self) -> dict[str, Any]:
        return {"time": self._time}

    def _check(self, state: dict[str, NDArray[Any]], prior: float) -> None:
        observations, time = whole(state, "observations"), whole(state, "time")
        if observations > len(self._y):
            raise SnapshotError(f"The snapshot holds {observations} readings of {len(self._y)}.")
        if not ((state["arms"] >= 0) & (state["arms"] < len(self._field))).all():
            raise SnapshotError("The snapshot's 'arms' names a sensor that there is not.")
        if (state["times"][:observations] > time).any() or (state["times"] < 0).any():
            raise SnapshotError("The snapshot holds readings of the future.")

    def _resume(self, state: dict[str, Any]) -> None:
        super()._resume(state)
        self._time = state["time"]
        self._predict()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"arms": self._arms, "y": self._y, "times": self._times}
