"""What any model has to beat: a draw, and everyone in turn."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.model.field import SensorField
from edge_tvbo.model.snapshot import seal, unseal, whole
from edge_tvbo.numerics.acquisition import draw
from edge_tvbo.policies.policy import Choice, Outcome

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Arms = NDArray[np.intp]


def random(name: str, field: SensorField, *, seed: int = 0) -> "Blind":
    """Give the policy that draws an arm each interval, all with the same chance."""
    return Blind(name, field, lambda t, arms: int(arms[draw(seed, t, len(arms))]))


def round_robin(name: str, field: SensorField, *, seed: int = 0) -> "Blind":
    """Give the policy that takes the arms in turn, beginning with number `seed` modulo M.

    Where the one whose turn it is cannot be chosen, the next that can be is.
    """
    M = len(field)
    return Blind(name, field, lambda t, arms: int(arms[((arms - t - seed) % M).argmin()]))


class Blind:
    """A policy that learns nothing: its posterior is the prior for ever."""

    learns = False

    def __init__(self, name: str, field: SensorField, pick: Callable[[int, Arms], int]) -> None:
        self.name = name
        self.field = field
        self.observations = 0
        self.resets = 0
        self._pick = pick  # (interval, candidates) -> one of them
        self._std = np.sqrt(np.diag(field.kernel))
        self._time = 0

    def select(self, eligible: Mask | None = None) -> Choice:
        """Give the arm whose turn it is."""
        M = len(self.field)
        candidates = np.arange(M) if eligible is None else np.flatnonzero(eligible)
        if not len(candidates):
            raise ValueError("no arm is eligible")
        arm = self._pick(self._time, candidates)
        return Choice(arm, self.field.sensors[arm], 0.0, float(self._std[arm]), 0.0)

    def observe(self, arm: int, y: float) -> Outcome:
        """Take no notice."""
        return Outcome(False, abs(y), None, 0)

    def advance(self) -> None:
        """End the interval."""
        self._time += 1

    def posterior(self) -> tuple[Array, Array]:
        """Give the prior's mean and standard deviation (M,)."""
        return np.zeros(len(self.field)), self._std.copy()

    def snapshot(self) -> bytes:
        """Give the state, which is the time, as bytes."""
        return seal(self.name, self.field.fingerprint(), {"time": self._time})

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        self._time = whole(unseal(self.name, self.field.fingerprint(), blob), "time")
