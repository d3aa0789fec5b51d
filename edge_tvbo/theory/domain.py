"""Where a continuous field lives and how steep it is: what the papers' β depends on."""

from dataclasses import dataclass

from edge_tvbo.theory import checks


@dataclass(frozen=True)
class Domain:
    """A compact, convex domain within [0, side]^dimension, and how steep its fields are.

    Parameters
    ----------
    dimension : int
        d, how many coordinates a place has.
    side : float
        r, in the unit of the coordinates.
    a1, b1 : float
        P(sup |∂f/∂x_j| > L) ≤ a1 exp(-(L/b1)²) for each coordinate j and all L > 0 ([B16] eq. 10,
        [M24] eq. 4.2); b1 is in field units per unit of the coordinates. Four times
        differentiable kernels have such constants: squared exponential, Matérn with ν > 2.

    Raises
    ------
    ConfigError
        Where `dimension` is no whole number of 1 or more, or another is not above 0.
    """

    dimension: int = 2
    side: float = 1.0
    a1: float = 1.0
    b1: float = 1.0

    def __post_init__(self) -> None:
        checks.count(dimension=self.dimension)
        checks.positive(side=self.side, a1=self.a1, b1=self.b1)

    @property
    def reach(self) -> float:
        """Give r d b1, the scale of how far apart two values of one field can be."""
        return self.side * self.dimension * self.b1
