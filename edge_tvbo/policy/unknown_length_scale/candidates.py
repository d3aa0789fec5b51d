"""Candidate length scales: one candidate that shrinks, or several with regret balancing.

The schedule by which a candidate shrinks comes from A-GP-UCB (Berkenkamp, Schoellig & Krause 2019),
and the regret balancing from [LB] (Ziomek, Adachi & Osborne 2024). This module uses neither kernels
nor places; the module `posterior` holds the readings and predicts under the selected hypotheses.
Readings and widths are in units of the field's prior standard deviation. The norm B, and all values
that are compared with B, therefore have no unit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import exp, isinf, log, pi
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.spatial_kernels import MAX_MATERN_NU
from edge_tvbo.theory.ziomek2024 import matern_gain_rate, rbf_gain_rate, suspected_regret

INITIAL_CANDIDATES = 5  # number of candidates at the start ([LB] section 5)
MAX_CANDIDATES = 256  # largest number of candidates; a growth like ln t does not reach it
MAX_LOG_NORM_RATIO = 200.0  # largest ln B/B0; with such a large B, the policy only explores

State = dict[str, NDArray[Any]]
Gain = Callable[[int, float], float]  # (n, length scale / extent) -> growth rate of γ_n


class Hypothesis(NamedTuple):
    """A possible length scale, and the bound on the field's norm for this length scale."""

    length_scale: float  # θ, in the unit of the positions
    norm: float  # B, largest norm of the field, in prior standard deviations


@dataclass(frozen=True)
class Growth:
    """The growth g(t) = max(t0, t^a) of the range of candidate length scales.

    `step` is the logarithm of the ratio of neighbouring candidates.

    In interval t, the shortest candidate is the longest candidate divided by g(t). [LB] section 5
    chooses t0 so that there are at least five candidates at the start. This class starts with
    exactly five candidates: t0 = e^(4 step).

    >>> Growth(step=1.0, exponent=0.5).log(1)
    4.0
    """

    step: float  # ln of the ratio of consecutive length scales: 1/d in definition 3.1
    exponent: float  # a

    def log(self, t: int) -> float:
        """Return the logarithm of the growth of the candidate range, ln g(t)."""
        return max((INITIAL_CANDIDATES - 1) * self.step, self.exponent * log(t))


class ShrinkingSchedule:
    """The schedule of A-GP-UCB: length scale θ_t = θ0 / g(t), norm B_t = b(t) g(t)^d B0.

    Parameters
    ----------
    first : Hypothesis
        First length scale θ0 and first norm B0.
    growth : Growth
        The growth g.
    dimension : int
        d, dimension of the domain.
    norm_exponent : float
        c in b(t) = t^c.
    """

    def __init__(
        self, first: Hypothesis, growth: Growth, dimension: int, norm_exponent: float
    ) -> None:
        self.snapshot_key = _snapshot_key("shrinking", first, growth, norm_exponent)
        self._first = first
        self._growth = growth
        self._dimension = dimension
        self._norm_exponent = norm_exponent

    def hypotheses(self, t: int) -> tuple[Hypothesis, ...]:
        """Return the shrinking schedule's only candidate in interval t = 1, 2, ..."""
        log_growth = self._growth.log(t)
        log_norm_ratio = self._dimension * log_growth + self._norm_exponent * log(t)
        norm = self._first.norm * exp(min(log_norm_ratio, MAX_LOG_NORM_RATIO))
        return (Hypothesis(self._first.length_scale * exp(-log_growth), norm),)

    def update(self, y: float, bonus: float) -> None:
        """Ignore the reply: the shrinking schedule's candidate depends only on the interval."""

    def advance(self, t: int) -> None:
        """Do nothing: the shrinking schedule's candidate depends only on the interval."""

    def reset(self) -> None:
        """Do nothing: the shrinking schedule's candidate depends only on the interval."""

    def arrays(self) -> State:
        """Return no arrays: the shrinking schedule of the candidate has no state."""
        return {}

    def check(self, state: State) -> None:
        """Accept any state, because the candidate's shrinking schedule has no state to check."""


