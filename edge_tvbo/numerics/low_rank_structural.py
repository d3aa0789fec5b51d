"""Low-rank structural model kernels: a Kalman filter for the components of very many sensors.

As in `structural`, sensor i has the components x_i = (x_{0,i}, ..., x_{n-1,i}). Each component is a
sum x_{a,i} = s_{a,i} + u_{a,i}. The part s_{a,i} = Σ_r G_{r,i} z_{a,r} is explained by R factors
z_{a,r}, and the part u_{a,i} belongs to sensor i alone.

The posterior is approximated by a Gaussian in which the sensors are independent given the factors,
and sensor i depends on the factors through s_i only. The state consists of the covariances that
define this Gaussian:

- Z: covariance of the factors
- S_i, X_i, T_i for each sensor i: covariance of s_i, covariance of x_i, and covariance of x_i with
  s_i

The approximation is exact while the components do not change. When the components change, all other
covariances are derived from the state (assumed-density filtering: Boyen & Koller 1998, UAI). An
interval costs O((nR)² + nRM + n²M), compared with O((nM)²) in `structural`.

The tests compare the filter with the slow, simple ``Twin`` in ``tests/models/posteriors``.
"""

from math import sqrt

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array

MAX_ERROR_STDS = 3.0  # prediction error beyond which a reading gets less weight
MIN_PIVOT = 1e-9  # smallest pivot, as a share of the variance
MIN_ABSOLUTE_PIVOT = 1e-200  # smallest pivot of a component whose variance is 0


