"""Baseline policies without a model: random, round-robin, static, RExp3, D-UCB and oracle."""

from collections.abc import Callable
from functools import partial
from math import e, exp, inf, log, sqrt

import numpy as np

from edge_tvbo.errors import ConfigError, SnapshotError, hint
from edge_tvbo.models.arm_space import Arm, Field
from edge_tvbo.models.snapshot import (
    State,
    check_arrays,
    copy_arrays,
    read_count,
)
from edge_tvbo.numerics.acquisition import draw
from edge_tvbo.numerics.types import Array, Indices, Mask
from edge_tvbo.policy.argument_checks import checked_reading
from edge_tvbo.policy.base import Choice, ObserveResult
from edge_tvbo.policy.baseline_settings import (
    DUcbSettings,
    OracleSettings,
    RandomSettings,
    RExp3Settings,
    RoundRobinSettings,
    StaticSettings,
)
from edge_tvbo.policy.draws import index_at, index_of_highest
from edge_tvbo.policy.model_free import REWARD_REACH_STD, BanditPolicy, ModelFreePolicy

NEVER_READ = -1e100  # for the oracle, the "last reading" of an arm that was never read
MIN_COUNT = 1e-100  # an arm whose discounted count is smaller is treated as never read
NEXT_DRAW = 2**40  # added to the counter of draws for each arm that is not a candidate
MIN_WEIGHT = float(np.finfo(np.float64).tiny)  # smallest weight in RExp3, so that no sum is 0
MAX_LOG_GAIN = 50.0  # largest increase of an RExp3 log weight by one reading


def make_random(settings: RandomSettings, field: Field) -> "NonAdaptivePolicy":
    """Build the baseline `random`, which draws each arm with the same probability.

    Several draws in one interval are independent. The reason: the random number depends on the
    number of candidates, and each draw has fewer candidates than the previous one.
    """
    return NonAdaptivePolicy(settings.name, field, partial(_drawn_arm, settings.seed, len(field)))


def make_static(settings: StaticSettings, field: Field) -> "NonAdaptivePolicy":
    """Build the baseline `static`, which always selects the same sensor.

    By default the sensor is arm number `seed` modulo M. In intervals in which this sensor is not
    eligible, the next eligible arm is selected.

    Raises
    ------
    ConfigError
        If `sensor` is not one of the field's sensors.
    """
    M = len(field)
    arms: list[Arm] = [field.arm(index) for index in range(M)]
    names = [field.name(arm) for arm in arms]
    if settings.sensor is None:
        fixed = settings.seed % M
    elif settings.sensor in names:
        fixed = names.index(settings.sensor)
    else:
        raise ConfigError(
            f"sensor is {settings.sensor!r}; it must be one of the field's sensors."
            f"{hint(settings.sensor, names)}"
        )
    return NonAdaptivePolicy(settings.name, field, partial(_static_arm, fixed, M))


def _drawn_arm(seed: int, M: int, t: int, arms: Indices) -> int:
    """Return the arm that the baseline `random` draws from `arms` in interval `t`."""
    return int(arms[draw(seed, t + (M - len(arms)) * NEXT_DRAW, len(arms))])


def _static_arm(fixed: int, M: int, t: int, arms: Indices) -> int:
    """Return the arm of `static`: number `fixed` or, if it is not in `arms`, the next arm."""
    return _next_arm(fixed, arms, M)


def _next_arm(first: int, arms: Indices, M: int) -> int:
    """Return the arm number `first` modulo M or, if it is not in `arms`, the next arm in `arms`.

    Arm M - 1 is followed by arm 0.
    """
    return int(arms[((arms - first) % M).argmin()])


