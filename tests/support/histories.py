"""Histories of readings, and cases that run them through a posterior and its slow twin.

A history is a list of operations: ``("observe", arm, y)``, ``("advance",)``, ``("reset",)`` and
``("reload",)``, which continues with a new posterior restored from a snapshot. The twin
(``tests/support/naive.py``) takes the same list and ignores reloads. Variances are compared instead
of standard deviations, because a square root near 0 magnifies rounding.
"""

import os
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from support.closeness import assert_close
from support.naive import NaivePosterior, se, temporal

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.state_space import StateSpacePosterior
from edge_tvbo.models.posteriors.window import WindowPosterior
from edge_tvbo.models.temporal_models import Static, TimeVarying, UncertaintyInjection

TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}
COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")

MODELS = {"static": lambda _: Static(), "tv": TimeVarying, "ui": UncertaintyInjection}


@dataclass(frozen=True)
class Case:
    """A field, a temporal model and perhaps a window: enough to make a posterior and its twin."""

    K: np.ndarray
    noise_variance: float
    kind: str
    parameter: float = 0.0
    window: int | None = None

    def posterior(self):
        names = tuple(f"n{i}" for i in range(len(self.K)))
        field = SensorField(sensors=names, kernel=self.K, noise_variance=self.noise_variance)
        transition = MODELS[self.kind](self.parameter).transition()
        if self.window is None:
            return StateSpacePosterior(field, transition)
        return WindowPosterior(field, transition, self.window)

    def twin(self):
        d = temporal(self.kind, self.parameter)
        return NaivePosterior(self.K, self.noise_variance, d, self.window)


# --- strategies ---------------------------------------------------------------------------------


def kernel(kind, M, rng):
    """Prior covariance of M arms; all kinds but the identity are close to singular."""
    if kind == "identity":
        return np.eye(M)
    if kind == "rank one":
        v = rng.uniform(-1.0, 1.0, M)
        return np.outer(v, v) + 1e-6 * np.eye(M)
    X = rng.uniform(0.0, 1.0, (M, 1 if kind == "se on a line" else 2))
    if kind == "se with repeats":
        X = X[rng.integers(0, (M + 1) // 2, M)]
    return se(X, 50.0 if kind == "se, very smooth" else rng.uniform(0.05, 1.0))


KERNELS = [
    "identity",
    "rank one",
    "se on a line",
    "se in the plane",
    "se with repeats",
    "se, very smooth",
]
SEEDS = st.integers(0, 2**32 - 1)
TEMPORAL_MODELS = st.one_of(
    st.just(("static", 0.0)),
    st.tuples(st.just("tv"), st.sampled_from([0.0, 0.001, 0.03, 0.3, 1.0]) | st.floats(0, 1)),
    st.tuples(st.just("ui"), st.sampled_from([0.0, 0.001, 0.03, 0.1]) | st.floats(0, 0.1)),
)


def random_history(M, length, rng):
    """Operations in the proportions of a busy network: 6 readings to 3 intervals, few resets."""
    kinds = rng.choice(
        ["observe", "advance", "reset", "reload"], size=length, p=[0.63, 0.32, 0.01, 0.04]
    )
    return [
        ("observe", int(rng.integers(M)), float(rng.normal(0.0, 2.0)))
        if kind == "observe"
        else (str(kind),)
        for kind in kinds
    ]


def long_readings(K, noise_variance, steps):
    """Arms drawn uniformly, and noisy readings of one field drawn from the prior."""
    rng = np.random.default_rng(20240301)
    f = np.linalg.cholesky(K + 1e-12 * np.eye(len(K))) @ rng.standard_normal(len(K))
    arms = rng.integers(len(K), size=steps)
    y = f[arms] + np.sqrt(noise_variance) * rng.standard_normal(steps)
    return arms, y


# --- running a history --------------------------------------------------------------------------


def apply(case, posterior, operation):
    """Carry one operation out; return the posterior to continue with."""
    match operation:
        case ("observe", arm, y):
            posterior.observe(arm, y)
        case ("advance",):
            posterior.advance()
        case ("reset",):
            posterior.reset()
        case ("reload",):
            return restored(case, posterior.snapshot())
    return posterior


def restored(case, blob):
    posterior = case.posterior()
    posterior.restore(blob)
    return posterior


def assert_same(posterior, twin):
    mean, std = posterior.mean_std()
    naive_mean, naive_std = twin.mean_std()
    assert mean.dtype == std.dtype == np.float64
    assert_close(mean, naive_mean, **TOLERANCE)
    assert_close(std**2, naive_std**2, **TOLERANCE)


def assert_equals_twin(case, history):
    posterior, twin = case.posterior(), case.twin()
    checked = {len(history) // 4, len(history) // 2, 3 * len(history) // 4}
    for i, operation in enumerate(history):
        if i in checked:
            assert_same(posterior, twin)
        posterior = apply(case, posterior, operation)
        if operation != ("reload",):
            apply(case, twin, operation)
    assert_same(posterior, twin)
