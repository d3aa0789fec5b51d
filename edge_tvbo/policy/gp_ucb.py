"""GP-UCB policies on one temporal model that never resets: GP-UCB, IGP-UCB, TV-GP-UCB, UI-TVBO."""

from edge_tvbo.models.beta import AgnosticBeta, ConstantBeta, beta_schedule
from edge_tvbo.models.domain import Field
from edge_tvbo.models.posteriors.select import make_fitted_posterior, make_posterior
from edge_tvbo.models.temporal_models import Static, TimeVarying, UncertaintyInjection
from edge_tvbo.models.triggers import Never
from edge_tvbo.policy.base import UpperConfidence
from edge_tvbo.policy.settings import (
    GpUcbSettings,
    IgpUcbSettings,
    TvGpUcbSettings,
    UiTvboSettings,
)

INITIAL_EPSILON = 0.03  # where the first fit of ε begins
GAIN_READINGS = 1024  # readings after which the information gain is held constant


def make_gp_ucb(settings: GpUcbSettings, field: Field) -> UpperConfidence:
    """Build GP-UCB (Srinivas et al. 2010; [M24] algorithm 1), which takes the field as constant."""
    posterior = make_posterior(field, Static(), settings.window)
    width = beta_schedule(settings.beta)
    return UpperConfidence(settings.name, field, posterior, width, Never(), seed=settings.seed)


def make_igp_ucb(settings: IgpUcbSettings, field: Field) -> UpperConfidence:
    """Build IGP-UCB (Chowdhury & Gopalan 2017; [ET] appendix B), on a field taken as constant.

    Without `beta` the width is B + R √(2(γ + 1 + ln 1/δ)), as in `AgnosticBeta.of_noise`.
    """
    beta = settings.beta
    width = AgnosticBeta.of_noise(field, GAIN_READINGS) if beta is None else beta_schedule(beta)
    posterior = make_posterior(field, Static(), settings.window)
    return UpperConfidence(settings.name, field, posterior, width, Never(), seed=settings.seed)


def make_tv_gp_ucb(settings: TvGpUcbSettings, field: Field) -> UpperConfidence:
    """Build TV-GP-UCB ([B16] algorithm 2), for a field of which a share is new each interval.

    ``epsilon="fitted"`` fits the share to the readings as they arrive ([B16] appendix B,
    eq. 24-25).
    ``beta="least-bound"`` is the constant with the least regret bound of [M24] theorem 4.1.
    """
    epsilon, beta = settings.epsilon, settings.beta
    if isinstance(epsilon, str):
        start = TimeVarying(INITIAL_EPSILON)
        posterior = make_fitted_posterior(field, start, settings.window, settings.seed)
    else:
        posterior = make_posterior(field, TimeVarying(epsilon), settings.window)
        if beta == "least-bound":
            beta = _least_bound_beta(field, epsilon)
    width = beta_schedule(beta)
    return UpperConfidence(settings.name, field, posterior, width, Never(), seed=settings.seed)


def make_ui_tvbo(settings: UiTvboSettings, field: Field) -> UpperConfidence:
    """Build UI-TVBO ([ET] section 6): the variance `sigma_w2` is added in each interval."""
    posterior = make_posterior(field, UncertaintyInjection(settings.sigma_w2), settings.window)
    width = beta_schedule(settings.beta)
    return UpperConfidence(settings.name, field, posterior, width, Never(), seed=settings.seed)


def _least_bound_beta(field: Field, epsilon: float) -> ConstantBeta:
    """Return the β that minimises eq. 4.4 over δ and τ, on a unit box of slope √2/0.2 (SE, l = .2).

    The bound is for a field of variance 1 on a continuous domain; sensors have neither. The
    information gain is that of the actual arms.
    """
    from edge_tvbo.theory import Domain, best_constant_beta, best_varying_gain, greedy_gain

    largest = float(field.kernel.diagonal().max())
    noise_variance = field.noise_variance / largest
    gains = greedy_gain(field, GAIN_READINGS)
    varying = best_varying_gain(GAIN_READINGS, epsilon, gains=gains, noise_variance=noise_variance)
    domain = Domain(2, b1=2**0.5 / 0.2)
    best = best_constant_beta(
        GAIN_READINGS, gain=varying.gain, domain=domain, noise_variance=noise_variance
    )
    return ConstantBeta(best.beta)
