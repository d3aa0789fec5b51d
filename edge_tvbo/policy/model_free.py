"""Base classes of the policies without a posterior, and the range of rewards for these policies."""

from abc import abstractmethod

import numpy as np

from edge_tvbo.models.arm_space import Arm, Field, arm_space
from edge_tvbo.models.facts import Fact
from edge_tvbo.models.posteriors.base import Prediction
from edge_tvbo.models.snapshot import State, decode_snapshot, encode_snapshot, read_count
from edge_tvbo.numerics.types import Array, Indices, Mask
from edge_tvbo.policy.argument_checks import (
    check_number_of_arms,
    check_step,
    checked_arm,
    checked_reading,
    counts_intervals,
    eligible_mask,
)
from edge_tvbo.policy.base import Choice, ObserveResult
from edge_tvbo.policy.draws import uniform
from edge_tvbo.policy.settings import PolicySettings

REWARD_REACH_STD = 3.0  # rewards are clipped at 3 prior stds above and below the mean


class ModelFreePolicy:
    """Base class of the policies without a model; their posterior is always the prior."""

    uses_readings = False
    learns_rates = False

    def __init__(self, name: str, field: Field) -> None:
        self.name = name
        self.field = field
        self.observations = 0
        self.resets = 0
        self._std = np.sqrt(arm_space(field).prior)
        self._all_arms = np.ones(len(field), np.bool_)
        self._time = 0

    def select(self, eligible: Mask | None = None) -> Choice:
        """Return the eligible arm that this model-free policy picks for the current interval."""
        self._forget_selected()
        candidates = np.flatnonzero(eligible_mask(eligible, self._all_arms))
        if not len(candidates):
            raise ValueError("no arm is eligible")
        return self._choice(self._pick(candidates))

    def select_many(self, k: int, eligible: Mask | None = None) -> tuple[Choice, ...]:
        """Return up to k different arms, which the model-free policy picks one after the other."""
        self._forget_selected()
        check_number_of_arms(k)
        left = eligible_mask(eligible, self._all_arms).copy()
        choices = []
        for _ in range(min(k, int(left.sum())) or 1):
            candidates = np.flatnonzero(left)
            if not len(candidates):
                raise ValueError("no arm is eligible")
            index = self._pick(candidates)
            left[index] = False
            choices.append(self._choice(index))
        return tuple(choices)

    def observe(self, arm: Arm, y: float) -> ObserveResult:
        """Check the reading and ignore it, because a model-free policy has no model to update."""
        arm, y = checked_reading(self.field, arm, y)
        return ObserveResult(False, abs(y), None, 0)

    def advance(self, dt: float = 1.0) -> None:
        """End the interval of a model-free policy; the length `dt` has no effect."""
        check_step(dt)
        self._time += 1

    def reset(self) -> None:
        """Do nothing, because a model-free policy holds no readings."""

    def set_time(self, at: float | None) -> None:
        """Do nothing, because the time of day does not affect a model-free policy."""

    def pass_time(self, seconds: float) -> None:
        """Do nothing, because time does not affect a model-free policy."""

    def facts(self) -> tuple[Fact, ...]:
        """Return no facts, because a model-free policy has no model to explain."""
        return ()

    def prediction(self, arm: Arm) -> Prediction:
        """Return the model-free policy's prior mean and standard deviation of `arm`."""
        arm = checked_arm(self.field, arm)
        return Prediction(arm, 0.0, float(self._std[self.field.index(arm)]))

    def posterior(self) -> tuple[Array, Array]:
        """Return the prior mean and standard deviation; a model-free policy has no posterior."""
        return np.zeros(len(self.field)), self._std.copy()

    def snapshot(self) -> bytes:
        """Return the state of the model-free policy as bytes, for `restore`."""
        return encode_snapshot(self._kind(), self.field.fingerprint(), self._state())

    def restore(self, blob: bytes) -> None:
        """Load the model-free policy from a snapshot; on `SnapshotError` nothing changes."""
        self._load(decode_snapshot(self._kind(), self.field.fingerprint(), blob))

    def restore_sensors(self, blob: bytes) -> int:
        """Load nothing and return 0: a model-free policy learns nothing about sensors."""
        return 0

    def _kind(self) -> str:
        """Return the text that identifies the model-free policy and its settings in snapshots."""
        return self.name

    def _state(self) -> State:
        """Return the model-free policy's state for a snapshot; subclasses extend it."""
        return {"time": self._time}

    def _load(self, state: State) -> None:
        """Load the model-free policy's state; change nothing if `SnapshotError` is raised."""
        self._time = read_count(state, "time")

    def _forget_selected(self) -> None:
        """Forget which arms were selected last: the model-free policy expects no more replies."""

    @abstractmethod
    def _pick(self, candidates: Indices) -> int:
        """Return the arm that the model-free policy picks from one or more `candidates`."""

    def _choice(self, index: int) -> Choice:
        arm: Arm = self.field.arm(index)
        return Choice(arm, self.field.name(arm), 0.0, float(self._std[index]), 0.0)


class BanditPolicy(ModelFreePolicy):
    """Base class of the model-free policies that learn from readings, and count intervals."""

    uses_readings = True

    def __init__(self, settings: PolicySettings, field: Field) -> None:
        super().__init__(settings.name, field)
        self._seed = settings.seed

    def advance(self, dt: float = 1.0) -> None:
        """End the interval of a bandit policy; raises `ValueError` if `dt` is not 1."""
        if dt != 1.0:
            raise counts_intervals(self.name, dt)
        super().advance()
        self._forget_selected()

    def _state(self) -> State:
        return {**super()._state(), "observations": self.observations, "resets": self.resets}

    def _load(self, state: State) -> None:
        observations, resets = read_count(state, "observations"), read_count(state, "resets")
        super()._load(state)
        self.observations, self.resets = observations, resets

    def _uniform(self, candidates: Indices) -> float:
        """Return the uniform random number with which a bandit policy draws a candidate."""
        M = len(self.field)
        return uniform(self._seed, self._time * M + M - len(candidates))
