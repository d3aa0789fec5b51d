"""Goals of the experiment AUTO: regret of `auto`, and coverage of its predictive intervals."""

from collections.abc import Sequence
from statistics import geometric_mean

import numpy as np

from edge_tvbo.research.confidence import BLOCKS, errors_to_half_width
from edge_tvbo.research.experiments.auto_cases import (
    BEHIND,
    OVER_BLOCKS,
    PUBLISHED,
    REFERENCES,
    kinds_of_change,
)
from edge_tvbo.research.experiments.result_table import Expectation, ResultTable, case_labels
from edge_tvbo.research.experiments.split_experiment import PLACES, ROOMS

MAX_REGRET = {  # R_T/T of an earlier `auto` (commit 3f8d6e3), whose design used these test days
    "Intel 7-8": 0.141,
    "Intel 5-6": 0.097,
    "Intel 3-4": 0.063,
}
MAX_OF_TEXTBOOK = 0.85  # goal: geometric mean of (regret of auto / regret of kalman-ucb)
MAX_OF_PUBLISHED = 0.75  # the same with the best policy of the papers instead of kalman-ucb
NO_REGRET = 0.01  # added to all regrets in these means, because a regret can be 0
MIN_COVERED, MAX_COVERED = 0.85, 0.95  # goal: share of readings within the predictive intervals


def goals(results: ResultTable) -> list[Expectation]:
    """Compare the results of the experiment AUTO with the goals for the policy `auto`."""
    return [
        *(_field_goal(results, place) for place in PLACES),
        *(_room_goal(results, place) for place in ROOMS),
        _textbook_goal(results),
        _published_goal(results),
        _random_goal(results),
        *(_synthetic_goal(results, change) for change in kinds_of_change()),
        *(_coverage_goal(results, place) for place in PLACES),
    ]


def best_other(results: ResultTable, place: str) -> tuple[str, float]:
    """Return the best of the experiment's policies except `auto`: its name and its R_T/T.

    `place` is the name of a recording, or of a kind of change of the synthetic fields.
    """
    others = [
        cell
        for cell in results.cells
        if cell.number == "R_T/T"
        and cell.case["place"] == place
        and cell.case["policy"] not in ("auto", *REFERENCES)
    ]
    best = min(others, key=lambda cell: cell.mean)
    return best.case["policy"], best.mean


def _room_goal(results: ResultTable, place: str) -> Expectation:
    """Return the goal for the Intel lab: no more regret than an earlier version of `auto`."""
    ours, goal = results.mean("R_T/T", place=place, policy="auto"), MAX_REGRET[place]
    text = (
        f"{place}: R_T/T of auto is {ours:.3f}; the goal is at most {goal}, "
        "the R_T/T of an earlier version of auto, which was designed with the data of these days"
    )
    return Expectation(text, ours <= goal)


def _synthetic_goal(results: ResultTable, change: str) -> Expectation:
    ours = results.mean("R_T/T", place=change, policy="auto")
    policy, best = best_other(results, change)
    allowed = max(0.05 * best, 0.02)
    behind = results.cell(BEHIND, case_labels(place=change, policy=policy))
    difference = f"{behind.mean:+.3f} ± {behind.half_width:.3f}"
    text = (
        f"{change}: R_T/T of auto is {ours:.3f}; R_T/T of auto minus that of the best "
        f"other policy, {policy}, is {difference}, and the goal is at most {allowed:.3f}"
    )
    return Expectation(text, behind.mean <= allowed)


def _field_goal(results: ResultTable, place: str) -> Expectation:
    """Return the expectation that, in experiment AUTO, no policy is clearly better than `auto`."""
    ours = results.mean("R_T/T", place=place, policy="auto")
    policy, best = best_other(results, place)
    error = results.mean(OVER_BLOCKS, place=place, policy=policy)
    half_width = errors_to_half_width(BLOCKS) * error
    text = (
        f"{place}: R_T/T of auto is {ours:.3f}; the best other policy, {policy}, has {best:.3f}. "
        f"The difference is {ours - best:+.3f} ± {half_width:.3f}. The goal is a difference "
        f"of at most .01, or of at most 2 % of {best:.3f}, or of at most {half_width:.3f} (such a "
        "difference may be due to chance)"
    )
    allowed = max(0.02 * best, 0.01)
    return Expectation(text, ours - best <= max(allowed, half_width))


def _textbook_goal(results: ResultTable) -> Expectation:
    return _mean_goal(results, "kalman-ucb", ["kalman-ucb"], MAX_OF_TEXTBOOK)


def _published_goal(results: ResultTable) -> Expectation:
    policies = [each.label for each in PUBLISHED]
    text = f"the best policy of the papers, chosen for each recording from {len(policies)} cases"
    return _mean_goal(results, text, policies, MAX_OF_PUBLISHED)


def _mean_goal(
    results: ResultTable, others: str, policies: Sequence[str], goal: float
) -> Expectation:
    """Return the expectation that a geometric mean of regret quotients is at most `goal`.

    Each recording has one quotient: the regret of `auto`, divided by the regret of the best policy
    among `policies` (`NO_REGRET` is added to both regrets). The text `others` describes `policies`.
    """
    ours = np.array(_means(results, "auto"))
    best = np.min([_means(results, policy) for policy in policies], axis=0)
    ratio = geometric_mean((ours + NO_REGRET) / (best + NO_REGRET))
    text = (
        f"geometric mean over {len(PLACES)} recordings: R_T/T of auto is {ratio:.2f} times that of "
        f"{others}, and the goal is at most {goal}"
    )
    return Expectation(text, ratio <= goal)


def _random_goal(results: ResultTable) -> Expectation:
    pairs = zip(_means(results, "auto"), _means(results, "random"), PLACES, strict=True)
    worst, place = max((ours / random, place) for ours, random, place in pairs)
    text = (
        f"R_T/T of auto divided by that of random is highest on {place}: {worst:.2f}; "
        "the goal is less than 1 on each recording"
    )
    return Expectation(text, worst < 1.0)


def _means(results: ResultTable, policy: str) -> list[float]:
    """Return the R_T/T of one policy on each recording of the experiment AUTO."""
    return [results.mean("R_T/T", place=place, policy=policy) for place in PLACES]


def _coverage_goal(results: ResultTable, place: str) -> Expectation:
    return coverage_goal(f"{place}:", results.mean("covered", place=place, policy="auto"))


def coverage_goal(where: str, share: float) -> Expectation:
    """Return the expectation that `share`, the coverage of 90 % intervals, is 85 to 95 %.

    The text of the expectation begins with `where`. The predictive intervals are those of `auto`.
    """
    text = f"{where} the 90 % intervals contain {share:.1%} of the readings; the goal is 85 to 95 %"
    return Expectation(text, MIN_COVERED <= share <= MAX_COVERED)
