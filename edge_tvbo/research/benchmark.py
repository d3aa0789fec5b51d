"""Benchmark: the regret of policies on problems, with the same fields and noise for all policies.

A job is one run of one policy on one problem. Its result is stored in a file. An interrupted
benchmark can therefore continue, and a later command can add policies, problems or runs.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from edge_tvbo import __version__
from edge_tvbo.errors import ConfigError
from edge_tvbo.models.arm_space import Arm
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import build_policy
from edge_tvbo.policy.base import Policy
from edge_tvbo.policy.registry import read_settings, settings_class
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.research.experiments.curves import BAND, plot_mean_curves
from edge_tvbo.research.experiments.result_table import (
    Drawing,
    Expectation,
    Labels,
    ResultTable,
    Row,
)
from edge_tvbo.research.experiments.runner import measured_time
from edge_tvbo.research.problems import Problem, load_problem
from edge_tvbo.research.problems.recorded_fields import RecordedField
from edge_tvbo.research.ranking import draw_ranking, rank_policies
from edge_tvbo.research.resumable_jobs import ResumableJobs

REGRET = "R_T/T"
REVISION = 3  # increases when the rows of a run change, so that stored runs are not mixed
SEPARATOR = "+"  # between the parts of a stored run's name; the parts often contain "-"
PANELS = 4  # panels in a row of the figure
COLOURS = ["blue", "orange", "green", "red", "purple", "brown", "pink", "gray", "olive", "cyan"]
STYLES = ["-", "--", ":"]  # line styles; with ten colours, they distinguish 30 curves

Recorded = Mapping[str, RecordedField]
NO_RECORDINGS: Recorded = {}


class BenchmarkRun(NamedTuple):
    """One run of the benchmark: one policy on one problem."""

    problem: str
    policy: str
    run: int
    seed: int


class Benchmark(Experiment):
    """The regret of each policy on each problem, with regret curves and a comparison of ranks.

    Parameters
    ----------
    problems, policies : sequence of str
        Names of problems and policies.
    recorded : mapping of str to RecordedField
        The problems that are recordings; the keys are their names.
    """

    name = "benchmark"
    title = "policies on problems"
    source = "none"

    def __init__(
        self, problems: Sequence[str], policies: Sequence[str], recorded: Recorded = NO_RECORDINGS
    ) -> None:
        super().__init__()
        self._problems, self._policies = tuple(problems), tuple(policies)
        self._recorded = recorded

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Return an empty list, because no paper has published results of this benchmark."""
        return []

    def pictures(self) -> dict[str, Drawing]:
        """Return the functions that draw the benchmark's pictures; the keys are file names.

        One picture shows the regrets. If there are several problems and several policies, another
        picture shows the ranks of the policies.
        """
        ranked = len(self._problems) > 1 and len(self._policies) > 1
        return {"regret": self.draw, **({"ranks": _draw_ranks} if ranked else {})}

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw the cumulative regret of each benchmarked policy, in a panel for each problem."""
        lines = -(-len(self._problems) // PANELS)
        columns = min(PANELS, len(self._problems))
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        figure.set_size_inches(4.0 * columns, 3.0 * lines + 1.0)
        for axes, problem in zip(panels, self._problems, strict=False):
            axes.set_prop_cycle(
                linestyle=[style for style in STYLES for _ in COLOURS],
                color=[f"tab:{colour}" for colour in COLOURS] * len(STYLES),
            )
            cases = {each: {"problem": problem, "policy": each} for each in self._policies}
            plot_mean_curves(axes, results, "R_t", cases)
            axes.set(title=problem, xlabel="t", ylabel="R_t", ylim=(0, None))
        for axes in panels[len(self._problems) :]:
            axes.set_axis_off()
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", fontsize=8)
        figure.suptitle(f"cumulative regret; {BAND}", fontsize=11)

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        for problem in self._problems:
            for policy in self._policies:
                yield play(BenchmarkRun(problem, policy, run, seed), self._recorded)


def run_benchmark(
    problems: Sequence[str],
    policies: Sequence[str],
    directory: Path,
    *,
    runs: int,
    seed: int,
    executor: Executor,
    recorded: Recorded = NO_RECORDINGS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """Return a row for each run of each policy on each problem.

    Finished runs are stored in `directory`, and runs that are already stored are not repeated. The
    rows do not depend on the executor. `recorded` maps names to the problems that are recordings.

    Raises
    ------
    ConfigError
        If `directory` holds runs of another version of edge_tvbo, or runs with another seed.
    """
    manifest = {"edge_tvbo": __version__, "benchmark": REVISION, "seed": seed}
    finished = ResumableJobs(directory, manifest)
    keys = {name: name for name in problems}
    keys |= {name: f"{Path(name).name}-{each.fingerprint()}" for name, each in recorded.items()}
    jobs = {
        BenchmarkRun(problem, policy, run, seed): SEPARATOR.join((key, policy, f"{run:06}"))
        for problem, key in keys.items()
        for policy in policies
        for run in range(runs)
    }
    named = {name: job for job, name in jobs.items()}
    with measured_time(directory):
        finished.run(executor, partial(play, recorded=recorded), named, progress)
    return [replace(finished.read(name, Row), case=_case(job)) for job, name in jobs.items()]


def play(job: BenchmarkRun, recorded: Recorded = NO_RECORDINGS) -> Row:
    """Return the regret of one benchmark run, in model units; each worker calls this function.

    The fields, the noise and the seed of the policy depend only on the problem, the run and the
    seed of the benchmark, so they are the same for all policies. If the problem is the path of a
    recording, the random numbers depend on the name of the file, and not on its directory.
    """
    problem = _problem(job.problem, recorded)
    generator = _generator(job)
    policy_seed = int(generator.integers(2**31))
    truth = problem.truth(generator)
    noise = generator.standard_normal(problem.horizon) * problem.noise_variance**0.5
    player = Player(job.policy, problem, policy_seed)
    to_model, regret = problem.field.to_model, np.empty(problem.horizon)
    for t in range(problem.horizon):
        arm = player.select(t)
        value = to_model(truth.value(t, player.arm_of_problem(arm)))
        player.observe(arm, float(value + noise[t]))
        player.advance(t)
        regret[t] = max(to_model(truth.best(t)) - value, 0.0)
    numbers = {REGRET: float(regret.mean()), "resets": float(player.policy.resets)}
    curves = {"R_t": regret.cumsum().round(5).tolist()}
    return Row(job.run, _case(job), numbers, curves)


class Player:
    """A benchmarked policy, connected to one problem.

    If the problem is a box and the policy needs sensors, the policy chooses among candidate places.
    If the problem is a recording, the policy has learned from the training rows.
    """

    policy: Policy

    def __init__(self, name: str, problem: Problem, seed: int) -> None:
        self._recorded = problem if isinstance(problem, RecordedField) else None
        self._box: BoxField | None = None
        if self._recorded is not None:
            self.policy = self._recorded.make_policy(name, seed)
            return
        settings = read_settings(settings_class(name), {"seed": seed})
        field = problem.field
        try:
            self.policy = build_policy(settings, field)
        except ConfigError:
            if not isinstance(field, BoxField):
                raise
            self._box = field
            self.policy = build_policy(settings, candidates_of(field))

    def select(self, t: int) -> Arm:
        """Return the arm that the benchmarked policy selects in interval `t`."""
        if self._recorded is not None:
            self.policy.set_time(self._recorded.start_of(t))
        return self.policy.select().arm

    def observe(self, arm: Arm, reading: float) -> None:
        """Update the benchmarked policy with a reading of `arm`, in model units of the problem.

        If the policy learned from a recording, its model may have another scale than the problem.
        The reading is then converted to the scale of the model.
        """
        if self._recorded is not None:
            own: SensorField = self.policy.field
            reading = own.to_model(self._recorded.field.to_unit(reading))
        self.policy.observe(arm, float(reading))

    def advance(self, t: int) -> None:
        """Advance the time of the benchmarked policy from interval `t` to the next interval."""
        for _ in range(1 if self._recorded is None else self._recorded.intervals_after(t)):
            self.policy.advance()

    def arm_of_problem(self, arm: Arm) -> Arm:
        """Convert `arm`, which the benchmarked policy selected, to an arm of the problem."""
        return arm if self._box is None else self._box.arm(arm)


def candidates_of(box: BoxField) -> SensorField:
    """Return a benchmark problem's box as a sensor field, for policies that need sensors.

    Each candidate of the box is a sensor, and the sensors have the prior of the box.
    """
    names = [f"c{i}" for i in range(len(box))]
    return SensorField(names, box.kernel, box.noise_variance, positions=box.positions)


def check_pairs(
    problems: Sequence[str], policies: Sequence[str], recorded: Recorded = NO_RECORDINGS
) -> dict[str, str]:
    """Return the policies that cannot be used in a benchmark, each with the reason.

    The reason names the first problem for which the policy cannot be built.
    """
    refused: dict[str, str] = {}
    for name in problems:
        problem = _problem(name, recorded)
        for policy in policies:
            try:
                Player(policy, problem, 0)
            except ConfigError as error:
                refused.setdefault(policy, f"{name}: {error}")
    return refused


def _problem(name: str, recorded: Recorded) -> Problem:
    return recorded[name] if name in recorded else load_problem(name)


def _case(job: BenchmarkRun) -> Labels:
    return {"problem": job.problem, "policy": job.policy}


def _generator(job: BenchmarkRun) -> np.random.Generator:
    digest = hashlib.sha256(Path(job.problem).name.encode()).digest()
    return np.random.default_rng([job.seed, int.from_bytes(digest[:8], "big"), job.run])


def _draw_ranks(figure: Any, results: ResultTable) -> None:
    draw_ranking(figure, rank_policies(results, REGRET))
