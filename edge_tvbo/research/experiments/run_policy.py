"""Run of a policy on a field with known true values, and the regret of this run."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.numerics.types import Array
from edge_tvbo.policy.base import Policy


class RunResult(NamedTuple):
    """The regret and the selected arms of one run, interval by interval."""

    regret: Array  # (T,), r_t in model units
    picks: NDArray[np.int64]  # (T,), selected arms
    resets: int
    reset_times: list[int]  # intervals, counted from 1, in which the policy reset its model

    @property
    def mean_regret(self) -> Array:
        """Mean regret R_t/t of the policy's run up to each interval, (T,)."""
        return np.asarray(self.regret.cumsum() / np.arange(1, len(self.regret) + 1))


def run_policy(policy: Policy, truth: Array, noise: Array) -> RunResult:
    """Run `policy` on true values `truth` (T, M); `noise` (T,) is added to the readings."""
    picks = np.empty(len(truth), np.int64)
    reset_times: list[int] = []
    for t, values in enumerate(truth):
        before = policy.resets
        arm = policy.select().arm
        policy.observe(arm, float(values[arm] + noise[t]))
        policy.advance()
        if policy.resets > before:
            reset_times.append(t + 1)
        picks[t] = arm
    return RunResult(regrets(truth, picks), picks, policy.resets, reset_times)


def regrets(truth: Array, picks: NDArray[np.int64]) -> Array:
    """Return the regret of the selected arms `picks` (T,), given the true values `truth` (T, M)."""
    return np.asarray(truth.max(axis=1) - truth[np.arange(len(truth)), picks])
