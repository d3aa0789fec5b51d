"""Policies compared on one recording: the same days, the same seeds, the same controller."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo import __version__
from edge_tvbo.control.controller import Controller
from edge_tvbo.control.decision_text import Silent
from edge_tvbo.errors import DataError
from edge_tvbo.models.field import SensorField
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.base import Policy
from edge_tvbo.policy.baselines import ModelFreePolicy
from edge_tvbo.ports import Each, Recording
from edge_tvbo.research.executors import one_by_one
from edge_tvbo.research.resumable_jobs import ResumableJobs
from edge_tvbo.simulation.replay import (
    RowRange,
    Run,
    hottest,
    mean_and_sd,
    nothing,
    replay,
    rules,
    training_rows,
)
from edge_tvbo.training.covariance import NOISE_VARIANCE, train, with_daily_profile
from edge_tvbo.training.daily_profile_fit import Progress, no_progress
from edge_tvbo.training.training_report import TrainingReport, make_training_report

UNIT = "training sd"
ORACLE = "oracle"
STATIC = "static"  # it asks who was best on the training days
BY_RHYTHM = ("auto",)  # policies that go by the time of day

# What a policy is set to unless one says otherwise, where its own defaults would not do. The bound
# is the block length of [B16] and [ET] for the laboratory's temperatures, N = 15. Without any, the
# trigger of lemma 3 is blind to slow drifts, and what it comes to is chance: see docs/findings.md.
SETTINGS: dict[str, dict[str, Any]] = {"et-gp-ucb": {"n_upper": 15}}


@dataclass(frozen=True)
class Result:
    """What one policy came to on the test days, seed by seed."""

    policy: str
    settings: dict[str, Any]
    regret: Array  # (seeds, T), in training standard deviations
    steps: NDArray[np.void]  # (seeds, T), of `replay.STEP`
    noise: float  # sd of a reading as the model has it, in the recording's unit; NaN without one
    resets: list[int]
    activations: list[int]
    missed: list[int]
    digests: list[str]
    sensors: int  # M

    def saved(self) -> dict[str, float]:
        """Give which share of the activations was saved, beside asking everyone, and by turns.

        Nothing for the oracle, who sees what it did not ask for.
        """
        if self.policy == ORACLE:
            return {}
        intervals, asked = self.regret.shape[1], float(np.mean(self.activations))
        return {
            "always-on": 1.0 - asked / (intervals * self.sensors),
            "round-robin": 1.0 - asked / intervals,
        }

    @property
    def picks(self) -> NDArray[np.int64]:
        """Who was asked (seeds, T): arms; -1 where nobody was."""
        return np.asarray(self.steps["pick"])

    def document(self) -> dict[str, Any]:
        """Give the result as ``replay --json`` prints it."""
        per_seed = self.regret.mean(axis=1).tolist()
        mean, sd = mean_and_sd(per_seed)
        return {
            "policy": self.policy,
            "settings": self.settings,
            "regret_per_interval": {"mean": mean, "sd": sd, "seeds": per_seed},
            "resets": float(np.mean(self.resets)),
            "activations": float(np.mean(self.activations)),
            "missed": float(np.mean(self.missed)),
            "saved_against": self.saved(),
            "decisions_sha256": self.digests,
        }


class Trial(NamedTuple):
    """One policy with one seed."""

    policy: str
    seed: int
    settings: Mapping[str, Any] = {}


class Backtest:
    """A recording with its training and test days.

    Parameters
    ----------
    recording : Recording
        What the sensors measured.
    train_span, test_span : Span
        The rows the field is learned from, and those the policies are tried on.
    noise_variance : float
        Of a reading, as a share of the training variance.
    budget : float, optional
        Activations a day; without it, one in each interval.
    """

    def __init__(
        self,
        recording: Recording,
        train_span: RowRange,
        test_span: RowRange,
        noise_variance: float = NOISE_VARIANCE,
        budget: float | None = None,
    ) -> None:
        if test_span.last <= test_span.first:
            raise DataError("No day is left to try on; name fewer --train days, or --test.")
        self.recording = recording
        self.test_span = test_span
        self.budget = budget
        self.train_span = train_span
        self._training = training_rows(recording, train_span)
        self.field: SensorField = train(
            self._training,
            tuple(recording.sensors),
            unit=recording.unit,
            objective="min" if recording.objective == "min" else "max",
            noise_variance=noise_variance,
            positions=recording.positions,
        )

    @cached_property
    def field_with_daily_profile(self) -> SensorField:
        """The field with its daily rhythm, which takes a while to learn."""
        return self._with_daily_profile(no_progress)

    def learn(self, progress: Progress, each: Each = one_by_one) -> None:
        """Fit the daily profile; `progress` is called with the steps done and their number."""
        self.field_with_daily_profile = self._with_daily_profile(progress, each)

    def on_all_days(self) -> "Backtest":
        """Give the same with every day to learn from."""
        everything = RowRange(0, len(self.recording.values))
        return Backtest(self.recording, everything, everything, self.field.noise_variance)

    def lessons(self, progress: Progress = no_progress, each: Each = one_by_one) -> TrainingReport:
        """Say what the training days taught; `progress` is told how far that is."""
        interval = self.recording.interval
        return make_training_report(
            self.field_with_daily_profile,
            self._training,
            interval,
            self._train_start,
            progress,
            each,
        )

    def controller(self, policy: str, settings: Mapping[str, Any], seed: int) -> Controller:
        """Give a new controller of the field."""
        made = self._policy(policy, settings, seed)
        return Controller(made, rules(self.recording, self.budget))

    def run(
        self,
        policy: str,
        settings: Mapping[str, Any],
        seeds: int,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Result:
        """Replay the test days with seeds 0, 1, ...; `progress` is told after each."""
        runs = []
        for seed in range(seeds):
            runs.append(self.trial(Trial(policy, seed, settings)))
            progress(seed + 1)
        return self.result(policy, settings, runs)

    def compare(
        self,
        policies: Sequence[str],
        seeds: int,
        each: Each,
        directory: Path,
        progress: Callable[[int, int], None],
    ) -> list[Result]:
        """Give what policies come to with seeds 0, 1, ..., the same whoever works for `each`.

        Finished trials are kept in `directory`, and those that it holds are not done again; raises
        `ConfigError` where it holds others.
        """
        parts = ResumableJobs(directory, {"edge_tvbo": __version__, "backtest": self.fingerprint()})
        trials = {
            f"{policy}-{seed:06}": Trial(policy, seed)
            for policy in policies
            for seed in range(seeds)
        }
        parts.carry_out(each, self.trial, trials, progress)
        runs: dict[str, list[Run]] = {policy: [] for policy in policies}
        for name, trial in trials.items():
            runs[trial.policy].append(parts.read(name, Run))
        return [self.result(policy, {}, found) for policy, found in runs.items()]

    def trial(self, trial: Trial) -> Run:
        """Replay the test days once: what a worker does."""
        policy = self._policy(trial.policy, trial.settings, trial.seed)
        controller = Controller(policy, rules(self.recording, self.budget), Silent)
        return replay(self.recording, self.test_span, controller).run()

    def result(self, policy: str, settings: Mapping[str, Any], runs: Sequence[Run]) -> Result:
        """Give what some runs of `policy` came to."""
        steps = np.stack([run.steps for run in runs])
        return Result(
            policy,
            self._settings(policy, settings),
            regret=steps["regret"] / self.field.scale,
            steps=steps,
            noise=self._noise(policy, settings),
            resets=[run.resets for run in runs],
            activations=[run.activations for run in runs],
            missed=[run.missed for run in runs],
            digests=[run.digest for run in runs],
            sensors=len(self.field),
        )

    def oracle(self) -> Result:
        """Give what someone who sees every sensor at every moment would come to: no regret."""
        rows = self.test_span.last - self.test_span.first
        steps = nothing(rows)[None, :]
        steps["pick"] = hottest(self.recording, self.test_span)
        return Result(
            ORACLE, {}, steps["regret"], steps, np.nan, [0], [rows], [0], [""], len(self.field)
        )

    def fingerprint(self) -> str:
        """Give 16 hex digits that differ between backtests whose trials may come out otherwise."""
        recording, rows = self.recording, slice(self.test_span.first, self.test_span.last)
        arrays = (self._training, recording.values[rows], recording.observed[rows])
        numbers = (self.train_span, self.test_span, recording.start, recording.interval)
        parts = (array.tobytes() for array in arrays)
        settings = f"{self.field.fingerprint()} {numbers!r} {self.budget}".encode()
        return sha256(b"\0".join((*parts, settings))).hexdigest()[:16]

    @property
    def _train_start(self) -> float:
        return self.recording.start + self.train_span.first * self.recording.interval

    def _with_daily_profile(self, progress: Progress, each: Each = one_by_one) -> SensorField:
        interval = self.recording.interval
        return with_daily_profile(
            self.field, self._training, interval, self._train_start, progress, each
        )

    def _policy(self, policy: str, settings: Mapping[str, Any], seed: int) -> Policy:
        keywords = {"seed": seed, **self._settings(policy, settings)}
        field = self.field_with_daily_profile if policy in BY_RHYTHM else self.field
        return make_policy(policy, field, **keywords)

    def _settings(self, policy: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        ours = SETTINGS.get(policy, {})
        if policy == STATIC:
            sign = 1.0 if self.field.objective == "max" else -1.0
            best = int((sign * self._training).mean(axis=0).argmax())
            ours = {"sensor": self.field.sensors[best]}
        return {**ours, **settings}

    def _noise(self, policy: str, settings: Mapping[str, Any]) -> float:
        """Give how far off a reading is, by the model of a policy, in the recording's unit."""
        model = self._policy(policy, settings, seed=0)
        if isinstance(model, ModelFreePolicy):
            return np.nan
        rhythm = model.field.daily_profile
        variance = (rhythm or model.field).noise_variance
        return float(variance**0.5 * self.field.scale)


def table(results: list[Result]) -> str:
    """Give the results side by side, for a person."""
    rows = [["policy", f"regret ({UNIT})", "±", "activations", "missed", "resets"]]
    rows[0] += ["saved of always-on", "of round-robin"]
    for result in results:
        mean, sd = mean_and_sd(result.regret.mean(axis=1))
        counts = (result.activations, result.missed, result.resets)
        spread = f"{sd:.3f}" if len(result.regret) > 1 else "-"
        rows.append([result.policy, f"{mean:.3f}", spread])
        rows[-1] += [f"{np.mean(each):.4g}" for each in counts]
        rows[-1] += [f"{share:.1%}" for share in result.saved().values()] or ["-", "-"]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
