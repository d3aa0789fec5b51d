"""Course posterior: the known course of each sensor, plus changing deviations from the course."""

from math import exp

import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.base import FiniteArmsMixin
from edge_tvbo.models.posteriors.season_clock import NO_TIME, SeasonClock
from edge_tvbo.models.posteriors.state_space import StateSpacePosterior
from edge_tvbo.models.snapshot import (
    State,
    decode_snapshot,
    encode_snapshot,
    read_bytes,
    snapshot_kind,
)
from edge_tvbo.models.structural_model import StructuralModel, part_of
from edge_tvbo.models.temporal_models import Transition
from edge_tvbo.numerics.types import Array

SNAPSHOT_KIND = "course"  # kind of the snapshots
DEFAULT_TIME = 13.0  # time constant without training rows, in intervals


class CoursePosterior(FiniteArmsMixin):
    """The posterior of a field whose course (each sensor's mean by time of day) is known.

    The deviations (readings minus course) follow a vector autoregression of order 1: in each
    interval, the deviations are multiplied by φ, and noise is added. The structural model of the
    field determines the course, the spread, the correlation and the noise variance. The time
    constant of the deviations is the time constant of the model's component `fast`. If the
    intervals of the model differ in length, their lengths are computed from the times of `set_time`
    and `pass_time`. For a field without training rows, the course is 0, and the time constant is
    `DEFAULT_TIME` intervals.

    Parameters
    ----------
    field : SensorField
        M arms.

    Attributes
    ----------
    noise_variance : float
        Noise variance of a reading around the sum of course and deviation, in model units².
    """

    def __init__(self, field: SensorField) -> None:
        is_trained = field.structure is not None and field.structure.rows > 0
        model = field.structure if is_trained else None
        if model is None:
            around, phi = field, exp(-1.0 / DEFAULT_TIME)
        else:
            noise = model.components.noise_variance * float((model.spread**2).mean())
            kernel = model.correlation * np.outer(model.spread, model.spread)
            around = SensorField(field.sensors, kernel, noise)
            phi = exp(-(model.interval or 1.0) / model.components.fast.time)
        self._field = field
        self.noise_variance = around.noise_variance
        self._model: StructuralModel | None = model
        self._counts_intervals = model is None or model.interval > 0.0  # else, counts seconds
        posterior = StateSpacePosterior if self._counts_intervals else _OfAnyInterval
        self._around = posterior(around, Transition(phi * phi, 1.0 - phi * phi))
        self._clock = SeasonClock(0.0 if model is None else model.interval)
        self._refresh()

    def set_time(self, at: float | None) -> None:
        """Set the course posterior's time: the start of the interval, in s since 1970, UTC.

        None means that the time is unknown; the mean of the course is used until the next call.
        """
        if at is not None and self._clock.at != NO_TIME:
            self._evolve(at - self._clock.at - self._clock.elapsed)
        self._clock.set(at)
        self._refresh()

    def pass_time(self, seconds: float) -> None:
        """Advance the deviations from the course by `seconds`, while the time of day is unknown.

        If all intervals have the same length, this method does nothing: `advance` has already moved
        the deviations on.
        """
        if not self._counts_intervals:
            self._evolve(seconds)
            self._clock.unset_time += seconds
            self._refresh()

    def prior_std(self, arm: int) -> float:
        """Return the prior standard deviation of the sensor `arm` around its course."""
        return self._around.prior_std(arm)

    def observe(self, arm: int, y: float) -> None:
        """Update the deviations from the course with a reading `y` of `arm`, in model units."""
        self._around.observe(arm, y - float(self._course()[arm]))
        self._refresh()

    def advance(self) -> None:
        """Advance the deviations from the course by one interval."""
        if self._counts_intervals:
            self._around.advance()
        self._clock.waited += 1
        self._refresh()

    def skip(self, intervals: int) -> None:
        """Advance the deviations from the course by several intervals without readings, at once."""
        if self._counts_intervals:
            self._around.skip(intervals)
        self._clock.waited += intervals
        self._refresh()

    def reset(self) -> None:
        """Reset the course posterior: discard all readings, but keep the course."""
        self._around.reset()
        self._refresh()

    def snapshot(self) -> bytes:
        """Return the state of the course posterior as bytes, for `restore`."""
        state: State = {
            "at": self._clock.at,
            **self._clock.counters(),
            "around": self._around.snapshot(),
        }
        return encode_snapshot(SNAPSHOT_KIND, self._field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Load a course posterior's state, or raise `SnapshotError` and change nothing."""
        state = decode_snapshot(SNAPSHOT_KIND, self._field.fingerprint(), blob)
        self._clock.check(state)
        self._around.restore(read_bytes(state, "around"))
        self._clock.load(state)
        self._refresh()

    def _evolve(self, seconds: float) -> None:
        """Advance the deviations from the course by `seconds`.

        If all intervals have the same length, this method does nothing: `advance` has already moved
        the deviations on.
        """
        if not self._counts_intervals and seconds > 0.0:
            self._around.advance_by(seconds)

    def _refresh(self) -> None:
        """Compute the `mean` and the `variance` of the course posterior."""
        self.variance = self._around.variance
        self.mean = self._course() + self._around.mean
        self.observations = self._around.observations

    def _course(self) -> Array:
        model = self._model
        if model is None:
            return np.zeros(len(self._field))
        phase = self._clock.phase(model.period)
        if phase < 0.0:
            return np.asarray(model.course.mean(axis=0))
        return np.asarray(model.course[part_of(phase, len(model.course))])


class _OfAnyInterval(StateSpacePosterior):
    """A state-space posterior that also loads snapshots written with another interval length.

    The posterior is for intervals of different lengths, and advances by seconds. In earlier
    versions, it advanced by intervals, so the settings in a snapshot depended on the length of an
    interval. A snapshot of version 0.1.0 is still rejected, because its fingerprint contains this
    length.
    """

    def _decoded(self, blob: bytes) -> State:
        if not (kind := snapshot_kind(blob)).startswith("state-space "):
            raise SnapshotError(f"The snapshot is of {kind!r}, not of {self._kind()!r}.")
        return self._checked_arrays(decode_snapshot(kind, self._field.fingerprint(), blob))
