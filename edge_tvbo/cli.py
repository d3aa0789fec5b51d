"""The command line: the one module that talks to a person.

What a command needs is imported when it runs, so that ``--help`` and ``check`` start at once.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from errno import EPIPE
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec

from edge_tvbo import __version__, datafiles, plugins
from edge_tvbo.errors import ConfigError, DataError, EdgeTvboError, MissingExtra

if TYPE_CHECKING:
    from edge_tvbo.backtest import Backtest, Result

SPEED = click.FloatRange(0, 1e6, min_open=True)  # times as fast as it was
POSITIVE = click.FloatRange(0, min_open=True)
EX_CONFIG = 78  # sysexits.h: what tells systemd not to start the daemon again
EX_USAGE = 2  # what click exits with for a wrong option; a wrong file is no different


class Commands(click.Group):
    """Turns what edge_tvbo raises on purpose into a message and exit status 2."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except EdgeTvboError as error:
            click.echo(str(error), err=True)
        except OSError as error:
            if error.errno == EPIPE:
                raise
            click.echo(f"{error.filename or 'edge-tvbo'}: {error.strerror or error}", err=True)
        return ctx.exit(EX_USAGE)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="edge-tvbo")
def main() -> None:
    """Decide which sensor of an MQTT network to activate next.

    Follows the hottest (or loudest, or most polluted) spot with a fraction of the readings.
    """


# --- the daemon -------------------------------------------------------------------------------


@main.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--verbose", is_flag=True, help="Log every message, not only what changes.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How the log on stderr is written.",
)
def run(config: Path, verbose: bool, log_format: Literal["text", "json"]) -> None:
    """Run the daemon that CONFIG describes, until Ctrl-C or SIGTERM.

    Its exit status is 78 where CONFIG has to be mended first: no use to start it again.
    """
    from edge_tvbo.runtime import journal, lifecycle

    journal.start(log_format, verbose=verbose)
    try:
        lifecycle.run(partial(_settings, config))
    except (ConfigError, DataError, MissingExtra) as error:
        click.echo(str(error), err=True)
        raise click.exceptions.Exit(EX_CONFIG) from None


@main.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(config: Path, as_json: bool) -> None:
    """Read CONFIG and report every mistake in it, with its line."""
    try:
        settings = _settings(config)
    except ConfigError as error:
        if not as_json:
            raise
        alone = [{"file": str(config), "message": str(error)}]
        _print_json({"ok": False, "findings": getattr(error, "findings", alone)})
        raise click.exceptions.Exit(EX_USAGE) from None
    sensors = sum(len(field.sensors) for field in settings.fields.values())
    if as_json:
        _print_json({"ok": True, "fields": len(settings.fields), "sensors": sensors})
    else:
        click.echo(f"{config}: good: {len(settings.fields)} field(s), {sensors} sensor(s)")


@main.command()
@click.argument("config", type=click.Path(path_type=Path))
def report(config: Path) -> None:
    """Print what a public bug report wants to know of CONFIG, without secrets, hosts and names."""
    from edge_tvbo import diagnosis

    click.echo(diagnosis.report(config, _settings))


@main.group()
def config() -> None:
    """Say what can be configured."""


@config.command("explain")
def config_explain() -> None:
    """Print every setting of a configuration, with its range and default."""
    from edge_tvbo.config import explain

    click.echo(explain())


@main.command()
@click.argument("config", type=click.Path(path_type=Path), default="edge-tvbo.toml")
@click.option("--sensor", "sensors", multiple=True, required=True, help="An id; repeat it.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The broker.")
@click.option("--port", default=1883, show_default=True)
@click.option("--topic", default="sensors/{sensor}/temperature", show_default=True)
@click.option("--interval", default="10min", show_default=True)
@click.option("--unit", default="°C", show_default=True)
@click.option("--mean", default=20.0, show_default=True, help="What readings are on average.")
@click.option("--spread", default=3.0, show_default=True, type=POSITIVE, help="Their sd.")
def init(config: Path, **answers: Any) -> None:
    """Write a commented configuration to CONFIG, to be completed with the sensors' positions."""
    from edge_tvbo.starter import starter

    if config.exists():
        raise ConfigError(f"{config} is there already; name another file, or move it away.")
    draft = config.with_name(config.name + ".new")
    draft.write_text(starter(**answers), encoding="utf-8")
    try:
        _settings(draft)
    except EdgeTvboError:
        draft.unlink()
        raise
    draft.replace(config)
    click.echo(f"Wrote {config}. Put the sensors' positions in, then:  edge-tvbo check {config}")


