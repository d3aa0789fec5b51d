"""A policy follows a field that is known to whoever keeps the score."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.numerics.types import Array
from edge_tvbo.policy.base import Policy


class RunResult(NamedTuple):
    """How it went, interval by interval."""

    regret: Array  # (T,), r_t, model units
    picks: NDArray[np.int64]  # (T,), arms
    resets: int


def play(policy: Policy, truth: Array, noise: Array) -> RunResult:
    """Let `policy` choose one arm an interval of `truth` (T, M), and read it with `noise` (T,)."""
    picks = np.empty(len(truth), np.int64)
    for t, values in enumerate(truth):
        arm = policy.select().arm
        policy.observe(arm, float(values[arm] + noise[t]))
        policy.advance()
        picks[t] = arm
    regret = truth.max(axis=1) - truth[np.arange(len(truth)), picks]
    return RunResult(regret, picks, policy.resets)


def rng(experiment: str, seed: int, run: int) -> np.random.Generator:
    """Give the generator of a run: the same for the same three, whatever else is run."""
    return np.random.default_rng([seed, int(experiment[1:]), run])
