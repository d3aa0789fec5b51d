"""GP-UCB policies for fields with momentum (MTV) and for fields in transition (TTV)."""

from edge_tvbo.models.arm_space import Field
from edge_tvbo.models.beta import beta_schedule
from edge_tvbo.models.momentum import Momentum
from edge_tvbo.models.posteriors.select import make_fitted_posterior, make_posterior
from edge_tvbo.models.sigmoid import Sigmoid
from edge_tvbo.policy.gp_settings import MtvGpUcbSettings, TtvGpUcbSettings
from edge_tvbo.policy.upper_confidence import SkippingUpperConfidence

INITIAL_MOMENTUM = (0.97, 0.5)  # ε and α from which the first fit of MTV starts
INITIAL_TAU = 100.0  # τ from which the first fit of TTV starts


def make_mtv_gp_ucb(settings: MtvGpUcbSettings, field: Field) -> SkippingUpperConfidence:
    """Build MTV-GP-UCB ([M24] section 8.2) for a field whose changes have momentum.

    With ``epsilon="fitted"``, ε and α are fitted again when readings arrive ([M24] algorithm 3).
    """
    epsilon = settings.epsilon
    if isinstance(epsilon, str):
        start = Momentum(*INITIAL_MOMENTUM)
        posterior = make_fitted_posterior(field, start, settings.window, settings.seed)
    else:
        posterior = make_posterior(field, Momentum(epsilon, settings.alpha), settings.window)
    width = beta_schedule(settings.beta)
    return SkippingUpperConfidence(settings.name, field, posterior, width, seed=settings.seed)


def make_ttv_gp_ucb(settings: TtvGpUcbSettings, field: Field) -> SkippingUpperConfidence:
    """Build TTV-GP-UCB ([M24] section 9.2) for a field that turns into another around interval τ.

    With ``tau="fitted"``, τ and ρ are fitted again when readings arrive ([M24] algorithm 3).
    """
    tau = settings.tau
    if isinstance(tau, str):
        start = Sigmoid(INITIAL_TAU, settings.rho)
        posterior = make_fitted_posterior(field, start, settings.window, settings.seed)
    else:
        posterior = make_posterior(field, Sigmoid(tau, settings.rho), settings.window)
    width = beta_schedule(settings.beta)
    return SkippingUpperConfidence(settings.name, field, posterior, width, seed=settings.seed)
