"""Optimal design kernel: moves probability between arms until the design is nearly optimal."""

from math import sqrt

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array


@kernel("void(f8[:, ::1], i8, f8)")
def _add(A: Array, arm: int, amount: float) -> None:
    """Update the matrix `A` of the design after the probability of `arm` grew by `amount`."""
    M = A.shape[0]
    share = amount / (1.0 + amount * A[arm, arm])
    for a in range(M):
        if a != arm:
            moved = share * A[a, arm]
            for b in range(M):
                if b != arm:
                    A[a, b] -= moved * A[arm, b]
    rest = 1.0 - share * A[arm, arm]
    for b in range(M):
        A[arm, b] *= rest
        if b != arm:
            A[b, arm] = A[arm, b]


@kernel("f8(f8[:, ::1], f8[::1], f8[::1], f8, i8)")
def exchange(A: Array, p: Array, cost: Array, tolerance: float, steps: int) -> float:
    """Improve the design `p`, and return how far its objective can be below the maximum.

    The objective is ln det(Σ p_a φ_a φ_aᵀ + λ I) - Σ p_a cost_a, where φ_a are the features of arm
    a, and λ is a number above 0.

    Parameters
    ----------
    A : float64[M, M]
        φ_aᵀ (Σ p_c φ_c φ_cᵀ + λ I)⁻¹ φ_b for each pair of arms a and b; `A` changes together with
        `p`.
    p : float64[M]
        Probabilities of the arms, which are changed in place; their sum stays the same.
    cost : float64[M]
        Cost of each arm.
    tolerance : float
        The kernel stops as soon as the objective is at most this far below its maximum.
    steps : int
        Largest number of moves.

    Notes
    -----
    Each move shifts probability from the arm with the smallest derivative A_aa - cost_a to the arm
    with the largest derivative. The amount is optimal for these two arms (vertex exchange, Böhning
    1986). Because the objective is concave, its distance from the maximum is at most the largest
    derivative minus the mean derivative under `p`. A move costs 2 M² multiply-adds.
    """
    M = p.shape[0]
    gap = 0.0
    for step in range(steps + 1):
        best, worst, mean = 0, -1, 0.0
        for a in range(M):
            derivative = A[a, a] - cost[a]
            mean += p[a] * derivative
            if derivative > A[best, best] - cost[best]:
                best = a
            if p[a] > 0.0 and (worst < 0 or derivative < A[worst, worst] - cost[worst]):
                worst = a
        gap = A[best, best] - cost[best] - mean
        if gap <= tolerance or step == steps:
            break
        more = A[best, best] - A[worst, worst]
        dearer = cost[best] - cost[worst]
        curvature = A[best, best] * A[worst, worst] - A[best, worst] * A[best, worst]
        # At the best amount s, the derivative of
        # ln(1 + `more` s - `curvature` s²) - `dearer` s is 0.
        half = 2.0 * curvature + dearer * more
        root = half * half - 4.0 * dearer * curvature * (more - dearer)
        amount = p[worst]
        if root >= 0.0 and half + sqrt(root) > 0.0:
            amount = min(amount, 2.0 * (more - dearer) / (half + sqrt(root)))
        p[best] += amount
        p[worst] = max(p[worst] - amount, 0.0)
        _add(A, best, amount)
        _add(A, worst, -amount)
    return gap
