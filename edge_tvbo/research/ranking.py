"""Ranks of policies over several problems, and paired tests of their differences.

Source: Demšar 2006, *Statistical comparisons of classifiers over multiple data sets*, JMLR 7. In
each problem, the policies are ranked by their mean over the runs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.messages.formatting import text_table
from edge_tvbo.numerics.types import Array
from edge_tvbo.research.experiments.result_table import ResultTable
from edge_tvbo.research.experiments.statistics import scipy_stats

SIGNIFICANCE_LEVEL = 0.05


class Ranking(NamedTuple):
    """Average ranks of policies over problems; the first policy has the lowest average rank."""

    policies: tuple[str, ...]
    ranks: Array  # (k,), in the order of `policies`; rank 1 has the least regret
    critical_difference: float  # between average ranks, by Nemenyi's test at `SIGNIFICANCE_LEVEL`
    statistic: float  # Friedman's χ², with k - 1 degrees of freedom for k policies
    p: float
    # p value of each policy against the first policy, with Holm's correction; 1 for the first
    wilcoxon: tuple[float, ...]
    problems: int

    def groups(self) -> list[tuple[int, int]]:
        """Return the groups of ranked policies that Nemenyi's test does not distinguish.

        A group is a pair: the indices of its first policy and its last policy. A group that is part
        of a larger group is left out.
        """
        k = len(self.policies)
        found: list[tuple[int, int]] = []
        for first in range(k):
            near = self.ranks[first:] - self.ranks[first] < self.critical_difference
            last = first + int(np.flatnonzero(near)[-1])
            if last > first and (not found or last > found[-1][1]):
                found.append((first, last))
        return found

    def table(self) -> str:
        """Return the ranking as a text table."""
        lines = [["policy", "average rank", "p against the first"]]
        for policy, rank, p in zip(self.policies, self.ranks, self.wilcoxon, strict=True):
            lines.append([policy, f"{rank:.2f}", "" if policy == self.policies[0] else f"{p:.2g}"])
        return text_table(lines)

    def sentence(self) -> str:
        """Return the results of the ranking's tests, in two sentences."""
        k = len(self.policies)
        last = max((last for first, last in self.groups() if first == 0), default=0)
        tied = ", ".join(self.policies[1 : last + 1])
        apart = (
            f"Nemenyi's test does not distinguish {self.policies[0]} from {tied}."
            if tied
            else f"Nemenyi's test distinguishes {self.policies[0]} from all other policies."
        )
        return (
            f"Friedman's test over {self.problems} problems: χ²({k - 1}) = {self.statistic:.1f}, "
            f"p = {self.p:.1g}; critical difference of average ranks "
            f"{self.critical_difference:.2f} at the level {SIGNIFICANCE_LEVEL}. {apart}"
        )


def rank_policies(results: ResultTable, number: str) -> Ranking:
    """Return the ranking of the policies by their means of `number`; the lowest mean is the best.

    Raises
    ------
    ValueError
        If there are fewer than two problems or two policies.
    MissingExtra
        If scipy is not installed.
    """
    stats = scipy_stats()
    problems, policies = results.values_of("problem"), results.values_of("policy")
    N, k = len(problems), len(policies)
    if N < 2 or k < 2:
        raise ValueError(
            f"{k} policies on {N} problems cannot be ranked; at least 2 of each are needed"
        )
    means = np.array(
        [[results.mean(number, problem=x, policy=each) for each in policies] for x in problems]
    )
    ranks = stats.rankdata(means, axis=1)
    order = np.argsort(ranks.mean(axis=0), kind="stable")
    statistic, p = _friedman(ranks)
    quantile = float(stats.studentized_range.ppf(1.0 - SIGNIFICANCE_LEVEL, k, np.inf)) / 2**0.5
    tests = [wilcoxon_p(means[:, each] - means[:, order[0]]) for each in order[1:]]
    return Ranking(
        tuple(policies[each] for each in order),
        ranks.mean(axis=0)[order],
        quantile * (k * (k + 1) / (6.0 * N)) ** 0.5,
        statistic,
        p,
        (1.0, *holm(tests)),
        N,
    )


