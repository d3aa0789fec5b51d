"""What any model has to beat: a draw, all in turn, always the same one, and three that learn."""

from collections.abc import Callable
from math import e, exp, inf, log, sqrt

import numpy as np

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.domain import Arm, Field, arm_space
from edge_tvbo.models.facts import Fact
from edge_tvbo.models.snapshot import (
    check_arrays,
    copy_arrays,
    decode_snapshot,
    encode_snapshot,
    read_count,
)
from edge_tvbo.numerics.acquisition import draw
from edge_tvbo.numerics.types import Array, Indices, Mask
from edge_tvbo.policy.base import Choice, Outcome

LOWEST = -1e100  # of what was never read
FINE = 2**53  # draws of a uniform number
REACH = 3.0  # prior standard deviations that bounded rewards span, up and down
FORGOTTEN = 1e-100  # discounted readings: an arm with fewer is as one that was never read


def random(name: str, field: Field, *, seed: int = 0) -> "NonAdaptivePolicy":
    """Give the policy that draws an arm each interval, all with the same chance."""
    return NonAdaptivePolicy(name, field, lambda t, arms: int(arms[draw(seed, t, len(arms))]))


def round_robin(name: str, field: Field, *, seed: int = 0) -> "NonAdaptivePolicy":
    """Give the policy that takes the arms in turn, beginning with number `seed` modulo M.

    Where the one whose turn it is cannot be chosen, the next that can be is.
    """
    M = len(field)
    return NonAdaptivePolicy(name, field, lambda t, arms: _from(t + seed, arms, M))


def static(
    name: str, field: Field, *, sensor: str | None = None, seed: int = 0
) -> "NonAdaptivePolicy":
    """Give the policy that always takes `sensor`; without one, arm number `seed` modulo M.

    Where it cannot be chosen, the next that can be is.
    """
    arms: list[Arm] = [field.arm(index) for index in range(len(field))]
    names = [field.name(arm) for arm in arms]
    if sensor is not None and sensor not in names:
        raise ConfigError(f"sensor is {sensor!r}; it must be one of the field's sensors.")
    first = seed if sensor is None else names.index(sensor)
    return NonAdaptivePolicy(name, field, lambda t, arms: _from(first, arms, len(names)))


def rexp3(
    name: str, field: Field, *, period: int = 100, gamma: float | None = None, seed: int = 0
) -> "RExp3":
    """Give RExp3 (Besbes, Gur & Zeevi 2014; baseline in [B16] section 5)."""
    return RExp3(name, field, period, gamma, seed)


def discounted(
    name: str, field: Field, *, gamma: float = 0.99, xi: float = 0.5, seed: int = 0
) -> "DiscountedUCB":
    """Give D-UCB (Kocsis & Szepesvári 2006; Garivier & Moulines 2011): arms that are unrelated."""
    return DiscountedUCB(name, field, gamma, xi, seed)


def oracle(name: str, field: Field, *, seed: int = 0) -> "Oracle":
    """Give the policy that takes the arm which read the highest last."""
    return Oracle(name, field, seed)


def _from(first: int, arms: Indices, M: int) -> int:
    """Give the first of the arms that comes at or after number `first`, in a circle of M."""
    return int(arms[((arms - first) % M).argmin()])


