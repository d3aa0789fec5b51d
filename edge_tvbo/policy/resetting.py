"""Upper confidence bounds on a static model that begins anew: by the clock, or by evidence."""

from typing import Literal

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.beta import DEFAULT_BETA, AgnosticBeta, Beta, beta_schedule
from edge_tvbo.models.domain import Field
from edge_tvbo.models.posteriors.select import make_posterior
from edge_tvbo.models.temporal_models import Static
from edge_tvbo.models.triggers import ErrorBound, EveryPeriod, LikelihoodRatio, Trigger
from edge_tvbo.policy.base import UpperConfidence


def periodic(
    name: str,
    field: Field,
    *,
    period: int = 15,
    window: int | None = None,
    beta: Beta = DEFAULT_BETA,
    seed: int = 0,
) -> UpperConfidence:
    """Give R-GP-UCB ([B16] algorithm 1), which forgets everything every `period` intervals.

    The reset comes before the choice, which is then made from the prior.
    """
    return UpperConfidence(
        name,
        field,
        make_posterior(field, Static(), window),
        beta_schedule(beta),
        EveryPeriod(period),
        seed=seed,
    )


def agnostic(
    name: str,
    field: Field,
    *,
    period: int = 15,
    window: int | None = None,
    beta: Beta | None = None,
    seed: int = 0,
) -> UpperConfidence:
    """Give BR-GP-UCB, the R-GP-UCB of [ZS21] (algorithm 1), which restarts every `period`.

    Without `beta` the width is B + R√(2(γ + 1 + ln 1/δ)), as in `AgnosticBeta.of_noise`.
    """
    width = AgnosticBeta.of_noise(field, period) if beta is None else beta_schedule(beta)
    posterior = make_posterior(field, Static(), window)
    return UpperConfidence(name, field, posterior, width, EveryPeriod(period), seed=seed)


def event_triggered(
    name: str,
    field: Field,
    *,
    delta_b: float = 0.1,
    n_lower: int = 1,
    n_upper: int | None = None,
    noise_cap: int | None = None,
    trigger: Literal["error-bound", "likelihood-ratio"] = "error-bound",
    keep_last: bool = True,
    window: int | None = None,
    beta: Beta = DEFAULT_BETA,
    seed: int = 0,
) -> UpperConfidence:
    """Give ET-GP-UCB ([ET] algorithm 1), which forgets when an answer contradicts the model.

    `delta_b`, `n_lower`, `n_upper` and `noise_cap` are those of `ErrorBound`, the paper's trigger;
    ``"likelihood-ratio"`` is `LikelihoodRatio`, which has no noise to cap. `keep_last` begins
    the new model with the reading that fired, as algorithm 1 is printed; the paper's table 1 is
    met without it.
    """
    return UpperConfidence(
        name,
        field,
        make_posterior(field, Static(), window),
        beta_schedule(beta),
        _evidence(trigger, field.noise_variance, delta_b, n_lower, n_upper, noise_cap),
        keep_last=keep_last,
        seed=seed,
    )


def _evidence(
    trigger: str,
    noise_variance: float,
    delta_b: float,
    n_lower: int,
    n_upper: int | None,
    noise_cap: int | None,
) -> Trigger:
    match trigger:
        case "error-bound":
            return ErrorBound(noise_variance, delta_b, n_lower, n_upper, noise_cap)
        case "likelihood-ratio" if noise_cap is None:
            return LikelihoodRatio(noise_variance, delta_b, n_lower, n_upper)
        case "likelihood-ratio":
            raise ConfigError("noise_cap belongs to the trigger error-bound; leave it out.")
    raise ConfigError(f'trigger is {trigger!r}; it can be "error-bound" or "likelihood-ratio".')
