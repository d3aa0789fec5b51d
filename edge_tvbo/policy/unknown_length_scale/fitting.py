"""Length scales from the readings: the most probable one, or a sample of the posterior.

The baselines "MLE" and "MCMC" of [LB] section 5, Ziomek, Adachi & Osborne 2024. Both search ln θ
within bounds, and both are functions of seed, interval and the previous length scale.
"""

from collections.abc import Callable
from math import exp, log
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import MissingExtra, SnapshotError
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy.unknown_length_scale.candidates import Hypothesis
from edge_tvbo.policy.unknown_length_scale.posterior import Readings

if TYPE_CHECKING:
    from numpy.random import Generator  # its import takes 3 MiB, which a daemon does without

LogDensity = Callable[[float], float]  # of ln θ, up to a constant

MIN_SHARE, MAX_SHARE = 1e-3, 10.0  # of a fitted length scale in the domain's extent
MAX_RESTARTS = 10  # of a fit, fewer as readings arrive ([M24] algorithm 3)
NEIGHBOUR_DISTANCE = 0.5  # in ln θ, of two starts around the previous fit
SLICE_WIDTH = 2.0  # of the first slice, in ln θ
MAX_SLICE_STEPS = 30


class MlSelector:
    """Selects the length scale under which the readings are most probable.

    The starts are the previous length scale, two near it, and random ones: 200/n, but 2 at least
    and `MAX_RESTARTS` at most. Brent's method then searches between the neighbours of the best
    start. The result is never less probable than the previous length scale.
    """

    def __init__(
        self, readings: Readings, first: Hypothesis, power: float, rate: float, seed: int
    ) -> None:
        self._readings = readings
        self._norm = first.norm
        self._prior = (power, rate)
        self._seed = seed
        self.snapshot_key = f"likely {self._prior!r}"
        self._scale = np.array([first.length_scale])

    def hypotheses(self, t: int) -> tuple[Hypothesis, ...]:
        """Return the fitted length scale."""
        return (Hypothesis(float(self._scale[0]), self._norm),)

    def update(self, y: float, bonus: float) -> None:
        """Do nothing: the fit uses the readings that are held."""

    def advance(self, t: int) -> None:
        """Fit the length scale to the readings."""
        n = self._readings.held
        if n:
            low, high = _bounds(self._readings)
            rng = np.random.default_rng((self._seed, t))
            drawn = rng.uniform(low, high, max(2, min(MAX_RESTARTS, 200 // n)))
            offsets = np.array([0.0, -NEIGHBOUR_DISTANCE, NEIGHBOUR_DISTANCE])
            near = np.log(self._scale[0]) + offsets
            starts = np.clip(np.concatenate((near, drawn)), low, high)
            density = _log_density(self._readings, *self._prior)
            self._scale[0] = exp(_peak(density, starts, low, high))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state: the length scale, where the next fit starts."""
        return {"length_scale": self._scale}

    def check(self, state: dict[str, NDArray[Any]]) -> None:
        """Raise `SnapshotError` for an impossible length scale."""
        _check_scales(state["length_scale"], self._readings)


class McmcSelector:
    """Selects length scales from their posterior, by a chain that continues across intervals."""

    def __init__(
        self,
        readings: Readings,
        first: Hypothesis,
        power: float,
        rate: float,
        samples: int,
        seed: int,
    ) -> None:
        self._readings = readings
        self._norm = first.norm
        self._prior = (power, rate)
        self._seed = seed
        self.snapshot_key = f"sampled {self._prior!r}"
        self._scales = np.full(samples, first.length_scale)

    def hypotheses(self, t: int) -> tuple[Hypothesis, ...]:
        """Return the sampled length scales."""
        return tuple(Hypothesis(float(theta), self._norm) for theta in self._scales)

    def update(self, y: float, bonus: float) -> None:
        """Do nothing: the samples depend on the readings that are held."""

    def advance(self, t: int) -> None:
        """Draw new samples, starting from the last one."""
        low, high = _bounds(self._readings)
        density = _log_density(self._readings, *self._prior)
        rng = np.random.default_rng((self._seed, t))
        at = float(np.clip(np.log(self._scales[-1]), low, high))
        value = density(at)
        for i in range(len(self._scales)):
            at, value = _slice_step(density, at, value, low, high, rng)
            self._scales[i] = exp(at)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state: the samples."""
        return {"length_scales": self._scales}

    def check(self, state: dict[str, NDArray[Any]]) -> None:
        """Raise `SnapshotError` for impossible length scales."""
        _check_scales(state["length_scales"], self._readings)


def _log_density(readings: Readings, power: float, rate: float) -> LogDensity:
    """Return ln(p(y | θ) u^power e^(-rate u)) as a function of ln θ, with u = θ / extent."""

    def log_density(log_scale: float) -> float:
        share = exp(log_scale) / readings.extent
        log_likelihood = readings.fit(exp(log_scale)).log_likelihood()
        return log_likelihood + power * log(share) - rate * share

    return log_density


def _peak(density: LogDensity, starts: Array, low: float, high: float) -> float:
    """Return where `density` is highest: at the best of `starts`, or between its neighbours."""
    try:
        from scipy.optimize import minimize_scalar
    except ImportError:
        raise MissingExtra("scipy, which fitting a length scale needs,", "science") from None
    values = [density(float(start)) for start in starts]
    best = int(np.argmax(values))
    at = float(starts[best])
    found = minimize_scalar(
        lambda log_scale: -density(log_scale),
        bounds=(
            float(np.max(starts[starts < at], initial=low)),
            float(np.min(starts[starts > at], initial=high)),
        ),
        method="bounded",
        options={"xatol": 0.02, "maxiter": 12},
    )
    return float(found.x) if -float(found.fun) > values[best] else at


def _slice_step(
    density: LogDensity,
    at: float,
    value: float,
    low: float,
    high: float,
    rng: "Generator",
) -> tuple[float, float]:
    """Return the next ln θ of a chain and its log density, by slice sampling without stepping out.

    Neal 2003, figures 3 and 5.
    """
    level = value + log(1.0 - rng.random())
    left = at - SLICE_WIDTH * rng.random()
    left, right = max(low, left), min(high, left + SLICE_WIDTH)
    for _ in range(MAX_SLICE_STEPS):
        proposal = float(rng.uniform(left, right))
        if (new := density(proposal)) >= level:
            return proposal, new
        left, right = (proposal, right) if proposal < at else (left, proposal)
    return at, value


def _bounds(readings: Readings) -> tuple[float, float]:
    return log(MIN_SHARE * readings.extent), log(MAX_SHARE * readings.extent)


def _check_scales(scales: Array, readings: Readings) -> None:
    shares = scales / readings.extent
    if not ((shares > 1e-9) & (shares < 1e9)).all():
        raise SnapshotError("The snapshot holds an impossible length scale.")
