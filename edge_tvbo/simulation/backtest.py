"""Backtest of policies on one recording: training and test days, and a replay for every seed."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.errors import DataError
from edge_tvbo.messages.formatting import counted, listed, named, text_table
from edge_tvbo.models.field import SensorField
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.base import Policy
from edge_tvbo.simulation.recording import Recording
from edge_tvbo.simulation.replay import (
    ONE_PER_INTERVAL,
    Pace,
    Run,
    controller_settings,
    empty_steps,
    mean_and_sd,
    replay,
)
from edge_tvbo.simulation.row_range import RowRange, best_arm, recorded_rows
from edge_tvbo.simulation.training_rows import reading_beyond, training_rows
from edge_tvbo.training.covariance import (
    NOISE_VARIANCE,
    Transform,
    train,
    with_model,
    with_structure,
)
from edge_tvbo.training.structural_fit import FitProgress
from edge_tvbo.training.textbook_fit import best_width, fit_textbook
from edge_tvbo.training.training_report import TrainingReport, make_training_report

UNIT = "training sd"  # unit of regret in JSON
UNIT_TEXT = "standard deviations of the training data"  # the unit in sentences
SPREAD_TEXT = "± is the standard deviation over the seeds"
UNIT_LABEL = "sd of the training data"  # the unit in headings and axis labels
SAVED_TEXT = (
    "Saved: how many fewer activations a policy made than a baseline, as a share of the baseline's "
    'activations. The baseline "always-on" activates all sensors in each interval. The baseline '
    '"round-robin" activates as many sensors in each interval as the policy may activate without '
    "--budget."
)
MAX_GROWTH = 1e12  # largest ratio of a test reading to the training readings
FAULTY_TEXT = (
    "As the daemon does, the replays excluded sensors that seemed to be faulty. But the readings of"
    " these sensors count in the regret as all other readings do. If such a sensor is broken, leave"
    " it out of the recording."
)
ORACLE = "oracle"
STATIC = "static"  # activates the sensor that was best on the training days
AUTO = "auto"
TEXTBOOK = "kalman-ucb"

# Settings for policies whose defaults do not suit a backtest. n_upper = 15 is the block length N
# that [B16] and [ET] use for the temperatures of the laboratory. Without this upper bound, the
# trigger of lemma 3 misses slow drifts, and the regret depends on chance: see docs/findings.md.
DEFAULT_SETTINGS: dict[str, dict[str, Any]] = {"et-gp-ucb": {"n_upper": 15}}


@dataclass(frozen=True)
class Result:
    """The results of one policy in a backtest, with one replay for each seed."""

    policy: str
    settings: dict[str, Any]
    regret: Array  # (seeds, T), in standard deviations of the training data
    steps: NDArray[np.void]  # (seeds, T), of `replay.STEP_DTYPE`
    resets: list[int]
    activations: list[int]
    missed: list[int]  # activations that timed out
    digests: list[str]
    sensors: int  # M
    per_interval: int = 1  # sensors that are activated in each interval
    faulty: tuple[tuple[str, ...], ...] = ()  # for each seed, the names of the faulty sensors

    def saved_shares(self) -> dict[str, float]:
        """Return the share of activations that the policy saved, compared with two baselines.

        The keys are the names of the baselines. "always-on" activates all sensors in each interval.
        "round-robin" activates as many sensors in each interval as the policy may activate without
        a budget. A share of 0.9 means that the policy made a tenth of the activations of the
        baseline. The dict is empty for the oracle, because the oracle uses readings of sensors that
        it did not activate.
        """
        if self.policy == ORACLE:
            return {}
        intervals, activations = self.regret.shape[1], float(np.mean(self.activations))
        return {
            "always-on": 1.0 - activations / (intervals * self.sensors),
            "round-robin": 1.0 - activations / (intervals * self.per_interval),
        }

    @property
    def picks(self) -> NDArray[np.int64]:
        """The arms activated in the backtest, (seeds, T); -1 if an interval has no activation.

        If several arms are activated in an interval, the array has the arm with the best value.
        """
        return np.asarray(self.steps["pick"])

    def document(self) -> dict[str, Any]:
        """Return the policy's result in the backtest as the JSON document of ``replay --json``."""
        per_seed = self.regret.mean(axis=1).tolist()
        mean, sd = mean_and_sd(per_seed)
        return {
            "policy": self.policy,
            "settings": self.settings,
            "regret_per_interval": {"mean": mean, "sd": sd, "seeds": per_seed},
            "resets": float(np.mean(self.resets)),
            "activations": float(np.mean(self.activations)),
            "missed": float(np.mean(self.missed)),
            "saved_against": self.saved_shares(),
            "decisions_sha256": self.digests,
        }


