"""E6: functions whose change has a budget, and the policies that are told how large it is.

[ET] appendix B, table 2 (settings: tables 8 and 9), run on the code of Deng et al. 2022: (a) a
function on [0, 1] that is replaced at t = 100 and t = 200, (b) one that changes slowly, T = 500,
(c) 48 stock prices of 823 days. **What the functions of (a) and (b) are could not be had**: ours,
in `functions`, are of our own making. So the printed numbers stand beside ours for their order
alone; how far apart they are says nothing.

(c) is no public file. Whoever has it, or any like it, puts ``stocks.csv`` (a row for each day, a
column for each share, the first column the time) into a directory given with ``--data-dir``; then
it is played, and left out without. All of it is normalised to mean 0 and deviation 1 and gives the
covariance, σ² = .01; days without a price at all (Sundays) are left out. Table 2's regrets of (c),
13 to 55 a day, must be in dollars, and are not among the printed.

Settings where the paper leaves a choice:

- σ² = .1: the text of appendix B says so; table 8 says {.01, 1}, of which 1 is the first version.
- H, w and 1/(1-γ) are γ_T^(1/4) (T/P_T)^(1/2) ([ZS21] remarks 2 and 3), γ_T the greedy gain and
  P_T the true one of each run's function, in the kernel's norm: they are told what they rely on.
  Of shares nobody knows P_T, and it is 1.
- β of the agnostic policies is B + R √(2(γ + 1 + ln 1/δ)) with B = 1, R = σ, δ = .1; that of ET is
  .8 ln(4t). ET is without bounds, as in the paper.
- Functions, first choice and noise are drawn anew in each run; in the paper the functions seem to
  stay, so small is the spread. Of shares nothing but the first choice differs.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import squared_exponential
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy import make_policy
from edge_tvbo.research.experiments import benchmark_functions
from edge_tvbo.research.experiments.base import Expectation, PublishedValue, Row, Summary
from edge_tvbo.research.experiments.run_policy import play, rng
from edge_tvbo.simulation import dataset_lookup
from edge_tvbo.theory import greedy_gain, restart_interval, window_length
from edge_tvbo.training.covariance import train

NOISE_VARIANCE = 0.1
STOCKS_NOISE = 0.01
BETA = LogBeta(0.8, 4.0)  # of ET
DELTA_B = 0.1
REACH = 4  # of W: weights below e^-4 of a new reading's are left out, for speed
JITTER = 1e-6  # in the norm of a change: of the kernel's variance
POLICIES = ("igp-ucb", "br-gp-ucb", "sw-gp-ucb", "w-gp-ucb", "et-gp-ucb", "random")
KINDS: dict[str, Callable[[int], benchmark_functions.Drift]] = {
    "abrupt": benchmark_functions.abrupt,
    "slow": benchmark_functions.slow,
}
STOCKS = "stocks"
FILES = ("stocks.csv", "stocks.csv.gz")
TABLE = {  # [ET] table 2, other functions than ours: mean and sd of R_T over 20 runs
    "igp-ucb": ((704.6, 238.9), (136.0, 32.2)),
    "br-gp-ucb": ((312.5, 4.3), (153.9, 11.0)),
    "sw-gp-ucb": ((233.2, 9.1), (111.6, 15.7)),
    "w-gp-ucb": ((298.8, 27.3), (197.0, 29.7)),
    "et-gp-ucb": ((55.8, 2.7), (86.3, 42.8)),
}


class Problem(NamedTuple):
    """What is to be followed, and what is known of it beforehand."""

    field: SensorField
    values: Array  # (T, M), model units
    noise: Array  # (T,)
    variation: float | None  # P_T; None where nobody knows it


class VariationBudget:
    """R_T of each policy on functions that change abruptly, or slowly; and on share prices."""

    name = "E6"
    title = "a budget of change (functions of our own: not those of the paper)"
    source = "[ET] table 2, for the order alone: its functions could not be had"
    runs = 20
    block = 1

    def __init__(
        self, data_dirs: tuple[str, ...] = (), *, horizon: int = benchmark_functions.HORIZON
    ) -> None:
        self._data_dirs = data_dirs
        self._horizon = horizon

    @cached_property
    def _line(self) -> SensorField:
        places = np.linspace(0.0, 1.0, benchmark_functions.ARMS)
        K = squared_exponential(places, benchmark_functions.LENGTH_SCALE)
        return SensorField([str(arm) for arm in range(benchmark_functions.ARMS)], K, NOISE_VARIANCE)

    @cached_property
    def _stocks(self) -> Problem | None:
        """What a user's file of prices makes, if there is one."""
        path = _stocks_file(self._data_dirs)
        if path is None:
            return None
        recording = dataset_lookup.recording("csv", [str(path)])
        prices = recording.values[recording.observed.any(axis=1)]
        field = train(prices, tuple(recording.sensors), noise_variance=STOCKS_NOISE)
        values = (prices - field.center) / field.scale
        return Problem(field, values, np.zeros(len(values)), None)

    def measure(self, runs: range, seed: int) -> list[Row]:
        """Carry out some runs: other functions in each."""
        return [row for run in runs for row in self._run(run, seed)]

    def printed(self) -> list[PublishedValue]:
        """Give the means of table 2 (a) and (b); its functions are not these, nor its spreads."""
        return [
            PublishedValue({"policy": policy, "function": kind}, "R_T", cell[0], None, 20)
            for policy, cells in TABLE.items()
            for kind, cell in zip(KINDS, cells, strict=True)
        ]

    def claims(self, summary: Summary) -> list[Expectation]:
        """Look whether ET is first, as it is in the paper, and who stands where."""
        played = [kind for kind in (*KINDS, STOCKS) if _played(summary, kind)]
        return [claim for kind in played for claim in _order(summary, kind)]

    def draw(self, figure: Any, rows: Sequence[Row], summary: Summary) -> None:
        """Draw cumulative regret over time (figure 5)."""
        kinds = [kind for kind in (*KINDS, STOCKS) if _played(summary, kind)]
        panels = figure.subplots(1, len(kinds), squeeze=False)[0]
        for axes, kind in zip(panels, kinds, strict=True):
            for policy in POLICIES:
                case = {"policy": policy, "function": kind}
                curves = np.array([row.curves["R_t"] for row in rows if row.case == case])
                t = np.arange(1, curves.shape[1] + 1)
                (line,) = axes.plot(t, curves.mean(axis=0), label=policy)
                if policy == "random":
                    line.set(color="grey", linestyle=":")
            axes.set(title=kind, xlabel="t", ylim=(0, None))
            axes.grid(alpha=0.3)
        panels[0].set_ylabel("R_t")
        panels[0].legend(fontsize=8)

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = rng(self.name, seed, run)
        first = int(generator.integers(2**31))
        noise = generator.standard_normal(benchmark_functions.HORIZON) * NOISE_VARIANCE**0.5
        for kind, make in KINDS.items():
            values = make(first).values[_thinned(self._horizon)]
            variation = _variation(self._line.kernel, values)
            problem = Problem(self._line, values, noise[: self._horizon], variation)
            yield from _rows(run, kind, problem, first)
        if self._stocks is not None:
            yield from _rows(run, STOCKS, self._stocks, first)


