"""Arms that are the points of a box, instead of sensors."""

from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.spatial_kernels import SpatialKernel

Array = NDArray[np.float64]
Point = tuple[float, ...]
STARTS = 3  # candidates that a search begins from
STEP = 1e-6  # of a side: of the differences that stand for a gradient


class BoxField:
    """The points of a box, with a stationary prior over them; an arm is a tuple of d numbers.

    Where a `SensorField` is searched arm by arm, a box is searched among Sobol candidates, and from
    the best few of them by L-BFGS-B.

    Parameters
    ----------
    lower, upper : sequence of d float
        Corners.
    spatial : SpatialKernel
        Prior covariance; its length scales are in the units of the corners.
    noise_variance : float
        Of one reading, in model units², > 0.
    candidates : int
        How many Sobol points are compared before the search; rounded up to a power of two.
    unit, center, scale, objective
        As for `SensorField`.

    Raises
    ------
    ConfigError
        For corners in the wrong order, or numbers out of range.
    """

    def __init__(
        self,
        lower: Sequence[float],
        upper: Sequence[float],
        spatial: SpatialKernel,
        noise_variance: float,
        *,
        candidates: int = 512,
        unit: str = "",
        center: float = 0.0,
        scale: float = 1.0,
        objective: Literal["max", "min"] = "max",
    ) -> None:
        self.lower = np.array(lower, np.float64)
        self.upper = np.array(upper, np.float64)
        finite = np.isfinite(self.lower).all() and np.isfinite(self.upper).all()
        if self.lower.shape != self.upper.shape or self.lower.ndim != 1 or not finite:
            raise ConfigError("lower and upper must be as many finite numbers.")
        if not len(self.lower) or not (self.lower < self.upper).all():
            raise ConfigError(f"lower is {lower}, upper {upper}; each must be below its fellow.")
        if not (np.isfinite(noise_variance) and noise_variance > 0):
            raise ConfigError(f"noise_variance is {noise_variance}; it must be above 0.")
        if not (np.isfinite(scale) and scale > 0 and np.isfinite(center)):
            raise ConfigError(f"scale is {scale}; it must be above 0, and center finite.")
        if objective not in ("max", "min"):
            raise ConfigError(f'objective is {objective!r}; it can be "max" or "min".')
        if not 2 <= candidates <= 2**16:
            raise ConfigError(f"candidates is {candidates}; it can be 2 to 65536.")
        self.spatial = spatial
        self.noise_variance = float(noise_variance)
        self.unit, self.center, self.scale = unit, float(center), float(scale)
        self.objective = objective
        self._sign = 1.0 if objective == "max" else -1.0
        self._exponent = (candidates - 1).bit_length()

    def __len__(self) -> int:
        return 1 << self._exponent

    @cached_property
    def positions(self) -> Array:
        """Candidates (M, d), the same in each process."""
        try:
            from scipy.stats import qmc
        except ImportError:
            raise MissingExtra("scipy, which box domains need,", "science") from None
        sobol = qmc.Sobol(len(self.lower), scramble=True, rng=0)
        return np.asarray(qmc.scale(sobol.random_base2(self._exponent), self.lower, self.upper))

    @cached_property
    def kernel(self) -> Array:
        """Prior covariance of the candidates, (M, M)."""
        return self.spatial(self.positions, self.positions)

    def arm(self, index: int) -> Point:
        """Give the point of a candidate."""
        return tuple(float(x) for x in self.positions[index])

    def index(self, arm: Point) -> int:
        """Give the candidate that is nearest to a point, in shares of the box's sides."""
        apart = (self.positions - np.array(arm)) / (self.upper - self.lower)
        return int((apart**2).sum(axis=1).argmin())

    def name(self, arm: Point) -> str:
        """Give a point as text."""
        return " ".join(f"{x:.6g}" for x in arm)

    def holds(self, places: Array) -> bool:
        """Say whether points (n, d) lie in the box."""
        return bool(((places >= self.lower) & (places <= self.upper)).all())

    def to_model(self, reading: float) -> float:
        """Give a reading in model units."""
        return self._sign * (reading - self.center) / self.scale

    def to_unit(self, value: float) -> float:
        """Give a model value as a reading."""
        return self.center + self._sign * value * self.scale

    def fingerprint(self) -> str:
        """Give 16 hex digits that differ between boxes a snapshot cannot be shared by."""
        numbers = (self.noise_variance, self.center, self.scale, len(self), self.objective)
        corners = (self.lower.tolist(), self.upper.tolist())
        return sha256(repr((corners, self.spatial, numbers)).encode()).hexdigest()[:16]

    def climb(self, score: Callable[[Array], Array], first: int, scores: Array) -> Point:
        """Give the point with the highest score that a local search finds.

        Parameters
        ----------
        score : function
            Of points (m, d), giving (m,); smooth, and > -∞.
        first : int
            The candidate to begin from; the next best ones of `scores` (M,) follow.
        """
        from scipy.optimize import minimize

        starts = [first, *(int(i) for i in np.argsort(-scores, kind="stable") if i != first)]
        best, highest = self.positions[first], float(scores[first])
        sides = self.upper - self.lower
        bounds = [(0.0, 1.0)] * len(sides)
        for start in starts[:STARTS]:
            found = minimize(
                _downhill,
                (self.positions[start] - self.lower) / sides,
                args=(lambda U: score(self.lower + U * sides),),
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": 20},
            )
            if -float(found.fun) > highest:
                best, highest = self.lower + found.x * sides, -float(found.fun)
        return tuple(float(x) for x in np.clip(best, self.lower, self.upper))


def _downhill(u: Array, score: Callable[[Array], Array]) -> tuple[float, Any]:
    """Give minus the score at `u` in the unit box, and minus its gradient by differences."""
    d = len(u)
    steps = np.where(u < 0.5, STEP, -STEP)  # into the box
    values = score(np.vstack((u, u + np.diag(steps))))
    return -float(values[0]), -(values[1:] - values[0]) / steps[:d]
