"""Policy `auto`: learns the level and the season of each sensor, and how much the field varies."""

from math import exp
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.arm_space import Arm, Field
from edge_tvbo.models.beta import DEFAULT_BETA, BetaSchedule, beta_schedule
from edge_tvbo.models.facts import LeastKnown
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.base import SkippingPosterior
from edge_tvbo.models.posteriors.select import MAX_EXACT_SENSORS
from edge_tvbo.models.snapshot import State, decode_snapshot, read_bytes, read_count, read_names
from edge_tvbo.numerics.types import Mask
from edge_tvbo.policy.argument_checks import checked_duration, checked_time
from edge_tvbo.policy.auto_settings import AutoSettings
from edge_tvbo.policy.base import Choice, ObserveResult
from edge_tvbo.policy.upper_confidence import SkippingUpperConfidence

# Widths of the bound mean + width · std.
LAST_WIDTH = 0.5  # width after many readings
# Pairs (w, n): after n readings per sensor, the extra width w has decreased to w/e.
EXTRA_WIDTHS = (2.5, 1.0), (0.5, 100.0)
NEXT_WIDTH = 3.0  # width for the second and further sensors that are selected in an interval
MAX_TURNS = 3  # mean number of readings per sensor after which the sensors no longer take turns
TURN_WIDTH = 1e6  # so wide that the sensor with the largest standard deviation is selected
UNREAD_WIDTH = 3.0  # smallest width for a sensor that was never read


def make_auto(settings: AutoSettings, field: Field) -> "AutoPolicy":
    """Build the policy `auto`.

    The posterior is a `MixturePosterior` if the length scale is to be learned, or if the field has
    no structural model. Otherwise, the posterior is a `StructuralPosterior`.

    Raises
    ------
    ConfigError
        If the field is a box; or if the length scale is to be learned, and the field has no
        positions or more than `MAX_EXACT_SENSORS` sensors.
    """
    if not isinstance(field, SensorField):
        raise ConfigError(
            f"{settings.name} needs a field of sensors or of a grid; this field is a BoxField."
        )
    if settings.length_scale is None and field.structure is not None:
        from edge_tvbo.models.posteriors.structural import StructuralPosterior

        width = LearningWidth(len(field), field.structure.rows)
        return AutoPolicy(settings, field, StructuralPosterior(field), width)
    if settings.length_scale is not None and len(field) > MAX_EXACT_SENSORS:
        raise ConfigError(
            f'{settings.name} with length_scale = "learned" keeps 20 models of all sensors and '
            f"accepts at most {MAX_EXACT_SENSORS} sensors; this field has {len(field)}. Remove "
            "length_scale, or choose another policy, such as lb-gp-ucb."
        )
    from edge_tvbo.models.posteriors.mixture import MixturePosterior, candidate_length_scales

    scales = () if settings.length_scale is None else candidate_length_scales(field)
    posterior = MixturePosterior(field, delta_b=settings.delta_b, scales=scales)
    return AutoPolicy(settings, field, posterior, DEFAULT_BETA)


class LearningPosterior(SkippingPosterior, Protocol):
    """Protocol of the posteriors that the policy `auto` can use."""

    @property
    def in_first_half_day(self) -> bool:
        """Whether `auto` is untrained, has a season, and has run for less than half a day."""
        ...

    def set_time(self, at: float | None) -> None:
        """Set the start of the current interval for `auto`'s posterior, in s since 1970, UTC."""
        ...

    def pass_time(self, seconds: float) -> None:
        """Let `seconds` pass for `auto`'s posterior, while the time of day is unknown."""
        ...

    def quantile(self, arm: int, share: float) -> float:
        """Return a quantile of `auto`'s posterior for a reading of `arm`.

        The reading is below the quantile with the probability `share`.
        """
        ...

    def hallucinate(self, arm: int, y: float) -> None:
        """Update `auto`'s mean and variance as if `arm` had replied y; keep all parameters."""
        ...

    def restore_sensors(self, blob: bytes) -> list[int]:
        """Load the state of each sensor that both this field and a snapshot of `auto` contain.

        Return the indices of these sensors in this field.
        """
        ...


class LearningWidth:
    """Width of `auto`'s confidence bound: the bound becomes narrower with each reading.

    Parameters
    ----------
    sensors : int
        Number of sensors, M.
    rows : int
        Number of training rows, each with a reading of every sensor.

    Examples
    --------
    >>> width = LearningWidth(sensors=10, rows=0)
    >>> [round(width.width(1, readings), 2) for readings in (0, 30, 1000, 10_000)]
    [3.5, 1.11, 0.68, 0.5]
    """

    def __init__(self, sensors: int, rows: int) -> None:
        self._sensors = sensors
        self._rows = rows

    def width(self, t: int, observations: int) -> float:
        """Return the width of `auto`'s bound, which falls from 3.5 to 0.5 standard deviations."""
        readings = self._rows + observations / self._sensors
        return LAST_WIDTH + sum(extra * exp(-readings / n) for extra, n in EXTRA_WIDTHS)


