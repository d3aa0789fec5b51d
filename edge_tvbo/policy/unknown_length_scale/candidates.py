"""Candidate length scales: a schedule that shrinks one, and regret balancing between several.

A-GP-UCB (Berkenkamp, Schoellig & Krause 2019) and the balancing of [LB], Ziomek, Adachi & Osborne
2024. Nothing here knows a kernel or a place: `posterior` holds the readings and selects which
hypothesis is active. Readings and widths are in prior standard deviations of the field, so that
the norm B and everything compared with it has no unit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, isinf, log, pi
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.spatial_kernels import MAX_MATERN_NU
from edge_tvbo.theory.ziomek2024 import matern_gain_rate, rbf_gain_rate, suspected_regret

INITIAL_CANDIDATES = 5  # admitted by the growth from the start ([LB] section 5)
MAX_CANDIDATES = 256  # ever admitted; a growth like ln t does not reach them
MAX_LOG_NORM_RATIO = 200.0  # ln B/B0: beyond it the policy only explores
MAX_SUM = 1e100  # of readings or widths in a snapshot

State = dict[str, NDArray[Any]]
Gain = Callable[[int, float], float]  # (n, length scale / extent) -> growth of γ_n


class Hypothesis(NamedTuple):
    """A length scale of the field, and the bound on its norm under that length scale."""

    length_scale: float  # θ, in the unit of the positions
    norm: float  # B, the largest norm the field may have, in prior standard deviations


@dataclass(frozen=True)
class Growth:
    """g(t) = max(t0, t^a) as its logarithm, and the ratio of consecutive candidates.

    [LB] section 5 chooses t0 so that five candidates are admitted at once: t0 = e^(4 step).

    >>> Growth(step=1.0, exponent=0.5).log(1)
    4.0
    """

    step: float  # ln of the ratio of consecutive length scales: 1/d in definition 3.1
    exponent: float  # a

    def log(self, t: int) -> float:
        """Return ln g(t)."""
        return max((INITIAL_CANDIDATES - 1) * self.step, self.exponent * log(t))


class ShrinkingSchedule:
    """A-GP-UCB's schedule: θ_t = θ0 / g(t) and B_t = b(t) g(t)^d B0.

    Parameters
    ----------
    first : Hypothesis
        θ0 and B0.
    growth : Growth
        g.
    dimension : int
        d.
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
        """Return the one hypothesis of interval t = 1, 2, ..."""
        log_growth = self._growth.log(t)
        log_norm_ratio = self._dimension * log_growth + self._norm_exponent * log(t)
        norm = self._first.norm * exp(min(log_norm_ratio, MAX_LOG_NORM_RATIO))
        return (Hypothesis(self._first.length_scale * exp(-log_growth), norm),)

    def update(self, y: float, bonus: float) -> None:
        """Ignore the reply: the schedule depends on the interval only."""

    def advance(self, t: int) -> None:
        """Do nothing: the schedule depends on the interval only."""

    def arrays(self) -> State:
        """Return the state that a snapshot holds: none."""
        return {}

    def check(self, state: State) -> None:
        """Accept any state: there is none."""


