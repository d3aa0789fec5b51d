"""Commands `experiment` and `bound`: experiments of the papers, and bounds from their theorems."""

from pathlib import Path
from typing import Any

import click

from edge_tvbo.cli.backtest_options import backtest_of
from edge_tvbo.cli.executors import cluster_option, executor_of, jobs_option
from edge_tvbo.cli.options import (
    POSITIVE,
    NumberRange,
    WholeNumberRange,
    data_dir_option,
    json_option,
    noise_option,
    recording_options,
    seed_option,
)
from edge_tvbo.cli.output import print_json, progress
from edge_tvbo.cli.recordings import data_source


@click.command()
@click.argument("name", metavar="NAME|list")
@click.option(
    "--runs",
    type=WholeNumberRange(1, example=20),
    help="Number of runs.  [default: for most experiments, as in the paper]",
)
@seed_option
@jobs_option
@cluster_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Directory for the results.  [default: experiments-out/NAME-seed-SEED]",
)
@data_dir_option
def experiment(
    name: str,
    runs: int | None,
    seed: int,
    jobs: int | None,
    cluster: str | None,
    out: Path | None,
    data_dir: tuple[str, ...],
) -> None:
    """Run an experiment of the papers.

    `edge-tvbo experiment list` prints the names of the experiments. An experiment stores each
    finished run in the directory of --out. If you interrupt an experiment, start it again with the
    same command: it then computes only the remaining runs.
    """
    from edge_tvbo.messages.formatting import counted
    from edge_tvbo.research import experiments
    from edge_tvbo.simulation.dataset_lookup import with_home

    directories = tuple(str(with_home(each).absolute()) for each in data_dir)
    data = data_source(directories)
    if name == "list":
        for known in experiments.names():
            found = experiments.load(known, data)
            click.echo(f"{known:5} {found.title}  ({found.source}; {counted(found.runs, 'run')})")
        return
    from edge_tvbo.research.experiments import experiment_report, runner

    experiment_report.check_plots()  # raises an error now, and not after hours of work
    chosen = experiments.load(name, data)
    directory = out or Path("experiments-out") / f"{chosen.name}-seed-{seed}"
    with executor_of(cluster, jobs) as executor, progress(chosen.name, None) as step:
        rows = runner.run_experiment(
            chosen.name,
            directory,
            runs=runs or chosen.runs,
            seed=seed,
            executor=executor,
            data=data,
            progress=step,
        )
    results = experiment_report.write_report(chosen, rows, directory)
    click.echo(f"{chosen.name}: {chosen.title}; published: {chosen.source}\n")
    click.echo(experiment_report.comparison_table(chosen, results) + "\n")
    click.echo(experiment_report.check_expectations(chosen, results))
    runs_done, seconds = len({row.run for row in rows}), runner.elapsed_seconds(directory)
    click.echo(f"\n{counted(runs_done, 'run')}; the results are in {directory}")
    click.echo(f"All runs that are stored in this directory took {seconds:.0f} s.")


@click.command()
@recording_options
@noise_option
@click.option(
    "--horizon",
    default=288,
    show_default=True,
    type=WholeNumberRange(1, example=288),
    help="Number of intervals, T.",
)
@click.option(
    "--epsilon",
    default=0.03,
    show_default=True,
    type=NumberRange(0, 1, example=0.03),
    help="Share ε of the field that is replaced in each interval.",
)
@click.option(
    "--epsilon-range",
    nargs=2,
    type=NumberRange(0, 1, example=0.03),
    help="Lowest and highest possible ε, for the bounds of [ET]; by default, both are --epsilon.",
)
@click.option(
    "--variation",
    type=POSITIVE,
    help="Variation budget P_T of [ZS21]: upper limit of the sum of the norms of all changes.",
)
@click.option(
    "--norm",
    "bound",
    default=1.0,
    show_default=True,
    type=POSITIVE,
    help="Assumed largest norm B of the field in the kernel's space, for the bounds of [ZS21] and "
    "[LB]; the unit is the largest prior standard deviation.",
)
@click.option(
    "--slope",
    default=1.0,
    show_default=True,
    type=POSITIVE,
    help="Assumed scale b1 of the field's steepest slope, for the bounds of [M24].",
)
@click.option(
    "--delta",
    default=0.1,
    show_default=True,
    type=NumberRange(0, 1, min_open=True, max_open=True, example=0.1),
    help="Probability δ that the bounds do not hold.",
)
@json_option
def bound(noise: float, as_json: bool, **options: Any) -> None:
    """Print theoretical bounds for a recording.

    The bounds follow from theorems of the papers. The command also prints the best exploration
    weight β, and the block lengths. A block length is the number of intervals between two resets.
    """
    from edge_tvbo.messages.formatting import text_table
    from edge_tvbo.theory import summary

    source = {name: options.pop(name) for name in ("dataset", "data_dir", "train", "test", "gaps")}
    lines = summary(backtest_of(noise=noise, **source).field, **options)
    if as_json:
        print_json([line._asdict() for line in lines])
        return
    values = text_table([(line.name, f"{line.value:.4g}") for line in lines])
    for value, line in zip(values.splitlines(), lines, strict=True):
        click.echo(f"{value}  {line.meaning}  ({line.source})")