# --- recordings -------------------------------------------------------------------------------


_gaps_option = click.option(
    "--gaps",
    type=click.Choice(["filled", "silent"]),
    default="filled",
    show_default=True,
    help="Whether sensors answer with interpolated values where they measured nothing.",
)


def _recording_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--test", help="Days tried on, both included; the rest by default."),
        click.option("--train", help="Days learned from: 2004-03-01:2004-03-06."),
        _gaps_option,
        click.option("--data-dir", multiple=True, help="Where to look for data first."),
        click.option("--dataset", default="lab-sample", show_default=True),
    ):
        command = option(command)
    return command


@main.command()
@_recording_options
@click.option("--policy", default="et-gp-ucb", show_default=True)
@click.option("--set", "assignments", multiple=True, help="A parameter, such as epsilon=0.03.")
@click.option("--noise", default=0.01, show_default=True, help="Noise by training variance.")
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(1))
@click.option("--via", type=click.Choice(["process", "mqtt"]), default="process")
@click.option("--host", default="127.0.0.1", show_default=True, help="The broker, via mqtt.")
@click.option("--port", default=1883, show_default=True)
@click.option("--speed", default=600.0, show_default=True, type=SPEED, help="Via mqtt.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def replay(
    policy: str,
    assignments: tuple[str, ...],
    seeds: int,
    via: str,
    host: str,
    port: int,
    speed: float,
    as_json: bool,
    **source: Any,
) -> None:
    """Replay a recording: what POLICY would have picked, and what that would have missed."""
    backtest = _backtest(**source)
    settings = _parameters(assignments)
    if via == "process":
        with _progress(f"{policy} ", seeds) as step:
            result = backtest.run(policy, settings, seeds, step)
    else:
        if seeds > 1:
            raise ConfigError("--via mqtt replays once; leave --seeds out.")
        result = _over_mqtt(backtest, policy, settings, host, port, speed, source)
    _show([result], as_json)


@main.command()
@_recording_options
@click.option("--policies", help="Names with commas between; by default all that learn from days.")
@click.option("--noise", default=0.01, show_default=True, help="Noise by training variance.")
@click.option("--seeds", default=8, show_default=True, type=click.IntRange(1))
@click.option("--plot", type=click.Path(path_type=Path), help="Also draw this file (png, svg).")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def compare(
    policies: str | None, seeds: int, plot: Path | None, as_json: bool, **source: Any
) -> None:
    """Replay a recording with several policies, and print them side by side."""
    from edge_tvbo.backtest import ORACLE
    from edge_tvbo.policies import needing_positions
    from edge_tvbo.policies import policies as all_policies

    backtest = _backtest(**source)
    trained = [name for name in all_policies() if name not in needing_positions()]
    asked = dict.fromkeys(policies.split(",")) if policies else trained
    names = [name for name in asked if name != ORACLE]  # who sees everything comes last anyway
    for name in names:
        backtest.controller(name, {}, seed=0)  # refuses what there is not
    if plot:
        from edge_tvbo import plotting

        plotting.check(plot)
    results: list[Result] = []
    with _progress("replaying ", len(names) * seeds) as step:
        for name in names:
            before = len(results) * seeds
            results.append(backtest.run(name, {}, seeds, partial(_shifted, step, before)))
    results.append(backtest.oracle())
    _show(results, as_json)
    if plot:
        plotting.plot_results(backtest, results, plot)
        click.echo(f"The picture is in {plot}", err=as_json)


@main.command()
@_recording_options
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
    backtest = _backtest(**source)
    if source["train"] is None:
        backtest = backtest.on_all_days()
    field = backtest.rhythmic
    write(output, field)
    learned = backtest.lessons()
    click.echo(f"Wrote {output}:")
    for line in learned.lines():
        click.echo(f"- {line}")
    if plot:
        plotting.plot_lessons(learned, plot)
        click.echo(f"The picture is in {plot}")


@main.command()
@click.option("--dataset", help="intel-lab where its data are, else lab-sample, by default.")
@click.option("--data-dir", multiple=True, help="Where to look for data first.")
@click.option("--out", type=click.Path(path_type=Path), default="demo-out", show_default=True)
@click.option("--speed", default=6000.0, show_default=True, type=SPEED)
@click.option("--policy", default="auto", show_default=True)
def demo(
    out: Path, speed: float, policy: str, dataset: str | None, data_dir: tuple[str, ...]
) -> None:
    """Watch the controller follow the hottest spot of a laboratory, over a broker of its own."""
    from edge_tvbo.demo import Demo, default_dataset

    dataset = dataset or default_dataset(data_dir)
    Demo(click.echo, live=sys.stdout.isatty()).run(out, speed, policy, dataset, data_dir)


