"""Experiment FAULTS: faulty sensors on recordings, and false alarms on all recordings.

One sensor of a recording becomes faulty after an eighth of the test days. There are four faults:

- *stuck*: the sensor always reports the value that it had at the beginning of the fault.
- *drifts*: the error of the sensor grows by three standard deviations of the training data in each
  quarter of the test days.
- *spikes*: a fifth of the readings are wrong by five standard deviations of the training data.
- *unit*: the sensor reports in another unit.

In each run, each fault is tried in two sensors. One of them is a hot sensor, from the three sensors
that are most often the hottest. The other one is a sensor whose mean is near the median of all
sensors. Runs 0, 1 and 2 use different sensors; run 3 uses the sensors of run 0, and so on. The
policy is `auto`, either trained on the days before the test, or cold. A cold policy starts on the
first training day, and does not know which sensors are similar. If a trained policy is run twice
with the same sensors of a recording, the results differ only for faults that are drawn at random.

The regret is computed from the true values after the beginning of the fault. The best sensor is the
best of the working sensors. If the faulty sensor is selected, its true value counts. The regret is
compared with the regrets of two other runs:

- `without`: the same run, but the policy cannot select the faulty sensor after the beginning of the
  fault.
- `off`: the same run without fault detection.

False alarms of `auto` are counted on the unchanged recordings. `auto` is trained or cold, and in
each interval either one sensor is read, or all sensors report. In some rows, no sensor was read,
for example on days without trade. These rows are used neither for training nor for the replay, but
count as elapsed time. The goal is at most one false alarm per sensor-year, or one false alarm in a
recording of less than a sensor-year. The number of sensor-years is the number of sensors,
multiplied by the length of all rows with readings, in years.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.commands import Activate, Command, Notify
from edge_tvbo.messages.events import IntervalElapsed, Reading
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import exchangeable
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.numerics.types import Array, Int64Array, Mask
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.base import Choice, Policy
from edge_tvbo.research.experiments.base import policy_seed
from edge_tvbo.research.experiments.cold_start import GUESSED_CORRELATION
from edge_tvbo.research.experiments.result_table import (
    Expectation,
    Labels,
    ResultTable,
    Row,
    case_labels,
)
from edge_tvbo.research.experiments.split_experiment import SplitExperiment, TrainTestSplit
from edge_tvbo.training.structural_fit import fit_structure, rows_without_nan

FAULTS = ("stuck", "drift", "spikes", "unit")
PLACES = ("Intel 7-8", "METR-LA", "humidity", "PM10 2004", "wind 1964")  # where faults are tried
OTHER_UNITS = {  # by place: the unit, and the factor and offset of the wrong unit
    "Intel": ("°C", 1.8, 32.0),
    "METR-LA": ("mph", 1.609344, 0.0),
    "Guangzhou": ("km/h", 0.621371, 0.0),
    "humidity": ("%", 0.01, 0.0),
    "wind": ("kn", 1.852, 0.0),
    "PM10": ("µg/m³", 0.001, 0.0),
}
CANDIDATES = 3  # number of hot sensors, and of median sensors; a run uses one of each
DRIFT, SPIKE = 3.0, 5.0  # in standard deviations of the training data
SPIKE_SHARE = 0.2
MAX_RATIO = 1.2
MIN_READINGS = 25  # a fault matters if its sensor is read at least this often without detection
YEAR = 365.25 * 86_400.0  # s


class Sequel(NamedTuple):
    """Part of a replay: selected arms (T,), and notices of faults as (row, sensor)."""

    picks: Int64Array
    alarms: list[tuple[int, str]]


class WithoutArm:
    """Wrapper of a policy that excludes the faulty arm `arm` from all selections."""

    def __init__(self, policy: Policy, arm: int) -> None:
        self._policy = policy
        self._arm = arm

    def __getattr__(self, name: str) -> Any:
        """Return the attribute with this name of the wrapped policy, which has a faulty arm."""
        return getattr(self._policy, name)

    def select(self, eligible: Mask | None = None) -> Choice:
        """Return the policy's choice among the eligible arms; the faulty arm is excluded."""
        others = np.ones(len(self._policy.field), np.bool_) if eligible is None else eligible.copy()
        others[self._arm] = False
        return self._policy.select(others)