class ModelFreePolicy:
    """What policies without a model share: their posterior is the prior for ever."""

    uses_readings = False

    def __init__(self, name: str, field: Field) -> None:
        self.name = name
        self.field = field
        self.observations = 0
        self.resets = 0
        self._std = np.sqrt(arm_space(field).prior)
        self._time = 0

    def select(self, eligible: Mask | None = None) -> Choice:
        """Give the arm for the current interval, among the eligible (bool[M])."""
        M = len(self.field)
        candidates = np.arange(M) if eligible is None else np.flatnonzero(eligible)
        if not len(candidates):
            raise ValueError("no arm is eligible")
        return self._choice(self._pick(candidates))

    def select_many(self, k: int, eligible: Mask | None = None) -> tuple[Choice, ...]:
        """Give up to k different arms, each as if those before it were not eligible."""
        left = np.ones(len(self.field), np.bool_) if eligible is None else eligible.copy()
        choices = []
        for _ in range(min(k, int(left.sum())) or 1):
            candidates = np.flatnonzero(left)
            if not len(candidates):
                raise ValueError("no arm is eligible")
            index = self._pick(candidates)
            left[index] = False
            choices.append(self._choice(index))
        return tuple(choices)

    def observe(self, arm: Arm, y: float) -> Outcome:
        """Take no notice."""
        return Outcome(False, abs(y), None, 0)

    def advance(self) -> None:
        """End the interval."""
        self._time += 1

    def reset(self) -> None:
        """Take no notice: nothing was learned."""

    def set_time(self, at: float) -> None:
        """Take no notice: the time of day does not matter."""

    def facts(self) -> tuple[Fact, ...]:
        """Give nothing: there is no model."""
        return ()

    def posterior(self) -> tuple[Array, Array]:
        """Give the prior's mean and standard deviation (M,)."""
        return np.zeros(len(self.field)), self._std.copy()

    def _pick(self, candidates: Indices) -> int:
        raise NotImplementedError

    def _choice(self, index: int) -> Choice:
        arm: Arm = self.field.arm(index)
        return Choice(arm, self.field.name(arm), 0.0, float(self._std[index]), 0.0)


class NonAdaptivePolicy(ModelFreePolicy):
    """A policy that learns nothing."""

    def __init__(self, name: str, field: Field, pick: Callable[[int, Indices], int]) -> None:
        super().__init__(name, field)
        self._choose = pick  # (interval, candidates) -> one of them

    def _pick(self, candidates: Indices) -> int:
        return self._choose(self._time, candidates)

    def snapshot(self) -> bytes:
        """Give the state, which is the time, as bytes."""
        return encode_snapshot(self.name, self.field.fingerprint(), {"time": self._time})

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        self._time = read_count(decode_snapshot(self.name, self.field.fingerprint(), blob), "time")