@main.command()
@click.option("--dataset", default="lab-sample", show_default=True)
@click.option("--data-dir", multiple=True, help="Where to look for data first.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The broker.")
@click.option("--port", default=1883, show_default=True)
@_gaps_option
@click.option("--reading-topic", default="lab/{sensor}/reading", show_default=True)
@click.option("--activate-topic", default="lab/{sensor}/activate", show_default=True)
def nodes(
    dataset: str,
    data_dir: tuple[str, ...],
    gaps: str,
    host: str,
    port: int,
    reading_topic: str,
    activate_topic: str,
) -> None:
    """Simulate a recording's sensors as clients of a broker, until Ctrl-C.

    A node that receives {"at": seconds since 1970} on its activate topic answers with what it
    measured then, as {"t": value, "ts": at}.
    """
    from edge_tvbo.ports import Broker
    from edge_tvbo.runtime.lifecycle import stopped_by_signal

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    recording = datafiles.recording(dataset, data_dir, gaps)
    simulate = plugins.load("nodes", "mqtt")
    with stopped_by_signal() as (stop, _):
        simulate(
            recording,
            Broker(instance="nodes", host=host, port=port),
            reading_topic,
            activate_topic,
            ready=lambda: click.echo(f"ready: {len(recording.sensors)} nodes on {host}:{port}"),
            stop=stop,
        )


@main.group()
def data() -> None:
    """List, describe and download recorded sensor networks."""


@data.command("list")
@click.option("--json", "as_json", is_flag=True)
def data_list(as_json: bool) -> None:
    """List the datasets there are."""
    rows = [(name, plugins.load("datasets", name)) for name in plugins.names("datasets")]
    if as_json:
        _print_json(
            [{"name": name, "summary": each.summary, "url": each.url} for name, each in rows]
        )
        return
    for name, each in rows:
        click.echo(f"{name:12} {each.summary}")


@data.command("info")
@click.argument("dataset")
@click.option("--data-dir", multiple=True, help="Where to look for data first.")
@click.option("--json", "as_json", is_flag=True)
def data_info(dataset: str, data_dir: tuple[str, ...], as_json: bool) -> None:
    """Describe a recording: sensors, intervals, gaps, where it comes from."""
    facts = datafiles.facts(datafiles.recording(dataset, data_dir))
    if as_json:
        _print_json(facts)
        return
    for name, value in facts.items():
        click.echo(f"{name:12} {value}")


@data.command("fetch")
@click.argument("dataset")
@click.option("--to", type=click.Path(path_type=Path), help="A directory; the cache by default.")
def data_fetch(dataset: str, to: Path | None) -> None:
    """Download a dataset from its publisher."""
    directory = to or datafiles.cache()
    directory.mkdir(parents=True, exist_ok=True)
    with _progress("fetching ", None) as step:
        plugins.load("datasets", dataset).fetch(directory, lambda done, total: step(done, total))
    click.echo(f"{dataset} is in {directory}")


# --- research ---------------------------------------------------------------------------------


@main.command()
@click.argument("name", metavar="NAME|list")
@click.option("--runs", type=click.IntRange(1), help="How many; as in the paper by default.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--jobs", type=click.IntRange(1), help="Processes; one for each core by default.")
@click.option("--out", type=click.Path(path_type=Path), help="A directory for what comes of it.")
@click.option("--data-dir", multiple=True, help="Where to look for data first.")
def experiment(
    name: str,
    runs: int | None,
    seed: int,
    jobs: int | None,
    out: Path | None,
    data_dir: tuple[str, ...],
) -> None:
    """Carry out experiment NAME of the papers, or list them all.

    Runs that were finished are kept in the directory: the same command goes on where it was
    stopped.
    """
    from edge_tvbo import experiments

    if name == "list":
        for each in experiments.names():
            found = experiments.load(each)
            click.echo(f"{each:5} {found.title}  ({found.source}; {found.runs} runs)")
        return
    from edge_tvbo.experiments import report, runner

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the workers end too
    chosen = experiments.load(name, data_dir)
    directory = out or Path("experiments-out") / f"{chosen.name}-seed-{seed}"
    with _progress(f"{chosen.name} ", None) as step:
        rows = runner.carry_out(
            chosen.name,
            directory,
            runs=runs or chosen.runs,
            seed=seed,
            jobs=jobs or os.cpu_count() or 1,
            data_dirs=data_dir,
            progress=step,
        )
    summary = report.write(chosen, rows, directory)
    click.echo(f"{chosen.name}: {chosen.title}; printed: {chosen.source}\n")
    click.echo(report.table(chosen, summary) + "\n")
    click.echo(report.verdicts(chosen.claims(summary)))
    took = runner.seconds(directory)
    click.echo(
        f"\n{len({row.run for row in rows})} runs in {took:.0f} s; all of it is in {directory}"
    )


