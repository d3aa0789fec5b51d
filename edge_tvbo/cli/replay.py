"""Commands `replay` and `compare`: replay recordings with one policy or with several."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from edge_tvbo.cli.backtest_options import backtest_of
from edge_tvbo.cli.executors import cluster_option, executor_of, jobs_option
from edge_tvbo.cli.options import (
    HOST,
    PORT,
    SPEED,
    NumberRange,
    WholeNumberRange,
    all_of,
    assigned_parameters,
    by_policy,
    command_line,
    noise_option,
    own_readings_options,
    recording_options,
)
from edge_tvbo.cli.output import print_warnings, progress, show
from edge_tvbo.cli.unused_options import warn_of_unused_options
from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from edge_tvbo.messages.commands import Command
    from edge_tvbo.simulation.backtest import Backtest, Result

MIN_INTERVALS_FOR_PROCESSES = 50_000  # about 5 s of work; a process takes 2 s to start

out_option = click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Directory for a report: an HTML page and CSV files.",
)


pace_options = all_of(
    click.option(
        "--budget",
        type=NumberRange(1, example=100),
        help="Maximum number of activations per day.  [default: no limit]",
    ),
    click.option(
        "--per-interval",
        type=WholeNumberRange(1, 16, example=2),
        default=1,
        show_default=True,
        help="Number of sensors that are activated in each interval.",
    ),
    click.option(
        "--next-activation",
        type=click.Choice(["after-reply", "at-once"]),
        default="after-reply",
        show_default=True,
        help="When the second and further sensors of an interval are activated.",
    ),
)


@click.command()
@own_readings_options
@recording_options
@click.option(
    "--policy",
    default="auto",
    show_default=True,
    shell_complete=by_policy,
    help="Policy to replay.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="Parameter of the policy, such as epsilon=0.03; repeatable.",
)
@noise_option
@click.option(
    "--seeds",
    default=1,
    show_default=True,
    type=WholeNumberRange(1, example=8),
    help="Number of replays, with different seeds.",
)
@click.option(
    "--via",
    type=click.Choice(["process", "mqtt"]),
    default="process",
    show_default=True,
    help="Replay in this process, or with simulated sensors over a broker.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    type=HOST,
    help="Host of the broker, for --via mqtt.",
)
@click.option(
    "--port",
    default=1883,
    show_default=True,
    type=PORT,
    help="TCP port of the broker, for --via mqtt.",
)
@click.option(
    "--speed",
    default=600.0,
    show_default=True,
    type=SPEED,
    help="Speed of the replay, as a multiple of real time, for --via mqtt.",
)
@pace_options
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
    """Replay a recording with one policy.

    By default, the recording is a dataset. With CONFIG, the recording consists of the readings
    that the daemon of this configuration recorded. With CSV, the recording consists of the readings
    in this file.
    The command prints the regret of the policy on the test days. By default, the test days are the
    last quarter of the recording, and the training days are the first three quarters.
    """
    _check_not_only_oracle([policy])
    settings = assigned_parameters(assignments)
    _check_settings(policy, settings)
    if seeds > 1 and "seed" in settings:
        raise ConfigError(
            f"--set seed={settings['seed']} gives each of the {seeds} replays the same seed, so "
            "their results would be equal; remove --set seed or --seeds."
        )
    warn_of_unused_options([policy])
    backtest = _prepare(out, source)
    _check_positions(backtest, policy, settings)
    if via == "process":
        _fit_structure(backtest, [policy])
        with progress(policy, seeds) as step:
            result = backtest.run(policy, settings, seeds, step)
    else:
        if seeds > 1:
            raise ConfigError("--via mqtt replays once; remove --seeds.")
        if source["config"] or source["interval"]:
            raise ConfigError("--via mqtt replays a --dataset; remove CONFIG, CSV and --interval.")
        result = _replay_over_mqtt(backtest, policy, settings, host, port, speed, source)
    page = _write_report(backtest, [result], out)
    show([result], as_json)
    _echo_report(page, as_json)


@click.command()
@own_readings_options
@recording_options
@click.option(
    "--policies",
    metavar="NAMES",
    help="Policies, separated by commas; kalman-ucb is added.  [default: all policies that need no"
    " positions]",
    shell_complete=by_policy,
)
@noise_option
@click.option(
    "--seeds",
    default=8,
    show_default=True,
    type=WholeNumberRange(1, example=8),
    help="Number of replays per policy, with different seeds.",
)
@jobs_option
@cluster_option
@pace_options
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
    """Replay a recording with several policies.

    By default, the recording is a dataset. With CONFIG, the recording consists of the readings
    that the daemon of this configuration recorded. With CSV, the recording consists of the readings
    in this file.
    The textbook baseline kalman-ucb is always replayed, too. The command prints a table of the
    results; its last row is the oracle, which knows all readings. With --out, finished replays are
    stored in that directory until all replays are finished. After an interruption, the same command
    continues with the remaining replays.
    """
    from edge_tvbo.research.comparison import compare_policies
    from edge_tvbo.research.reports.summary import ComparisonSummary
    from edge_tvbo.simulation.backtest import AUTO, ORACLE, TEXTBOOK

    names = policies.split(",") if policies else _without_positions()
    wanted = dict.fromkeys(map(str.strip, names))
    _check_not_only_oracle(wanted)
    warn_of_unused_options(wanted)
    backtest = _prepare(out, source)
    for name in wanted:
        _check_positions(backtest, name, {})
    wanted.setdefault(TEXTBOOK)  # always replayed; the oracle is always added at the end
    names = [name for name in wanted if name != ORACLE]
    intervals = len(names) * seeds * (backtest.test_span.last - backtest.test_span.first)
    if cluster is None and intervals < MIN_INTERVALS_FOR_PROCESSES:
        jobs = jobs or 1
    with _unfinished(out) as directory:
        with executor_of(cluster, jobs) as executor:
            for name in names:
                if name != AUTO:
                    backtest.controller(name, {}, seed=0)  # rejects unknown names before the work
            _fit_structure(backtest, names)
            with progress("replaying", len(names) * seeds) as step:
                results = compare_policies(backtest, names, seeds, executor, directory, step)
        results.append(backtest.oracle())
        page = _write_report(backtest, results, out)
    show(results, as_json)
    if not as_json:
        click.echo("\n" + "\n".join(ComparisonSummary(backtest, results).sentences()))
    _echo_report(page, as_json)


def _without_positions() -> list[str]:
    """Return the policies that `compare` replays by default: all that need no sensor positions.

    Policies whose package cannot be loaded are left out.
    """
    from edge_tvbo.policy.registry import loadable_settings

    kinds = (kind for kind in loadable_settings() if not kind.needs_positions)
    return [str(kind.__struct_config__.tag) for kind in kinds]


def _check_not_only_oracle(policies: Iterable[str]) -> None:
    """Raise `ConfigError` if the oracle is the only policy that the command would replay."""
    from edge_tvbo.simulation.backtest import ORACLE

    if set(policies) == {ORACLE}:
        raise ConfigError(
            "The oracle knows the readings of all sensors, so its regret is always 0. "
            "`edge-tvbo compare` always prints the result of the oracle. Name another policy."
        )


def _check_settings(policy: str, settings: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if the replayed policy is unknown, or its `settings` are invalid.

    Print a warning for each setting that has no effect because of the other settings. The command
    checks the settings before it reads the recording and fits the model of `auto`, which can take a
    minute.
    """
    from edge_tvbo.policy.registry import read_settings, settings_class
    from edge_tvbo.simulation.backtest import DEFAULT_SETTINGS

    checked = read_settings(
        settings_class(policy), {**DEFAULT_SETTINGS.get(policy, {}), **settings}
    )
    for parameter, reason in checked.unused():
        if parameter in settings:
            click.echo(f"warning: {parameter} has no effect, because {reason}", err=True)


