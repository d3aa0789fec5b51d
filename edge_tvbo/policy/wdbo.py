"""W-DBO: GP-UCB that removes the readings that are least relevant to future predictions."""

from edge_tvbo.models.arm_space import Field
from edge_tvbo.models.beta import beta_schedule
from edge_tvbo.models.posteriors.select import make_pruned_posterior
from edge_tvbo.models.temporal_models import TimeVarying
from edge_tvbo.policy.upper_confidence import UpperConfidence
from edge_tvbo.policy.wdbo_settings import WDboSettings


def make_w_dbo(settings: WDboSettings, field: Field) -> UpperConfidence:
    """Build W-DBO, GP-UCB that removes stale readings (Bardou, Thiran & Ranieri 2024).

    The model is that of TV-GP-UCB, with the field's kernel and noise. `PrunedPosterior` describes
    how ε and α determine which readings are removed. If the field is a box with length scales to be
    fitted, `FittedPrunedPosterior` also fits ε, the variance and the noise, as in the paper. The
    width of the bound is defined as for the other policies.
    """
    kernel = TimeVarying(settings.epsilon)
    posterior = make_pruned_posterior(field, kernel, settings.window, settings.alpha)
    width = beta_schedule(settings.beta)
    return UpperConfidence(settings.name, field, posterior, width, seed=settings.seed)
