"""Length scales fitted to readings: the most probable value, or samples from the posterior.

The two methods are the baselines "MLE" and "MCMC" of [LB] (Ziomek, Adachi & Osborne 2024), section
5. Both methods search ln θ within bounds. The results depend only on the readings, the seed, the
interval and the previous length scale.

No fit runs if the readings have not changed since the previous fit. The reason: after a long
downtime, the daemon ends thousands of intervals at once.
"""

from abc import abstractmethod
from collections.abc import Callable
from math import exp, log
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import SnapshotError
from edge_tvbo.numerics.types import Array
from edge_tvbo.plugins import optional_module
from edge_tvbo.policy.unknown_length_scale.candidates import Hypothesis
from edge_tvbo.policy.unknown_length_scale.posterior import Readings

if TYPE_CHECKING:
    from numpy.random import Generator  # the daemon saves 3 MiB without this import

LogDensity = Callable[[float], float]  # maps ln θ to a log density, up to a constant

MIN_SHARE, MAX_SHARE = 1e-3, 10.0  # bounds of a fitted length scale, as shares of the extent
MAX_RESTARTS = 10  # largest number of random starts; fewer with many readings ([M24] chapter 10)
NEIGHBOUR_DISTANCE = 0.5  # two starts have this distance from the previous fit, in ln θ
SLICE_WIDTH = 2.0  # width of the first slice, in ln θ
MAX_SLICE_STEPS = 30


class FittingSelector:
    """Base class of the selectors that fit length scales.

    `power` and `rate` define the prior of a length scale; see `_log_density`. `scales` is the
    number of length scales.
    """

    kind: str  # name of the kind of fit, in the snapshot key
    stored_as: str  # name of the fitted length scales in snapshots

    def __init__(
        self,
        readings: Readings,
        first: Hypothesis,
        power: float,
        rate: float,
        scales: int,
        seed: int,
    ) -> None:
        self._readings = readings
        self._norm = first.norm
        self._prior = (power, rate)
        self._seed = seed
        self.snapshot_key = f"{self.kind} {self._prior!r}"
        self._scales = np.full(scales, first.length_scale)

    def hypotheses(self, t: int) -> tuple[Hypothesis, ...]:
        """Return the length scales of the last fit, each as a `Hypothesis`."""
        return tuple(Hypothesis(float(theta), self._norm) for theta in self._scales)

    def update(self, y: float, bonus: float) -> None:
        """Ignore the reply, because `advance` fits the length scales to all readings held."""

    def advance(self, t: int) -> None:
        """End the interval: fit the length scales if the readings changed since the last fit."""
        if not self._readings.changed:
            return
        self._readings.changed = False
        low, high = (log(share * self._readings.extent) for share in (MIN_SHARE, MAX_SHARE))
        density = _log_density(self._readings, *self._prior)
        self._fit(density, low, high, np.random.default_rng((self._seed, t)))

    def reset(self) -> None:
        """Keep the length scales: the fit to the next readings starts from them."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state of the fit: the length scales from which the next fit starts."""
        return {self.stored_as: self._scales}

    def check(self, state: dict[str, NDArray[Any]]) -> None:
        """Raise `SnapshotError` if a fitted length scale is impossible."""
        shares = state[self.stored_as] / self._readings.extent
        if not ((shares > 1e-9) & (shares < 1e9)).all():
            raise SnapshotError("The snapshot holds an impossible length scale.")

    @abstractmethod
    def _fit(self, density: LogDensity, low: float, high: float, rng: "Generator") -> None:
        """Fit the length scales θ within bounds; `density` maps ln θ to its log density."""


class MlSelector(FittingSelector):
    """A length scale selector that maximises the probability of the readings.

    The starts of the search are the previous length scale, two length scales near it, and random
    length scales. With n readings there are 200/n random starts, but at least 2 and at most
    `MAX_RESTARTS`. Brent's method then searches between the two neighbours of the best start. The
    result is at least as probable as the previous length scale.
    """

    kind, stored_as = "likely", "length_scale"

    def advance(self, t: int) -> None:
        """End the interval as `FittingSelector` does; without readings, do nothing."""
        if self._readings.held:
            super().advance(t)

    def _fit(self, density: LogDensity, low: float, high: float, rng: "Generator") -> None:
        drawn = rng.uniform(low, high, max(2, min(MAX_RESTARTS, 200 // self._readings.held)))
        offsets = np.array([0.0, -NEIGHBOUR_DISTANCE, NEIGHBOUR_DISTANCE])
        near = np.log(self._scales[0]) + offsets
        starts = np.clip(np.concatenate((near, drawn)), low, high)
        self._scales[0] = exp(_peak(density, starts, low, high))


class McmcSelector(FittingSelector):
    """A length scale selector that samples length scales by a Markov chain.

    When readings have arrived, the chain continues from its last sample. Without a new reading, the
    distribution of the length scale does not change, so the samples stay valid.
    """

    kind, stored_as = "sampled", "length_scales"

    def _fit(self, density: LogDensity, low: float, high: float, rng: "Generator") -> None:
        at = float(np.clip(np.log(self._scales[-1]), low, high))
        value = density(at)
        for i in range(len(self._scales)):
            at, value = _slice_step(density, at, value, low, high, rng)
            self._scales[i] = exp(at)


def _log_density(readings: Readings, power: float, rate: float) -> LogDensity:
    """Return the log posterior density that a fit of θ uses, as a function of ln θ.

    The density is proportional to p(y | θ) u^power e^(-rate u), where u is θ divided by the
    longest side of the domain.
    """

    def log_density(log_scale: float) -> float:
        share = exp(log_scale) / readings.extent
        log_likelihood = readings.fit(exp(log_scale)).log_likelihood()
        return log_likelihood + power * log(share) - rate * share

    return log_density


def _peak(density: LogDensity, starts: Array, low: float, high: float) -> float:
    """Return ln θ of the fitted length scale: the maximum of `density` near the best start."""
    what = "scipy, which is needed to fit a length scale,"
    minimize_scalar = optional_module("scipy.optimize", what, "science").minimize_scalar
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
    """Draw the next ln θ of the fit's Markov chain; return it and its log density.

    The method is slice sampling without stepping out (Neal 2003, figures 3 and 5).
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
