"""Pruned posteriors: remove the readings that have the least influence on the predictions.

The relevance of a reading is the criterion of [W24]: Bardou, Thiran & Ranieri 2024, "This too shall
pass: removing stale observations in dynamic Bayesian optimization", NeurIPS 37; its authors' code
is wdbo-algo and wdbo-criterion on PyPI.
"""

from math import log1p
from typing import Protocol

import numpy as np

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.checks import check_not_negative
from edge_tvbo.models.domain import Field
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.reading_buffer import BufferedPosterior
from edge_tvbo.models.posteriors.regression_posterior import RegressionPosterior
from edge_tvbo.models.snapshot import State, read_number
from edge_tvbo.models.temporal_models import TimeVarying
from edge_tvbo.numerics import window as kernels
from edge_tvbo.numerics.types import Array

MIN_READINGS = 2  # that are never removed, as in wdbo-algo


def relevance(P: Array, y: Array, F: Array) -> Array:
    """Return how much the predictions would change without each of n readings.

    Parameters
    ----------
    P : (n, n) array
        Inverse of the covariance of the readings, noise included, in 1 / model units².
    y : (n,) array
        Readings, in model units.
    F : (n, m) array
        Prior covariance of the readings with the m predicted values, in model units².

    Returns
    -------
    (n,) array
        Relevance of each reading, >= 0: the bound of [W24] on the 2-Wasserstein distance between
        the posterior and the posterior without the reading, divided by the distance between
        posterior and prior. A reading of relevance 0 changes nothing.

    Notes
    -----
    The squared distance at a point is (μ - μ')² + (σ - σ')², and the second term is at most
    σ'² - σ². The n other readings predict reading i with error r = α_i / P_ii and variance
    v = 1 / P_ii, where α = P y (Rasmussen & Williams eq. 5.12), and its weight at the points is
    g = v (P F)_i. So μ - μ' = g r / v and σ'² - σ² = g² / v, and the sums over points are the terms
    of [W24] with C = F Fᵀ, for all i at once: O(n³ + n²m).
    """
    alpha, p = P @ y, np.diagonal(P)
    gains = P @ F  # (n, m), g / v
    bounds = np.einsum("ij,ij->i", gains, gains) * (alpha**2 / p + 1.0) / p
    whole = float(((alpha @ F) ** 2).sum() + (gains * F).sum())  # μ² + (σ0² - σ²)
    return np.sqrt(bounds / whole) if whole > 0.0 else np.zeros(len(y))


class Prunable(Protocol):
    """A posterior that can remove its least relevant reading."""

    observations: int

    def least_relevant(self) -> tuple[int, float]:
        """Return the index of the least relevant reading, and its relevance."""
        ...

    def remove(self, index: int) -> None:
        """Drop one reading, 0 being the oldest."""
        ...


class RemovalBudget:
    """A budget for the change of the predictions that removing readings may cause.

    Parameters
    ----------
    epsilon : float
        ε of the kernel d = (1-ε)^(|t-t'|/2) = exp(-|t-t'| / l_t) with l_t = -2 / ln(1-ε) intervals,
        below 1.
    alpha : float
        α, relative change of the predictions that is allowed in each l_t, 0 or more.

    Raises
    ------
    ConfigError
        If `epsilon` or `alpha` is out of range.

    Notes
    -----
    [W24] algorithm 1. The budget is 1 at first and is multiplied by (1+α)^(1/l_t) each interval.
    While 1 + R of the least relevant reading is below the budget, the reading is removed and the
    budget is divided by 1 + R. The remaining budget is kept, as its logarithm.
    """

    def __init__(self, epsilon: float, alpha: float) -> None:
        if not epsilon < 1.0:
            raise ConfigError(f"epsilon is {epsilon}; it must be below 1.")
        check_not_negative(alpha=alpha)
        self._growth = -0.5 * log1p(-epsilon) * log1p(alpha)  # ln (1+α)^(1/l_t)
        self.log_budget = 0.0

    def spend(self, posterior: "Prunable") -> None:
        """Grow the budget by one interval, and remove the readings of `posterior` it pays for."""
        self.log_budget += self._growth
        while posterior.observations > MIN_READINGS:
            index, relevance = posterior.least_relevant()
            price = log1p(relevance)
            if not price < self.log_budget:
                break
            self.log_budget -= price
            posterior.remove(index)


