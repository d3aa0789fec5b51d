"""Recordings, replayed and learned from."""

import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_tvbo.cli.inputs import (
    SPEED,
    backtest_of,
    by_policy,
    command_line,
    parameters_of,
    recording_options,
)
from edge_tvbo.cli.outputs import progress, show
from edge_tvbo.errors import ConfigError
from edge_tvbo.messages import Command, PublishState

if TYPE_CHECKING:
    from edge_tvbo.backtest import Backtest, Result

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
        _learn(backtest, [policy])
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
@budget_option
@out_option
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def compare(
    policies: str | None, seeds: int, out: Path | None, as_json: bool, **source: Any
) -> None:
    """Replay a recording with several policies, and print them side by side."""
    from edge_tvbo.backtest import ORACLE
    from edge_tvbo.policies import needing_positions
    from edge_tvbo.policies import policies as all_policies
    from edge_tvbo.reporting.summary import Summary

    backtest = _prepared(out, source)
    trained = [name for name in all_policies() if name not in needing_positions()]
    asked = dict.fromkeys(policies.split(",")) if policies else trained
    names = [name for name in asked if name != ORACLE]  # who sees everything comes last anyway
    _learn(backtest, names)
    for name in names:
        backtest.controller(name, {}, seed=0)  # refuses what there is not
    results: list[Result] = []
    with progress("replaying", len(names) * seeds) as step:
        for name in names:
            before = len(results) * seeds
            results.append(backtest.run(name, {}, seeds, partial(_shifted, step, before)))
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
def fit(output: Path, plot: Path | None, **source: Any) -> None:
    """Learn a field from recorded days, for `model` in a configuration, and say what was learned.

    The daily course, how sensors co-vary, noise, and how much to explore; all days are learned
    from unless --train names some. A gateway's own history is a CSV file:  --dataset csv.
    """
    from edge_tvbo.learning.model_file import write

    if plot:
        from edge_tvbo import plotting

        plotting.check(plot)
    backtest = backtest_of(**source)
    if source["train"] is None:
        backtest = backtest.on_all_days()
    with progress("learning", None) as step:
        backtest.learn(step)
    write(output, backtest.rhythmic)
    with progress("looking back", None) as step:
        learned = backtest.lessons(step)
    click.echo(f"Wrote {output}:")
    for line in learned.lines():
        click.echo(f"- {line}")
    if plot:
        plotting.plot_lessons(learned, plot)
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
    from edge_tvbo.ports import Broker
    from edge_tvbo.runtime import simulation

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    broker = Broker(instance="replay", host=host, port=port)
    arguments = ["--dataset", source["dataset"], "--gaps", source["gaps"]]
    arguments += [word for each in source["data_dir"] for word in ("--data-dir", each)]
    controller = backtest.controller(policy, settings, seed=0)
    intervals = backtest.test_span.last - backtest.test_span.first
    with progress(policy, intervals) as step, simulation.nodes(arguments, broker):

        def watch(command: Command) -> None:
            if isinstance(command, PublishState):
                step(command.decision.interval + 1)

        tally = simulation.over_mqtt(backtest, controller, broker, speed, watch)
    return backtest.result(policy, settings, [tally])


def _prepared(out: Path | None, source: dict[str, Any]) -> "Backtest":
    from edge_tvbo import reporting

    if out:
        reporting.prepare(out)
    return backtest_of(**source)


def _learn(backtest: "Backtest", policies: list[str]) -> None:
    from edge_tvbo.backtest import BY_RHYTHM

    if not set(policies).isdisjoint(BY_RHYTHM):
        with progress("learning", None) as step:
            backtest.learn(step)


def _report(backtest: "Backtest", results: "list[Result]", out: Path, as_json: bool) -> None:
    from edge_tvbo import reporting

    page = reporting.write(backtest, results, out, command_line(click.get_current_context()))
    click.echo(f"The report is {page}", err=as_json)


def _shifted(step: Callable[[int], None], before: int, done: int) -> None:
    step(before + done)


COMMANDS = (replay, compare, fit)
