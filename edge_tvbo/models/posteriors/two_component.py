"""Fields made up of two hidden components: one with momentum, one that turns into another.

Both are exact linear-Gaussian state spaces of twice the field's size ([M24] chapters 8 and 9), so
their posterior costs the same for ever, like `StateSpacePosterior`'s.
"""

from math import exp, sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.state_space import FiniteArmsMixin
from edge_tvbo.models.snapshot import (
    check_arrays,
    check_covariances,
    copy_arrays,
    seal,
    unseal,
    whole,
)
from edge_tvbo.numerics import two_component

Array = NDArray[np.float64]


class Dynamics(Protocol):
    """How two components move, and how they make up the field."""

    name: str  # with the parameters: what a snapshot must agree with
    prior: Array  # (2, 2) covariance of the components
    transition: Array  # (2, 2) what an interval makes of them
    innovation: Array  # (2, 2) covariance of what is new each interval

    def weights(self, time: int) -> tuple[float, float]:
        """Give each component's share in the field at interval `time` = 0, 1, ..."""
        ...


class Momentum:
    """MTV: a change goes on changing the field for a while ([M24] eq. 8.1).

    f_{t+1} = ε f_t + √λ u_{t+1} with the momentum u_{t+1} = α u_t + g_{t+1}; the components are
    f and u. λ of lemma 8.1, written without its division by (ε - α)², so that α = ε is no limit:
    λ = (1-ε²)(1-α²)(1-αε) / (1+αε).

    Parameters
    ----------
    epsilon : float
        How much of the field is left after an interval, 0 to below 1. Not [B16]'s ε, which is
        what is *new*: without momentum, `epsilon` = √(1-ε).
    alpha : float
        How much of the momentum is left, 0 to `epsilon`.
    """

    def __init__(self, epsilon: float, alpha: float) -> None:
        if not 0.0 <= alpha <= epsilon < 1.0:
            raise ConfigError(
                f"epsilon is {epsilon}, alpha {alpha}; they must be 0 <= alpha <= epsilon < 1."
            )
        rate = (1 - epsilon**2) * (1 - alpha**2) * (1 - alpha * epsilon) / (1 + alpha * epsilon)
        root = sqrt(rate)
        shared = root / ((1 - alpha**2) * (1 - alpha * epsilon))
        self.name = f"mtv {epsilon!r} {alpha!r}"
        self.prior = np.array([[1.0, shared], [shared, 1 / (1 - alpha**2)]])
        self.transition = np.array([[epsilon, root * alpha], [0.0, alpha]])
        self.innovation = np.array([[rate, root], [root, 1.0]])

    def weights(self, time: int) -> tuple[float, float]:
        """Give 1 and 0: the first component is the field."""
        return 1.0, 0.0


class Sigmoid:
    """TTV: one field turns into another ([M24] eq. 9.1), f_t = (1 - s(t)) h_1 + s(t) h_2.

    s(t) = 1 / (1 + exp((τ - t) / ρ)) with t = 0 for the first interval.

    Parameters
    ----------
    tau : float
        The interval in the middle of the transition.
    rho : float
        How long it takes, in intervals: from 12 % to 88 % in 4 ρ. Above 0.
    """

    def __init__(self, tau: float, rho: float) -> None:
        if not (rho > 0 and abs(tau) < float("inf") and rho < float("inf")):
            raise ConfigError(f"tau is {tau}, rho {rho}; rho must be above 0.")
        self.name = f"ttv {tau!r} {rho!r}"
        self.prior = np.eye(2)
        self.transition = np.eye(2)
        self.innovation = np.zeros((2, 2))
        self._tau = tau
        self._rho = rho

    def weights(self, time: int) -> tuple[float, float]:
        """Give 1 - s and s."""
        s = 1.0 / (1.0 + exp(min((self._tau - time) / self._rho, 700.0)))
        return 1.0 - s, s


class TwoComponentPosterior(FiniteArmsMixin):
    """The exact posterior of a field of two components; a `Posterior`.

    Parameters
    ----------
    field : SensorField
        M arms, the prior covariance of each component, and the noise of a reading.
    dynamics : Dynamics
        `Momentum(epsilon, alpha)` or `Sigmoid(tau, rho)`.
    """

    def __init__(self, field: SensorField, dynamics: Dynamics) -> None:
        M = len(field)
        self._field = field
        self._dynamics = dynamics
        self._prior = dynamics.prior.tolist()
        self._time = 0
        self._m = np.zeros(2 * M)
        self._C = np.zeros((2 * M, 2 * M))
        self._workspace = np.empty(2 * M)
        self.mean = np.zeros(M)
        self.variance = np.zeros(M)
        self.observations = 0
        self.reset()

    def prior_std(self, arm: int) -> float:
        """Give the standard deviation of `arm` now, were nothing known of it."""
        w0, w1 = self._dynamics.weights(self._time)
        (p00, p01), (_, p11) = self._prior
        scale = w0 * w0 * p00 + 2.0 * w0 * w1 * p01 + w1 * w1 * p11
        return sqrt(scale * float(self._field.kernel[arm, arm]))

    def observe(self, arm: int, y: float) -> None:
        """Take in a reading of `arm`, in model units, at the current interval."""
        w0, w1 = self._dynamics.weights(self._time)
        noise = self._field.noise_variance
        two_component.condition(self._m, self._C, w0, w1, arm, y, noise, self._workspace)
        self.observations += 1
        self._predict()

    def advance(self) -> None:
        """Move on by one interval."""
        dynamics = self._dynamics
        self._time += 1
        two_component.evolve(
            self._m, self._C, self._field.kernel, dynamics.transition, dynamics.innovation
        )
        self._predict()

    def reset(self) -> None:
        """Forget every reading, not the time: the prior of the current interval is left."""
        two_component.forget(self._m, self._C, self._field.kernel, self._dynamics.prior)
        self.observations = 0
        self._predict()

    def snapshot(self) -> bytes:
        """Give the state as bytes; the continuation from them is bit-identical."""
        state = {"time": self._time, "observations": self.observations, **self._arrays()}
        return seal(self._dynamics.name, self._field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        state = unseal(self._dynamics.name, self._field.fingerprint(), blob)
        time, observations = whole(state, "time"), whole(state, "observations")
        check_arrays(self._arrays(), state)
        check_covariances("covariance", self._field.kernel, state)
        copy_arrays(self._arrays(), state)
        self._time, self.observations = time, observations
        self._predict()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"mean": self._m, "covariance": self._C}

    def _predict(self) -> None:
        w0, w1 = self._dynamics.weights(self._time)
        two_component.predict(self._m, self._C, w0, w1, self.mean, self.variance)
