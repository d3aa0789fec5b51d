"""GP-UCB policies that forget by age: on the newest readings (SW), or with decaying weights (W)."""

from math import ceil

from edge_tvbo.models.beta import AgnosticBeta, beta_schedule
from edge_tvbo.models.domain import Field
from edge_tvbo.models.posteriors.select import make_posterior, make_weighted_posterior
from edge_tvbo.models.temporal_models import Static
from edge_tvbo.models.triggers import Never
from edge_tvbo.policy.base import UpperConfidence
from edge_tvbo.policy.settings import SwGpUcbSettings, WGpUcbSettings


def make_sw_gp_ucb(settings: SwGpUcbSettings, field: Field) -> UpperConfidence:
    """Build SW-GP-UCB ([ZS21] algorithm 2), which keeps the newest `window` readings.

    Without `beta` the width is B + R √(2(γ + 1 + ln 1/δ)), as in `AgnosticBeta.of_noise`.
    """
    beta, window = settings.beta, settings.window
    width = AgnosticBeta.of_noise(field, window) if beta is None else beta_schedule(beta)
    posterior = make_posterior(field, Static(), window)
    return UpperConfidence(settings.name, field, posterior, width, Never(), seed=settings.seed)


def make_w_gp_ucb(settings: WGpUcbSettings, field: Field) -> UpperConfidence:
    """Build W-GP-UCB (Deng et al. 2022; [ET] appendix B), where old readings have less weight.

    A reading i intervals old has the weight γ^i, which is the noise variance σ² / γ^i. Without
    `beta` the width is B + R √(2(γ_n + 1 + ln 1/δ)), with the information gain γ_n of
    1/(1 - γ) readings, `window` at most.
    """
    gamma, window, beta = settings.gamma, settings.window, settings.beta
    horizon = min(window, ceil(1 / (1 - gamma))) if gamma < 1 else window
    width = AgnosticBeta.of_noise(field, horizon) if beta is None else beta_schedule(beta)
    posterior = make_weighted_posterior(field, window, gamma)
    return UpperConfidence(settings.name, field, posterior, width, Never(), seed=settings.seed)
