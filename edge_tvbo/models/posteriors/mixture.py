"""Mixture posterior: a bank of models, each weighted by how well it predicted recent readings.

This is dynamic model averaging (Raftery, Kárný & Ettler 2010). The weight of a model is
proportional to the exponential of the sum of its log predictive densities. Older densities are
discounted, so that the weights adapt when the field begins to change in another way.
"""

from math import erf, log, sqrt
from typing import NamedTuple

import numpy as np

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.daily_profile import DailyProfile
from edge_tvbo.models.facts import Fact, LikeliestModel, RateOfChange
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.base import FiniteArmsMixin
from edge_tvbo.models.snapshot import (
    AnyArray,
    check_arrays,
    check_covariances,
    copy_arrays,
    decode_snapshot,
    encode_snapshot,
    read_count,
)
from edge_tvbo.models.spatial_kernels import matern
from edge_tvbo.models.temporal_models import Momentum
from edge_tvbo.models.triggers import ErrorBound, TriggerInput
from edge_tvbo.numerics import model_bank
from edge_tvbo.numerics.types import Array

DISCOUNT = 0.98  # factor on the log weights in each interval
JITTER = 1e-6  # variance added to the diagonal of a candidate kernel, as a share of its variance
MIN_DENSITY = 1e-300  # replaces a predictive density of 0
MIN_LOG_WEIGHT = -30.0  # relative to the best model; lower weights could not recover


class Member(NamedTuple):
    """One model of the mixture's bank."""

    snapshot_name: str
    daily: bool  # whether it uses the field's daily profile
    epsilon: float | None = None  # ε of TV; 0 is the static model with the event trigger
    momentum: tuple[float, float] | None = None  # ε and α of MTV
    kernel: int = 0  # 0: the field's kernel; 1, 2, ...: of its daily profile or a length scale
    length_scale: float | None = None  # length scale of that kernel if several are tried


RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)  # ε of the TV models
MOMENTA = ((0.97, 0.5), (0.95, 0.9), (0.9, 0.8))  # ε and α of the MTV models
LENGTH_SCALE_SHARES = (1.0, 0.5, 0.25, 0.125)  # candidates, as shares of the field's longest side
NU = 2.5  # smoothness of the candidate kernels


def candidate_length_scales(field: SensorField) -> tuple[float, ...]:
    """Return the candidate length scales of a field, in the unit of its positions.

    Raises `ConfigError` if the field has no positions.
    """
    if field.positions is None:
        raise ConfigError(
            "Learning a length scale needs sensor positions; this field has no positions."
        )
    side = float(np.ptp(field.positions, axis=0).max()) or 1.0
    return tuple(share * side for share in LENGTH_SCALE_SHARES)


def length_scale_members(scales: tuple[float, ...]) -> tuple[Member, ...]:
    """Return the bank of models for a field of unknown length scale: five for each of `scales`.

    One-component models come first.
    """
    numbered = list(enumerate(scales, 1))
    static = tuple(
        Member(f"static, event-triggered, l = {scale:.3g}", False, 0.0, None, k, scale)
        for k, scale in numbered
    )
    moving = tuple(
        Member(f"tv, ε = {rate:g}, l = {scale:.3g}", False, rate, None, k, scale)
        for k, scale in numbered
        for rate in RATES[3:5]
    )
    with_momentum = tuple(
        Member(f"mtv, ε = {e:g}, α = {a:g}, l = {scale:.3g}", False, None, (e, a), k, scale)
        for k, scale in numbered
        for e, a in MOMENTA[:2]
    )
    return (*static, *moving, *with_momentum)


def default_members(field: SensorField) -> tuple[Member, ...]:
    """Return the bank of models for a field whose kernel is known, one-component models first.

    Without a daily profile, the bank has no models with momentum, because such models do not
    improve the predictions: the slow trend in real rooms is the daily profile. With a daily
    profile, most models use this profile, and a few models for unusual days do not.
    """
    static = Member("static, event-triggered", False, epsilon=0.0)
    if field.daily_profile is None:
        return (static, *(Member(f"tv, ε = {rate:g}", False, epsilon=rate) for rate in RATES))
    daily = tuple(
        Member(f"daily tv, ε = {rate:g}", True, epsilon=rate, kernel=1) for rate in RATES[2:5]
    )
    daily_momentum = tuple(
        Member(f"daily mtv, ε = {e:g}, α = {a:g}", True, momentum=(e, a), kernel=1)
        for e, a in MOMENTA
    )
    plain = (
        Member("tv, ε = 0.03", False, epsilon=0.03),
        Member("mtv, ε = 0.97, α = 0.5", False, momentum=(0.97, 0.5)),
    )
    return (static, *daily, plain[0], *daily_momentum, plain[1])