class NonAdaptivePolicy(ModelFreePolicy):
    """A policy whose selection does not depend on the readings.

    Parameters
    ----------
    name : str
        Name under which the policy is registered.
    field : SensorField or BoxField
        Field that contains the arms.
    pick : function
        Function that takes the number of the interval and the numbers of the candidate arms, and
        returns the number of the selected arm.
    """

    def __init__(self, name: str, field: Field, pick: Callable[[int, Indices], int]) -> None:
        super().__init__(name, field)
        self._pick_at = pick

    def _pick(self, candidates: Indices) -> int:
        return self._pick_at(self._time, candidates)


class RoundRobin(ModelFreePolicy):
    """The baseline `round-robin`, which selects the arms in the order of their numbers.

    The first arm has the number `seed` modulo M. If one arm is selected in each interval, the arm
    of interval t = 0, 1, ... has the number (`seed` + t) modulo M. If several arms are selected in
    an interval, the next interval continues after the last of these arms. If the arm whose turn it
    is cannot be selected, the next eligible arm is selected.

    If only one arm is eligible, its selection does not count as a turn. The reason: the caller may
    have determined the arm, for example at a user's request. In all other cases, a selected arm has
    had its turn, even if the controller then saves energy and does not activate the arm.
    """

    def __init__(self, settings: RoundRobinSettings, field: Field) -> None:
        super().__init__(settings.name, field)
        self._first = settings.seed % len(field)
        self._ahead = 0  # turns in addition to one for each ended interval, modulo M
        self._picked = np.zeros(len(field), np.int64)  # 1 for arms selected in this interval

    def select(self, eligible: Mask | None = None) -> Choice:
        """Return the arm whose turn it is in `round-robin`, or the next eligible arm."""
        picked = self._picked.copy()
        choice = super().select(eligible)
        if eligible is not None and np.count_nonzero(eligible) == 1:
            self._picked = picked  # the caller has determined the arm, so no turn was taken
        return choice

    def advance(self, dt: float = 1.0) -> None:
        """End the interval of `round-robin`; the arm after the selected arms has the next turn."""
        turns = (np.flatnonzero(self._picked) - self._turn()) % len(self.field)
        super().advance(dt)
        if len(turns) > 1:
            self._ahead = (self._ahead + int(turns.max())) % len(self.field)
        self._picked[:] = 0

    def _state(self) -> State:
        """Return the state of `round-robin`: the turn, and the current interval's arms."""
        state = super()._state()
        if self._ahead:
            state["ahead"] = self._ahead
        if self._picked.any():
            state["picked"] = self._picked
        return state

    def _load(self, state: State) -> None:
        state = {"ahead": 0, "picked": np.zeros_like(self._picked), **state}
        ahead = read_count(state, "ahead")
        check_arrays({"picked": self._picked}, state)
        super()._load(state)
        copy_arrays({"picked": self._picked}, state)
        self._ahead = ahead

    def _pick(self, candidates: Indices) -> int:
        if self._picked[candidates].any():  # a new selection that replaces the previous one
            self._picked[:] = 0
        arm = _next_arm(self._turn(), candidates, len(self.field))
        self._picked[arm] = 1
        return arm

    def _turn(self) -> int:
        return self._first + self._time + self._ahead


