"""The posterior from the last W readings for any kernel in time, on sensors and in a box."""

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.domain import Arm, Field, over
from edge_tvbo.models.likelihood import fit
from edge_tvbo.models.posteriors.state_space import Belief, Mask
from edge_tvbo.models.regression import Regression
from edge_tvbo.models.snapshot import check_arrays, copy_arrays, seal, unseal, whole
from edge_tvbo.models.temporal_models import FittableKernel, TemporalKernel
from edge_tvbo.numerics.acquisition import highest_bound

Array = NDArray[np.float64]
MOST_NOISE = log(1e12)  # of a weighted reading: it is as good as forgotten


class KernelPosterior:
    """The posterior of a field with covariance k(x, x') d(t, t'), by plain regression.

    Costs O(W³ + W²M) an interval, W²M + W² more for each point a box is searched at; where an
    engine of `posterior` applies, that one is faster by orders.

    Parameters
    ----------
    field : SensorField or BoxField
        Arms, spatial prior and noise.
    temporal : TemporalKernel
        d(t, t').
    window : int
        W, the most readings held; the oldest makes room.
    gamma : float
        What a reading's weight is multiplied by in each interval since, above 0, at most 1.
    """

    def __init__(
        self, field: Field, temporal: TemporalKernel, window: int, *, gamma: float = 1.0
    ) -> None:
        if window < 1:
            raise ConfigError(f"window is {window}; it must be 1 reading or more.")
        if not 0.0 < gamma <= 1.0:
            raise ConfigError(f"gamma is {gamma}; it must be above 0, and at most 1.")
        self._field = field
        self._domain = over(field)
        self._temporal = temporal
        self._gamma = gamma
        self._places = np.zeros((window, self._domain.candidates.shape[1]))
        self._y = np.zeros(window)
        self._times = np.zeros(window, np.int64)
        self._time = 0
        self.observations = 0
        self._known: _Known | None = None  # None where it is out of date
        self._beliefs: tuple[Array, Array] | None = None  # mean and variance, likewise

    @property
    def mean(self) -> Array:
        """Mean of every candidate, (M,)."""
        return self._believed()[0]

    @property
    def variance(self) -> Array:
        """Variance of every candidate, (M,)."""
        return self._believed()[1]

    def at(self, arm: Arm) -> Belief:
        """Give what is believed of `arm` at the current interval."""
        index = self._domain.candidate(arm)
        if index is None:
            (mean,), (variance,) = self._predict(self._domain.place(arm)[None, :])
        else:
            mean, variance = self.mean[index], self.variance[index]
        return Belief(arm, float(mean), float(variance) ** 0.5)

    def highest(self, width: float, eligible: Mask, seed: int, counter: int) -> Belief | None:
        """Give the arm with the highest mean + width · std.

        Where some are not eligible, a box is not searched: the candidates that are stand for it.
        """
        index = highest_bound(self.mean, self.variance, width, eligible, seed, counter)
        if index < 0:
            return None
        arm = self._field.arm(index)
        if self._domain.candidate(arm) is not None or not eligible.all():
            return self.at(arm)

        def bound(P: Array) -> Array:
            mean, variance = self._predict(P)
            return mean + width * np.sqrt(variance)

        scores = self.mean + width * np.sqrt(self.variance)
        return self.at(self._domain.best(index, bound, scores))

    def prior_std(self, arm: Arm) -> float:
        """Give the standard deviation of `arm` now, were nothing known of it."""
        variance = float(self._domain.variance(self._domain.place(arm)[None, :])[0])
        return sqrt(variance * float(self._temporal.variance(np.array([float(self._time)]))[0]))

    def observe(self, arm: Arm, y: float) -> None:
        """Take in a reading of `arm`, in model units, and drop the oldest of a full window.

        Raises ValueError for what is no arm, such as a point outside the box.
        """
        if not self._domain.holds(arm):
            raise ValueError(f"{arm} is no arm of this field")
        place = self._domain.place(arm)
        if self.observations == len(self._y):
            self.remove(self._dispensable())
        n = self.observations
        self._places[n], self._y[n], self._times[n] = place, y, self._time
        self.observations = n + 1
        self._invalidate()

    def advance(self) -> None:
        """Move on by one interval."""
        self._time += 1
        self._beliefs = None
        if self._gamma < 1.0:
            self._known = None

    def reset(self) -> None:
        """Forget every reading, not the time: the prior of the current interval is left."""
        self.observations = 0
        self._invalidate()

    def remove(self, index: int) -> None:
        """Forget a reading, 0 being the oldest."""
        n = self.observations
        for array in (self._places, self._y, self._times):
            array[index : n - 1] = array[index + 1 : n]
        self.observations = n - 1
        self._invalidate()

    def mean_std(self) -> tuple[Array, Array]:
        """Give copies of the mean and the standard deviation of every candidate."""
        return self.mean.copy(), np.sqrt(self.variance)

    def account(self) -> tuple[str, ...]:
        """Give nothing: of the readings held all is exact."""
        return ()

    def snapshot(self) -> bytes:
        """Give the state as bytes; the continuation from them is bit-identical."""
        return seal(self._kind(), self._field.fingerprint(), self._state())

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        self._resume(unseal(self._kind(), self._field.fingerprint(), blob))

    def _dispensable(self) -> int:
        """Give which of the readings makes room for another: the oldest."""
        return 0

    def _state(self) -> dict[str, Any]:
        return {"time": self._time, "observations": self.observations, **self._arrays()}

    def _resume(self, state: dict[str, Any]) -> None:
        time, observations = whole(state, "time"), whole(state, "observations")
        if observations > len(self._y):
            raise SnapshotError(f"The snapshot holds {observations} readings of {len(self._y)}.")
        check_arrays(self._arrays(), state)
        if (state["times"][:observations] > time).any() or (state["times"] < 0).any():
            raise SnapshotError("The snapshot holds readings of the future.")
        if not self._field.holds(state["places"][:observations]):
            raise SnapshotError("The snapshot's 'places' names an arm that there is not.")
        copy_arrays(self._arrays(), state)
        self._time, self.observations = time, observations
        self._invalidate()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"places": self._places, "y": self._y, "times": self._times}

    def _kind(self) -> str:
        return f"kernel {self._temporal!r} {len(self._y)} {self._gamma!r}"

    def _invalidate(self) -> None:
        """Have everything computed anew when it is asked for."""
        self._known = self._beliefs = None

    def _believed(self) -> tuple[Array, Array]:
        if self._beliefs is None:
            self._beliefs = self._predict(self._domain.candidates)
        return self._beliefs

    def _predict(self, P: Array) -> tuple[Array, Array]:
        """Give mean and variance (p,) at places P (p, d)."""
        known, now = self._learned(), np.array([float(self._time)])
        k = self._domain.covariance(known.places, P) * self._temporal.matrix(known.times, now)
        prior = self._domain.variance(P) * float(self._temporal.variance(now)[0])
        return known.regression.predict(k, prior)

    def _learned(self) -> "_Known":
        if self._known is None:
            self._known = self._learn()
        return self._known

    def _learn(self) -> "_Known":
        n = self.observations
        places, y, times = self._places[:n], self._y[:n], self._times[:n].astype(np.float64)
        faded = np.minimum(-log(self._gamma) * (self._time - times), MOST_NOISE)
        noise = self._field.noise_variance * np.exp(faded)
        K = self._domain.covariance(places, places) * self._temporal.matrix(times, times)
        return _Known(Regression(K, noise, y), places, times)


