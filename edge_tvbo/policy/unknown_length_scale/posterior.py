"""What is believed of a field under a length scale that may be another in each interval.

What belongs here: the last readings, and the regression on them under any length scale, for the
policies of `length_scales`. All of it counts in prior standard deviations of the field, so that a
field in other units gives the same numbers to the last bit.
"""

from hashlib import sha256
from math import log, sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.domain import Arm, Field, arm_space
from edge_tvbo.models.facts import Fact
from edge_tvbo.models.posteriors.base import Prediction
from edge_tvbo.models.regression import Regression
from edge_tvbo.models.snapshot import (
    check_arrays,
    copy_arrays,
    decode_snapshot,
    encode_snapshot,
    read_count,
)
from edge_tvbo.models.spatial_kernels import distances, matern
from edge_tvbo.numerics.acquisition import highest_bound
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.policy.unknown_length_scale.candidates import HUGE, Hypothesis

ORIGIN = np.zeros((1, 1))


class LengthScaleSelector(Protocol):
    """Says which length scale to believe in; t = 1, 2, ... is the interval."""

    settings: str  # what tells a snapshot of other settings

    def plays(self, t: int) -> tuple[Hypothesis, ...]:
        """Give the hypotheses of interval t; of several, the bounds are averaged."""
        ...

    def update(self, y: float, bonus: float) -> None:
        """Take notice of a reading that was asked for, and of the β σ it was asked with."""
        ...

    def advance(self, t: int) -> None:
        """End interval t."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give the state, as the arrays that hold it."""
        ...

    def check(self, state: dict[str, NDArray[Any]]) -> None:
        """Raise `SnapshotError` where sound arrays are no state of this."""
        ...


class Readings:
    """The last `window` readings, in prior standard deviations, and how far apart they are.

    Distances are measured once for each reading, so that trying a length scale costs a kernel and
    a Cholesky factor, and no walk over coordinates.

    Raises
    ------
    ConfigError
        For a window or ν out of range, and for a `SensorField` without positions.
    """

    def __init__(self, name: str, field: Field, window: int, nu: float) -> None:
        if window < 1:
            raise ConfigError(f"window is {window}; it must be 1 reading or more.")
        if not (isinstance(nu, int | float) and nu > 0):
            raise ConfigError(f"nu is {nu!r}; a Matérn kernel's smoothness must be above 0.")
        if field.positions is None:
            raise ConfigError(
                f"{name} learns how fast the field changes in space, and nobody says where the "
                f"sensors are.\nGive SensorField(..., positions=...), one row of coordinates for "
                f"each sensor, or take a policy that needs only the kernel, such as gp-ucb."
            )
        self.field = field
        self.domain = arm_space(field)
        self.nu = nu
        self.positions: Array = field.positions
        self.dimension = self.positions.shape[1]
        self.extent = _extent(field) or 1.0
        self.prior_std = sqrt(float(self.domain.prior.max()))
        self.noise_variance = field.noise_variance / float(self.domain.prior.max())
        self.count = 0  # readings ever
        self.places = np.zeros((window, self.domain.candidates.shape[1]))  # a ring, as y
        self.y = np.zeros(window)
        self._apart = np.zeros((window, window))
        self._reach = np.zeros((window, len(self.positions)))

    @property
    def held(self) -> int:
        """How many readings there are now."""
        return min(self.count, len(self.y))

    def add(self, arm: Arm, y: float) -> None:
        """Take a reading in, in model units; the oldest makes room."""
        slot = self.count % len(self.y)
        self.places[slot], self.y[slot] = self.domain.place(arm), y / self.prior_std
        self.count += 1
        self._measure(slot)

    def replace(self, count: int, state: dict[str, NDArray[Any]]) -> None:
        """Take others in their place, from the arrays of a snapshot."""
        copy_arrays({"places": self.places, "y": self.y}, state)
        self.count = count
        for slot in range(self.held):
            self._measure(slot)

    def fit(self, length_scale: float) -> "Fit":
        """Give the regression on the readings under a length scale."""
        n = self.held
        K = self.alike(self._apart[:n, :n], length_scale)
        return Fit(K, np.full(n, self.noise_variance), self.y[:n])

    def alike(self, apart: Array, length_scale: float) -> Array:
        """Give the correlations at these distances, in the same shape."""
        if not apart.size:
            return np.zeros(apart.shape)
        line = apart.reshape(-1, 1)
        return matern(ORIGIN, length_scale, self.nu, others=line).reshape(apart.shape)

    def to_candidates(self) -> Array:
        """Give the distances (n, M) of readings and candidates."""
        return self._reach[: self.held]

    def to_places(self, P: Array) -> Array:
        """Give the distances (n, p) of readings and places (p, d or 1)."""
        return distances(self._where(self.places[: self.held]), 1.0, others=self._where(P))

    def _measure(self, slot: int) -> None:
        here, n = self._where(self.places[slot : slot + 1]), self.held
        self._reach[slot] = distances(here, 1.0, others=self.positions)[0]
        apart = distances(here, 1.0, others=self._where(self.places[:n]))[0]
        self._apart[slot, :n] = apart
        self._apart[:n, slot] = apart

    def _where(self, places: Array) -> Array:
        if isinstance(self.field, BoxField):
            return places
        return self.positions[places[:, 0].astype(np.intp)]


class Fit(Regression):
    """A regression that tells how much its readings say."""

    def gain(self, noise_variance: float) -> float:
        """Give ½ ln det(I + K/σ²), in nats."""
        if self._empty:
            return 0.0
        pivots = np.diag(self._L)
        return max(0.0, float(np.log(pivots).sum() - 0.5 * len(pivots) * log(noise_variance)))


