"""Compiled runs of policies that reset a static model, for experiments with very many runs.

The selected arms are the same as those of `policy.resetting` with a `WindowPosterior`. The compiled
function calls no compiled function of another file, because numba's cache does not notice a change
in that other file.
"""

from math import log, pi, sqrt

from numba import int64, uint64

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array, Int64Array


@kernel("i8(f8[::1], i8, i8, i8, i8)")
def break_tie(bound: Array, arm: int, ties: int, seed: int, t: int) -> int:
    """Draw one of the arms that share the highest bound in a compiled Monte Carlo run.

    Parameters
    ----------
    bound : float64[M]
        Upper confidence bounds.
    arm, ties : int
        The first arm with the highest bound, and the number of such arms.
    seed, t : int
        Seed of the draws and number of the interval, as in `acquisition.highest_bound`.
    """
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
    return arm


@kernel("f8(f8, f8, i8, f8)")
def error_bound(variance: float, noise_variance: float, age: int, delta_b: float) -> float:
    """Return the largest error that causes no reset in a compiled Monte Carlo run ([ET] lemma 3).

    `variance` is the posterior variance of the arm before the reading. `age` is t', the number of
    readings since the last reset, including the present reading. `delta_b` is δ_B, the parameter
    of the event trigger.
    """
    union = log(pi**2 * age * age / (3.0 * delta_b))
    threshold = sqrt(2.0 * union) * sqrt(max(variance, 0.0))
    return threshold + sqrt(2.0 * noise_variance * union)


@kernel("void(f8[::1], f8[::1], f8[:, ::1])")
def reset_model(mean: Array, variance: Array, K: Array) -> None:
    """Replace the posterior mean and variance, both float64[M], by those of the prior.

    `K`, float64[M, M], is the prior covariance.
    """
    for j in range(len(mean)):
        mean[j] = 0.0
        variance[j] = K[j, j]


@kernel("i8(f8[::1], f8[::1], f8, f8[::1], i8, i8)")
def select_arm(mean: Array, variance: Array, width: float, bound: Array, seed: int, t: int) -> int:
    """Return the arm with the highest upper confidence bound in a compiled Monte Carlo run.

    `bound`, float64[M], is overwritten with the bounds. `width` is √β_t; see `break_tie` for `seed`
    and `t`.
    """
    M = len(mean)
    for j in range(M):
        bound[j] = mean[j] + width * sqrt(max(variance[j], 0.0))
    arm = 0
    ties = 1
    for j in range(1, M):
        if bound[j] > bound[arm]:
            arm = j
            ties = 1
        elif bound[j] == bound[arm]:
            ties += 1
    return break_tie(bound, arm, ties, seed, t) if ties > 1 else arm


@kernel("void(f8[:, ::1], i8, f8[::1], f8[::1], f8[:, ::1], f8, i8, f8)")
def add_reading(
    V: Array,
    n: int,
    mean: Array,
    variance: Array,
    K: Array,
    noise_variance: float,
    arm: int,
    y: float,
) -> None:
    """Append a row to V = L⁻¹ K(x, .), and update the model, as in `window.append_reading`.

    `V`, float64[T, M], has `n` rows before the call. `y` is the reading of the place `arm`. `mean`
    and `variance`, both float64[M], are those of the posterior. `K`, float64[M, M], is the prior
    covariance.
    """
    M = len(mean)
    rest = K[arm, arm] + noise_variance
    for j in range(M):
        V[n, j] = K[arm, j]
    for i in range(n):
        row = V[i, arm]
        rest -= row * row
        for j in range(M):
            V[n, j] -= row * V[i, j]
    pivot = sqrt(max(rest, noise_variance))
    z = (y - mean[arm]) / pivot
    for j in range(M):
        V[n, j] /= pivot
        mean[j] += V[n, j] * z
        variance[j] -= V[n, j] * V[n, j]


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
    """Run a resetting policy in compiled code; return the number of event-triggered resets.

    Parameters
    ----------
    truth : float64[T, M], noise : float64[T]
        True values, and the noise of the readings.
    K : float64[M, M], noise_variance : float
        Prior covariance, and the variance of a reading's noise.
    widths : float64[T]
        √β_t, width of the confidence bound.
    period : int
        Number of intervals between periodic resets; 0 if there are no periodic resets. A periodic
        reset takes place before the selection of an arm ([B16] algorithm 1).
    n_lower, n_upper, delta_b, keep_last
        Settings of the event trigger of [ET] algorithm 1; without a trigger, `n_upper` is 0.
    seed : int
        Seed of the draws that break ties between arms, as in `acquisition.highest_bound`.
    V : float64[T, M], mean, variance, bound : float64[M]
        Work arrays, which are overwritten.
    regret : float64[T], ages : int64[T]
        Outputs. `regret` is the regret r_t of each interval. `ages` has a value for each reset by
        the event trigger: the number of intervals since the trigger's previous reset, or since the
        start of the run.

    Notes
    -----
    An interval with n readings since the last reset takes nM multiply-adds.
    """
    n = 0
    age = 0
    resets = 0
    reset_model(mean, variance, K)
    for t in range(len(truth)):
        if period > 0 and t > 0 and t % period == 0:
            n = 0
            reset_model(mean, variance, K)
        arm = select_arm(mean, variance, widths[t], bound, seed, t)
        regret[t] = truth[t].max() - truth[t, arm]
        y = truth[t, arm] + noise[t]
        if n_upper > 0:
            age += 1
            threshold = error_bound(variance[arm], noise_variance, age, delta_b)
            if (abs(y - mean[arm]) > threshold and age >= n_lower) or age == n_upper:
                ages[resets] = age
                resets += 1
                age = 0
                n = 0
                reset_model(mean, variance, K)
                if not keep_last:
                    continue
        add_reading(V, n, mean, variance, K, noise_variance, arm, y)
        n += 1
    return resets
