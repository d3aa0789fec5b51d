"""Upper confidence bounds on fields with momentum, and on fields in transition."""

from edge_tvbo.model.exploration import DEFAULT_BETA, Beta, exploration
from edge_tvbo.model.field import SensorField
from edge_tvbo.model.pair import Momentum, PairPosterior, Sigmoid
from edge_tvbo.model.triggers import Never
from edge_tvbo.policies.policy import UpperConfidence


def momentum(
    name: str,
    field: SensorField,
    *,
    epsilon: float = 0.95,
    alpha: float = 0.9,
    beta: Beta = DEFAULT_BETA,
    seed: int = 0,
) -> UpperConfidence:
    """Give MTV-GP-UCB ([M24] section 8.2): changes go on for a while.

    `epsilon` is what is left of the field after an interval, `alpha` of its momentum.
    """
    posterior = PairPosterior(field, Momentum(epsilon, alpha))
    return UpperConfidence(name, field, posterior, exploration(beta), Never(), seed=seed)


def transition(
    name: str,
    field: SensorField,
    *,
    tau: float = 100.0,
    rho: float = 20.0,
    beta: Beta = DEFAULT_BETA,
    seed: int = 0,
) -> UpperConfidence:
    """Give TTV-GP-UCB ([M24] section 9.2): around interval `tau` one field turns into another."""
    posterior = PairPosterior(field, Sigmoid(tau, rho))
    return UpperConfidence(name, field, posterior, exploration(beta), Never(), seed=seed)
