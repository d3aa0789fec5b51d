"""When is the model stale? By schedule, by evidence, or never."""

from math import log, pi, sqrt
from typing import Protocol

import msgspec

from edge_tvbo.errors import ConfigError


class TriggerInput(msgspec.Struct, frozen=True, gc=False):
    """The reading of a selected arm, and what was believed of it before, in model units."""

    y: float
    mean: float
    std: float
    prior_std: float  # were nothing known of the arm


class TriggerResult(msgspec.Struct, frozen=True, gc=False):
    """What a trigger makes of one answer."""

    stale: bool
    threshold: float | None  # the surprise that would have been too much, model units
    age: int  # answers since the last reset, this one included: t' in [ET]


class Trigger(Protocol):
    """Decides when a policy forgets what it knows; sees only answers of selected arms."""

    age: int  # answers seen since the last reset: all its state

    def expires(self, t: int) -> bool:
        """Say whether the model is stale at the beginning of interval `t` = 0, 1, ..."""
        ...

    def check(self, answer: TriggerInput) -> TriggerResult:
        """Judge an answer; count it."""
        ...

    def clear(self) -> None:
        """Begin anew after a reset."""
        ...


class _Counting:
    """The age, which every trigger keeps."""

    def __init__(self) -> None:
        self.age = 0

    def clear(self) -> None:
        """Begin anew after a reset."""
        self.age = 0

    def expires(self, t: int) -> bool:
        """Say no."""
        return False

    def check(self, answer: TriggerInput) -> TriggerResult:
        """Count the answer and let it be."""
        self.age += 1
        return TriggerResult(False, None, self.age)


class Never(_Counting):
    """A model that is never stale."""


class EveryPeriod(_Counting):
    """A model that is stale every `period` intervals, before the choice ([B16] algorithm 1)."""

    def __init__(self, period: int) -> None:
        super().__init__()
        if period < 1:
            raise ConfigError(f"period is {period}; it must be 1 interval or more.")
        self.period = period

    def expires(self, t: int) -> bool:
        """Say yes every `period` intervals."""
        return t > 0 and t % self.period == 0


class ErrorBound(_Counting):
    """The event trigger of ET-GP-UCB ([ET] lemma 3, eq. 11 and algorithm 1).

    Stale when |y - mean| > √ρ std + w̄ with ρ = 2 ln(2π_{t'}/δ_B), w̄ = √(2σ_n² ln(2π_{t'}/δ_B)),
    π_{t'} = π²t'²/6, and t' within [n_lower, n_upper]; and always when t' = n_upper.

    Parameters
    ----------
    noise_variance : float
        σ_n², of a reading.
    delta_b : float
        How often, in probability, a field that never changes is taken for one that did.
    n_lower, n_upper : int
        Bounds on the answers between resets; None for no upper bound.
    noise_cap : int or None
        The age after which w̄ grows no further ([ET] section 7), so that late changes are seen.
    """

    def __init__(
        self,
        noise_variance: float,
        delta_b: float = 0.1,
        n_lower: int = 1,
        n_upper: int | None = None,
        noise_cap: int | None = None,
    ) -> None:
        super().__init__()
        _check(delta_b, n_lower, n_upper)
        if noise_cap is not None and noise_cap < 1:
            raise ConfigError(f"noise_cap is {noise_cap}; it must be 1 answer or more.")
        self.noise_variance = noise_variance
        self.delta_b = delta_b
        self.n_lower = n_lower
        self.n_upper = n_upper
        self.noise_cap = noise_cap

    def check(self, answer: TriggerInput) -> TriggerResult:
        """Judge an answer by lemma 3; count it."""
        self.age += 1
        age = self.age
        threshold = self.threshold(age, answer.std)
        stale = abs(answer.y - answer.mean) > threshold and age >= self.n_lower
        return TriggerResult(stale or age == self.n_upper, threshold, age)

    def threshold(self, age: int, std: float) -> float:
        """Give κ: the most surprise a static field has at age t' = 1, 2, ..., in model units."""
        noise_age = age if self.noise_cap is None else min(age, self.noise_cap)
        noise = sqrt(2.0 * self.noise_variance * _log_union(noise_age, self.delta_b))
        return sqrt(2.0 * _log_union(age, self.delta_b)) * std + noise


class LikelihoodRatio(_Counting):
    """A trigger for [ET] definition 2, which leaves the test open: by a likelihood ratio.

    Stale when the answer is 2π_{t'}/δ_B times likelier under the prior, as if nothing were known,
    than under the model: κ bounds a likelihood ratio here instead of a distance. By Markov's
    inequality a static field is taken for a changed one with probability below δ_B/2, as by
    `ErrorBound`, whose bounds apply here too.
    """

    def __init__(
        self,
        noise_variance: float,
        delta_b: float = 0.1,
        n_lower: int = 1,
        n_upper: int | None = None,
    ) -> None:
        super().__init__()
        _check(delta_b, n_lower, n_upper)
        self.noise_variance = noise_variance
        self.delta_b = delta_b
        self.n_lower = n_lower
        self.n_upper = n_upper

    def check(self, answer: TriggerInput) -> TriggerResult:
        """Judge an answer by its likelihood ratio; count it."""
        self.age += 1
        age = self.age
        fresh = _log_density(answer.y, answer.prior_std**2 + self.noise_variance)
        known = _log_density(answer.y - answer.mean, answer.std**2 + self.noise_variance)
        stale = fresh - known > _log_union(age, self.delta_b) and age >= self.n_lower
        return TriggerResult(stale or age == self.n_upper, None, age)


class Bounds(msgspec.Struct, frozen=True):
    """The block lengths that bounds on the rate of change imply ([ET] corollary 1).

    >>> Bounds.of(0.001, 0.1, horizon=400)
    Bounds(n_lower=22, n_upper=68)
    """

    n_lower: int
    n_upper: int

    @classmethod
    def of(cls, epsilon_lower: float, epsilon_upper: float, *, horizon: int) -> "Bounds":
        """Give ⌈min(T, 12 ε^(-1/4))⌉ for both ends, T = `horizon` intervals."""
        if not 0 <= epsilon_lower <= epsilon_upper <= 1:
            raise ConfigError(
                f"epsilon between {epsilon_lower} and {epsilon_upper}: 0 <= lower <= upper <= 1."
            )
        return cls(_block(epsilon_upper, horizon), _block(epsilon_lower, horizon))


def _block(epsilon: float, horizon: int) -> int:
    length = horizon if epsilon == 0 else min(horizon, 12 * epsilon**-0.25)
    return int(-(-length // 1))


def _check(delta_b: float, n_lower: int, n_upper: int | None) -> None:
    if not 0 < delta_b < 1:
        raise ConfigError(f"delta_b is {delta_b}; it must lie between 0 and 1.")
    if n_lower < 1 or (n_upper is not None and n_upper < n_lower):
        raise ConfigError(f"n_lower is {n_lower}, n_upper {n_upper}; 1 <= n_lower <= n_upper.")


def _log_density(error: float, variance: float) -> float:
    return -0.5 * (error * error / variance + log(variance))


def _log_union(age: int, delta_b: float) -> float:
    return log(pi**2 * age * age / (3.0 * delta_b))
