"""Fault statistics: the usual repetitions, spikes and errors of all sensors of a field."""

from math import log
from typing import Any, ClassVar

import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.numerics.types import Array

SPIKE_SHARE = 0.2  # share of spikes in the readings of a sensor with the fault "spikes"
MIN_SPIKE_SHARE = 0.04  # lowest share of spikes assumed for working sensors
MIN_LEARNED_SQUARE = 0.01
MAX_LEARNED_SQUARE = 9.0  # limit of a squared error, so that a faulty sensor has little effect
SCALE_COUNT = 100.0  # readings over which the size of the errors is averaged
MIN_REPEAT_CHANCE, MAX_REPEAT_CHANCE = 1e-6, 0.98


class FaultStatistics:
    """Counts of repetitions and spikes, and the mean size of errors, over all sensors of a field.

    Parameters
    ----------
    center : float
        A typical reading, in the field's unit.

    Attributes
    ----------
    changes : float
        Number of readings that differ from the previous reading of the same sensor.
    resolution : float
        The smallest change of a sensor, in the field's unit; 0 if unknown.
    square : float
        Mean squared standardised error.
    lowest, highest : float
        Range of the readings, in the field's unit. Readings of sensors that seem to use another
        unit are left out.
    """

    NAMES: ClassVar[tuple[str, ...]] = (  # in the order of the snapshot
        "_first_tries",  # readings that follow a change of the same sensor, plus a prior count
        "_first_repeats",
        "_next_tries",  # readings that follow a repetition, plus a prior count
        "_next_repeats",
        "_readings",
        "_spikes",
        "square",
        "resolution",
        "changes",
        "lowest",
        "highest",
    )

    def __init__(self, center: float) -> None:
        self._first_tries, self._first_repeats = 20.0, 1.0
        self._next_tries, self._next_repeats = 3.0, 1.0
        self._readings, self._spikes = 50.0, 1.0
        self.square = 1.0
        self.resolution = self.changes = 0.0
        self.lowest = self.highest = center

    @property
    def readings(self) -> float:
        """Number of readings that were compared with the previous one, plus a prior count."""
        return self._first_tries + self._next_tries

    def add_change(self, size: float, repeats: int) -> None:
        """Count a change by `size` that ended `repeats` repetitions of a sensor's reading."""
        self._add_try(repeats)
        if size < self.resolution or not self.resolution:
            self.resolution = size
        self.changes += 1.0

    def add_repetition(self, repeats: int) -> None:
        """Add one repetition to the statistics; `repeats` repetitions came before it."""
        self._add_try(repeats)
        if repeats:
            self._next_repeats += 1.0
        else:
            self._first_repeats += 1.0

    def remove_repetitions(self, repeats: int) -> None:
        """Remove a faulty sensor's repetitions from the statistics, except the first repetition.

        `repeats` is the number of the sensor's repetitions, including the first.
        """
        later = max(0.0, repeats - 1.0)
        self._next_tries -= later
        self._next_repeats -= later

    def add_ended_repetitions(self, repeats: int) -> None:
        """Add back what `remove_repetitions` removed, and the change that ended the repetitions.

        The sensor may have been in order all the time. If so, many repetitions are usual for the
        field, and the statistics have to include them.
        """
        self._next_tries += repeats
        self._next_repeats += max(0.0, repeats - 1.0)

    def repetition_evidence(self, own: float, expected: float) -> float:
        """Return ln(1/p), where p is the chance that a working sensor has `own` repetitions.

        `own` is the number of successive repetitions of the tested sensor. The chance of one
        repetition is estimated from the readings of the other sensors. `expected` is the model's
        estimate of this chance. The higher of the two estimates is used.
        """
        first = (self._first_repeats - 1.0) / (self._first_tries - 1.0)
        again = (self._next_repeats - own + 1.0) / (self._next_tries - own + 1.0)
        chances = (
            min(max(each, expected, MIN_REPEAT_CHANCE), MAX_REPEAT_CHANCE)
            for each in (first, again)
        )
        return sum(n * log(1.0 / p) for n, p in zip((1.0, own - 1.0), chances, strict=True))

    def spike_evidence(self, *, is_spike: bool) -> float:
        """Return the evidence for spikes from one reading: a log-likelihood ratio, in nats.

        The ratio compares a sensor with spikes to a working sensor, whose share of spikes is taken
        from the statistics. `is_spike` says whether the reading is a spike.
        """
        usual = min(max(self._spikes / self._readings, MIN_SPIKE_SHARE), SPIKE_SHARE / 2)
        shares = (SPIKE_SHARE, usual) if is_spike else (1.0 - SPIKE_SHARE, 1.0 - usual)
        return log(shares[0] / shares[1])

    def add_reading(self, *, is_spike: bool) -> None:
        """Count a reading, and whether it is a spike, in the statistics of spikes."""
        self._readings += 1.0
        self._spikes += is_spike

    def learn_square(self, error: float) -> None:
        """Update the statistics' mean squared error, `square`, with one standardised error."""
        limited = min(max(error * error, MIN_LEARNED_SQUARE), MAX_LEARNED_SQUARE)
        self.square += (limited - self.square) / SCALE_COUNT

    def learn_range(self, value: float) -> None:
        """Extend the statistics' range of readings, `lowest` to `highest`, to include `value`."""
        self.lowest, self.highest = min(self.lowest, value), max(self.highest, value)

    def _add_try(self, repeats: int) -> None:
        if repeats:
            self._next_tries += 1.0
        else:
            self._first_tries += 1.0

    # --- snapshots ------------------------------------------------------------------------------

    def array(self) -> Array:
        """Return the fault statistics as an array, for a snapshot."""
        return np.array([getattr(self, name) for name in self.NAMES])

    @classmethod
    def check(cls, array: Array, repeated: int) -> None:
        """Raise `SnapshotError` unless `array` contains valid fault statistics.

        `repeated` is the largest number of successive equal readings of any sensor in the snapshot.
        """
        stored: dict[str, Any] = dict(zip(cls.NAMES, array.tolist(), strict=True))
        lowest = {
            "_first_tries": 20.0,
            "_next_tries": max(1.0, repeated),
            "_readings": 50.0,
            "square": MIN_LEARNED_SQUARE / 2,
        }
        counts = cls.NAMES[: cls.NAMES.index("lowest")]
        if repeated < 0 or any(stored[name] < lowest.get(name, 0.0) for name in counts):
            raise SnapshotError("The snapshot's statistics of faults are invalid.")

    def restore(self, array: Array) -> None:
        """Restore the fault statistics from an `array` that `check` accepts."""
        for name, value in zip(self.NAMES, array.tolist(), strict=True):
            setattr(self, name, value)
