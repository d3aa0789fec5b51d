"""Upper confidence bounds on one temporal model that is never reset: static, TV and UI."""

from edge_tvbo.models.beta import DEFAULT_BETA, AgnosticBeta, Beta, ConstantBeta, beta_schedule
from edge_tvbo.models.domain import Field
from edge_tvbo.models.posteriors.select import make_fitted_posterior, make_posterior
from edge_tvbo.models.temporal_models import (
    Static,
    TemporalModel,
    TimeVarying,
    UncertaintyInjection,
)
from edge_tvbo.models.triggers import Never
from edge_tvbo.policy.base import FITTED, UpperConfidence, number

LEAST_BOUND = "least-bound"
START = 0.03  # where the first fit of ε begins
HORIZON = 1024  # readings after which the information gain is taken to stand still


def static(
    name: str,
    field: Field,
    *,
    window: int | None = None,
    beta: Beta = DEFAULT_BETA,
    seed: int = 0,
) -> UpperConfidence:
    """Give GP-UCB (Srinivas et al. 2010; algorithm 1 of [M24]), which takes the field as fixed.

    `window`, here and below, is for fields of very many arms: only so many readings are held.
    """
    return _unreset(name, field, Static(), window, beta, seed)


def time_varying(
    name: str,
    field: Field,
    *,
    epsilon: float | str = 0.03,
    window: int | None = None,
    beta: Beta = DEFAULT_BETA,
    seed: int = 0,
) -> UpperConfidence:
    """Give TV-GP-UCB ([B16] algorithm 2): a share `epsilon` of the field is new each interval.

    ``epsilon="fitted"`` learns it from the readings as they come ([B16] appendix B, eq. 24-25).
    ``beta="least-bound"`` is the constant for which [M24] theorem 4.1 proves the least.
    """
    if beta == LEAST_BOUND:
        beta = _least_bound(field, number("epsilon", epsilon))
    if epsilon == FITTED:
        posterior = make_fitted_posterior(field, TimeVarying(START), window, seed)
        return UpperConfidence(name, field, posterior, beta_schedule(beta), Never(), seed=seed)
    return _unreset(name, field, TimeVarying(number("epsilon", epsilon)), window, beta, seed)


def uncertainty_injection(
    name: str,
    field: Field,
    *,
    sigma_w2: float = 0.03,
    window: int | None = None,
    beta: Beta = DEFAULT_BETA,
    seed: int = 0,
) -> UpperConfidence:
    """Give UI-TVBO ([ET] section 6): variance `sigma_w2` is added each interval."""
    return _unreset(name, field, UncertaintyInjection(sigma_w2), window, beta, seed)


def agnostic(
    name: str,
    field: Field,
    *,
    window: int | None = None,
    beta: Beta | None = None,
    seed: int = 0,
) -> UpperConfidence:
    """Give IGP-UCB (Chowdhury & Gopalan 2017; [ET] appendix B), which takes the field as fixed.

    Without `beta` the width is B + R√(2(γ + 1 + ln 1/δ)), as in `AgnosticBeta.of_noise`.
    """
    width = AgnosticBeta.of_noise(field, HORIZON) if beta is None else beta_schedule(beta)
    posterior = make_posterior(field, Static(), window)
    return UpperConfidence(name, field, posterior, width, Never(), seed=seed)


def _least_bound(field: Field, epsilon: float) -> ConstantBeta:
    """Give the β that minimises eq. 4.4 over δ and τ, on a unit box of slope √2/0.2 (SE, l = .2).

    The bound is for a field of variance 1 on a continuous domain; sensors have neither. The
    information gain is that of the actual arms.
    """
    from edge_tvbo.theory import Domain, best_constant_beta, best_varying_gain, greedy_gain

    largest = float(field.kernel.diagonal().max())
    noise_variance = field.noise_variance / largest
    gains = greedy_gain(field, HORIZON)
    moving = best_varying_gain(HORIZON, epsilon, gains=gains, noise_variance=noise_variance)
    best = best_constant_beta(
        HORIZON, gain=moving.gain, domain=Domain(2, b1=2**0.5 / 0.2), noise_variance=noise_variance
    )
    return ConstantBeta(best.beta)


def _unreset(
    name: str,
    field: Field,
    temporal: TemporalModel,
    window: int | None,
    beta: Beta,
    seed: int,
) -> UpperConfidence:
    posterior = make_posterior(field, temporal, window)
    return UpperConfidence(name, field, posterior, beta_schedule(beta), Never(), seed=seed)
