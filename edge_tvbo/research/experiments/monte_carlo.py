"""Compiled runs of the policies that reset a static model, for experiments with very many runs.

Every choice is that of `policy.resetting` on a `WindowPosterior`. The kernel calls no kernel of
another file, because numba's cache would not notice when that one changes.
"""

from math import log, pi, sqrt

from numba import int64, uint64

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array, Int64Array


@kernel(
    "i8(f8[:, ::1], f8[::1], f8[:, ::1], f8, f8[::1], i8, i8, i8, f8, b1, i8,"
    " f8[:, ::1], f8[::1], f8[::1], f8[::1], f8[::1], i8[::1])"
)
def run_resetting_policy(
    truth: Array,
    noise: Array,
    K: Array,
    noise_variance: float,
    widths: Array,
    period: int,
    n_lower: int,
    n_upper: int,
    delta_b: float,
    keep_last: bool,
    seed: int,
    V: Array,
    mean: Array,
    variance: Array,
    bound: Array,
    regret: Array,
    ages: Int64Array,
) -> int:
    """Run a policy on `truth` for T intervals; return the number of resets by the event trigger.

    Parameters
    ----------
    truth : float64[T, M], noise : float64[T]
        True values, and the noise of the readings.
    K : float64[M, M], noise_variance : float
        Prior covariance, and the variance of a reading's noise.
    widths : float64[T]
        √β_t.
    period : int
        Intervals between periodic resets, before the choice ([B16] algorithm 1); 0 for never.
    n_lower, n_upper, delta_b, keep_last
        The event trigger of [ET] algorithm 1; `n_upper` = 0 for none.
    seed : int
        Breaks ties between arms, as `acquisition.highest_bound` does.
    V : float64[T, M], mean, variance, bound : float64[M]
        Workspace.
    regret : float64[T], ages : int64[T]
        Output: r_t, and t' of each reset by the event trigger, in order.

    Notes
    -----
    nM multiply-adds an interval with n readings since the last reset.
    """
    T, M = truth.shape
    n = 0
    age = 0
    resets = 0
    for j in range(M):
        mean[j] = 0.0
        variance[j] = K[j, j]
    for t in range(T):
        if period > 0 and t > 0 and t % period == 0:
            n = 0
            for j in range(M):
                mean[j] = 0.0
                variance[j] = K[j, j]
        # select: mean + √β_t std, ties broken at random
        for j in range(M):
            bound[j] = mean[j] + widths[t] * sqrt(max(variance[j], 0.0))
        arm = 0
        ties = 1
        for j in range(1, M):
            if bound[j] > bound[arm]:
                arm = j
                ties = 1
            elif bound[j] == bound[arm]:
                ties += 1
        if ties > 1:
            x = uint64(seed) * uint64(0xD1342543DE82EF95)
            x += uint64(2 * t + 1) * uint64(0x9E3779B97F4A7C15)
            for _ in range(2):
                x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
                x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
                x = x ^ (x >> uint64(31))
            skip = int64(x >> uint64(1)) % ties
            highest = bound[arm]
            while skip > 0:
                arm += 1
                if bound[arm] == highest:
                    skip -= 1
        best = truth[t, 0]
        for j in range(1, M):
            best = max(best, truth[t, j])
        regret[t] = best - truth[t, arm]
        y = truth[t, arm] + noise[t]
        # event trigger: [ET] lemma 3, with the posterior before y
        stale = False
        if n_upper > 0:
            age += 1
            union = log(pi**2 * age * age / (3.0 * delta_b))
            threshold = sqrt(2.0 * union) * sqrt(max(variance[arm], 0.0))
            threshold += sqrt(2.0 * noise_variance * union)
            stale = (abs(y - mean[arm]) > threshold and age >= n_lower) or age == n_upper
            if stale:
                ages[resets] = age
                resets += 1
                age = 0
                n = 0
                for j in range(M):
                    mean[j] = 0.0
                    variance[j] = K[j, j]
        if stale and not keep_last:
            continue
        # update: one more row of V = L⁻¹ K(x, .), as in `window.append`
        rest = K[arm, arm] + noise_variance
        residual = y
        for j in range(M):
            V[n, j] = K[arm, j]
        for i in range(n):
            row = V[i, arm]
            rest -= row * row
            for j in range(M):
                V[n, j] -= row * V[i, j]
        residual = y - mean[arm]
        pivot = sqrt(max(rest, noise_variance))
        z = residual / pivot
        for j in range(M):
            V[n, j] /= pivot
            mean[j] += V[n, j] * z
            variance[j] -= V[n, j] * V[n, j]
        n += 1
    return resets
