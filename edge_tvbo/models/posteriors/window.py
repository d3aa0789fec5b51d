"""Sliding-window posterior: exact for the last W readings, at O(W² + WM) per interval.

If W is at least the number of readings, the sliding-window posterior equals the textbook posterior
(Rasmussen & Williams eq. 2.25-2.26) except for rounding.
"""

import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.parameter_checks import check_count
from edge_tvbo.models.posteriors.reading_buffer import check_readings
from edge_tvbo.models.posteriors.state_space import ROUNDING_TOLERANCE, StateSpaceBase
from edge_tvbo.models.snapshot import (
    AnyArray,
    State,
    check_arrays,
    copy_arrays,
    read_count,
)
from edge_tvbo.models.temporal_models import Transition
from edge_tvbo.numerics import window as kernels
from edge_tvbo.numerics.types import Array

MAX_ROTATED = 1e6  # largest reading, in prior stds, whose drop leaves only small rounding errors


class WindowPosterior(StateSpaceBase):
    """The posterior given the last `window` readings, computed by updates of a Cholesky factor.

    Parameters
    ----------
    field, transition
        As for `StateSpaceBase`.
    window : int
        W, largest number of readings held, 1 or more. The factor is recomputed after every W
        dropped readings, so that it never contains the rounding errors of more than W updates. The
        recomputation costs another O(W² + WM) per interval on average. After a reading of more
        than 10^6 prior standard deviations is dropped, the factor is recomputed at once. `restore`
        recomputes the factor, too, to check it, in O(W³ + W²M).

    Raises
    ------
    ConfigError
        If `window` is below 1.
    """

    def __init__(self, field: SensorField, transition: Transition, window: int) -> None:
        check_count(window=window)
        super().__init__(field, transition)
        M = len(field)
        self._window = window
        self._L = np.zeros((window, window))
        self._V = np.zeros((window, M))
        self._z = np.zeros(window)
        self._panel = np.zeros((window, kernels.PANEL_ROWS))
        self._arms = np.zeros(window, np.int64)
        self._y = np.zeros(window)
        self._times = np.zeros(window, np.int64)
        self._priors = np.zeros(window)
        self._time = 0
        self._drops = 0  # readings dropped since the factor was last recomputed
        self.mean = np.zeros(M)
        self.variance = np.diag(field.kernel).copy()

    def observe(self, arm: int, y: float) -> None:
        """Add a reading to the sliding-window posterior; a full window drops its oldest reading."""
        if self.observations == self._window:
            self._drop_oldest()
        n = self.observations
        kernels.append_reading(
            self._L, self._V, self._z, n, self._kernel, self.prior, arm, y, self._noise_variance
        )
        self._arms[n], self._y[n], self._times[n], self._priors[n] = arm, y, self._time, self.prior
        self.observations = n + 1
        if self._drops >= self._window:
            self._factor_into(self._arrays(), n + 1, self._time)
            self._drops = 0
        self._predict()

    def advance(self) -> None:
        """Advance the sliding-window posterior by one interval."""
        self._time += 1
        self._evolve(self._retain, self._inject)

    def skip(self, intervals: int) -> None:
        """Advance the sliding-window posterior by several intervals without readings, at once."""
        self._time += intervals
        self._evolve(*Transition(self._retain, self._inject).over(float(intervals)))

    def reset(self) -> None:
        """Reset the sliding-window posterior to the current interval's prior: drop all readings."""
        self.observations = 0
        self._drops = 0
        self._predict()

    def _counters(self) -> State:
        return {"time": self._time, "drops": self._drops}

    def _stored_arrays(self) -> dict[str, AnyArray]:
        """Return the sliding window's arrays for a snapshot; the factor L is a packed triangle.

        Rows without a reading are left out, because they would make most snapshots much larger.
        """
        n = self.observations
        return {**self._rows(n), "L": self._L[:n, :n][np.tri(n, dtype=np.bool_)]}

    def _checked_arrays(self, state: State) -> State:
        """Return the sliding window's `state` with one row for each reading, and L as a matrix.

        L is the Cholesky factor. Snapshots of version 0.1.0 also contain the rows without a
        reading, and the upper triangle of L.
        """
        n, L = read_count(state, "observations"), state.get("L")
        if isinstance(L, np.ndarray) and L.ndim == 2:
            check_arrays(self._arrays(), state)
            check_readings(state, self._window, len(self._field))
            rows = {name: state[name][:n] for name in self._rows(n)}
            return {**state, **rows, "L": np.tril(L[:n, :n])}
        check_arrays(self._rows(n), state)
        check_readings(state, self._window, len(self._field))
        check_arrays({"L": np.zeros(n * (n + 1) // 2)}, state)
        matrix = np.zeros((n, n))
        matrix[np.tri(n, dtype=np.bool_)] = L
        return {**state, "L": matrix}

    def _check(self, state: State, prior: float) -> None:
        read_count(state, "drops")
        self._check_factor(state, read_count(state, "observations"), read_count(state, "time"))

    def _load(self, state: State) -> None:
        n = self.observations
        copy_arrays({**self._rows(n), "L": self._L[:n, :n]}, state)
        self._time, self._drops = state["time"], state["drops"]
        self._predict()

    def _evolve(self, retain: float, inject: float) -> None:
        if self._changes:
            kernels.evolve(self._V, retain, self.observations)
            self.prior = retain * self.prior + inject
            self._predict()

    def _drop_oldest(self) -> None:
        self._drops += 1 if abs(self._z[0]) <= MAX_ROTATED else self._window
        kernels.drop_oldest(
            self._L,
            self._V,
            self._z,
            self._arms,
            self._y,
            self._times,
            self._priors,
            self.observations,
        )
        self.observations -= 1

    def _factor_into(self, state: State, n: int, time: int) -> None:
        kernels.refactor(
            state["L"],
            state["V"],
            state["z"],
            n,
            self._kernel,
            state["arms"],
            state["y"],
            state["times"],
            state["priors"],
            time,
            self._retain,
            self._noise_variance,
            self._panel,
        )

    def _check_factor(self, state: State, n: int, time: int) -> None:
        """Raise `SnapshotError` unless the sliding window's factor matches the state's readings.

        The factor L can need most of the daemon's memory, so the check uses only one further array
        of this size.
        """
        recomputed = {name: state[name].copy() for name in self._rows(n)}
        recomputed["L"] = np.zeros_like(state["L"])
        self._factor_into(recomputed, n, time)
        for name in ("L", "V", "z"):
            right = recomputed[name]
            off = ROUNDING_TOLERANCE * max(1.0, _max_abs(right))
            right -= state[name]
            if not (np.isfinite(off) and _max_abs(right) <= off):
                raise SnapshotError(f"The snapshot's {name!r} does not match its readings.")

    def _predict(self) -> None:
        kernels.predict(
            self._V,
            self._z,
            self.observations,
            self._kernel,
            self.prior,
            self.mean,
            self.variance,
        )

    def _rows(self, n: int) -> dict[str, AnyArray]:
        """Return the first `n` rows of the sliding window's arrays, without the factor L."""
        return {name: array[:n] for name, array in self._arrays().items() if name != "L"}

    def _arrays(self) -> dict[str, AnyArray]:
        return {
            "L": self._L,
            "V": self._V,
            "z": self._z,
            "arms": self._arms,
            "y": self._y,
            "times": self._times,
            "priors": self._priors,
        }

    def _kind(self) -> str:
        return f"window {self._window} {self._retain!r} {self._inject!r}"


def _max_abs(array: Array) -> float:
    """Return the largest absolute value of a window's array: 0 if empty, NaN if any is NaN."""
    return float(max(array.max(initial=0.0), -array.min(initial=0.0)))
