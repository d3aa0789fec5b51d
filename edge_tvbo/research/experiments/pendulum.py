"""Pendulum: the plant of experiment E5, from the gains of a controller to its reward.

An inverted pendulum is on a cart whose speed follows the command u as a first-order lag:

    T1 s'' = K u - s'                                         cart
    J φ''  = m g (l/2) φ - m (l/2) s'' - μ φ'                 pole, φ = 0 upright

with J = m l²/3 + m d²/16. The state is x = [s, s', φ, φ'] in m, m/s, rad, rad/s, the command is
u = -gains · x in m/s, held for one period of 20 ms, and the plant between two commands is the exact
solution of these linear equations. Every controller of the box is then stable at both frictions.

The equations, their constants, the start, the weights and the sign come from the public code of
Brunzema, von Rohr & Trimpe, *On Controller Tuning with Time-Varying Bayesian Optimization*, CDC
2022 (github.com/brunzema/uitvbo, ``src/objective_functions_LQR.py``), which [ET] App. A.3 builds
on; the box and the friction's step at t = 100 are [ET] Table 7 and section 6. There are two
differences. Their simulation also disturbs the state (sd 0.0006 each step); here only readings have
noise, so that regret is measured by a noise-free reward. And they normalise by the first 30
readings of each run; here the same two constants are used for all runs (see `normalisation`).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from edge_tvbo.errors import MissingExtra
from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array

LOWER: Array = np.array([-3.0, -6.0, -50.0, -4.0])  # gains on s, s', φ, φ'; [ET] Table 7
UPPER: Array = np.array([-2.0, -4.0, -25.0, -2.0])
SCALES: Array = np.array([1 / 8, 1 / 4, 3.0, 1 / 8])  # of the gains, before a length scale; ibid.
START: Array = np.array([4.0, 0.0, 0.1, -0.01])  # m, m/s, rad, rad/s

FRICTION = 2.2e-3  # of the bearing, N m s/rad
WORN_FRICTION = 2.5 * FRICTION  # from t = 100 on
WORN_AT = 100  # interval

MASS = 0.0804  # of the pole, kg
LENGTH = 0.147  # of the pole, m
DIAMETER = 0.005  # of the pole, m
GAIN = 1.0  # of the cart, K
LAG = 1.0  # of the cart, T1, s
GRAVITY = 9.81  # m/s²
PERIOD = 0.02  # of the controller, s
STEPS = 1000  # 20 s
STATE_WEIGHT = 10.0  # Q = 10 I
COMMAND_WEIGHT = 1.0  # R
MAX_COST = 1e6  # of a pole that fell

NORMALISATION_SAMPLE = 1024  # controllers
SEARCH_STARTS = 4  # local searches for `optimum`


@kernel("void(f8[:, ::1], f8[:, ::1], f8[:, ::1])")
def multiply(A: Array, B: Array, C: Array) -> None:
    """Fill C, distinct from A and B, with A B; all float64[n, n]."""
    n = A.shape[0]
    for i in range(n):
        for j in range(n):
            s = 0.0
            for k in range(n):
                s += A[i, k] * B[k, j]
            C[i, j] = s


@kernel("f8[:, ::1](f8[:, ::1])")
def exponential(A: Array) -> Array:
    """Return e^A to rounding for float64[n, n] A whose largest row sum is at most 16.

    Taylor's series of A/16, 20 terms by Horner's rule, squared four times (Moler & Van Loan,
    *Nineteen Dubious Ways to Compute the Exponential of a Matrix*, method 3).
    """
    n = A.shape[0]
    S = A / 16.0
    P = np.eye(n)
    work = np.empty((n, n))
    for k in range(20, 0, -1):
        multiply(S, P, work)
        for i in range(n):
            for j in range(n):
                P[i, j] = work[i, j] / k
            P[i, i] += 1.0
    for _ in range(4):
        multiply(P, P, work)
        P[:, :] = work
    return P


@kernel("f8[:, ::1](f8)")
def plant(friction: float) -> Array:
    """Return one period of the plant: x_next = P[:4, :4] x + P[:4, 4] u.

    `friction` is in N m s/rad.

    Returns
    -------
    float64[5, 5]
        The exponential of [[A, B], [0, 0]] times the period; u is constant between two commands.
    """
    inertia = MASS * LENGTH * LENGTH / 3.0 + MASS * DIAMETER * DIAMETER / 16.0  # kg m²
    push = 0.5 * MASS * LENGTH / inertia  # rad/s² of the pole a m/s² of the cart, 1/m
    A = np.zeros((5, 5))
    A[0, 1] = 1.0
    A[1, 1] = -1.0 / LAG
    A[1, 4] = GAIN / LAG
    A[2, 3] = 1.0
    A[3, 1] = push / LAG
    A[3, 2] = push * GRAVITY
    A[3, 3] = -friction / inertia
    A[3, 4] = -push * GAIN / LAG
    return exponential(A * PERIOD)


@kernel("f8(f8[:, ::1], f8[::1], f8[::1])")
def cost_from(P: Array, gains: Array, start: Array) -> float:
    """Return the mean of xᵀQx + Ru² over the 1000 steps from `start`, at most `MAX_COST`.

    Parameters
    ----------
    P : float64[5, 5]
        From `plant`.
    gains, start : float64[4]
        Of the controller u = -gains · x; the state at the first step.

    Notes
    -----
    About 30 multiply-adds per step. The cost grows with the square of `start`. For a state that
    diverges, or is NaN, it is `MAX_COST`, so that every controller has a finite cost.
    """
    x = start.copy()
    y = np.empty(4)
    total = 0.0
    for _ in range(STEPS):
        u = 0.0
        for i in range(4):
            u -= gains[i] * x[i]
            total += STATE_WEIGHT * x[i] * x[i]
        total += COMMAND_WEIGHT * u * u
        if not total < MAX_COST * STEPS:
            return MAX_COST
        for i in range(4):
            y[i] = P[i, 4] * u
            for j in range(4):
                y[i] += P[i, j] * x[j]
        x[:] = y
    return total / STEPS


@kernel("f8(f8[::1], f8)")
def cost(gains: Array, friction: float) -> float:
    """Return the mean quadratic cost per step, over 20 s under u = -gains · x, without noise.

    Parameters
    ----------
    gains : float64[4]
        On position, speed, angle and angular speed; between `LOWER` and `UPPER` for the paper.
    friction : float
        Of the bearing, N m s/rad; `FRICTION`, later `WORN_FRICTION`.

    Returns
    -------
    float
        About 14 to 18 over the box; `MAX_COST` for a controller that lets the pole fall.
    """
    return cost_from(plant(friction), gains, START.copy())


def spread(n: int) -> Array:
    """Return `n` controllers spread evenly over the box, float64[n, 4], the same at every call.

    The additive recurrence whose steps are powers of 1/φ, φ⁵ = φ + 1 (M. Roberts, *The Unreasonable
    Effectiveness of Quasirandom Sequences*, 2018).

    >>> bool((spread(100) > LOWER).all() and (spread(100) < UPPER).all())
    True
    """
    phi = 1.1673039782614187
    unit = (0.5 + np.outer(np.arange(1, n + 1), phi ** -np.arange(1.0, 5.0))) % 1.0
    return np.ascontiguousarray(LOWER + (UPPER - LOWER) * unit)


class Normalisation(NamedTuple):
    """Mean and standard deviation that costs are normalised by."""

    mean: float
    sd: float


@lru_cache(maxsize=1)
def normalisation() -> Normalisation:
    """Return the mean and the standard deviation of the cost over the box before the bearing wears.

    >>> normalisation().mean > normalisation().sd > 0
    True
    """
    costs = np.array([cost(gains, FRICTION) for gains in spread(NORMALISATION_SAMPLE)])
    return Normalisation(float(costs.mean()), float(costs.std()))


def reward(gains: Array, friction: float) -> float:
    """Return the negative cost, normalised to mean 0 and sd 1 over the box.

    Parameters
    ----------
    gains : float64[4]
        See `cost`.
    friction : float
        N m s/rad. The mean and sd are those at `FRICTION`; a worn bearing lowers the mean.
    """
    mean, sd = normalisation()
    return (mean - float(cost(gains, friction))) / sd


def friction_at(t: int) -> float:
    """Return the bearing's friction in interval `t`, N m s/rad: 2.5 times as large from t = 100 on.

    >>> [round(friction_at(t), 4) for t in (99, 100)]
    [0.0022, 0.0055]
    """
    return WORN_FRICTION if t >= WORN_AT else FRICTION


def optimum(friction: float) -> tuple[Array, float]:
    """Return the best controller of the box, float64[4], and its reward.

    It is the best of four L-BFGS-B searches from `spread` controllers, the same at every call. The
    horizon is so long that it agrees with the LQR controller to three digits, if that is in the
    box.

    Raises
    ------
    MissingExtra
        If scipy is not installed.
    """
    try:
        from scipy.optimize import minimize
    except ImportError:
        raise MissingExtra("scipy, which finds the best controller,", "science") from None
    width = UPPER - LOWER

    def loss(unit: Array) -> float:
        return -reward(LOWER + width * unit, friction)

    found = [
        minimize(loss, (gains - LOWER) / width, jac="3-point", bounds=[(0.0, 1.0)] * 4, tol=1e-12)
        for gains in spread(SEARCH_STARTS)
    ]
    best = min(found, key=lambda result: float(result.fun))
    return LOWER + width * best.x, -float(best.fun)
