"""What many models believe together: each as far as it foresaw the readings of late.

Dynamic model averaging (Raftery, Kárný & Ettler 2010): a model's weight is the exponential of its
log predictive densities, those of the past discounted, so that a change of regime is followed.
"""

from math import erf, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.daily_profile import DailyProfile
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.state_space import FiniteArmsMixin
from edge_tvbo.models.posteriors.two_component import Momentum
from edge_tvbo.models.snapshot import (
    check_arrays,
    check_covariances,
    copy_arrays,
    seal,
    unseal,
    whole,
)
from edge_tvbo.models.spatial_kernels import matern
from edge_tvbo.models.triggers import ErrorBound, TriggerInput
from edge_tvbo.numerics import model_bank

Array = NDArray[np.float64]
DISCOUNT = 0.98  # of log weights, an interval
JITTER = 1e-6  # of a tried kernel's variance
LEAST = 1e-300  # of a density that is none
LOWEST = -30.0  # of a log weight: how far behind a model can fall


class Member(NamedTuple):
    """One model of the bank."""

    name: str
    daily: bool  # whether it goes by the field's rhythm
    epsilon: float | None = None  # TV's; 0 is the static model with the event trigger
    momentum: tuple[float, float] | None = None  # MTV's ε and α
    kernel: int = 0  # the field's; 1, 2, ... are its rhythm's, or those of the length scales tried


RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
MOMENTA = ((0.97, 0.5), (0.95, 0.9), (0.9, 0.8))


SHARES = (1.0, 0.5, 0.25, 0.125)  # of the longest side: length scales that are tried
NU = 2.5  # smoothness of the kernels that are tried


def length_scales(field: SensorField) -> tuple[float, ...]:
    """Give length scales to try, from the sensors' positions; raises `ConfigError` without any."""
    if field.positions is None:
        raise ConfigError(
            "A length scale can be learned where there are positions; this field has none."
        )
    side = float(np.ptp(field.positions, axis=0).max()) or 1.0
    return tuple(share * side for share in SHARES)


def balanced(scales: tuple[float, ...]) -> tuple[Member, ...]:
    """Give models for a field whose length scale is unknown: a few for each of `scales`."""
    static = tuple(
        Member(f"static, event-triggered, l = {scale:.3g}", False, epsilon=0.0, kernel=k)
        for k, scale in enumerate(scales, 1)
    )
    moving = tuple(
        Member(f"tv, ε = {rate:g}, l = {scale:.3g}", False, epsilon=rate, kernel=k)
        for k, scale in enumerate(scales, 1)
        for rate in RATES[3:5]
    )
    drawn = tuple(
        Member(f"mtv, ε = {e:g}, α = {a:g}, l = {scale:.3g}", False, momentum=(e, a), kernel=k)
        for k, scale in enumerate(scales, 1)
        for e, a in MOMENTA[:2]
    )
    return (*static, *moving, *drawn)


def members(field: SensorField) -> tuple[Member, ...]:
    """Give the models for a field, those of one component first.

    Without a rhythm, momentum earns nothing: what moves on for long in real rooms is the course of
    the day. With one, most models go by it, and a few do without, for days unlike the others.
    """
    static = Member("static, event-triggered", False, epsilon=0.0)
    if field.rhythm is None:
        return (static, *(Member(f"tv, ε = {rate:g}", False, epsilon=rate) for rate in RATES))
    daily = tuple(
        Member(f"daily tv, ε = {rate:g}", True, epsilon=rate, kernel=1) for rate in RATES[2:5]
    )
    moved = tuple(
        Member(f"daily mtv, ε = {e:g}, α = {a:g}", True, momentum=(e, a), kernel=1)
        for e, a in MOMENTA
    )
    plain = (
        Member("tv, ε = 0.03", False, epsilon=0.03),
        Member("mtv, ε = 0.97, α = 0.5", False, momentum=(0.97, 0.5)),
    )
    return (static, *daily, plain[0], *moved, plain[1])


