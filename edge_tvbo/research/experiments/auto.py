"""Experiment AUTO: the policy `auto` on recordings with training days, and on synthetic fields.

There are three kinds of recordings:

- Temperatures of the Intel lab: three pairs of test days. All days before a pair are used for
  training.
- Traffic speeds of METR-LA and of Guangzhou: 50 sensors are drawn for each run. The first 60 % of
  the recording are used for training.
- The other fields of `FIELDS`: humidity, daily wind, particulates, share prices, soil moisture and
  weekly cases of chickenpox. Each field is run `FIELD_RUNS` times.

Rows in which no sensor was read, such as days without trade, are neither trained on nor scored, but
their time passes. No noise is added to the recorded readings. The policies of the papers have the
parameters that the papers use for temperatures. For ET-GP-UCB, the time between resets has a lower
bound that holds for every rate of change ε from 0 to 1. TV-GP-UCB is also run with a fitted ε. The
regret per interval, R_T/T, is in standard deviations of the training data.

Two `REFERENCES` use readings that no policy has. They show how low the regret can be, and are not
compared with `auto`.

The synthetic fields have 10 x 10 places, a squared exponential kernel with the length scale
l = 0.2, the noise variance σ² = .02 and T = 400 intervals. On these fields, all policies have
β_t = .4 ln(4t).

The runs of a policy on one recording hardly differ. Therefore the uncertainty of a difference
between two policies is computed over `BLOCKS` blocks of the test time.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.errors import DataError
from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy.auto import AutoPolicy
from edge_tvbo.policy.base import Policy
from edge_tvbo.research.confidence import BLOCKS, block_means, errors_to_half_width
from edge_tvbo.research.experiments import sample_fields
from edge_tvbo.research.experiments.base import (
    Expectation,
    Experiment,
    Labels,
    PolicyCase,
    ResultTable,
    Row,
    case_labels,
    policy_seed,
)
from edge_tvbo.research.experiments.run_policy import run_policy
from edge_tvbo.research.experiments.statistics import standard_error
from edge_tvbo.simulation.dataset_lookup import DataSource, search_directories
from edge_tvbo.simulation.recording import Recording
from edge_tvbo.training.covariance import train, with_model, with_structure
from edge_tvbo.training.structural_fit import rows_without_nan
from edge_tvbo.training.textbook_fit import best_width, fit_textbook

STREET_SENSORS = 50  # number of sensors that are drawn from a street network
TRAINING_SHARE = 0.6  # training rows as a share of a street network's rows
ROOMS = {"Intel 7-8": (864, 1152), "Intel 5-6": (576, 864), "Intel 3-4": (288, 576)}  # test rows
MAX_REGRET = {  # reached by `auto` of commit 3f8d6e3, which was designed on these days
    "Intel 7-8": 0.141,
    "Intel 5-6": 0.097,
    "Intel 3-4": 0.063,
}
STREETS = {"METR-LA": "metr-la", "Guangzhou": "guangzhou_speed_10min.csv.gz"}


class FieldFile(NamedTuple):
    """A CSV file of AUTO, and row numbers: first row, first test row, end (exclusive)."""

    name: str
    first: int
    border: int
    last: int


FIELDS = {
    "humidity": FieldFile("intel_humidity_10min.csv.gz", 0, 864, 1152),
    "wind 1964": FieldFile("irish_wind_daily.csv.gz", 0, 1095, 1461),
    "wind 1973": FieldFile("irish_wind_daily.csv.gz", 3287, 4383, 4748),
    "PM10 2004": FieldFile("german_pm10_2002_2004.csv.gz", 0, 730, 1096),
    "PM10 2008": FieldFile("german_pm10_2006_2008.csv.gz", 0, 730, 1096),
    "shares": FieldFile("djia29_daily.csv.gz", 0, 895, 1193),
    "relative shares": FieldFile("djia29_daily_relative.csv.gz", 0, 895, 1193),
    "soil": FieldFile("cookfarm_soil_moisture_daily.csv.gz", 0, 165, 317),
    "chickenpox": FieldFile("hungary_chickenpox_weekly.csv.gz", 0, 261, 522),
}
PLACES = (*ROOMS, *STREETS, *FIELDS)
FIELD_RUNS = 2  # the runs hardly differ
MAX_OF_TEXTBOOK = 0.85  # goal: geometric mean of (regret of auto / regret of kalman-ucb)
MAX_OF_PUBLISHED = 0.75  # the same goal for the best policy of the papers, chosen afterwards
NO_REGRET = 0.01  # added to all regrets in these means, because a regret can be 0
PUBLISHED = (
    PolicyCase("gp-ucb", "gp-ucb"),
    PolicyCase("r-gp-ucb", "r-gp-ucb", {"period": 15}),
    PolicyCase("tv-gp-ucb", "tv-gp-ucb", {"epsilon": 0.03}),
    PolicyCase("tv-gp-ucb fitted", "tv-gp-ucb", {"epsilon": "fitted"}),
    PolicyCase("ui-tvbo", "ui-tvbo", {"sigma_w2": 0.03}),
    PolicyCase("et-gp-ucb", "et-gp-ucb", {"delta_b": 0.1, "n_lower": 12}),
    PolicyCase("igp-ucb", "igp-ucb"),
    PolicyCase("br-gp-ucb", "br-gp-ucb"),
    PolicyCase("sw-gp-ucb", "sw-gp-ucb"),
    PolicyCase("w-gp-ucb", "w-gp-ucb"),
    PolicyCase("mtv-gp-ucb", "mtv-gp-ucb"),
    PolicyCase("w-dbo", "w-dbo"),
)
LATE, BEST_SENSOR = "all sensors, one interval late", "best sensor of the test rows"
REFERENCES = (LATE, BEST_SENSOR)
RATES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.05, 0.2)
ABRUPT_PERIODS = (30, 100)  # intervals after which a new function is drawn
HORIZON = 400
NOISE_VARIANCE = 0.02
BETA = LogBeta(0.4, 4.0)
RECORDED_RUNS = 24  # number of runs with recordings; these runs hardly differ
BEHIND = "R_T/T of auto minus this"  # regret of auto minus the row's regret, in the same run
OVER_BLOCKS = "error of the difference over blocks"  # standard error of `BEHIND`
COVERAGE = 0.9  # nominal coverage of the predictive intervals
MIN_COVERED, MAX_COVERED = 0.85, 0.95  # goal: share of the readings in these intervals


class TrainTestSplit(NamedTuple):
    """Training readings and test readings of the same sensors, with times and positions.

    A row in which no sensor was read is NaN.
    """

    training: Array  # (T0, M)
    test: Array  # (T, M)
    interval: float  # s
    start: float  # s since 1970, of the first training row
    positions: Array | None


class AutoExperiment(Experiment):
    """The experiment AUTO: regret of policies, and coverage of `auto`'s predictive intervals."""

    name = "AUTO"
    title = "the policy without parameters"
    source = "no paper"
    runs = 300
    revision = 3

    def __init__(self, data: DataSource, *, horizon: int = HORIZON) -> None:
        super().__init__(data)
        self._horizon = horizon

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare the results of the experiment AUTO with the goals for the policy `auto`."""
        return [
            *(_field_goal(results, place) for place in PLACES),
            *(_room_goal(results, place) for place in ROOMS),
            _textbook_goal(results),
            _published_goal(results),
            _random_goal(results),
            *(_synthetic_goal(results, change) for change in _kinds_of_change()),
            *(_coverage_goal(results, place) for place in PLACES),
        ]

    def draw(self, figure: Any, rows: Sequence[Row], results: ResultTable) -> None:
        """Draw the regret of `auto` next to that of the best other policy, as pairs of bars."""
        panels = figure.subplots(1, 2)
        for axes, labels, title in (
            (panels[0], PLACES, "recorded"),
            (panels[1], _kinds_of_change(), "synthetic"),
        ):
            at = np.arange(len(labels))
            ours = [results.cell("R_T/T", _case(label, "auto")) for label in labels]
            best = [_best_other(results, label)[1] for label in labels]
            axes.bar(at - 0.2, [cell.mean for cell in ours], 0.4, label="auto")
            axes.bar(at + 0.2, best, 0.4, label="best other policy", color="0.7")
            axes.errorbar(
                at - 0.2,
                [c.mean for c in ours],
                [c.half_width for c in ours],
                fmt="none",
                color="k",
            )
            axes.set_xticks(at, labels, rotation=60, fontsize=8)
            axes.set(title=title, ylabel="R_T / T")
            axes.legend(loc="best")

    def data_fingerprints(self) -> dict[str, str]:
        """Return the fingerprint of each recording of the experiment AUTO."""
        files = {file.name for file in FIELDS.values()}
        return {
            source: self._recording(source).fingerprint()
            for source in sorted({"intel-lab", *STREETS.values(), *files})
        }

    @cached_property
    def _rooms(self) -> dict[str, TrainTestSplit]:
        recording = self._recording("intel-lab")
        values = np.asarray(recording.values)
        return {
            place: TrainTestSplit(
                values[:first],
                values[first:last],
                recording.interval,
                recording.start,
                recording.positions,
            )
            for place, (first, last) in ROOMS.items()
        }

    @cached_property
    def _streets(self) -> dict[str, Recording]:
        return {place: self._recording(source) for place, source in STREETS.items()}

    def _recording(self, source: str) -> Recording:
        """Return the experiment AUTO's recording `source`, a dataset or CSV file in --data-dir."""
        if not source.endswith(".csv.gz"):
            return self.data.load(source, "paper")
        directories = (*self.data.directories, *search_directories())
        for directory in directories:
            if (path := Path(directory) / source).is_file():
                return self.data._replace(directories=(str(path),)).load("csv", "paper")
        searched = "".join(f"\n  {directory}" for directory in directories)
        raise DataError(f"{source} is not in:{searched}\nName its directory with --data-dir.")

    @cached_property
    def _fields(self) -> dict[str, TrainTestSplit]:
        """The splits of AUTO's `FIELDS`; rows in which no sensor was read are NaN."""
        splits = {}
        for place, file in FIELDS.items():
            recording = self._recording(file.name)
            is_read = np.asarray(recording.observed).any(axis=1, keepdims=True)
            splits[place] = _split(recording, np.where(is_read, recording.values, np.nan), file)
        return splits

    @cached_property
    def _grid(self) -> SensorField:
        return grid(10, SpatialKernel(math.inf, 0.2), NOISE_VARIANCE)

    @cached_property
    def _factor(self) -> Array:
        return sample_fields.factor(self._grid.kernel)

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = np.random.default_rng([seed, 100, run])
        if run < RECORDED_RUNS:
            yield from self._on_recordings(run, seed, generator)
        yield from self._on_fields(run, np.random.default_rng([seed, 101, run]))

    def _on_recordings(self, run: int, seed: int, generator: np.random.Generator) -> Iterator[Row]:
        splits = self._rooms | self._drawn_streets(generator)
        if run < FIELD_RUNS:
            splits |= self._fields
        for place, split in splits.items():
            yield from _with_differences(_rows_on_recording(run, seed, place, split))

    def _drawn_streets(self, generator: np.random.Generator) -> dict[str, TrainTestSplit]:
        """Return the experiment AUTO's training and test readings of each street network.

        `STREET_SENSORS` sensors of each network are drawn at random.
        """
        splits = {}
        for place, recording in self._streets.items():
            arms = generator.choice(len(recording.sensors), STREET_SENSORS, replace=False)
            values = np.asarray(recording.values)[:, arms]
            border = int(TRAINING_SHARE * len(values))
            parts = values[:border], values[border:]
            splits[place] = TrainTestSplit(*parts, recording.interval, recording.start, None)
        return splits

    def _on_fields(self, run: int, generator: np.random.Generator) -> Iterator[Row]:
        T = self._horizon
        g = sample_fields.draws(self._factor, T, generator)
        noise = generator.standard_normal(T) * NOISE_VARIANCE**0.5
        for change, rate in _kinds_of_change().items():
            if isinstance(rate, int):
                f = g[np.arange(T) // rate]
            else:
                f = sample_fields.drifting(g, rate) if rate else np.repeat(g[:1], T, axis=0)
            rows = self._rows_on_field(run, change, np.ascontiguousarray(f), noise)
            yield from _with_differences(rows)

    def _rows_on_field(self, run: int, change: str, f: Array, noise: Array) -> Iterator[Row]:
        for case in _policies(_kinds_of_change()[change]):
            policy = case.make(self._grid, beta=BETA, seed=run)
            regret = float(run_policy(policy, f, noise).regret.mean())
            yield Row(run, _case(change, case.label), {"R_T/T": regret})


def _split(recording: Recording, values: Array, file: FieldFile) -> TrainTestSplit:
    """Return, for the experiment AUTO, the training rows and the test rows of `values` (T, M)."""
    start = recording.start + file.first * recording.interval
    training, test = values[file.first : file.border], values[file.border : file.last]
    return TrainTestSplit(training, test, recording.interval, start, None)


def _with_differences(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the `rows` of AUTO, and add how much more regret `auto` has than the policy of a row.

    The first row is the row of `auto`; nothing is added to it.
    """
    first = next(rows)
    yield first
    for row in rows:
        behind = first.numbers["R_T/T"] - row.numbers["R_T/T"]
        yield Row(row.run, row.case, {**row.numbers, BEHIND: behind})


def _rows_on_recording(run: int, seed: int, place: str, split: TrainTestSplit) -> Iterator[Row]:
    varies = np.nanstd(split.training, axis=0) > 0
    training, test = split.training[:, varies], split.test[:, varies]
    names = tuple(f"s{arm}" for arm in range(training.shape[1]))
    positions = None if split.positions is None else split.positions[varies]
    field = train(training, names, positions=positions)
    days = field.to_model(training), split.interval, split.start
    own = {
        "auto": with_structure(field, training, split.interval, split.start),
        "kalman-ucb": with_model(field, fit_textbook(*days)),
    }
    highest = names[int(np.nanmean(training, axis=0).argmax())]
    cases = (
        PolicyCase("auto", "auto"),
        *PUBLISHED,
        PolicyCase("kalman-ucb", "kalman-ucb", {"width": best_width(field, *days)}),
        PolicyCase("static", "static", {"sensor": highest}),
        PolicyCase("random", "random"),
    )
    start = split.start + len(training) * split.interval
    ours = np.empty(0)
    for case in cases:
        policy = case.make(own.get(case.label, field), seed=policy_seed(seed, run))
        regret, covered = regret_and_coverage(policy, test, start, split.interval)
        regret /= field.scale
        numbers = {"R_T/T": float(regret.mean())}
        if case.label == "auto":
            ours, numbers["covered"] = regret, covered
        else:
            numbers[OVER_BLOCKS] = standard_error(block_means(ours - regret))
        yield Row(run, _case(place, case.label), numbers)
    for label, mean in _reference_regrets(training, test).items():
        yield Row(run, _case(place, label), {"R_T/T": mean / field.scale})


def _reference_regrets(training: Array, test: Array) -> dict[str, float]:
    """Return the mean regret of each of AUTO's `REFERENCES`, in the unit of the readings.

    `LATE` always selects the sensor that was the best one in the previous row. `BEST_SENSOR` always
    selects the sensor with the highest mean in the test rows. Rows that are NaN are left out.
    """
    before, values = training[rows_without_nan(training)], test[rows_without_nan(test)]
    previous = np.concatenate((before[-1:], values[:-1])).argmax(axis=1)
    best = values.max(axis=1)
    return {
        LATE: float((best - values[np.arange(len(values)), previous]).mean()),
        BEST_SENSOR: float((best - values[:, values.mean(axis=0).argmax()]).mean()),
    }


def regret_and_coverage(
    policy: Policy, readings: Array, start: float, interval: float
) -> tuple[Array, float]:
    """Return, for the experiment AUTO, a policy's regrets and the coverage of its intervals.

    There is a regret for each row of `readings` (T, M) that is not NaN, in the unit of the
    readings. In a row that is NaN, no sensor is selected. The coverage is the share of the selected
    sensors' readings that are within the predictive intervals. Only `auto` has such intervals; the
    coverage of other policies is 0.
    """
    regret, covered = [], 0.0
    for t, (values, is_read) in enumerate(zip(readings, rows_without_nan(readings), strict=True)):
        policy.set_time(start + t * interval)
        if is_read:
            arm = policy.select().arm
            y = policy.field.to_model(float(values[arm]))
            if isinstance(policy, AutoPolicy):
                low, high = policy.prediction_interval(arm, COVERAGE)
                covered += low <= y <= high
            policy.observe(arm, y)
            regret.append(float(values.max() - values[arm]))
        policy.advance()
    return np.array(regret), covered / len(regret)


def _kinds_of_change() -> dict[str, float | int]:
    """Return the kinds of change of the experiment AUTO's synthetic fields, by their labels.

    A float is the rate of a gradual change. An int is the number of intervals after which a new
    function is drawn.
    """
    gradual: dict[str, float | int] = {f"ε = {rate:g}": rate for rate in RATES}
    return {**gradual, **{f"new every {period}": period for period in ABRUPT_PERIODS}}


def _policies(rate: float | int) -> Iterator[PolicyCase]:
    """Yield `auto` and the policies to compare it with, for one kind of change of the field."""
    for name in ("auto", "gp-ucb", "r-gp-ucb", "et-gp-ucb"):
        yield PolicyCase(name, name)
    yield PolicyCase("et-gp-ucb 12", "et-gp-ucb", {"n_lower": 12})
    yield PolicyCase("sw-gp-ucb", "sw-gp-ucb")
    yield PolicyCase("tv-gp-ucb 0.03", "tv-gp-ucb", {"epsilon": 0.03})
    if isinstance(rate, float):
        if rate != 0.03:
            yield PolicyCase(f"tv-gp-ucb {rate:g}", "tv-gp-ucb", {"epsilon": rate})
        yield PolicyCase(f"ui-tvbo {rate:g}", "ui-tvbo", {"sigma_w2": rate})


def _case(place: str, policy: str) -> Labels:
    return case_labels(place=place, policy=policy)


def _best_other(results: ResultTable, place: str) -> tuple[str, float]:
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
    """Return the expectation that `auto` has no more regret than an earlier `auto`."""
    ours, goal = results.mean("R_T/T", place=place, policy="auto"), MAX_REGRET[place]
    text = (
        f"{place}: R_T/T of auto is {ours:.3f}; the goal is at most {goal}, "
        "the R_T/T of an earlier auto that was designed on these days"
    )
    return Expectation(text, ours <= goal)


def _synthetic_goal(results: ResultTable, change: str) -> Expectation:
    ours = results.mean("R_T/T", place=change, policy="auto")
    policy, best = _best_other(results, change)
    allowed = max(0.05 * best, 0.02)
    behind = results.cell(BEHIND, _case(change, policy))
    difference = f"{behind.mean:+.3f} ± {behind.half_width:.3f}"
    text = (
        f"{change}: R_T/T of auto is {ours:.3f}; R_T/T of auto minus that of the best "
        f"other policy, {policy}, is {difference}, and the goal is at most {allowed:.3f}"
    )
    return Expectation(text, behind.mean <= allowed)


def _field_goal(results: ResultTable, place: str) -> Expectation:
    """Return the expectation that no other policy has clearly less regret than `auto`."""
    ours = results.mean("R_T/T", place=place, policy="auto")
    policy, best = _best_other(results, place)
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
    """Return the expectation of AUTO that `auto` has less regret than the best of `policies`."""
    ours = np.array(_means(results, "auto"))
    best = np.min([_means(results, policy) for policy in policies], axis=0)
    ratio = float(np.exp(np.log((ours + NO_REGRET) / (best + NO_REGRET)).mean()))
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
    """Return the R_T/T of an AUTO policy on each of the `PLACES`."""
    return [results.mean("R_T/T", place=place, policy=policy) for place in PLACES]


def _coverage_goal(results: ResultTable, place: str) -> Expectation:
    share = results.mean("covered", place=place, policy="auto")
    return Expectation(
        f"{place}: the 90 % intervals contain {share:.1%} of the readings; the goal is 85 to 95 %",
        MIN_COVERED <= share <= MAX_COVERED,
    )
