"""How much the future would miss a reading, and a posterior that forgets what it misses least.

[W24]  Bardou, Thiran & Ranieri 2024, "This too shall pass: removing stale observations in dynamic
       Bayesian optimization", NeurIPS 37; their code is wdbo-algo and wdbo-criterion on PyPI.
"""

from math import inf, log1p
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.domain import Field
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.reading_buffer import HeldReadings
from edge_tvbo.models.posteriors.regression_posterior import KernelPosterior
from edge_tvbo.models.snapshot import number
from edge_tvbo.models.temporal_models import TimeVaryingKernel
from edge_tvbo.models.transitions import TimeVarying
from edge_tvbo.numerics import window as kernels

Array = NDArray[np.float64]
FEWEST = 2  # readings that no budget removes, as in wdbo-algo


def relevance(P: Array, y: Array, F: Array) -> Array:
    """Give how much what is foreseen would change without each of n readings, (n,), 0 or more.

    Parameters
    ----------
    P : (n, n) array
        Inverse of the readings' covariance, noise included, in 1 / model units².
    y : (n,) array
        Readings, in model units.
    F : (n, m) array
        Prior covariance of the readings with all that is foreseen, in model units².

    Returns
    -------
    (n,) array
        [W24]'s bound of the 2-Wasserstein distance between the posterior and the one without a
        reading, over that between the posterior and the prior: 0 changes nothing.

    Notes
    -----
    The squared distance at a point is (μ - μ')² + (σ - σ')², of which the second is at most
    σ'² - σ². Without reading i the n others foresee it with error r = α_i / P_ii and variance
    v = 1 / P_ii, where α = P y (Rasmussen & Williams eq. 5.12), and what it adds to them at the
    points is g = v (P F)_i. So μ - μ' = g r / v and σ'² - σ² = g² / v, and the sums over points
    are [W24]'s terms with C = F Fᵀ, for all i at once: O(n³ + n²m).
    """
    alpha, p = P @ y, np.diagonal(P)
    gains = P @ F  # (n, m), g / v
    bounds = np.einsum("ij,ij->i", gains, gains) * (alpha**2 / p + 1.0) / p
    whole = float(((alpha @ F) ** 2).sum() + (gains * F).sum())  # μ² + (σ0² - σ²)
    return np.sqrt(bounds / whole) if whole > 0.0 else np.zeros(len(y))


class Prunable(Protocol):
    """A posterior that can say which of its readings it would miss least."""

    observations: int

    def least(self) -> tuple[int, float]:
        """Give the least relevant reading, and its relevance."""
        ...

    def remove(self, index: int) -> None:
        """Forget a reading, 0 being the oldest."""
        ...


class Budget:
    """What the removal of readings may change, all in all: [W24] algorithm 1.

    Parameters
    ----------
    epsilon : float
        Of d = (1-ε)^(|t-t'|/2) = exp(-|t-t'| / l_t) with l_t = -2 / ln(1-ε) intervals, below 1.
    alpha : float
        α, by what share of itself what is foreseen may change in each l_t, 0 or more.

    Notes
    -----
    The budget is 1 at first and grows by (1+α)^(1/l_t) in each interval. While 1 + R of the least
    relevant reading is below it, that reading goes and the budget is divided by 1 + R. What is not
    spent is kept, here as a logarithm.
    """

    def __init__(self, epsilon: float, alpha: float) -> None:
        if not epsilon < 1.0:
            raise ConfigError(f"epsilon is {epsilon}; it must be below 1.")
        if not 0.0 <= alpha < inf:
            raise ConfigError(f"alpha is {alpha}; it must be 0 or more.")
        self._growth = -0.5 * log1p(-epsilon) * log1p(alpha)  # ln (1+α)^(1/l_t)
        self.saved = 0.0  # its logarithm

    def spend(self, posterior: "Prunable") -> None:
        """End an interval: have the least relevant readings removed, as far as that is paid for."""
        self.saved += self._growth
        while posterior.observations > FEWEST:
            index, relevance = posterior.least()
            price = log1p(relevance)
            if not price < self.saved:
                break
            self.saved -= price
            posterior.remove(index)

    @staticmethod
    def saved_in(state: dict[str, Any]) -> float:
        """Give what a snapshot had saved, or raise `SnapshotError`."""
        saved = number(state, "budget")
        if saved < 0.0:
            raise SnapshotError("The snapshot's 'budget' is overdrawn.")
        return saved


