"""Statistics of experiments: means over runs, paired tests, differences from published values."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.numerics.types import Array
from edge_tvbo.plugins import optional_module
from edge_tvbo.research.experiments.result_table import (
    Cell,
    Expectation,
    PublishedValue,
    ResultTable,
    Row,
    case_labels,
)

SIGNIFICANCE_LEVEL = 0.01  # is divided by the number of comparisons of an expectation
ROUNDING = 1e-12  # differences are identical if (range / largest difference) is at most this
MIN_RUNS = 10  # with fewer paired differences, their standard deviation is too uncertain


def summarise(rows: Iterable[Row]) -> ResultTable:
    """Return, for each case, the mean and standard deviation of each number over the runs."""
    rows = list(rows)
    values: dict[tuple[str, tuple[tuple[str, str], ...]], list[float]] = {}
    for row in rows:
        for number, value in row.numbers.items():
            values.setdefault((number, tuple(row.case.items())), []).append(value)
    return ResultTable(
        [
            Cell(
                dict(case),
                number,
                float(np.mean(each)),
                float(np.std(each, ddof=1)) if len(each) > 1 else 0.0,
                len(each),
            )
            for (number, case), each in values.items()
        ],
        rows,
    )


def standard_errors_apart(cell: Cell, published: PublishedValue) -> float | None:
    """Return the mean of an experiment's cell minus the published mean, in standard errors.

    The standard error is that of the difference. The result is None if the paper states no standard
    deviation, if the experiment has only one run, or if the standard error is 0.
    """
    if published.sd is None or cell.runs < 2:
        return None
    error = float(np.hypot(cell.error, published.sd / published.runs**0.5))
    return (cell.mean - published.mean) / error if error > 0 else None


def scipy_stats() -> Any:
    """Return the module `scipy.stats`, for tests; raise `MissingExtra` without scipy."""
    return optional_module("scipy.stats", "scipy, which tests differences,", "science")


class PairedTest(NamedTuple):
    """A t-test of the hypothesis that the mean of paired differences is 0.

    >>> str(PairedTest(-0.031, 0.004, -7.75, 4e-10, 50))
    'difference -0.0310 ± 0.0040, t(49) = -7.8, p = 4e-10'
    """

    difference: float  # mean of the differences
    error: float  # standard error of the mean
    statistic: float  # t, with one degree of freedom less than there are pairs
    p: float  # two-sided; 1 if there are fewer than two pairs
    pairs: int

    def __str__(self) -> str:
        text = f"difference {with_error(self.difference, self.error)}"
        return f"{text}, t({self.pairs - 1}) = {self.statistic:.1f}, p = {self.p:.1g}"


def paired_test(differences: Array) -> PairedTest:
    """Return the t-test of the mean of paired `differences`, one for each run or block of time.

    Raises
    ------
    MissingExtra
        If scipy is not installed.
    """
    student = scipy_stats().t
    n, mean = len(differences), float(np.mean(differences))
    error = float(np.std(differences, ddof=1)) / n**0.5 if n > 1 else 0.0
    if error == 0.0 or np.ptp(differences) <= ROUNDING * np.abs(differences).max():
        # identical differences, which show nothing about other runs
        return PairedTest(mean, 0.0, 0.0, 1.0, n)
    statistic = mean / error
    return PairedTest(mean, error, statistic, float(2.0 * student.sf(abs(statistic), n - 1)), n)


def expect_less(text: str, differences: Array) -> Expectation:
    """Return the expectation that the mean of paired `differences` is below 0.

    `expect_all_less` describes when the expectation holds.
    """
    return expect_all_less(text, {"": differences})


def expect_less_regret(
    results: ResultTable, number: str, where: str, ours: str, theirs: str, **case: object
) -> Expectation:
    """Return the expectation that the policy `ours` has less regret than the policy `theirs`.

    `number` is the name of the regret in the experiment's `results`. `case` contains the labels
    that both policies share. The text of the expectation begins with `where`.
    """
    cases = (case_labels(policy=policy, **case) for policy in (ours, theirs))
    text = f"{where}: {ours} has less regret than {theirs}"
    return expect_less(text, results.differences(number, *cases))


def expect_all_less(text: str, differences: Mapping[str, Array]) -> Expectation:
    """Return the expectation that all `differences` have means below 0.

    `differences` maps k names to arrays of paired differences. The expectation holds if each mean
    is significantly below 0, fails if any mean is significantly above 0, and is otherwise open.
    Each mean is tested at the level `SIGNIFICANCE_LEVEL` / k. The result states the test that
    contradicts the expectation most.
    """
    tests = {name: paired_test(each) for name, each in differences.items()}
    level = SIGNIFICANCE_LEVEL / len(tests)
    name, weakest = max(tests.items(), key=lambda each: each[1].statistic)
    holds = None
    if all(each.p < level and each.statistic < 0.0 for each in tests.values()):
        holds = True
    elif any(each.p < level and each.statistic > 0.0 for each in tests.values()):
        holds = False
    test = str(weakest)
    if len(tests) > 1:
        test = f'weakest of {len(tests)} comparisons, "{name}": {weakest}'
    if holds is None:
        test = f"not significant; {test}"
    return Expectation(text, holds, MIN_RUNS, test)


def standard_error(values: Array) -> float:
    """Return the standard error of the mean of an experiment's independent `values`."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5)


def with_error(mean: float, error: float) -> str:
    """Return an experiment's mean and standard error as text, with two digits of the error.

    >>> with_error(0.71963, 0.0291), with_error(12.3456, 0.0)
    ('0.720 ± 0.029', '12.35')
    """
    if not error > 0.0:
        return f"{mean:.4g}"
    digits = max(0, 1 - int(np.floor(np.log10(error))))
    return f"{mean:.{digits}f} ± {error:.{digits}f}"
