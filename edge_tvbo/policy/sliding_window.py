"""GP-UCB policies that forget old readings: by a sliding window, by weights or by relevance."""

from math import ceil

from edge_tvbo.models.arm_space import Field
from edge_tvbo.models.beta import AgnosticBeta, beta_schedule
from edge_tvbo.models.posteriors.select import (
    make_posterior,
    make_pruned_posterior,
    make_weighted_posterior,
)
from edge_tvbo.models.temporal_models import Static, TimeVarying
from edge_tvbo.policy.gp_settings import SwGpUcbSettings, WDboSettings, WGpUcbSettings
from edge_tvbo.policy.upper_confidence import SkippingUpperConfidence, UpperConfidence


def make_sw_gp_ucb(settings: SwGpUcbSettings, field: Field) -> SkippingUpperConfidence:
    """Build SW-GP-UCB ([ZS21] algorithm 2), with a sliding window of the newest `window` readings.

    As printed, algorithm 2 has a window of w + 1 readings, from interval t - w to t. The proof of
    theorem 2 has a window of w readings, as here. If `beta` is not given, the width is that of
    `AgnosticBeta.of_noise`, B + R √(2(γ + 1 + ln 1/δ)).
    """
    beta, window = settings.beta, settings.window
    width = AgnosticBeta.of_noise(field, window) if beta is None else beta_schedule(beta)
    posterior = make_posterior(field, Static(), window)
    return SkippingUpperConfidence(settings.name, field, posterior, width, seed=settings.seed)


def make_w_gp_ucb(settings: WGpUcbSettings, field: Field) -> SkippingUpperConfidence:
    """Build W-GP-UCB (Deng et al. 2022; [ET] appendix B): a sliding window of weighted readings.

    A reading that is i intervals old has the weight γ^i, so its noise variance is σ² / γ^i. If
    `beta` is not given, the width is B + R √(2(γ_n + 1 + ln 1/δ)). In this formula, γ_n is the
    information gain of n readings, and n is the smaller of 1/(1 - γ) and `window`.
    """
    gamma, window, beta = settings.gamma, settings.window, settings.beta
    horizon = min(window, ceil(1 / (1 - gamma))) if gamma < 1 else window
    width = AgnosticBeta.of_noise(field, horizon) if beta is None else beta_schedule(beta)
    posterior = make_weighted_posterior(field, window, gamma)
    return SkippingUpperConfidence(settings.name, field, posterior, width, seed=settings.seed)


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
