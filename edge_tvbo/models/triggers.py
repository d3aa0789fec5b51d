"""Reset triggers: rules that decide from a schedule or a reading whether a model is stale."""

from math import log, pi, sqrt
from typing import Protocol

import msgspec

from edge_tvbo.models.parameter_checks import (
    check_block_bounds,
    check_count,
    check_ordered_rates,
    check_probability,
)


class TriggerInput(msgspec.Struct, frozen=True, gc=False):
    """The reading of a selected arm, and the prediction without that reading, in model units."""

    y: float
    mean: float
    std: float
    prior_std: float  # prior standard deviation of the arm


class TriggerResult(msgspec.Struct, frozen=True, gc=False):
    """The result of a trigger's test of one reply (the reading of a selected arm)."""

    stale: bool
    threshold: float | None  # largest |y - mean| at which the test does not fire
    age: int  # replies since the last reset, including this reply: t' in [ET]


class Trigger(Protocol):
    """A rule that decides, from readings of the selected arms, when a policy resets its model."""

    age: int  # replies since the last reset: the whole state of a trigger

    def due_times(self, after: int, t: int) -> int:
        """Return how often the trigger is due from interval `after` + 1 to interval `t`.

        A trigger is due at the beginning of an interval. The first interval has the number 0.
        """
        ...

    def check(self, reply: TriggerInput) -> TriggerResult:
        """Count a reply, and return whether the trigger finds that the model is stale."""
        ...

    def clear(self) -> None:
        """Set the trigger's count of replies to 0; call this after a reset of the model."""
        ...


class _CountingTrigger:
    """Base class of the triggers; it counts replies and never fires."""

    def __init__(self) -> None:
        self.age = 0

    def clear(self) -> None:
        """Set the trigger's count of replies to 0; call this after a reset of the model."""
        self.age = 0

    def due_times(self, after: int, t: int) -> int:
        """Return 0, because this trigger has no schedule."""
        return 0

    def check(self, reply: TriggerInput) -> TriggerResult:
        """Count a reply; this trigger's result always says that the model is not stale."""
        self.age += 1
        return TriggerResult(False, None, self.age)


class Never(_CountingTrigger):
    """A trigger that never resets the model."""


class EveryPeriod(_CountingTrigger):
    """A trigger that resets the model periodically, before an arm is selected ([B16] algorithm 1).

    Parameters
    ----------
    period : int
        Intervals between two resets, 1 or more.

    Raises
    ------
    ConfigError
        If `period` is below 1.
    """

    def __init__(self, period: int) -> None:
        super().__init__()
        check_count(period=period)
        self.period = period

    def due_times(self, after: int, t: int) -> int:
        """Return how many multiples of the reset period lie from `after` + 1 to `t`."""
        return t // self.period - after // self.period


class _EventTrigger(_CountingTrigger):
    """Base class of the event triggers: resets are `n_lower` to `n_upper` replies apart."""

    def __init__(
        self,
        noise_variance: float,
        delta_b: float = 0.1,
        n_lower: int = 1,
        n_upper: int | None = None,
    ) -> None:
        super().__init__()
        check_probability(delta_b=delta_b)
        check_block_bounds(n_lower, n_upper)
        self.noise_variance = noise_variance
        self.delta_b = delta_b
        self.n_lower = n_lower
        self.n_upper = n_upper

    def _resets(self, fired: bool) -> bool:
        """Return whether an event trigger resets the model; `fired` is the result of the test."""
        if self.n_upper is not None and self.age >= self.n_upper:
            return True
        return fired and self.age >= self.n_lower


