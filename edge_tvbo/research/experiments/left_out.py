"""Experiment LEFTOUT: `auto` on recordings that were not used to choose its design.

The recordings and their training days are those of the experiment AUTO. A design consists of three
choices:

- the width of the bound
- whether the model may have a season
- whether the model may work on a log scale

The recordings form groups: for example, the three pairs of test days of the Intel lab are one
group. In each group, `auto` is judged with the design that is the best one for the recordings of
all other groups. For this choice, the regret of `auto` on a recording is divided by the regret of
`kalman-ucb` (`NO_REGRET` is added to each regret). The best design has the smallest geometric mean
of these quotients. Properties of `auto` that are not parameters cannot be chosen in this way. These
properties were chosen with all recordings known: see docs/auto.md.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from statistics import geometric_mean
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy
from edge_tvbo.research.experiments.auto_goals import NO_REGRET
from edge_tvbo.research.experiments.base import policy_seed
from edge_tvbo.research.experiments.result_table import (
    Expectation,
    Labels,
    ResultTable,
    Row,
    case_labels,
)
from edge_tvbo.research.experiments.split_experiment import (
    ROOMS,
    STREETS,
    SplitExperiment,
    TrainTestSplit,
    regret_and_coverage,
)
from edge_tvbo.training.covariance import Transform, with_model, with_structure
from edge_tvbo.training.textbook_fit import best_width, fit_textbook

WIDTHS = (0.25, 0.35, 0.5, 0.7, 1.0)
SEASONS: dict[str, float | None] = {"season": None, "no season": 0.0}
SCALES: tuple[Transform, ...] = ("auto", "none")
GROUPS = {
    "Intel": tuple(ROOMS),
    "streets": tuple(STREETS),
    "wind": ("wind 1964", "wind 1973"),
    "PM10": ("PM10 2004", "PM10 2008"),
    "shares": ("shares", "relative shares"),
    **{place: (place,) for place in ("humidity", "soil", "chickenpox")},
}
TEXTBOOK = "kalman-ucb"
MAX_OF_TEXTBOOK = 0.95


class Design(NamedTuple):
    """A design of `auto`: bound width, and whether a season and a log scale are allowed."""

    width: float  # width of the bound, in standard deviations
    season: str  # a key of `SEASONS`
    scale: str  # one of `SCALES`

    def __str__(self) -> str:
        return f"width {self.width:g}, {self.season}, transform {self.scale}"


DESIGNS = {str(each): each for each in (Design(*each) for each in product(WIDTHS, SEASONS, SCALES))}


class LeftOut(SplitExperiment):
    """The experiment LEFTOUT: regret R_T/T of `auto` with each `Design`.

    On each group of recordings, `auto` is judged with the best design for all other groups.
    """

    name = "LEFTOUT"
    title = "designs that were chosen without the recordings on which they are measured"
    runs = 4
    revision = 2

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare the chosen designs with the textbook baseline, for each group and in total."""
        chosen = {group: _best_design(results, _others(group)) for group in GROUPS}
        shares = {
            place: _share(results, place, chosen[group])
            for group, places in GROUPS.items()
            for place in places
        }
        return [
            *(_group_goal(shares, group, chosen[group]) for group in GROUPS),
            _mean_goal(shares),
        ]

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw the regret of `auto`, divided by that of the baseline, against the bound's width."""
        axes = figure.subplots()
        for season, scale in product(SEASONS, SCALES):
            designs = [str(Design(width, season, scale)) for width in WIDTHS]
            means = [_mean_share(results, _places(), each) for each in designs]
            axes.plot(WIDTHS, means, label=f"{season}, transform {scale}")
        axes.set(xlabel="width of the bound", ylabel=f"regret / regret of {TEXTBOOK}")
        axes.legend(loc="best")
        figure.suptitle("LEFTOUT: mean regret ratio of all recordings, for each design")

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        streets = self._drawn_streets(np.random.default_rng([seed, 104, run]))
        splits = streets if run else self._rooms | streets | self._fields
        for place, split in splits.items():
            yield from _rows(run, policy_seed(seed, run), place, split)


def _rows(run: int, seed: int, place: str, split: TrainTestSplit) -> Iterator[Row]:
    split = split.of_varying_sensors()
    field, training = split.trained_field(), split.training
    for season, scale in product(SEASONS, SCALES):
        fitted = with_structure(
            field, training, split.interval, split.start, period=SEASONS[season], transform=scale
        )
        for width in WIDTHS:
            regret = _regret("auto", fitted, split, seed=seed, beta=width**2)
            case = _case(place, str(Design(width, season, scale)))
            yield Row(run, case, {"R_T/T": regret / field.scale})
    days = field.to_model(training), split.interval, split.start
    settings: dict[str, Any] = {"seed": seed, "width": best_width(field, *days)}
    regret = _regret(TEXTBOOK, with_model(field, fit_textbook(*days)), split, **settings)
    yield Row(run, _case(place, TEXTBOOK), {"R_T/T": regret / field.scale})


def _regret(name: str, field: SensorField, split: TrainTestSplit, **settings: Any) -> float:
    """Return a policy's mean regret on the test rows of LEFTOUT, in the recording's unit."""
    regret, _ = regret_and_coverage(make_policy(name, field, **settings), split)
    return float(regret.mean())


def _case(place: str, design: str) -> Labels:
    return case_labels(place=place, design=design)


def _places() -> list[str]:
    return [place for places in GROUPS.values() for place in places]


def _others(group: str) -> list[str]:
    """Return the names of LEFTOUT's recordings that are in other groups than `group`."""
    return [place for place in _places() if place not in GROUPS[group]]


def _share(results: ResultTable, place: str, design: str) -> float:
    """Return the regret of `auto` with a design, divided by that of the textbook baseline."""
    ours, textbook = (
        results.mean("R_T/T", place=place, design=each) + NO_REGRET for each in (design, TEXTBOOK)
    )
    return float(ours / textbook)


def _mean_share(results: ResultTable, places: Sequence[str], design: str) -> float:
    return geometric_mean(_share(results, place, design) for place in places)


def _best_design(results: ResultTable, places: Sequence[str]) -> str:
    return min(DESIGNS, key=lambda design: _mean_share(results, places, design))


def _group_goal(shares: dict[str, float], group: str, design: str) -> Expectation:
    mean = geometric_mean(shares[place] for place in GROUPS[group])
    text = (
        f"{group}: with {design}, the best design on all other recordings, the policy auto has "
        f"{mean:.2f} times the regret of {TEXTBOOK}; the goal is less than 1"
    )
    return Expectation(text, mean < 1.0)


def _mean_goal(shares: dict[str, float]) -> Expectation:
    mean = geometric_mean(shares.values())
    text = (
        f"geometric mean over {len(shares)} recordings, each with a design that was chosen without"
        f" this recording: the policy auto has {mean:.2f} times the regret of {TEXTBOOK}; the goal"
        f" is at most {MAX_OF_TEXTBOOK}"
    )
    return Expectation(text, mean <= MAX_OF_TEXTBOOK)
