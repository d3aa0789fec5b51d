"""Upper confidence bounds on the last readings alone, or on them before others."""

from math import ceil

from edge_tvbo.models.beta import AgnosticBeta, Beta, beta_schedule
from edge_tvbo.models.domain import Field
from edge_tvbo.models.posteriors.select import make_posterior, make_weighted_posterior
from edge_tvbo.models.temporal_models import Static
from edge_tvbo.models.triggers import Never
from edge_tvbo.policy.base import UpperConfidence


def sliding_window(
    name: str,
    field: Field,
    *,
    window: int = 32,
    beta: Beta | None = None,
    seed: int = 0,
) -> UpperConfidence:
    """Give SW-GP-UCB ([ZS21] algorithm 2), which remembers the last `window` readings.

    Without `beta` the width is B + R√(2(γ + 1 + ln 1/δ)), as in `AgnosticBeta.of_noise`.
    """
    width = AgnosticBeta.of_noise(field, window) if beta is None else beta_schedule(beta)
    posterior = make_posterior(field, Static(), window)
    return UpperConfidence(name, field, posterior, width, Never(), seed=seed)


def weighted(
    name: str,
    field: Field,
    *,
    gamma: float = 0.95,
    window: int = 128,
    beta: Beta | None = None,
    seed: int = 0,
) -> UpperConfidence:
    """Give W-GP-UCB (Deng et al. 2022; [ET] appendix B), to which old readings count for less.

    A reading i intervals old has the weight `gamma`^i, which is to say the noise σ² / `gamma`^i.
    Of the last `window` ones; without `beta` the width is B + R√(2(γ + 1 + ln 1/δ)), with the
    information of 1/(1 - `gamma`) readings.
    """
    posterior = make_weighted_posterior(field, window, gamma)
    horizon = min(window, ceil(1 / (1 - gamma))) if gamma < 1 else window
    width = AgnosticBeta.of_noise(field, horizon) if beta is None else beta_schedule(beta)
    return UpperConfidence(name, field, posterior, width, Never(), seed=seed)