@kernel("void(f8[::1], f8[:, :, ::1], f8[::1], f8[::1], f8[::1])")
def moments(m: Array, X: Array, load: Array, mean: Array, variance: Array) -> None:
    """Compute the mean and variance of every sensor's value, from the low-rank structural state.

    Parameters
    ----------
    m : float64[n M]
        Mean of the state; entry k·M + i is component k of sensor i.
    X : float64[n, n, M]
        Covariances of the components of each sensor.
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
            for i in range(M):
                variance[i] += both * X[a, b, i]
    for i in range(M):
        variance[i] = max(variance[i], 0.0)


@kernel("void(f8[:, :, ::1], f8[:, :, ::1])")
def factorise(S: Array, L: Array) -> None:
    """Compute the Cholesky factor of each covariance S_i, for low-rank structural updates.

    Parameters
    ----------
    S : float64[n, n, M]
        Covariance of s_i, as defined in the module's docstring, for each sensor i. A variance of 0
        gets a tiny positive pivot.
    L : float64[n, n, M]
        Receives the lower triangles with L_i L_iᵀ = S_i.
    """
    n, M = S.shape[1:]
    for a in range(n):
        for b in range(a + 1):
            for i in range(M):
                L[a, b, i] = S[a, b, i]
            for k in range(b):
                for i in range(M):
                    L[a, b, i] -= L[a, k, i] * L[b, k, i]
            if a == b:
                for i in range(M):
                    L[a, a, i] = sqrt(max(L[a, a, i], MIN_PIVOT * S[a, a, i] + MIN_ABSOLUTE_PIVOT))
            else:
                for i in range(M):
                    L[a, b, i] /= L[b, b, i]


@kernel("void(f8[:, :, ::1], f8[:, ::1])")
def solve(L: Array, v: Array) -> None:
    """Solve S_i w_i = v_i for each sensor i, for low-rank structural updates.

    Parameters
    ----------
    L : float64[n, n, M]
        Cholesky factor of the covariance S_i of each sensor i, from `factorise`.
    v : float64[n, M]
        The vector v_i of each sensor i, which is overwritten by the solution w_i.
    """
    n, M = v.shape
    for a in range(n):
        for k in range(a):
            for i in range(M):
                v[a, i] -= L[a, k, i] * v[k, i]
        for i in range(M):
            v[a, i] /= L[a, a, i]
    for a in range(n - 1, -1, -1):
        for k in range(a + 1, n):
            for i in range(M):
                v[a, i] -= L[k, a, i] * v[k, i]
        for i in range(M):
            v[a, i] /= L[a, a, i]


@kernel("void(f8[:, :, ::1], f8[:, :, ::1], f8[::1], i8, f8[:, ::1])")
def regress(T: Array, L: Array, load: Array, arm: int, v: Array) -> None:
    """Compute the weights with which s_arm predicts a reading, for low-rank structural updates.

    s_arm is the part of the components of sensor `arm` that the factors explain.

    Parameters
    ----------
    T, load, arm
        As for `condition`.
    L : float64[n, n, M]
        Cholesky factors of S, from `factorise`.
    v : float64[n, M]
        Column `arm` receives the weights b = S_arm⁻¹ cov(s_arm, h); h is the reading without noise.
    """
    n = load.shape[0]
    for a in range(n):
        v[a, arm] = 0.0
        for k in range(n):
            v[a, arm] += load[k] * T[k, a, arm]
        for k in range(a):
            v[a, arm] -= L[a, k, arm] * v[k, arm]
        v[a, arm] /= L[a, a, arm]
    for a in range(n - 1, -1, -1):
        for k in range(a + 1, n):
            v[a, arm] -= L[k, a, arm] * v[k, arm]
        v[a, arm] /= L[a, a, arm]


@kernel("void(f8[:, ::1], f8[:, ::1], f8[:, ::1], i8, f8[::1], f8[:, ::1])")
def covary(Z: Array, G: Array, v: Array, arm: int, g: Array, c: Array) -> None:
    """Compute the covariances of a reading with z and s, for low-rank structural updates.

    z are the factors, and s the parts of the components that the factors explain.

    Parameters
    ----------
    Z, G
        As for `condition`.
    v : float64[n, M]
        Column `arm` contains the weights b, from `regress`.
    arm : int
        The sensor that was read.
    g : float64[n R]
        Receives the covariances of the reading with the factors, Z Gᵀ b.
    c : float64[n, M]
        Receives the covariances of the reading with s, Gᵀ g.
    """
    R, M = G.shape
    n = v.shape[0]
    g[:] = 0.0
    c[:] = 0.0
    for a in range(n):
        for r in range(R):
            share = v[a, arm] * G[r, arm]
            for j in range(n * R):
                g[j] += share * Z[a * R + r, j]
    for a in range(n):
        for r in range(R):
            share = g[a * R + r]
            for i in range(M):
                c[a, i] += share * G[r, i]


@kernel(
    "void(f8[:, ::1], f8[:, :, ::1], f8[:, :, ::1], f8[:, :, ::1], f8[::1], f8[:, ::1],"
    " f8[:, ::1], f8)"
)
def reduce(
    Z: Array, S: Array, T: Array, X: Array, g: Array, c: Array, d: Array, root: float
) -> None:
    """Reduce the low-rank structural covariances by the part that a reading has explained.

    Parameters
    ----------
    Z, S, T, X
        As for `condition`; updated in place.
    g : float64[n R], c, d : float64[n, M]
        Covariances of the reading with the factors (`g`), with s (`c`) and with x (`d`). The
        module's docstring defines s and x. The covariances are multiplied by `root` in place.
    root : float
        1 / standard deviation of the reading.
    """
    n, M = c.shape
    for j in range(g.shape[0]):
        g[j] *= root
    for j in range(g.shape[0]):
        share = g[j]
        for k in range(g.shape[0]):
            Z[j, k] -= share * g[k]
        Z[j, j] = max(Z[j, j], 0.0)
    for a in range(n):
        for i in range(M):
            c[a, i] *= root
            d[a, i] *= root
    for a in range(n):
        for b in range(n):
            for i in range(M):
                S[a, b, i] -= c[a, i] * c[b, i]
                T[a, b, i] -= d[a, i] * c[b, i]
                X[a, b, i] -= d[a, i] * d[b, i]
        for i in range(M):
            S[a, a, i] = max(S[a, a, i], 0.0)
            X[a, a, i] = max(X[a, a, i], 0.0)


@kernel(
    "f8(f8[::1], f8[:, ::1], f8[:, ::1], f8[:, :, ::1], f8[:, :, ::1], f8[:, :, ::1], f8[::1], i8,"
    " f8, f8, f8, f8[::1], f8[:, ::1], f8[:, ::1], f8[:, ::1], f8[:, :, ::1])"
)
def condition(
    m: Array,
    Z: Array,
    G: Array,
    S: Array,
    T: Array,
    X: Array,
    load: Array,
    arm: int,
    y: float,
    noise_variance: float,
    square: float,
    g: Array,
    c: Array,
    d: Array,
    v: Array,
    L: Array,
) -> float:
    """Update the low-rank structural state with a reading; return the squared standardised error.

    Parameters
    ----------
    m, X, load
        As for `moments`.
    Z : float64[n R, n R]
        Covariance of the factors. Row and column ``a R + r`` belong to factor r of component a.
    G : float64[R, M]
        Weights of the factors for each sensor.
    S : float64[n, n, M]
        For each sensor i, the covariance of s_i.
    T : float64[n, n, M]
        For each sensor i, the covariance of x_i (first index) with s_i (second index).
    arm, y, noise_variance, square
        As for `structural.condition`. As in that function, the noise variance of a reading that is
        far from its prediction is increased.
    g : float64[n R]
        Workspace.
    c, d, v : float64[n, M]
        Workspace.
    L : float64[n, n, M]
        Workspace.

    Notes
    -----
    The module's docstring defines x_i and s_i. The reading without noise is h = Σ_a ℓ_a x_{a,arm},
    with ℓ = `load`; z is the vector of all factors. Let b be the weights of the regression of h on
    s_arm. Then the covariance of z with h is Z Gᵀ b. The covariance of another sensor i with h
    follows from the regression of x_i on s_i.
    """
    n, M = c.shape
    factorise(S, L)
    regress(T, L, load, arm, v)
    covary(Z, G, v, arm, g, c)
    for a in range(n):  # for `v[:] = c`, numba would also compile the text of an error
        for i in range(M):
            v[a, i] = c[a, i]
    solve(L, v)
    mean = 0.0
    total = noise_variance
    for a in range(n):  # d = cov(x, h)
        mean += load[a] * m[a * M + arm]
        d[a, :] = 0.0
        for b in range(n):
            for i in range(M):
                d[a, i] += T[a, b, i] * v[b, i]
        d[a, arm] = 0.0
        for b in range(n):
            d[a, arm] += load[b] * X[a, b, arm]
        total += load[a] * d[a, arm]
    total = max(total, noise_variance)
    error = y - mean
    far = error * error / (total * square)
    if far > MAX_ERROR_STDS * MAX_ERROR_STDS:
        total *= sqrt(far) / MAX_ERROR_STDS
    root = 1.0 / sqrt(total)
    reduce(Z, S, T, X, g, c, d, root)
    for a in range(n):
        for i in range(M):
            m[a * M + i] += d[a, i] * error * root
    return far


@kernel(
    "void(f8[::1], f8[:, ::1], f8[:, :, ::1], f8[:, :, ::1], f8[:, :, ::1], f8[::1], f8[:, ::1],"
    " f8[:, ::1], f8[:, ::1])"
)
def evolve(
    m: Array,
    Z: Array,
    S: Array,
    T: Array,
    X: Array,
    retain: Array,
    factors: Array,
    shared: Array,
    whole: Array,
) -> None:
    """Advance the low-rank structural state by one interval, in place.

    Parameters
    ----------
    m, Z, S, T, X
        As for `condition`.
    retain : float64[n]
        Factor φ of each component.
    factors : float64[n, R]
        Variances that are added to the factors.
    shared, whole : float64[n, M]
        Variances that are added to s_i and to x_i for each sensor i.
    """
    n, R = factors.shape
    M = shared.shape[1]
    for a in range(n):
        for r in range(R):
            row = a * R + r
            for b in range(n):
                both = retain[a] * retain[b]
                for k in range(b * R, b * R + R):
                    Z[row, k] *= both
            Z[row, row] += factors[a, r]
        for i in range(M):
            m[a * M + i] *= retain[a]
        for b in range(n):
            both = retain[a] * retain[b]
            for i in range(M):
                S[a, b, i] *= both
                T[a, b, i] *= both
                X[a, b, i] *= both
        for i in range(M):
            S[a, a, i] += shared[a, i]
            T[a, a, i] += shared[a, i]
            X[a, a, i] += whole[a, i]
