"""OPKB and ADA-OPKB: arms are drawn from designs, which are probabilities of the arms.

Each design is a compromise between low estimated regret and much information.

Source: K. Hong, Y. Li, A. Tewari, *An Optimization-based Algorithm for Non-stationary Kernel
Bandits without Prior Knowledge*, AISTATS 2023, as implemented in the authors' program
(github.com/kihyukh/aistats2023). The constants of `Tuning` are equal in all configurations of that
program.
"""

from math import ceil, log, log2, sqrt
from typing import NamedTuple

import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.arm_space import Arm, Field
from edge_tvbo.models.optimal_design import (
    check_design_size,
    information,
    optimal_design,
    response,
)
from edge_tvbo.models.snapshot import AnyArray, State, check_arrays, copy_arrays, read_count
from edge_tvbo.numerics.types import Array, Indices
from edge_tvbo.policy.argument_checks import checked_reading
from edge_tvbo.policy.base import ObserveResult
from edge_tvbo.policy.change_detection_settings import AdaOpkbSettings
from edge_tvbo.policy.draws import index_at, uniform
from edge_tvbo.policy.model_free import REWARD_REACH_STD, BanditPolicy

MAX_ORDERS = 64  # any number larger than the number of blocks


def make_ada_opkb(settings: AdaOpkbSettings, field: Field) -> "Opkb":
    """Build ADA-OPKB; without `detect_changes`, the policy is OPKB.

    At most 512 arms are accepted.
    """
    check_design_size(settings.name, len(field))
    return Opkb(settings, field)


class Tuning(NamedTuple):
    """Constants of OPKB and ADA-OPKB, with the names and values of the authors' configurations."""

    gamma: float = 100.0
    tol: float = 1e-4
    mixture_probability: float = 0.2
    e_scale: float = 0.01
    g_scale: float = 0.05
    beta_scale: float = 50.0
    mu_scale: float = 0.2
    epsilon_scale: float = 0.005
    j_star: int = 4  # lowest order of a replay


