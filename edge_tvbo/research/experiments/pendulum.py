"""Pendulum: the plant of experiment E5, which maps the gains of a controller to its reward.

An inverted pendulum is on a cart. The speed of the cart follows the command u with a lag:

    T1 s'' = K u - s'                                         cart
    J φ''  = m g (l/2) φ - m (l/2) s'' - μ φ'                 pole, φ = 0 upright

with J = m l²/3 + m d²/16. The state is x = [s, s', φ, φ'] in m, m/s, rad and rad/s. The command is
u = -gains · x in m/s; the command is held for one period of 20 ms. Between two commands, the state
is the exact solution of these linear equations. With exact solutions, every controller in the box
of allowed gains is stable, with the new bearing and with the worn bearing.

The source is the public code of Brunzema, von Rohr & Trimpe, *On Controller Tuning with
Time-Varying Bayesian Optimization*, CDC 2022 (github.com/brunzema/uitvbo,
``src/objective_functions_LQR.py``). [ET] App. A.3 is based on that paper. The equations, their
constants, the initial state, the weights of the cost and the signs are those of the code. The box
is that of [ET] Table 7, and the change of the friction at t = 100 is that of [ET] section 6. There
are two differences from the public code:

- The public code also disturbs the state, with standard deviation 0.0006 in each step. In this
  module, only readings have noise, so that regret is computed from a reward without noise.
- The public code normalises rewards by the first 30 readings of each run. This module uses the same
  two constants for all runs (see `normalisation`).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from edge_tvbo.numerics.types import Array
from edge_tvbo.plugins import optional_module

LOWER: Array = np.array([-3.0, -6.0, -50.0, -4.0])  # gains on s, s', φ, φ'; [ET] Table 7
UPPER: Array = np.array([-2.0, -4.0, -25.0, -2.0])
SCALES: Array = np.array(
    [1 / 8, 1 / 4, 3.0, 1 / 8]
)  # units of the length scales of the gains; [ET] Table 7

FRICTION = 2.2e-3  # friction of the new bearing, N m s/rad
WORN_FRICTION = 2.5 * FRICTION  # from t = 100 on
WORN_AT = 100  # interval in which the friction changes

NORMALISATION_SAMPLE = 1024  # number of controllers
SEARCH_STARTS = 4  # number of local searches in `optimum`


def spread(n: int) -> Array:
    """Return `n` controllers of the pendulum, spread evenly over the box, float64[n, 4].

    The controllers are the same at every call. They are the first points of an additive recurrence.
    The step of the recurrence in dimension i is φ^-i, with φ⁵ = φ + 1 (M. Roberts, *The
    Unreasonable Effectiveness of Quasirandom Sequences*, 2018).

    >>> bool((spread(100) > LOWER).all() and (spread(100) < UPPER).all())
    True
    """
    phi = 1.1673039782614187
    unit = (0.5 + np.outer(np.arange(1, n + 1), phi ** -np.arange(1.0, 5.0))) % 1.0
    return np.ascontiguousarray(LOWER + (UPPER - LOWER) * unit)


class Normalisation(NamedTuple):
    """The mean and the standard deviation by which the pendulum's costs are normalised."""

    mean: float
    sd: float


@lru_cache(maxsize=1)
def normalisation() -> Normalisation:
    """Return the mean and the standard deviation of the cost of a pendulum with a new bearing.

    Both are computed over the box of allowed gains.

    >>> normalisation().mean > normalisation().sd > 0
    True
    """
    # imports numba, which `edge-tvbo experiment list` does not need
    from edge_tvbo.research.experiments.pendulum_cost import cost

    costs = np.array([cost(gains, FRICTION) for gains in spread(NORMALISATION_SAMPLE)])
    return Normalisation(float(costs.mean()), float(costs.std()))


def reward(gains: Array, friction: float) -> float:
    """Return the reward of a pendulum's controller: its negative cost, normalised over the box.

    Parameters
    ----------
    gains : float64[4]
        Gains as for `cost`.
    friction : float
        Friction in N m s/rad. At `FRICTION` the rewards over the box have mean 0 and standard
        deviation 1. A worn bearing lowers the mean.
    """
    from edge_tvbo.research.experiments.pendulum_cost import cost

    mean, sd = normalisation()
    return (mean - float(cost(gains, friction))) / sd


def friction_at(t: int) -> float:
    """Return the friction of the pendulum's bearing in interval `t`, N m s/rad.

    From t = 100 on, the friction is 2.5 times as large as before.

    >>> [round(friction_at(t), 4) for t in (99, 100)]
    [0.0022, 0.0055]
    """
    return WORN_FRICTION if t >= WORN_AT else FRICTION


def optimum(friction: float) -> tuple[Array, float]:
    """Return the pendulum's best controller in the box, float64[4], and its reward.

    `friction` is the friction of the bearing in N m s/rad.

    The controller is the best result of four L-BFGS-B searches. The searches start from controllers
    of `spread`, so the result is the same at every call. If the linear-quadratic regulator is in
    the box, it agrees with the best controller to three digits, because the horizon is long.

    Raises
    ------
    MissingExtra
        If scipy is not installed.
    """
    what = "scipy, which finds the best controller,"
    minimize = optional_module("scipy.optimize", what, "science").minimize
    width = UPPER - LOWER

    def loss(unit: Array) -> float:
        return -reward(LOWER + width * unit, friction)

    found = [
        minimize(loss, (gains - LOWER) / width, jac="3-point", bounds=[(0.0, 1.0)] * 4, tol=1e-12)
        for gains in spread(SEARCH_STARTS)
    ]
    best = min(found, key=lambda result: float(result.fun))
    return LOWER + width * best.x, -float(best.fun)
