"""What the papers claim: their experiments, and their theorems."""

import signal
from pathlib import Path
from typing import Any

import click

from edge_tvbo.cli.options import (
    POSITIVE,
    backtest_of,
    cluster_option,
    jobs_option,
    recording_options,
    workers_of,
)
from edge_tvbo.cli.output import print_json, progress


@click.command()
@click.argument("name", metavar="NAME|list")
@click.option("--runs", type=click.IntRange(1), help="How many; as in the paper by default.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@jobs_option
@cluster_option
@click.option("--out", type=click.Path(path_type=Path), help="A directory for what comes of it.")
@click.option("--data-dir", multiple=True, help="Where to look for data first.")
def experiment(
    name: str,
    runs: int | None,
    seed: int,
    jobs: int | None,
    cluster: str | None,
    out: Path | None,
    data_dir: tuple[str, ...],
) -> None:
    """Carry out experiment NAME of the papers, or list them all.

    Runs that were finished are kept in the directory: the same command goes on where it was
    stopped.
    """
    from edge_tvbo.research import experiments

    if name == "list":
        for known in experiments.names():
            found = experiments.load(known)
            click.echo(f"{known:5} {found.title}  ({found.source}; {found.runs} runs)")
        return
    from edge_tvbo.research.experiments import report, runner

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the workers end too
    data_dirs = tuple(str(Path(each).expanduser().absolute()) for each in data_dir)
    chosen = experiments.load(name, data_dirs)
    directory = out or Path("experiments-out") / f"{chosen.name}-seed-{seed}"
    with workers_of(cluster, jobs) as each, progress(chosen.name, None) as step:
        rows = runner.carry_out(
            chosen.name,
            directory,
            runs=runs or chosen.runs,
            seed=seed,
            each=each,
            data_dirs=data_dirs,
            progress=step,
        )
    bound_summary = report.write(chosen, rows, directory)
    click.echo(f"{chosen.name}: {chosen.title}; printed: {chosen.source}\n")
    click.echo(report.table(chosen, bound_summary) + "\n")
    click.echo(report.verdicts(chosen.claims(bound_summary)))
    took = runner.seconds(directory)
    click.echo(
        f"\n{len({row.run for row in rows})} runs in {took:.0f} s; all of it is in {directory}"
    )


@click.command()
@recording_options
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
    lines = summary(backtest_of(noise=noise, **source).field, **options)
    if as_json:
        print_json([line._asdict() for line in lines])
        return
    width = max(len(line.name) for line in lines)
    for line in lines:
        click.echo(f"{line.name:{width}}  {line.value:10.4g}  {line.meaning}  ({line.source})")
