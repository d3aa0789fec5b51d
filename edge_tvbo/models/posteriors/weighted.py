"""Weighted posterior: estimates a static field from W readings that lose weight with age."""

from math import log

import numpy as np

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.parameter_checks import check_share
from edge_tvbo.models.posteriors.reading_buffer import BufferedPosterior
from edge_tvbo.models.temporal_models import Static
from edge_tvbo.numerics import weighted


class WeightedPosterior(BufferedPosterior):
    """The compiled equivalent of a `RegressionPosterior` with `gamma`, for sensor fields only.

    Parameters
    ----------
    field : SensorField
        M arms, their prior covariance and noise variance.
    window : int
        W, largest number of readings held, 1 or more; a full window drops its oldest reading.
    gamma : float
        Factor that multiplies the weight of a reading in each interval, above 0 and at most 1.

    Raises
    ------
    ConfigError
        If `window` or `gamma` is out of range.

    Notes
    -----
    An interval costs O(n³ + n²M) if the readings are of n different sensors.
    """

    def __init__(self, field: SensorField, window: int, gamma: float) -> None:
        check_share(gamma=gamma)
        super().__init__(field, Static().transition(), window)
        M = len(field)
        most = min(window, M)  # largest number of different sensors among the readings
        self._gamma = gamma
        self._V, self._z = np.empty((most, M)), np.empty(most)
        self._weights, self._sums = np.empty(M), np.empty(M)

    def skip(self, intervals: int) -> None:
        """Advance the weighted posterior by several intervals without readings, at once."""
        self._time += intervals
        self._predict()

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
