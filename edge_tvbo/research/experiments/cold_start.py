"""Experiment COLD: the policy `auto` without training days, and with 1 to 14 training days.

In a cold start, `auto` has no training days. It assumes a mean and a standard deviation of the
readings. The assumed mean is wrong by `GUESS_OFFSET` standard deviations of the training data (5 °C
in the Intel lab). The assumed standard deviation is wrong by a factor of 2. The recordings are
those of the experiment AUTO, from their first row on. The regret is in standard deviations of the
training data of AUTO. In a row without any recorded reading, such as a day without trade, no sensor
is selected, and nothing is scored.

- "one reading": one sensor is selected and read in each interval. The kernel assumes that all pairs
  of sensors have the same correlation.
- "positions": like "one reading", but with a Matérn 5/2 kernel of the positions.
- "from noon": like "one reading", but the first interval is at noon.
- "two, after-reply": two sensors are read in each interval; the second one is selected after the
  first one has replied. The regret is that of the better sensor.
- "two, at-once": two sensors are selected and read at the same time. The regret is that of the
  better sensor.
- "survey on day 1": like "one reading", but in each interval of the first day, four sensors are
  read; each is selected after the previous one has replied. The regret is that of the best sensor
  of the four.
- "reports every ... h": like "one reading"; in addition, each sensor reports every ... h without a
  command. The sensors report one after the other; the time from one report to the next is always
  the same. Each run draws the order of the sensors, and the time of the first report.
- "... days": `auto` is trained with this number of days. The regret is measured on the test days of
  AUTO.

For cold starts, the coverage is also measured: the share of readings that are within their 90 %
predictive intervals. Only selected sensors count. A predictive interval is computed before the
policy observes the reading.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import exchangeable, matern
from edge_tvbo.models.structural_model import DAY, prior_structure
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.auto import AutoPolicy
from edge_tvbo.research.experiments.auto_goals import coverage_goal
from edge_tvbo.research.experiments.base import policy_seed
from edge_tvbo.research.experiments.curves import INTERVALS, plot_cells
from edge_tvbo.research.experiments.result_table import (
    Cell,
    Expectation,
    Labels,
    ResultTable,
    Row,
    case_labels,
)
from edge_tvbo.research.experiments.split_experiment import (
    COVERAGE,
    FIELDS,
    STREETS,
    SplitExperiment,
    TrainTestSplit,
    regret_and_coverage,
)
from edge_tvbo.training.covariance import with_structure
from edge_tvbo.training.structural_fit import rows_without_nan

GUESSED_CORRELATION = 0.5
GUESS_OFFSET, GUESS_FACTOR = 1.43, 2.0  # errors of the assumed mean and standard deviation
LENGTH_SCALE = 6.0  # m
ROOM = "Intel 7-8"  # the recording of eight days
ROOM_GOALS = {  # goals: highest allowed regret on days 3-8, and on days 7-8
    "one reading": (0.22, 0.28),
    "positions": (0.19, 0.25),
    "two, after-reply": (0.11, 0.16),
    "two, at-once": (0.11, 0.16),
    "reports every 6 h": (0.14, 0.14),
    "reports every 3 h": (0.10, 0.10),
    "reports every 1 h": (0.07, 0.07),
}
# Regret of an earlier version of `auto`:
EARLIER = {"METR-LA": 0.47, "Guangzhou": 0.43, "humidity": 0.43}
MAX_OF_EARLIER = 0.5
# Recordings whose test days are in the third or fourth year:
YEARS = ("wind 1964", "wind 1973", "PM10 2004", "PM10 2008")
MAX_OF_TRAINED = 1.15
MAX_NOON = 1.1
DAYS = range(1, 15)
MAX_OF_FEWER = 1.05  # goal: highest ratio of regret to the lowest regret with fewer days
TRAINED_PLACES = (ROOM, "humidity", "METR-LA", "Guangzhou")
FIRST_DAY, NEXT_DAYS, LAST_DAYS, TEST = "day 1", "days 3-8", "days 7-8", "test days"
FIRST_YEAR, WHOLE = "year 1", "whole recording"
YEAR = 365 * DAY
SURVEY = 4  # number of readings in each interval of the survey


class ColdRun(NamedTuple):
    """Regret and coverage in each interval of a cold start.

    Both numbers are NaN in a row in which no sensor was read.
    """

    regret: Array  # (T,), in standard deviations of the training data
    covered: Array  # (T,), share of the readings that are within the predictive intervals


class ColdStart(SplitExperiment):
    """The experiment COLD: regret R_T/T of `auto` without and with training days."""

    name = "COLD"
    title = "no training days, or few"
    runs = 8
    revision = 4

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare the results of the experiment COLD with the goals for `auto`."""
        return [
            *(_room_goal(results, start, part) for start in ROOM_GOALS for part in (0, 1)),
            _noon_goal(results),
            *(_earlier_goal(results, place) for place in EARLIER),
            *(_years_goal(results, place) for place in YEARS),
            *(_coverage_goal(results, ROOM, start) for start in ROOM_STARTS),
            *(_coverage_goal(results, place, "one reading") for place in (*STREETS, *FIELDS)),
            *(_days_goal(results, place) for place in TRAINED_PLACES),
        ]

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw the regret over the number of training days, with a line for each recording."""
        axes = figure.subplots()
        for place in TRAINED_PLACES:
            days = [n for n in DAYS if f"{n} days" in _starts_of(results, place)]
            cells = [_regret(results, place, f"{n} days", TEST) for n in days]
            plot_cells(axes, days, cells, label=place)
        axes.set(xlabel="training days", ylabel="R_T / T")
        axes.legend(loc="best")
        figure.suptitle(f"COLD: regret of auto on the test days, {INTERVALS}")

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        room, drawn = self._rooms[ROOM], policy_seed(seed, run)
        for start, run_start in ROOM_STARTS.items():
            yield from _rows(run, ROOM, start, run_start(room, drawn), room)
        generator = np.random.default_rng([seed, 103, run])
        streets = self._drawn_streets(generator)
        splits = {ROOM: room, **streets, **self._fields}
        for place in (*streets, *self._fields):
            yield from _rows(run, place, "one reading", _cold(splits[place], drawn), splits[place])
        for place in TRAINED_PLACES:
            yield from _rows_by_days(run, drawn, place, splits[place])
        for place in YEARS:
            regret = _trained(splits[place], len(splits[place].training), drawn)
            yield Row(run, _case(place, "trained", TEST), {"R_T/T": regret})


class ColdStartReading(NamedTuple):
    """The reading of a selected sensor in a cold start."""

    arm: int
    value: float
    covered: bool  # whether the value is within the predictive interval


def _read(policy: AutoPolicy, arm: int, values: Array) -> ColdStartReading:
    """In a cold start, read sensor `arm`, update the policy, and return the reading."""
    value = float(values[arm])
    low, high = policy.prediction_interval(arm, COVERAGE)
    policy.observe(arm, value)
    return ColdStartReading(arm, value, low <= value <= high)


def _one(policy: AutoPolicy, values: Array) -> list[ColdStartReading]:
    """In a cold start, read the sensor that the policy selects; return a list of one reading."""
    return [_read(policy, policy.select().arm, values)]


def _after_reply(policy: AutoPolicy, values: Array, number: int = 2) -> list[ColdStartReading]:
    """In a cold start, select and read `number` sensors one after the other; return the replies."""
    replies: list[ColdStartReading] = []
    left = np.ones(len(values), np.bool_)
    for _ in range(number):
        replies.append(_read(policy, policy.select(left).arm, values))
        left[replies[-1].arm] = False
    return replies


def _two_at_once(policy: AutoPolicy, values: Array) -> list[ColdStartReading]:
    """In a cold start, select two sensors at the same time and read both; return both replies."""
    return [_read(policy, choice.arm, values) for choice in policy.select_many(2)]


Read = Callable[[AutoPolicy, Array], list[ColdStartReading]]


def _cold(
    split: TrainTestSplit,
    seed: int,
    *,
    positions: Array | None = None,
    first: int = 0,
    read: Read = _one,
    survey: int = 0,
    reports: float = 0.0,
) -> ColdRun:
    """Return the results of a cold start from row `first` on.

    `survey` is the number of sensors that are read in each interval of the first day; 0 without a
    survey. `reports` is the time in s between two reports that a sensor sends without a command; 0
    if the sensors send no reports.
    """
    values = split.values
    M = values.shape[1]
    mean, spread = float(np.nanmean(split.training)), float(np.nanstd(split.training))
    kernel = (
        exchangeable(M, GUESSED_CORRELATION)
        if positions is None
        else matern(positions, LENGTH_SCALE, 2.5)
    )
    structure = prior_structure(kernel, split.interval)
    field = SensorField(tuple(f"s{arm}" for arm in range(M)), kernel, 0.01, structure=structure)
    truth = (values - mean - GUESS_OFFSET * spread) / (GUESS_FACTOR * spread)
    policy = make_policy("auto", field, seed=seed)
    assert isinstance(policy, AutoPolicy)
    regret, covered = np.full((2, len(truth)), np.nan)
    every = reports / split.interval
    waits = _report_waits(M, seed) * every
    survey_end = first + DAY / split.interval if survey else 0
    is_read = rows_without_nan(values)
    for t in range(first, len(truth)):
        policy.set_time(split.start + t * split.interval)
        if is_read[t]:
            if t < survey_end:
                replies = _after_reply(policy, truth[t], survey)
            else:
                replies = read(policy, truth[t])
            regret[t] = truth[t].max() - max(each.value for each in replies)
            covered[t] = np.mean([each.covered for each in replies])
        for arm in np.flatnonzero((t - waits) % every < 1.0) if reports else ():
            policy.observe(int(arm), float(truth[t, arm]))
        policy.advance()
    return ColdRun(regret[first:] * GUESS_FACTOR, covered[first:])


def _report_waits(M: int, seed: int) -> Array:
    """Return, for each sensor of a cold start, the time until its first report, (M,).

    The unit is the time between two reports of a sensor. The M times are evenly spaced; their order
    and their common offset are drawn at random.
    """
    generator = np.random.default_rng([105, seed])
    return np.asarray((generator.permutation(M) + generator.random()) / M)


ROOM_STARTS: dict[str, Callable[[TrainTestSplit, int], ColdRun]] = {
    "one reading": _cold,
    "positions": lambda split, seed: _cold(split, seed, positions=split.positions),
    "from noon": lambda split, seed: _cold(split, seed, first=round(DAY / 2 / split.interval)),
    "two, after-reply": lambda split, seed: _cold(split, seed, read=_after_reply),
    "two, at-once": lambda split, seed: _cold(split, seed, read=_two_at_once),
    "survey on day 1": lambda split, seed: _cold(split, seed, survey=SURVEY),
    "reports every 6 h": lambda split, seed: _cold(split, seed, reports=DAY / 4),
    "reports every 3 h": lambda split, seed: _cold(split, seed, reports=DAY / 8),
    "reports every 1 h": lambda split, seed: _cold(split, seed, reports=DAY / 24),
}


def _rows(run: int, place: str, start: str, cold: ColdRun, split: TrainTestSplit) -> Iterator[Row]:
    """Yield a row for each part of a cold start: its mean regret and its coverage.

    The parts are:

    - the whole run
    - the test days
    - if the rows are daily or weekly: the first year of the run
    - otherwise: the first day of the run, all days from day 3 of the recording on, and all days
      from day 7 of the recording on
    """
    day = round(DAY / split.interval)
    rows = len(split.training) + len(split.test)
    first = rows - len(cold.regret)
    parts = {WHOLE: slice(0, None), TEST: slice(len(split.training) - first, None)}
    if day <= 1:
        parts[FIRST_YEAR] = slice(0, round(YEAR / split.interval))
    else:
        parts |= {
            FIRST_DAY: slice(0, day),
            NEXT_DAYS: slice(2 * day - first, None),
            LAST_DAYS: slice(6 * day - first, None),
        }
    for part, chosen in parts.items():
        if len(cold.regret[chosen]):
            regret, covered = (float(np.nanmean(each[chosen])) for each in cold)
            yield Row(run, _case(place, start, part), {"R_T/T": regret, "covered": covered})


def _rows_by_days(run: int, seed: int, place: str, split: TrainTestSplit) -> Iterator[Row]:
    day = round(DAY / split.interval)
    for days in DAYS:
        if days * day <= len(split.training):
            regret = _trained(split, days * day, seed)
            yield Row(run, _case(place, f"{days} days", TEST), {"R_T/T": regret})


def _trained(split: TrainTestSplit, rows: int, seed: int) -> float:
    """Return the mean regret on the test days, with `auto` trained on the newest `rows` rows."""
    begin = split.start + (len(split.training) - rows) * split.interval
    newest = split._replace(training=split.training[-rows:], start=begin, positions=None)
    newest = newest.of_varying_sensors()
    field = with_structure(newest.trained_field(), newest.training, newest.interval, begin)
    regret, _ = regret_and_coverage(make_policy("auto", field, seed=seed), newest)
    return float(regret.mean() / split.training.std())


def _case(place: str, start: str, part: str) -> Labels:
    return case_labels(place=place, start=start, part=part)


def _starts_of(results: ResultTable, place: str) -> set[str]:
    return {cell.case["start"] for cell in results.cells if cell.case["place"] == place}


def _regret(results: ResultTable, place: str, start: str, part: str) -> Cell:
    return results.cell("R_T/T", _case(place, start, part))


def _room_goal(results: ResultTable, start: str, part: int) -> Expectation:
    days, goal = (NEXT_DAYS, LAST_DAYS)[part], ROOM_GOALS[start][part]
    found = _regret(results, ROOM, start, days)
    text = f"Intel, cold, {start}, {days}: R_T/T is {found}; the goal is at most {goal}"
    return Expectation(text, found.mean <= goal)


def _noon_goal(results: ResultTable) -> Expectation:
    noon, midnight = (_regret(results, ROOM, s, NEXT_DAYS) for s in ("from noon", "one reading"))
    text = (
        f"Intel, cold, days 3-8: R_T/T is {noon} if `auto` begins at noon, and {midnight} if "
        "`auto` begins at midnight; the goal is at most 10 % more at noon"
    )
    return Expectation(text, noon.mean <= MAX_NOON * midnight.mean)


def _earlier_goal(results: ResultTable, place: str) -> Expectation:
    found, goal = _regret(results, place, "one reading", NEXT_DAYS), MAX_OF_EARLIER * EARLIER[place]
    text = (
        f"{place}, cold, from day 3 on: R_T/T is {found}; the goal is at most {goal:.3f}, half of "
        "the R_T/T of an earlier version of auto"
    )
    return Expectation(text, found.mean <= goal)


def _years_goal(results: ResultTable, place: str) -> Expectation:
    cold, trained = (_regret(results, place, each, TEST) for each in ("one reading", "trained"))
    text = (
        f"{place}: R_T/T of the last year is {cold} if `auto` had a cold start two or three years "
        f"before, and {trained} if `auto` was trained on these years; the goal is at most 15 % "
        "more after the cold start"
    )
    return Expectation(text, cold.mean <= MAX_OF_TRAINED * trained.mean)


def _coverage_goal(results: ResultTable, place: str, start: str) -> Expectation:
    """Return the expectation that a cold start's 90 % intervals contain 85 to 95 % of readings."""
    name = "Intel" if place == ROOM else place
    return coverage_goal(
        f"{name}, cold, {start}: from the first reading on,",
        results.mean("covered", place=place, start=start, part=WHOLE),
    )


def _days_goal(results: ResultTable, place: str) -> Expectation:
    """Return the expectation that more training days hardly raise the regret of `auto`."""
    days = [n for n in DAYS if f"{n} days" in _starts_of(results, place)]
    regrets = [_regret(results, place, f"{n} days", TEST).mean for n in days]
    worst = max((regret / min(regrets[:k]) for k, regret in enumerate(regrets) if k), default=1.0)
    by_days = ", ".join(f"{n}: {regret:.3f}" for n, regret in zip(days, regrets, strict=True))
    text = (
        f"{place}: R_T/T for each number of training days: {by_days}. For each number, "
        "R_T/T is divided by the lowest R_T/T with fewer training days. The highest quotient is "
        f"{worst:.2f}; the goal is at most 1.05"
    )
    return Expectation(text, worst <= MAX_OF_FEWER)
