"""Pruned posteriors: they remove the readings that influence the predictions least.

The relevance of a reading is the criterion of [W24]: Bardou, Thiran & Ranieri 2024, "This too shall
pass: removing stale observations in dynamic Bayesian optimization", NeurIPS 37. The authors publish
their code on PyPI as wdbo-algo and wdbo-criterion.
"""

from math import log1p

import numpy as np

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.arm_space import Field
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.parameter_checks import check_not_negative
from edge_tvbo.models.posteriors.reading_buffer import BufferedPosterior
from edge_tvbo.models.posteriors.regression_posterior import RegressionPosterior
from edge_tvbo.models.snapshot import State, read_number
from edge_tvbo.models.temporal_models import TimeVarying
from edge_tvbo.numerics import window as kernels
from edge_tvbo.numerics.types import Array

MIN_READINGS = 2  # number of readings that are never removed, as in wdbo-algo


def relevance(P: Array, y: Array, F: Array) -> Array:
    """Return the relevance of each reading: how much predictions change if the reading is pruned.

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
        Relevance of each reading, >= 0; a reading of relevance 0 changes no prediction. The
        relevance is a quotient of two distances. The dividend is the bound of [W24] on the
        2-Wasserstein distance between the posteriors with and without the reading. The divisor is
        the distance between posterior and prior.

    Notes
    -----
    Let μ and σ be the posterior mean and standard deviation at a point, and let μ' and σ' be those
    without reading i. The squared distance at the point is (μ - μ')² + (σ - σ')²; its second term
    is at most σ'² - σ².

    Let α = P y. The other readings predict reading i with the error r = α_i / P_ii and the variance
    v = 1 / P_ii (Rasmussen & Williams eq. 5.12). The weights of reading i at the points are
    g = v (P F)_i. So μ - μ' = g r / v and σ'² - σ² = g² / v. The sums of (μ - μ')² and of σ'² - σ²
    over the points are the terms of [W24] with C = F Fᵀ. The terms of all readings are computed
    together, in O(n³ + n²m).
    """
    alpha, p = P @ y, np.diagonal(P)
    gains = P @ F  # (n, m), g / v
    bounds = np.einsum("ij,ij->i", gains, gains) * (alpha**2 / p + 1.0) / p
    whole = float(((alpha @ F) ** 2).sum() + (gains * F).sum())  # μ² + (σ0² - σ²)
    return np.sqrt(bounds / whole) if whole > 0.0 else np.zeros(len(y))


class RemovalBudget:
    """Budget that limits how much the removal of readings changes the predictions.

    Parameters
    ----------
    epsilon : float
        ε of the kernel d = (1-ε)^(|t-t'|/2), below 1. Equivalently, d = exp(-|t-t'| / l_t) with the
        time scale l_t = -2 / ln(1-ε) intervals.
    alpha : float
        α, largest allowed relative change of the predictions per time scale l_t, 0 or more.

    Raises
    ------
    ConfigError
        If `epsilon` or `alpha` is out of range.

    Notes
    -----
    This is [W24] algorithm 1. The budget starts at 1 and is multiplied by (1+α)^(1/l_t) each
    interval. Let R be the relevance of the least relevant reading. While 1 + R is below the budget,
    the reading is removed and the budget is divided by 1 + R. The remaining budget carries over to
    the next interval. The attribute `log_budget` is the logarithm of the budget.

    One rule is not in [W24]: while only `MIN_READINGS` readings are left, the budget is at most
    1+α, the growth in one time scale. Without this rule, the budget would grow without limit while
    no readings arrive. Later, this budget would allow the removal of every new reading for hours.
    """

    def __init__(self, epsilon: float, alpha: float) -> None:
        if not epsilon < 1.0:
            raise ConfigError(f"epsilon is {epsilon}; it must be below 1.")
        check_not_negative(alpha=alpha)
        self.use_rate(epsilon, alpha)
        self.log_budget = 0.0

    def use_rate(self, epsilon: float, alpha: float) -> None:
        """Set ε and α, which determine the growth of the removal budget in each interval."""
        self._max_saved = log1p(alpha)
        self._growth = -0.5 * log1p(-epsilon) * self._max_saved  # ln (1+α)^(1/l_t)

    def spend(self, posterior: "PrunedPosterior | PrunedWindowPosterior", dt: float = 1.0) -> None:
        """Add the removal budget of `dt` intervals, and spend the budget on removing readings.

        The least relevant reading of `posterior` is removed first. A removal costs more if the
        reading is more relevant.
        """
        self.log_budget += self._growth * dt
        while posterior.observations > MIN_READINGS:
            index, relevance = posterior.least_relevant()
            price = log1p(relevance)
            if not price < self.log_budget:
                break
            self.log_budget -= price
            posterior.remove(index)
        else:
            self.log_budget = min(self.log_budget, self._max_saved)


