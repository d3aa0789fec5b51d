"""GP-UCB policies with one temporal model and no resets: GP-UCB, IGP-UCB, TV-GP-UCB, UI-TVBO."""

from edge_tvbo.models.arm_space import Field
from edge_tvbo.models.beta import AgnosticBeta, ConstantBeta, beta_schedule
from edge_tvbo.models.posteriors.select import make_fitted_posterior, make_posterior
from edge_tvbo.models.temporal_models import Static, TimeVarying, UncertaintyInjection
from edge_tvbo.policy.gp_settings import (
    GpUcbSettings,
    IgpUcbSettings,
    TvGpUcbSettings,
    UiTvboSettings,
)
from edge_tvbo.policy.upper_confidence import SkippingUpperConfidence

INITIAL_EPSILON = 0.03  # ε from which the first fit starts
GAIN_READINGS = 1024  # number of readings after which the information gain is constant


def make_gp_ucb(settings: GpUcbSettings, field: Field) -> SkippingUpperConfidence:
    """Build GP-UCB (Srinivas et al. 2010; [M24] algorithm 1), which assumes a static field."""
    posterior = make_posterior(field, Static(), settings.window)
    width = beta_schedule(settings.beta)
    return SkippingUpperConfidence(settings.name, field, posterior, width, seed=settings.seed)


def make_igp_ucb(settings: IgpUcbSettings, field: Field) -> SkippingUpperConfidence:
    """Build IGP-UCB (Chowdhury & Gopalan 2017; [ET] appendix B), which assumes a static field.

    If `beta` is not given, the width is that of `AgnosticBeta.of_noise`,
    B + R √(2(γ + 1 + ln 1/δ)). After `GAIN_READINGS` readings, γ is constant here, but not in the
    paper. From then on, the width may be too small for the confidence bound of the paper.
    """
    beta = settings.beta
    width = AgnosticBeta.of_noise(field, GAIN_READINGS) if beta is None else beta_schedule(beta)
    posterior = make_posterior(field, Static(), settings.window)
    return SkippingUpperConfidence(settings.name, field, posterior, width, seed=settings.seed)


def make_tv_gp_ucb(settings: TvGpUcbSettings, field: Field) -> SkippingUpperConfidence:
    """Build TV-GP-UCB ([B16] algorithm 2), for a field that changes in every interval.

    In each interval, a share ε of the field is replaced by a new random field. With
    ``epsilon="fitted"``, ε is fitted again when readings arrive ([B16] appendix B, eq. 24-25). With
    ``beta="least-bound"``, β is the constant for which [M24] theorem 4.1 gives the smallest regret
    bound.
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
    return SkippingUpperConfidence(settings.name, field, posterior, width, seed=settings.seed)


def make_ui_tvbo(settings: UiTvboSettings, field: Field) -> SkippingUpperConfidence:
    """Build UI-TVBO, GP-UCB whose prior variance grows in each interval.

    The variance grows by `sigma_w2`, in units of the prior variance at the start. Sources:
    Brunzema, von Rohr & Trimpe 2022; [ET] section 6.
    """
    posterior = make_posterior(field, UncertaintyInjection(settings.sigma_w2), settings.window)
    width = beta_schedule(settings.beta)
    return SkippingUpperConfidence(settings.name, field, posterior, width, seed=settings.seed)


def _least_bound_beta(field: Field, epsilon: float) -> ConstantBeta:
    """Return the constant β for which TV-GP-UCB has the smallest regret bound ([M24] eq. 4.4).

    In this bound, β is a function of δ and τ; the bound is minimised over δ and τ. The bound
    applies to a field of variance 1 on a continuous domain. A sensor field has no such domain, so a
    unit box is assumed, with the Lipschitz constant √2/0.2 of a squared exponential kernel of
    length scale 0.2. The bound on the information gain is computed for the actual arms: it is the
    smallest bound over several block lengths. If blocks of one interval have the smallest bound, β
    does not depend on ε.
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
