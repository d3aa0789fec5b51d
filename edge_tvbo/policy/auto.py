"""The policy that is told nothing: a mixture of models, weighed by how well they foresee."""

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.beta import DEFAULT_BETA, Beta, LogBeta, beta_schedule
from edge_tvbo.models.domain import Field
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.mixture import MixturePosterior, candidate_length_scales
from edge_tvbo.models.triggers import Never
from edge_tvbo.policy.base import UpperConfidence

C2 = 0.4  # of β_t = c1 ln(c2 t), whose c1 the training days chose


def mixture(
    name: str,
    field: Field,
    *,
    delta_b: float = 0.1,
    length_scale: str | None = None,
    beta: Beta | None = None,
    seed: int = 0,
) -> "Automatic":
    """Give the upper confidence bound of a mixture of models, static and changing.

    It needs no rate of change and no reset times. Where training days taught the field a rhythm,
    it goes by the time of day, and explores as much as would have been best on those days, unless
    `beta` says otherwise. `delta_b` is of the event trigger that its static model has.
    ``length_scale="learned"`` also tries how fast the field changes in space, where nothing but
    positions is known: the field's kernel and rhythm are left aside then, but for its variance.
    """
    if not isinstance(field, SensorField):
        raise ConfigError(f"{name} wants sensors or a grid; a box has no fixed size.")
    if beta is None:
        rhythm = field.daily_profile
        beta = DEFAULT_BETA if rhythm is None else LogBeta(rhythm.exploration, C2)
    if length_scale not in (None, "learned"):
        raise ConfigError(f'length_scale is {length_scale!r}; for {name} it can be "learned".')
    scales = candidate_length_scales(field) if length_scale else ()
    posterior = MixturePosterior(field, delta_b=delta_b, scales=scales)
    return Automatic(name, field, posterior, beta, seed)


class Automatic(UpperConfidence):
    """Acts on a `MixturePosterior`, and can say which model moves it."""

    def __init__(
        self, name: str, field: SensorField, posterior: MixturePosterior, beta: Beta, seed: int
    ) -> None:
        super().__init__(name, field, posterior, beta_schedule(beta), Never(), seed=seed)
        self._mixture = posterior

    def set_time(self, at: float) -> None:
        """Say when the current interval began, s since 1970, UTC."""
        self._mixture.set_time(at)

    def interval(self, arm: int, share: float) -> tuple[float, float]:
        """Give the bounds between which a reading of `arm` now lies with probability `share`."""
        tail = (1.0 - share) / 2.0
        return self._mixture.quantile(arm, tail), self._mixture.quantile(arm, 1.0 - tail)
