"""Problems on a box: well-known test functions, whose last variable is time.

During a run, the last variable goes from its lower to its upper bound; the other variables span the
box. The literature on dynamic Bayesian optimisation makes test functions dynamic in this way. The
W-DBO paper (Bardou, Thiran & Ranieri 2024) was not read for this module, and may use other
functions and another horizon. All functions are to be minimised. The formulas and domains are those
of Surjanovic & Bingham, *Virtual Library of Simulation Experiments*, www.sfu.ca/~ssurjano.
"""

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from math import e, pi
from typing import NamedTuple

import numpy as np

from edge_tvbo.models.box import BoxField, Point
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.plugins import optional_module

HORIZON = 100
NOISE_VARIANCE = 0.01  # as a share of the variance of the function
CANDIDATES = 128
LENGTH_SCALE = 0.3  # of the prior, as a share of each side; Matérn 5/2
SAMPLES = 2048  # number of points for mean, variance and the starts of the searches
STARTS = 4  # number of local searches for the best value of an interval

HARTMANN_WEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
HARTMANN_3_A = np.array([[3.0, 10.0, 30.0], [0.1, 10.0, 35.0]] * 2)
HARTMANN_3_P = 1e-4 * np.array(
    [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
)
HARTMANN_6_A = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
HARTMANN_6_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


class ScalarFunction(NamedTuple):
    """A function of d variables that is to be minimised; the last variable is time."""

    evaluate: Callable[[Array], Array]  # float64[n, d] -> float64[n]
    lower: Sequence[float]
    upper: Sequence[float]
    minimiser: Sequence[float] | None = None  # first d - 1 variables; None if the minimum moves


def branin_value(x: Array) -> Array:
    """Return Branin's moving function at points `x` (n, 2); its minimum is 0.397887."""
    bend = x[:, 1] - 5.1 / (4 * pi**2) * x[:, 0] ** 2 + 5 / pi * x[:, 0] - 6
    return np.asarray(bend**2 + 10 * (1 - 1 / (8 * pi)) * np.cos(x[:, 0]) + 10)


def hartmann_value(x: Array, A: Array, P: Array) -> Array:
    """Return Hartmann's moving function at the points `x` (n, d).

    The function has four peaks. `A` holds the shapes of the peaks, and `P` holds their places; the
    shape of both arrays is (4, d). The minimum of the function is -3.86278 in three dimensions and
    -3.32237 in six.
    """
    distances = (A * (x[:, None, :] - P) ** 2).sum(axis=2)
    return np.asarray(-np.exp(-distances) @ HARTMANN_WEIGHTS)


def ackley_value(x: Array) -> Array:
    """Return Ackley's moving function at points `x` (n, d); its minimum is 0, where all x are 0."""
    root = np.sqrt((x**2).mean(axis=1))
    waves = np.cos(2 * pi * x).mean(axis=1)
    return np.asarray(-20 * np.exp(-0.2 * root) - np.exp(waves) + 20 + e)


def levy_value(x: Array) -> Array:
    """Return Levy's moving function at points `x` (n, d); its minimum is 0, where all x are 1."""
    w = 1 + (x - 1) / 4
    first = np.sin(pi * w[:, 0]) ** 2
    body = ((w[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(pi * w[:, :-1] + 1) ** 2)).sum(axis=1)
    last = (w[:, -1] - 1) ** 2 * (1 + np.sin(2 * pi * w[:, -1]) ** 2)
    return np.asarray(first + body + last)


class MovingFunction:
    """A test function as a problem: its last variable is time, and the others form the box.

    The true values are those of the test function. The field converts them to model units, in which
    their mean over the whole domain is 0 and their variance is 1. All runs have the same values,
    but different noise.

    Parameters
    ----------
    function : ScalarFunction
        The test function.
    horizon : int
        T, number of intervals in which the last variable goes through its range; 2 or more.
    """

    noise_variance = NOISE_VARIANCE

    def __init__(self, function: ScalarFunction, horizon: int = HORIZON) -> None:
        self._function, self.horizon = function, horizon
        lower, upper = np.array(function.lower), np.array(function.upper)
        values = function.evaluate(_points(lower, upper))
        sides = upper[:-1] - lower[:-1]
        self.field = BoxField(
            lower[:-1].tolist(),
            upper[:-1].tolist(),
            SpatialKernel(2.5, tuple((LENGTH_SCALE * sides).tolist())),
            NOISE_VARIANCE,
            candidates=CANDIDATES,
            objective="min",
            center=float(values.mean()),
            scale=float(values.std()),
        )

    def truth(self, generator: np.random.Generator) -> "MovingFunction":
        """Return this moving function itself, because its values are the same in each run."""
        return self

    def value(self, t: int, arm: Point) -> float:
        """Return the value of the moving function at the point `arm` in interval `t`."""
        return float(self._at(t, np.array([arm]))[0])

    def best(self, t: int) -> float:
        """Return the moving function's minimum in interval `t`, as found by local searches."""
        return self._minima[t]

    @cached_property
    def _minima(self) -> list[float]:
        """Minimum of the moving function over the box in each interval."""
        from scipy.optimize import minimize

        field, found = self.field, []
        points = _points(field.lower, field.upper)
        known = [] if self._function.minimiser is None else [np.array(self._function.minimiser)]
        for t in range(self.horizon):
            values = self._at(t, points)
            starts = [*known, *points[np.argsort(values, kind="stable")[:STARTS]]]
            ends = [
                minimize(
                    lambda x, t=t: self._at(t, x[None, :])[0],
                    start,
                    method="L-BFGS-B",
                    bounds=list(zip(field.lower, field.upper, strict=True)),
                )
                for start in starts
            ]
            best = min(ends, key=lambda end: float(end.fun))
            found.append(min(float(best.fun), float(values.min())))
            known = [*known[:1], best.x] if self._function.minimiser is not None else [best.x]
        return found

    def _at(self, t: int, points: Array) -> Array:
        lower, upper = self._function.lower[-1], self._function.upper[-1]
        time = lower + (upper - lower) * t / (self.horizon - 1)
        return self._function.evaluate(np.column_stack((points, np.full(len(points), time))))


def _points(lower: Array, upper: Array) -> Array:
    """Return Sobol points of a moving function's box, of shape (SAMPLES, d)."""
    what = "scipy, which draws the points of a moving function,"
    qmc = optional_module("scipy.stats", what, "science").qmc
    sobol = qmc.Sobol(len(lower), scramble=True, rng=0)
    return np.asarray(qmc.scale(sobol.random(SAMPLES), lower, upper))


@cache
def branin(horizon: int = HORIZON) -> MovingFunction:
    """Return the problem with Branin's function of one variable and time."""
    return MovingFunction(ScalarFunction(branin_value, [-5.0, 0.0], [10.0, 15.0]), horizon)


@cache
def hartmann_3(horizon: int = HORIZON) -> MovingFunction:
    """Return the problem with Hartmann's function of two variables and time."""
    return _hartmann(HARTMANN_3_A, HARTMANN_3_P, horizon)


@cache
def hartmann_6(horizon: int = HORIZON) -> MovingFunction:
    """Return the problem with Hartmann's function of five variables and time."""
    return _hartmann(HARTMANN_6_A, HARTMANN_6_P, horizon)


@cache
def ackley_4(horizon: int = HORIZON) -> MovingFunction:
    """Return the problem with Ackley's function of three variables and time."""
    function = ScalarFunction(ackley_value, [-32.768] * 4, [32.768] * 4, [0.0] * 3)
    return MovingFunction(function, horizon)


@cache
def levy_4(horizon: int = HORIZON) -> MovingFunction:
    """Return the problem with Levy's function of three variables and time."""
    function = ScalarFunction(levy_value, [-10.0] * 4, [10.0] * 4, [1.0] * 3)
    return MovingFunction(function, horizon)


def _hartmann(A: Array, P: Array, horizon: int) -> MovingFunction:
    d = A.shape[1]
    function = ScalarFunction(lambda x: hartmann_value(x, A, P), [0.0] * d, [1.0] * d)
    return MovingFunction(function, horizon)
