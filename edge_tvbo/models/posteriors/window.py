"""What the last W readings say of every arm, at O(W² + WM) an interval.

With W no less than the number of readings it is the textbook posterior (Rasmussen & Williams eq.
2.25-2.26) to rounding.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.state_space import ROUNDED, StateSpaceBase
from edge_tvbo.models.snapshot import whole
from edge_tvbo.models.transitions import Transition
from edge_tvbo.numerics import window as kernels


class WindowPosterior(StateSpaceBase):
    """The posterior from the last `window` readings, as an updated Cholesky factor.

    Parameters
    ----------
    field, temporal
        As for `StateSpaceBase`.
    window : int
        W, the most readings held. The factor is computed anew after every W dropped readings, so
        rounding stays that of W updates, for another O(W² + WM) an interval on average.
    """

    def __init__(self, field: SensorField, temporal: Transition, window: int) -> None:
        if window < 1:
            raise ConfigError(f"window is {window}; it must be 1 reading or more.")
        super().__init__(field, temporal)
        M = len(field)
        self._window = window
        self._L = np.zeros((window, window))
        self._V = np.zeros((window, M))
        self._z = np.zeros(window)
        self._arms = np.zeros(window, np.int64)
        self._y = np.zeros(window)
        self._times = np.zeros(window, np.int64)
        self._priors = np.zeros(window)
        self._time = 0
        self._drops = 0  # since the factor was last computed anew
        self.mean = np.zeros(M)
        self.variance = np.diag(field.kernel).copy()

    def observe(self, arm: int, y: float) -> None:
        """Take in a reading of `arm`, in model units, and drop the oldest of a full window."""
        if self.observations == self._window:
            self._drop_oldest()
        n = self.observations
        kernels.append(
            self._L, self._V, self._z, n, self._kernel, self.prior, arm, y, self._noise_variance
        )
        self._arms[n], self._y[n], self._times[n], self._priors[n] = arm, y, self._time, self.prior
        self.observations = n + 1
        if self._drops >= self._window:
            self._refactor()
        self._predict()

    def advance(self) -> None:
        """Move on by one interval."""
        self._time += 1
        if self._changes:
            kernels.decay(self._V, self._retain, self.observations)
            self.prior = self._retain * self.prior + self._inject
            self._predict()

    def reset(self) -> None:
        """Forget every reading, not the time: the prior of the current interval is left."""
        self.observations = 0
        self._drops = 0
        self._predict()

    def _counts(self) -> dict[str, Any]:
        return {"time": self._time, "drops": self._drops}

    def _check(self, state: dict[str, NDArray[Any]], prior: float) -> None:
        observations, time = whole(state, "observations"), whole(state, "time")
        whole(state, "drops")
        if observations > self._window:
            raise SnapshotError(f"The snapshot holds {observations} readings of {self._window}.")
        if not ((state["arms"] >= 0) & (state["arms"] < len(self._field))).all():
            raise SnapshotError("The snapshot's 'arms' names a sensor that there is not.")
        self._check_factor(state, observations, time)

    def _resume(self, state: dict[str, Any]) -> None:
        super()._resume(state)
        self._time, self._drops = state["time"], state["drops"]
        self._predict()

    def _drop_oldest(self) -> None:
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
        self._drops += 1

    def _refactor(self) -> None:
        self._factor_into(self._arrays(), self.observations, self._time)
        self._drops = 0

    def _factor_into(self, state: dict[str, NDArray[Any]], n: int, time: int) -> None:
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
        )

    def _check_factor(self, state: dict[str, Any], n: int, time: int) -> None:
        """Raise `SnapshotError` unless the factor is that of the readings beside it."""
        anew = {name: state[name].copy() for name in self._arrays()}
        self._factor_into(anew, n, time)
        for name in ("L", "V", "z"):
            right = anew[name][:n]
            off = ROUNDED * np.abs(right).max(initial=1.0)
            if not (np.isfinite(off) and np.allclose(state[name][:n], right, rtol=0.0, atol=off)):
                raise SnapshotError(f"The snapshot's {name!r} does not follow from its readings.")

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

    def _arrays(self) -> dict[str, NDArray[Any]]:
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
