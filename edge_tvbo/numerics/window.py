"""Sliding-window posterior kernels: the last W readings as an updated Cholesky factor.

Let y be the readings of the arms x_1..x_n, K̃ the prior covariance in space and time, and σ² the
noise variance. The state consists of the Cholesky factor L of K̃ + σ²I, of V = L⁻¹ K̃(x, all arms)
and of z = L⁻¹ y. Then mean = Vᵀz and variance = prior - Σ V². A new reading appends one row to L;
the entries of this row are already in V. Dropping the oldest reading is one sweep of Givens
rotations. An interval costs O(W² + WM).

The temporal models are those of `state_space`: Cov(f_t, f_s) = retain^((t-s)/2) p_s K for t >= s,
and p_s is the scale of the prior at time s.
"""

from math import sqrt

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array, Int64Array

PANEL_ROWS = 32  # rows of L that `refactor` computes together


@kernel("void(f8[:, ::1], f8[:, ::1], f8[::1], i8, f8[:, ::1], f8, i8, f8, f8)")
def append_reading(
    L: Array,
    V: Array,
    z: Array,
    n: int,
    K: Array,
    prior: float,
    arm: int,
    y: float,
    noise_variance: float,
) -> None:
    """Append one reading to the window's factor as row `n`, in place.

    Parameters
    ----------
    L : float64[W, W], C order
        Rows ``0..n-1`` hold the lower factor, and row ``n`` is written. The caller checks that ``n
        < W``.
    V : float64[W, M], z : float64[W]
        As defined in the module's docstring; row ``n`` is written.
    K : float64[M, M]
        Prior covariance; `prior` is its scale in the current interval.
    arm, y, noise_variance
        Arm that was read, the reading in model units, and its noise variance.

    Notes
    -----
    The cost is nM multiply-adds. In exact arithmetic the squared pivot is at least the noise
    variance; a smaller value, due to rounding, is replaced by the noise variance. Source: Golub &
    Van Loan, *Matrix Computations*, 4th ed., section 4.2. The tests
    compare the kernel with ``NaivePosterior`` in ``tests/support/naive.py``.
    """
    M = K.shape[0]
    rest = prior * K[arm, arm] + noise_variance
    residual = y
    for j in range(M):
        V[n, j] = prior * K[arm, j]
    for i in range(n):
        row = V[i, arm]
        L[n, i] = row
        rest -= row * row
        residual -= row * z[i]
        for j in range(M):
            V[n, j] -= row * V[i, j]
    pivot = sqrt(max(rest, noise_variance))
    L[n, n] = pivot
    z[n] = residual / pivot
    for j in range(M):
        V[n, j] /= pivot


@kernel("void(f8[:, ::1], f8[:, ::1], f8[::1], i8[::1], f8[::1], i8[::1], f8[::1], i8)")
def drop_oldest(
    L: Array,
    V: Array,
    z: Array,
    arms: Int64Array,
    y: Array,
    times: Int64Array,
    priors: Array,
    n: int,
) -> None:
    """Drop the oldest of `n` readings (row 0) from the window's factor, in place.

    Rows ``0..n-2`` remain. `arms`, `y`, `times` and `priors` are as for `refactor`.

    Notes
    -----
    Let l be the first column of L below the pivot, and L' the block to the right of l. Rotations Q
    turn [l | L'] into [0 | L''], and Qᵀ is applied to the rows of V and z. Each rotation is
    orthogonal, so the sweep is backward stable. The sweep takes n² + 2nM multiply-adds. Source:
    Golub & Van Loan, section 6.5.
    """
    M = V.shape[1]
    for k in range(n - 1):
        # column 0 below row k has been rotated k times already
        diagonal = L[k + 1, k + 1]
        below = L[k + 1, 0]
        r = sqrt(diagonal * diagonal + below * below)
        c = diagonal / r
        s = below / r
        for i in range(k + 1, n):
            kept = L[i, k + 1]
            gone = L[i, 0]
            L[i, k + 1] = c * kept + s * gone
            L[i, 0] = c * gone - s * kept
        for j in range(M):
            kept = V[k + 1, j]
            gone = V[0, j]
            V[k + 1, j] = c * kept + s * gone
            V[0, j] = c * gone - s * kept
        kept = z[k + 1]
        gone = z[0]
        z[k + 1] = c * kept + s * gone
        z[0] = c * gone - s * kept
    for k in range(n - 1):
        z[k] = z[k + 1]
        arms[k], y[k], times[k], priors[k] = arms[k + 1], y[k + 1], times[k + 1], priors[k + 1]
        for i in range(k + 1):
            L[k, i] = L[k + 1, i + 1]
        for j in range(M):
            V[k, j] = V[k + 1, j]


@kernel("void(f8[:, ::1], f8, i8)")
def evolve(V: Array, retain: float, n: int) -> None:
    """Advance the window's factor by one interval: multiply all of V by sqrt(`retain`)."""
    shrink = sqrt(retain)
    for i in range(n):
        for j in range(V.shape[1]):
            V[i, j] *= shrink


@kernel("void(f8[:, ::1], f8[::1], i8, f8[:, ::1], f8, f8[::1], f8[::1])")
def predict(
    V: Array, z: Array, n: int, K: Array, prior: float, mean: Array, variance: Array
) -> None:
    """Fill `mean` and `variance` (float64[M]) of all arms given the readings in the window.

    This is algorithm 2.1 of Rasmussen & Williams; V and z already hold the solutions of the
    triangular systems.
    """
    for j in range(mean.shape[0]):
        mean[j] = 0.0
        variance[j] = prior * K[j, j]
    for i in range(n):
        for j in range(mean.shape[0]):
            mean[j] += V[i, j] * z[i]
            variance[j] -= V[i, j] * V[i, j]
    for j in range(mean.shape[0]):
        variance[j] = max(variance[j], 0.0)


