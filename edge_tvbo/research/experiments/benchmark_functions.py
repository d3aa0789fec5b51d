"""Benchmark functions of one or a few variables, with their domains and known maxima.

Two functions are static ([LB] section 5); their smoothness differs from place to place. Two other
functions, on [0, 1], change with time ([ET] App. B, after Deng et al. 2022): `abrupt` changes
suddenly, and `slow` changes slowly.
"""

from collections.abc import Callable
from math import pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from edge_tvbo.numerics.types import Array

HORIZON = 500  # intervals, [ET] Table 8
ARMS = 100  # number of arms on [0, 1]
LENGTH_SCALE = 0.2  # [ET] Table 8
CHANGES = (100, 200)  # intervals at which the function is replaced, [ET] App. B
CENTRES = 30  # number of kernels in the sum of one random function


class Landscape(NamedTuple):
    """A static benchmark function to maximise, with its domain (a box) and its maximum."""

    evaluate: Callable[[ArrayLike], Array]  # float64[..., d] -> float64[...]
    lower: Array  # float64[d]
    upper: Array  # float64[d]
    argmax: Array  # float64[d]
    maximum: float


def berkenkamp(x: ArrayLike) -> Array:
    """Return Berkenkamp's function, a slope with a narrow peak, at places `x` in [0, 1].

    `x` has the shape (..., 1). The function is 0.6 x + N(x; 0.2, 0.08²)/8. The slope ends at x = 1
    with the value 0.6; a model with a long length scale fits all readings on the slope. The
    maximum, 0.745, is in the peak on the left. The function is named after Berkenkamp et al. 2019.
    The formula is that of the public code of [LB] (github.com/JuliuszZiomek/LB-GP-UCB,
    ``utils/_experiments.py``).

    >>> round(float(berkenkamp([1.0])), 6)
    0.6
    """
    place = np.asarray(x, dtype=np.float64)[..., 0]
    peak = np.exp(-0.5 * ((place - 0.2) / 0.08) ** 2) / (0.08 * sqrt(2.0 * pi))
    return np.asarray(0.6 * place + peak / 8.0)


def michalewicz(x: ArrayLike) -> Array:
    """Return the negative Michalewicz function, which is to be maximised, at places `x`.

    `x` has the shape (..., d). The function is Σ_i sin(x_i) sin(i x_i²/π)^(2m) on [0, π]^d with
    m = 10. The function has d ridges of width 1/m in a flat region. [LB] uses d = 5. Source:
    Michalewicz, *Genetic Algorithms + Data Structures = Evolution Programs*, 1992.

    >>> round(float(michalewicz([2.2029055, 1.5707963])), 4)
    1.8013
    """
    place = np.asarray(x, dtype=np.float64)
    i = np.arange(1.0, place.shape[-1] + 1.0)
    return np.asarray((np.sin(place) * np.sin(i * place**2 / pi) ** 20).sum(axis=-1))


BERKENKAMP = Landscape(
    evaluate=berkenkamp,
    lower=np.zeros(1),
    upper=np.ones(1),
    argmax=np.array([0.20617869024055846]),
    maximum=0.7451981532422828,
)
# The function is a sum over coordinates, so its maximum was found for each coordinate separately.
MICHALEWICZ = Landscape(
    evaluate=michalewicz,
    lower=np.zeros(5),
    upper=np.full(5, pi),  # the code of [LB] writes 3.14
    argmax=np.array(
        [2.2029055201726093, pi / 2, 1.2849915705717567, 1.9230584698663635, 1.7204697724075937]
    ),
    maximum=4.687658179088147,
)


def random_function(arms: Array, seed: int, number: int) -> Array:
    """Return the values of a random smooth benchmark function at `arms`; the root mean square is 1.

    `arms` and the result have the shape (M,). The function is a multiple of Σ_i a_i k(x, z_i)
    with 30 terms. k is the squared exponential kernel with the length scale l = 0.2, a_i is uniform
    on [-1, 1], and z_i is uniform on [0, 1]. The function is a member of the kernel's RKHS and is
    drawn as in Chowdhury & Gopalan 2017. The root mean square of 1 matches a prior of variance 1.
    With the same seed, each `number` selects a different function.
    """
    rng = np.random.default_rng((seed, number))
    centres = rng.random(CENTRES)
    weights = rng.uniform(-1.0, 1.0, CENTRES)
    f = np.exp(-((arms[:, None] - centres) ** 2) / (2.0 * LENGTH_SCALE**2)) @ weights
    return np.asarray(f / np.sqrt(np.mean(f**2)))


def abrupt(seed: int) -> Array:
    """Return a function on 100 arms that is replaced at t = 100 and t = 200 of 500 intervals.

    Row t of the result, counted from 0, is the function in interval t. The functions are not those
    of the paper: [ET] App. B states only the times of change, the length scale and T. For all other
    details, [ET] refers to Deng et al. 2022, *Weighted Gaussian Process Bandits for Non-stationary
    Environments*. The text and the Matlab code of that paper (supplement of
    proceedings.mlr.press/v151/deng22b) were not available. Therefore, the regrets of policies can
    be compared with each other, but not with the numbers of [ET] Table 2.

    >>> abrupt(0).shape
    (500, 100)
    """
    arms = np.linspace(0.0, 1.0, ARMS)
    pieces = [random_function(arms, seed, number) for number in range(len(CHANGES) + 1)]
    which = np.searchsorted(CHANGES, np.arange(HORIZON), side="right")
    return np.stack(pieces)[which]


def slow(seed: int) -> Array:
    """Return the benchmark function on 100 arms that changes slowly and evenly in 500 intervals.

    In interval t, the function is f_t = cos(θ) f + sin(θ) g with two random functions f and g; θ
    increases from 0 to π/2. All steps have the same size, and the norm of f_t stays the same. As in
    `abrupt`, the functions are not those of the paper.

    >>> slow(0).shape
    (500, 100)
    """
    arms = np.linspace(0.0, 1.0, ARMS)
    angle = np.linspace(0.0, pi / 2, HORIZON)[:, None]
    f, g = (random_function(arms, seed, number) for number in range(2))
    return np.asarray(np.cos(angle) * f + np.sin(angle) * g)
