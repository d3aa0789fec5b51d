"""Upper confidence bounds on a static model that begins anew: by the clock, or by evidence."""

from edge_tvbo.model.exploration import DEFAULT_BETA, AgnosticBeta, Beta, exploration
from edge_tvbo.model.field import SensorField
from edge_tvbo.model.posterior import StateSpacePosterior
from edge_tvbo.model.temporal import Static
from edge_tvbo.model.triggers import ErrorBound, EveryPeriod
from edge_tvbo.policies.policy import UpperConfidence


def periodic(
    name: str, field: SensorField, *, period: int = 15, beta: Beta = DEFAULT_BETA, seed: int = 0
) -> UpperConfidence:
    """Give R-GP-UCB ([B16] algorithm 1), which forgets everything every `period` intervals.

    The reset comes before the choice, which is then made from the prior.
    """
    return UpperConfidence(
        name,
        field,
        StateSpacePosterior(field, Static()),
        exploration(beta),
        EveryPeriod(period),
        seed=seed,
    )


def agnostic(
    name: str,
    field: SensorField,
    *,
    period: int = 15,
    beta: Beta | None = None,
    seed: int = 0,
) -> UpperConfidence:
    """Give BR-GP-UCB, the R-GP-UCB of [ZS21] (algorithm 1), which restarts every `period`.

    Without `beta` the width is B + R√(2(γ + 1 + ln 1/δ)), as in `AgnosticBeta.of_noise`.
    """
    width = AgnosticBeta.of_noise(field, period) if beta is None else exploration(beta)
    posterior = StateSpacePosterior(field, Static())
    return UpperConfidence(name, field, posterior, width, EveryPeriod(period), seed=seed)


def event_triggered(
    name: str,
    field: SensorField,
    *,
    delta_b: float = 0.1,
    n_lower: int = 1,
    n_upper: int | None = None,
    noise_cap: int | None = None,
    keep_last: bool = True,
    beta: Beta = DEFAULT_BETA,
    seed: int = 0,
) -> UpperConfidence:
    """Give ET-GP-UCB ([ET] algorithm 1), which forgets when an answer contradicts the model.

    `delta_b`, `n_lower`, `n_upper` and `noise_cap` are those of `ErrorBound`. `keep_last` begins
    the new model with the reading that fired, as algorithm 1 is printed; the paper's table 1 is
    met without it.
    """
    return UpperConfidence(
        name,
        field,
        StateSpacePosterior(field, Static()),
        exploration(beta),
        ErrorBound(field.noise_variance, delta_b, n_lower, n_upper, noise_cap),
        keep_last=keep_last,
        seed=seed,
    )
