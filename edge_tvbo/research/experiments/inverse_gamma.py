"""Inverse-gamma distributions, fitted to counts of waiting times."""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def likelier_than_gamma(counts: Array) -> tuple[bool, float, float]:
    """Say whether an inverse gamma fits better than a gamma, with its shape and scale.

    Both by maximum likelihood on `counts` of the values 0, 1, ... (no count at 0).
    """
    times = np.arange(len(counts), dtype=np.float64)[1:]
    weights = counts[1:] / max(counts[1:].sum(), 1.0)
    shape, rate = _gamma(1.0 / times, weights)
    inverse = float(weights @ (_log_gamma(1.0 / times, shape, rate) - 2.0 * np.log(times)))
    plain = float(weights @ _log_gamma(times, *_gamma(times, weights)))
    return inverse > plain, shape, rate


def _gamma(x: Array, weights: Array) -> tuple[float, float]:
    """Give shape and rate of the likeliest gamma: ln k - ψ(k) = ln x̄ - mean ln x."""
    mean = float(weights @ x)
    gap = math.log(mean) - float(weights @ np.log(x))
    low, high = 1e-3, 1e6
    while high / low > 1 + 1e-12:
        k = math.sqrt(low * high)
        if math.log(k) - _digamma(k) > gap:
            low = k
        else:
            high = k
    return k, k / mean


def _log_gamma(x: Array, shape: float, rate: float) -> Array:
    norm = shape * math.log(rate) - math.lgamma(shape)
    return np.asarray(norm + (shape - 1.0) * np.log(x) - rate * x)


def _digamma(x: float) -> float:
    shifted = 0.0
    while x < 10.0:
        shifted -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    return shifted + math.log(x) - 0.5 / x - y * (1 / 12 - y * (1 / 120 - y / 252))
