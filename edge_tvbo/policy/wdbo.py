"""Upper confidence bounds on the readings that are still relevant."""

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.beta import DEFAULT_BETA, Beta, beta_schedule
from edge_tvbo.models.domain import Field
from edge_tvbo.models.posteriors.select import make_pruned_posterior
from edge_tvbo.models.temporal_models import TimeVarying
from edge_tvbo.models.triggers import Never
from edge_tvbo.policy.base import UpperConfidence


def wasserstein(
    name: str,
    field: Field,
    *,
    epsilon: float = 0.03,
    alpha: float = 0.25,
    window: int = 128,
    beta: Beta = DEFAULT_BETA,
    seed: int = 0,
) -> UpperConfidence:
    """Give GP-UCB that removes stale readings as W-DBO does (Bardou, Thiran & Ranieri 2024).

    A share `epsilon` of the field is new each interval, as for TV-GP-UCB, and `alpha` is how much
    the removals may change what is foreseen: `PrunedPosterior` says how both decide which readings
    stay, at most `window`. Unlike the paper's, the kernel is the field's and `epsilon` is given,
    where the authors fit length scales, variance and noise anew in each interval; the width is that
    of the other policies here, and arms are sensors.
    """
    if isinstance(epsilon, str | bool):  # as other policies' may be
        raise ConfigError(f"epsilon is {epsilon!r}; for {name} it can be a number, below 1.")
    posterior = make_pruned_posterior(field, TimeVarying(epsilon), window, alpha)
    return UpperConfidence(name, field, posterior, beta_schedule(beta), Never(), seed=seed)