class RExp3(BanditPolicy):
    """RExp3: draws arms by exponential weights, which are reset every Δ = `period` intervals.

    This is algorithm 1 of Besbes, Gur & Zeevi 2014; see also [B16] section 5. If `gamma` is not
    given, the share of uniform draws is min(1, √(M ln M / ((e - 1) Δ))), as in theorem 2 of Besbes,
    Gur & Zeevi.

    A reading y is converted to the reward (y + 3 s) / (6 s), clipped to the range 0 to 1; s is the
    prior standard deviation of the arm. Only replies of drawn arms change the weights. If the field
    is a box, the arms are the candidates of the box.
    """

    def __init__(self, settings: RExp3Settings, field: Field) -> None:
        super().__init__(settings, field)
        M, period, gamma = len(field), settings.period, settings.gamma
        if gamma is None:
            gamma = min(1.0, sqrt(M * log(M) / ((e - 1) * period))) if M > 1 else 1.0
        self._period = period
        self._gamma = gamma
        self._weights = np.ones(M)
        self._drawn: list[tuple[int, float]] = []  # numbers of drawn arms, with their probabilities

    def observe(self, arm: Arm, y: float) -> ObserveResult:
        """Update RExp3: multiply a drawn arm's weight by exp(γ · reward / (M · probability))."""
        arm, y = checked_reading(self.field, arm, y)
        number = self.field.index(arm)
        for index, probability in self._drawn:
            if index == number:
                reach = REWARD_REACH_STD * float(self._std[index])
                reward = min(max((y + reach) / (2.0 * reach), 0.0), 1.0) if reach else 0.5
                gain = self._gamma * reward / (probability * len(self.field))
                self._weights[index] *= exp(min(gain, MAX_LOG_GAIN))
                self._weights /= self._weights.max()
                np.maximum(self._weights, MIN_WEIGHT, out=self._weights)
                self.observations += 1
        self._drawn = [each for each in self._drawn if each[0] != number]
        return ObserveResult(False, abs(y), None, self.observations)

    def advance(self, dt: float = 1.0) -> None:
        """End the interval of the baseline RExp3; after `period` intervals, set all weights to 1.

        `period` is a number of intervals, so `dt` must be 1; otherwise `ValueError` is raised.
        """
        super().advance(dt)
        if self._time % self._period == 0:
            self.reset()

    def reset(self) -> None:
        """Reset the baseline RExp3: set all weights to 1."""
        self._weights[:] = 1.0
        self.observations = 0
        self.resets += 1

    def _forget_selected(self) -> None:
        self._drawn = []

    def _state(self) -> State:
        chances = np.zeros(len(self.field))
        for index, probability in self._drawn:
            chances[index] = probability
        return {**super()._state(), "weights": self._weights, "chances": chances}

    def _load(self, state: State) -> None:
        check_arrays({"weights": self._weights, "chances": self._weights}, state)
        if (state["weights"] < 0).any() or not (state["weights"] > 0).any():
            raise SnapshotError("The snapshot's 'weights' holds a negative number, or only zeros.")
        if ((state["chances"] < 0) | (state["chances"] > 1)).any():
            raise SnapshotError("The snapshot's 'chances' holds a number outside 0 to 1.")
        super()._load(state)
        np.maximum(state["weights"], MIN_WEIGHT, out=self._weights)  # 0 in snapshots of 0.1.0
        drawn = np.flatnonzero(state["chances"])
        self._drawn = [(int(index), float(state["chances"][index])) for index in drawn]

    def _pick(self, candidates: Indices) -> int:
        weights = self._weights[candidates]
        p = (1.0 - self._gamma) * weights / weights.sum() + self._gamma / len(candidates)
        at = index_at(p, self._uniform(candidates))
        self._drawn.append((int(candidates[at]), float(p[at])))
        return int(candidates[at])

    def _kind(self) -> str:
        return f"{self.name} {self._period} {self._gamma!r}"


