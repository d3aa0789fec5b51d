"""Length scales that the readings themselves tell: the most probable one, or a sample of them.

What belongs here: the baselines "MLE" and "MCMC" of [LB] section 5, Ziomek, Adachi & Osborne 2024.
Both work on ln θ within bounds, and both are functions of seed, interval and where they stood.
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
    from numpy.random import Generator  # to import it takes 3 MiB, which a daemon does without

LogDensity = Callable[[float], float]  # of ln θ, up to a constant

SHORTEST, LONGEST = 1e-3, 10.0  # of a fitted length scale, in shares of the domain's extent
RESTARTS = 10  # of a fit, fewer as readings come ([M24] algorithm 3)
NEAR = 0.5  # how far from one fit the next is thought to be, in ln θ
SLICE = 2.0  # width of the first slice, in ln θ


class MlSelector:
    """The length scale under which the readings are most probable.

    Tried first are the last one, two near it, and others drawn at random, 2 at least, `RESTARTS`
    and 200/n at most; then Brent's method searches around the best, as far as the next that were
    tried. Never less probable than the last one.
    """

    def __init__(
        self, readings: Readings, first: Hypothesis, power: float, rate: float, seed: int
    ) -> None:
        self._readings = readings
        self._norm = first.norm
        self._prior = (power, rate)
        self._seed = seed
        self.settings = f"likely {self._prior!r}"
        self._scale = np.array([first.length_scale])

    def plays(self, t: int) -> tuple[Hypothesis, ...]:
        """Give the fitted length scale."""
        return (Hypothesis(float(self._scale[0]), self._norm),)

    def update(self, y: float, bonus: float) -> None:
        """Take no notice: the readings speak."""

    def advance(self, t: int) -> None:
        """Fit."""
        n = self._readings.held
        if n:
            low, high = _bounds(self._readings)
            rng = np.random.default_rng((self._seed, t))
            drawn = rng.uniform(low, high, max(2, min(RESTARTS, 200 // n)))
            near = np.log(self._scale[0]) + np.array([0.0, -NEAR, NEAR])
            tried = np.clip(np.concatenate((near, drawn)), low, high)
            density = _log_density(self._readings, *self._prior)
            self._scale[0] = exp(_peak(density, tried, low, high))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give the state: where the next fit begins."""
        return {"length_scale": self._scale}

    def check(self, state: dict[str, NDArray[Any]]) -> None:
        """Raise `SnapshotError` for what is no length scale."""
        _check_scales(state["length_scale"], self._readings)


class McmcSelector:
    """Length scales from their posterior, a chain that goes on from interval to interval."""

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
        self.settings = f"sampled {self._prior!r}"
        self._scales = np.full(samples, first.length_scale)

    def plays(self, t: int) -> tuple[Hypothesis, ...]:
        """Give the samples."""
        return tuple(Hypothesis(float(theta), self._norm) for theta in self._scales)

    def update(self, y: float, bonus: float) -> None:
        """Take no notice: the readings speak."""

    def advance(self, t: int) -> None:
        """Draw anew, from the last sample on."""
        low, high = _bounds(self._readings)
        density = _log_density(self._readings, *self._prior)
        rng = np.random.default_rng((self._seed, t))
        at = float(np.clip(np.log(self._scales[-1]), low, high))
        value = density(at)
        for i in range(len(self._scales)):
            at, value = _slice(density, at, value, low, high, rng)
            self._scales[i] = exp(at)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give the state: the samples."""
        return {"length_scales": self._scales}

    def check(self, state: dict[str, NDArray[Any]]) -> None:
        """Raise `SnapshotError` for what are no length scales."""
        _check_scales(state["length_scales"], self._readings)


def _log_density(readings: Readings, power: float, rate: float) -> LogDensity:
    """Give ln(p(y | θ) u^power e^(-rate u)) by ln θ, u being θ as a share of the extent."""

    def log_density(place: float) -> float:
        share = exp(place) / readings.extent
        return readings.fit(exp(place)).log_likelihood() + power * log(share) - rate * share

    return log_density


def _peak(density: LogDensity, tried: Array, low: float, high: float) -> float:
    """Give where `density` is highest: at the best place of `tried`, or between its neighbours."""
    try:
        from scipy.optimize import minimize_scalar
    except ImportError:
        raise MissingExtra("scipy, which fitting a length scale needs,", "science") from None
    values = [density(float(place)) for place in tried]
    best = int(np.argmax(values))
    at = float(tried[best])
    found = minimize_scalar(
        lambda place: -density(place),
        bounds=(
            float(np.max(tried[tried < at], initial=low)),
            float(np.min(tried[tried > at], initial=high)),
        ),
        method="bounded",
        options={"xatol": 0.02, "maxiter": 12},
    )
    return float(found.x) if -float(found.fun) > values[best] else at


def _slice(
    density: LogDensity,
    at: float,
    value: float,
    low: float,
    high: float,
    rng: "Generator",
) -> tuple[float, float]:
    """Give the next place of a chain and its log density (Neal 2003, figures 3 and 5, no steps)."""
    level = value + log(1.0 - rng.random())
    left = at - SLICE * rng.random()
    left, right = max(low, left), min(high, left + SLICE)
    for _ in range(30):
        place = float(rng.uniform(left, right))
        if (new := density(place)) >= level:
            return place, new
        left, right = (place, right) if place < at else (left, place)
    return at, value


def _bounds(readings: Readings) -> tuple[float, float]:
    return log(SHORTEST * readings.extent), log(LONGEST * readings.extent)


def _check_scales(scales: Array, readings: Readings) -> None:
    shares = scales / readings.extent
    if not ((shares > 1e-9) & (shares < 1e9)).all():
        raise SnapshotError("The snapshot holds what is no length scale.")
