"""Posterior for a length scale that can change from interval to interval.

The classes of this module hold the newest readings, and fit a regression to these readings for any
length scale. All values are in units of the field's prior standard deviation. The results therefore
do not depend on the unit of the field, not even in the last bit.
"""

from hashlib import sha256
from math import log, sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.arm_space import Arm, Field, arm_space
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.posteriors.base import CandidatesMixin, Prediction
from edge_tvbo.models.regression import Regression, require_scipy
from edge_tvbo.models.snapshot import (
    check_arrays,
    copy_arrays,
    decode_snapshot,
    encode_snapshot,
    read_count,
)
from edge_tvbo.models.spatial_kernels import distances, matern_of_distances
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy.unknown_length_scale.candidates import Hypothesis


class LengthScaleSelector(Protocol):
    """A selector of the length scales that a policy uses in interval t = 1, 2, ..."""

    snapshot_key: str  # settings as text; a snapshot must have the same text

    def hypotheses(self, t: int) -> tuple[Hypothesis, ...]:
        """Return the hypotheses about the posterior's length scale in interval t.

        If there are several hypotheses, the confidence bounds under them are averaged.
        """
        ...

    def update(self, y: float, bonus: float) -> None:
        """Update the posterior's selector with the reply `y`.

        `bonus` is β σ: the width β times the arm's standard deviation before the reply.
        """
        ...

    def advance(self, t: int) -> None:
        """End interval t, and select the length scales for the next interval."""
        ...

    def reset(self) -> None:
        """Discard what the selector has learned from replies.

        The posterior calls this method when it discards its readings.
        """
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return a dict of the arrays that hold the state of the length scale selector."""
        ...

    def check(self, state: dict[str, NDArray[Any]]) -> None:
        """Raise `SnapshotError` unless the arrays are a valid state of this selector."""
        ...


class Readings:
    """The newest `window` readings of a policy, and the distances between them.

    Readings are in units of the prior standard deviation. Distances are computed once for each
    reading, so that a new length scale costs only a kernel matrix and a Cholesky factor.

    Parameters
    ----------
    name : str
        Name of the policy, for the error message.
    field : SensorField or BoxField
        The arms; a `SensorField` needs positions.
    window : int
        Largest number of readings that are kept.
    nu : float
        Smoothness of the Matérn kernel.

    Raises
    ------
    ConfigError
        If the field is a `SensorField` without positions.
    MissingExtra
        If scipy is not installed.
    """

    def __init__(self, name: str, field: Field, window: int, nu: float) -> None:
        require_scipy()  # if scipy is missing, raises now, and not at the first fit
        if field.positions is None:
            raise ConfigError(
                f"{name} learns how fast the field changes in space, and needs the positions of "
                "the sensors.\nPass positions=... to SensorField, with one row of coordinates for "
                "each sensor, or use a policy that needs only the kernel, such as gp-ucb."
            )
        self.field = field
        self.domain = arm_space(field)
        self.nu = nu
        self.positions: Array = field.positions
        self.dimension = self.positions.shape[1]
        self.extent = _extent(field) or 1.0
        self.prior_std = sqrt(float(self.domain.prior.max()))
        self.noise_variance = field.noise_variance / float(self.domain.prior.max())
        self.count = 0  # number of readings that were ever added
        self.changed = True  # whether readings were added or dropped since the last fit
        self.places = np.zeros((window, self.domain.candidates.shape[1]))  # a ring buffer, like y
        self.y = np.zeros(window)
        self._distances = np.zeros((window, window))
        self._candidate_distances = np.zeros((window, len(self.positions)))

    @property
    def held(self) -> int:
        """Number of readings that the length scale posterior holds now, at most `window`."""
        return min(self.count, len(self.y))

    def add(self, arm: Arm, y: float) -> None:
        """Add a reading of `arm`, in model units, to the length scale posterior's readings.

        If the window is full, its oldest reading is dropped.
        """
        slot = self.count % len(self.y)
        self.places[slot], self.y[slot] = self.domain.place(arm), y / self.prior_std
        self.count += 1
        self.changed = True
        self._measure(slot)

    def clear(self) -> None:
        """Drop all readings of the length scale posterior."""
        self.count, self.changed = 0, True

    def replace(self, count: int, state: dict[str, NDArray[Any]]) -> None:
        """Replace the length scale posterior's readings by the readings in a snapshot's arrays."""
        copy_arrays({"places": self.places, "y": self.y}, state)
        self.count = count
        for slot in range(self.held):
            self._measure(slot)

    def fit(self, length_scale: float) -> "Fit":
        """Return the regression on all readings of the posterior, for one length scale."""
        n = self.held
        K = self.correlations(self._distances[:n, :n], length_scale)
        return Fit(K, np.full(n, self.noise_variance), self.y[:n])

    def correlations(self, distances: Array, length_scale: float) -> Array:
        """Return the prior correlations of places at the `distances`, for one length scale."""
        return matern_of_distances(distances / length_scale, self.nu)

    def candidate_distances(self) -> Array:
        """Return the distances of the posterior's n readings from M candidate places, (n, M).

        The distances are not divided by a length scale, so they can be used for any length scale.
        """
        return self._candidate_distances[: self.held]

    def distances_to(self, P: Array) -> Array:
        """Return the distances of the posterior's n readings from the p places `P`, (n, p).

        The rows of `P` are points of a box or, in a sensor field, the indices of sensors.
        """
        return distances(self._where(self.places[: self.held]), 1.0, others=self._where(P))

    def _measure(self, slot: int) -> None:
        here, n = self._where(self.places[slot : slot + 1]), self.held
        self._candidate_distances[slot] = distances(here, 1.0, others=self.positions)[0]
        row = distances(here, 1.0, others=self._where(self.places[:n]))[0]
        self._distances[slot, :n] = row
        self._distances[:n, slot] = row

    def _where(self, places: Array) -> Array:
        """Return the coordinates (p, d) of `places`, for the distances that the posterior needs.

        In a sensor field, a place is the index of a sensor.
        """
        if isinstance(self.field, BoxField):
            return places
        return self.positions[places[:, 0].astype(np.intp)]


class Fit(Regression):
    """The regression for one length scale, with the information gain of its readings."""

    def gain(self, noise_variance: float) -> float:
        """Return the readings' information gain in nats, ½ ln det(I + K/σ²)."""
        if self._empty:
            return 0.0
        pivots = np.diag(self._L)
        return max(0.0, float(np.log(pivots).sum() - 0.5 * len(pivots) * log(noise_variance)))


