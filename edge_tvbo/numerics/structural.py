"""Structural model kernels: a Kalman filter with several components for each sensor.

The state holds n components of each of the M sensors: entry k·M + i is component k of sensor i. In
one interval, component k is multiplied by φ_k, and noise is added. The covariance of this noise
over the sensors is q_k C_k with C_k = ρ_k J + (1 - ρ_k) B. J is the matrix of ones, and B is the
correlation of the sensors. The value of sensor i is Σ_k ℓ_k x_{k,i} with the loadings ℓ of the
interval. The kernels here call no kernel of another file, because numba's cache does not notice
changes in other files.

All kernels except `mirror` read and write only the lower triangle of P, the covariance of the
state. The reason: they spend most of their time on moving P through the memory.
"""

from math import cos, log, pi, sin, sqrt

import numpy as np

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array, Int64Array

MAX_ERROR_STDS = 3.0  # prediction error beyond which a reading gets less weight


@kernel("void(f8[::1], f8[:, ::1], f8[::1], f8[::1], f8[::1])")
def moments(m: Array, P: Array, load: Array, mean: Array, variance: Array) -> None:
    """Compute the mean and the variance of every sensor's value, from the structural state.

    Parameters
    ----------
    m : float64[n M], P : float64[n M, n M]
        Mean of the state, and the lower triangle of its covariance.
    load : float64[n]
        Loading of each component.
    mean, variance : float64[M]
        Receive the moments.
    """
    M = mean.shape[0]
    mean[:] = 0.0
    variance[:] = 0.0
    for a in range(load.shape[0]):
        for i in range(M):
            mean[i] += load[a] * m[a * M + i]
        for b in range(load.shape[0]):
            both = load[a] * load[b]
            row, column = max(a, b) * M, min(a, b) * M
            for i in range(M):
                variance[i] += both * P[row + i, column + i]
    for i in range(M):
        variance[i] = max(variance[i], 0.0)


