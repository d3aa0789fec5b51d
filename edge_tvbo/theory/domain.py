"""Continuous domain of a regret bound: its dimension, its size and the slope of its fields."""

from dataclasses import dataclass
from math import erfc, log, pi, sqrt

from edge_tvbo.models.parameter_checks import check_count, check_positive


@dataclass(frozen=True)
class Domain:
    r"""A compact, convex domain within [0, side]^dimension, with the slope of its fields.

    Parameters
    ----------
    dimension : int
        d, number of coordinates.
    side : float
        r, in the unit of the coordinates.
    a1, b1 : float
        Constants that bound the slope, for each coordinate j and all L > 0 ([B16] eq. 10, [M24] eq.
        4.2):

        .. math:: P(\sup |∂f/∂x_j| > L) ≤ a_1 \exp(-(L/b_1)^2)

        b_1 is in units of the field per unit of the coordinates. The constants exist for kernels
        that are four times differentiable: the squared exponential, and Matérn kernels with ν > 2.

    Raises
    ------
    ConfigError
        If `dimension` is not a whole number of at least 1, or if another argument is not above 0.
    """

    dimension: int = 2
    side: float = 1.0
    a1: float = 1.0
    b1: float = 1.0

    def __post_init__(self) -> None:
        check_count(dimension=self.dimension)
        check_positive(side=self.side, a1=self.a1, b1=self.b1)

    @property
    def reach(self) -> float:
        """Product r d b1, the order of magnitude of max f - min f for a field f on the domain."""
        return self.side * self.dimension * self.b1

    @property
    def mean_loss(self) -> float:
        """Upper bound on the mean of max f - min f for a field f on the domain.

        The bound is r d b1 times the integral over L of min(1, a1 d exp(-L²)).
        """
        odds = self.a1 * self.dimension
        root = sqrt(max(log(odds), 0.0))
        return self.reach * (root + odds * sqrt(pi) / 2.0 * erfc(root))
