"""95 % confidence intervals of a mean, from Student's t distribution; means of blocks of time."""

import numpy as np

from edge_tvbo.numerics.types import Array

# 97.5 % quantiles of Student's t with 1, 2, ..., 30 degrees of freedom
T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
NORMAL_975 = 1.959964
BLOCKS = 10  # blocks of time of a recording


def errors_to_half_width(n: int) -> float:
    """Return half the width of a mean's 95 % confidence interval, in standard errors of the mean.

    `n` is the number of samples, at least 2. The result is the 97.5 % quantile of Student's t. If
    `n` is too large for the table `T_975`, the quantile is computed from the normal quantile
    (Abramowitz & Stegun 26.7.5).

    >>> errors_to_half_width(10), round(errors_to_half_width(60), 3)
    (2.262, 2.001)
    """
    z, free = NORMAL_975, n - 1
    if free <= len(T_975):
        return T_975[free - 1]
    return z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)


def half_width(samples: Array) -> Array:
    """Return half the width of the 95 % confidence interval of the mean of `samples` over axis 0.

    The result is NaN if there is a single sample.

    >>> half_width(np.array([1.0, 2.0, 3.0])).round(3).item()
    2.484
    """
    n = len(samples)
    if n == 1:
        return np.full(samples.shape[1:], np.nan)
    return np.asarray(errors_to_half_width(n) * samples.std(axis=0, ddof=1) / n**0.5)


def block_means(curve: Array) -> Array:
    """Return the means of `curve` (T,) in `BLOCKS` blocks of time, for a confidence interval.

    The blocks have nearly the same length.
    """
    return np.array([block.mean() for block in np.array_split(curve, BLOCKS)])