class ReplayJob(NamedTuple):
    """One replay of a backtest, before it is run: a policy, its seed and its settings."""

    policy: str
    seed: int
    settings: Mapping[str, Any] = {}


class Backtest:
    """Backtest of policies on a recording, which is divided into training days and test days.

    Parameters
    ----------
    recording : Recording
        Readings of the sensors.
    train_span, test_span : RowRange
        The rows on which the field is trained, and the rows on which policies are replayed.
    noise_variance : float
        Noise variance of a reading, relative to the variance of the training data.
    pace : Pace
        How many sensors are activated; by default, one in each interval.

    Raises
    ------
    DataError
        If the recording is too short to have training rows and test rows. Also if nothing was
        recorded in `test_span`, if fewer than two rows were recorded in `train_span`, if a sensor
        has no reading in `train_span`, or if a reading in `test_span` is so much larger than the
        training readings that it must be wrong.
    """

    def __init__(
        self,
        recording: Recording,
        train_span: RowRange,
        test_span: RowRange,
        noise_variance: float = NOISE_VARIANCE,
        pace: Pace = ONE_PER_INTERVAL,
    ) -> None:
        self.recording = recording
        self.test_span = test_span
        self.pace = pace
        self.train_span = train_span
        _check_length(recording, 2 if train_span == test_span else 3)
        _check_rows(recording, train_span, "training", 2)
        self._training = training_rows(recording, train_span)
        self.field: SensorField = train(
            self._training,
            recording.sensors,
            unit=recording.unit,
            objective="min" if recording.objective == "min" else "max",
            noise_variance=noise_variance,
            positions=recording.positions,
        )
        if test_span.first == test_span.last:
            raise DataError(
                "No test day is left; select fewer training days with --train, or select the test"
                " days with --test."
            )
        _check_rows(recording, test_span, "test", 1)
        _check_test_readings(recording, test_span, self.field)

    @cached_property
    def structured_field(self) -> SensorField:
        """The backtest's field with a structural model, fitted when this property is first used."""
        return with_structure(self.field, self._training, *self._training_times)

    @cached_property
    def _textbook_field(self) -> SensorField:
        return with_model(self.field, fit_textbook(self._modelled, *self._training_times))

    @cached_property
    def _textbook_width(self) -> float:
        return best_width(self.field, self._modelled, *self._training_times)

    @property
    def _modelled(self) -> Array:
        return self.field.to_model(self._training)

    def fit_structure(
        self, progress: FitProgress, *, period: float | None = None, transform: Transform = "auto"
    ) -> None:
        """Fit the structural model of the backtest's field.

        `period` and `transform` have the same meaning as for `with_structure`.
        `progress` is called with the number of finished steps and the number of all steps.
        """
        self.structured_field = with_structure(
            self.field,
            self._training,
            *self._training_times,
            progress,
            period=period,
            transform=transform,
        )

    def training_report(self, *, period: float | None = None) -> TrainingReport:
        """Return the training report on the backtest's field and training days.

        `period` must be the value with which the structural model was fitted.
        """
        observed = self.recording.observed[self.train_span.first : self.train_span.last]
        return make_training_report(
            self.structured_field,
            self._training,
            *self._training_times,
            period=period,
            observed=observed,
        )

    def make_policy(self, policy: str, settings: Mapping[str, Any], seed: int) -> Policy:
        """Return a new policy on the backtest's field, trained on the training days."""
        keywords = {"seed": seed, **self._policy_settings(policy, settings)}
        return make_policy(policy, self._field_of(policy), **keywords)

    def controller(self, policy: str, settings: Mapping[str, Any], seed: int) -> Controller:
        """Return a new controller that selects sensors of the backtest's field with `policy`."""
        return Controller(self.make_policy(policy, settings, seed), self._controller_settings)

    def run(
        self,
        policy: str,
        settings: Mapping[str, Any],
        seeds: int,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Result:
        """Replay the backtest's test days with `policy` and return the combined result.

        There is one replay for each seed from 0 to `seeds` - 1. `progress` is called after each
        replay with the number of finished replays.
        """
        runs = []
        for seed in range(seeds):
            runs.append(self.run_job(ReplayJob(policy, seed, settings)))
            progress(seed + 1)
        return self.result(policy, settings, runs)

    def run_job(self, job: ReplayJob) -> Run:
        """Replay the test days of the backtest once, with the policy and the seed of `job`."""
        policy = self.make_policy(job.policy, job.settings, job.seed)
        controller = Controller(policy, self._controller_settings, with_text=False)
        return replay(self.recording, self.test_span, controller).run()

    def result(self, policy: str, settings: Mapping[str, Any], runs: Sequence[Run]) -> Result:
        """Return the backtest's result for `policy`, combined from the replays `runs`."""
        steps = np.stack([run.steps for run in runs])
        return Result(
            policy,
            self._policy_settings(policy, settings),
            regret=steps["regret"] / self.field.scale,
            steps=steps,
            resets=[run.resets for run in runs],
            activations=[run.activations for run in runs],
            missed=[run.missed for run in runs],
            digests=[run.digest for run in runs],
            sensors=len(self.field),
            per_interval=self.pace.per_interval,
            faulty=tuple(tuple(named(run.faulty, self.recording.names)) for run in runs),
        )

    def oracle(self) -> Result:
        """Return the backtest result of an oracle, which always selects the best sensor.

        The oracle has no regret.
        """
        rows = recorded_rows(self.recording, self.test_span)
        T, steps = len(rows), empty_steps(len(rows))[None, :]
        steps["pick"] = best_arm(self.recording, rows)
        return Result(ORACLE, {}, steps["regret"], steps, [0], [T], [0], [""], len(self.field))

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the backtest.

        The digits depend on the recording, the settings, the training days and the test days.
        """
        recording, rows = self.recording, slice(self.test_span.first, self.test_span.last)
        arrays = (self._training, recording.values[rows], recording.observed[rows])
        numbers = (self.train_span, self.test_span, recording.start, recording.interval)
        parts = (array.tobytes() for array in arrays)
        pace = "" if self.pace == Pace(self.pace.budget) else repr(self.pace)
        gaps = "silent" if recording.replies is None else "filled"
        settings = (
            f"{self.field.fingerprint().exact} {numbers!r} {self.pace.budget}{pace} {gaps}".encode()
        )
        return sha256(b"\0".join((*parts, settings))).hexdigest()[:16]

    @property
    def _controller_settings(self) -> ControllerSettings:
        return controller_settings(self.recording, self.pace)

    @property
    def _training_times(self) -> tuple[float, float]:
        """The length of an interval and the start of the backtest's training rows, in s."""
        interval = self.recording.interval
        return interval, self.recording.start + self.train_span.first * interval

    def _field_of(self, policy: str) -> SensorField:
        """Return the backtest's trained field, with the model that `policy` needs."""
        if policy == AUTO:
            return self.structured_field
        return self._textbook_field if policy == TEXTBOOK else self.field

    def _policy_settings(self, policy: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        defaults = DEFAULT_SETTINGS.get(policy, {})
        if policy == STATIC:
            sign = 1.0 if self.field.objective == "max" else -1.0
            best = int(np.nanmean(sign * self._training, axis=0).argmax())
            defaults = {"sensor": self.field.sensors[best]}
        if policy == TEXTBOOK:
            defaults = {"width": self._textbook_width}
        return {**defaults, **settings}


def _check_length(recording: Recording, least: int) -> None:
    """Raise `DataError` if the recording is too short for a backtest with any choice of days."""
    if (intervals := len(recording.values)) < least:
        raise DataError(
            f"{recording.name}: only {counted(intervals, 'interval')}; at least {least} are needed."
            " Use a longer recording, or a shorter interval."
        )


def _check_rows(recording: Recording, span: RowRange, which: str, least: int) -> None:
    """Raise `DataError` if the backtest's `span` has fewer than `least` rows with readings."""
    rows, intervals = len(recorded_rows(recording, span)), span.last - span.first
    if rows >= least:
        return
    option = "--test" if which == "test" else "--train"  # `fit` has no --test
    advice = f"Select more days with {option}."
    if rows < intervals:
        advice = (
            f"In the other intervals, too few sensors were read. Select other days with {option}, "
            "or leave out the sensors that were read only for a part of the time."
        )
    raise DataError(
        f"{recording.name}: {rows} of the {intervals} intervals of the {which} days can be used; "
        f"at least {least} {'is' if least == 1 else 'are'} needed. {advice}"
    )


def _check_test_readings(recording: Recording, span: RowRange, field: SensorField) -> None:
    """Raise `DataError` if a reading in the test rows of the backtest is certainly wrong.

    Such a reading would count as the value of the best sensor, so all regrets would be meaningless.
    """
    limit = MAX_GROWTH * (abs(field.center) + field.scale)
    if found := reading_beyond(recording, slice(span.first, span.last), limit):
        raise DataError(
            f"{found} on the test days, but the training readings are {field.center:.4g} ± "
            f"{field.scale:.2g}. Remove this reading, or select other days with --train and --test."
        )


def results_table(results: Sequence[Result]) -> str:
    """Return a text table of backtest results, with a row for each policy."""
    rows = [["policy", "regret", "±", "activations", "timed out", "resets"]]
    rows[0] += ["saved of always-on", "of round-robin"]
    for result in results:
        mean, sd = mean_and_sd(result.regret.mean(axis=1))
        counts = (result.activations, result.missed, result.resets)
        spread = f"{sd:.3f}" if len(result.regret) > 1 else "-"
        rows.append([result.policy, f"{mean:.3f}", spread])
        rows[-1] += [f"{np.mean(each):.1f}".removesuffix(".0") for each in counts]
        shares = result.saved_shares().values()
        rows[-1] += [f"{100 * share:.1f} %" for share in shares] or ["-", "-"]
    faulty = faulty_text(results)
    note = f"\nSensors excluded as faulty: {faulty}. {FAULTY_TEXT}" if faulty else ""
    return (
        f"{text_table(rows)}\nRegret is per interval, in {UNIT_TEXT}; {SPREAD_TEXT}.\n{SAVED_TEXT}"
        f"{note}"
    )


def faulty_text(results: Sequence[Result]) -> str:
    """Return a text that names the sensors that a backtest excluded as faulty.

    The text states in how many replays each sensor was excluded; the highest number is first. The
    text is "" if no sensor was excluded.
    """
    replays = [sensors for result in results for sensors in result.faulty]
    counts = Counter(sensor for sensors in replays for sensor in sensors)
    return listed(f"{name} (in {n} of {len(replays)} replays)" for name, n in counts.most_common())