def _read_budget(state: State) -> float:
    """Return the logarithm of the budget in a state, or raise `SnapshotError`."""
    log_budget = read_number(state, "budget")
    if log_budget < 0.0:
        raise SnapshotError("The snapshot's 'budget' is negative.")
    return log_budget


class PrunedPosterior(RegressionPosterior):
    """A `RegressionPosterior` that drops the least relevant readings instead of the oldest.

    Parameters
    ----------
    field : SensorField or BoxField
        Arms, spatial prior and noise variance; in a box, the candidates are predicted. For sensors
        `PrunedWindowPosterior` is much faster.
    temporal : TimeVarying
        How fast the field changes.
    window : int
        W, largest number of readings held, 1 or more. A full window drops its least relevant
        reading, whatever the budget; [W24] has no such limit.
    alpha : float
        As for `RemovalBudget`.

    Raises
    ------
    ConfigError
        If a parameter is out of range.

    Notes
    -----
    The predicted values are all arms in all future intervals. Because d decays at the same rate
    from every reading, F of each later interval is that of the next one times a constant; the sum
    over intervals differs from one interval by a factor that cancels in R, so nothing is truncated.
    O(W³ + W²M) for each removed reading, and as much in each interval.
    """

    def __init__(self, field: Field, temporal: TimeVarying, window: int, *, alpha: float) -> None:
        self._budget = RemovalBudget(temporal.epsilon, alpha)
        super().__init__(field, temporal, window)
        self._alpha = alpha

    def advance(self) -> None:
        """Advance the pruned posterior by one interval, and remove what the budget allows."""
        super().advance()
        self._budget.spend(self)

    def least_relevant(self) -> tuple[int, float]:
        """Return index and relevance of the least relevant reading, by regression."""
        factor = self._current_factor()
        F = self._space.covariance(factor.places, self._space.candidates)
        F = F * self._temporal.kernel(factor.times, factor.times[-1:])  # the newest: no underflow
        found = relevance(factor.regression.precision(), self._y[: self.observations], F)
        return _smallest(found)

    def reset(self) -> None:
        """Reset the pruned posterior to the prior: drop all readings and the saved budget."""
        super().reset()
        self._budget.log_budget = 0.0

    def _dispensable(self) -> int:
        """Return the index of the reading that a full window drops: the least relevant."""
        return self.least_relevant()[0]

    def _state(self) -> State:
        return {**super()._state(), "budget": self._budget.log_budget}

    def _load(self, state: State) -> None:
        log_budget = _read_budget(state)
        super()._load(state)
        self._budget.log_budget = log_budget

    def _kind(self) -> str:
        return f"pruned {self._alpha!r} {super()._kind()}"


class PrunedWindowPosterior(BufferedPosterior):
    """The compiled equivalent of a `PrunedPosterior`, for sensors.

    Parameters
    ----------
    field : SensorField
        M arms, their prior covariance and noise variance.
    temporal, window, alpha
        As for `PrunedPosterior`.

    Notes
    -----
    O(W³ + W²M) an interval.
    """

    def __init__(
        self, field: SensorField, temporal: TimeVarying, window: int, *, alpha: float
    ) -> None:
        self._budget = RemovalBudget(temporal.epsilon, alpha)
        super().__init__(field, temporal.transition(), window)
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
        """Advance the pruned posterior by one interval, and remove what the budget allows."""
        super().advance()
        self._budget.spend(self)

    def least_relevant(self) -> tuple[int, float]:
        """Return index and relevance of the least relevant reading, by compiled kernels."""
        n = self.observations
        kernels.relevance(
            self._L, self._V, self._z, n, self.mean, self._gains, self._column, self._found
        )
        return _smallest(self._found[:n])

    def reset(self) -> None:
        """Reset the pruned posterior to the prior: drop all readings and the saved budget."""
        super().reset()
        self._budget.log_budget = 0.0

    def _dispensable(self) -> int:
        """Return the index of the reading that a full buffer drops: the least relevant."""
        return self.least_relevant()[0]

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

    def _counters(self) -> State:
        return {**super()._counters(), "budget": self._budget.log_budget}

    def _check(self, state: State, prior: float) -> None:
        _read_budget(state)
        super()._check(state, prior)

    def _load(self, state: State) -> None:
        self._budget.log_budget = _read_budget(state)
        super()._load(state)

    def _kind(self) -> str:
        return f"pruned {len(self._y)} {self._retain!r} {self._alpha!r}"


def _smallest(relevances: Array) -> tuple[int, float]:
    index = int(relevances.argmin())
    return index, float(relevances[index])
