"""The posterior over a box whose length scales are fitted as readings come, under a Gamma prior.

What belongs here: maximum a posteriori length scales, one for each dimension, of a squared
exponential kernel, [ET] sections 6 and 7 and table 7. `likelihood` fits the temporal kernel, the
policies of `length_scales` one length scale for a field that stands still.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError, MissingExtra, SnapshotError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.domain import Arm, Box
from edge_tvbo.models.posteriors.regression_posterior import KernelPosterior
from edge_tvbo.models.snapshot import check_arrays, whole
from edge_tvbo.models.spatial_kernels import SMOOTHEST
from edge_tvbo.models.temporal_models import TemporalKernel

Array = NDArray[np.float64]

SHORTEST, LONGEST = 0.5, 12.0  # of a fitted length scale, in its unit
EAGER = 30  # readings below which each interval has a fit, above it
EVERY = 5  # every so many intervals
STEPS = 8  # of L-BFGS-B in a fit; the next one goes on from there


class ArdMapPosterior(KernelPosterior):
    """A `KernelPosterior` over a box that learns how fast the field changes in each dimension.

    By maximum posterior density, from the length scales of the last fit and by at most `STEPS`
    steps of L-BFGS-B, between `SHORTEST` and `LONGEST`. Fits come at the end of an interval: of
    each while there are fewer than `EAGER` readings, of every `EVERY`-th from then on. A reset
    forgets readings, and the next fits forget what they said of the length scales.

    Parameters
    ----------
    field : BoxField
        Its kernel is a squared exponential; of it the variance stays as it is.
    temporal, window
        As for `KernelPosterior`.
    units : sequence of d float
        What a length scale is counted in, in the units of the box: 1 of a length scale that is
        fitted is so long.
    shape, rate : float
        Of the Gamma prior of each length scale, in its unit; where its density is greatest is where
        the first fit begins. `shape` is above 1.

    Raises
    ------
    ConfigError
        For another kernel, or numbers out of range.
    MissingExtra
        Where scipy is not installed, by the first fit.

    Notes
    -----
    A fit of n readings costs n³ + 4 d n² for each of its steps. Rasmussen & Williams eq. 5.8-5.9.
    """

    def __init__(
        self,
        field: BoxField,
        temporal: TemporalKernel,
        window: int,
        *,
        units: Sequence[float],
        shape: float,
        rate: float,
    ) -> None:
        super().__init__(field, temporal, window)
        self._units = np.array(units, np.float64)
        if field.spatial.nu <= SMOOTHEST:
            raise ConfigError(f"nu is {field.spatial.nu}; fitted scales want nu = infinity.")
        if self._units.shape != field.lower.shape or not (self._units > 0).all():
            raise ConfigError(f"units is {units}; one above 0 is wanted for each dimension.")
        if not (shape > 1.0 and rate > 0.0):
            raise ConfigError(f"shape is {shape}, rate {rate}; above 1 and above 0 are wanted.")
        self._prior = (shape, rate)
        self._domain = self._box = _StretchedBox(field)
        self._scales = np.full(len(self._units), np.clip((shape - 1.0) / rate, SHORTEST, LONGEST))
        self._fresh = False  # whether a reading came since the last fit
        self._stretch()

    @property
    def length_scales(self) -> Array:
        """The length scales as they are fitted now, (d,), in the units of the box."""
        return self._scales * self._units

    def observe(self, arm: Arm, y: float) -> None:
        """Take in a reading of `arm`; the fit waits for the end of the interval."""
        super().observe(arm, y)
        self._fresh = True

    def advance(self) -> None:
        """Fit, if it is time to, and move on by one interval."""
        due = self.observations < EAGER or (self._time + 1) % EVERY == 0
        if self._fresh and due and self.observations:
            self._fit()
        super().advance()

    def _fit(self) -> None:
        n = self.observations
        places, times = self._places[:n] / self._units, self._times[:n].astype(np.float64)
        apart = (places.T[:, :, None] - places.T[:, None, :]) ** 2
        known = self._box.height * self._temporal.matrix(times, times)
        noise = self._field.noise_variance
        density = _Density(apart, known, noise, self._y[:n].copy(), self._prior)
        self._scales[:] = density.peak(self._scales)
        self._fresh = False
        self._stretch()

    def _stretch(self) -> None:
        self._box.length_scales = self.length_scales
        self._invalidate()

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "scales": self._scales, "fresh": int(self._fresh)}

    def _resume(self, state: dict[str, Any]) -> None:
        check_arrays({"scales": self._scales}, state)
        fresh, scales = whole(state, "fresh"), state["scales"]
        if not ((scales >= SHORTEST) & (scales <= LONGEST)).all():
            raise SnapshotError("The snapshot's 'scales' are no length scales.")
        super()._resume(state)
        self._scales[:], self._fresh = scales, bool(fresh)
        self._stretch()

    def _kind(self) -> str:
        held = f"{self._temporal!r} {len(self._y)}"
        return f"scaled {held} {self._prior!r} {self._units.tolist()!r}"


class _StretchedBox:
    """A box whose length scales may be another at any time; a `Domain`.

    By a product of matrices instead of `kernels.distances`, which took most of the search's time;
    distances are good to 1e-7 length scales.
    """

    def __init__(self, field: BoxField) -> None:
        self._box = Box(field)
        self._corner = field.lower
        self.candidates, self.prior = self._box.candidates, self._box.prior
        self.place, self.variance, self.best = self._box.place, self._box.variance, self._box.best
        self.candidate, self.holds = self._box.candidate, self._box.holds
        self.height = field.spatial.variance
        self.length_scales = np.ones(len(field.lower))

    def covariance(self, P: Array, Q: Array) -> Array:
        """Give the prior covariance (p, q) of places P (p, d) with places Q (q, d)."""
        A, B = (P - self._corner) / self.length_scales, (Q - self._corner) / self.length_scales
        halves = A @ B.T
        halves -= 0.5 * (A * A).sum(axis=1)[:, None]
        halves -= 0.5 * (B * B).sum(axis=1)  # minus half a squared distance
        return np.asarray(self.height * np.exp(np.minimum(halves, 0.0)))


class _Density:
    """How probable length scales are, given readings: likelihood and prior.

    Parameters
    ----------
    apart : (d, n, n) array
        Squared distances of the readings' places, by dimension, in units of the length scales.
    known : (n, n) array
        Their prior covariance, were all places the same.
    noise : float
        Variance of a reading.
    y : (n,) array
        Readings.
    prior : (float, float)
        Shape and rate of the Gamma prior.
    """

    def __init__(
        self, apart: Array, known: Array, noise: float, y: Array, prior: tuple[float, float]
    ) -> None:
        self._apart = np.ascontiguousarray(apart.reshape(len(apart), -1))
        self._known = known
        self._noise = noise
        self._y = y
        self._prior = prior

    def peak(self, start: Array) -> Array:
        """Give length scales (d,) at which the density is highest, as far as found."""
        try:
            from scipy.optimize import minimize
        except ImportError:
            raise MissingExtra("scipy, which fitting length scales needs,", "science") from None
        low, high = float(np.log(SHORTEST)), float(np.log(LONGEST))
        best, least = np.log(start), self.cost(np.log(start))[0]
        found = minimize(
            self.cost,
            best,
            jac=True,
            method="L-BFGS-B",
            bounds=[(low, high)] * len(start),
            options={"maxiter": STEPS, "maxfun": 2 * STEPS, "gtol": 1e-2, "ftol": 1e-5},
        )
        if float(found.fun) < least:
            best = found.x
        return np.clip(np.exp(best), SHORTEST, LONGEST)

    def cost(self, logs: Array) -> tuple[float, Array]:
        """Give minus the log density at ln l (d,), up to a constant, and its derivative (d,)."""
        from scipy.linalg import lapack

        n, squares = len(self._y), np.exp(-2.0 * logs)
        K = self._known * np.exp(-0.5 * (squares @ self._apart)).reshape(n, n)
        A = K.copy()
        A.flat[:: n + 1] += self._noise
        L, failed = lapack.dpotrf(A.T, lower=1, clean=1, overwrite_a=1)
        if failed:
            return 1e10, np.zeros(len(logs))
        weights, _ = lapack.dpotrs(L, self._y, lower=1)
        value = -0.5 * (self._y @ weights) - np.log(L.diagonal()).sum()
        inverse, _ = lapack.dpotri(L, lower=1, overwrite_c=1)  # its lower triangle, 0 above
        inverse.flat[:: n + 1] *= 0.5  # half a symmetric sum; the diagonal adds nothing anyway
        pull = (0.5 * np.outer(weights, weights) - inverse.T) * K
        slope = squares * (self._apart @ pull.ravel())  # R & W eq. 5.9, by ln l
        shape, rate = self._prior
        scales = np.exp(logs)
        value += float(((shape - 1.0) * logs - rate * scales).sum())
        return -float(value), -(slope + (shape - 1.0) - rate * scales)
