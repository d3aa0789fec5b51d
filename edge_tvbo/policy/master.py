"""MASTER over GP-UCB: runs GP-UCB instances of several durations, and tests for changes.

Source: C.-Y. Wei, H. Luo, *Non-stationary Reinforcement Learning without Prior Knowledge: An
Optimal Black-box Approach*, COLT 2021: procedure 1, algorithms 2 and 3. MASTER needs a regret bound
of the policy that it runs. The paper states no regret bound for GP-UCB. This module uses the bound
in theorem 1 of Srinivas et al. 2010.
"""

from functools import partial
from math import log, log1p, log2, sqrt

import numpy as np

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.arm_space import Arm, Field, arm_space
from edge_tvbo.models.beta import beta_schedule
from edge_tvbo.models.optimal_design import check_design_size, information, optimal_design
from edge_tvbo.models.posteriors.select import make_posterior
from edge_tvbo.models.snapshot import (
    AnyArray,
    State,
    check_arrays,
    copy_arrays,
    read_bytes,
    read_count,
)
from edge_tvbo.models.temporal_models import Static
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy.argument_checks import checked_reading, counts_intervals
from edge_tvbo.policy.base import ObserveResult
from edge_tvbo.policy.change_detection_settings import MasterGpUcbSettings
from edge_tvbo.policy.draws import uniform
from edge_tvbo.policy.model_free import REWARD_REACH_STD
from edge_tvbo.policy.upper_confidence import UpperConfidence

MIN_RIDGE = 1e-14  # smallest ridge of a design, in prior variances; solving may fail with less
MAX_ORDERS = 64  # a number above the highest order of an instance


def make_master_gp_ucb(settings: MasterGpUcbSettings, field: Field) -> "Master":
    """Build MASTER over GP-UCB (Wei & Luo 2021, algorithm 3); at most 512 arms are accepted."""
    check_design_size(settings.name, len(field))
    return Master(settings, field)


class RegretRate:
    """ρ(t), a bound on the mean regret of t intervals of GP-UCB, for rewards between 0 and 1.

    ρ(t) is the maximum of √(C β γ_t / t) / 6 and 1/√t, with C = 8 / ln(1 + 1/σ²). Here σ² is the
    noise variance in units of the prior variance, and γ_t is the information gain of t readings
    that follow the optimal design for 2^orders readings. γ_t is computed for t = 1, 2, 4, 8, ...
    and interpolated for other t.

    Parameters
    ----------
    kernel : (M, M) array
        Covariance of the arms, in units of the largest prior variance.
    noise_variance : float
        σ², in the same units.
    beta : float
        β, the squared width of the confidence bound.
    orders : int
        The bound is needed for at most 2^orders intervals.
    """

    def __init__(self, kernel: Array, noise_variance: float, beta: float, orders: int) -> None:
        self._scale = 8.0 / log1p(1.0 / noise_variance) * beta / (2.0 * REWARD_REACH_STD) ** 2
        self._times = 2.0 ** np.arange(orders + 1)
        ridges = np.maximum(noise_variance / self._times, MIN_RIDGE)
        design = optimal_design(kernel, np.zeros(len(kernel)), float(ridges[-1]))
        self._gains = np.array([information(kernel, design, ridge) for ridge in ridges])

    def __call__(self, t: int) -> float:
        """Return ρ(t), the bound of MASTER on the mean regret of t = 1, 2, ... intervals."""
        gain = float(np.interp(t, self._times, self._gains))
        return max(sqrt(self._scale * gain / t), 1.0 / sqrt(t))