@kernel("f8(f8[::1], f8[:, ::1], f8[::1], i8, f8, f8, f8, f8[::1])")
def condition(
    m: Array,
    P: Array,
    load: Array,
    arm: int,
    y: float,
    noise_variance: float,
    square: float,
    g: Array,
) -> float:
    """Update the structural state with a reading, in place; return the squared standardised error.

    Parameters
    ----------
    m, P, load
        As for `moments`.
    arm : int
        Sensor that was read.
    y : float
        The reading.
    noise_variance : float
        Noise variance of the reading, on the scale of `P`.
    square : float
        Factor by which `P` and `noise_variance` are multiplied to obtain the true variances.
    g : float64[n M]
        Workspace.

    Notes
    -----
    A reading more than MAX_ERROR_STDS predictive standard deviations away from its prediction gets
    a larger noise variance, as in `model_bank.condition`.

    g is the covariance of the state with the reading, a weighted sum of columns of P. The first
    loop adds the entries below the diagonal. The second loop adds the other entries, which it reads
    from the lower triangle, because P is symmetric.
    """
    N = m.shape[0]
    n = load.shape[0]
    M = N // n
    g[:] = 0.0
    mean = 0.0
    for j in range(arm + 1, N):
        for a in range((j - arm + M - 1) // M):
            g[j] += load[a] * P[j, a * M + arm]
    for a in range(n):
        row = a * M + arm
        mean += load[a] * m[row]
        for j in range(row + 1):
            g[j] += load[a] * P[row, j]
    total = noise_variance
    for a in range(n):
        total += load[a] * g[a * M + arm]
    total = max(total, noise_variance)
    error = y - mean
    far = error * error / (total * square)
    if far > MAX_ERROR_STDS * MAX_ERROR_STDS:
        total *= sqrt(far) / MAX_ERROR_STDS
    root = 1.0 / sqrt(total)
    for j in range(N):
        g[j] *= root
    for j in range(N):
        gj = g[j]
        m[j] += gj * error * root
        for k in range(j + 1):
            P[j, k] -= gj * g[k]
    return far


@kernel("void(f8[::1], f8[:, ::1], f8[::1], f8[::1], f8[::1], f8[:, ::1])")
def evolve(m: Array, P: Array, retain: Array, inject: Array, common: Array, B: Array) -> None:
    """Advance the structural state by one interval, in place: m <- Φ m and P <- Φ P Φ + Q.

    Parameters
    ----------
    m, P
        As for `moments`.
    retain, inject, common : float64[n]
        φ, q and ρ of each component, as in the module's docstring.
    B : float64[M, M]
        Correlation between the sensors, for the part of a component that differs between them.
    """
    M = B.shape[0]
    n = retain.shape[0]
    for a in range(n):
        own = inject[a] * (1.0 - common[a])
        shared = inject[a] * common[a]
        for i in range(M):
            row = a * M + i
            m[row] *= retain[a]
            for b in range(a + 1):
                both = retain[a] * retain[b]
                first = b * M
                for j in range(M if b < a else i + 1):
                    P[row, first + j] *= both
            first = a * M
            for j in range(i + 1):
                P[row, first + j] += own * B[i, j] + shared


@kernel("void(f8[:, ::1])")
def mirror(P: Array) -> None:
    """Copy the lower triangle of the structural state's covariance P to the upper triangle."""
    for j in range(P.shape[0]):
        for k in range(j):
            P[k, j] = P[j, k]


@kernel("void(f8[::1], i8[::1], f8, f8, f8[::1])")
def loadings(harmonic: Array, kind: Int64Array, phase: float, scale: float, load: Array) -> None:
    """Fill `load` with the loadings of all structural components at one time.

    Parameters
    ----------
    harmonic : float64[n]
        Number of cycles in a season, for the kinds 2 and 3.
    kind : int64[n]
        Kind of each component's loading. 0: the loading is 1; 1: `scale`; 2: cos(2π `harmonic`
        `phase`); 3: the sine of the same angle. Without a season, the kinds 2 and 3 have the
        loading 0.
    phase : float
        Share of the season that has passed, 0 to 1; negative if there is no season.
    scale : float
        Liveliness: how much the field varies at this time, as a multiple of its usual variation.
    load : float64[n]
        Receives the loadings.
    """
    for a in range(load.shape[0]):
        if kind[a] == 0:
            load[a] = 1.0
        elif kind[a] == 1:
            load[a] = scale
        elif phase < 0.0:
            load[a] = 0.0
        elif kind[a] == 2:
            load[a] = cos(2.0 * pi * harmonic[a] * phase)
        else:
            load[a] = sin(2.0 * pi * harmonic[a] * phase)


@kernel("f8(f8[:, ::1], f8[::1], f8[::1], f8[::1], f8, f8[:, ::1], i8, f8[:, ::1], f8[:, :, ::1])")
def filter_training(
    X: Array,
    eigenvalues: Array,
    variance: Array,
    retain: Array,
    noise_variance: float,
    loads: Array,
    skipped: int,
    m: Array,
    P: Array,
) -> float:
    """Run the structural filter over the training rows, and return the log score of the readings.

    Each row has readings of all sensors, or no reading. All components have the same correlation
    over the sensors, C = U Λ Uᵀ. The readings, multiplied by U, are therefore M independent series.
    Each series has a filter of n components.

    Parameters
    ----------
    X : float64[T, M]
        The readings, multiplied by U. A row in which no sensor was read is NaN.
    eigenvalues : float64[M]
        Diagonal of Λ.
    variance, retain : float64[n]
        Variance and φ of each component.
    noise_variance : float
        Noise variance of a reading.
    loads : float64[T, n]
        Loadings in each row.
    skipped : int
        Number of rows at the beginning that do not count for the score.
    m : float64[M, n], P : float64[M, n, n]
        Receive the mean and the covariance of each filter after the last row.

    Notes
    -----
    The score of a reading is the logarithm of its predictive density without constants. For errors
    of more than MAX_ERROR_STDS standard deviations, the score decreases linearly (Huber 1964).

    All filters advance together, one row at a time, so that the processor computes several of them
    in one instruction. The local array `W[a, b M + j]` with b <= a holds the covariance of the
    components a and b in filter j. `new[a, j]` holds the variance that component a gains in each
    row. `g[a M + j]` is the covariance of component a with the reading. A row of `W` is added to
    `g` in one long loop, because many short loops over few filters take longer.
    """
    T, M = X.shape
    n = variance.shape[0]
    W, new = np.zeros((n, n * M)), np.empty((n, M))
    mean, g = np.zeros(n * M), np.empty(n * M)
    total, value, error = np.empty(M), np.empty(M), np.empty(M)
    losses = np.zeros((M, T))
    for a in range(n):
        for j in range(M):
            W[a, a * M + j] = variance[a] * eigenvalues[j]
            new[a, j] = variance[a] * eigenvalues[j] * (1.0 - retain[a] * retain[a])
    for t in range(T):
        total[:] = noise_variance
        value[:] = 0.0
        g[:] = 0.0
        for a in range(n):
            for b in range(a):
                for j in range(M):
                    g[a * M + j] += W[a, b * M + j] * loads[t, b]
            for k in range((a + 1) * M):
                g[k] += W[a, k] * loads[t, a]
        for a in range(n):
            for j in range(M):
                total[j] += loads[t, a] * g[a * M + j]
                value[j] += loads[t, a] * mean[a * M + j]
        for j in range(M):
            error[j] = X[t, j] - value[j]
        if X[t, 0] != X[t, 0]:
            g[:] = 0.0
            error[:] = 0.0
        elif t >= skipped:
            for j in range(M):
                square = error[j] * error[j] / total[j]
                if square > MAX_ERROR_STDS * MAX_ERROR_STDS:
                    square = MAX_ERROR_STDS * (2.0 * sqrt(square) - MAX_ERROR_STDS)
                losses[j, t] = 0.5 * (log(total[j]) + square)
        for a in range(n):
            for j in range(M):
                change = g[a * M + j] * error[j] / total[j]
                mean[a * M + j] = retain[a] * (mean[a * M + j] + change)
            for b in range(a + 1):
                both = retain[a] * retain[b]
                for j in range(M):
                    change = g[a * M + j] * g[b * M + j] / total[j]
                    W[a, b * M + j] = both * (W[a, b * M + j] - change)
            for j in range(M):
                W[a, a * M + j] += new[a, j]
    score = 0.0
    for j in range(M):
        for t in range(skipped, T):
            score -= losses[j, t]
        for a in range(n):
            m[j, a] = mean[a * M + j]
            for b in range(n):
                P[j, a, b] = W[max(a, b), min(a, b) * M + j]
    return score
