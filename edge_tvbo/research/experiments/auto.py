"""What `auto` is worth: in recorded rooms and streets, on fields whose law is known, without days.

Rooms and streets: the Intel lab's three pairs of days, each after the days before it; 50 sensors
of METR-LA and of Guangzhou's speeds, drawn anew each run, the first 60 % of the record training.
Readings are as recorded. The papers' policies have the parameters of their temperature data;
ET has its bounds for ε in [0, 1], and R_T/T is in training standard deviations.

Synthetic truth: 10 x 10 places, squared exponential, l = 0.2, σ² = .02, T = 400, β_t = .4 ln(4t)
for all. Cold start: positions and no training day; the unit is guessed as 20 ± 3.5 °C.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import DataError
from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.field import SensorField, grid
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.auto import AutoPolicy
from edge_tvbo.policy.base import Policy
from edge_tvbo.research.experiments import sample_fields
from edge_tvbo.research.experiments.base import Expectation, PublishedValue, Row, Summary
from edge_tvbo.research.experiments.run_policy import play
from edge_tvbo.simulation import dataset_lookup
from edge_tvbo.training.covariance import train, with_rhythm

Array = NDArray[np.float64]
DRAWN = 50  # sensors of a street network
TRAINING = 0.6  # of its record
ROOMS = {"Intel 7-8": (864, 1152), "Intel 5-6": (576, 864), "Intel 3-4": (288, 576)}  # rows
MOST = {"Intel 7-8": 0.16, "Intel 5-6": 0.13, "Intel 3-4": 0.07}
STREETS = {"METR-LA": "metr-la", "Guangzhou": "guangzhou_speed_10min.csv.gz"}
PUBLISHED: dict[str, dict[str, Any]] = {
    "gp-ucb": {},
    "r-gp-ucb": {"period": 15},
    "tv-gp-ucb": {"epsilon": 0.03},
    "ui-tvbo": {"sigma_w2": 0.03},
    "et-gp-ucb": {"delta_b": 0.1, "n_lower": 12},
    "igp-ucb": {},
    "br-gp-ucb": {},
    "sw-gp-ucb": {},
    "w-gp-ucb": {},
    "mtv-gp-ucb": {},
}
RATES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.05, 0.2)
ABRUPT = (30, 100)  # intervals between new functions
HORIZON = 400
NOISE_VARIANCE = 0.02
BETA = LogBeta(0.4, 4.0)
RECORDED_RUNS = 24  # that play recordings too: little is random in those
BEHIND = "behind"  # by how much `auto` lost more than a rival, in the same run
SHARE = 0.9  # of readings within the predictive interval
GUESS = (20.0, 3.5)  # °C, of someone who has measured nothing


class Record(NamedTuple):
    """Training and test readings of some sensors, with their times."""

    training: Array  # (T0, M)
    test: Array  # (T, M)
    interval: float  # s
    start: float  # s since 1970, of the first training row
    positions: Array | None


class Automatic:
    """R_T/T of `auto` and of the papers' policies; coverage of its predictive intervals."""

    name = "AUTO"
    title = "the policy that is told nothing"
    source = "issue 4; no paper"
    runs = 300
    block = 1

    def __init__(self, data_dirs: tuple[str, ...] = (), *, horizon: int = HORIZON) -> None:
        self._data_dirs = data_dirs
        self._horizon = horizon

    def measure(self, runs: range, seed: int) -> list[Row]:
        """Carry out some runs."""
        return [row for run in runs for row in self._run(run, seed)]

    def printed(self) -> list[PublishedValue]:
        """Give nothing: no paper has this policy."""
        return []

    def claims(self, summary: Summary) -> list[Expectation]:
        """Hold the results against what was aimed at."""
        return [
            *(_room(summary, place) for place in ROOMS),
            *(_street(summary, place) for place in STREETS),
            *(_truth(summary, law) for law in _laws()),
            _cold(summary),
            *(_covered(summary, place) for place in ROOMS),
        ]

    def draw(self, figure: Any, rows: Sequence[Row], summary: Summary) -> None:
        """Draw regret beside the best other policy's, place by place and law by law."""
        panels = figure.subplots(1, 2)
        for axes, labels, title in (
            (panels[0], (*ROOMS, *STREETS), "recorded"),
            (panels[1], _laws(), "synthetic"),
        ):
            at = np.arange(len(labels))
            ours = [summary.cell("R_T/T", _case(label, "auto")) for label in labels]
            best = [_best(summary, label)[1] for label in labels]
            axes.bar(at - 0.2, [cell.mean for cell in ours], 0.4, label="auto")
            axes.bar(at + 0.2, best, 0.4, label="the best of all others", color="0.7")
            axes.errorbar(
                at - 0.2,
                [c.mean for c in ours],
                [1.96 * c.error for c in ours],
                fmt="none",
                color="k",
            )
            axes.set_xticks(at, labels, rotation=60, fontsize=8)
            axes.set(title=title, ylabel="R_T / T")
            axes.legend()

    @cached_property
    def _rooms(self) -> dict[str, Record]:
        recording = dataset_lookup.recording("intel-lab", self._data_dirs, "filled")
        values = np.asarray(recording.values)
        return {
            place: Record(
                values[:first],
                values[first:last],
                recording.interval,
                recording.start,
                recording.positions,
            )
            for place, (first, last) in ROOMS.items()
        }

    @cached_property
    def _streets(self) -> dict[str, Any]:
        return {place: self._street(source) for place, source in STREETS.items()}

    def _street(self, source: str) -> Any:
        if not source.endswith(".gz"):
            return dataset_lookup.recording(source, self._data_dirs, "filled")
        for directory in (*self._data_dirs, *dataset_lookup.directories(())):
            if (path := Path(directory) / source).is_file():
                return dataset_lookup.recording("csv", (str(path),), "filled")
        raise DataError(f"There is no {source} in {', '.join(self._data_dirs)}; give --data-dir.")

    @cached_property
    def _grid(self) -> SensorField:
        return grid(10, SpatialKernel(math.inf, 0.2), NOISE_VARIANCE)

    @cached_property
    def _factor(self) -> Array:
        return sample_fields.factor(self._grid.kernel)

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = np.random.default_rng([seed, 100, run])
        if run < RECORDED_RUNS:
            yield from self._recorded(run, generator)
        yield from self._synthetic(run, np.random.default_rng([seed, 101, run]))

    def _recorded(self, run: int, generator: np.random.Generator) -> Iterator[Row]:
        records = dict(self._rooms)
        for place, recording in self._streets.items():
            arms = generator.choice(len(recording.sensors), DRAWN, replace=False)
            values = np.asarray(recording.values)[:, arms]
            border = int(TRAINING * len(values))
            records[place] = Record(
                values[:border], values[border:], recording.interval, recording.start, None
            )
        for place, record in records.items():
            yield from _paired(_recorded(run, place, record))
        yield _cold_start(run, self._rooms["Intel 7-8"])

    def _synthetic(self, run: int, generator: np.random.Generator) -> Iterator[Row]:
        T = self._horizon
        g = sample_fields.draws(self._factor, T, generator)
        noise = generator.standard_normal(T) * NOISE_VARIANCE**0.5
        for law, rate in _laws().items():
            if isinstance(rate, int):
                f = g[np.arange(T) // rate]
            else:
                f = sample_fields.drifting(g, rate) if rate else np.repeat(g[:1], T, axis=0)
            yield from _paired(self._followed(run, law, rate, np.ascontiguousarray(f), noise))

    def _followed(
        self, run: int, law: str, rate: float | int, f: Array, noise: Array
    ) -> Iterator[Row]:
        for policy, settings in _rivals(rate):
            made = make_policy(policy, self._grid, beta=BETA, seed=run, **settings)
            label = " ".join((policy, *(f"{value:g}" for value in settings.values())))
            regret = float(play(made, f, noise).regret.mean())
            yield Row(run, _case(law, label), {"R_T/T": regret})


def _paired(rows: Iterator[Row]) -> Iterator[Row]:
    """Give the rows, of which `auto`'s is first, with how far it is behind each of the others."""
    first = next(rows)
    yield first
    for row in rows:
        behind = first.numbers["R_T/T"] - row.numbers["R_T/T"]
        yield Row(row.run, row.case, {**row.numbers, BEHIND: behind})


def _recorded(run: int, place: str, record: Record) -> Iterator[Row]:
    names = tuple(f"s{arm}" for arm in range(record.training.shape[1]))
    field = train(record.training, names, positions=record.positions)
    field_with_daily_profile = with_rhythm(field, record.training, record.interval, record.start)
    at = record.start + len(record.training) * record.interval
    for policy, settings in {"auto": {}, **PUBLISHED}.items():
        own = field_with_daily_profile if policy == "auto" else field
        made = make_policy(policy, own, seed=run, **settings)
        regret, covered = _follow(made, (record.test - own.center) / own.scale, at, record.interval)
        numbers = {"R_T/T": regret}
        if policy == "auto":
            numbers["covered"] = covered
        yield Row(run, _case(place, policy), numbers)


def _follow(
    policy: Policy, sample_fields: Array, at: float, interval: float
) -> tuple[float, float]:
    """Give R_T/T, and the share of readings within the predictive interval of `auto`."""
    lost = covered = 0.0
    for t, values in enumerate(sample_fields):
        policy.set_time(at + t * interval)
        arm = policy.select().arm
        y = float(values[arm])
        if isinstance(policy, AutoPolicy):
            low, high = policy.prediction_interval(arm, SHARE)
            covered += low <= y <= high
        policy.observe(arm, y)
        policy.advance()
        lost += float(values.max()) - y
    return lost / len(sample_fields), covered / len(sample_fields)


def _cold_start(run: int, record: Record) -> Row:
    M = record.test.shape[1]
    center, scale = GUESS
    field = SensorField(
        tuple(f"s{arm}" for arm in range(M)), np.eye(M), 0.01, positions=record.positions
    )
    policy = make_policy("auto", field, length_scale="learned", seed=run)
    regret, _ = _follow(policy, (record.test - center) / scale, record.start, record.interval)
    spread = float(record.training.std())
    return Row(run, _case("cold start", "auto"), {"R_T/T": regret * scale / spread})


def _laws() -> dict[str, float | int]:
    """Give the rates of change, floats, and the intervals between new functions, ints."""
    gradual: dict[str, float | int] = {f"ε = {rate:g}": rate for rate in RATES}
    return {**gradual, **{f"new every {period}": period for period in ABRUPT}}


def _rivals(rate: float | int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "auto", {}
    yield "gp-ucb", {}
    yield "r-gp-ucb", {}
    yield "et-gp-ucb", {}
    yield "et-gp-ucb", {"n_lower": 12}
    yield "sw-gp-ucb", {}
    yield "tv-gp-ucb", {"epsilon": 0.03}
    if isinstance(rate, float):
        if rate != 0.03:
            yield "tv-gp-ucb", {"epsilon": rate}
        yield "ui-tvbo", {"sigma_w2": rate}


def _case(place: str, policy: str) -> dict[str, str]:
    return {"place": place, "policy": policy}


def _best(summary: Summary, place: str) -> tuple[str, float]:
    others = [
        cell
        for cell in summary.cells
        if cell.number == "R_T/T" and cell.case["place"] == place and cell.case["policy"] != "auto"
    ]
    best = min(others, key=lambda cell: cell.mean)
    return best.case["policy"], best.mean


def _room(summary: Summary, place: str) -> Expectation:
    ours, (policy, best) = summary.mean("R_T/T", **_case(place, "auto")), _best(summary, place)
    text = f"{place}: {ours:.3f}, at most {MOST[place]}; the best other is {policy}, {best:.3f}"
    return Expectation(text, ours <= MOST[place])


def _street(summary: Summary, place: str) -> Expectation:
    ours, (policy, best) = summary.mean("R_T/T", **_case(place, "auto")), _best(summary, place)
    below = 1.0 - ours / best
    text = f"{place}: {ours:.3f}, {below:.0%} below the best other, {policy}, {best:.3f}"
    return Expectation(f"{text} (25 % wanted)", below >= 0.25)


def _truth(summary: Summary, law: str) -> Expectation:
    ours, (policy, best) = summary.mean("R_T/T", **_case(law, "auto")), _best(summary, law)
    allowed = max(0.05 * best, 0.02)
    behind = summary.cell(BEHIND, _case(law, policy))
    paired = f"{behind.mean:+.3f} ± {1.96 * behind.error:.3f}"
    text = f"{law}: {ours:.3f}, {paired} from the best other, {policy}"
    return Expectation(f"{text} ({allowed:.3f} allowed)", behind.mean <= allowed)


def _cold(summary: Summary) -> Expectation:
    cold = summary.mean("R_T/T", **_case("cold start", "auto"))
    ratio = cold / summary.mean("R_T/T", **_case("Intel 7-8", "auto"))
    text = f"cold start: {cold:.3f}, {ratio:.2f} times its regret with training (1.3 wanted)"
    return Expectation(text, ratio <= 1.3)


def _covered(summary: Summary, place: str) -> Expectation:
    share = summary.mean("covered", **_case(place, "auto"))
    return Expectation(
        f"{place}: 90 % intervals hold {share:.1%} of readings", 0.85 <= share <= 0.95
    )