class FaultySensors(SplitExperiment):
    """The experiment FAULTS: regret with faulty sensors, delay of detection, and false alarms."""

    name = "FAULTS"
    title = "faulty sensors"
    runs = 24
    revision = 4

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare the results of FAULTS with the goals for faulty sensors."""
        cases = [cell.case for cell in results.cells if cell.number == "R_T/T"]
        clean = [cell.case for cell in results.cells if cell.number == "alarms"]
        return [
            *(_regret_goal(results, case) for case in cases),
            *(
                _found_goal(results, case)
                for case in cases
                if results.cell("matters", case).mean > 0.0
            ),
            *(_alarm_goal(results, case) for case in clean),
        ]

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw the regrets with detection, without detection, and without the faulty sensor."""
        cases = [cell.case for cell in results.cells if cell.number == "R_T/T"]
        axes = figure.subplots()
        at = np.arange(len(cases))
        bars = {
            "without": "the faulty sensor is not selected",
            "R_T/T": "with fault detection",
            "off": "without fault detection",
        }
        for shift, (number, label) in zip((-0.25, 0.0, 0.25), bars.items(), strict=True):
            heights = [results.cell(number, case).mean for case in cases]
            axes.bar(at + shift, heights, 0.25, label=label)
        axes.set_xticks(at, [_label(case) for case in cases], rotation=90, fontsize=5)
        axes.set(ylabel="R_T / T")
        axes.legend(loc="best")
        figure.suptitle("FAULTS: regret of auto after a sensor has become faulty")

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = np.random.default_rng([seed, 102, run])
        splits = {**self._rooms, **self._drawn_streets(generator), **self._fields}
        for place, split in splits.items():
            if place in PLACES:
                drawn = policy_seed(seed, run)
                yield from _rows_with_faults(run, drawn, place, split, generator)
            if run == 0:
                yield from _false_alarms(place, split)


class _Start(NamedTuple):
    """The start of a replay of FAULTS: the field, and the values (T, M) that are replayed."""

    field: SensorField
    values: Array
    test: int  # first test row
    start: float
    interval: float

    def controller(self, mode: str, seed: int, without: int | None = None) -> Controller:
        policy = make_policy("auto", self.field, seed=seed)
        limits: dict[str, Any] = {"reply_timeout": self.interval / 5, "max_age": self.interval}
        # mypy does not know that the mode is one of the allowed texts.
        settings = ControllerSettings(interval=self.interval, faults=mode, **limits)  # type: ignore[arg-type]
        chosen: Any = policy if without is None else WithoutArm(policy, without)
        return Controller(chosen, settings, with_text=False)

    def replay(
        self,
        controller: Controller,
        first: int,
        last: int,
        reported: tuple[int, Array] | None = None,
        *,
        all_report: bool = False,
    ) -> Sequel:
        """Replay the rows `first` to `last` - 1 with `controller`; at most one sensor is faulty.

        `reported` is a pair: the arm of the faulty sensor, and the values that this sensor reports,
        one for each row. `reported` is None if no sensor is faulty. In a row with NaN, no sensor is
        selected, and the pick of the row is -1.
        """
        sensors = self.field.sensors
        arms = {sensor: arm for arm, sensor in enumerate(sensors)}
        picks, alarms = np.full(last - first, -1), []
        before = first - 1
        for row in (first + np.flatnonzero(rows_without_nan(self.values[first:last]))).tolist():
            at = self.start + row * self.interval
            values = self.values[row].copy()
            if reported:
                values[reported[0]] = reported[1][row - first]
            commands = controller.handle(IntervalElapsed(at, row - before))
            before = row
            arm = next(arms[each.sensor] for each in commands if isinstance(each, Activate))
            picks[row - first] = arm
            others = [each for each in range(len(sensors)) if all_report and each != arm]
            for each in (arm, *others):
                reading = Reading(sensors[each], float(values[each]), at=at, received=at)
                commands += controller.handle(reading)
            alarms += [(row - first, sensor) for sensor in _alarmed(commands)]
        return Sequel(picks, alarms)


