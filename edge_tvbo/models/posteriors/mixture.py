"""Mixture posterior: a bank of models, each weighted by how well it predicted recent readings.

This is dynamic model averaging (Raftery, Kárný & Ettler 2010). The weight of a model is
proportional to the exponential of the sum of its log predictive densities. Older densities are
discounted, so that the weights adapt when the field begins to change in another way.
"""

from math import erf, log, sqrt
from typing import NamedTuple

import numpy as np

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.facts import Fact, LikeliestModel, RateOfChange
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.momentum import Momentum
from edge_tvbo.models.posteriors.base import FiniteArmsMixin
from edge_tvbo.models.regression import floored_noise
from edge_tvbo.models.snapshot import (
    AnyArray,
    State,
    check_arrays,
    check_covariances,
    copy_arrays,
    decode_snapshot,
    encode_snapshot,
    read_count,
)
from edge_tvbo.models.spatial_kernels import matern
from edge_tvbo.models.triggers import ErrorBound, TriggerInput
from edge_tvbo.numerics import model_bank
from edge_tvbo.numerics.types import Array

DISCOUNT = 0.98  # factor on the log weights in each interval
JITTER = 1e-6  # variance added to the diagonal of a candidate kernel, as a share of its variance
MIN_DENSITY = 1e-300  # replaces a predictive density of 0
MIN_LOG_WEIGHT = -30.0  # relative to the best model; a model could not recover from a lower weight


class Member(NamedTuple):
    """One of the state-space models that a mixture weights."""

    snapshot_name: str
    epsilon: float | None = None  # ε of TV; 0 is the static model with the event trigger
    momentum: tuple[float, float] | None = None  # ε and α of MTV
    kernel: int = 0  # 0: the field's kernel; 1, 2, ...: the kernel of a length scale
    length_scale: float | None = None  # length scale of `kernel`; None for the field's kernel


RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)  # ε of the TV models
MOMENTA = ((0.97, 0.5), (0.95, 0.9))  # ε and α of the MTV models
LENGTH_SCALE_SHARES = (1.0, 0.5, 0.25, 0.125)  # candidates, as shares of the field's longest side
NU = 2.5  # smoothness of the candidate kernels


def candidate_length_scales(field: SensorField) -> tuple[float, ...]:
    """Return the candidate length scales of a field's mixture, in the unit of its positions.

    Raises `ConfigError` if the field has no positions.
    """
    if field.positions is None:
        raise ConfigError(
            "Learning a length scale needs sensor positions; this field has no positions."
        )
    side = float(np.ptp(field.positions, axis=0).max()) or 1.0
    return tuple(share * side for share in LENGTH_SCALE_SHARES)


def length_scale_members(scales: tuple[float, ...]) -> tuple[Member, ...]:
    """Return the mixture's models, five for each length scale in `scales`.

    The list begins with the one-component models.
    """
    numbered = list(enumerate(scales, 1))
    static = tuple(
        Member(f"static, event-triggered, l = {scale:.3g}", 0.0, None, k, scale)
        for k, scale in numbered
    )
    moving = tuple(
        Member(f"tv, ε = {rate:g}, l = {scale:.3g}", rate, None, k, scale)
        for k, scale in numbered
        for rate in RATES[3:5]
    )
    with_momentum = tuple(
        Member(f"mtv, ε = {e:g}, α = {a:g}, l = {scale:.3g}", None, (e, a), k, scale)
        for k, scale in numbered
        for e, a in MOMENTA
    )
    return (*static, *moving, *with_momentum)


def default_members() -> tuple[Member, ...]:
    """Return the mixture's bank of state-space models for a field whose kernel is known."""
    static = Member("static, event-triggered", epsilon=0.0)
    return (static, *(Member(f"tv, ε = {rate:g}", epsilon=rate) for rate in RATES))


