"""Which arm next: upper confidence bounds, and draws that are a function of seed and counter."""

from math import sqrt

from edge_tvbo.numerics.jit import Mask, Vector, int64, kernel, uint64

GOLDEN = 0x9E3779B97F4A7C15


@kernel("i8(i8, i8, i8)")
def draw(seed: int, counter: int, n: int) -> int:
    """Draw from 0..n-1, uniformly: the same answer for the same seed and counter.

    A counter instead of a running state keeps choosing free of side effects, and a restored
    snapshot on the same path. SplitMix64: Steele, Lea & Flood, OOPSLA 2014; the modulo's bias is
    below n / 2⁶³.
    """
    x = uint64(seed) * uint64(0xD1342543DE82EF95) + uint64(counter + 1) * uint64(GOLDEN)
    for _ in range(2):
        x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
        x = x ^ (x >> uint64(31))
    return int64(x >> uint64(1)) % n  # type: ignore[no-any-return]


@kernel("i8(f8[:], f8[:], f8, b1[::1], i8, i8)")
def highest_bound(
    mean: Vector, variance: Vector, width: float, eligible: Mask, seed: int, counter: int
) -> int:
    """Give the eligible arm with the highest mean + width * sqrt(variance); -1 where none is.

    Parameters
    ----------
    mean, variance : float64[M]
        Posterior at the current interval; `variance` may be a diagonal's strided view.
    width : float
        How many standard deviations of optimism, >= 0.
    eligible : bool[M]
        Arms that may be chosen.
    seed, counter : int
        Decide between arms that tie to the last bit, each with the same chance.
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
