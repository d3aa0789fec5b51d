"""Reading buffer: base class of posteriors that are recomputed from a buffer of readings."""

from abc import abstractmethod

import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.parameter_checks import check_count
from edge_tvbo.models.posteriors.state_space import StateSpaceBase
from edge_tvbo.models.snapshot import AnyArray, State, read_count
from edge_tvbo.models.temporal_models import Transition


def check_readings(state: State, window: int, sensors: int) -> None:
    """Raise `SnapshotError` if `state` has more than `window` readings, or an unknown sensor."""
    observations = read_count(state, "observations")
    if observations > window:
        raise SnapshotError(f"The snapshot has {observations} readings; allowed: at most {window}.")
    if not ((state["arms"] >= 0) & (state["arms"] < sensors)).all():
        raise SnapshotError("The snapshot's 'arms' names a sensor that does not exist.")


class BufferedPosterior(StateSpaceBase):
    """A posterior whose state is the time and a buffer of at most W readings.

    Parameters
    ----------
    field : SensorField
        As for `StateSpaceBase`.
    transition : Transition
        A transition that leaves the scale of the prior (p_t of `Transition`) at 1.
    window : int
        W, number of readings that fit into the buffer, 1 or more; otherwise `ConfigError` is
        raised.
    """

    def __init__(self, field: SensorField, transition: Transition, window: int) -> None:
        check_count(window=window)
        super().__init__(field, transition)
        self._arms = np.zeros(window, np.int64)
        self._y = np.zeros(window)
        self._times = np.zeros(window, np.int64)
        self._time = 0
        self.mean = np.zeros(len(field))
        self.variance = np.diag(field.kernel).copy()

    def observe(self, arm: int, y: float) -> None:
        """Add a reading of `arm` to the buffer; a full buffer first drops another reading."""
        if self.observations == len(self._y):
            self._drop(self._dispensable())
        n = self.observations
        self._arms[n], self._y[n], self._times[n] = arm, y, self._time
        self.observations = n + 1
        self._predict()

    def advance(self) -> None:
        """Advance the buffered posterior by one interval."""
        self._time += 1
        self._predict()

    def remove(self, index: int) -> None:
        """Remove the reading with this index from the buffer; index 0 is the oldest."""
        self._drop(index)
        self._predict()

    def reset(self) -> None:
        """Reset the buffered posterior to the current interval's prior: drop all readings."""
        self.observations = 0
        self._predict()

    def _dispensable(self) -> int:
        """Return the index of the reading that a full buffer drops: the oldest one."""
        return 0

    def _drop(self, index: int) -> None:
        n = self.observations
        for array in (self._arms, self._y, self._times):
            array[index : n - 1] = array[index + 1 : n]
        self.observations = n - 1

    @abstractmethod
    def _predict(self) -> None:
        """Fill `mean` and `variance` of the buffered posterior for the current interval."""

    def _counters(self) -> State:
        return {"time": self._time}

    def _check(self, state: State, prior: float) -> None:
        observations, time = read_count(state, "observations"), read_count(state, "time")
        check_readings(state, len(self._y), len(self._field))
        if (state["times"][:observations] > time).any() or (state["times"] < 0).any():
            raise SnapshotError("The snapshot holds readings with impossible times.")

    def _load(self, state: State) -> None:
        super()._load(state)
        self._time = state["time"]
        self._predict()

    def _arrays(self) -> dict[str, AnyArray]:
        return {"arms": self._arms, "y": self._y, "times": self._times}