class MixturePosterior(FiniteArmsMixin):
    """The mixture of a bank of state-space models; a `Posterior` of fixed size.

    Its cost is the sum of theirs: O(M²) each, an interval, for ever.

    Parameters
    ----------
    field : SensorField
        M arms; with a rhythm, most of the models go by it.
    delta_b : float
        Of the event trigger that the static model has.
    scales : tuple of float
        Length scales to choose from, in the positions' unit; none where the kernel is known.
    """

    weights: Array  # of the members, (B,), which add up to 1

    def __init__(
        self, field: SensorField, *, delta_b: float = 0.1, scales: tuple[float, ...] = ()
    ) -> None:
        self._field = field
        self.members = balanced(scales) if scales else members(field)
        self._split = sum(each.momentum is None for each in self.members)
        self._daily = np.array([each.daily for each in self.members])
        self._which = np.array([each.kernel for each in self.members])
        rhythm = None if scales else field.rhythm
        self._K = _kernels(field, rhythm, scales)
        rates = [each.epsilon for each in self.members if each.epsilon is not None]
        self._inject = np.array(rates)
        self._retain = 1.0 - self._inject
        moments = [Momentum(*each.momentum) for each in self.members if each.momentum]
        self._A = np.array([each.transition for each in moments]).reshape(-1, 2, 2)
        self._Q = np.array([each.innovation for each in moments]).reshape(-1, 2, 2)
        self._P = np.array([each.prior for each in moments]).reshape(-1, 2, 2)
        self._noise = field.noise_variance if rhythm is None else rhythm.noise_variance
        self._trigger = ErrorBound(self._noise, delta_b)
        self._phase = 0
        self._level = np.zeros(len(field)) if rhythm is None else rhythm.mean.mean(axis=0)
        self._course = np.zeros((1, len(field))) if rhythm is None else rhythm.mean.copy()
        self._rate = 0.0 if rhythm is None else 1.0 / (rhythm.days + 1.0)
        self._scales = np.ones(1) if rhythm is None else rhythm.scale
        self._shares = np.array([_share(each) for each in self.members])
        self.log_weights = np.zeros(len(self.members))
        self.mean = np.zeros(len(field))
        self.variance = np.zeros(len(field))
        self.resets = 0  # of the static model
        self.log_density = 0.0  # ln p of the last reading, before it was taken in
        self._begin()

    @property
    def rate(self) -> float:
        """Give the share of the field that is new each interval, as the weights have it.

        A share is ε of [B16], which is 1 - d(1)² for any temporal kernel d.
        """
        return float(self.weights @ self._shares)

    def quantile(self, arm: int, share: float) -> float:
        """Give what a reading of `arm` now stays below with probability `share`, model units."""
        shift, scale = self._shifts(arm), self._scaling()
        means = shift + scale * np.concatenate((self._m[:, arm], self._m2[:, arm]))
        own = np.concatenate((self._C[:, arm, arm], self._C2[:, arm, arm]))
        spreads = np.sqrt(scale * scale * np.maximum(own, 0.0) + self._noise)
        low, high = float(np.min(means - 9.0 * spreads)), float(np.max(means + 9.0 * spreads))
        weights = self.weights.tolist()
        while high - low > 1e-9 * (abs(low) + abs(high) + 1e-300):
            middle = (low + high) / 2.0
            heights = ((middle - means) / spreads / sqrt(2.0)).tolist()
            below = sum(w * (1.0 + erf(z)) / 2.0 for w, z in zip(weights, heights, strict=True))
            low, high = (middle, high) if below < share else (low, middle)
        return high

    def set_time(self, at: float) -> None:
        """Say when the current interval begins, s since 1970, UTC."""
        if self._field.rhythm is None or not self._rate:
            return
        phase = self._field.rhythm.phase(at)
        if phase != self._phase:
            self._phase = phase
            self._mix()

    def prior_std(self, arm: int) -> float:
        """Give the standard deviation of `arm`, were nothing known of it."""
        return sqrt(self._field.kernel[arm, arm])

    def observe(self, arm: int, y: float) -> None:
        """Take in a reading of `arm`, in model units, at the current interval."""
        self._judge(arm, y)
        shift, scales = self._shifts(arm), self._scaling()
        density = np.empty(len(self.members))
        n, noise = self._split, self._noise
        model_bank.condition(
            self._m,
            self._C,
            arm,
            y,
            shift[:n],
            scales[:n],
            noise,
            density[:n],
            self._g[: len(self._field)],
        )
        model_bank.condition(
            self._m2, self._C2, arm, y, shift[n:], scales[n:], noise, density[n:], self._g
        )
        top = float(density.max())
        self.log_density = top + log(float(self.weights @ np.exp(density - top)) or LEAST)
        self.log_weights += density
        self.log_weights -= self.log_weights.max()
        np.maximum(self.log_weights, LOWEST, out=self.log_weights)
        self.observations += 1
        self._mix()

    def advance(self) -> None:
        """Move on by one interval, and let the course of the day follow what was believed."""
        self._learn()
        model_bank.evolve(
            self._m, self._C, self._K, self._which[: self._split], self._retain, self._inject
        )
        model_bank.evolve_pairs(
            self._m2, self._C2, self._K, self._which[self._split :], self._A, self._Q
        )
        self.log_weights *= DISCOUNT
        self._phase = (self._phase + 1) % len(self._scales)
        self._mix()

    def reset(self) -> None:
        """Forget every reading, not the time, nor what the days taught."""
        self._begin()

    def snapshot(self) -> bytes:
        """Give the state as bytes; the continuation from them is bit-identical."""
        state = {
            "observations": self.observations,
            "phase": self._phase,
            "age": self._trigger.age,
            "resets": self.resets,
            **self._arrays(),
        }
        return seal(self._kind(), self._field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        state = unseal(self._kind(), self._field.fingerprint(), blob)
        observations, phase = whole(state, "observations"), whole(state, "phase")
        age, resets = whole(state, "age"), whole(state, "resets")
        check_arrays(self._arrays(), state)
        for name in ("covariances", "pair_covariances"):
            check_covariances(name, self._K, state)
        if (state["log_weights"] > 0).any():
            raise SnapshotError("The snapshot's 'log_weights' are none.")
        copy_arrays(self._arrays(), state)
        self.observations, self._phase = observations, phase % len(self._scales)
        self._trigger.age, self.resets = age, resets
        self._mix()

    def _begin(self) -> None:
        M, n = len(self._field), self._split
        self._m = np.zeros((n, M))
        self._C = np.ascontiguousarray(self._K[self._which[:n]])
        self._m2 = np.zeros((len(self.members) - n, 2 * M))
        self._C2 = model_bank.prior_pairs(self._K, self._which[n:], self._P)
        self._g = np.empty(2 * M)
        self.log_weights[:] = 0.0
        self._trigger.clear()
        self.observations = 0
        self._mix()

    def _judge(self, arm: int, y: float) -> None:
        """Let the static model, which is the first, begin anew where it is contradicted."""
        mean = self._level[arm] + self._m[0, arm]
        std = float(self._C[0, arm, arm]) ** 0.5
        if self._trigger.check(TriggerInput(y, mean, std, self.prior_std(arm))).stale:
            self._m[0], self._C[0] = 0.0, self._K[self._which[0]]
            self._trigger.clear()
            self.resets += 1

    def _learn(self) -> None:
        """Move the course of this time of day to what is believed now, as far as it is known."""
        if self._rate == 0.0 or not self.observations:
            return
        scale = self._scales[self._phase]
        row = self._course[self._phase]
        model_bank.follow(row, self.mean, self.variance, self._K[1], scale * scale, self._rate)

    def _shifts(self, arm: int) -> Array:
        shifts: Array = np.where(self._daily, self._course[self._phase, arm], self._level[arm])
        return shifts

    def _scaling(self) -> Array:
        return np.where(self._daily, self._scales[self._phase], 1.0)

    def _mix(self) -> None:
        weights = np.exp(self.log_weights - self.log_weights.max())
        weights /= weights.sum()
        self.weights = weights
        model_bank.mix(
            self._m,
            self._C,
            self._m2,
            self._C2,
            weights,
            self._daily,
            self._level,
            self._course[self._phase],
            self._scales[self._phase],
            self.mean,
            self.variance,
        )

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "means": self._m,
            "covariances": self._C,
            "pair_means": self._m2,
            "pair_covariances": self._C2,
            "log_weights": self.log_weights,
            "course": self._course,
        }

    def _kind(self) -> str:
        return f"mixture {' | '.join(each.name for each in self.members)} {self._trigger.delta_b!r}"


def _kernels(field: SensorField, rhythm: DailyProfile | None, scales: tuple[float, ...]) -> Array:
    if rhythm is not None:
        return np.array([field.kernel, rhythm.kernel])
    variance = float(np.diag(field.kernel).max())
    tried = [matern(field.positions, scale, NU) for scale in scales if field.positions is not None]
    lifted = [variance * (K + JITTER * np.eye(len(field))) for K in tried]
    return np.array([field.kernel, *lifted])


def _share(member: Member) -> float:
    if member.momentum is None:
        return member.epsilon or 0.0
    epsilon, alpha = member.momentum
    return 1.0 - ((epsilon + alpha) / (1.0 + epsilon * alpha)) ** 2  # [M24] eq. 8.9 at lag 1
