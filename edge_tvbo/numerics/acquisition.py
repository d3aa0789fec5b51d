"""Acquisition: the arm with the highest upper confidence bound, the runner-up, and random draws.

Between a reading and the next decision, the daemon calls these kernels instead of numpy's
functions. On a processor that has just woken up, the first call of a numpy function takes as long
as a whole kernel.
"""

from math import sqrt

from edge_tvbo.numerics.jit import int64, kernel, uint64
from edge_tvbo.numerics.types import Array, Mask

GOLDEN = 0x9E3779B97F4A7C15


@kernel("i8(i8, i8, i8)")
def draw(seed: int, counter: int, n: int) -> int:
    """Return a reproducible random integer from 0 to n - 1, by which acquisition breaks ties.

    The integers are uniformly distributed. Random policies use them, too.

    Parameters
    ----------
    seed, counter : int
        Equal pairs give equal draws. Draws of different counters are independent.
    n : int
        Number of outcomes, 1 or more.

    Notes
    -----
    The generator is SplitMix64 (Steele, Lea & Flood, OOPSLA 2014). The bias of the modulo is below
    n / 2⁶³. The draw depends on a counter and not on a generator's running state. So choosing an
    arm has no side effect, and a restored snapshot continues with the same draws.
    """
    x = uint64(seed) * uint64(0xD1342543DE82EF95) + uint64(counter + 1) * uint64(GOLDEN)
    for _ in range(2):
        x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
        x = x ^ (x >> uint64(31))
    return int64(x >> uint64(1)) % n  # type: ignore[no-any-return]  # numba has no types


@kernel("i8(f8[:], f8[:], f8, b1[::1], i8, i8)")
def highest_bound(
    mean: Array, variance: Array, width: float, eligible: Mask, seed: int, counter: int
) -> int:
    """Return the eligible arm with the highest mean + width · sqrt(variance), or -1.

    Parameters
    ----------
    mean, variance : float64[M]
        Posterior at the current interval; `variance` may be a strided view of a diagonal.
    width : float
        Width of the confidence bound in standard deviations, >= 0.
    eligible : bool[M]
        Arms that may be chosen; the result is -1 if no arm is eligible.
    seed, counter : int
        Seed and counter of the draw that breaks ties: if the bounds of several arms are equal to
        the last bit, each of these arms is chosen with equal probability.
    """
    best = -1
    highest = 0.0
    ties = 0
    for i in range(mean.shape[0]):
        if eligible[i]:
            bound = mean[i] + width * sqrt(variance[i])
            if best < 0 or bound > highest:
                best = i
                highest = bound
                ties = 1
            elif bound == highest:
                ties += 1
    if ties < 2:
        return best
    skip = draw(seed, counter, ties)
    for i in range(best, mean.shape[0]):
        if eligible[i] and mean[i] + width * sqrt(variance[i]) == highest:
            if skip == 0:
                return i
            skip -= 1
    return best


@kernel("i8(f8[:], f8[:], f8, b1[::1], i8)")
def runner_up(mean: Array, std: Array, width: float, eligible: Mask, selected: int) -> int:
    """Return the eligible arm other than `selected` with the highest mean + width · std, or -1.

    Parameters
    ----------
    mean, std : float64[M]
        Posterior at the current interval.
    width : float
        Width of the confidence bound in standard deviations, >= 0.
    eligible : bool[M]
        Arms that may be chosen.
    selected : int
        The selected arm. The result is -1 if no other arm is eligible; ties go to the first arm.
    """
    best = -1
    highest = 0.0
    for i in range(mean.shape[0]):
        if eligible[i] and i != selected:
            bound = mean[i] + width * std[i]
            if best < 0 or bound > highest:
                best = i
                highest = bound
    return best


@kernel("void(f8[:], f8[::1])")
def standard_deviations(variance: Array, std: Array) -> None:
    """Fill `std` with the square roots of `variance`, both float64[M], for acquisition.

    Parameters
    ----------
    variance : float64[M]
        Posterior variances, not negative; the array may be a strided view of a diagonal.
    std : float64[M]
        Receives the standard deviations.
    """
    for i in range(variance.shape[0]):
        std[i] = sqrt(variance[i])
