"""Cost of the pendulum of experiment E5: the compiled simulation of its controller.

The module `pendulum` describes the plant. The compiled functions call no compiled function of
another file, because numba's cache does not notice a change in that other file.
"""

import numpy as np

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array

START: Array = np.array([4.0, 0.0, 0.1, -0.01])  # m, m/s, rad, rad/s
MASS = 0.0804  # mass of the pole, kg
LENGTH = 0.147  # length of the pole, m
DIAMETER = 0.005  # diameter of the pole, m
GAIN = 1.0  # K, gain of the cart
LAG = 1.0  # T1, lag of the cart, s
GRAVITY = 9.81  # m/s²
PERIOD = 0.02  # period of the controller, s
STEPS = 1000  # number of periods in one evaluation, 20 s
STATE_WEIGHT = 10.0  # weight of the state in the cost: Q = 10 I
COMMAND_WEIGHT = 1.0  # R, weight of the command in the cost
MAX_COST = 1e6  # cost of a controller that lets the pole fall


@kernel("void(f8[:, ::1], f8[:, ::1], f8[:, ::1])")
def multiply(A: Array, B: Array, C: Array) -> None:
    """Fill C with the product A B of two of the pendulum's matrices.

    All matrices are float64[n, n], and C must not be A or B.
    """
    n = A.shape[0]
    for i in range(n):
        for j in range(n):
            s = 0.0
            for k in range(n):
                s += A[i, k] * B[k, j]
            C[i, j] = s


@kernel("f8[:, ::1](f8[:, ::1])")
def exponential(A: Array) -> Array:
    """Return e^A for a pendulum's matrix A of shape (n, n), whose row sums are at most 16.

    e^(A/16) is computed from 20 terms of its Taylor series, by Horner's rule, and then squared four
    times. The result is exact except for rounding. Source: Moler & Van Loan, *Nineteen Dubious
    Ways to Compute the Exponential of a Matrix*, method 3.
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
        P, work = work, P
    return P


@kernel("f8[:, ::1](f8)")
def plant(friction: float) -> Array:
    """Return the matrix P of one period of the pendulum: x_next = P[:4, :4] x + P[:4, 4] u.

    `friction` is the friction of the bearing in N m s/rad.

    Returns
    -------
    float64[5, 5]
        e^(h [[A, B], [0, 0]]) with the period h. This matrix is exact, because u is constant
        between two commands.
    """
    inertia = MASS * LENGTH * LENGTH / 3.0 + MASS * DIAMETER * DIAMETER / 16.0  # kg m²
    push = 0.5 * MASS * LENGTH / inertia  # pole's angular acceleration / cart acceleration, in 1/m
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
    """Return the pendulum's mean cost xᵀQx + Ru² of 1000 steps from `start`, or `MAX_COST`.

    Parameters
    ----------
    P : float64[5, 5]
        Matrix from `plant`.
    gains, start : float64[4]
        Gains of the controller u = -gains · x, and the state at the first step.

    Notes
    -----
    A step takes about 30 multiply-adds. The cost grows with the square of `start`. The cost is
    `MAX_COST` if the state diverges or is NaN, so that every controller has a finite cost.
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
        x, y = y, x
    return total / STEPS


@kernel("f8(f8[::1], f8)")
def cost(gains: Array, friction: float) -> float:
    """Return the mean quadratic cost per step of a pendulum's controller over 20 s, without noise.

    Parameters
    ----------
    gains : float64[4]
        Gains on position, speed, angle and angular speed. In the paper, the gains are between
        `LOWER` and `UPPER`.
    friction : float
        Friction of the bearing in N m s/rad: `FRICTION`, or `WORN_FRICTION` after the change.

    Returns
    -------
    float
        The cost: about 14 to 18 for gains in the box, and `MAX_COST` if the pole falls.
    """
    return cost_from(plant(friction), gains, START.copy())