class MixturePosterior(FiniteArmsMixin):
    """A `Posterior` of fixed size: the weighted mixture of several models of how the field changes.

    Parameters
    ----------
    field : SensorField
        Field of M arms.
    delta_b : float
        Probability δ_B of `ErrorBound`, the event trigger that resets each static model.
    scales : tuple of float
        Candidate length scales, in the unit of the positions; empty if the kernel is known.

    Notes
    -----
    Each model of the bank costs O(M²) per interval, however long the history is. The noise variance
    has a lower limit; see `floored_noise`.
    """

    weights: Array  # weights of the models; their sum is 1

    def __init__(
        self, field: SensorField, *, delta_b: float = 0.1, scales: tuple[float, ...] = ()
    ) -> None:
        self._field = field
        self.members = length_scale_members(scales) if scales else default_members()
        self._split = sum(each.momentum is None for each in self.members)
        self._which = np.array([each.kernel for each in self.members])
        self._new_share = np.array([_new_share(each) for each in self.members])
        self._K = _candidate_kernels(field, scales)
        self._noise = floored_noise(field.noise_variance, field.kernel)
        self._set_transitions()
        self._delta_b = delta_b
        self._triggers = {
            k: ErrorBound(self._noise, delta_b)
            for k, each in enumerate(self.members)
            if each.epsilon == 0.0
        }
        self.log_weights = np.zeros(len(self.members))
        self.mean = np.zeros(len(field))
        self.variance = np.zeros(len(field))
        self.resets = 0  # number of resets of static models
        self.log_density = 0.0  # ln p(y) of the last reading y, before the update with y
        self.reset()

    def _set_transitions(self) -> None:
        rates = [each.epsilon for each in self.members if each.epsilon is not None]
        self._inject = np.array(rates)
        self._retain = 1.0 - self._inject
        moments = [Momentum(*each.momentum).transition() for each in self.members if each.momentum]
        self._A = np.array([each.matrix for each in moments]).reshape(-1, 2, 2)
        self._Q = np.array([each.innovation for each in moments]).reshape(-1, 2, 2)
        self._P = np.array([each.prior for each in moments]).reshape(-1, 2, 2)

    @property
    def rate(self) -> float:
        """The mixture's estimate of ε of [B16], the share of variance replaced in each interval.

        In one model, the share is 1 - d², where d is the temporal kernel at lag 1. The estimate is
        the mean of the shares of all models, weighted by the weights of the models.
        """
        return float(self.weights @ self._new_share)

    def facts(self) -> tuple[Fact, ...]:
        """Return two facts of the mixture: its likeliest model and the estimated rate of change."""
        best = int(self.weights.argmax())
        weight, model = float(self.weights[best]), self.members[best]
        likeliest = LikeliestModel(weight, model.epsilon, model.momentum, model.length_scale)
        return (likeliest, RateOfChange(self.rate))

    def quantile(self, arm: int, share: float) -> float:
        """Return a quantile of the mixture for a reading of `arm`.

        A reading of `arm` is below the quantile with the probability `share`.
        """
        means = np.concatenate((self._m[:, arm], self._m2[:, arm]))
        own = np.concatenate((self._C[:, arm, arm], self._C2[:, arm, arm]))
        spreads = np.sqrt(np.maximum(own, 0.0) + self._noise)
        low, high = float(np.min(means - 9.0 * spreads)), float(np.max(means + 9.0 * spreads))
        weights = self.weights.tolist()
        while high - low > 1e-9 * (abs(low) + abs(high) + 1e-300):
            middle = (low + high) / 2.0
            heights = ((middle - means) / spreads / sqrt(2.0)).tolist()
            below = sum(w * (1.0 + erf(z)) / 2.0 for w, z in zip(weights, heights, strict=True))
            low, high = (middle, high) if below < share else (low, middle)
        return high

    @property
    def in_first_half_day(self) -> bool:
        """Return False, because the mixture does not know how many hours have passed."""
        return False

    def restore_sensors(self, blob: bytes) -> list[int]:
        """Load nothing, because the state of the mixture cannot be split by sensor."""
        return []

    def set_time(self, at: float | None) -> None:
        """Do nothing, because the models of the mixture count time in intervals."""

    def pass_time(self, seconds: float) -> None:
        """Do nothing, because the models of the mixture count time in intervals."""

    def prior_std(self, arm: int) -> float:
        """Return the mixture's prior standard deviation of `arm`, under the field's kernel."""
        return sqrt(self._field.kernel[arm, arm])

    def observe(self, arm: int, y: float) -> None:
        """Update all models of the mixture and their weights with a reading of `arm`."""
        self._check_static_models(arm, y)
        density = self._condition(arm, y)
        top = float(density.max())
        self.log_density = top + log(float(self.weights @ np.exp(density - top)) or MIN_DENSITY)
        self.log_weights += density
        self.log_weights -= self.log_weights.max()
        np.maximum(self.log_weights, MIN_LOG_WEIGHT, out=self.log_weights)
        self._mix()

    def hallucinate(self, arm: int, y: float) -> None:
        """Update the models of the mixture as if `arm` had replied y, but keep their weights."""
        self._condition(arm, y)
        self._mix()

    def _condition(self, arm: int, y: float) -> Array:
        """Update all models of the mixture with a reading.

        Return the log density of the reading under each model, before the update.
        """
        density = np.empty(len(self.members))
        n, noise = self._split, self._noise
        model_bank.condition(
            self._m, self._C, arm, y, noise, density[:n], self._g[: len(self._field)]
        )
        model_bank.condition(self._m2, self._C2, arm, y, noise, density[n:], self._g)
        self.observations += 1
        return density

    def advance(self) -> None:
        """Advance all models of the mixture by one interval."""
        self._evolve(self._retain, self._inject, self._A, self._Q, DISCOUNT)

    def skip(self, intervals: int) -> None:
        """Advance all models of the mixture by several intervals without readings, at once.

        The models have stationary priors: the noise of the intervals adds exactly the covariance
        that the intervals remove from the prior.
        """
        retain, A = self._retain**intervals, np.linalg.matrix_power(self._A, intervals)
        Q = self._P - A @ self._P @ A.transpose(0, 2, 1)
        self._evolve(retain, 1.0 - retain, A, Q, DISCOUNT**intervals)

    def _evolve(self, retain: Array, inject: Array, A: Array, Q: Array, discount: float) -> None:
        one, two = self._which[: self._split], self._which[self._split :]
        model_bank.evolve_one_component(self._m, self._C, self._K, one, retain, inject)
        model_bank.evolve_two_component(self._m2, self._C2, self._K, two, A, Q)
        self.log_weights *= discount
        self._mix()

    def reset(self) -> None:
        """Reset all models of the mixture to the prior."""
        M, n = len(self._field), self._split
        self._m = np.zeros((n, M))
        self._C = np.ascontiguousarray(self._K[self._which[:n]])
        self._m2 = np.zeros((len(self.members) - n, 2 * M))
        self._C2 = model_bank.prior_covariances(self._K, self._which[n:], self._P)
        self._g = np.empty(2 * M)
        self.log_weights[:] = 0.0
        for trigger in self._triggers.values():
            trigger.clear()
        self.observations = 0
        self._mix()

    def snapshot(self) -> bytes:
        """Return the state of the mixture posterior as bytes, for `restore`."""
        state = {
            "observations": self.observations,
            "ages": np.array([each.age for each in self._triggers.values()], np.int64),
            "resets": self.resets,
            **self._arrays(),
        }
        return encode_snapshot(self._kind(), self._field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Load the state of a mixture posterior, or raise `SnapshotError` and change nothing."""
        state = decode_snapshot(self._kind(), self._field.fingerprint(), blob)
        observations = read_count(state, "observations")
        ages, resets = self._read_ages(state), read_count(state, "resets")
        check_arrays(self._arrays(), state)
        for name in ("covariances", "pair_covariances"):
            check_covariances(name, self._K, state)
        if (state["log_weights"] > 0).any():
            raise SnapshotError("The snapshot's 'log_weights' holds a positive number.")
        copy_arrays(self._arrays(), state)
        self.observations = observations
        self.resets = resets
        for trigger, age in zip(self._triggers.values(), ages, strict=True):
            trigger.age = age
        self._mix()

    def _read_ages(self, state: State) -> list[int]:
        """Return the ages of the mixture's triggers from `state`, or raise `SnapshotError`.

        A snapshot of version 0.1.0 holds a single age, which is used for all triggers.
        """
        if "ages" not in state:
            return [read_count(state, "age")] * len(self._triggers)
        check_arrays({"ages": np.zeros(len(self._triggers), np.int64)}, state)
        if (state["ages"] < 0).any():
            raise SnapshotError("The snapshot's 'ages' holds a negative number.")
        ages: list[int] = state["ages"].tolist()
        return ages

    def _check_static_models(self, arm: int, y: float) -> None:
        """Check the mixture's static models, and reset each model that a reading contradicts."""
        for k, trigger in self._triggers.items():
            std = float(self._C[k, arm, arm]) ** 0.5
            reply = TriggerInput(y, float(self._m[k, arm]), std, self.prior_std(arm))
            if trigger.check(reply).stale:
                self._m[k], self._C[k] = 0.0, self._K[self._which[k]]
                trigger.clear()
                self.resets += 1

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
        }

    def _kind(self) -> str:
        names = " | ".join(each.snapshot_name for each in self.members)
        return f"mixture {names} {self._delta_b!r}"


def _candidate_kernels(field: SensorField, scales: tuple[float, ...]) -> Array:
    """Return the mixture's kernels, (k, M, M); `Member.kernel` is an index into this array."""
    variance = float(np.diag(field.kernel).max())
    tried = [matern(field.positions, scale, NU) for scale in scales if field.positions is not None]
    lifted = [variance * (K + JITTER * np.eye(len(field))) for K in tried]
    return np.array([field.kernel, *lifted])


def _new_share(member: Member) -> float:
    """Return the share of the variance that a model of the mixture replaces in each interval."""
    if member.momentum is None:
        return member.epsilon or 0.0
    epsilon, alpha = member.momentum
    return 1.0 - ((epsilon + alpha) / (1.0 + epsilon * alpha)) ** 2  # [M24] eq. 8.9 at lag 1
