"""W-DBO: GP-UCB that removes the readings that are least relevant to future predictions."""

from edge_tvbo.models.beta import beta_schedule
from edge_tvbo.models.domain import Field
from edge_tvbo.models.posteriors.select import make_pruned_posterior
from edge_tvbo.models.temporal_models import TimeVarying
from edge_tvbo.models.triggers import Never
from edge_tvbo.policy.base import UpperConfidence
from edge_tvbo.policy.wdbo_settings import WDboSettings


def make_w_dbo(settings: WDboSettings, field: Field) -> UpperConfidence:
    """Build W-DBO, GP-UCB that removes stale readings (Bardou, Thiran & Ranieri 2024).

    The model is that of TV-GP-UCB. `PrunedPosterior` describes how ε and α determine which readings
    are removed. The paper fits length scales, variance and noise in each interval. Here, the field
    provides the kernel, ε is a parameter, the width is defined as for the other policies, and the
    arms are sensors.
    """
    kernel = TimeVarying(settings.epsilon)
    posterior = make_pruned_posterior(field, kernel, settings.window, settings.alpha)
    width = beta_schedule(settings.beta)
    return UpperConfidence(settings.name, field, posterior, width, Never(), seed=settings.seed)
