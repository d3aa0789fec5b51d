"""Recordings, replayed and learned from."""

import logging
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from edge_tvbo.cli.options import (
    SPEED,
    backtest_of,
    by_policy,
    cluster_option,
    command_line,
    each_of,
    jobs_option,
    parameters_of,
    recording_options,
    workers_of,
)
from edge_tvbo.cli.output import progress, show
from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from edge_tvbo.messages.commands import Command
    from edge_tvbo.ports import Each
    from edge_tvbo.simulation.backtest import Backtest, Result

WORTH_PROCESSES = 50_000  # intervals: some five seconds of work, where a process takes two to start

out_option = click.option(
    "--out", type=click.Path(path_type=Path), help="A directory for a report: a page, and CSV."
)

budget_option = click.option(
    "--budget", type=click.FloatRange(0), help="Activations a day; without it, one each interval."
)


@click.command()
@recording_options
@click.option("--policy", default="et-gp-ucb", show_default=True, shell_complete=by_policy)
@click.option("--set", "assignments", multiple=True, help="A parameter, such as epsilon=0.03.")
@click.option("--noise", default=0.01, show_default=True, help="Noise by training variance.")
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(1))
@click.option("--via", type=click.Choice(["process", "mqtt"]), default="process")
@click.option("--host", default="127.0.0.1", show_default=True, help="The broker, via mqtt.")
@click.option("--port", default=1883, show_default=True)
@click.option("--speed", default=600.0, show_default=True, type=SPEED, help="Via mqtt.")
@budget_option
@out_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def replay(
    policy: str,
    assignments: tuple[str, ...],
    seeds: int,
    via: str,
    host: str,
    port: int,
    speed: float,
    out: Path | None,
    as_json: bool,
    **source: Any,
) -> None:
    """Replay a recording: what POLICY would have picked, and what that would have missed."""
    backtest = _prepared(out, source)
    settings = parameters_of(assignments)
    if via == "process":
        with each_of(None) as each:
            _learn(backtest, [policy], each)
        with progress(policy, seeds) as step:
            result = backtest.run(policy, settings, seeds, step)
    else:
        if seeds > 1:
            raise ConfigError("--via mqtt replays once; leave --seeds out.")
        result = _over_mqtt(backtest, policy, settings, host, port, speed, source)
    show([result], as_json)
    if out:
        _report(backtest, [result], out, as_json)


@click.command()
@recording_options
@click.option(
    "--policies",
    help="Names with commas between; by default all that learn from days.",
    shell_complete=by_policy,
)
@click.option("--noise", default=0.01, show_default=True, help="Noise by training variance.")
@click.option("--seeds", default=8, show_default=True, type=click.IntRange(1))
@jobs_option
@cluster_option
@budget_option
@out_option
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def compare(
    policies: str | None,
    seeds: int,
    jobs: int | None,
    cluster: str | None,
    out: Path | None,
    as_json: bool,
    **source: Any,
) -> None:
    """Replay a recording with several policies, and print them side by side.

    With --out the replays that were finished are kept there until all are: the same command goes on
    where it was stopped.
    """
    from edge_tvbo.policy import needing_positions
    from edge_tvbo.policy import policies as all_policies
    from edge_tvbo.research.reports.summary import Summary
    from edge_tvbo.simulation.backtest import ORACLE

    backtest = _prepared(out, source)
    trained = [name for name in all_policies() if name not in needing_positions()]
    asked = dict.fromkeys(policies.split(",")) if policies else trained
    names = [name for name in asked if name != ORACLE]  # who sees everything comes last anyway
    intervals = len(names) * seeds * (backtest.test_span.last - backtest.test_span.first)
    if cluster is None and intervals < WORTH_PROCESSES:
        jobs = jobs or 1
    with _unfinished(out) as directory, workers_of(cluster, jobs) as each:
        _learn(backtest, names, each)
        for name in names:
            backtest.controller(name, {}, seed=0)  # refuses what there is not
        with progress("replaying", len(names) * seeds) as step:
            results = backtest.compare(names, seeds, each, directory, step)
    results.append(backtest.oracle())
    show(results, as_json)
    if not as_json:
        click.echo("\n" + "\n".join(Summary(backtest, results).sentences()))
    if out:
        _report(backtest, results, out, as_json)


