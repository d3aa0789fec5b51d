"""Policy `auto`: a mixture of models, weighted by how well each model predicted the readings."""

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.beta import DEFAULT_BETA, BetaSchedule, LogBeta, beta_schedule
from edge_tvbo.models.domain import Field
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.mixture import MixturePosterior, candidate_length_scales
from edge_tvbo.models.triggers import Never
from edge_tvbo.policy.base import UpperConfidence
from edge_tvbo.policy.settings import AutoSettings

C2 = 0.4  # c2 of β_t = c1 ln(c2 t); c1 is chosen on the training days


def make_auto(settings: AutoSettings, field: Field) -> "MixturePolicy":
    """Build the policy `auto`: the upper confidence bound of a mixture of models.

    If the field has a daily profile, the models follow the time of day. If, in addition, `beta` is
    not given, the policy uses the exploration that was best on the training days.

    Raises
    ------
    ConfigError
        If the field is a box, or if the length scale is to be learned and the field has no
        positions.
    """
    if not isinstance(field, SensorField):
        raise ConfigError(f"{settings.name} needs sensors or a grid; this field is a box.")
    scales = () if settings.length_scale is None else candidate_length_scales(field)
    posterior = MixturePosterior(field, delta_b=settings.delta_b, scales=scales)
    return MixturePolicy(settings, field, posterior, _width(settings, field))


def _width(settings: AutoSettings, field: SensorField) -> BetaSchedule:
    if settings.beta is not None:
        return beta_schedule(settings.beta)
    profile = field.daily_profile
    return DEFAULT_BETA if profile is None else LogBeta(profile.exploration, C2)


class MixturePolicy(UpperConfidence):
    """The policy `auto`: selects the arm with the highest bound of a `MixturePosterior`.

    The posterior follows the time of day, which `set_time` sets.
    """

    def __init__(
        self,
        settings: AutoSettings,
        field: SensorField,
        posterior: MixturePosterior,
        width: BetaSchedule,
    ) -> None:
        super().__init__(settings.name, field, posterior, width, Never(), seed=settings.seed)
        self._mixture = posterior

    def set_time(self, at: float) -> None:
        """Set the time at which the current interval began, in s since 1970, UTC."""
        self._mixture.set_time(at)

    def prediction_interval(self, arm: int, share: float) -> tuple[float, float]:
        """Return two bounds; with probability `share`, a reading of `arm` now is between them."""
        tail = (1.0 - share) / 2.0
        return self._mixture.quantile(arm, tail), self._mixture.quantile(arm, 1.0 - tail)
