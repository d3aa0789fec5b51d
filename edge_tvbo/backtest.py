"""Policies compared on one recording: the same days, the same seeds, the same controller."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.controller import Controller
from edge_tvbo.errors import DataError
from edge_tvbo.learning.lessons import Lessons, lessons
from edge_tvbo.learning.training import NOISE_VARIANCE, train, with_rhythm
from edge_tvbo.model.field import SensorField
from edge_tvbo.policies import make_policy
from edge_tvbo.ports import Recording
from edge_tvbo.replay import Span, Tally, mean_and_sd, replay, rules, training_rows

UNIT = "training sd"
ORACLE = "oracle"
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
    regret: NDArray[np.float64]  # (seeds, T), in training standard deviations
    picks: NDArray[np.int64]  # (seeds, T), arms; -1 where the policy is the oracle
    resets: list[int]
    activations: list[int]
    missed: list[int]
    digests: list[str]

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
            "decisions_sha256": self.digests,
        }


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
    """

    def __init__(
        self,
        recording: Recording,
        train_span: Span,
        test_span: Span,
        noise_variance: float = NOISE_VARIANCE,
    ) -> None:
        if test_span.last <= test_span.first:
            raise DataError("No day is left to try on; name fewer --train days, or --test.")
        self.recording = recording
        self.test_span = test_span
        self._train_span = train_span
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
    def rhythmic(self) -> SensorField:
        """The field with its daily rhythm, which takes a while to learn."""
        recording = self.recording
        start = recording.start + self._train_span.first * recording.interval
        return with_rhythm(self.field, self._training, recording.interval, start)

    def on_all_days(self) -> "Backtest":
        """Give the same with every day to learn from."""
        everything = Span(0, len(self.recording.values))
        return Backtest(self.recording, everything, everything, self.field.noise_variance)

    def lessons(self) -> Lessons:
        """Say what the training days taught."""
        recording = self.recording
        start = recording.start + self._train_span.first * recording.interval
        return lessons(self.rhythmic, self._training, recording.interval, start)

    def controller(self, policy: str, settings: Mapping[str, Any], seed: int) -> Controller:
        """Give a new controller of the field."""
        keywords = {"seed": seed, **SETTINGS.get(policy, {}), **settings}
        field = self.rhythmic if policy in BY_RHYTHM else self.field
        return Controller(make_policy(policy, field, **keywords), rules(self.recording))

    def run(
        self,
        policy: str,
        settings: Mapping[str, Any],
        seeds: int,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Result:
        """Replay the test days with seeds 0, 1, ...; `progress` is told after each."""
        tallies = list(self._tallies(policy, settings, seeds, progress))
        return self.result(policy, settings, tallies)

    def result(self, policy: str, settings: Mapping[str, Any], tallies: list[Tally]) -> Result:
        """Give what some runs of `policy` came to."""
        return Result(
            policy,
            {**SETTINGS.get(policy, {}), **settings},
            regret=np.array([tally.regret for tally in tallies]) / self.field.scale,
            picks=np.array([tally.picks for tally in tallies]),
            resets=[tally.resets for tally in tallies],
            activations=[tally.activations for tally in tallies],
            missed=[tally.missed for tally in tallies],
            digests=[tally.digest() for tally in tallies],
        )

    def oracle(self) -> Result:
        """Give what someone who sees every sensor at every moment would come to: no regret."""
        rows = self.test_span.last - self.test_span.first
        nothing = np.zeros((1, rows))
        nobody = np.full((1, rows), -1)
        return Result(ORACLE, {}, nothing, nobody, [0], [rows], [0], [""])

    def _tallies(
        self,
        policy: str,
        settings: Mapping[str, Any],
        seeds: int,
        progress: Callable[[int], None],
    ) -> Iterator[Tally]:
        for seed in range(seeds):
            controller = self.controller(policy, settings, seed)
            tally = replay(self.recording, self.test_span, controller)
            tally.resets = controller.policy.resets
            progress(seed + 1)
            yield tally


def table(results: list[Result]) -> str:
    """Give the results side by side, for a person."""
    rows = [["policy", f"regret ({UNIT})", "±", "activations", "missed", "resets"]]
    for result in results:
        mean, sd = mean_and_sd(result.regret.mean(axis=1))
        counts = (result.activations, result.missed, result.resets)
        spread = f"{sd:.3f}" if len(result.regret) > 1 else "-"
        rows.append([result.policy, f"{mean:.3f}", spread])
        rows[-1] += [f"{np.mean(each):.4g}" for each in counts]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
