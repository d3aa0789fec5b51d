"""The posterior of a still field from the last W readings, of which old ones count for less."""

from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.model.field import SensorField
from edge_tvbo.model.posterior import Evolving
from edge_tvbo.model.snapshot import whole
from edge_tvbo.model.temporal import Static
from edge_tvbo.numerics import weighted


class WeightedPosterior(Evolving):
    """What `KernelPosterior` with a `gamma` believes of sensors, compiled.

    Costs O(n³ + n²M) an interval for n different sensors among the readings.

    Parameters
    ----------
    field : SensorField
        M arms, their prior covariance and noise.
    window : int
        W, the most readings held; the oldest makes room.
    gamma : float
        What a reading's weight is multiplied by in each interval since, above 0, at most 1.
    """

    def __init__(self, field: SensorField, window: int, gamma: float) -> None:
        if window < 1:
            raise ConfigError(f"window is {window}; it must be 1 reading or more.")
        if not 0.0 < gamma <= 1.0:
            raise ConfigError(f"gamma is {gamma}; it must be above 0, and at most 1.")
        super().__init__(field, Static())
        M = len(field)
        most = min(window, M)  # sensors that were read
        self._gamma = gamma
        self._fading = -log(gamma)
        self._arms = np.zeros(window, np.int64)
        self._y = np.zeros(window)
        self._times = np.zeros(window, np.int64)
        self._V, self._z = np.empty((most, M)), np.empty(most)
        self._weights, self._sums = np.empty(M), np.empty(M)
        self._time = 0
        self.mean = np.zeros(M)
        self.variance = np.diag(field.kernel).copy()

    def observe(self, arm: int, y: float) -> None:
        """Take in a reading of `arm`, in model units, and drop the oldest of a full window."""
        n = self.observations
        if n == len(self._y):
            for array in (self._arms, self._y, self._times):
                array[:-1] = array[1:]
            n -= 1
        self._arms[n], self._y[n], self._times[n] = arm, y, self._time
        self.observations = n + 1
        self._predict()

    def advance(self) -> None:
        """Move on by one interval."""
        self._time += 1
        if self._fading:
            self._predict()

    def reset(self) -> None:
        """Forget every reading, not the time: the prior of the current interval is left."""
        self.observations = 0
        self._predict()

    def _predict(self) -> None:
        weighted.predict(
            self._kernel,
            self._arms,
            self._y,
            self._times,
            self.observations,
            self._time,
            self._fading,
            self._noise_variance,
            self._weights,
            self._sums,
            self._V,
            self._z,
            self.mean,
            self.variance,
        )

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

    def _kind(self) -> str:
        return f"weighted {len(self._y)} {self._gamma!r}"
