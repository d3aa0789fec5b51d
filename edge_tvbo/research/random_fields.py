"""Random fields that change with time, drawn from the models that the papers assume."""

import numpy as np

from edge_tvbo.models.spatial_kernels import positive_definite
from edge_tvbo.numerics.types import Array


def factor(K: Array) -> Array:
    """Return the Cholesky factor (M, M) of the prior covariance K, for draws of fields.

    Only as much jitter as necessary is added to K.
    """
    return np.asarray(np.linalg.cholesky(positive_definite(K, 1e-10)))


def draws(L: Array, T: int, rng: np.random.Generator) -> Array:
    """Return T independent fields, (T, M), drawn from the prior with Cholesky factor `L`."""
    return rng.standard_normal((T, len(L))) @ L.T


def drifting(g: Array, epsilon: float) -> Array:
    """Return the TV (time-varying) sample field computed from the draws `g`, of shape (T, M).

    The field is f_{t+1} = √(1-ε) f_t + √ε g_{t+1} ([B16] eq. 4).
    """
    f = np.empty_like(g)
    f[0] = g[0]
    for t in range(1, len(g)):
        f[t] = np.sqrt(1.0 - epsilon) * f[t - 1] + np.sqrt(epsilon) * g[t]
    return f


def with_momentum(g: Array, epsilon: float, alpha: float) -> Array:
    """Return the MTV sample field (with momentum) computed from the draws `g`, of shape (T, M).

    The field is f_{t+1} = ε f_t + √λ u_{t+1} with the momentum u_{t+1} = α u_t + g_{t+1} ([M24]
    eq. 8.1). λ is such that the variance of the field is always 1. The first pair (f, u) is
    computed from the first and the last row of `g`, and has the stationary distribution. The result
    has the shape (T-1, M).
    """
    rate = (1 - epsilon**2) * (1 - alpha**2) * (1 - alpha * epsilon) / (1 + alpha * epsilon)
    shared = np.sqrt(rate) / ((1 - alpha**2) * (1 - alpha * epsilon))
    f = np.empty((len(g) - 1, g.shape[1]))
    f[0] = g[0]
    u = shared * g[0] + np.sqrt(1 / (1 - alpha**2) - shared**2) * g[-1]
    for t in range(1, len(f)):
        u = alpha * u + g[t]
        f[t] = epsilon * f[t - 1] + np.sqrt(rate) * u
    return f


def turning(g: Array, T: int, tau: float, rho: float) -> Array:
    """Return the TTV sample field (with a transition), (T, M): row 0 of `g` turns into row 1.

    In interval `tau`, both rows have the same share. A higher `rho` makes the transition slower.
    """
    s = 1.0 / (1.0 + np.exp((tau - np.arange(T)) / rho))
    return np.outer(1.0 - s, g[0]) + np.outer(s, g[1])
