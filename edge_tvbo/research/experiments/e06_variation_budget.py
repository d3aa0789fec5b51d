"""E6: functions with a limited total change (variation budget), and policies that know this limit.

Source: [ET] appendix B, table 2; the settings are in tables 8 and 9. The paper uses the code of
Deng et al. 2022. The experiment has three cases:

- (a) a function on [0, 1] that is replaced at t = 100 and t = 200, with T = 500
- (b) a function on [0, 1] that changes slowly, with T = 500
- (c) the prices of 48 shares on 823 days

The functions of (a) and (b) are those of `benchmark_functions`, because the functions of the paper
could not be obtained. The `notes` of `VariationBudget` list the differences from the paper.

The data of (c) are not public. Case (c) is run if a directory of ``--data-dir`` contains a file of
share prices: ``stocks.csv``, or else ``djia29_daily.csv.gz``, the closing prices of 29 other shares
on 823 days. If ``--data-dir`` names one of these files itself, the named file is used. The file has
a row for each day. The first column is the time, and each other column has the prices of one share.
The prices are normalised to mean 0 and standard deviation 1, and the covariance is computed from
the prices; the noise variance σ² is .01. Days without any price, such as Sundays, are omitted. The
regrets of (c) in table 2 are 3 to 55 per day. From the size of these regrets, we conclude that they
are in dollars. The published values in `TABLE` do not include these regrets.

The paper leaves some settings open. These settings were chosen as follows:

- The noise variance σ² of (a) and (b) is .1, as in the text of appendix B. Table 8 states {.01, 1}.
  Figure 6 has the value 1, so the experiment is also run with this value.
- The period H of BR-GP-UCB and the window w of SW-GP-UCB are γ_T^(1/4) (T/P_T)^(1/2) ([ZS21]
  remarks 2 and 3). γ_T is the information gain of T greedily chosen readings. P_T is the true
  variation of the function of each run, in the norm of the kernel.
- The discount factor of W-GP-UCB is 1 - 1/w, with the same w.
- β of IGP-UCB, BR-GP-UCB, SW-GP-UCB and W-GP-UCB is B + R √(2(γ + 1 + ln 1/δ)). In this formula, γ
  is the information gain, B = 1, R = σ and δ = .1. β of ET-GP-UCB is .8 ln(4t). ET-GP-UCB has no
  bounds on the time between resets, as in the paper.
- For shares, nothing is random, except the choices of the policy `random`: all runs of any other
  policy are the same. Therefore the standard errors and the tests of R_T use the daily regret in
  ten blocks of time, as in E4.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import squared_exponential
from edge_tvbo.numerics.types import Array
from edge_tvbo.research.confidence import block_means
from edge_tvbo.research.experiments import benchmark_functions
from edge_tvbo.research.experiments.base import Experiment, PolicyCase
from edge_tvbo.research.experiments.curves import BAND, plot_mean_curves
from edge_tvbo.research.experiments.result_table import (
    Cell,
    Expectation,
    Labels,
    PublishedValue,
    ResultTable,
    Row,
    Table,
    case_labels,
)
from edge_tvbo.research.experiments.run_policy import run_policy
from edge_tvbo.research.experiments.statistics import expect_all_less, standard_error
from edge_tvbo.simulation.dataset_lookup import DataSource, search_directories
from edge_tvbo.simulation.recording import Recording
from edge_tvbo.theory import greedy_gain, restart_interval
from edge_tvbo.training.covariance import train

NOISE_VARIANCE = 0.1
ORIGINAL_NOISE_VARIANCE = 1.0  # of [ET] figure 6, with the prior of Deng et al. 2022
STOCKS_NOISE = 0.01
BETA = LogBeta(0.8, 4.0)  # β of ET
DELTA_B = 0.1
WINDOWS_KEPT = 4  # windows that W-GP-UCB keeps, for speed; older readings weigh less than e^-4
JITTER = 1e-6  # added to the kernel's diagonal for the norm, as a share of the largest value
POLICIES = ("igp-ucb", "br-gp-ucb", "sw-gp-ucb", "w-gp-ucb", "et-gp-ucb", "random")
KINDS: dict[str, tuple[Callable[[int], Array], float]] = {
    "abrupt": (benchmark_functions.abrupt, NOISE_VARIANCE),
    "slow": (benchmark_functions.slow, NOISE_VARIANCE),
    "abrupt, σ² = 1": (benchmark_functions.abrupt, ORIGINAL_NOISE_VARIANCE),
    "slow, σ² = 1": (benchmark_functions.slow, ORIGINAL_NOISE_VARIANCE),
}
PUBLISHED_KINDS = ("abrupt", "slow")  # the columns of `TABLE`
STOCKS = "stocks"
FILES = ("stocks.csv", "stocks.csv.gz", "djia29_daily.csv.gz")  # the first file that exists is used
TABLE = {  # [ET] table 2, for other functions: mean and sd of R_T over 20 runs
    "igp-ucb": ((704.6, 238.9), (136.0, 32.2)),
    "br-gp-ucb": ((312.5, 4.3), (153.9, 11.0)),
    "sw-gp-ucb": ((233.2, 9.1), (111.6, 15.7)),
    "w-gp-ucb": ((298.8, 27.3), (197.0, 29.7)),
    "et-gp-ucb": ((55.8, 2.7), (86.3, 42.8)),
}


class ChangingFunction(NamedTuple):
    """A changing function, with the noise of its readings and with its variation P_T."""

    field: SensorField
    values: Array  # (T, M), model units
    noise: Array  # (T,)
    variation: float | None  # P_T; None if it is unknown


class VariationBudget(Experiment):
    """The experiment E6: regret on functions that change abruptly or slowly, and share prices."""

    name = "E6"
    title = "functions with a limited total change (not the functions of the paper)"
    source = (
        "[ET] table 2, figures 5 and 6 a-b, with our own functions and the prices of other shares"
    )
    runs = 20
    revision = 2
    tables = (Table("R_T", "policy", "function"), Table("resets", "policy", "function"))
    notes = """