def _rows(run: int, kind: str, problem: Problem, seed: int) -> Iterator[Row]:
    T = len(problem.values)
    gain = float(greedy_gain(problem.field, T)[-1])
    length = restart_interval(T, gain=gain, variation=problem.variation)
    window = window_length(T, gain=gain, variation=problem.variation)
    for name in POLICIES:
        settings = _settings(name, length, window)
        policy = make_policy(name, problem.field, seed=seed, **settings)
        played = play(policy, problem.values, problem.noise)
        so_far = played.regret.cumsum()
        numbers = {"R_T": float(so_far[-1]), "resets": float(played.resets)}
        if name == "br-gp-ucb":
            numbers["H"] = float(length)
        if kind == STOCKS:
            numbers["R_T, as in the file"] = float(so_far[-1]) * problem.field.scale
        case = {"policy": name, "function": kind}
        yield Row(run, case, numbers, {"R_t": so_far.round(4).tolist()})


def _settings(name: str, length: int, window: int) -> dict[str, Any]:
    """Give what a policy is told."""
    match name:
        case "br-gp-ucb":
            return {"period": length}
        case "sw-gp-ucb":
            return {"window": window}
        case "w-gp-ucb":
            return {"gamma": 1.0 - 1.0 / max(window, 2), "window": REACH * window}
        case "et-gp-ucb":
            return {"delta_b": DELTA_B, "beta": BETA}
        case _:
            return {}


def _variation(K: Array, values: Array) -> float:
    """Give P_T = Σ ‖f_{t+1} - f_t‖, in the norm of the kernel `K`, as far as arms show it."""
    steps = np.diff(values, axis=0).T
    lifted = K + JITTER * float(K.max()) * np.eye(len(K))
    squares = (steps * np.linalg.solve(lifted, steps)).sum(axis=0)
    return float(np.sqrt(np.maximum(squares, 0.0)).sum())


def _thinned(horizon: int) -> NDArray[np.intp]:
    """Give the intervals of the paper's horizon that a shorter one plays, evenly spread."""
    return np.arange(horizon) * benchmark_functions.HORIZON // horizon


def _stocks_file(data_dirs: tuple[str, ...]) -> Path | None:
    """Give the first file of prices in the directories of data, or named itself."""
    for entry in map(Path, dataset_lookup.directories(data_dirs)):
        for path in (entry, *(entry / name for name in FILES)):
            if path.name in FILES and path.is_file():
                return path
    return None


def _played(summary: Summary, kind: str) -> bool:
    return any(cell.case["function"] == kind for cell in summary.cells)


def _order(summary: Summary, kind: str) -> list[Expectation]:
    total = {each: summary.mean("R_T", policy=each, function=kind) for each in POLICIES}
    ranked = sorted(total, key=total.__getitem__)
    order = ", ".join(f"{each} {total[each]:.0f}" for each in ranked)
    found = [Expectation(f"{kind}: ET-GP-UCB is first ({order})", ranked[0] == "et-gp-ucb")]
    if kind in KINDS:
        at = list(KINDS).index(kind)
        theirs = sorted(TABLE, key=lambda each: TABLE[each][at][0])
        ours = [each for each in ranked if each in TABLE]
        found.append(
            Expectation(f"{kind}: the order of table 2 ({', '.join(theirs)})", ours == theirs)
        )
    return found
