"""GP-UCB policies with a static model that is reset by a schedule or by an event trigger."""

from edge_tvbo.models.arm_space import Field
from edge_tvbo.models.beta import AgnosticBeta, beta_schedule
from edge_tvbo.models.posteriors.select import make_posterior
from edge_tvbo.models.temporal_models import Static
from edge_tvbo.models.triggers import ErrorBound, EveryPeriod, LikelihoodRatio, Trigger
from edge_tvbo.policy.gp_settings import BrGpUcbSettings, EtGpUcbSettings, RGpUcbSettings
from edge_tvbo.policy.upper_confidence import SkippingUpperConfidence


def make_r_gp_ucb(settings: RGpUcbSettings, field: Field) -> SkippingUpperConfidence:
    """Build R-GP-UCB ([B16] algorithm 1), which discards all readings every `period` intervals.

    In an interval with a reset, the reset takes place before the arm is selected, so that this
    selection depends only on the prior.
    """
    posterior = make_posterior(field, Static(), settings.window)
    width, trigger = beta_schedule(settings.beta), EveryPeriod(settings.period)
    return SkippingUpperConfidence(
        settings.name, field, posterior, width, trigger, seed=settings.seed
    )


def make_br_gp_ucb(settings: BrGpUcbSettings, field: Field) -> SkippingUpperConfidence:
    """Build BR-GP-UCB, which is reset every `period` intervals: all readings are discarded.

    [ZS21] algorithm 1 calls this policy R-GP-UCB. If `beta` is not given, the width is that of
    `AgnosticBeta.of_noise`, B + R √(2(γ + 1 + ln 1/δ)).
    """
    beta, trigger = settings.beta, EveryPeriod(settings.period)
    width = AgnosticBeta.of_noise(field, settings.period) if beta is None else beta_schedule(beta)
    posterior = make_posterior(field, Static(), settings.window)
    return SkippingUpperConfidence(
        settings.name, field, posterior, width, trigger, seed=settings.seed
    )


def make_et_gp_ucb(settings: EtGpUcbSettings, field: Field) -> SkippingUpperConfidence:
    """Build ET-GP-UCB ([ET] algorithm 1), which resets when a reply contradicts the model.

    The setting `trigger` selects the test: `ErrorBound`, which the paper uses, or
    `LikelihoodRatio`.
    """
    return SkippingUpperConfidence(
        settings.name,
        field,
        make_posterior(field, Static(), settings.window),
        beta_schedule(settings.beta),
        _event_trigger(settings, field.noise_variance),
        keep_last=settings.keep_last,
        seed=settings.seed,
    )


def _event_trigger(settings: EtGpUcbSettings, noise_variance: float) -> Trigger:
    bounds = settings.delta_b, settings.n_lower, settings.n_upper
    if settings.trigger == "likelihood-ratio":
        return LikelihoodRatio(noise_variance, *bounds)
    return ErrorBound(noise_variance, *bounds, settings.noise_cap)