def compare_runs(results: ResultTable, number: str, problem: str) -> Mapping[str, float]:
    """Return each policy's p value against the best policy, from the runs on one problem.

    Wilcoxon's signed-rank test compares each policy with the best policy, run by run. The p values
    are corrected by Holm's method. The best policy is the policy with the lowest mean; it comes
    first, and its p value is 1.
    """
    policies = sorted(
        results.values_of("policy"),
        key=lambda each: results.mean(number, problem=problem, policy=each),
    )
    best = {"problem": problem, "policy": policies[0]}
    tests = [
        wilcoxon_p(results.differences(number, {**best, "policy": each}, best))
        for each in policies[1:]
    ]
    return dict(zip(policies, (1.0, *holm(tests)), strict=True))


def wilcoxon_p(differences: Array) -> float:
    """Return the two-sided p value of Wilcoxon's signed-rank test of two policies.

    `differences` holds the difference of the policies in each run. The p value is 1 if all
    differences are 0.
    """
    if not differences.any():
        return 1.0
    return float(scipy_stats().wilcoxon(differences, method="auto").pvalue)


def smallest_p(runs: int, policies: int) -> float:
    """Return the smallest p value that `compare_runs` can return, given the number of runs.

    A policy has this p value if the best policy of the comparison is better than this policy in
    every run. `policies` is the number of policies.

    >>> round(smallest_p(10, 27), 3), round(smallest_p(11, 27), 3)
    (0.051, 0.025)
    """
    return min(1.0, 2.0 ** (1 - runs) * (policies - 1))


def holm(tests: Sequence[float]) -> list[float]:
    """Return `tests`, the p values of a policy ranking, corrected by Holm's method.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected, largest = [0.0] * len(tests), 0.0
    for place, each in enumerate(sorted(range(len(tests)), key=tests.__getitem__)):
        largest = max(largest, min(1.0, tests[each] * (len(tests) - place)))
        corrected[each] = largest
    return corrected


def _friedman(ranks: Array) -> tuple[float, float]:
    """Return Friedman's χ² of `ranks` (N, k), corrected for ties, and its p value."""
    N, k = ranks.shape
    spread = float(((ranks - (k + 1) / 2.0) ** 2).sum())
    if spread == 0.0:  # all policies are tied in all problems
        return 0.0, 1.0
    statistic = N * N * (k - 1) * float(((ranks.mean(axis=0) - (k + 1) / 2.0) ** 2).sum()) / spread
    return statistic, float(scipy_stats().chi2.sf(statistic, k - 1))


def draw_ranking(figure: Any, ranking: Ranking) -> None:
    """Draw a ranking as a critical difference diagram: bars join indistinguishable policies."""
    k = len(ranking.policies)
    figure.set_size_inches(9.0, 1.8 + 0.26 * k)
    axes = figure.subplots()
    heights = np.arange(k)
    axes.hlines(heights, 1, ranking.ranks, color="lightgrey", lw=1, zorder=0)
    axes.plot(ranking.ranks, heights, "o")
    for step, (first, last) in enumerate(ranking.groups()):
        x = k + 0.4 + 0.35 * step
        axes.plot([x, x], [first - 0.2, last + 0.2], lw=4, solid_capstyle="butt", color="C1")
    axes.plot([1, 1 + ranking.critical_difference], [k - 0.2] * 2, "k|-")
    axes.annotate(
        f"critical difference {ranking.critical_difference:.2f}",
        (1 + ranking.critical_difference, k - 0.2),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
    )
    axes.set_yticks(heights, ranking.policies)
    axes.set(ylim=(k + 0.4, -0.7), xlabel="average rank; 1 is the least regret")
    axes.set_title(
        "a bar joins policies whose average ranks do not differ significantly (Nemenyi's test)",
        fontsize=10,
    )