@kernel(
    "void(f8[:, ::1], f8[:, ::1], f8[::1], i8, f8[:, ::1],"
    " i8[::1], f8[::1], i8[::1], f8[::1], i8, f8, f8, f8[:, ::1])"
)
def refactor(
    L: Array,
    V: Array,
    z: Array,
    n: int,
    K: Array,
    arms: Int64Array,
    y: Array,
    times: Int64Array,
    priors: Array,
    now: int,
    retain: float,
    noise_variance: float,
    panel: Array,
) -> None:
    """Recompute the window's L, V and z from its `n` readings, to remove rounding errors.

    Parameters
    ----------
    arms, y, times, priors : int64[W], float64[W], int64[W], float64[W]
        Arm, value and interval of each reading, and the scale of the prior in that interval. The
        oldest reading comes first.
    now : int
        The current interval.
    panel : float64[W, B], C order
        Workspace for the B rows of L that are computed together; `PANEL_ROWS` is a good B. The
        results do not depend on B.

    Notes
    -----
    The kernel takes n³/6 + n²M/2 multiply-adds. Each of the B rows is a column of `panel`, so that
    the innermost loop runs over adjacent numbers. Each pass of the loop subtracts four terms. For a
    large window, the kernel takes a quarter of the time of a row-wise factorization. Both subtract
    the terms in the same order, so their results are equal to the last bit.
    """
    M = K.shape[0]
    for first in range(0, n, panel.shape[1]):
        last = min(first + panel.shape[1], n)
        for i in range(last):
            above = max(i + 1, first)
            for r in range(above, last):
                fade = priors[i] * retain ** (0.5 * (times[r] - times[i]))
                panel[i, r - first] = fade * K[arms[r], arms[i]]
            in_fours = i - i % 4
            for k in range(0, in_fours, 4):
                l0, l1, l2, l3 = L[i, k], L[i, k + 1], L[i, k + 2], L[i, k + 3]
                for r in range(above - first, last - first):
                    s = panel[i, r] - panel[k, r] * l0
                    s -= panel[k + 1, r] * l1
                    s -= panel[k + 2, r] * l2
                    panel[i, r] = s - panel[k + 3, r] * l3
            for k in range(in_fours, i):
                for r in range(above - first, last - first):
                    panel[i, r] -= panel[k, r] * L[i, k]
            if i >= first:
                rest = priors[i] * K[arms[i], arms[i]] + noise_variance
                for k in range(i):
                    rest -= L[i, k] * L[i, k]
                L[i, i] = sqrt(max(rest, noise_variance))
            for r in range(above, last):
                panel[i, r - first] /= L[i, i]
                L[r, i] = panel[i, r - first]
    for r in range(n):
        z[r] = y[r]
        fade = priors[r] * retain ** (0.5 * (now - times[r]))
        for j in range(M):
            V[r, j] = fade * K[arms[r], j]
        for i in range(r):
            z[r] -= L[r, i] * z[i]
            for j in range(M):
                V[r, j] -= L[r, i] * V[i, j]
        z[r] /= L[r, r]
        for j in range(M):
            V[r, j] /= L[r, r]


@kernel("void(f8[:, ::1], f8[:, ::1], f8[::1], i8, f8[::1], f8[:, ::1], f8[::1], f8[::1])")
def relevance(
    L: Array,
    V: Array,
    z: Array,
    n: int,
    mean: Array,
    gains: Array,
    column: Array,
    found: Array,
) -> None:
    """Compute each reading's relevance: how much predictions change if the window drops it.

    Parameters
    ----------
    L, V, z, n
        As defined in the module's docstring.
    mean : float64[M]
        Posterior mean of all arms at the current interval, as filled by `predict`.
    gains : float64[W, M], column : float64[W]
        Workspace.
    found : float64[W]
        Receives the relevance of each reading, >= 0. If no reading influences the predictions of
        the current interval, the relevance of every reading is 0.

    Notes
    -----
    `models.posteriors.pruned.relevance` states the formula and defines P and F. In terms of the
    factor L, P = L⁻ᵀ L⁻¹, so P y = L⁻ᵀ z and P F = L⁻ᵀ V. The cost is n³/6 + n²M/2 multiply-adds.
    """
    M = V.shape[1]
    largest = 0.0
    for i in range(n):
        for j in range(M):
            largest = max(largest, abs(V[i, j]))
    if largest == 0.0:
        found[:n] = 0.0
        return
    for i in range(n):
        found[i] = 0.0  # P_ii, from column i of L⁻¹
        for k in range(i, n):
            x = 1.0 if k == i else 0.0
            for m in range(i, k):
                x -= L[k, m] * column[m]
            column[k] = x / L[k, k]
            found[i] += column[k] * column[k]
    whole = 0.0
    for j in range(M):
        whole += (mean[j] / largest) ** 2
    for r in range(n):
        i = n - 1 - r
        alpha = z[i]
        for j in range(M):
            gains[i, j] = V[i, j] / largest
            whole += gains[i, j] * gains[i, j]
        for k in range(i + 1, n):
            alpha -= L[k, i] * column[k]
            for j in range(M):
                gains[i, j] -= L[k, i] * gains[k, j]
        alpha /= L[i, i]
        column[i] = alpha
        gain = 0.0
        for j in range(M):
            gains[i, j] /= L[i, i]
            gain += gains[i, j] * gains[i, j]
        found[i] = gain * (alpha * alpha / found[i] + 1.0) / found[i]
    for i in range(n):
        found[i] = sqrt(found[i] / whole)
