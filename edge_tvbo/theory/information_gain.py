"""Information gain γ_n: how much n readings reveal about a field.

γ_n is the largest gain of n readings: the maximum of ½ ln det(I + K_A / σ²) over multisets A of n
arms, in nats. K_A is the prior covariance of these arms, and σ² is the noise variance. Every regret
bound depends on γ_n. The gain of n greedily chosen readings is at least (1 - 1/e) γ_n.
"""

from math import e, log1p

import numpy as np

from edge_tvbo.models.arm_space import Field
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.parameter_checks import check_count, check_positive
from edge_tvbo.numerics.state_space import information_gain
from edge_tvbo.numerics.types import Array


def greedy_gain(field: Field, readings: int) -> Array:
    """Return the information gain of 1, 2, ... greedily chosen readings of a static field.

    Parameters
    ----------
    field : SensorField or BoxField
        M arms, their prior covariance and noise variance.
    readings : int
        n, 1 or more.

    Returns
    -------
    (n,) array
        Gains in nats. Entry i - 1 is between (1 - 1/e) γ_i and γ_i.

    Raises
    ------
    ConfigError
        If `readings` is below 1.

    Notes
    -----
    The computation takes n M² multiply-adds. Sources: Srinivas et al. 2010, section 5; [ZS21] eq.
    3.
    """
    check_count(readings=readings)
    gains = np.empty(readings)
    information_gain(field.kernel, field.noise_variance, gains)
    return gains


def gain_ceiling(field: SensorField, readings: int) -> Array:
    r"""Return upper bounds on the information gains γ_1, ..., γ_n, for use in regret bounds.

    Each returned value is the smaller of two upper bounds. The first is the greedy gain divided by
    1 - 1/e, because the gain is submodular (Srinivas et al. 2010, section 5). The second is
    :math:`\frac{n}{2} \ln(1 + \max_x k(x, x) / σ^2)`, the gain of n readings of n independent arms.
    Arguments, shape, unit and exceptions are those of `greedy_gain`.
    """
    greedy = greedy_gain(field, readings)
    first = 0.5 * log1p(float(np.max(np.diag(field.kernel))) / field.noise_variance)
    ceiling: Array = np.minimum(greedy / (1.0 - 1.0 / e), first * np.arange(1, readings + 1))
    return ceiling


def regret_constant(noise_variance: float) -> float:
    r"""Return C_1 of the regret bounds: Σ 4 σ_t²(x_t) is at most C_1 times the information gain.

    .. math:: C_1 = \frac{8}{\ln(1 + σ^{-2})}

    σ_t²(x_t) is the posterior variance of the arm x_t that is selected in interval t. The
    `noise_variance` σ² is above 0, in units of the field's largest prior variance. Sources:
    Srinivas et al. 2010, theorem 1 and lemma 5.4; [B16] theorems 4.2 and 4.3; [M24] lemma 4.6.
    """
    check_positive(noise_variance=noise_variance)
    return 8.0 / log1p(1.0 / noise_variance)


def matern_exponent(*, dimension: int, nu: float) -> float:
    r"""Return c, the exponent of the growth rate of the information gain for a Matérn kernel.

    .. math:: c = \frac{d (d + 1)}{2ν + d (d + 1)}

    The exponent is between 0 (easy to optimise) and 1 (impossible). [B16] corollary 4.1 calls the
    exponent c, and [ET] corollary 1 calls it ξ.

    >>> matern_exponent(dimension=2, nu=3)
    0.5
    """
    check_count(dimension=dimension)
    check_positive(nu=nu)
    return dimension * (dimension + 1) / (2.0 * nu + dimension * (dimension + 1))
