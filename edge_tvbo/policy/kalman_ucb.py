"""Policy `kalman-ucb`, the textbook baseline: means by time of day, plus a Kalman filter."""

from math import hypot
from statistics import NormalDist

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.arm_space import Field
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.course import CoursePosterior
from edge_tvbo.policy.argument_checks import checked_duration, checked_time
from edge_tvbo.policy.auto_settings import KalmanUcbSettings
from edge_tvbo.policy.upper_confidence import SkippingUpperConfidence


def make_kalman_ucb(settings: KalmanUcbSettings, field: Field) -> "KalmanUcb":
    """Build the policy `kalman-ucb`; raises `ConfigError` if the field is a box."""
    if not isinstance(field, SensorField):
        raise ConfigError(
            f"{settings.name} needs a field of sensors or of a grid; this field is a BoxField."
        )
    posterior, width = CoursePosterior(field), FixedWidth(settings.width)
    return KalmanUcb(settings.name, field, posterior, width, seed=settings.seed)


class FixedWidth:
    """An exploration schedule with the same width in every interval.

    Parameters
    ----------
    width : float
        Width in standard deviations, at least 0.
    """

    def __init__(self, width: float) -> None:
        self._width = width

    def width(self, t: int, observations: int) -> float:
        """Return the fixed width of the bound of `kalman-ucb`, in standard deviations."""
        return self._width


class KalmanUcb(SkippingUpperConfidence):
    """The policy `kalman-ucb`: selects the arm with the highest bound of a `CoursePosterior`."""

    _posterior: CoursePosterior
    learns_rates = True

    def set_time(self, at: float | None) -> None:
        """Set the start of the current interval of `kalman-ucb`, in s since 1970, UTC."""
        self._posterior.set_time(checked_time(at))

    def pass_time(self, seconds: float) -> None:
        """Let `seconds` pass for the model of `kalman-ucb`, while the time of day is unknown."""
        self._posterior.pass_time(checked_duration(seconds))

    def prediction_interval(self, arm: int, share: float) -> tuple[float, float]:
        """Return the two ends of `kalman-ucb`'s prediction interval for a reading of `arm`.

        The reading is within the interval with the probability `share`.
        """
        known = self.prediction(arm)
        std = hypot(known.std, self._posterior.noise_variance**0.5)
        reading = NormalDist(known.mean, std)
        tail = (1.0 - share) / 2.0
        return reading.inv_cdf(tail), reading.inv_cdf(1.0 - tail)
