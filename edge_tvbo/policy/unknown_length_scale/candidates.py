"""Which length scale to believe in next: always a shorter one, or all of them in balance.

What belongs here: the bookkeeping of A-GP-UCB and of [LB], Ziomek, Adachi & Osborne 2024. It knows
no kernel and no place; `length_scales` holds the readings and asks it what to play. Readings and
widths come in prior standard deviations of the field, so that B and everything compared with it
has no unit.
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

FIRST = 5  # candidates that the growth lets in from the start ([LB] section 5)
MOST = 256  # candidates that are ever let in; growing like ln t, they do not get there
WIDEST = 200.0  # of a norm, ln B/B0: beyond it only exploring is left
HUGE = 1e100  # no sum of readings or widths is

State = dict[str, NDArray[Any]]
Gain = Callable[[int, float], float]  # n, share of the domain's extent -> how γ_n grows


class Hypothesis(NamedTuple):
    """A hypothesis on the field."""

    length_scale: float  # θ, in the unit of the positions
    norm: float  # B, the most the field's norm can be under it, in prior standard deviations

    @property
    def snapshot_key(self) -> str:
        """Return the hypothesis as snapshots of format 1 name it."""
        return f"Play(length_scale={self.length_scale!r}, norm={self.norm!r})"


@dataclass(frozen=True)
class Growth:
    """g(t) = max(t0, t^a), as its logarithm, and what consecutive candidates differ by.

    [LB] section 5 chooses t0 so that five candidates are let in at once: t0 = e^(4 step).

    >>> Growth(step=1.0, exponent=0.5).log(1)
    4.0
    """

    step: float  # ln of the ratio of consecutive length scales: 1/d in definition 3.1
    exponent: float  # a

    def log(self, t: int) -> float:
        """Give ln g(t)."""
        return max((FIRST - 1) * self.step, self.exponent * log(t))


class ShrinkingSchedule:
    """A-GP-UCB: θ_t = θ0/g(t) and B_t = b(t) g(t)^d B0 (Berkenkamp, Schoellig & Krause 2019).

    `norm_exponent` is c in b(t) = t^c.
    """

    def __init__(
        self, first: Hypothesis, growth: Growth, dimension: int, norm_exponent: float
    ) -> None:
        self.settings = f"shrinking {first.snapshot_key} {growth!r} {norm_exponent!r}"
        self._first = first
        self._growth = growth
        self._dimension = dimension
        self._norm_exponent = norm_exponent

    def plays(self, t: int) -> tuple[Hypothesis, ...]:
        """Give the one hypothesis of interval t = 1, 2, ..."""
        grown = self._growth.log(t)
        widened = self._dimension * grown + self._norm_exponent * log(t)
        norm = self._first.norm * exp(min(widened, WIDEST))
        return (Hypothesis(self._first.length_scale * exp(-grown), norm),)

    def update(self, y: float, bonus: float) -> None:
        """Take no notice."""

    def advance(self, t: int) -> None:
        """Take no notice: the interval says all."""

    def arrays(self) -> State:
        """Give what a snapshot has to hold: nothing."""
        return {}

    def check(self, state: State) -> None:
        """Accept."""


class RegretBalancing:
    """Regret balancing with elimination over length scales and norms ([LB] algorithms 1 and 3).

    Candidates are the pairs of θ0 e^(-i step) and N = B0 e^j with i, j = 0, 1, ...; where the norm
    does not grow, j stays 0 and algorithm 1 is left. Under θ the field's norm is taken to be at
    most B(θ, N) = (θ0/θ)^(d/2) N ([LB] section 2).

    Parameters
    ----------
    first : Play
        θ0 and B0.
    growth : Growth
        Down to θ0/g(t) length scales are let in.
    norm_exponent : float
        c in b(t) = t^c: norms up to B0 b(t) are let in; 0 for B0 alone.
    dimension : int
        d.
    gain : function
        How γ_n(θ) grows, from `gain_rate`; asked with n and θ as a share of `extent`.
    extent : float
        The domain's longest side, in the unit of θ.
    noise_variance : float
        σ_N², in prior variances.
    delta : float
        The probability that a mean of readings errs by more than √(ξ_t/n).

    Notes
    -----
    Where the paper prints what cannot be meant, what its proofs need was taken:

    - Line 14 lets q(l+1) in where it is ≤ θ0/g(t), which is one every interval for ever; section 3
      and the public code want it not below. Likewise in algorithm 3.
    - Line 12 keeps θ where mean - √(ξ/n) + (2/n)Σβσ is not below the best mean - √(ξ/n). Lemma B.2
      shows that a well-specified θ stays with *plus* √(ξ/n) on the left, which is what is done
      here (so does the public code); the printed rule drops good ones when readings are noisy.
    - Algorithm 3 counts Θ and 𝓑 from 1 and proposes q(|Θ|+1); no length scale is left out here.
    - |A| in ξ_t = 2σ_N² ln(|A|π²t²/(6δ)) (lemma B.1) counts those let in so far.
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
        self.settings = f"balanced {first.snapshot_key} {growth!r} {norm_exponent!r}"
        self._first = first
        self._growth = growth
        self._norm_exponent = norm_exponent
        self._dimension = dimension
        self._gain = gain
        self._extent = extent
        self._noise_variance = noise_variance
        self._delta = delta
        self._pairs = np.zeros((MOST, 2), np.int64)  # i and j of each pair, in order of admission
        self._alive = np.zeros(MOST, np.int64)
        self._answers = np.zeros(MOST, np.int64)  # |S|, readings had under each pair
        self._sums = np.zeros(MOST)  # Σ y over them
        self._bonuses = np.zeros(MOST)  # Σ β σ over them
        self._counts = np.array([1, 1, 1, 0])  # pairs, length scales, norms let in; the one in play
        self._alive[0] = 1

    @property
    def candidates(self) -> tuple[Hypothesis, ...]:
        """Give the hypotheses that are let in and not eliminated."""
        return tuple(self._play(pair) for pair in self._survivors())

    def answers(self) -> dict[Hypothesis, int]:
        """Give how many readings each of them had."""
        return {self._play(pair): int(self._answers[pair]) for pair in self._survivors()}

    def suspected(self, play: Hypothesis, n: int) -> float:
        """Give R(n), what n readings under `play` would cost at most, up to a constant."""
        gain = self._gain(n, play.length_scale / self._extent)
        return suspected_regret(n, gain=gain, bound=play.norm)

    def plays(self, t: int) -> tuple[Hypothesis, ...]:
        """Give the hypothesis in play, which stays the same for an interval."""
        return (self._play(int(self._counts[3])),)

    def update(self, y: float, bonus: float) -> None:
        """Credit the hypothesis in play with a reading it asked for, and with its β σ."""
        pair = self._counts[3]
        self._answers[pair] += 1
        self._sums[pair] += y
        self._bonuses[pair] += bonus

    def advance(self, t: int) -> None:
        """End interval t: eliminate (lines 9-13), admit (14-17), and choose the next (3)."""
        self._eliminate(t)
        self._admit(t)
        survivors = self._survivors()
        regrets = [
            self.suspected(self._play(pair), int(self._answers[pair]) + 1) for pair in survivors
        ]
        self._counts[3] = survivors[int(np.argmin(regrets))]  # of equals the first let in

    def arrays(self) -> State:
        """Give the state: the arrays themselves."""
        return {
            "pairs": self._pairs,
            "alive": self._alive,
            "answers": self._answers,
            "sums": self._sums,
            "bonuses": self._bonuses,
            "counts": self._counts,
        }

    def check(self, state: State) -> None:
        """Raise `SnapshotError` where the arrays, sound as such, are no state of this."""
        pairs, scales, norms, now = (int(count) for count in state["counts"])
        alive, whole = state["alive"], (state["pairs"], state["answers"], state["alive"])
        sane = all((array >= 0).all() and (array <= 2**40).all() for array in whole)
        if not (sane and 1 <= pairs <= MOST and 1 <= scales <= pairs and 1 <= norms <= pairs):
            raise SnapshotError("The snapshot's 'counts' do not count.")
        if (state["pairs"] >= [scales, norms]).any() or (alive > 1).any() or alive[pairs:].any():
            raise SnapshotError("The snapshot's 'pairs' are no candidates.")
        if not (0 <= now < pairs and alive[now]):
            raise SnapshotError("The snapshot's candidate in play is out.")
        if max(np.abs(state["sums"]).max(), np.abs(state["bonuses"]).max()) > HUGE:
            raise SnapshotError("The snapshot's 'sums' are beyond any reading.")

    def _eliminate(self, t: int) -> None:
        """Drop those whose readings are worse than their own bounds allow."""
        survivors = self._survivors()
        n = self._answers[survivors].astype(np.float64)
        if not n.all():
            return
        let_in = int(self._counts[0])
        margin = np.sqrt(self._margin(t, let_in) / n)  # √(ξ_t/n)
        mean, bonus = self._sums[survivors] / n, self._bonuses[survivors] / n
        kept = mean + margin + 2.0 * bonus >= np.max(mean - margin)
        self._alive[np.array(survivors)[~kept]] = 0

    def _margin(self, t: int, let_in: int) -> float:
        return 2.0 * self._noise_variance * log(let_in * pi**2 * t**2 / (6.0 * self._delta))

    def _admit(self, t: int) -> None:
        """Let the next length scale in, and the next norm, where growth has come that far."""
        scales, norms = int(self._counts[1]), int(self._counts[2])
        if scales * self._growth.step <= self._growth.log(t):
            self._counts[1] += self._let_in([(scales, j) for j in range(norms)])
        scales = int(self._counts[1])
        if norms <= self._norm_exponent * log(t):
            self._counts[2] += self._let_in([(i, norms) for i in range(scales)])

    def _let_in(self, pairs: list[tuple[int, int]]) -> int:
        """Let these in, where there is room; give whether there was as 0 or 1."""
        at = int(self._counts[0])
        if at + len(pairs) > MOST:
            return 0
        self._pairs[at : at + len(pairs)] = pairs
        self._alive[at : at + len(pairs)] = 1
        self._counts[0] += len(pairs)
        return 1

    def _survivors(self) -> list[int]:
        return [int(pair) for pair in np.flatnonzero(self._alive)]

    def _play(self, pair: int) -> Hypothesis:
        i, j = (int(index) for index in self._pairs[pair])
        shrunk = i * self._growth.step  # ln θ0/θ
        norm = self._first.norm * exp(j + self._dimension / 2.0 * shrunk)
        return Hypothesis(self._first.length_scale * exp(-shrunk), norm)


def gain_rate(nu: float, dimension: int) -> Gain:
    """Give how γ_n(θ) grows for a Matérn kernel, or the squared exponential ([LB] prop. 2.2).

    The Matérn exponent is that of the proposition's proof; see `theory.ziomek2024`.
    """
    if isinf(nu) or nu > MAX_MATERN_NU:
        return lambda n, theta: rbf_gain_rate(n, theta, dimension=dimension)
    return lambda n, theta: matern_gain_rate(n, theta, dimension=dimension, nu=nu)
