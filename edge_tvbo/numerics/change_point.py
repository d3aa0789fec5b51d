"""Change-point kernel: compares the likelihood of two means with the likelihood of one mean."""

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array


@kernel("f8(f8[::1], i8)")
def largest_log_ratio(y: Array, n: int) -> float:
    """Return the largest log-likelihood ratio of a change point, times the noise variance.

    The ratio is the likelihood with one mean before and another mean after the change point,
    divided by the likelihood with a single mean.

    Parameters
    ----------
    y : float64[W]
        Readings of one arm, oldest first; only the first `n` are used.
    n : int
        Number of readings; with fewer than 2 the result is 0.

    Notes
    -----
    The result is the maximum over s = 1, ..., n - 1 of s (n - s) / (2 n) · (a - b)², with the mean
    a of the first s readings and the mean b of the remaining readings. For readings with Gaussian
    noise, this is the generalized likelihood ratio of a change after reading s. Source: Besson,
    Kaufmann, Maillard & Seznec 2022, eq. 5, with the Gaussian divergence. The cost is linear in
    `n`.
    """
    total = 0.0
    for i in range(n):
        total += y[i]
    largest = 0.0
    before = 0.0
    for i in range(n - 1):
        before += y[i]
        s = i + 1
        apart = before / s - (total - before) / (n - s)
        ratio = s * (n - s) / (2.0 * n) * apart * apart
        largest = max(largest, ratio)
    return largest