class DiscountedUCB(BanditPolicy):
    """D-UCB: upper confidence bounds on discounted means; arms are treated as unrelated.

    This is algorithm 1 of Garivier & Moulines 2011, after Kocsis & Szepesvári 2006. In interval t,
    a reading of interval s has the weight γ^(t-1-s), which is 1 in the first interval after the
    reading. Let N be the sum of the weights of one arm's readings, and n the sum of the weights of
    all readings. The bound of the arm is Σ γ^(t-1-s) y_s / N + 2 B √(ξ ln n / N); the second term
    is the padding c_t(γ, i) of the algorithm. Arms that were never read are selected first. In the
    paper, each round plays one arm. Here, an interval may have any number of readings, and all of
    them are counted. If n is below 1, ln n is replaced by 0.

    In the paper, B is the span of the rewards. Here, B is six times the largest prior standard
    deviation of an arm. γ and ξ are the parameters `gamma` and `xi`. The state consists of two
    arrays of shape (M,). If the field is a box, the arms are the candidates of the box.
    """

    def __init__(self, settings: DUcbSettings, field: Field) -> None:
        super().__init__(settings, field)
        self._gamma = settings.gamma
        self._xi = settings.xi
        self._reward_span = 2.0 * REWARD_REACH_STD * float(self._std.max())  # B
        self._counts = np.zeros(len(field))  # discounted number of readings of each arm, γ N
        self._sums = np.zeros(len(field))

    def observe(self, arm: Arm, y: float) -> ObserveResult:
        """Add a reading of any arm, selected or not, to the sums of the baseline D-UCB."""
        arm, y = checked_reading(self.field, arm, y)
        index = self.field.index(arm)
        self._counts[index] += 1.0
        self._sums[index] += y
        self.observations += 1
        return ObserveResult(False, abs(y), None, self.observations)

    def advance(self, dt: float = 1.0) -> None:
        """End the interval of the baseline D-UCB: multiply the weight of every reading by γ.

        The weights are defined for whole intervals, so `dt` must be 1; otherwise `ValueError` is
        raised.
        """
        super().advance(dt)
        self._counts *= self._gamma
        self._sums *= self._gamma

    def reset(self) -> None:
        """Reset the baseline D-UCB: discard all readings."""
        self._counts[:] = self._sums[:] = 0.0
        self.observations = 0
        self.resets += 1

    def _state(self) -> State:
        return {**super()._state(), **self._arrays()}

    def _load(self, state: State) -> None:
        check_arrays(self._arrays(), state)
        if (state["counts"] < 0).any():
            raise SnapshotError("The snapshot's 'counts' are below 0.")
        super()._load(state)
        copy_arrays(self._arrays(), state)

    def _pick(self, candidates: Indices) -> int:
        bounds = self._bounds()[candidates]
        return int(candidates[index_of_highest(bounds, self._seed, self._time)])

    def _bounds(self) -> Array:
        read = self._counts >= MIN_COUNT
        counts = self._counts[read]
        log_n = log(max(float(counts.sum()) / self._gamma, 1.0))
        bounds = np.full(len(self.field), inf)
        padding = 2.0 * self._reward_span * np.sqrt(self._xi * self._gamma * log_n / counts)
        bounds[read] = self._sums[read] / counts + padding
        return bounds

    def _arrays(self) -> dict[str, Array]:
        return {"counts": self._counts, "sums": self._sums}

    def _kind(self) -> str:
        return f"{self.name} {self._gamma!r}"


class Oracle(ModelFreePolicy):
    """The policy `oracle`: selects the arm with the highest last reading.

    The oracle's regret is 0 if all arms are read in each interval before the selection. Ties are
    broken by seeded draws; before the first reading, all arms tie. If the field is a box, the arms
    are the candidates of the box.
    """

    uses_readings = True

    def __init__(self, settings: OracleSettings, field: Field) -> None:
        super().__init__(settings.name, field)
        self._seed = settings.seed
        self._last = np.full(len(field), NEVER_READ)

    def observe(self, arm: Arm, y: float) -> ObserveResult:
        """Store a reading as the oracle's last reading of its arm."""
        arm, y = checked_reading(self.field, arm, y)
        self._last[self.field.index(arm)] = max(y, NEVER_READ)
        self.observations += 1
        return ObserveResult(False, abs(y), None, self.observations)

    def reset(self) -> None:
        """Reset the oracle: discard all readings."""
        self._last[:] = NEVER_READ
        self.observations = 0

    def _state(self) -> State:
        return {**super()._state(), "observations": self.observations, "last": self._last}

    def _load(self, state: State) -> None:
        observations = read_count(state, "observations")
        check_arrays({"last": self._last}, state)
        super()._load(state)
        copy_arrays({"last": self._last}, state)
        self.observations = observations

    def _pick(self, candidates: Indices) -> int:
        return int(candidates[index_of_highest(self._last[candidates], self._seed, self._time)])