class RExp3(ModelFreePolicy):
    """Exponential weights, forgotten every `period` intervals (Besbes, Gur & Zeevi 2014, alg. 1).

    Parameters
    ----------
    period : int
        Δ, intervals in a batch.
    gamma : float or None
        Share of the draws that are uniform; None for min(1, √(M ln M / ((e - 1) Δ))), theorem 2.

    Notes
    -----
    A reading counts as the reward (y + 3 s) / 6 s within 0 to 1, s being the arm's prior standard
    deviation. In a box it knows the candidates alone. Only answers of drawn arms can be weighed.
    """

    uses_readings = True

    def __init__(
        self, name: str, field: Field, period: int, gamma: float | None, seed: int
    ) -> None:
        super().__init__(name, field)
        M = len(field)
        if period < 1:
            raise ConfigError(f"period is {period}; it must be 1 interval or more.")
        if gamma is None:
            gamma = min(1.0, sqrt(M * log(M) / ((e - 1) * period))) if M > 1 else 1.0
        if not 0.0 < gamma <= 1.0:
            raise ConfigError(f"gamma is {gamma}; it must be above 0, and at most 1.")
        self._period = period
        self._gamma = gamma
        self._seed = seed
        self._weights = np.ones(M)
        self._asked: list[tuple[int, float]] = []  # arm's number, and how probable it was

    def observe(self, arm: Arm, y: float) -> Outcome:
        """Weigh the answer of a drawn arm by how improbable it was."""
        for index, chance in self._asked:
            if index == self.field.index(arm):
                reach = REACH * float(self._std[index])
                reward = min(max((y + reach) / (2.0 * reach), 0.0), 1.0) if reach else 0.5
                gain = self._gamma * reward / (chance * len(self.field))
                self._weights[index] *= exp(min(gain, 50.0))
                self._weights /= self._weights.max()
                self.observations += 1
        self._asked = [each for each in self._asked if each[0] != self.field.index(arm)]
        return Outcome(False, abs(y), None, self.observations)

    def advance(self) -> None:
        """End the interval; at the end of a batch all weights are equal again."""
        super().advance()
        self._asked = []
        if self._time % self._period == 0:
            self.reset()

    def reset(self) -> None:
        """Let all weights be equal again."""
        self._weights[:] = 1.0
        self.observations = 0
        self.resets += 1

    def select(self, eligible: Mask | None = None) -> Choice:
        """Draw an arm."""
        self._asked = []
        return super().select(eligible)

    def select_many(self, k: int, eligible: Mask | None = None) -> tuple[Choice, ...]:
        """Draw up to k different arms."""
        self._asked = []
        return super().select_many(k, eligible)

    def snapshot(self) -> bytes:
        """Give the state as bytes; the continuation from them is bit-identical."""
        chances = np.zeros(len(self.field))
        for index, chance in self._asked:
            chances[index] = chance
        state = {
            "time": self._time,
            "observations": self.observations,
            "resets": self.resets,
            "weights": self._weights,
            "chances": chances,
        }
        return encode_snapshot(self._kind(), self.field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        state = decode_snapshot(self._kind(), self.field.fingerprint(), blob)
        time, observations = read_count(state, "time"), read_count(state, "observations")
        resets = read_count(state, "resets")
        check_arrays({"weights": self._weights, "chances": self._weights}, state)
        if (state["weights"] < 0).any() or not (state["weights"] > 0).any():
            raise SnapshotError("The snapshot's 'weights' are no weights.")
        if ((state["chances"] < 0) | (state["chances"] > 1)).any():
            raise SnapshotError("The snapshot's 'chances' are no probabilities.")
        copy_arrays({"weights": self._weights}, state)
        self._time, self.observations, self.resets = time, observations, resets
        drawn = np.flatnonzero(state["chances"])
        self._asked = [(int(index), float(state["chances"][index])) for index in drawn]

    def _pick(self, candidates: Indices) -> int:
        weights = self._weights[candidates]
        chances = (1.0 - self._gamma) * weights / weights.sum() + self._gamma / len(candidates)
        u = draw(self._seed, self._time * len(self.field) + len(self._asked), FINE) / FINE
        at = min(int(np.searchsorted(np.cumsum(chances), u, side="right")), len(candidates) - 1)
        self._asked.append((int(candidates[at]), float(chances[at])))
        return int(candidates[at])

    def _kind(self) -> str:
        return f"{self.name} {self._period} {self._gamma!r}"


class DiscountedUCB(ModelFreePolicy):
    """Upper confidence bounds on discounted means of unrelated arms (Garivier & Moulines 2011).

    Parameters
    ----------
    gamma : float
        γ, what a reading's weight is multiplied by in each interval since, above 0, at most 1.
    xi : float
        ξ, how much uncertainty attracts, above 0; the paper's theorem wants more than 1/2.
    seed : int
        Decides between arms that tie, as all do that were never read.

    Notes
    -----
    In interval t a reading of interval s has the weight γ^(t-1-s), so that the newest a choice can
    know has 1. With N of an arm, the weights' sum, and n, that of all arms, its bound is
    Σ γ^(t-1-s) y_s / N + 2 B √(ξ ln n / N), the padding c_t(γ, i) of algorithm 1; an arm never read
    comes first. There each round plays one arm; here an interval has any number of readings, which
    all count, and where it has none ln n is held at 0 once n is below 1.

    B, the span of the paper's rewards, is 6 s in model units, s being the largest prior standard
    deviation of an arm: as far as a reading will hardly ever go. Two arrays of M numbers are held.
    In a box it knows the candidates alone.
    """

    uses_readings = True

    def __init__(self, name: str, field: Field, gamma: float, xi: float, seed: int) -> None:
        super().__init__(name, field)
        if not 0.0 < gamma <= 1.0:
            raise ConfigError(f"gamma is {gamma}; it must be above 0, and at most 1.")
        if not 0.0 < xi < inf:
            raise ConfigError(f"xi is {xi}; it must be above 0.")
        self._gamma = gamma
        self._xi = xi
        self._seed = seed
        self._bound = 2.0 * REACH * float(self._std.max())  # B
        self._counts = np.zeros(len(field))  # γ N
        self._sums = np.zeros(len(field))

    def observe(self, arm: Arm, y: float) -> Outcome:
        """Count the reading, whoever asked for it."""
        index = self.field.index(arm)
        self._counts[index] += 1.0
        self._sums[index] += y
        self.observations += 1
        return Outcome(False, abs(y), None, self.observations)

    def advance(self) -> None:
        """End the interval: every reading counts for less."""
        super().advance()
        self._counts *= self._gamma
        self._sums *= self._gamma

    def reset(self) -> None:
        """Forget every reading."""
        self._counts[:] = self._sums[:] = 0.0
        self.observations = 0
        self.resets += 1

    def snapshot(self) -> bytes:
        """Give the state as bytes; the continuation from them is bit-identical."""
        state = {
            "time": self._time,
            "observations": self.observations,
            "resets": self.resets,
            **self._arrays(),
        }
        return encode_snapshot(self._kind(), self.field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        state = decode_snapshot(self._kind(), self.field.fingerprint(), blob)
        time, observations = read_count(state, "time"), read_count(state, "observations")
        resets = read_count(state, "resets")
        check_arrays(self._arrays(), state)
        if (state["counts"] < 0).any():
            raise SnapshotError("The snapshot's 'counts' are no counts.")
        copy_arrays(self._arrays(), state)
        self._time, self.observations, self.resets = time, observations, resets

    def _pick(self, candidates: Indices) -> int:
        bounds = self._bounds()[candidates]
        highest = np.flatnonzero(bounds == bounds.max())
        return int(candidates[highest[draw(self._seed, self._time, len(highest))]])

    def _bounds(self) -> Array:
        read = self._counts >= FORGOTTEN
        counts = self._counts[read]
        log_n = log(max(float(counts.sum()) / self._gamma, 1.0))
        bounds = np.full(len(self.field), inf)
        padding = 2.0 * self._bound * np.sqrt(self._xi * self._gamma * log_n / counts)
        bounds[read] = self._sums[read] / counts + padding
        return bounds

    def _arrays(self) -> dict[str, Array]:
        return {"counts": self._counts, "sums": self._sums}

    def _kind(self) -> str:
        return f"{self.name} {self._gamma!r}"


class Oracle(ModelFreePolicy):
    """Takes the arm whose last reading was the highest: told all of them, it has no regret.

    The seed decides between arms that tie, as all do before the first reading. In a box it knows
    the candidates alone.
    """

    uses_readings = True

    def __init__(self, name: str, field: Field, seed: int) -> None:
        super().__init__(name, field)
        self._seed = seed
        self._last = np.full(len(field), LOWEST)

    def observe(self, arm: Arm, y: float) -> Outcome:
        """Remember the reading."""
        self._last[self.field.index(arm)] = max(y, LOWEST)
        self.observations += 1
        return Outcome(False, abs(y), None, self.observations)

    def reset(self) -> None:
        """Forget what each arm read last."""
        self._last[:] = LOWEST
        self.observations = 0

    def snapshot(self) -> bytes:
        """Give the state as bytes; the continuation from them is bit-identical."""
        state = {"time": self._time, "observations": self.observations, "last": self._last}
        return encode_snapshot(self.name, self.field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        state = decode_snapshot(self.name, self.field.fingerprint(), blob)
        time, observations = read_count(state, "time"), read_count(state, "observations")
        check_arrays({"last": self._last}, state)
        copy_arrays({"last": self._last}, state)
        self._time, self.observations = time, observations

    def _pick(self, candidates: Indices) -> int:
        last = self._last[candidates]
        highest = np.flatnonzero(last == last.max())
        return int(candidates[highest[draw(self._seed, self._time, len(highest))]])