The functions in E6 are our own, because we do not have the functions of Deng et al. 2022 that the
paper uses. Therefore, only the order of the policies can be compared with the paper. The columns
with the noise variance σ² = 1 are for figure 6 of the paper, in which the noise is as large as the
signal.

- The column `stocks` is for case (c) of the paper, the prices of 48 shares. It has the prices of 29
  other shares on 823 days, with the noise variance σ² = .01; all runs have the same prices. If a
  directory of `--data-dir` has a file `stocks.csv`, E6 uses the prices in this file instead.
  Without prices, E6 leaves out case (c). The covariance of the shares is computed from the same
  prices.
- In the columns `abrupt` and `slow`, σ² is .1, as in appendix B of the paper. Table 8 of the paper
  states .01.
- Each run of E6 has new functions, a new first choice and new noise. In the paper, all runs seem to
  have the same functions. For the shares, appendix B of the paper states 5 runs, and table 9 states
  20.
- The policies `br-gp-ucb`, `sw-gp-ucb` and `w-gp-ucb` are given the variation P_T (the total
  change) of each function. The P_T of the shares is unknown, and 1 is used.
"""

    def __init__(self, data: DataSource, *, horizon: int = benchmark_functions.HORIZON) -> None:
        super().__init__(data)
        self._horizon = horizon

    @cached_property
    def _lines(self) -> dict[float, SensorField]:
        """The fields of experiment E6 on [0, 1]; the keys are the noise variances."""
        places = np.linspace(0.0, 1.0, benchmark_functions.ARMS)
        K = squared_exponential(places, benchmark_functions.LENGTH_SCALE)
        names = [str(arm) for arm in range(benchmark_functions.ARMS)]
        variances = (NOISE_VARIANCE, ORIGINAL_NOISE_VARIANCE)
        return {variance: SensorField(names, K, variance) for variance in variances}

    def data_fingerprints(self) -> dict[str, str]:
        """Return the fingerprint of the share prices; an empty dict if there is no file."""
        return {} if self._prices is None else {"shares": self._prices.fingerprint()}

    @cached_property
    def _prices(self) -> Recording | None:
        path = _stocks_file(self.data.directories)
        return None if path is None else self.data._replace(directories=(str(path),)).load("csv")

    @cached_property
    def _stocks(self) -> ChangingFunction | None:
        """The share prices for experiment E6, or None if there is no file."""
        recording = self._prices
        if recording is None:
            return None
        prices = recording.values[recording.observed.any(axis=1)]
        field = train(prices, recording.sensors, noise_variance=STOCKS_NOISE)
        values = field.to_model(prices)
        return ChangingFunction(field, values, np.zeros(len(values)), None)

    def published(self) -> list[PublishedValue]:
        """Return the mean regrets of [ET] table 2 (a) and (b), for the paper's functions."""
        return [
            PublishedValue({"policy": policy, "function": kind}, "R_T", cell[0], None, 20)
            for policy, cells in TABLE.items()
            for kind, cell in zip(PUBLISHED_KINDS, cells, strict=True)
        ]

    def error(self, results: ResultTable, cell: Cell) -> float:
        """Return the standard error of a cell of experiment E6.

        The error of a regret on share prices is computed over blocks of time. The error of any
        other number is computed over the runs.
        """
        if cell.case["function"] != STOCKS or not cell.number.startswith("R_T"):
            return cell.error
        regret = results.mean("R_T", **cell.case)
        error = standard_error(_block_regrets(results, cell.case))
        return error * cell.mean / regret if regret else 0.0

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Test the order of the policies in experiment E6.

        In table 2 of [ET], ET-GP-UCB is the best policy.
        """
        return [
            expectation
            for kind in results.values_of("function")
            for expectation in _order(results, kind)
        ]

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw the cumulative regret of experiment E6 over time ([ET] figure 5)."""
        kinds = results.values_of("function")
        panels = figure.subplots(1, len(kinds), squeeze=False)[0]
        for axes, kind in zip(panels, kinds, strict=True):
            for policy in POLICIES:
                cases = {policy: case_labels(policy=policy, function=kind)}
                style: dict[str, Any] = {"color": "grey", "ls": ":"} if policy == "random" else {}
                plot_mean_curves(axes, results, "R_t", cases, **style)
            axes.set(title=kind, xlabel="t", ylim=(0, None))
        panels[0].set_ylabel("R_t")
        panels[0].legend(loc="best")
        figure.suptitle(f"[ET] figures 5 and 6, with other functions; {BAND}")

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        """Yield the rows of one run of experiment E6; new functions are drawn for each run."""
        generator = self._generator(seed, run)
        first = int(generator.integers(2**31))
        noise = generator.standard_normal(benchmark_functions.HORIZON)[: self._horizon]
        for kind, (make, variance) in KINDS.items():
            values = make(first)[_thinned(self._horizon)]
            field = self._lines[variance]
            variation = _variation(field.kernel, values)
            function = ChangingFunction(field, values, noise * variance**0.5, variation)
            yield from _rows(run, kind, function, first)
        if self._stocks is not None:
            yield from _rows(run, STOCKS, self._stocks, first)