def _read_budget(state: State) -> float:
    """Return the logarithm of the removal budget from `state`, or raise `SnapshotError`."""
    log_budget = read_number(state, "budget")
    if log_budget < 0.0:
        raise SnapshotError("The snapshot's 'budget' is negative.")
    return log_budget


class PrunedPosterior(RegressionPosterior):
    """A `RegressionPosterior` that drops its least relevant readings, not its oldest ones.

    Parameters
    ----------
    field : SensorField or BoxField
        Arms, spatial prior and noise variance. In a box, relevance refers to the predictions of the
        candidates. For sensors, `PrunedWindowPosterior` is much faster.
    temporal : TimeVarying
        How fast the field changes.
    window : int
        W, largest number of readings held, 1 or more. A full window drops its least relevant
        reading even if the budget does not allow this removal. In [W24], the number of readings is
        not limited.
    alpha : float
        As for `RemovalBudget`.

    Raises
    ------
    ConfigError
        If a parameter is out of range.

    Notes
    -----
    The relevance of a reading refers to the predictions of all arms in all future intervals. It
    can be computed from the next interval alone, because the kernel d decays at the same rate from
    every reading. The matrix F of `relevance` in a later interval is therefore a
    constant times F in the next interval, and the constant cancels in the relevance. The cost is
    O(W³ + W²M) for each interval and for each removed reading.
    """

    def __init__(self, field: Field, temporal: TimeVarying, window: int, *, alpha: float) -> None:
        self._budget = RemovalBudget(temporal.epsilon, alpha)
        super().__init__(field, temporal, window)
        self._alpha = alpha

    def advance_by(self, dt: float) -> None:
        """Advance the pruned posterior by `dt` intervals; then spend the budget on removals."""
        super().advance_by(dt)
        self._budget.spend(self, dt)

    def least_relevant(self) -> tuple[int, float]:
        """Return the pruned posterior's least relevant reading: its index and its relevance.

        The relevance is computed by regression.
        """
        factor = self._current_factor()
        F = self._space.covariance(factor.places, self._space.candidates)
        # times are relative to the newest reading, so that F does not underflow
        F = F * self._temporal.kernel(factor.times, factor.times[-1:])
        found = relevance(factor.regression.precision(), self._residuals(), F)
        return _smallest(found)

    def reset(self) -> None:
        """Reset the pruned posterior to the prior: drop all readings and restart the budget."""
        super().reset()
        self._budget.log_budget = 0.0

    def _dispensable(self) -> int:
        """Return the index of the least relevant reading, which a full pruned window drops."""
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
    """The compiled equivalent of `PrunedPosterior`, for sensor fields only.

    Parameters
    ----------
    field : SensorField
        M arms, their prior covariance and noise variance.
    temporal, window, alpha
        As for `PrunedPosterior`.

    Notes
    -----
    An interval costs O(W³ + W²M).
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
        self._panel = np.empty((window, kernels.PANEL_ROWS))
        self._gains, self._column = np.empty((window, M)), np.empty(window)
        self._found = np.empty(window)

    def advance(self) -> None:
        """Advance the pruned posterior by one interval; then spend the budget on removals."""
        super().advance()
        self._budget.spend(self)

    def least_relevant(self) -> tuple[int, float]:
        """Return the pruned window's least relevant reading: its index and its relevance."""
        n = self.observations
        kernels.relevance(
            self._L, self._V, self._z, n, self.mean, self._gains, self._column, self._found
        )
        return _smallest(self._found[:n])

    def reset(self) -> None:
        """Reset the pruned posterior to the prior: drop all readings and restart the budget."""
        super().reset()
        self._budget.log_budget = 0.0

    def _dispensable(self) -> int:
        """Return the index of the least relevant reading, which a full pruned buffer drops."""
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
            self._panel,
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
