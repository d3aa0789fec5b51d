"""Box field: its arms are the points of a box, and its prior covariance is stationary."""

from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal

import numpy as np

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.field import Number
from edge_tvbo.models.fingerprint import Fingerprint
from edge_tvbo.models.parameter_checks import check_count, check_positive, is_finite_number
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.plugins import optional_module

Point = tuple[float, ...]
SEARCH_STARTS = 3  # number of candidates from which a local search starts
GRADIENT_STEP = 1e-6  # step of the finite differences, as a share of the box's side
MAX_CANDIDATES = 2**16


class BoxField:
    """A field over the points of a box in d dimensions; an arm is a tuple of d numbers.

    In a `SensorField`, the arm with the highest upper confidence bound is found by comparing all
    arms. In a box, a fixed set of Sobol points is compared first; these points are the candidates.
    L-BFGS-B then searches from the best few candidates.

    Parameters
    ----------
    lower, upper : sequence of d float
        Corners of the box.
    spatial : SpatialKernel
        Prior covariance; its length scales are in the units of the corners.
    noise_variance : float
        Noise variance of a reading, in model units², > 0.
    candidates : int
        Number of Sobol points that are compared before the search, 2 to 65536. This number is
        rounded up to a power of two.
    length_scales : "given" or "fitted"
        "given": the length scales of `spatial` are used; "fitted": one length scale for each
        dimension is fitted to the readings. The fit requires that `spatial` is a squared
        exponential kernel; `ArdMapPosterior` describes the fit. Policies that learn length scales
        in another way do not use this parameter.
    unit, center, scale, objective
        As for `SensorField`.

    Raises
    ------
    ConfigError
        If the corners are in the wrong order, a number is out of range, or the number of length
        scales does not fit the box.

    Examples
    --------
    >>> box = BoxField([0, 10], [1, 30], SpatialKernel(2.5, (0.2, 5.0)), noise_variance=0.01)
    >>> box.contains(np.array([[0.5, 20.0]])), box.contains(np.array([[0.5, 31.0]]))
    (True, False)
    """

    def __init__(
        self,
        lower: Sequence[float],
        upper: Sequence[float],
        spatial: SpatialKernel,
        noise_variance: float,
        *,
        candidates: int = 512,
        length_scales: Literal["given", "fitted"] = "given",
        unit: str = "",
        center: float = 0.0,
        scale: float = 1.0,
        objective: Literal["max", "min"] = "max",
    ) -> None:
        self.lower, self.upper = _checked_corners(lower, upper)
        check_positive(noise_variance=noise_variance, scale=scale)
        if not is_finite_number(center):
            raise ConfigError(f"center is {center}; it must be a finite number.")
        if objective not in ("max", "min"):
            raise ConfigError(f'objective is {objective!r}; it can be "max" or "min".')
        check_count(candidates=candidates)
        if not 2 <= candidates <= MAX_CANDIDATES:
            raise ConfigError(f"candidates is {candidates}; it can be 2 to {MAX_CANDIDATES}.")
        if length_scales not in ("given", "fitted"):
            raise ConfigError(
                f'length_scales is {length_scales!r}; it can be "given" or "fitted". The length '
                "scales themselves are parameters of `spatial`."
            )
        scales, dimension = np.size(spatial.length_scale), len(self.lower)
        if scales not in (1, dimension):
            raise ConfigError(
                f"length_scale has {scales} numbers; it can be one number, or one number for each "
                f"of the {dimension} dimensions of the box."
            )
        self.spatial = spatial
        self.length_scales = length_scales
        self.noise_variance = float(noise_variance)
        self.unit, self.center, self.scale = unit, float(center), float(scale)
        self.objective = objective
        self._sign = 1.0 if objective == "max" else -1.0
        self._exponent = (int(candidates) - 1).bit_length()

    def __len__(self) -> int:
        return 1 << self._exponent

    @cached_property
    def positions(self) -> Array:
        """Candidates of the box, (M, d); these Sobol points are the same in every process."""
        what = "scipy, which is needed for box domains,"
        qmc = optional_module("scipy.stats", what, "science").qmc
        sobol = qmc.Sobol(len(self.lower), scramble=True, rng=0)
        return np.asarray(qmc.scale(sobol.random_base2(self._exponent), self.lower, self.upper))

    @cached_property
    def kernel(self) -> Array:
        """Prior covariance of the box's candidates, of shape (M, M), in model units²."""
        return self.spatial(self.positions, self.positions)

    def arm(self, index: int) -> Point:
        """Return the coordinates of the box's candidate with this index.

        Parameters
        ----------
        index : int
            0 to M - 1.

        Returns
        -------
        tuple of d float
            The point.
        """
        return tuple(float(x) for x in self.positions[index])

    def index(self, arm: Point) -> int:
        """Return the index of the box's candidate that is nearest to `arm`.

        Distances are measured with each side of the box scaled to 1.

        Parameters
        ----------
        arm : tuple of d float
            Any point.

        Returns
        -------
        int
            The index, 0 to M - 1.
        """
        apart = (self.positions - np.array(arm)) / (self.upper - self.lower)
        return int((apart**2).sum(axis=1).argmin())

    def name(self, arm: Point) -> str:
        """Return a point of the box as text, its coordinates separated by spaces.

        Parameters
        ----------
        arm : tuple of d float
            The point.

        Returns
        -------
        str
            The text, with six digits of each coordinate.
        """
        return " ".join(f"{x:.6g}" for x in arm)

    def contains(self, places: Array) -> bool:
        """Return whether all places lie in the box.

        Parameters
        ----------
        places : (n, d) array
            Points.

        Returns
        -------
        bool
            True if every point lies between the corners of the box or on its boundary.
        """
        return bool(((places >= self.lower) & (places <= self.upper)).all())

    def to_model(self, reading: Number) -> Number:
        """Convert readings of a box field from the field's unit to model units.

        Parameters
        ----------
        reading : float or array
            Readings in the field's unit.

        Returns
        -------
        float or array
            (reading - center) / scale, negated if `objective` is "min".
        """
        return self._sign * (reading - self.center) / self.scale

    def to_unit(self, value: Number) -> Number:
        """Convert values of a box field from model units to the field's unit.

        Parameters
        ----------
        value : float or array
            Values in model units.

        Returns
        -------
        float or array
            The values in the field's unit; this is the inverse of `to_model`.
        """
        return self.center + self._sign * value * self.scale

    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint with which a box field recognises its own snapshots.

        Returns
        -------
        Fingerprint
            An exact digest of 16 hex digits. There is no rounded digest, because the exact digest
            contains only settings, and no computed numbers.
        """
        numbers = (self.noise_variance, self.center, self.scale, len(self), self.objective)
        corners = (self.lower.tolist(), self.upper.tolist())
        text = repr((corners, self.spatial, numbers))
        return Fingerprint(sha256(text.encode()).hexdigest()[:16])

    def local_search(self, score: Callable[[Array], Array], first: int, scores: Array) -> Point:
        """Return the point with the highest score that L-BFGS-B finds in the box.

        Parameters
        ----------
        score : function
            Maps points (m, d) to scores (m,). The function must be smooth and finite.
        first : int
            Index of the candidate from which the first search starts. The other searches start from
            the candidates with the next highest `scores`.
        scores : (M,) array
            Score of each candidate.

        Returns
        -------
        tuple of d float
            The point.
        """
        from scipy.optimize import fmin_l_bfgs_b

        starts = [first, *(int(i) for i in np.argsort(-scores, kind="stable") if i != first)]
        best, highest = self.positions[first], float(scores[first])
        sides = self.upper - self.lower
        bounds = [(0.0, 1.0)] * len(sides)
        for start in starts[:SEARCH_STARTS]:
            place, value, _ = fmin_l_bfgs_b(
                _negative_score,
                (self.positions[start] - self.lower) / sides,
                args=(lambda U: score(self.lower + U * sides),),
                bounds=bounds,
                maxiter=20,
            )
            if -float(value) > highest:
                best, highest = self.lower + place * sides, -float(value)
        return tuple(float(x) for x in np.clip(best, self.lower, self.upper))


def _checked_corners(lower: Sequence[float], upper: Sequence[float]) -> tuple[Array, Array]:
    try:
        low, high = np.array(lower, np.float64), np.array(upper, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"lower and upper must be lists of numbers: {error}") from None
    if low.shape != high.shape or low.ndim != 1 or not np.isfinite([low, high]).all():
        raise ConfigError("lower and upper must have the same number of entries, all finite.")
    if not len(low) or not (low < high).all():
        raise ConfigError(
            f"lower is {lower} and upper is {upper}; "
            "each number in lower must be below the number at the same place in upper."
        )
    return low, high


def _negative_score(u: Array, score: Callable[[Array], Array]) -> tuple[float, Any]:
    """Return -`score` at a point `u` of the unit box, and the gradient of -`score` at `u`.

    The gradient is computed by finite differences.
    """
    d = len(u)
    steps = np.where(u < 0.5, GRADIENT_STEP, -GRADIENT_STEP)  # each step stays in the box
    points = np.empty((d + 1, d))
    points[:] = u
    points.reshape(-1)[d :: d + 1] += steps  # point 0 stays u; point i + 1 moves along axis i
    values = score(points)
    return -float(values[0]), -(values[1:] - values[0]) / steps
