"""Optimal designs: arm probabilities that maximise information gain minus mean cost."""

import numpy as np

from edge_tvbo.errors import ConfigError
from edge_tvbo.numerics.optimal_design import exchange
from edge_tvbo.numerics.types import Array

TOLERANCE = 1e-3  # allowed distance of the objective from its maximum, in nats
MOVES_PER_ARM = 20  # moves for each arm before `response` removes the rounding errors
MAX_ROUNDS = 5
MAX_ARMS = 512  # largest number of arms; a design of 512 arms takes seconds


def check_design_size(policy: str, arms: int) -> None:
    """Raise `ConfigError` if the field has too many arms for a policy with optimal designs."""
    if arms > MAX_ARMS:
        raise ConfigError(
            f"{policy} computes designs of all arms and accepts at most {MAX_ARMS} arms; this "
            f"field has {arms}. Choose another policy, such as glr-gp-ucb."
        )


def optimal_design(kernel: Array, cost: Array, ridge: float) -> Array:
    """Return the optimal design: the arm probabilities p_a that maximise an objective.

    The objective is an information gain minus the expected cost:
    ln det(Σ p_a φ_a φ_aᵀ + λ I) - Σ p_a cost_a. The matrix `kernel` holds the inner products of the
    features φ_a.

    Parameters
    ----------
    kernel : (M, M) array
        Covariance of the arms.
    cost : (M,) array
        Cost of each arm, at least 0.
    ridge : float
        λ, above 0.

    Returns
    -------
    (M,) array
        Probabilities of the arms. The search stops when the objective is within `TOLERANCE` of the
        maximum, or after 100 M moves of probability from one arm to another.

    References
    ----------
    Hong, Li & Tewari 2023, optimization problem (OP), which they solve by an interior-point method.
    """
    M = len(kernel)
    p = np.full(M, 1.0 / M)
    for _ in range(MAX_ROUNDS):
        rest = exchange(response(kernel, p, ridge), p, cost, TOLERANCE, MOVES_PER_ARM * M)
        p /= p.sum()
        if rest <= TOLERANCE:
            break
    return p


def response(kernel: Array, p: Array, ridge: float) -> Array:
    """Return φ_aᵀ (Σ p_c φ_c φ_cᵀ + λ I)⁻¹ φ_b for all arms a and b, an array of shape (M, M).

    The design `p` holds the probability p_a of each arm a. `kernel` holds the inner products of the
    arms' features φ_a. λ is `ridge`.
    """
    root = np.sqrt(p)
    rows = root[:, None] * kernel
    system = rows * root
    system[np.diag_indices(len(p))] += ridge
    A = (kernel - rows.T @ np.linalg.solve(system, rows)) / ridge
    return np.ascontiguousarray((A + A.T) / 2.0)


def information(kernel: Array, p: Array, ridge: float) -> float:
    """Return the information of a design in nats, ½ ln det(I + Σ p_a φ_a φ_aᵀ / λ).

    The arguments are those of `response`.
    """
    root = np.sqrt(p)
    system = root[:, None] * kernel * root / ridge
    system[np.diag_indices(len(p))] += 1.0
    return 0.5 * float(np.linalg.slogdet(system)[1])
