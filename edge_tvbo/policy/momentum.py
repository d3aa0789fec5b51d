"""Upper confidence bounds on fields with momentum, and on fields in transition."""

from edge_tvbo.models.beta import DEFAULT_BETA, Beta, beta_schedule
from edge_tvbo.models.domain import Field
from edge_tvbo.models.posteriors.select import make_fitted_posterior, make_posterior
from edge_tvbo.models.temporal_models import Momentum, Sigmoid
from edge_tvbo.models.triggers import Never
from edge_tvbo.policy.base import FITTED, UpperConfidence, number

START = (0.97, 0.5)  # where the first fit of MTV begins: ε, α
TURN = 100.0  # and of TTV: τ


def momentum(
    name: str,
    field: Field,
    *,
    epsilon: float | str = 0.95,
    alpha: float = 0.9,
    window: int | None = None,
    beta: Beta = DEFAULT_BETA,
    seed: int = 0,
) -> UpperConfidence:
    """Give MTV-GP-UCB ([M24] section 8.2): changes go on for a while.

    `epsilon` is what is left of the field after an interval, `alpha` of its momentum.
    ``epsilon="fitted"`` learns both from the readings as they come ([M24] algorithm 3).
    """
    posterior = (
        make_fitted_posterior(field, Momentum(*START), window, seed)
        if epsilon == FITTED
        else make_posterior(field, Momentum(number("epsilon", epsilon), alpha), window)
    )
    return UpperConfidence(name, field, posterior, beta_schedule(beta), Never(), seed=seed)


def transition(
    name: str,
    field: Field,
    *,
    tau: float | str = 100.0,
    rho: float = 20.0,
    window: int | None = None,
    beta: Beta = DEFAULT_BETA,
    seed: int = 0,
) -> UpperConfidence:
    """Give TTV-GP-UCB ([M24] section 9.2): around interval `tau` one field turns into another.

    ``tau="fitted"`` learns `tau` and `rho` from the readings as they come ([M24] algorithm 3).
    """
    posterior = (
        make_fitted_posterior(field, Sigmoid(TURN, rho), window, seed)
        if tau == FITTED
        else make_posterior(field, Sigmoid(number("tau", tau), rho), window)
    )
    return UpperConfidence(name, field, posterior, beta_schedule(beta), Never(), seed=seed)
