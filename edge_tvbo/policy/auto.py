"""Policy `auto`: learns course, season and rates of change from the readings."""

from math import exp
from typing import Protocol

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.beta import DEFAULT_BETA, BetaSchedule, beta_schedule
from edge_tvbo.models.domain import Field
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.base import Posterior
from edge_tvbo.models.snapshot import decode_snapshot, read_bytes
from edge_tvbo.models.triggers import Never
from edge_tvbo.numerics.types import Mask
from edge_tvbo.policy.auto_settings import AutoSettings
from edge_tvbo.policy.base import Choice, UpperConfidence

FIRST_WIDTH, LAST_WIDTH = 1.0, 0.5  # of the bound, without readings and with many
NEXT_WIDTH = 3.0  # of the bound, for the other sensors of an interval with several activations
LEARNED_AFTER = 100.0  # readings of each sensor, after which 1/e of the difference is left
MAX_TURNS = 3  # readings of each sensor, after which the sensors no longer take turns
TURN_WIDTH = 1e6  # selects the sensor about which least is known


def make_auto(settings: AutoSettings, field: Field) -> "AutoPolicy":
    """Build the policy `auto`.

    If the field has a structural model, the posterior is that of this model. Otherwise it is a
    mixture of models that count time in intervals.

    Raises
    ------
    ConfigError
        If the field is a box, or if the length scale is to be learned and the field has no
        positions.
    """
    if not isinstance(field, SensorField):
        raise ConfigError(f"{settings.name} needs sensors or a grid; this field is a box.")
    if settings.length_scale is None and field.structure is not None:
        from edge_tvbo.models.posteriors.structural import StructuralPosterior

        width = LearningWidth(len(field), field.structure.rows)
        return AutoPolicy(settings, field, StructuralPosterior(field), width)
    from edge_tvbo.models.posteriors.mixture import MixturePosterior, candidate_length_scales

    scales = () if settings.length_scale is None else candidate_length_scales(field)
    posterior = MixturePosterior(field, delta_b=settings.delta_b, scales=scales)
    return AutoPolicy(settings, field, posterior, DEFAULT_BETA)


class LearningPosterior(Posterior, Protocol):
    """A posterior that the policy `auto` can use."""

    @property
    def in_first_half_season(self) -> bool:
        """Whether there are no training rows, and half a season has not passed yet."""
        ...

    def set_time(self, at: float) -> None:
        """Set the time at which the current interval began, in s since 1970, UTC."""
        ...

    def quantile(self, arm: int, share: float) -> float:
        """Return the value below which a reading of `arm` lies with the probability `share`."""
        ...

    def restore_sensors(self, blob: bytes) -> int:
        """Load what a snapshot says about sensors of the same names; return their number."""
        ...


class LearningWidth:
    """A bound that becomes narrower with the number of readings that the policy has learned from.

    Parameters
    ----------
    sensors : int
        Number of sensors, M.
    rows : int
        Number of training rows, each with a reading of every sensor.

    Examples
    --------
    >>> width = LearningWidth(sensors=10, rows=0)
    >>> [round(width.width(1, readings), 2) for readings in (0, 1000, 10_000)]
    [1.0, 0.68, 0.5]
    """

    def __init__(self, sensors: int, rows: int) -> None:
        self._sensors = sensors
        self._rows = rows

    def width(self, t: int, observations: int) -> float:
        """Return the width of the bound in standard deviations, from 1 down to 0.5."""
        learned = exp(-(self._rows + observations / self._sensors) / LEARNED_AFTER)
        return LAST_WIDTH + (FIRST_WIDTH - LAST_WIDTH) * learned


class AutoPolicy(UpperConfidence):
    """The policy `auto`: selects the arm with the highest bound of a learning posterior.

    In the first half season without training readings, the sensors take turns. If an interval has
    several activations, the first sensor is selected as in an interval with one activation. The
    others have wide bounds: their readings show which sensors the model underestimates.
    """

    learns_rates = True

    def __init__(
        self,
        settings: AutoSettings,
        field: SensorField,
        posterior: LearningPosterior,
        width: BetaSchedule,
    ) -> None:
        beta = width if settings.beta is None else beta_schedule(settings.beta)
        super().__init__(settings.name, field, posterior, beta, Never(), seed=settings.seed)
        self._learned = posterior
        self._next_width = NEXT_WIDTH if isinstance(beta, LearningWidth) else None

    def set_time(self, at: float) -> None:
        """Set the time at which the current interval began, in s since 1970, UTC."""
        self._learned.set_time(at)

    def restore_sensors(self, blob: bytes) -> int:
        """Load what a snapshot says about sensors of the same names; return their number."""
        state = decode_snapshot(self.name, None, blob)
        return self._learned.restore_sensors(read_bytes(state, "posterior"))

    def prediction_interval(self, arm: int, share: float) -> tuple[float, float]:
        """Return two bounds; with probability `share`, a reading of `arm` now is between them."""
        tail = (1.0 - share) / 2.0
        return self._learned.quantile(arm, tail), self._learned.quantile(arm, 1.0 - tail)

    def _best_choice(self, eligible: Mask) -> Choice | None:
        if not self._takes_turns():
            return super()._best_choice(eligible)
        unknown = self._learned.highest(TURN_WIDTH, eligible, self._seed, self._events)
        return None if unknown is None else self._choice(unknown)

    def _width(self) -> float:
        if self._replies and self._next_width is not None:
            return self._next_width
        return super()._width()

    def _takes_turns(self) -> bool:
        is_new = self._learned.in_first_half_season
        return is_new and self.observations < MAX_TURNS * len(self._all_arms)
