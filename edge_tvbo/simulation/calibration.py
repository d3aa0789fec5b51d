"""Calibration: the mean and standard deviation that a replayed policy predicts for a reading."""

from collections.abc import Callable
from math import hypot, nan
from statistics import NormalDist
from typing import Protocol, cast, runtime_checkable

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.base import Prediction
from edge_tvbo.policy.base import Policy
from edge_tvbo.policy.model_free import ModelFreePolicy

ONE_STD = 2.0 * NormalDist().cdf(1.0) - 1.0  # probability of the interval mean ± std


@runtime_checkable
class PredictsReadings(Protocol):
    """Protocol of a policy that can compute the predictive intervals of readings.

    For a policy that has a model but no `prediction_interval`, the calibration adds the noise
    variance of a reading to the variance of the posterior.
    """

    def prediction_interval(self, arm: int, share: float) -> tuple[float, float]:
        """Return the interval in which the policy expects `share` of the arm's readings."""
        ...


def reading_predictor(policy: Policy) -> Callable[[int], tuple[float, float]]:
    """Return the function that predicts the next reading of an arm with `policy`, in model units.

    The function returns the mean and the standard deviation. The standard deviation includes the
    noise of a reading, and is NaN if `policy` has no model.
    """
    if isinstance(policy, PredictsReadings):  # this check takes as long as a prediction
        return lambda arm: _middle(*policy.prediction_interval(arm, ONE_STD))
    if isinstance(policy, ModelFreePolicy):
        return lambda arm: (policy.prediction(arm).mean, nan)
    noise = field_of(policy).noise_variance ** 0.5
    return lambda arm: _with_noise(policy.prediction(arm), noise)


def _middle(low: float, high: float) -> tuple[float, float]:
    """Return the middle of an interval, and half of its width."""
    return (low + high) / 2.0, (high - low) / 2.0


def _with_noise(prediction: Prediction, noise_std: float) -> tuple[float, float]:
    """Return the mean and the standard deviation of a reading of a predicted value."""
    return prediction.mean, hypot(prediction.std, noise_std)


def field_of(policy: Policy) -> SensorField:
    """Return the sensor field of a policy, for the calibration of the policy's predictions."""
    return cast(SensorField, policy.field)