class MixturePosterior(FiniteArmsMixin):
    """A `Posterior` of fixed size: the weighted mixture of a bank of state-space models.

    Parameters
    ----------
    field : SensorField
        Field of M arms; if the field has a daily profile, most of the models use this profile.
    delta_b : float
        δ_B of the event trigger that resets the static model, as for `ErrorBound`.
    scales : tuple of float
        Candidate length scales, in the unit of the positions; empty if the kernel is known.

    Notes
    -----
    Each model costs O(M²) per interval, however long the history is.
    """

    weights: Array  # weights of the models, (B,), which add up to 1

    def __init__(
        self, field: SensorField, *, delta_b: float = 0.1, scales: tuple[float, ...] = ()
    ) -> None:
        self._field = field
        self.members = length_scale_members(scales) if scales else default_members(field)
        self._split = sum(each.momentum is None for each in self.members)
        self._daily = np.array([each.daily for each in self.members])
        self._which = np.array([each.kernel for each in self.members])
        self._new_share = np.array([_new_share(each) for each in self.members])
        profile = None if scales else field.daily_profile
        self._K = _candidate_kernels(field, profile, scales)
        self._set_transitions()
        self._set_daily_profile(profile)
        self._trigger = ErrorBound(self._noise, delta_b)
        self.log_weights = np.zeros(len(self.members))
        self.mean = np.zeros(len(field))
        self.variance = np.zeros(len(field))
        self.resets = 0  # number of resets of the static model
        self.log_density = 0.0  # ln p(y) of the last reading y before the update with it
        self._reset_models()

    def _set_transitions(self) -> None:
        rates = [each.epsilon for each in self.members if each.epsilon is not None]
        self._inject = np.array(rates)
        self._retain = 1.0 - self._inject
        moments = [Momentum(*each.momentum).transition() for each in self.members if each.momentum]
        self._A = np.array([each.matrix for each in moments]).reshape(-1, 2, 2)
        self._Q = np.array([each.innovation for each in moments]).reshape(-1, 2, 2)
        self._P = np.array([each.prior for each in moments]).reshape(-1, 2, 2)

    def _set_daily_profile(self, profile: DailyProfile | None) -> None:
        M = len(self._field)
        self._phase = 0
        self._noise = self._field.noise_variance if profile is None else profile.noise_variance
        self._overall_mean = np.zeros(M) if profile is None else profile.mean.mean(axis=0)
        self._daily_mean = np.zeros((1, M)) if profile is None else profile.mean.copy()
        self._rate = 0.0 if profile is None else 1.0 / (profile.days + 1.0)
        self._scales = np.ones(1) if profile is None else profile.scale

    @property
    def rate(self) -> float:
        """The estimated share of the field's variance that is new each interval, ε of [B16].

        This share is the mean of 1 - d(1)² over the temporal kernels d of all models, weighted by
        the weights of the models.
        """
        return float(self.weights @ self._new_share)

    def facts(self) -> tuple[Fact, ...]:
        """Return two facts of the mixture: its likeliest model and the estimated rate of change."""
        best = int(self.weights.argmax())
        model = self.members[best]
        likeliest = LikeliestModel(
            float(self.weights[best]),
            model.daily,
            model.epsilon,
            model.momentum,
            model.length_scale,
        )
        return (likeliest, RateOfChange(self.rate))

    def quantile(self, arm: int, share: float) -> float:
        """Return the value below which a reading of `arm` lies with the probability `share`."""
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
        """Set the mixture's time of day to the Unix time `at`, when the current interval began."""
        if self._field.daily_profile is None or not self._rate:
            return
        phase = self._field.daily_profile.phase(at)
        if phase != self._phase:
            self._phase = phase
            self._mix()

    def prior_std(self, arm: int) -> float:
        """Return the prior standard deviation of `arm` under the field's kernel."""
        return sqrt(self._field.kernel[arm, arm])

    def observe(self, arm: int, y: float) -> None:
        """Update all models of the mixture and their weights with a reading of `arm`."""
        self._check_static_model(arm, y)
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
        self.log_density = top + log(float(self.weights @ np.exp(density - top)) or MIN_DENSITY)
        self.log_weights += density
        self.log_weights -= self.log_weights.max()
        np.maximum(self.log_weights, MIN_LOG_WEIGHT, out=self.log_weights)
        self.observations += 1
        self._mix()

    def advance(self) -> None:
        """Update the daily mean, and advance all models of the mixture by one interval."""
        self._update_daily_mean()
        model_bank.evolve_one_component(
            self._m, self._C, self._K, self._which[: self._split], self._retain, self._inject
        )
        model_bank.evolve_two_component(
            self._m2, self._C2, self._K, self._which[self._split :], self._A, self._Q
        )
        self.log_weights *= DISCOUNT
        self._phase = (self._phase + 1) % len(self._scales)
        self._mix()

    def reset(self) -> None:
        """Reset all models of the mixture to the prior; keep the time of day and the daily mean."""
        self._reset_models()

    def snapshot(self) -> bytes:
        """Return the state of the mixture posterior as bytes, for `restore`."""
        state = {
            "observations": self.observations,
            "phase": self._phase,
            "age": self._trigger.age,
            "resets": self.resets,
            **self._arrays(),
        }
        return encode_snapshot(self._kind(), self._field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Load the state of a mixture posterior, or raise `SnapshotError` and change nothing."""
        state = decode_snapshot(self._kind(), self._field.fingerprint(), blob)
        observations, phase = read_count(state, "observations"), read_count(state, "phase")
        age, resets = read_count(state, "age"), read_count(state, "resets")
        check_arrays(self._arrays(), state)
        for name in ("covariances", "pair_covariances"):
            check_covariances(name, self._K, state)
        if (state["log_weights"] > 0).any():
            raise SnapshotError("The snapshot's 'log_weights' holds a positive number.")
        copy_arrays(self._arrays(), state)
        self.observations, self._phase = observations, phase % len(self._scales)
        self._trigger.age, self.resets = age, resets
        self._mix()

    def _reset_models(self) -> None:
        M, n = len(self._field), self._split
        self._m = np.zeros((n, M))
        self._C = np.ascontiguousarray(self._K[self._which[:n]])
        self._m2 = np.zeros((len(self.members) - n, 2 * M))
        self._C2 = model_bank.prior_covariances(self._K, self._which[n:], self._P)
        self._g = np.empty(2 * M)
        self.log_weights[:] = 0.0
        self._trigger.clear()
        self.observations = 0
        self._mix()

    def _check_static_model(self, arm: int, y: float) -> None:
        """Reset the static model, the first of the bank, if a reading contradicts the model."""
        mean = self._overall_mean[arm] + self._m[0, arm]
        std = float(self._C[0, arm, arm]) ** 0.5
        if self._trigger.check(TriggerInput(y, mean, std, self.prior_std(arm))).stale:
            self._m[0], self._C[0] = 0.0, self._K[self._which[0]]
            self._trigger.clear()
            self.resets += 1

    def _update_daily_mean(self) -> None:
        """Move the daily mean at the current time of day towards the mixture's posterior mean."""
        if self._rate == 0.0 or not self.observations:
            return
        scale = self._scales[self._phase]
        row = self._daily_mean[self._phase]
        model_bank.update_daily_mean(
            row, self.mean, self.variance, self._K[1], scale * scale, self._rate
        )

    def _shifts(self, arm: int) -> Array:
        daily_mean = self._daily_mean[self._phase, arm]
        shifts: Array = np.where(self._daily, daily_mean, self._overall_mean[arm])
        return shifts

    def _scaling(self) -> Array:
        return np.where(self._daily, self._scales[self._phase], 1.0)

    def _mix(self) -> None:
        weights = np.exp(self.log_weights - self.log_weights.max())
        weights /= weights.sum()
        self.weights = weights
        model_bank.mixture_moments(
            self._m,
            self._C,
            self._m2,
            self._C2,
            weights,
            self._daily,
            self._overall_mean,
            self._daily_mean[self._phase],
            self._scales[self._phase],
            self.mean,
            self.variance,
        )

    def _arrays(self) -> dict[str, AnyArray]:
        return {
            "means": self._m,
            "covariances": self._C,
            "pair_means": self._m2,
            "pair_covariances": self._C2,
            "log_weights": self.log_weights,
            "course": self._daily_mean,
        }

    def _kind(self) -> str:
        names = " | ".join(each.snapshot_name for each in self.members)
        return f"mixture {names} {self._trigger.delta_b!r}"


def _candidate_kernels(
    field: SensorField, profile: DailyProfile | None, scales: tuple[float, ...]
) -> Array:
    """Return the kernels of the bank, of shape (k, M, M); `Member.kernel` is an index into them."""
    if profile is not None:
        return np.array([field.kernel, profile.kernel])
    variance = float(np.diag(field.kernel).max())
    tried = [matern(field.positions, scale, NU) for scale in scales if field.positions is not None]
    lifted = [variance * (K + JITTER * np.eye(len(field))) for K in tried]
    return np.array([field.kernel, *lifted])


def _new_share(member: Member) -> float:
    """Return the share of the field's variance that is new each interval in a model."""
    if member.momentum is None:
        return member.epsilon or 0.0
    epsilon, alpha = member.momentum
    return 1.0 - ((epsilon + alpha) / (1.0 + epsilon * alpha)) ** 2  # [M24] eq. 8.9 at lag 1