def _check_positions(backtest: "Backtest", policy: str, settings: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if the replayed policy needs positions, and the recording has none."""
    from edge_tvbo.policy.registry import read_settings, settings_class

    if backtest.recording.positions is not None:
        return
    if read_settings(settings_class(policy), settings).learns_length_scale:
        raise ConfigError(
            f"{policy} learns how fast the field changes in space, and needs the positions of the "
            "sensors; add  --positions FILE , a file with a line `id x y` for each sensor, or "
            "choose another policy, such as gp-ucb."
        )


def _replay_over_mqtt(
    backtest: "Backtest",
    policy: str,
    settings: dict[str, Any],
    host: str,
    port: int,
    speed: float,
    source: dict[str, Any],
) -> "Result":
    from edge_tvbo_adapters.mqtt.link import MqttLink

    from edge_tvbo.config.mqtt_settings import Mqtt
    from edge_tvbo.messages.commands import PublishState
    from edge_tvbo.simulation import mqtt_replay

    print_warnings()
    mqtt = Mqtt(host=host, port=port)
    arguments = ["--dataset", source["dataset"], "--gaps", source["gaps"]]
    arguments += [word for each in source["data_dir"] for word in ("--data-dir", each)]
    controller = backtest.controller(policy, settings, seed=0)
    intervals = backtest.test_span.last - backtest.test_span.first
    with progress(policy, intervals) as step, mqtt_replay.sensor_process(arguments, mqtt):

        def watch(command: "Command") -> None:
            if isinstance(command, PublishState):
                step(command.decision.interval + 1)

        link = partial(MqttLink, mqtt, "replay")
        recorder = mqtt_replay.replay_over_mqtt(backtest, controller, link, speed, watch)
    return backtest.result(policy, settings, [recorder.run()])


def _prepare(out: Path | None, source: dict[str, Any]) -> "Backtest":
    from edge_tvbo.research import reports

    if out:
        reports.prepare(out)
    return backtest_of(**source)


@contextmanager
def _unfinished(out: Path | None) -> Iterator[Path]:
    """Provide a directory for finished replays; remove these replays after the `with` block.

    The directory is inside `out`, or is a temporary directory if `out` is None. If the block fails,
    the replays inside `out` are kept, so that the same command can continue with the rest.
    """
    from edge_tvbo.research.comparison import remove_replays

    if out is None:
        with TemporaryDirectory() as directory:
            yield Path(directory)
        return
    yield out / "unfinished"
    remove_replays(out / "unfinished")


def _fit_structure(backtest: "Backtest", policies: list[str]) -> None:
    """Fit the structural model of the replayed field if the policy `auto` is in `policies`."""
    from edge_tvbo.simulation.backtest import AUTO

    if AUTO in policies:
        with progress("learning", None) as step:
            backtest.fit_structure(step)


def _write_report(backtest: "Backtest", results: "list[Result]", out: Path | None) -> Path | None:
    """Write the report if the command has --out, and return the path of its page, or None.

    A command writes the report before it prints the results, because printing can fail: the output
    may be a pipe whose reader has ended, or a file on a full disk.
    """
    from edge_tvbo.research import reports

    if out is None:
        return None
    return reports.write(backtest, results, out, command_line(click.get_current_context()))


def _echo_report(page: Path | None, as_json: bool) -> None:
    if page:
        click.echo(f"The report is {page}", err=as_json)
