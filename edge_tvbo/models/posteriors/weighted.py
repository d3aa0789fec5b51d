"""The posterior of a still field from the last W readings, of which old ones count for less."""

from math import log

import numpy as np

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.reading_buffer import HeldReadings
from edge_tvbo.models.transitions import Static
from edge_tvbo.numerics import weighted


class WeightedPosterior(HeldReadings):
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
        if not 0.0 < gamma <= 1.0:
            raise ConfigError(f"gamma is {gamma}; it must be above 0, and at most 1.")
        super().__init__(field, Static(), window)
        M = len(field)
        most = min(window, M)  # sensors that were read
        self._gamma = gamma
        self._V, self._z = np.empty((most, M)), np.empty(most)
        self._weights, self._sums = np.empty(M), np.empty(M)

    def _predict(self) -> None:
        weighted.predict(
            self._kernel,
            self._arms,
            self._y,
            self._times,
            self.observations,
            self._time,
            -log(self._gamma),
            self._noise_variance,
            self._weights,
            self._sums,
            self._V,
            self._z,
            self.mean,
            self.variance,
        )

    def _kind(self) -> str:
        return f"weighted {len(self._y)} {self._gamma!r}"
