"""GLR-klUCB of Besson et al. 2022 on Bernoulli arms: the compiled reference of experiment E12.

The compiled function calls no compiled function of another file, because numba's cache does not
notice a change in that other file.
"""

from math import log

from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array, Int64Array

HALVINGS = 30  # bisection steps that compute the index of an arm


@kernel("f8(f8, f8)")
def divergence(p: float, q: float) -> float:
    """Return kl(p, q), the Kullback-Leibler divergence of Bernoulli arms, for GLR-klUCB.

    p and q are the probabilities of the reward 1, from 0 to 1.
    """
    if p == q:
        return 0.0
    tiny = 1e-15
    q = min(max(q, tiny), 1.0 - tiny)
    kl = 0.0
    if p > 0.0:
        kl += p * log(p / q)
    if p < 1.0:
        kl += (1.0 - p) * log((1.0 - p) / (1.0 - q))
    return kl


@kernel("i8(f8[:, ::1], i8, f8, f8, f8, i8, f8[:, ::1], i8[::1], i8[::1])")
def run_glr_kl_ucb(
    rewards: Array,
    every: int,
    delta: float,
    a: float,
    c: float,
    step: int,
    sums: Array,
    counts: Int64Array,
    picks: Int64Array,
) -> int:
    """Run GLR-klUCB with global restarts, and return the number of its restarts.

    Parameters
    ----------
    rewards : float64[T, K]
        The reward, 0 or 1, of each arm in each interval.
    every : int
        Length of a block, ⌊K/ω⌋ intervals. In the first K intervals of each block, the arms are
        selected in turn. If `every` is 0, the policy is kl-UCB without tests.
    delta : float
        δ of the threshold ln(3 n √n / δ).
    a, c : float
        Weights of the exploration function a ln t + c ln ln t: 1 and 3 in the algorithm of the
        paper, 3 and 0 in its program, 1 and 0 in the usual kl-UCB.
    step : int
        An arm is tested after every `step` readings of this arm. A test tries every `step`-th
        change point.
    sums : float64[K, T + 1], counts : int64[K]
        Work arrays, which are overwritten.
    picks : int64[T]
        Output: the selected arms.

    Notes
    -----
    The index of an arm is the largest q with n kl(mean, q) <= a ln t + c ln ln t. Here n is the
    number of readings of the arm; t is the number of intervals since the last restart, or 3 if
    this number is below 3. Ties go to the first arm.
    """
    T, K = rewards.shape
    counts[:] = 0
    sums[:, 0] = 0.0
    restarts = 0
    since = 0
    for t in range(T):
        arm = (t % every) if every else K
        if arm >= K:
            arm, best = 0, -1.0
            age = max(t - since, 3)
            for k in range(K):
                index = 1.0
                if counts[k]:
                    mean = sums[k, counts[k]] / counts[k]
                    level = (a * log(age) + c * log(log(age))) / counts[k]
                    low, high = mean, 1.0
                    for _ in range(HALVINGS):
                        q = 0.5 * (low + high)
                        if divergence(mean, q) > level:
                            high = q
                        else:
                            low = q
                    index = low
                if index > best:
                    arm, best = k, index
        picks[t] = arm
        n = int(counts[arm]) + 1
        sums[arm, n] = sums[arm, n - 1] + rewards[t, arm]
        counts[arm] = n
        if every and n % step == 0:
            total = float(sums[arm, n])
            for s in range(step, n, step):
                before = float(sums[arm, s])
                ratio = s * divergence(before / s, total / n)
                ratio += (n - s) * divergence((total - before) / (n - s), total / n)
                if ratio >= log(3.0 * n**1.5 / delta):
                    counts[:] = 0
                    since = t + 1
                    restarts += 1
                    break
    return restarts