class AutoPolicy(SkippingUpperConfidence):
    """The policy `auto`: selects the arm with the highest bound, and learns from the readings.

    There are three exceptions to the selection by the highest bound. The second and the third apply
    only to a structural model, and only if the parameter `beta` is not set:

    - Without training readings, the sensors take turns in the first half day. The reason: each
      sensor may be the hottest one at another time of day.
    - The bound of a sensor that was never read has at least the width `UNREAD_WIDTH`, because the
      prior says little about how much the sensors differ.
    - If several sensors are selected in an interval, the second and all further sensors are
      selected by bounds of the width `NEXT_WIDTH`. The readings of these sensors show whether the
      model underestimates the sensors.
    """

    _posterior: LearningPosterior
    learns_rates = True
    skips_gaps = True  # as in all older versions of `auto` that have `skip`

    def __init__(
        self,
        settings: AutoSettings,
        field: SensorField,
        posterior: LearningPosterior,
        width: BetaSchedule,
    ) -> None:
        beta = width if settings.beta is None else beta_schedule(settings.beta)
        super().__init__(settings.name, field, posterior, beta, seed=settings.seed)
        self._sensors = field.sensors
        self._learns_width = isinstance(beta, LearningWidth)
        is_trained = field.structure is not None and field.structure.rows > 0
        self._starts_unread = isinstance(width, LearningWidth) and not is_trained
        self._explores = self._starts_unread and self._learns_width
        self._read = np.full(len(field), not self._starts_unread)  # sensors with a reading

    def set_time(self, at: float | None) -> None:
        """Set the start of the current interval of `auto`, in s since 1970, UTC."""
        self._posterior.set_time(checked_time(at))

    def pass_time(self, seconds: float) -> None:
        """Let `seconds` pass for the posterior of `auto`, while the time of day is unknown."""
        self._posterior.pass_time(checked_duration(seconds))

    def observe(self, arm: Arm, y: float) -> ObserveResult:
        """Update the posterior of `auto` with a reading `y` of `arm`, in model units."""
        result = super().observe(arm, y)
        self._read[arm] = True
        return result

    def reset(self) -> None:
        """Reset the policy `auto`: discard all readings."""
        super().reset()
        self._read[:] = not self._starts_unread

    def restore_sensors(self, blob: bytes) -> int:
        """Load this field's sensors from a snapshot of `auto`; return how many were loaded.

        If any sensor was loaded, the number of ended intervals is loaded, too, because the width of
        the bound can depend on this number.
        """
        state = decode_snapshot(self.name, None, blob)
        read, time = self._read_in(state), read_count(state, "time")
        known = self._posterior.restore_sensors(read_bytes(state, "posterior"))
        if known:
            self._time = time
        if known and self._starts_unread:
            self._read[:] = False
            self._read[known] = read[known]
        return len(known)

    def prediction_interval(self, arm: int, share: float) -> tuple[float, float]:
        """Return the two ends of `auto`'s prediction interval for a reading of `arm`.

        The reading is within the interval with the probability `share`.
        """
        tail = (1.0 - share) / 2.0
        return self._posterior.quantile(arm, tail), self._posterior.quantile(arm, 1.0 - tail)

    def _hallucinate(self, choice: Choice) -> None:
        self._posterior.hallucinate(choice.arm, choice.mean)

    def _best_choice(self, eligible: Mask) -> Choice | None:
        width = self._width()
        if self._takes_turns():
            unknown = self._posterior.highest(TURN_WIDTH, eligible, self._seed, self._events)
            if unknown is None:
                return None
            choice = self._choice(unknown, width)
            return replace(choice, same_width=False, turn=LeastKnown())
        if not self._explores or self._read.all():
            return self._highest(eligible, width)
        best = self._highest(eligible & self._read, width)
        unread = self._highest(eligible & ~self._read, max(width, UNREAD_WIDTH))
        if unread is None:
            return best
        if best is None or best.ucb < unread.ucb:
            return replace(unread, same_width=False, unread=True)
        return replace(best, same_width=False)

    def _takes_turns(self) -> bool:
        is_new = self._posterior.in_first_half_day
        return is_new and self.observations < MAX_TURNS * len(self._all_arms)

    def _width(self) -> float:
        return NEXT_WIDTH if self._replies and self._learns_width else super()._width()

    def _state(self) -> State:
        state = super()._state()
        if not self._read.all():
            state["unread"] = [self._sensors[arm] for arm in np.flatnonzero(~self._read)]
        return state

    def _load(self, state: State) -> None:
        read = self._read_in(state)
        super()._load(state)
        self._read[:] = read

    def _read_in(self, state: State) -> Mask:
        """Return the mask of the sensors that were read, (M,), from a state of `auto`.

        The state can contain a list of the sensors that were never read. Without the list, all
        sensors count as read: the list is left out if all sensors were read, and in some snapshots
        of old versions.
        """
        unread = read_names(state, "unread") if "unread" in state else []
        return np.array([sensor not in unread for sensor in self._sensors])
