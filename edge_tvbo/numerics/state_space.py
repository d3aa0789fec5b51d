"""State-space posterior kernels: mean and covariance of all arms, in a fixed amount of memory.

On M arms the static, TV and UI models are linear-Gaussian state spaces whose state is the field
itself: f_{t+1} = sqrt(retain) f_t + sqrt(inject) g_{t+1} with independent g ~ N(0, K). The exact
posterior is a Kalman filter, which costs O(M²) per interval, however long the history is.
"""

from math import log1p, sqrt

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array


@kernel("void(f8[::1], f8[:, ::1], i8, f8, f8, f8[::1])")
def condition(m: Array, C: Array, arm: int, y: float, noise_variance: float, g: Array) -> None:
    """Update the state-space posterior with one reading, in place.

    Parameters
    ----------
    m : float64[M]
        Posterior mean.
    C : float64[M, M], C order, symmetric
        Posterior covariance.
    arm : int
        Arm that was read, ``0 <= arm < M`` (the caller checks).
    y : float
        The reading, in model units.
    noise_variance : float
        Noise variance of the reading, in model units², > 0.
    g : float64[M]
        Workspace.

    Notes
    -----
    The update takes M² multiply-adds and allocates nothing. The covariance is updated by
    C -= g gᵀ with g = C[:, arm] / sqrt(C[arm, arm] + noise). Entries (i, j) and (j, i) are
    therefore computed by the same operations, and C stays symmetric to the last bit. As a
    consequence, the rounding error of each step shrinks in later steps and does not grow. Source:
    Rasmussen & Williams, *Gaussian Processes for Machine Learning*, eq. 2.25-2.26, applied to one
    observation at a time. The tests compare the kernel with ``NaivePosterior`` in
    ``tests/support/naive.py``.
    """
    M = m.shape[0]
    scale = 1.0 / sqrt(C[arm, arm] + noise_variance)
    scaled_error = (y - m[arm]) * scale
    for i in range(M):
        g[i] = C[arm, i] * scale
    for i in range(M):
        gi = g[i]
        m[i] += gi * scaled_error
        for j in range(M):
            C[i, j] -= gi * g[j]
        if C[i, i] < 0.0:
            C[i, i] = 0.0


@kernel("void(f8[::1], f8[:, ::1], f8[:, ::1], f8, f8)")
def evolve(m: Array, C: Array, K: Array, retain: float, inject: float) -> None:
    """Advance the state-space posterior by one interval, in place.

    m <- sqrt(retain) m and C <- retain C + inject K.

    Parameters
    ----------
    m, C : float64[M], float64[M, M]
        Posterior mean and covariance.
    K : float64[M, M]
        Prior covariance.
    retain, inject : float
        `retain` and `inject` are 1 and 0 for a static field, 1-ε and ε for the TV model ([B16] eq.
        4), and 1 and σ_w² for the UI model ([ET] section 6).
    """
    M = m.shape[0]
    shrink = sqrt(retain)
    for i in range(M):
        m[i] *= shrink
        for j in range(M):
            C[i, j] = retain * C[i, j] + inject * K[i, j]


@kernel("void(f8[::1], f8[:, ::1], f8[:, ::1], f8)")
def reset_to_prior(m: Array, C: Array, K: Array, prior: float) -> None:
    """Reset the state-space posterior to the prior, in place: mean 0, covariance `prior` · K."""
    M = m.shape[0]
    for i in range(M):
        m[i] = 0.0
        for j in range(M):
            C[i, j] = prior * K[i, j]


@kernel("void(f8[:, ::1], f8, f8[::1])")
def information_gain(K: Array, noise_variance: float, gain: Array) -> None:
    """Fill `gain` with the information gains of 1 to n greedily chosen readings.

    Parameters
    ----------
    K : float64[M, M]
        Prior covariance.
    noise_variance : float
        Noise variance of a reading, in model units², > 0.
    gain : float64[n]
        Receives ½ ln det(I + K_A / noise), in nats, for the greedily chosen multiset A of each size
        1..n. This gain is at least 1 - 1/e times the maximum over all multisets of that size
        ([ZS21] eq. 3; Srinivas et al. 2010, section 5).

    Notes
    -----
    The kernel adds the n readings to a state-space posterior, which takes n M² multiply-adds.
    """
    M = K.shape[0]
    C = K.copy()
    m = K[0].copy()
    g = K[0].copy()
    total = 0.0
    for n in range(gain.shape[0]):
        best = 0
        for i in range(1, M):
            if C[i, i] > C[best, best]:
                best = i
        total += 0.5 * log1p(C[best, best] / noise_variance)
        gain[n] = total
        condition(m, C, best, 0.0, noise_variance, g)
