"""Low-rank covariance of the components of very many sensors, for a structural posterior.

The correlation B of the sensors is represented by factors: B = Fᵀ F + D, with diagonal D. Variances
are exact. For fields whose sensors are all equally correlated, one factor is enough. The Kalman
filter is in `numerics.low_rank_structural`.
"""

import numpy as np
from msgspec.structs import replace

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.facts import Fact, FactorApproximation
from edge_tvbo.models.snapshot import AnyArray, State, check_covariances
from edge_tvbo.models.structural_model import (
    ComponentTable,
    StructuralModel,
    component_table,
    harmonics_for,
)
from edge_tvbo.models.trained_state import LowRankState, are_factors
from edge_tvbo.numerics import low_rank_structural
from edge_tvbo.numerics.types import Array, Indices

MAX_FACTORS = 128
MAX_LEFT_OUT = 0.003  # largest share of the correlations left out (root mean square)
ROUNDS = 5  # number of rounds of the subspace iteration
BLOCK = 256  # rows of the correlation that are compared at once


class LowRankCovariance:
    """The covariance of the components, approximated with R factors of the correlation.

    Parameters
    ----------
    model : StructuralModel
        Structural model of M sensors.
    table : ComponentTable
        The n components of the model.

    Notes
    -----
    The first of the R factors has the weight 1 for each sensor. This factor represents the part of
    each component that all sensors have in common.
    """

    def __init__(self, model: StructuralModel, table: ComponentTable) -> None:
        self._correlation, self._table = model.correlation, table
        self._G = _factors(model)
        self._error = largest_error(model.correlation, self._G[1:])
        R, M = self._G.shape
        n = len(table.kind)
        self._Z = np.zeros((n * R, n * R))
        self._S, self._T, self._X = (np.zeros((n, n, M)) for _ in range(3))
        self._workspace = (
            np.zeros(n * R),
            np.zeros((n, M)),
            np.zeros((n, M)),
            np.zeros((n, M)),
            np.zeros((n, n, M)),
        )
        self.follow_arrays()
        self.reset()

    def reset(self) -> None:
        """Reset the low-rank covariance to the prior."""
        self._Z[:] = np.diag(self._factor_variances.reshape(-1))
        parts = np.arange(len(self._table.kind))
        for array, prior in (
            (self._S, self._shared_variances),
            (self._T, self._shared_variances),
            (self._X, self._variances),
        ):
            array[:] = 0.0
            array[parts, parts] = prior

    def load_training(self, covariances: Array | LowRankState) -> None:
        """Load the `covariances` of a `TrainedState` into the low-rank covariance."""
        if isinstance(covariances, LowRankState):
            self._Z[:] = covariances.factor_covariance
            self._T[:] = covariances.cross.transpose(1, 2, 0)
            self._X[:] = covariances.covariance.transpose(1, 2, 0)
        else:
            self._project(covariances)
        self._S[:] = self._shared_covariances()
        self._round()

    def _project(self, covariances: Array) -> None:
        """Convert covariances along the eigenvectors of the correlation to the low-rank form.

        `covariances` (M, n, n) holds one matrix for each eigenvector.
        """
        R, M = self._G.shape
        n = len(self._table.kind)
        _, U = np.linalg.eigh(self._correlation)
        along = np.linalg.pinv(self._G[1:].T) @ U  # U in terms of the factors, (R - 1, M)
        Z = np.zeros((n, R, n, R))
        for a in range(n):
            for b in range(n):
                Z[a, 1:, b, 1:] = (along * covariances[:, a, b]) @ along.T
        self._Z[:] = Z.reshape(n * R, n * R)
        flat = covariances.reshape(M, n * n)
        explained = (self._G[1:].T @ along) * U
        self._T[:] = (explained @ flat).T.reshape(n, n, M)
        U *= U
        self._X[:] = (U @ flat).T.reshape(n, n, M)

    def low_rank_state(self) -> LowRankState:
        """Return the low-rank covariance as a `LowRankState`, for a `TrainedState`."""
        X, T = (np.ascontiguousarray(array.transpose(2, 0, 1)) for array in (self._X, self._T))
        return LowRankState(self._G, self._Z, cross=T, covariance=X)

    def moments(self, m: Array, load: Array, mean: Array, variance: Array) -> None:
        """Fill the sensors' `mean` and `variance` from the mean m and covariance of the state."""
        low_rank_structural.moments(m, self._X, load, mean, variance)

    def condition(
        self, m: Array, load: Array, arm: int, y: float, noise_variance: float, square: float
    ) -> float:
        """Update the mean m of the state and the low-rank covariance with a reading.

        Return the squared standardised error of the reading.
        """
        return low_rank_structural.condition(
            m,
            self._Z,
            self._G,
            self._S,
            self._T,
            self._X,
            load,
            arm,
            y,
            noise_variance,
            square,
            *self._workspace,
        )

    def evolve(self, m: Array, retain: Array) -> None:
        """Advance the mean m of the state, and the low-rank covariance, by one step in time."""
        new = (1.0 - retain**2)[:, None]
        low_rank_structural.evolve(
            m,
            self._Z,
            self._S,
            self._T,
            self._X,
            retain,
            new * self._factor_variances,
            new * self._shared_variances,
            new * self._variances,
        )

    def facts(self) -> tuple[Fact, ...]:
        """Return one fact: how closely the low-rank factors represent the correlations."""
        R, M = self._G.shape
        return (FactorApproximation(R - 1, M, self._error),)

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays that a snapshot of the low-rank covariance contains, by name."""
        return {
            "factors": self._G,
            "factor_covariance": self._Z,
            "shared": self._S.transpose(2, 0, 1),
            "cross": self._T.transpose(2, 0, 1),
            "covariance": self._X.transpose(2, 0, 1),
        }

    def arrays_for(self, components: int, sensors: int, state: State) -> dict[str, AnyArray]:
        """Return zero arrays of the shapes that a snapshot of the low-rank covariance has.

        The number of factors is taken from `state`.
        """
        n = components
        shape: tuple[int, ...] = getattr(state.get("factors"), "shape", ())
        R = min(max(shape[0], 1), MAX_FACTORS + 1) if shape else 1
        own = np.zeros((sensors, n, n))
        return {
            "factors": np.zeros((R, sensors)),
            "factor_covariance": np.zeros((n * R, n * R)),
            "shared": own,
            "cross": own,
            "covariance": own,
        }

    def check(self, state: State) -> None:
        """Raise `SnapshotError` unless `state` contains a valid low-rank covariance."""
        check_covariances("factor_covariance", self._factor_variances, state)
        X, T, S = state["covariance"], state["cross"], state["shared"]
        both = np.block([[X, T], [T.swapaxes(1, 2), S]])
        check_covariances("covariance", self._variances, {"covariance": both})
        if not are_factors(state["factors"]):
            raise SnapshotError("The snapshot's 'factors' explain more than the whole variance.")

    def follow_arrays(self) -> None:
        """Compute the prior variances of the low-rank covariance from the factors.

        For each component, these are the variances of the factors (n, R), of the part that the
        factors explain (n, M), and of the whole component (n, M).
        """
        variance, common = self._table.variance[:, None], self._table.common[:, None]
        self._factor_variances = variance * (1.0 - common) * np.ones(len(self._G))
        self._factor_variances[:, :1] = variance * common
        self._shared_variances = self._factor_variances @ self._G**2
        whole = np.diag(self._correlation)
        self._variances = variance * (common + (1.0 - common) * whole)

    def load_sensors(self, state: State, here: Indices, there: Indices, sensors: int) -> None:
        """Load the low-rank covariance of the sensors that a snapshot and this field both contain.

        The other sensors of this field keep their prior distribution given the factors.

        The factors of the snapshot and the factors of this field differ. Therefore each factor of
        the snapshot is approximated by this field's factors (least squares over the common
        sensors).
        """
        n, R = len(self._table.kind), len(self._G)
        old = state["factors"]
        weights = np.zeros((R, len(old)))
        weights[0, 0] = 1.0
        U, shares, V = np.linalg.svd(
            np.linalg.pinv(self._G[1:, here].T) @ old[1:, there].T, full_matrices=False
        )
        weights[1:, 1:] = (U * np.minimum(shares, 1.0)) @ V
        unknown = np.eye(R) - weights @ weights.T
        Z = state["factor_covariance"].reshape(n, len(old), n, len(old))
        Z = np.einsum("rk,akbl,sl->arbs", weights, Z, weights, optimize=True)
        for a in range(n):
            root = np.sqrt(self._factor_variances[a])
            Z[a, :, a] += unknown * np.outer(root, root)
        self._Z[:] = Z.reshape(n * R, n * R)
        shared = self._shared_covariances()
        parts = np.arange(n)
        whole = shared.copy()
        whole[parts, parts] += self._variances - self._shared_variances
        S, T, X = (state[name][there] for name in ("shared", "cross", "covariance"))
        on_shared = T @ np.linalg.pinv(S, rcond=1e-9, hermitian=True)
        kept = shared[:, :, here].transpose(2, 0, 1)
        cross = on_shared @ kept
        own = X - on_shared @ S @ on_shared.swapaxes(1, 2)
        self._S[:], self._T[:], self._X[:] = shared, shared, whole
        self._T[:, :, here] = cross.transpose(1, 2, 0)
        self._X[:, :, here] = (cross @ on_shared.swapaxes(1, 2) + own).transpose(1, 2, 0)
        self._round()

    def _round(self) -> None:
        """Make the low-rank covariances symmetric to the last bit; set negative variances to 0."""
        for array in (self._Z, self._S.transpose(2, 0, 1), self._X.transpose(2, 0, 1)):
            array[:] = (array + array.swapaxes(-1, -2)) / 2
            parts = np.arange(array.shape[-1])
            array[..., parts, parts] = np.maximum(array[..., parts, parts], 0.0)

    def _shared_covariances(self) -> Array:
        """Return the part of the sensors' covariances that the low-rank factors explain.

        The shape is (n, n, M): one matrix (n, n) for the n components of each sensor.
        """
        R, M = self._G.shape
        n = len(self._table.kind)
        Z = self._Z.reshape(n, R, n, R)
        S = np.empty((n, n, M))
        for a in range(n):
            for b in range(a + 1):
                S[a, b] = S[b, a] = (self._G * (Z[a, :, b] @ self._G)).sum(axis=0)
        return S


def with_low_rank_state(model: StructuralModel) -> StructuralModel:
    """Return a trained structural model whose state has the low-rank form.

    A posterior that starts from the returned model computes neither the eigenvectors of the
    correlation nor the factors.
    """
    if model.state is None:
        return model
    table = component_table(model.components, harmonics_for(len(model.spread)) or 0)
    covariance = LowRankCovariance(model, table)
    covariance.load_training(model.state.covariances)
    return replace(model, state=replace(model.state, covariances=covariance.low_rank_state()))


def _factors(model: StructuralModel) -> Array:
    """Return the low-rank factors (R, M): a row of ones, then the factors of the correlation."""
    if model.state is not None and isinstance(model.state.covariances, LowRankState):
        return model.state.covariances.factors.copy()  # `restore` writes into the array
    factors = correlation_factors(model.correlation)
    return np.ascontiguousarray(np.vstack((np.ones(factors.shape[1]), factors)))


def correlation_factors(B: Array) -> Array:
    """Return the low-rank factors F (R, M) of a correlation B ≈ Fᵀ F + D with diagonal D.

    The factors are the R leading eigenvectors of B. They leave out a share of the correlations
    between different sensors. R is the smallest number for which this share is at most
    MAX_LEFT_OUT. If no number up to MAX_FACTORS is sufficient, R is the number with the smallest
    share.
    """
    values, vectors = _leading_eigenvectors(B, min(MAX_FACTORS, len(B)))
    powers = np.maximum(values, 0.0) * vectors**2  # explained variance of each sensor, (M, R)
    whole = np.diag(B)
    pairs = float(np.vdot(B, B)) - float(whole @ whole)
    rest = np.hstack((whole[:, None], whole[:, None] - np.cumsum(powers, axis=1)))
    explained = np.concatenate(([0.0], np.cumsum(values**2)))
    left_out = float(np.vdot(B, B)) - explained - (rest**2).sum(axis=0)
    R = int(np.argmax(left_out <= max(MAX_LEFT_OUT**2 * pairs, left_out.min())))
    F = np.sqrt(powers[:, :R]) * np.sign(vectors[:, :R])
    most = np.sqrt(np.minimum(1.0, whole / np.maximum((F**2).sum(axis=1), 1e-300)))
    return np.ascontiguousarray((F * most[:, None]).T)


def largest_error(B: Array, F: Array) -> float:
    """Return the largest error of the low-rank approximation Fᵀ F of the correlation B.

    The diagonal, which pairs each sensor with itself, is not compared.
    """
    largest = 0.0
    for first in range(0, len(B), BLOCK):
        rows = slice(first, first + BLOCK)
        difference = B[rows] - F[:, rows].T @ F
        np.fill_diagonal(difference[:, first:], 0.0)
        largest = max(largest, float(np.abs(difference).max()))
    return largest


def _leading_eigenvectors(B: Array, wanted: int) -> tuple[Array, Array]:
    """Return the largest eigenvalues and their eigenvectors (columns), for the low-rank factors.

    The method is subspace iteration. A complete decomposition would take ten times as long, and
    would need three more matrices of M² numbers.
    """
    Q = np.random.default_rng(0).standard_normal((len(B), min(2 * wanted, len(B))))
    for _ in range(ROUNDS):
        Q, _ = np.linalg.qr(B @ Q)
    values, vectors = np.linalg.eigh(Q.T @ B @ Q)
    return values[::-1][:wanted], (Q @ vectors)[:, ::-1][:, :wanted]