def _rows(run: int, kind: str, function: ChangingFunction, seed: int) -> Iterator[Row]:
    T = len(function.values)
    gain = float(greedy_gain(function.field, T)[-1])
    length = restart_interval(T, gain=gain, variation=function.variation)
    for case in _cases(length):
        policy = case.make(function.field, seed=seed)
        result = run_policy(policy, function.values, function.noise)
        so_far = result.regret.cumsum()
        numbers = {"R_T": float(so_far[-1]), "resets": float(result.resets)}
        if case.policy == "br-gp-ucb":
            numbers["H"] = float(length)
        if kind == STOCKS:
            numbers["R_T, as in the file"] = float(so_far[-1]) * function.field.scale
        labels = case_labels(policy=case.label, function=kind)
        yield Row(run, labels, numbers, {"R_t": so_far.round(4).tolist()})


def _cases(length: int) -> list[PolicyCase]:
    settings: dict[str, dict[str, Any]] = {
        "br-gp-ucb": {"period": length},
        "sw-gp-ucb": {"window": length},
        "w-gp-ucb": {"gamma": 1.0 - 1.0 / max(length, 2), "window": WINDOWS_KEPT * length},
        "et-gp-ucb": {"delta_b": DELTA_B, "beta": BETA},
    }
    return [PolicyCase(name, name, settings.get(name, {})) for name in POLICIES]


def _variation(K: Array, values: Array) -> float:
    """Return the variation P_T = Σ ‖f_{t+1} - f_t‖ of a function of experiment E6.

    `values` (T, M) contains the function f_t of each interval t. The norm is that of the kernel
    whose matrix is `K` (M, M).
    """
    steps = np.diff(values, axis=0).T
    lifted = K + JITTER * float(K.max()) * np.eye(len(K))
    squares = (steps * np.linalg.solve(lifted, steps)).sum(axis=0)
    return float(np.sqrt(np.maximum(squares, 0.0)).sum())


def _thinned(horizon: int) -> NDArray[np.intp]:
    """Return the indices of `horizon` evenly spaced intervals of a function of experiment E6."""
    return np.arange(horizon) * benchmark_functions.HORIZON // horizon


def _stocks_file(directories: tuple[str, ...]) -> Path | None:
    """Return the path of experiment E6's file of share prices, or None if there is no file.

    Each of `directories` is a directory that can contain the file, or the file itself. If
    `directories` names a file, this file is used before a file in a directory.
    """
    searched = [Path(each) for each in search_directories(directories)]
    contained = [entry / name for name in FILES for entry in searched]
    files = (each for each in [*searched, *contained] if each.name in FILES and each.is_file())
    return next(files, None)


def _block_regrets(results: ResultTable, case: Labels) -> Array:
    """Return experiment E6's mean daily regret in each block of time, times the number of days.

    The mean of these values is about R_T, the regret of all days.
    """
    so_far = results.mean_curve("R_t", case)
    return len(so_far) * block_means(np.diff(so_far, prepend=0.0))


def _order(results: ResultTable, kind: str) -> Iterator[Expectation]:
    """Test whether ET-GP-UCB is the best policy in experiment E6, as in table 2 of [ET].

    If table 2 has a column for `kind`, also test whether all policies rank as in this column.
    """

    def less(ours: str, theirs: str) -> Array:
        a, b = (case_labels(policy=each, function=kind) for each in (ours, theirs))
        if kind == STOCKS:
            return _block_regrets(results, a) - _block_regrets(results, b)
        return results.differences("R_T", a, b)

    others = {each: less("et-gp-ucb", each) for each in POLICIES if each != "et-gp-ucb"}
    yield expect_all_less(f"{kind}: ET-GP-UCB has less regret than every other policy", others)
    if kind in PUBLISHED_KINDS:
        at = PUBLISHED_KINDS.index(kind)
        ranked = sorted(TABLE, key=lambda each: TABLE[each][at][0])
        pairs = {f"{a} before {b}": less(a, b) for a, b in pairwise(ranked)}
        text = f"{kind}: policies rank as in table 2, from low to high regret: {', '.join(ranked)}"
        yield expect_all_less(text, pairs)