class Opkb(BanditPolicy):
    """ADA-OPKB: blocks of doubling length, each with a design, and replays of earlier designs.

    A design consists of a probability for each arm.

    Block m has E 2^m intervals; E is the length of block 0. In block 0, arms are drawn from the
    most informative design; the design of every later block minimises a weighted sum of estimated
    regret and uncertainty. For each earlier block j >= `Tuning.j_star`, block m is divided into
    parts of order j, which are as long as block j. Each of these parts replays the design of block
    j with probability √(2^(j - m)). A replay measures the gaps between the arms. If these gaps
    contradict the gaps measured in an earlier block, the field has changed, and the policy resets.

    A reading y is converted to the reward y / (3 s), clipped to -1 to 1; s is the largest prior
    standard deviation of an arm. Only replies of drawn arms are used. If some arms are not
    eligible, the probabilities of the eligible arms grow in proportion. If the design gives all
    eligible arms the probability 0, one eligible arm is drawn at random, and its reply is not used.
    This class differs from the authors' program in two points: the program truncates the
    features of a subset of arms, and the program stops detecting changes after 100 changes.

    Parameters
    ----------
    settings : AdaOpkbSettings
        Parameters of the policy.
    field : SensorField or BoxField
        M arms; if the field is a box, the arms are its candidates.
    tuning : Tuning
        Constants of the algorithm.
    """

    def __init__(
        self,
        settings: AdaOpkbSettings,
        field: Field,
        tuning: Tuning = Tuning(),  # noqa: B008 - a tuple cannot change
    ) -> None:
        super().__init__(settings, field)
        self._detects, self._tuning = settings.detect_changes, tuning
        self._horizon = T = settings.horizon
        M, scale = len(field), float(self._std.max())
        self._reach = REWARD_REACH_STD * scale
        self._kernel = np.asarray(field.kernel) / scale**2
        self._ridge = tuning.gamma / T
        self._uninformed = optimal_design(self._kernel, np.zeros(M), self._ridge)
        self._information = information(self._kernel, self._uninformed, self._ridge)  # γ_T
        union = log(8.0 * M * T * log2(T) / tuning.tol)
        self._alpha = tuning.gamma / (4.0 * union)
        self._unit = max(1, ceil(4.0 * self._information * union * tuning.e_scale))  # E
        blocks = max(1, ceil(log2(T / self._unit + 1.0)))
        self._block = self._block_began = 0  # number m of the block, and its first interval
        self._designs = np.zeros((blocks, M))
        self._gaps = np.zeros((blocks, M))  # estimated regret of each arm, after each block
        self._sum = np.zeros(M)  # sum of the estimates from all readings since the last reset
        self._sums = np.zeros((blocks, M))  # `_sum` when the current part of each order began
        self._counts = np.zeros(blocks, np.int64)  # number of readings when these parts began
        self._drawn = np.zeros(M, np.int64)  # 1 for arms whose reply is expected
        self._designs[0] = self._uninformed
        self._responses: dict[int, Array] = {}  # cache; key: number of the design

    def observe(self, arm: Arm, y: float) -> ObserveResult:
        """Add the reading of a drawn arm to the estimates of ADA-OPKB."""
        arm, y = checked_reading(self.field, arm, y)
        index = self.field.index(arm)
        if self._drawn[index]:
            self._drawn[index] = 0
            reward = min(max(y / self._reach, -1.0), 1.0)
            self._sum += self._response(self._active())[index] * reward
            self.observations += 1
        return ObserveResult(False, abs(y), None, self.observations)

    def advance(self, dt: float = 1.0) -> None:
        """End the interval of ADA-OPKB; also end the block and the replays that are complete.

        The length of a block is a number of intervals, so `dt` must be 1; otherwise `ValueError` is
        raised.
        """
        ended = self._orders_ending() if self._detects else []
        super().advance(dt)
        if any(self._contradicts(order) for order in ended):
            self.reset()
        elif self._time - self._block_began >= self._length(self._block):
            self._end_block()
        for order in range(self._block):
            if (self._time - self._block_began) % self._length(order) == 0:
                self._sums[order] = self._sum
                self._counts[order] = self.observations

    def reset(self) -> None:
        """Reset ADA-OPKB: discard all readings and designs."""
        self._block_began = self._time
        self._block = self.observations = 0
        for array in (self._designs, self._gaps, self._sum, self._sums, self._counts):
            array[:] = 0
        self._designs[0] = self._uninformed
        self._drawn[:] = 0
        self._responses = {}
        self.resets += 1

    def _forget_selected(self) -> None:
        self._drawn[:] = 0

    def _state(self) -> State:
        counts = {"block": self._block, "began": self._block_began}
        return {**super()._state(), **counts, **self._arrays()}

    def _load(self, state: State) -> None:
        time, observations, block, began = (
            read_count(state, name) for name in ("time", "observations", "block", "began")
        )
        check_arrays(self._arrays(), state)
        designs = state["designs"][: block + 1]
        if block >= len(self._designs) or began > time:
            raise SnapshotError("The snapshot's 'block' or 'began' is out of range.")
        if (designs < 0).any() or not (designs.sum(axis=1) > 0).all():
            raise SnapshotError("The snapshot's 'designs' are not probabilities.")
        if (state["counts"] < 0).any() or (state["counts"] > observations).any():
            raise SnapshotError("The snapshot's 'counts' holds an impossible number of readings.")
        super()._load(state)
        copy_arrays(self._arrays(), state)
        self._block, self._block_began = block, began
        self._responses = {}

    def _pick(self, candidates: Indices) -> int:
        p = self._designs[self._active()][candidates]
        u = self._uniform(candidates)
        if not p.any():
            return int(candidates[int(u * len(candidates))])
        at = index_at(p, u * p.sum())
        self._drawn[candidates[at]] = 1
        return int(candidates[at])

    def _active(self) -> int:
        """Return the index of the design from which ADA-OPKB draws in the current interval."""
        if self._detects:
            for order in range(self._tuning.j_star, self._block):
                if self._is_replayed(order):
                    return order
        return self._block

    def _is_replayed(self, order: int) -> bool:
        """Return whether the current interval is in a replay of the block `order` of ADA-OPKB."""
        part = (self._time - self._block_began) // self._length(order)
        began = self._block_began + part * self._length(order)
        chance = sqrt(2.0 ** (order - self._block))
        return uniform(self._seed, -1 - (began * MAX_ORDERS + order)) < chance

    def _orders_ending(self) -> list[int]:
        """Return the order j of each replay (of block j) that ADA-OPKB ends in this interval."""
        end = self._time + 1 - self._block_began
        return [
            order
            for order in range(self._tuning.j_star, self._block)
            if end % self._length(order) == 0 and self._is_replayed(order)
        ]

    def _contradicts(self, order: int) -> bool:
        """Return whether the replay that has just ended contradicts an earlier block."""
        readings = self.observations - int(self._counts[order])
        if not readings:
            return False
        gaps = _gaps((self._sum - self._sums[order]) / readings)
        for block in range(self._tuning.j_star, self._block):
            before = self._gaps[block]
            most = max((before - 4.0 * gaps).max(), (gaps - 4.0 * before).max())
            epsilon = (self._epsilon(block) + self._epsilon(order)) / 2.0
            if most > 4.0 * epsilon * self._tuning.epsilon_scale:
                return True
        return False

    def _end_block(self) -> None:
        """Estimate how far each arm is below the best one; compute ADA-OPKB's next design.

        After the last block of the horizon, the policy resets instead.
        """
        m, tuning = self._block, self._tuning
        if m + 1 == len(self._designs):
            self.reset()
            return
        gaps = _gaps(self._sum / max(self.observations, 1))
        epsilon = self._epsilon(m + 1)
        beta = 2.0 * self._information / epsilon * tuning.beta_scale
        mu = 0.5 * tuning.mu_scale * 2.0 ** (-0.5 * (m + 1))
        design = optimal_design(self._kernel, 0.5 * beta * gaps, self._ridge)
        good = np.flatnonzero(gaps <= self._alpha * epsilon * tuning.g_scale)
        among = np.zeros(len(gaps))
        among[good] = optimal_design(
            np.ascontiguousarray(self._kernel[np.ix_(good, good)]), np.zeros(len(good)), self._ridge
        )
        share = tuning.mixture_probability
        mixed = (1.0 - share) * design + share * among
        self._gaps[m] = gaps
        self._designs[m + 1] = (1.0 - mu) * mixed + mu * self._uninformed
        self._block, self._block_began = m + 1, self._time

    def _length(self, order: int) -> int:
        return self._unit << order

    def _epsilon(self, block: int) -> float:
        return (40.0 + 16.0 * sqrt(self._alpha)) * 0.5 * sqrt(0.5**block)

    def _response(self, design: int) -> Array:
        found = self._responses.get(design)
        if found is None:
            found = response(self._kernel, self._designs[design], self._ridge)
            self._responses[design] = found
        return found

    def _arrays(self) -> dict[str, AnyArray]:
        return {
            "designs": self._designs,
            "gaps": self._gaps,
            "sum": self._sum,
            "sums": self._sums,
            "counts": self._counts,
            "drawn": self._drawn,
        }

    def _kind(self) -> str:
        return f"{self.name} {self._horizon} {self._detects}"


def _gaps(estimates: Array) -> Array:
    """Return ADA-OPKB's gaps: how far each arm's estimate is below the best arm's estimate."""
    return np.asarray(estimates.max() - estimates)
