"""Two-component posterior: exact for the models MTV (momentum) and TTV (transition).

Both models are linear-Gaussian state spaces of twice the field's size ([M24] chapters 8 and 9).
Therefore the time to compute an interval does not depend on the length of the history.
"""

from math import sqrt

import numpy as np

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.base import FiniteArmsMixin
from edge_tvbo.models.regression import floored_noise
from edge_tvbo.models.snapshot import (
    AnyArray,
    check_arrays,
    check_covariances,
    copy_arrays,
    decode_snapshot,
    encode_snapshot,
    read_count,
)
from edge_tvbo.models.temporal_models import TwoComponentTransition
from edge_tvbo.numerics import two_component
from edge_tvbo.numerics.types import Array


class TwoComponentPosterior(FiniteArmsMixin):
    """The exact `Posterior` of a field that is a weighted sum of two components.

    Parameters
    ----------
    field : SensorField
        M arms, the prior covariance of each component, and the noise variance of a reading.
    transition : TwoComponentTransition
        How the components change in one interval: ``Momentum(...).transition()`` or
        ``Sigmoid(...).transition()``.

    Notes
    -----
    An interval costs O(M²), four times as much as with `StateSpacePosterior`. The noise variance
    has a lower limit; see `floored_noise`.
    """

    def __init__(self, field: SensorField, transition: TwoComponentTransition) -> None:
        M = len(field)
        self._field = field
        self._noise_variance = floored_noise(field.noise_variance, field.kernel)
        self._transition = transition
        self._prior = transition.prior.tolist()
        self._time = 0
        self._m = np.zeros(2 * M)
        self._C = np.zeros((2 * M, 2 * M))
        self._workspace = np.empty(2 * M)
        self.mean = np.zeros(M)
        self.variance = np.zeros(M)
        self.observations = 0
        self.reset()

    def prior_std(self, arm: int) -> float:
        """Return the prior standard deviation of the weighted sum of two components at `arm`."""
        w0, w1 = self._transition.weights(self._time)
        (p00, p01), (_, p11) = self._prior
        scale = w0 * w0 * p00 + 2.0 * w0 * w1 * p01 + w1 * w1 * p11
        return sqrt(scale * float(self._field.kernel[arm, arm]))

    def observe(self, arm: int, y: float) -> None:
        """Update the two-component posterior with a reading `y` of `arm`, in model units."""
        w0, w1 = self._transition.weights(self._time)
        noise = self._noise_variance
        two_component.condition(self._m, self._C, w0, w1, arm, y, noise, self._workspace)
        self.observations += 1
        self._predict()

    def advance(self) -> None:
        """Advance the two-component posterior by one interval."""
        self._time += 1
        self._evolve(self._transition.matrix, self._transition.innovation)

    def skip(self, intervals: int) -> None:
        """Advance the two-component posterior by several intervals without readings, at once.

        The components have a stationary prior: the noise of the intervals adds exactly the
        covariance that the intervals remove from the prior.
        """
        self._time += intervals
        matrix = np.linalg.matrix_power(self._transition.matrix, intervals)
        prior = self._transition.prior
        self._evolve(matrix, prior - matrix @ prior @ matrix.T)

    def reset(self) -> None:
        """Reset the two-component posterior to the current interval's prior: drop all readings."""
        two_component.reset_to_prior(self._m, self._C, self._field.kernel, self._transition.prior)
        self.observations = 0
        self._predict()

    def snapshot(self) -> bytes:
        """Return the state of the two-component posterior as bytes, for `restore`."""
        state = {"time": self._time, "observations": self.observations, **self._arrays()}
        return encode_snapshot(self._kind(), self._field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Load a two-component posterior's state, or raise `SnapshotError` and change nothing."""
        state = decode_snapshot(self._kind(), self._field.fingerprint(), blob)
        time, observations = read_count(state, "time"), read_count(state, "observations")
        check_arrays(self._arrays(), state)
        check_covariances("covariance", self._field.kernel, state)
        copy_arrays(self._arrays(), state)
        self._time, self.observations = time, observations
        self._predict()

    def _evolve(self, matrix: Array, innovation: Array) -> None:
        two_component.evolve(self._m, self._C, self._field.kernel, matrix, innovation)
        self._predict()

    def _kind(self) -> str:
        return self._transition.snapshot_kind

    def _arrays(self) -> dict[str, AnyArray]:
        return {"mean": self._m, "covariance": self._C}

    def _predict(self) -> None:
        w0, w1 = self._transition.weights(self._time)
        two_component.predict(self._m, self._C, w0, w1, self.mean, self.variance)