def _alarmed(commands: list[Command]) -> Iterator[str]:
    for each in commands:
        if isinstance(each, Notify) and each.notice.event == "sensor-faulty":
            yield str(each.notice.sensor)


def _starts(place: str, split: TrainTestSplit) -> dict[str, _Start]:
    split = split.of_varying_sensors()
    unit, *_ = _other_unit(place)
    trained = split.trained_field()
    names, center, scale = trained.sensors, trained.center, trained.scale
    days = trained.to_model(split.training), split.interval, split.start
    guessed = exchangeable(len(names), GUESSED_CORRELATION)
    common: dict[str, Any] = {"unit": unit, "center": center, "scale": scale}
    known = SensorField(names, trained.kernel, 0.01, structure=fit_structure(*days), **common)
    prior = prior_structure(guessed, split.interval)
    unknown = SensorField(names, guessed, 0.01, structure=prior, **common)
    border, interval = len(split.training), split.interval
    return {
        "trained": _Start(known, split.test, 0, split.test_start, interval),
        "cold": _Start(unknown, split.values, border, split.start, interval),
    }


def _rows_with_faults(
    run: int, seed: int, place: str, split: TrainTestSplit, generator: np.random.Generator
) -> Iterator[Row]:
    """Yield the results of one run of FAULTS on a recording; `seed` is for the policies."""
    for label, start in _starts(place, split).items():
        T = len(start.values) - start.test
        first, last = start.test + T // 8, len(start.values)
        before = start.controller("exclude", seed)
        start.replay(before, 0, first)
        blob = before.snapshot()
        truth = start.values[first:]
        for where, arm in _arms(truth, run).items():
            baseline = start.controller("exclude", seed, without=arm)
            baseline.restore(blob)
            without = start.replay(baseline, first, last)
            for fault in FAULTS:
                values = truth[:, arm]
                reported = arm, _reported(fault, place, values, start.field.scale, T, generator)
                sequels = {}
                for mode in ("exclude", "off"):
                    controller = start.controller(mode, seed)
                    controller.restore(blob)
                    sequels[mode] = start.replay(controller, first, last, reported)
                ours, off = sequels["exclude"], sequels["off"]
                found = [row for row, sensor in ours.alarms if sensor == f"s{arm}"]
                end = found[0] + 1 if found else len(truth)
                case = case_labels(place=place, start=label, fault=fault, sensor=where)
                scale = start.field.scale
                numbers = {
                    "R_T/T": _regret(truth, ours, arm) / scale,
                    "without": _regret(truth, without, arm) / scale,
                    "off": _regret(truth, off, arm) / scale,
                    "found": float(bool(found)),
                    "intervals": float(end),
                    "readings": float((ours.picks[:end] == arm).sum()),
                    "readings off": float((off.picks == arm).sum()),
                    "matters": float((off.picks == arm).sum() >= MIN_READINGS),
                    "missed": float((off.picks == arm).sum() >= MIN_READINGS and not found),
                    "other alarms": float(sum(sensor != f"s{arm}" for _, sensor in ours.alarms)),
                }
                yield Row(run, case, numbers)