class LengthScalePosterior(CandidatesMixin):
    """The posterior for one selected length scale, or the average of the posteriors for several.

    An interval costs O(n³ + n²M) operations for each length scale, for n stored readings and M
    candidate places.
    """

    def __init__(self, readings: Readings, selector: LengthScaleSelector) -> None:
        self.readings = readings
        self.selector = selector
        self._field, self._space = readings.field, readings.domain
        self.observations = 0
        self._time = 0
        self._fits: list[tuple[float, Fit]] = []  # one for each hypothesis; empty if out of date
        self._prediction: tuple[Array, Array] | None = None  # mean and variance

    @property
    def hypotheses(self) -> tuple[Hypothesis, ...]:
        """The hypotheses about the length scale that the posterior uses in the current interval."""
        return self.selector.hypotheses(self._time + 1)

    def gain(self) -> float:
        """Return the posterior's information gain in nats, averaged over the length scales."""
        self._fit()
        gains = [fit.gain(self.readings.noise_variance) for _, fit in self._fits]
        return sum(gains) / len(gains)

    def at(self, arm: Arm) -> Prediction:
        """Return the prediction of `arm`, averaged over all selected length scales."""
        self._fit()
        mean, variance = self._predict(self._space.place(arm)[None, :])
        return Prediction(arm, float(mean[0]), float(variance[0]) ** 0.5)

    def prior_std(self, arm: Arm) -> float:
        """Return the prior standard deviation, which is equal for all arms and length scales."""
        return self.readings.prior_std

    def observe(self, arm: Arm, y: float) -> None:
        """Add a reading of `arm`, in model units, to the length scale posterior.

        The selected length scales do not change.
        """
        self.readings.add(arm, y)
        self._invalidate()

    def advance(self) -> None:
        """End the interval of the length scale posterior, and select new length scales."""
        self.selector.advance(self._time + 1)
        self._time += 1
        self._invalidate()

    def reset(self) -> None:
        """Reset the length scale posterior: discard all readings, and reset the selector."""
        self.readings.clear()
        self.selector.reset()
        self._invalidate()

    def snapshot(self) -> bytes:
        """Return the length scale posterior's readings and selector as bytes, for `restore`."""
        state = {"time": self._time, "count": self.readings.count, **self._arrays()}
        if not self.readings.changed:
            state["changed"] = 0
        return encode_snapshot(self._kind(), self.readings.field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Load the length scale posterior's state, or raise `SnapshotError` and change nothing."""
        readings = self.readings
        state = decode_snapshot(self._kind(), readings.field.fingerprint(), blob)
        time, count = read_count(state, "time"), read_count(state, "count")
        changed = read_count(state, "changed") if "changed" in state else 1
        check_arrays(self._arrays(), state)
        if not readings.field.contains(state["places"][: min(count, len(readings.y))]):
            raise SnapshotError("The snapshot's 'places' names an arm that does not exist.")
        self.selector.check(state)
        copy_arrays(self.selector.arrays(), state)
        readings.replace(count, state)
        readings.changed = bool(changed)
        self._time = time
        self._invalidate()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"places": self.readings.places, "y": self.readings.y, **self.selector.arrays()}

    def _kind(self) -> str:
        readings = self.readings
        digest = sha256(np.ascontiguousarray(readings.positions).tobytes()).hexdigest()[:16]
        return f"{self.selector.snapshot_key} {len(readings.y)} {readings.nu!r} {digest}"

    def _fit(self) -> None:
        """Fit one regression for each selected length scale, unless all are up to date."""
        if not self._fits:
            thetas = [hypothesis.length_scale for hypothesis in self.hypotheses]
            self._fits = [(theta, self.readings.fit(theta)) for theta in thetas]

    def _candidate_prediction(self) -> tuple[Array, Array]:
        if self._prediction is None:
            self._fit()
            self._prediction = self._predicted(self.readings.candidate_distances())
        return self._prediction

    def _predict(self, P: Array) -> tuple[Array, Array]:
        return self._predicted(self.readings.distances_to(P))

    def _predicted(self, separation: Array) -> tuple[Array, Array]:
        """Return mean and variance of m places for the selected length scales, both (m,).

        `separation` holds the distances of the n readings from the places, (n, m).
        """
        prior = np.ones(separation.shape[1])
        mean, std = np.zeros(len(prior)), np.zeros(len(prior))
        for theta, fit in self._fits:
            m, variance = fit.predict(self.readings.correlations(separation, theta), prior)
            mean += m
            std += np.sqrt(variance)
        unit = self.readings.prior_std / len(self._fits)
        return mean * unit, (std * unit) ** 2

    def _invalidate(self) -> None:
        self.observations = self.readings.held
        self._fits = []
        self._prediction = None


def _extent(field: Field) -> float:
    """Return the extent of a field: its longest side, used as a unit for length scales."""
    if isinstance(field, BoxField):
        return float((field.upper - field.lower).max())
    return float(np.ptp(np.asarray(field.positions), axis=0).max())