class PrunedPosterior(KernelPosterior):
    """A `KernelPosterior` that forgets what the future would miss least, instead of the oldest.

    Parameters
    ----------
    field : SensorField or BoxField
        Arms, spatial prior and noise; in a box the candidates are what is foreseen. For sensors
        alone `PrunedWindowPosterior` is faster by far.
    temporal : TimeVaryingKernel
        How fast the field changes.
    window : int
        W, the most readings held. Where another comes, the least relevant makes room, whatever the
        budget; [W24] holds any number.
    alpha : float
        As for `Budget`.

    Notes
    -----
    What is foreseen are all arms in all intervals to come. As d decays at the same rate from
    whichever reading, each of those intervals sees the next one's F times a constant, so that the
    sum over them is one interval's, but for a factor that R does not have: nothing is truncated.
    Costs O(W³ + W²M) for each reading removed, and as much in each interval.
    """

    def __init__(
        self, field: Field, temporal: TimeVaryingKernel, window: int, *, alpha: float
    ) -> None:
        self._budget = Budget(temporal.epsilon, alpha)
        super().__init__(field, temporal, window)
        self._alpha = alpha

    def advance(self) -> None:
        """Move on by one interval, and forget what the budget allows."""
        super().advance()
        self._budget.spend(self)

    def least(self) -> tuple[int, float]:
        """Give the least relevant reading, and its relevance."""
        known = self._learned()
        F = self._domain.covariance(known.places, self._domain.candidates)
        F = F * self._temporal.matrix(known.times, known.times[-1:])  # the newest: no underflow
        found = relevance(known.regression.precision(), self._y[: self.observations], F)
        return _least(found)

    def reset(self) -> None:
        """Forget every reading and what was saved of the budget, not the time."""
        super().reset()
        self._budget.saved = 0.0

    def _dispensable(self) -> int:
        """Give which of the readings makes room for another: the least relevant."""
        return self.least()[0]

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "budget": self._budget.saved}

    def _resume(self, state: dict[str, Any]) -> None:
        saved = Budget.saved_in(state)
        super()._resume(state)
        self._budget.saved = saved

    def _kind(self) -> str:
        return f"pruned {self._alpha!r} {super()._kind()}"


class PrunedWindowPosterior(HeldReadings):
    """A `PrunedPosterior` of sensors, compiled: O(W³ + W²M) operations an interval.

    Parameters
    ----------
    field : SensorField
        M arms, their prior covariance and noise.
    epsilon, window, alpha
        As for `PrunedPosterior`; `epsilon` is its kernel's.
    """

    def __init__(self, field: SensorField, epsilon: float, window: int, *, alpha: float) -> None:
        self._budget = Budget(epsilon, alpha)
        super().__init__(field, TimeVarying(epsilon), window)
        M = len(field)
        self._alpha = alpha
        self._L, self._V, self._z = (
            np.empty((window, window)),
            np.empty((window, M)),
            np.empty(window),
        )
        self._priors = np.ones(window)  # the scale of the prior stays 1
        self._gains, self._column = np.empty((window, M)), np.empty(window)
        self._found = np.empty(window)

    def advance(self) -> None:
        """Move on by one interval, and forget what the budget allows."""
        super().advance()
        self._budget.spend(self)

    def least(self) -> tuple[int, float]:
        """Give the least relevant reading, and its relevance."""
        n = self.observations
        kernels.relevance(
            self._L, self._V, self._z, n, self.mean, self._gains, self._column, self._found
        )
        return _least(self._found[:n])

    def reset(self) -> None:
        """Forget every reading and what was saved of the budget, not the time."""
        super().reset()
        self._budget.saved = 0.0

    def _dispensable(self) -> int:
        """Give which of the readings makes room for another: the least relevant."""
        return self.least()[0]

    def _predict(self) -> None:
        L, V, z, n = self._L, self._V, self._z, self.observations
        kernels.refactor(
            L,
            V,
            z,
            n,
            self._kernel,
            self._arms,
            self._y,
            self._times,
            self._priors,
            self._time,
            self._retain,
            self._noise_variance,
        )
        kernels.predict(V, z, n, self._kernel, self.prior, self.mean, self.variance)

    def _counts(self) -> dict[str, Any]:
        return {**super()._counts(), "budget": self._budget.saved}

    def _check(self, state: dict[str, NDArray[Any]], prior: float) -> None:
        Budget.saved_in(state)
        super()._check(state, prior)

    def _resume(self, state: dict[str, Any]) -> None:
        self._budget.saved = Budget.saved_in(state)
        super()._resume(state)

    def _kind(self) -> str:
        return f"pruned {len(self._y)} {self._retain!r} {self._alpha!r}"


def _least(relevances: Array) -> tuple[int, float]:
    index = int(relevances.argmin())
    return index, float(relevances[index])
