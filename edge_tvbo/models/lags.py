"""Functions of the lag between two times, from which temporal kernels are built."""

from collections.abc import Callable

import numpy as np

from edge_tvbo.numerics.types import Array

MIN_LAGS_FOR_TABLE = 500  # fewer lags are computed one by one, which is faster than a table


def over_lags(function: Callable[[Array], Array], s: Array, t: Array) -> Array:
    """Return the values of `function` at the lags |s_i - t_j|, (..., n, m).

    `function` maps lags (L,) to values (..., L). If all times are whole numbers, many lags are
    equal, and `function` is computed only once for each different lag. For consecutive times,
    `function` is computed for at most n + m lags instead of n·m.
    """
    s, t = np.asarray(s, np.float64), np.asarray(t, np.float64)
    many = len(s) * len(t) > MIN_LAGS_FOR_TABLE
    whole = many and bool((s == np.floor(s)).all() and (t == np.floor(t)).all())
    if whole and (longest := _longest_lag(s, t)) < len(s) * len(t):
        steps = np.subtract.outer(s.astype(np.intp), t.astype(np.intp))
        table = function(np.arange(longest + 1.0))
        return table.take(np.abs(steps, out=steps), axis=-1, mode="clip")
    lags = np.abs(np.subtract.outer(s, t))
    values = function(lags.ravel())
    return values.reshape(*values.shape[:-1], *lags.shape)


def _longest_lag(s: Array, t: Array) -> float:
    """Return the largest lag |s_i - t_j|, or 0 if there are no times, in O(n + m) steps."""
    if len(s) == 0 or len(t) == 0:
        return 0.0
    return float(max(s.max() - t.min(), t.max() - s.min()))


def slope(base: float, k: Array) -> Array:
    """Return the derivative of base^k with respect to the base, for lags `k` of shape (L,).

    The derivative is k base^(k-1); for k = 0 it is 0.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(k * base ** np.where(k == 0.0, 0.0, k - 1.0))