class Master(UpperConfidence):
    """MASTER over GP-UCB, in blocks of doubling length.

    A block has 2^n intervals. For each order m = 0 to n, the block is divided into parts of 2^m
    intervals; in each part, an instance of order m exists with the probability ρ(2^n) / ρ(2^m),
    where ρ is a `RegretRate`. In each interval, the instance with the lowest order selects the arm
    and learns; the other instances are paused. The policy makes two tests for changes:

    - Test 1 fails if the mean reward during an instance is far above the block's lowest bound.
    - Test 2 fails if the mean bound of the block is far above the block's mean reward.

    The allowed difference is proportional to ρ. If a test fails, the policy restarts with a block
    of one interval. Blocks do not become longer than the horizon.

    Each reading or bound y is converted to (y + 3 s) / (6 s), clipped to the range 0 to 1; s is the
    largest prior standard deviation of an arm. δ is 1 / horizon.
    """

    def __init__(self, settings: MasterGpUcbSettings, field: Field) -> None:
        self._make_instance = partial(make_posterior, field, Static(), settings.window)
        T, width = settings.horizon, beta_schedule(settings.beta)
        orders = int(log2(T)) + 1
        self._instances = [self._make_instance() for _ in range(orders)]
        super().__init__(settings.name, field, self._instances[0], width, seed=settings.seed)
        scale = float(np.sqrt(arm_space(field).prior.max()))
        self._reach = REWARD_REACH_STD * scale
        self._rate = RegretRate(
            np.asarray(field.kernel) / scale**2,
            field.noise_variance / scale**2,
            width.width(T, T) ** 2,
            orders - 1,
        )
        self._rates = [self._rate(1 << m) for m in range(orders)]  # ρ of an instance, by its order
        self._threshold = settings.threshold_scale * 6.0 * (log2(T) + 1.0) * 2.0 * log(T)
        self._orders = 0  # n: the block has 2^n intervals
        self._began = 0  # interval in which the block began
        self._order = 0  # order of the active instance
        self._totals = np.zeros(3)  # of the block: number of replies, sum of rewards, sum of bounds
        self._lowest = np.ones(1)  # lowest bound of the block
        self._starts = np.zeros((orders, 2))  # replies and total reward when each instance began

    def observe(self, arm: Arm, y: float) -> ObserveResult:
        """Update the active instance and, if the reading is a reply, the sums of MASTER's tests."""
        arm, y = checked_reading(self.field, arm, y)
        if arm in self._selected:
            before = self._posterior.at(arm)
            bound = self._reward(before.mean + self._width() * before.std)
            self._totals += 1.0, self._reward(y), bound
            self._lowest[0] = min(self._lowest[0], bound)
        return super().observe(arm, y)

    def advance(self, dt: float = 1.0) -> None:
        """End the interval of MASTER: test for changes, and begin the instances that are due.

        The length of an instance is a number of intervals, so `dt` must be 1; otherwise
        `ValueError` is raised.
        """
        if dt != 1.0:
            raise counts_intervals(self.name, dt)
        ended = [m for m in range(self._orders + 1) if self._exists(m)]
        super().advance()
        length = self._time - self._began
        if self._bounds_fail(length) or any(
            self._rewards_fail(m) for m in ended if length % (1 << m) == 0
        ):
            self.reset()
        elif length == 1 << self._orders:
            self._begin_block(min(self._orders + 1, len(self._instances) - 1))
        else:
            self._begin_instances()

    def reset(self) -> None:
        """Restart MASTER: discard all readings, and begin a block of one interval."""
        super().reset()
        self._begin_block(0)

    def _begin_block(self, orders: int) -> None:
        self._orders, self._began = orders, self._time
        self._totals[:] = 0.0
        self._lowest[:] = 1.0
        self._begin_instances()

    def _begin_instances(self) -> None:
        """Begin the MASTER instances that start in this interval, and find the active one."""
        for m in range(self._orders, -1, -1):
            if self._exists(m):
                self._order = m
                if (self._time - self._began) % (1 << m) == 0:
                    self._instances[m].reset()
                    self._starts[m] = self._totals[:2]
        self._posterior = self._instances[self._order]

    def _exists(self, m: int) -> bool:
        """Return whether MASTER has an instance of 2^`m` intervals now.

        Procedure 1 of Wei & Luo determines this by a random draw.
        """
        if m == self._orders:
            return True
        began = self._began + ((self._time - self._began) >> m << m)
        u = uniform(self._seed, -1 - (began * MAX_ORDERS + m))
        return u < self._rates[self._orders] / self._rates[m]

    def _rewards_fail(self, m: int) -> bool:
        """Return whether MASTER's test 1 fails for the instance of order `m` that just ended."""
        replies, rewards = self._totals[:2] - self._starts[m]
        most = self._lowest[0] + 9.0 * self._threshold * self._rates[m]
        return bool(replies and rewards / replies >= most)

    def _bounds_fail(self, length: int) -> bool:
        """Return whether MASTER's test 2 fails for the first `length` intervals of the block."""
        replies, rewards, bounds = self._totals
        if not replies:
            return False
        return bool((bounds - rewards) / replies >= 3.0 * self._threshold * self._rate(length))

    def _reward(self, y: float) -> float:
        return min(max((y + self._reach) / (2.0 * self._reach), 0.0), 1.0)

    def _width(self) -> float:
        """Return the bound's width for MASTER's active instance, from this instance's readings."""
        readings = self._posterior.observations
        return self._exploration.width(readings + 1, readings)

    def _state(self) -> State:
        """Return the state of MASTER: of its active instance, paused instances and tests."""
        others = {
            f"instance {m}": posterior.snapshot()
            for m, posterior in enumerate(self._instances)
            if m != self._order
        }
        counts = {"orders": self._orders, "began": self._began, "order": self._order}
        return {**super()._state(), **others, **counts, **self._arrays()}

    def _load(self, state: State) -> None:
        """Load the state of MASTER's instances and tests; on `SnapshotError` nothing changes."""
        orders, began, order = (read_count(state, name) for name in ("orders", "began", "order"))
        check_arrays(self._arrays(), state)
        if not order <= orders < len(self._instances) or began > read_count(state, "time"):
            raise SnapshotError("The snapshot's 'orders', 'order' or 'began' is out of range.")
        instances = [self._make_instance() for _ in self._instances]
        for m, posterior in enumerate(instances):
            if m != order:
                posterior.restore(read_bytes(state, f"instance {m}"))
        before, self._posterior = self._posterior, instances[order]
        try:
            super()._load(state)
        except SnapshotError:
            self._posterior = before
            raise
        copy_arrays(self._arrays(), state)
        self._instances = instances
        self._orders, self._began, self._order = orders, began, order

    def _arrays(self) -> dict[str, AnyArray]:
        return {"totals": self._totals, "lowest": self._lowest, "starts": self._starts}