def _arms(truth: Array, run: int) -> dict[str, int]:
    """Return the two arms in which faults are tried in run number `run`: a hot and a median one."""
    times = np.bincount(truth.argmax(axis=1), minlength=truth.shape[1])
    hottest = np.argsort(-times, kind="stable")
    by_mean = np.argsort(-truth.mean(axis=0))
    return {
        "hot": int(hottest[run % CANDIDATES]),
        "median": int(by_mean[len(by_mean) // 2 + run % CANDIDATES]),
    }


def _reported(
    fault: str, place: str, values: Array, scale: float, T: int, generator: np.random.Generator
) -> Array:
    n = np.arange(len(values))
    _, factor, offset = _other_unit(place)
    match fault:
        case "stuck":
            return np.repeat(values[:1], len(values))
        case "drift":
            return values + DRIFT * scale * n / (T / 4)
        case "spikes":
            return values + SPIKE * scale * (generator.random(len(values)) < SPIKE_SHARE)
        case _:
            return factor * values + offset


def _regret(truth: Array, sequel: Sequel, faulty: int) -> float:
    """Return a run's mean regret, computed from the true values.

    The best sensor is the best one of the sensors that are not faulty.
    """
    best = np.delete(truth, faulty, axis=1).max(axis=1)
    chosen = truth[np.arange(len(truth)), sequel.picks]
    return float(np.maximum(0.0, best - chosen).mean())


def _false_alarms(place: str, split: TrainTestSplit) -> Iterator[Row]:
    for (name, start), all_report in product(_starts(place, split).items(), (False, True)):
        label = f"{name}, all report" if all_report else name
        T, M = start.values.shape
        recorded = int(rows_without_nan(start.values).sum())
        sequel = start.replay(start.controller("exclude", 0), 0, T, all_report=all_report)
        numbers = {
            "alarms": float(len(sequel.alarms)),
            "sensor-years": recorded * M * start.interval / YEAR,
        }
        yield Row(0, case_labels(place=place, start=label, fault="none", sensor="none"), numbers)


def _other_unit(place: str) -> tuple[str, float, float]:
    """Return the unit of a recording, and the conversion of its values to a wrong unit.

    The conversion is a factor and an offset; the fault *unit* uses it.
    """
    for name, unit in OTHER_UNITS.items():
        if place.startswith(name):
            return unit
    return "", 1.0, 0.0


def _label(case: Labels) -> str:
    return f"{case['place']}, {case['start']}, {case['fault']}, {case['sensor']} sensor"


def _regret_goal(results: ResultTable, case: Labels) -> Expectation:
    ours, without, off = (results.cell(name, case).mean for name in ("R_T/T", "without", "off"))
    text = (
        f"{_label(case)}: R_T/T is {ours:.3f} with detection, {off:.3f} without detection, and "
        f"{without:.3f} without the sensor; the goal with detection is at most {MAX_RATIO} times "
        "the R_T/T without the sensor"
    )
    return Expectation(text, ours <= MAX_RATIO * without)


def _found_goal(results: ResultTable, case: Labels) -> Expectation:
    names = ("readings", "intervals", "readings off")
    readings, intervals, asked = (results.cell(name, case).mean for name in names)
    matters, missed = results.cell("matters", case), results.cell("missed", case).mean
    runs = round(matters.mean * matters.runs)
    found = runs - round(missed * matters.runs)
    text = (
        f"{_label(case)}: the fault is found in {found} of the {runs} runs in which the fault "
        f"matters. Until the fault is found or the run ends, the sensor is read {readings:.0f} "
        f"times in {intervals:.0f} intervals. Without detection, the sensor is read {asked:.0f} "
        "times"
    )
    return Expectation(text, found == runs)


def _alarm_goal(results: ResultTable, case: Labels) -> Expectation:
    alarms, years = (results.cell(name, case).mean for name in ("alarms", "sensor-years"))
    text = (
        f"{case['place']}, {case['start']}: {alarms:.0f} false alarms in {years:.1f} sensor-years"
    )
    return Expectation(text, alarms <= max(years, 1.0))