@click.command()
@recording_options
@click.option("--noise", default=0.01, show_default=True, help="Noise by training variance.")
@click.option("-o", "--output", type=click.Path(path_type=Path), default="model.json")
@click.option("--plot", type=click.Path(path_type=Path), help="Also draw this file (png, svg).")
@cluster_option
def fit(output: Path, plot: Path | None, cluster: str | None, **source: Any) -> None:
    """Learn a field from recorded days, for `model` in a configuration, and say what was learned.

    The daily course, how sensors co-vary, noise, and how much to explore; all days are learned
    from unless --train names some. A gateway's own history is a CSV file:  --dataset csv.
    """
    from edge_tvbo.training.model_file import write

    if plot:
        from edge_tvbo.training import plot as plotting

        plotting.check(plot)
    backtest = backtest_of(**source)
    if source["train"] is None:
        backtest = backtest.on_all_days()
    with each_of(cluster) as each:
        with progress("learning", None) as step:
            backtest.learn(step, each)
        write(output, backtest.field_with_daily_profile)
        with progress("looking back", None) as step:
            learned = backtest.lessons(step, each)
    click.echo(f"Wrote {output}:")
    for line in learned.lines():
        click.echo(f"- {line}")
    if plot:
        plotting.plot_training_report(learned, plot)
        click.echo(f"The picture is in {plot}")


def _over_mqtt(
    backtest: "Backtest",
    policy: str,
    settings: dict[str, Any],
    host: str,
    port: int,
    speed: float,
    source: dict[str, Any],
) -> "Result":
    from edge_tvbo.messages.commands import PublishState
    from edge_tvbo.ports import Broker
    from edge_tvbo.simulation import mqtt_replay

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    broker = Broker(instance="replay", host=host, port=port)
    arguments = ["--dataset", source["dataset"], "--gaps", source["gaps"]]
    arguments += [word for each in source["data_dir"] for word in ("--data-dir", each)]
    controller = backtest.controller(policy, settings, seed=0)
    intervals = backtest.test_span.last - backtest.test_span.first
    with progress(policy, intervals) as step, mqtt_replay.nodes(arguments, broker):

        def watch(command: "Command") -> None:
            if isinstance(command, PublishState):
                step(command.decision.interval + 1)

        tally = mqtt_replay.over_mqtt(backtest, controller, broker, speed, watch)
    return backtest.result(policy, settings, [tally.run()])


def _prepared(out: Path | None, source: dict[str, Any]) -> "Backtest":
    from edge_tvbo.research import reports

    if out:
        reports.prepare(out)
    return backtest_of(**source)


@contextmanager
def _unfinished(out: Path | None) -> Iterator[Path]:
    """Give where replays are kept until all are there: below `out`, or nowhere for long."""
    if out is None:
        with TemporaryDirectory() as directory:
            yield Path(directory)
        return
    yield out / "unfinished"
    shutil.rmtree(out / "unfinished")


def _learn(backtest: "Backtest", policies: list[str], each: "Each") -> None:
    from edge_tvbo.simulation.backtest import BY_RHYTHM

    if not set(policies).isdisjoint(BY_RHYTHM):
        with progress("learning", None) as step:
            backtest.learn(step, each)


def _report(backtest: "Backtest", results: "list[Result]", out: Path, as_json: bool) -> None:
    from edge_tvbo.research import reports

    page = reports.write(backtest, results, out, command_line(click.get_current_context()))
    click.echo(f"The report is {page}", err=as_json)