class RegretBalancing:
    """Regret balancing between length scales and norms ([LB] algorithms 1 and 3).

    Candidates are the pairs of a length scale θ = θ0 e^(-i step) and a norm N = B0 e^j with i, j =
    0, 1, ... In algorithm 1 the norm does not grow, and j is always 0. If the length scale is θ,
    the bound on the field's norm is B(θ, N) = (θ0/θ)^(d/2) N ([LB] section 2). A candidate
    is eliminated if replies contradict it.

    Parameters
    ----------
    first : Hypothesis
        First length scale θ0 and first norm B0.
    growth : Growth
        The growth g; length scales down to θ0/g(t) are admitted.
    norm_exponent : float
        c in b(t) = t^c. Norms up to B0 b(t) are admitted; if c is 0, only B0 is admitted.
    dimension : int
        d, dimension of the domain.
    gain : function
        Growth rate of the information gain γ_n(θ) of n readings, as a function of n and
        θ / `extent`; `gain_rate` returns such functions.
    extent : float
        Longest side of the domain, in the unit of θ.
    noise_variance : float
        σ_N², in units of the prior variance.
    delta : float
        Probability that the mean of n readings has an error above √(ξ_t/n).

    Notes
    -----
    The printed algorithms of [LB] differ from what the proofs need in these points. q(l) and v(l)
    are the length scale and the norm with the number l, and A is the set of the candidates.

    - Line 14 admits the candidate q(l+1) if q(l+1) ≤ θ0/g(t). With this rule, every interval would
      admit a candidate if g(t) = √t, and no interval would admit one with the g of `Growth`.
      Section 3 and the public code admit q(l+1) if q(l+1) ≥ θ0/g(t). This condition is used here,
      for algorithm 3 too.
    - Line 12 compares each θ with the candidate that has the largest mean - √(ξ/n). θ is kept if
      mean - √(ξ/n) + (2/n)Σβσ of θ is at least this largest value. With noise, this rule drops
      good candidates. Lemma B.2 shows that a well-specified θ is kept if the rule uses
      mean *plus* √(ξ/n) for θ. The plus sign is used here and in the public code.
    - Algorithms 1 and 3 begin with θ0 = q(0) and a count of 1, and then propose q(2), so that
      q(1) is skipped. Algorithm 3 skips v(1) in the same way. Here, no length scale and no norm
      is skipped.
    - |A| in ξ_t = 2σ_N² ln(|A|π²t²/(6δ)) (lemma B.1) is the number of candidates admitted so far.
    """

    def __init__(
        self,
        first: Hypothesis,
        growth: Growth,
        norm_exponent: float,
        *,
        dimension: int,
        gain: Gain,
        extent: float,
        noise_variance: float,
        delta: float,
    ) -> None:
        self.snapshot_key = _snapshot_key("balanced", first, growth, norm_exponent)
        self._first = first
        self._growth = growth
        self._norm_exponent = norm_exponent
        self._dimension = dimension
        self._gain = gain
        self._extent = extent
        self._noise_variance = noise_variance
        self._delta = delta
        # exponents i and j of each candidate, in the order of admission
        self._pairs = np.zeros((MAX_CANDIDATES, 2), np.int64)
        self._alive = np.zeros(MAX_CANDIDATES, np.int64)
        # |S|, number of replies under each candidate
        self._replies = np.zeros(MAX_CANDIDATES, np.int64)
        self._sums = np.zeros(MAX_CANDIDATES)  # Σ y over these replies
        self._bonuses = np.zeros(MAX_CANDIDATES)  # Σ β σ over these replies
        # numbers of candidates, length scales and norms admitted; index of the active candidate
        self._counts = np.array([1, 1, 1, 0])
        self._alive[0] = 1
        self._balanced = b""  # state after `_balance` last ran

    @property
    def candidates(self) -> tuple[Hypothesis, ...]:
        """The current candidates, each a `Hypothesis`; eliminated candidates are left out."""
        return tuple(self._hypothesis(pair) for pair in self._surviving())

    def replies(self) -> dict[Hypothesis, int]:
        """Return the number of replies of each candidate; eliminated candidates are left out.

        A reply counts for the candidate that was active when the reply arrived.
        """
        return {self._hypothesis(pair): int(self._replies[pair]) for pair in self._surviving()}

    def regret_bound(self, hypothesis: Hypothesis, n: int) -> float:
        """Return a candidate's suspected regret R(n) after n replies.

        The formula contains the information gain γ_n. Here, the growth rate of γ_n replaces γ_n.
        """
        gain = self._gain(n, hypothesis.length_scale / self._extent)
        return suspected_regret(n, gain=gain, bound=hypothesis.norm)

    def hypotheses(self, t: int) -> tuple[Hypothesis, ...]:
        """Return a tuple of one hypothesis: the active candidate of the current interval."""
        return (self._hypothesis(int(self._counts[3])),)

    def update(self, y: float, bonus: float) -> None:
        """Add the reply `y` and the `bonus` (β σ of the arm) to the active candidate's sums."""
        pair = self._counts[3]
        self._replies[pair] += 1
        self._sums[pair] += y
        self._bonuses[pair] += bonus

    def advance(self, t: int) -> None:
        """End interval t: eliminate candidates, admit new ones, and choose the active candidate.

        In algorithm 1 of [LB], the three steps are lines 9-13, lines 14-17 and line 3. The third
        step is skipped if the state has not changed since this step last ran.
        """
        self._eliminate(t)
        self._admit_next(t)
        if self._balanced != self._state():
            self._balance()
            self._balanced = self._state()

    def _balance(self) -> None:
        """Choose the candidate with the lowest suspected regret after one more reply."""
        surviving = self._surviving()
        bounds = [
            self.regret_bound(self._hypothesis(pair), int(self._replies[pair]) + 1)
            for pair in surviving
        ]
        # if several bounds are equal: the candidate that was admitted first
        self._counts[3] = surviving[int(np.argmin(bounds))]

    def reset(self) -> None:
        """Discard all candidates' replies, and restore the candidates that were eliminated."""
        for array in (self._replies, self._sums, self._bonuses):
            array[:] = 0
        self._alive[: self._counts[0]] = 1

    def arrays(self) -> State:
        """Return the arrays with the state of the candidates and their replies, without a copy."""
        return {
            "pairs": self._pairs,
            "alive": self._alive,
            "answers": self._replies,
            "sums": self._sums,
            "bonuses": self._bonuses,
            "counts": self._counts,
        }

    def check(self, state: State) -> None:
        """Raise `SnapshotError` unless the arrays are a valid state of the candidates."""
        pairs, scales, norms, active = (int(count) for count in state["counts"])
        alive, whole = state["alive"], (state["pairs"], state["answers"], state["alive"])
        countable = all((array >= 0).all() and (array <= 2**40).all() for array in whole)
        admitted = 1 <= pairs <= MAX_CANDIDATES and 1 <= scales <= pairs and 1 <= norms <= pairs
        if not (countable and admitted):
            raise SnapshotError("The snapshot's 'counts' are out of range.")
        if (state["pairs"] >= [scales, norms]).any() or (alive > 1).any() or alive[pairs:].any():
            raise SnapshotError("The snapshot's 'pairs' contain candidates that do not exist.")
        if not (0 <= active < pairs and alive[active]):
            raise SnapshotError("The snapshot's active candidate was eliminated.")

    def _state(self) -> bytes:
        """Return the candidates, their replies and the active candidate, as bytes."""
        return b"".join(
            each.tobytes() for each in (self._pairs, self._alive, self._replies, self._counts)
        )

    def _eliminate(self, t: int) -> None:
        """Eliminate each candidate whose mean reply is too low (line 12 of [LB] algorithm 1)."""
        surviving = self._surviving()
        n = self._replies[surviving].astype(np.float64)
        if not n.all():
            return
        admitted = int(self._counts[0])
        margin = np.sqrt(self._margin(t, admitted) / n)  # √(ξ_t/n)
        mean, bonus = self._sums[surviving] / n, self._bonuses[surviving] / n
        kept = mean + margin + 2.0 * bonus >= np.max(mean - margin)
        self._alive[np.array(surviving)[~kept]] = 0

    def _margin(self, t: int, admitted: int) -> float:
        return 2.0 * self._noise_variance * log(admitted * pi**2 * t**2 / (6.0 * self._delta))

    def _admit_next(self, t: int) -> None:
        """Admit the next length scale and the next norm as candidates if `t` is large enough."""
        scales, norms = int(self._counts[1]), int(self._counts[2])
        if scales * self._growth.step <= self._growth.log(t):
            self._counts[1] += self._admit([(scales, j) for j in range(norms)])
        scales = int(self._counts[1])
        if norms <= self._norm_exponent * log(t):
            self._counts[2] += self._admit([(i, norms) for i in range(scales)])

    def _admit(self, pairs: list[tuple[int, int]]) -> int:
        """Admit all `pairs` as candidates and return 1; if not all fit, admit none and return 0."""
        at = int(self._counts[0])
        if at + len(pairs) > MAX_CANDIDATES:
            return 0
        self._pairs[at : at + len(pairs)] = pairs
        self._alive[at : at + len(pairs)] = 1
        self._counts[0] += len(pairs)
        return 1

    def _surviving(self) -> list[int]:
        return [int(pair) for pair in np.flatnonzero(self._alive)]

    def _hypothesis(self, pair: int) -> Hypothesis:
        i, j = (int(index) for index in self._pairs[pair])
        log_ratio = i * self._growth.step  # ln θ0/θ
        norm = self._first.norm * exp(j + self._dimension / 2.0 * log_ratio)
        return Hypothesis(self._first.length_scale * exp(-log_ratio), norm)


def gain_rate(nu: float, dimension: int) -> Gain:
    """Return a function that computes the growth rate of a candidate's information gain γ_n(θ).

    The arguments of the function are n, and the length scale θ divided by the longest side of the
    domain. The kernel is a Matérn or squared exponential kernel. The source is [LB] proposition
    2.2; for Matérn kernels, the exponent is taken from the proof of the proposition
    (`theory.ziomek2024`).
    """
    if isinf(nu) or nu > MAX_MATERN_NU:
        return partial(rbf_gain_rate, dimension=dimension)
    return partial(matern_gain_rate, dimension=dimension, nu=nu)


def _snapshot_key(kind: str, first: Hypothesis, growth: Growth, norm_exponent: float) -> str:
    """Return the text that identifies a selector of candidates in snapshots.

    The form of this text has not changed since version 0.1.
    """
    return (
        f"{kind} Play(length_scale={first.length_scale!r}, norm={first.norm!r})"
        f" Growth(step={growth.step!r}, exponent={growth.exponent!r}) {norm_exponent!r}"
    )
