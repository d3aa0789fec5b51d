"""Information gain: how much readings can say about a field, which every bound is built on.

γ_n is the most that n readings can say, ½ ln det(I + K_A / σ²) at its greatest over multisets A
of n arms, in nats. The greedy gain, on the actual arms, is at least 1 - 1/e of it; an asymptotic
rate says how it grows and nothing of its constant.
"""

from math import e, log, log1p

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.models.domain import Field
from edge_tvbo.models.field import SensorField
from edge_tvbo.numerics.state_space import information_gain
from edge_tvbo.theory import checks

Gains = NDArray[np.float64]


def greedy_gain(field: Field, readings: int) -> Gains:
    """Give what 1, 2, ... `readings` greedily chosen readings say of a field that stands still.

    Parameters
    ----------
    field : SensorField or BoxField
        Its kernel and noise; M arms.
    readings : int
        n, 1 or more.

    Returns
    -------
    (n,) array
        Nats. Entry i - 1 is at least 1 - 1/e of γ_i, and never above it.

    Raises
    ------
    ConfigError
        Where `readings` is below 1.

    Notes
    -----
    n M² multiply-adds. Srinivas et al. 2010, section 5; [ZS21] eq. 3.
    """
    checks.count(readings=readings)
    gains = np.empty(readings)
    information_gain(field.kernel, field.noise_variance, gains)
    return gains


def gain_ceiling(field: SensorField, readings: int) -> Gains:
    """Give what γ_1, γ_2, ... γ_n surely do not exceed, so that a bound built on it holds.

    The lesser of greedy / (1 - 1/e) (Srinivas et al. 2010, section 5: the gain is submodular) and
    n/2 ln(1 + max k(x,x) / σ²), what n readings of n independent arms would say. Shapes, unit and
    errors are those of `greedy_gain`.
    """
    greedy = greedy_gain(field, readings)
    first = 0.5 * log1p(float(np.max(np.diag(field.kernel))) / field.noise_variance)
    ceiling: Gains = np.minimum(greedy / (1.0 - 1.0 / e), first * np.arange(1, readings + 1))
    return ceiling


def gain_constant(noise_variance: float) -> float:
    """Give C1 = 8 / ln(1 + σ^-2), which turns a gain into a sum of 4 σ_t²(x_t).

    `noise_variance` is in units of the field's greatest prior variance, > 0, else ConfigError.
    Srinivas et al. 2010, theorem 1 and lemma 5.4; [B16] theorems 4.2 and 4.3; [M24] lemma 4.6.
    """
    checks.positive(noise_variance=noise_variance)
    return 8.0 / log1p(1.0 / noise_variance)


def se_rate(readings: int, *, dimension: int) -> float:
    """Give ln(n)^(d+1), which γ_n grows like for a squared exponential kernel.

    Srinivas et al. 2010, theorem 5. ConfigError where an argument is below 1.

    >>> round(se_rate(100, dimension=2), 2)
    97.66
    """
    checks.count(readings=readings, dimension=dimension)
    return float(log(readings) ** (dimension + 1))


def matern_rate(readings: int, *, dimension: int, nu: float) -> float:
    """Give n^c ln(n), c = `matern_exponent`, which γ_n grows no faster than for a Matérn kernel.

    Srinivas et al. 2010, theorem 5. ConfigError where a count is below 1 or ν is not above 0.
    """
    checks.count(readings=readings)
    exponent = matern_exponent(dimension=dimension, nu=nu)
    return float(readings**exponent) * log(readings)


def matern_exponent(*, dimension: int, nu: float) -> float:
    """Give c = d(d+1) / (2ν + d(d+1)), how hard a Matérn field is: 0 easy, 1 hopeless.

    [B16] corollary 4.1, where it is c; [ET] corollary 1, where it is ξ. ConfigError where
    `dimension` is below 1 or ν is not above 0.

    >>> matern_exponent(dimension=2, nu=3)
    0.5
    """
    checks.count(dimension=dimension)
    checks.positive(nu=nu)
    return dimension * (dimension + 1) / (2.0 * nu + dimension * (dimension + 1))