@main.command()
@_recording_options
@click.option("--noise", default=0.01, show_default=True, help="Noise by training variance.")
@click.option("--horizon", default=288, show_default=True, type=click.IntRange(1))
@click.option("--epsilon", default=0.03, show_default=True, type=click.FloatRange(0, 1))
@click.option("--epsilon-range", nargs=2, type=click.FloatRange(0, 1), help="Two bounds on it.")
@click.option("--variation", type=POSITIVE, help="P_T of [ZS21]: the field's total change.")
@click.option("--slope", default=1.0, show_default=True, type=POSITIVE, help="Guessed, b1.")
@click.option("--delta", default=0.1, show_default=True, type=click.FloatRange(0, 1, True, True))
@click.option("--json", "as_json", is_flag=True)
def bound(noise: float, as_json: bool, **options: Any) -> None:
    """Print what the papers prove for a recorded network: block lengths, best β, regret bounds."""
    from edge_tvbo.theory import summary

    source = {name: options.pop(name) for name in ("dataset", "data_dir", "train", "test", "gaps")}
    lines = summary(_backtest(noise=noise, **source).field, **options)
    if as_json:
        _print_json([line._asdict() for line in lines])
        return
    width = max(len(line.name) for line in lines)
    for line in lines:
        click.echo(f"{line.name:{width}}  {line.value:10.4g}  {line.meaning}  ({line.source})")


# --- how it is said ---------------------------------------------------------------------------


def _settings(config: Path) -> Any:
    from edge_tvbo.config import load
    from edge_tvbo.policies import parameters
    from edge_tvbo.runtime.wiring import wirings

    settings = load(config, parameters(), plugins.names("payloads"))
    wirings(settings)
    if any(field.model for field in settings.fields.values()):
        from edge_tvbo.runtime.assembly import controllers

        controllers(settings)
    return settings


def _backtest(
    dataset: str,
    data_dir: Iterable[str],
    train: str | None,
    test: str | None,
    noise: float,
    gaps: str,
) -> "Backtest":
    from edge_tvbo.backtest import Backtest
    from edge_tvbo.replay import days, split

    recording = datafiles.recording(dataset, data_dir, gaps)
    train_span, test_span = split(recording, 0.75)
    if train is not None:
        train_span = days(recording, train)
        test_span = type(test_span)(train_span.last, len(recording.values))
    if test is not None:
        test_span = days(recording, test)
    return Backtest(recording, train_span, test_span, noise)


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
    with simulation.nodes(arguments, broker):
        tally = simulation.over_mqtt(backtest, controller, broker, speed)
    return backtest.result(policy, settings, [tally])


def _parameters(assignments: Iterable[str]) -> dict[str, Any]:
    """Give ``name=value`` pairs as keywords; values are read as TOML.

    >>> _parameters(["epsilon=0.03", "beta={c1=0.4, c2=4}"])
    {'epsilon': 0.03, 'beta': {'c1': 0.4, 'c2': 4}}
    """
    import tomllib

    try:
        return tomllib.loads("\n".join(assignments))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"--set: {error}; write  --set epsilon=0.03") from None


def _show(results: "list[Result]", as_json: bool) -> None:
    from edge_tvbo.backtest import UNIT, table

    if as_json:
        _print_json({"unit": UNIT, "results": [result.document() for result in results]})
    else:
        click.echo(table(results))


def _shifted(step: Callable[[int], None], before: int, done: int) -> None:
    step(before + done)


@contextmanager
def _progress(label: str, length: int | None) -> Any:
    """Give a function that is told how far the work is; draws only on a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    with click.progressbar(length=length or 1, label=label, file=sys.stderr) as bar:

        def step(done: int, total: int | None = None) -> None:
            bar.length = total or bar.length
            bar.update(done - bar.pos)

        yield step


def _print_json(document: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