class RegretBalancing:
    """Regret balancing with elimination over length scales and norms ([LB] algorithms 1 and 3).

    Candidates are the pairs of θ0 e^(-i step) and N = B0 e^j with i, j = 0, 1, ...; where the norm
    does not grow, j stays 0, which is algorithm 1. Under θ the field's norm is bounded by
    B(θ, N) = (θ0/θ)^(d/2) N ([LB] section 2).

    Parameters
    ----------
    first : Hypothesis
        θ0 and B0.
    growth : Growth
        Length scales down to θ0/g(t) are admitted.
    norm_exponent : float
        c in b(t) = t^c: norms up to B0 b(t) are admitted; 0 for B0 alone.
    dimension : int
        d.
    gain : function
        Growth of γ_n(θ), from `gain_rate`; called with n and θ / `extent`.
    extent : float
        The domain's longest side, in the unit of θ.
    noise_variance : float
        σ_N², in prior variances.
    delta : float
        Probability that a mean of readings errs by more than √(ξ_t/n).

    Notes
    -----
    Deviations from [LB] as printed, where its proofs need something else:

    - Line 14 admits q(l+1) where it is ≤ θ0/g(t), which is one in every interval for ever; section
      3 and the public code admit it where it is not below. Likewise in algorithm 3.
    - Line 12 keeps θ where mean - √(ξ/n) + (2/n)Σβσ is not below the best mean - √(ξ/n). Lemma B.2
      shows that a well-specified θ stays with *plus* √(ξ/n) on the left, which is used here and in
      the public code; the printed rule drops good ones when readings are noisy.
    - Algorithm 3 counts Θ and 𝓑 from 1 and proposes q(|Θ|+1); no length scale is left out here.
    - |A| in ξ_t = 2σ_N² ln(|A|π²t²/(6δ)) (lemma B.1) counts the candidates admitted so far.
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
        # i and j of each candidate, in the order of their admission
        self._pairs = np.zeros((MAX_CANDIDATES, 2), np.int64)
        self._alive = np.zeros(MAX_CANDIDATES, np.int64)
        self._replies = np.zeros(MAX_CANDIDATES, np.int64)  # |S|, replies under each candidate
        self._sums = np.zeros(MAX_CANDIDATES)  # Σ y over them
        self._bonuses = np.zeros(MAX_CANDIDATES)  # Σ β σ over them
        # candidates, length scales and norms admitted; the active candidate
        self._counts = np.array([1, 1, 1, 0])
        self._alive[0] = 1

    @property
    def candidates(self) -> tuple[Hypothesis, ...]:
        """The hypotheses that are admitted and not eliminated."""
        return tuple(self._hypothesis(pair) for pair in self._surviving())

    def replies(self) -> dict[Hypothesis, int]:
        """Return the number of replies under each candidate."""
        return {self._hypothesis(pair): int(self._replies[pair]) for pair in self._surviving()}

    def regret_bound(self, hypothesis: Hypothesis, n: int) -> float:
        """Return R(n), the suspected regret of n replies under a hypothesis, up to a constant."""
        gain = self._gain(n, hypothesis.length_scale / self._extent)
        return suspected_regret(n, gain=gain, bound=hypothesis.norm)

    def hypotheses(self, t: int) -> tuple[Hypothesis, ...]:
        """Return the active hypothesis, which is the same for a whole interval."""
        return (self._hypothesis(int(self._counts[3])),)

    def update(self, y: float, bonus: float) -> None:
        """Add a reply, and the β σ it was selected with, to the active hypothesis."""
        pair = self._counts[3]
        self._replies[pair] += 1
        self._sums[pair] += y
        self._bonuses[pair] += bonus

    def advance(self, t: int) -> None:
        """End interval t: eliminate (lines 9-13), admit (14-17), and choose the next (3)."""
        self._eliminate(t)
        self._admit_next(t)
        surviving = self._surviving()
        bounds = [
            self.regret_bound(self._hypothesis(pair), int(self._replies[pair]) + 1)
            for pair in surviving
        ]
        self._counts[3] = surviving[int(np.argmin(bounds))]  # of equal ones the first admitted

    def arrays(self) -> State:
        """Return the state: the arrays themselves."""
        return {
            "pairs": self._pairs,
            "alive": self._alive,
            "answers": self._replies,
            "sums": self._sums,
            "bonuses": self._bonuses,
            "counts": self._counts,
        }

    def check(self, state: State) -> None:
        """Raise `SnapshotError` where arrays of the right type and shape are no possible state."""
        pairs, scales, norms, active = (int(count) for count in state["counts"])
        alive, whole = state["alive"], (state["pairs"], state["answers"], state["alive"])
        countable = all((array >= 0).all() and (array <= 2**40).all() for array in whole)
        admitted = 1 <= pairs <= MAX_CANDIDATES and 1 <= scales <= pairs and 1 <= norms <= pairs
        if not (countable and admitted):
            raise SnapshotError("The snapshot's 'counts' are out of range.")
        if (state["pairs"] >= [scales, norms]).any() or (alive > 1).any() or alive[pairs:].any():
            raise SnapshotError("The snapshot's 'pairs' are not candidates.")
        if not (0 <= active < pairs and alive[active]):
            raise SnapshotError("The snapshot's active candidate is eliminated.")
        if max(np.abs(state["sums"]).max(), np.abs(state["bonuses"]).max()) > MAX_SUM:
            raise SnapshotError("The snapshot's 'sums' are beyond any reading.")

    def _eliminate(self, t: int) -> None:
        """Eliminate candidates whose replies are worse than their own bounds allow."""
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
        """Admit the next length scale and the next norm, where the growth allows them."""
        scales, norms = int(self._counts[1]), int(self._counts[2])
        if scales * self._growth.step <= self._growth.log(t):
            self._counts[1] += self._admit([(scales, j) for j in range(norms)])
        scales = int(self._counts[1])
        if norms <= self._norm_exponent * log(t):
            self._counts[2] += self._admit([(i, norms) for i in range(scales)])

    def _admit(self, pairs: list[tuple[int, int]]) -> int:
        """Admit all of the pairs and return 1, or return 0 where there is no room for them."""
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
    """Return the growth of γ_n(θ) for a Matérn kernel, or the squared exponential ([LB] prop. 2.2).

    The Matérn exponent is that of the proposition's proof; see `theory.ziomek2024`.
    """
    if isinf(nu) or nu > MAX_MATERN_NU:
        return lambda n, theta: rbf_gain_rate(n, theta, dimension=dimension)
    return lambda n, theta: matern_gain_rate(n, theta, dimension=dimension, nu=nu)


def _snapshot_key(kind: str, first: Hypothesis, growth: Growth, norm_exponent: float) -> str:
    """Return the text that a snapshot must agree with; its words are those of version 0.1."""
    return (
        f"{kind} Play(length_scale={first.length_scale!r}, norm={first.norm!r})"
        f" Growth(step={growth.step!r}, exponent={growth.exponent!r}) {norm_exponent!r}"
    )