class LengthScalePosterior:
    """The posterior under the length scale that `scales` believes in, or averaged over several.

    Costs O(n³ + n²M) for each of them in an interval, with n readings held.
    """

    def __init__(self, readings: Readings, scales: LengthScaleSelector) -> None:
        self.readings = readings
        self.scales = scales
        self.observations = 0
        self._time = 0
        self._fits: list[tuple[float, Fit]] = []  # one for each play; none when out of date

    @property
    def mean(self) -> Array:
        """Mean of every candidate, (M,), in model units."""
        self._predict()
        return self._mean

    @property
    def variance(self) -> Array:
        """Variance of every candidate, (M,), in model units²."""
        self._predict()
        return self._variance

    @property
    def plays(self) -> tuple[Hypothesis, ...]:
        """What is believed in, in this interval."""
        return self.scales.plays(self._time + 1)

    def gain(self) -> float:
        """Give how much the readings say, in nats."""
        self._predict()
        gains = [fit.gain(self.readings.noise_variance) for _, fit in self._fits]
        return sum(gains) / len(gains)

    def at(self, arm: Arm) -> Prediction:
        """Give what is believed of `arm` at the current interval."""
        self._predict()
        place = self.readings.domain.place(arm)[None, :]
        mean, variance = self._predicted(self.readings.to_places(place))
        return Prediction(arm, float(mean[0]), float(variance[0]) ** 0.5)

    def highest(self, width: float, eligible: Mask, seed: int, counter: int) -> Prediction | None:
        """Give the arm with the highest mean + width · std.

        Where some are not eligible, a box is not searched: the candidates that are stand for it.
        """
        index = highest_bound(self.mean, self.variance, width, eligible, seed, counter)
        if index < 0:
            return None
        if not eligible.all():
            return self.at(self.readings.field.arm(index))

        def bound(P: Array) -> Array:
            mean, variance = self._predicted(self.readings.to_places(P))
            return mean + width * np.sqrt(variance)

        scores = self.mean + width * np.sqrt(self.variance)
        return self.at(self.readings.domain.best(index, bound, scores))

    def prior_std(self, arm: Arm) -> float:
        """Give the standard deviation of any arm, were nothing known."""
        return self.readings.prior_std

    def observe(self, arm: Arm, y: float) -> None:
        """Take in a reading of `arm`, in model units."""
        self.readings.add(arm, y)
        self._invalidate()

    def advance(self) -> None:
        """End the interval: what to believe in is decided anew."""
        self.scales.advance(self._time + 1)
        self._time += 1
        self._invalidate()

    def reset(self) -> None:
        """Forget every reading."""
        self.readings.count = 0
        self._invalidate()

    def mean_std(self) -> tuple[Array, Array]:
        """Give copies of the mean and the standard deviation of every candidate."""
        return self.mean.copy(), np.sqrt(self.variance)

    def facts(self) -> tuple[Fact, ...]:
        """Give nothing: of the readings held all is exact."""
        return ()

    def snapshot(self) -> bytes:
        """Give the state as bytes; the continuation from them is bit-identical."""
        state = {"time": self._time, "count": self.readings.count, **self._arrays()}
        return encode_snapshot(self._kind(), self.readings.field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        readings = self.readings
        state = decode_snapshot(self._kind(), readings.field.fingerprint(), blob)
        time, count = read_count(state, "time"), read_count(state, "count")
        check_arrays(self._arrays(), state)
        if not readings.field.contains(state["places"][: min(count, len(readings.y))]):
            raise SnapshotError("The snapshot's 'places' names an arm that there is not.")
        if np.abs(state["y"]).max() > HUGE:
            raise SnapshotError("The snapshot's 'y' holds what no sensor reads.")
        self.scales.check(state)
        copy_arrays(self.scales.arrays(), state)
        readings.replace(count, state)
        self._time = time
        self._invalidate()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"places": self.readings.places, "y": self.readings.y, **self.scales.arrays()}

    def _kind(self) -> str:
        readings = self.readings
        where = sha256(np.ascontiguousarray(readings.positions).tobytes()).hexdigest()[:16]
        return f"{self.scales.settings} {len(readings.y)} {readings.nu!r} {where}"

    def _predict(self) -> None:
        """Compute what is asked for in every interval, unless it is there."""
        if not self._fits:
            thetas = [play.length_scale for play in self.plays]
            self._fits = [(theta, self.readings.fit(theta)) for theta in thetas]
            self._mean, self._variance = self._predicted(self.readings.to_candidates())

    def _predicted(self, apart: Array) -> tuple[Array, Array]:
        """Give mean and variance of what lies at these distances (n, m) of the readings."""
        prior = np.ones(apart.shape[1])
        mean, std = np.zeros(len(prior)), np.zeros(len(prior))
        for theta, fit in self._fits:
            m, variance = fit.predict(self.readings.alike(apart, theta), prior)
            mean += m
            std += np.sqrt(variance)
        unit = self.readings.prior_std / len(self._fits)
        return mean * unit, (std * unit) ** 2

    def _invalidate(self) -> None:
        self.observations = self.readings.held
        self._fits = []


def _extent(field: Field) -> float:
    """Give the longest side of the domain."""
    if isinstance(field, BoxField):
        return float((field.upper - field.lower).max())
    return float(np.ptp(np.asarray(field.positions), axis=0).max())