class ErrorBound(_EventTrigger):
    r"""The event trigger of ET-GP-UCB: it resets the model when a prediction error is too large.

    The model is stale if t' is within [n_lower, n_upper] and

    .. math::
        |y - \text{mean}| > \sqrt{ρ} \, \text{std} + \bar{w}

        ρ = 2 \ln \frac{2 π_{t'}}{δ_B}, \quad π_{t'} = \frac{π^2 (t')^2}{6}

        \bar{w} = \sqrt{2 σ_n^2 \ln(2 π_{t'} / δ_B)}

    Here t' is the number of replies since the last reset. At t' = n_upper the model counts as
    stale, whatever the reading is.

    Parameters
    ----------
    noise_variance : float
        σ_n², noise variance of a reading, in model units².
    delta_b : float
        δ_B, bound on the probability that a field which never changes is mistaken for a changed
        field.
    n_lower, n_upper : int
        Bounds on the number of replies between two resets; `n_upper` is None if there is no upper
        bound.
    noise_cap : int or None
        Age t' after which w̄ stops growing, so that late changes are detected ([ET] section 7).

    Raises
    ------
    ConfigError
        If a parameter is out of range.

    References
    ----------
    [ET] lemma 3, eq. 11 and algorithm 1.
    """

    def __init__(
        self,
        noise_variance: float,
        delta_b: float = 0.1,
        n_lower: int = 1,
        n_upper: int | None = None,
        noise_cap: int | None = None,
    ) -> None:
        super().__init__(noise_variance, delta_b, n_lower, n_upper)
        if noise_cap is not None:
            check_count(noise_cap=noise_cap)
        self.noise_cap = noise_cap

    def check(self, reply: TriggerInput) -> TriggerResult:
        """Count a reply; return whether its error, or the count t' of replies, shows a stale model.

        At t' = `n_upper`, the model is stale whatever the error is. Below t' = `n_lower`, the model
        is never stale.
        """
        self.age += 1
        threshold = self.threshold(self.age, reply.std)
        stale = self._resets(abs(reply.y - reply.mean) > threshold)
        return TriggerResult(stale, threshold, self.age)

    def threshold(self, age: int, std: float) -> float:
        """Return κ, the largest prediction error that the trigger accepts at age t' = 1, 2, ...

        `std` is the predicted standard deviation. κ and `std` are in model units.
        """
        noise_age = age if self.noise_cap is None else min(age, self.noise_cap)
        noise = sqrt(2.0 * self.noise_variance * _log_union(noise_age, self.delta_b))
        return sqrt(2.0 * _log_union(age, self.delta_b)) * std + noise


class LikelihoodRatio(_EventTrigger):
    """An event trigger that compares how probable a reading is with and without the model.

    The model is stale if the reading is more than 2π_{t'}/δ_B times as probable under the prior as
    under the model. By Markov's inequality, a static field is mistaken for a changed field with
    probability below δ_B/2. Here t' is the number of replies since the last reset; π_{t'} and the
    bounds `n_lower` and `n_upper` of t' are as for `ErrorBound`. The test in [ET] compares a
    prediction error with a threshold κ; definition 2 of [ET] allows other tests, too.

    Parameters
    ----------
    noise_variance, delta_b, n_lower, n_upper
        As for `ErrorBound`.

    Raises
    ------
    ConfigError
        If a parameter is out of range.
    """

    def check(self, reply: TriggerInput) -> TriggerResult:
        """Count a reply; return whether its likelihood ratio, or the count t', shows a stale model.

        t' is the number of replies since the last reset. At t' = `n_upper`, the model is stale
        whatever the ratio is. Below t' = `n_lower`, the model is never stale.
        """
        self.age += 1
        under_prior = _log_density(reply.y, reply.prior_std**2 + self.noise_variance)
        under_model = _log_density(reply.y - reply.mean, reply.std**2 + self.noise_variance)
        stale = self._resets(under_prior - under_model > _log_union(self.age, self.delta_b))
        return TriggerResult(stale, None, self.age)


class BlockBounds(msgspec.Struct, frozen=True):
    """The smallest and largest number of replies between two resets of ET-GP-UCB.

    >>> BlockBounds.from_rates(0.001, 0.1, horizon=400)
    BlockBounds(n_lower=22, n_upper=68)
    """

    n_lower: int
    n_upper: int

    @classmethod
    def from_rates(
        cls, epsilon_lower: float, epsilon_upper: float, *, horizon: int
    ) -> "BlockBounds":
        r"""Return bounds on the number of replies between two resets, from bounds on the rate ε.

        The formula returns `n_lower` for ε = `epsilon_upper`, and `n_upper` for ε =
        `epsilon_lower`:

        .. math:: \lceil \min(T, 12 ε^{-1/4}) \rceil

        Parameters
        ----------
        epsilon_lower, epsilon_upper : float
            Bounds on ε of [B16], 0 <= lower <= upper <= 1.
        horizon : int
            T, number of intervals of the run.

        Raises
        ------
        ConfigError
            Unless 0 <= epsilon_lower <= epsilon_upper <= 1 and T is a whole number, 1 or more.

        References
        ----------
        [ET] corollary 1, with the factor 12 of section 6.
        """
        check_ordered_rates(epsilon_lower, epsilon_upper)
        check_count(horizon=horizon)
        return cls(_block(epsilon_upper, horizon), _block(epsilon_lower, horizon))


def _block(epsilon: float, horizon: int) -> int:
    length = horizon if epsilon == 0 else min(horizon, 12 * epsilon**-0.25)
    return int(-(-length // 1))


def _log_density(error: float, variance: float) -> float:
    return -0.5 * (error * error / variance + log(variance))


def _log_union(age: int, delta_b: float) -> float:
    return log(pi**2 * age * age / (3.0 * delta_b))