class _Known(NamedTuple):
    """What the readings say, and where and when they are from."""

    regression: Regression
    places: Array
    times: Array


class FittedPosterior(KernelPosterior):
    """A `KernelPosterior` whose temporal kernel is fitted to the readings each interval.

    By maximum likelihood, from the parameters of the interval before and from others drawn at
    random, of which there are fewer as readings come: `restarts` and 200/n at most ([M24]
    algorithm 3; [B16] appendix B for ε of TV).

    Parameters
    ----------
    field, temporal, window
        As for `KernelPosterior`; `temporal` is what the first fit begins from.
    restarts : int
        The most starts in an interval, the first of them warm.
    seed : int
        Of the random starts.
    """

    def __init__(
        self,
        field: Field,
        temporal: FittableKernel,
        window: int,
        *,
        restarts: int = 10,
        seed: int = 0,
    ) -> None:
        self._restarts = restarts
        self._seed = seed
        super().__init__(field, temporal, window)
        self._shape = type(temporal).__name__
        self._fresh = False  # whether a reading came since the last fit

    @property
    def temporal(self) -> FittableKernel:
        """The kernel as it is fitted now."""
        return self._temporal  # type: ignore[return-value]

    def observe(self, arm: Arm, y: float) -> None:
        """Take in a reading of `arm`; the fit waits for the end of the interval."""
        super().observe(arm, y)
        self._fresh = True

    def advance(self) -> None:
        """Fit, and move on by one interval."""
        if self._fresh and self.observations:
            self._fit()
        super().advance()

    def _fit(self) -> None:
        n = self.observations
        places = self._places[:n]
        self._temporal = fit(
            self.temporal,
            self._domain.covariance(places, places),
            self._times[:n].astype(np.float64),
            self._y[:n],
            self._field.noise_variance,
            restarts=max(min(self._restarts, 200 // n) - 1, 0),
            rng=np.random.default_rng((self._seed, self._time)),
        )
        self._fresh = False
        self._invalidate()

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "temporal": self.temporal.values, "fresh": int(self._fresh)}

    def _resume(self, state: dict[str, Any]) -> None:
        check_arrays({"temporal": self.temporal.values}, state)
        fresh, before = whole(state, "fresh"), self._temporal
        try:
            self._temporal = self.temporal.replaced(state["temporal"])
            super()._resume(state)
        except (ConfigError, SnapshotError) as error:
            self._temporal = before
            raise SnapshotError(str(error)) from error
        self._fresh = bool(fresh)

    def _kind(self) -> str:
        return f"fitted {self._shape} {len(self._y)} {self._restarts} {self._seed}"
