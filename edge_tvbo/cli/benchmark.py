"""Command `benchmark`: compares policies on problems whose true values are known."""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from edge_tvbo.cli.backtest_options import trainable_recording
from edge_tvbo.cli.executors import cluster_option, executor_of, jobs_option
from edge_tvbo.cli.options import WholeNumberRange, by_policy, seed_option
from edge_tvbo.cli.output import progress
from edge_tvbo.cli.own_readings import with_complete_rows
from edge_tvbo.cli.recordings import is_csv, recording_of
from edge_tvbo.errors import ConfigError, DataError, hint, naming_file

if TYPE_CHECKING:
    from edge_tvbo.research.experiments.result_table import ResultTable
    from edge_tvbo.research.problems.recorded_fields import RecordedField
    from edge_tvbo.simulation.recording import Recording

GAPS = "filled"  # a sensor in a gap replies with the value that fills the gap
ORACLE = "oracle"  # reads all sensors; a policy of the benchmark reads one


@click.command()
@click.option(
    "--policies",
    help="Comma-separated list of policies.  [default: all]",
    shell_complete=by_policy,
)
@click.option(
    "--problems",
    help="Comma-separated list of problems; --list prints their names.  [default: all except"
    " recordings]",
)
@click.option(
    "--data-dir",
    multiple=True,
    help="Directory that is searched first for recordings; repeatable.",
)
@click.option(
    "--runs",
    default=20,
    show_default=True,
    type=WholeNumberRange(1, example=20),
    help="Number of runs.",
)
@seed_option
@jobs_option
@cluster_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Directory for the results.  [default: benchmark-out/seed-SEED]",
)
@click.option("--list", "only_list", is_flag=True, help="Print the problems, and exit.")
def benchmark(
    policies: str | None,
    problems: str | None,
    data_dir: tuple[str, ...],
    runs: int,
    seed: int,
    jobs: int | None,
    cluster: str | None,
    out: Path | None,
    only_list: bool,
) -> None:
    """Compare policies on problems.

    A problem is a field that changes with time and whose true values are known. In a run, all
    policies have the same field and the same noise. The command prints the average ranks of the
    policies with significance tests, and writes tables and pictures. Finished runs are stored in
    the directory of --out. After an interruption, the same command continues with the remaining
    runs. A later command with the same --seed can add policies, problems or runs. The new tables
    and pictures contain only the policies and problems that the later command names.

    Policies can be compared on a recording, too: with --problems, state the name of a dataset, or
    the path of a CSV file. The command also looks for a CSV file in the directories of --data-dir.
    The policies learn from the first three quarters of the recording, and are compared on the last
    quarter.
    """
    from edge_tvbo.messages.formatting import counted
    from edge_tvbo.policy import policies as all_policies
    from edge_tvbo.research.benchmark import REGRET, Benchmark, check_pairs, run_benchmark
    from edge_tvbo.research.experiments import experiment_report, runner
    from edge_tvbo.research.problems import problems as all_problems
    from edge_tvbo.research.ranking import rank_policies
    from edge_tvbo.simulation.dataset_lookup import search_directories

    search_directories(data_dir)  # raises an error if a directory does not exist
    if only_list:
        _print_problems(data_dir)
        return
    experiment_report.check_plots()  # raises an error now, and not after hours of work
    chosen = _names(problems) or list(all_problems())
    wanted = _names(policies) or [name for name in all_policies() if name != ORACLE]
    if ORACLE in wanted:
        raise ConfigError(
            "The oracle knows the values of all sensors, so its regret is always 0. In a "
            "benchmark, a policy reads only the sensor that it selects. Leave the policy oracle "
            "out."
        )
    recorded = _recordings(chosen, data_dir)
    refused = check_pairs(chosen, wanted, recorded)
    if refused and policies:
        raise ConfigError("\n".join(f"{name} on {why}" for name, why in refused.items()))
    for name, why in refused.items():
        click.echo(f"left out: the policy {name} cannot be used on {why}", err=True)
    played = [name for name in wanted if name not in refused]
    directory = out or Path("benchmark-out") / f"seed-{seed}"
    with executor_of(cluster, jobs) as executor, progress("benchmark", None) as step:
        rows = run_benchmark(
            chosen,
            played,
            directory,
            runs=runs,
            seed=seed,
            executor=executor,
            recorded=recorded,
            progress=step,
        )
    results = experiment_report.write_report(Benchmark(chosen, played, recorded), rows, directory)
    with naming_file(path := directory / "comparisons.csv"):
        path.write_text(_comparisons(results, chosen), encoding="utf-8")
    if len(chosen) > 1 and len(played) > 1:
        ranking = rank_policies(results, REGRET)
        click.echo(f"{ranking.table()}\n\n{ranking.sentence()}")
    else:
        for picture in directory.glob("ranks.*"):  # left by an earlier command with more problems
            picture.unlink()
        click.echo(_means(results))
    _warn_of_few_runs(runs, len(played))
    seconds = runner.elapsed_seconds(directory)
    click.echo(f"\n{counted(len(rows), 'run')}; the results are in {directory}")
    click.echo(f"All runs that are stored in this directory took {seconds:.0f} s.")


def _print_problems(data_dir: tuple[str, ...]) -> None:
    from edge_tvbo_adapters import datasets

    from edge_tvbo.research.problems import load_problem, problems

    for name in problems():
        problem = load_problem(name)
        kind = "arms" if hasattr(problem.field, "sensors") else "candidate places in a box"
        click.echo(f"{name:12} {len(problem.field)} {kind}, {problem.horizon} intervals")
    for name in datasets.names():
        try:
            recording = _problem_of(name, _recording(name, data_dir))
        except DataError:
            click.echo(f"{name:12} recorded; needs --data-dir: {datasets.find(name).summary}")
        else:
            found = f"{len(recording.field)} sensors, {recording.horizon} intervals"
            click.echo(f"{name:12} {found}, recorded")


def _recordings(names: Sequence[str], data_dir: tuple[str, ...]) -> "dict[str, RecordedField]":
    """Return the benchmark problem of each dataset and each CSV file in `names`."""
    from edge_tvbo_adapters import datasets

    from edge_tvbo.research.problems import problems

    recorded, known = {}, datasets.names()
    for name in names:
        if name in problems():
            continue
        if name not in known and not is_csv(name):
            raise ConfigError(
                f"There is no problem {name!r}; allowed: {', '.join((*problems(), *known))}, and "
                f"CSV files.{hint(name, (*problems(), *known))}"
            )
        recorded[name] = _problem_of(name, _recording(name, data_dir))
    return recorded


def _recording(name: str, data_dir: tuple[str, ...]) -> "Recording":
    """Return the recording of a dataset, or of a CSV file, for the benchmark.

    A CSV file is looked up in the working directory and in the directories `data_dir`.
    """
    if not is_csv(name):
        return recording_of(name, data_dir, GAPS)
    paths = [str(path) for each in (".", *data_dir) if (path := Path(each) / name).is_file()]
    if not paths:
        raise ConfigError(
            f"There is no file {name} here or in a directory of --data-dir.\n"
            f"Name the directory of the recording:  --problems {quote(name)} --data-dir DIR"
        )
    return recording_of("csv", paths[:1], GAPS)


def _problem_of(name: str, recording: "Recording") -> "RecordedField":
    """Return the benchmark problem that is made from the recording `name`.

    The training rows of the problem are the default training rows of the command `compare`.
    """
    from edge_tvbo.research.problems.recorded_fields import RecordedField
    from edge_tvbo.simulation.row_range import split

    span, _ = split(recording)
    if is_csv(name):
        try:
            recording = with_complete_rows(recording, span)
        except DataError as error:
            raise DataError(
                f"{error}\nThe command `benchmark` has no --interval. Use the command `compare`, "
                "or a file whose rows are further apart."
            ) from None
    return RecordedField(trainable_recording(recording, span))


def _names(text: str | None) -> list[str]:
    return list(dict.fromkeys(filter(None, map(str.strip, (text or "").split(",")))))


def _warn_of_few_runs(runs: int, policies: int) -> None:
    """Print a warning if the benchmark has too few `runs` for a significant result.

    With too few runs, no difference of two policies can be significant on a single problem.
    """
    from edge_tvbo.research.ranking import SIGNIFICANCE_LEVEL, smallest_p

    if (least := smallest_p(runs, policies)) < SIGNIFICANCE_LEVEL:
        return
    enough = next(n for n in range(runs, 100) if smallest_p(n, policies) < SIGNIFICANCE_LEVEL)
    click.echo(
        f"\nOn a single problem, {runs} run{'s' if runs > 1 else ''} cannot show a significant "
        f"difference: with {policies} policies, the p value is at least {least:.2g}. Use "
        f"--runs {enough} or more."
    )


def _means(results: "ResultTable") -> str:
    """Return the benchmark's mean regrets as a text table, with a row per problem and policy."""
    from edge_tvbo.messages.formatting import text_table
    from edge_tvbo.research.benchmark import REGRET

    cells = [cell for cell in results.cells if cell.number == REGRET]
    lines = [["problem", "policy", REGRET, "± se"]]
    for cell in sorted(cells, key=lambda each: each.mean):
        error = f"{cell.error:.4f}" if cell.runs > 1 else "-"
        lines.append([*cell.case.values(), f"{cell.mean:.4f}", error])
    return text_table(lines)


def _comparisons(results: "ResultTable", problems: Sequence[str]) -> str:
    """Return the benchmark's results as CSV.

    The column `p against best` contains the p value of a test that compares the policy of the row
    with the best policy on the same problem. If there is only one run, the column `standard error`
    is empty.
    """
    from edge_tvbo.messages.formatting import csv_table
    from edge_tvbo.research.benchmark import REGRET
    from edge_tvbo.research.ranking import compare_runs

    lines = []
    for problem in problems:
        for policy, p in compare_runs(results, REGRET, problem).items():
            cell = results.cell(REGRET, {"problem": problem, "policy": policy})
            error = f"{cell.error:.6g}" if cell.runs > 1 else ""
            lines.append([problem, policy, f"{cell.mean:.6g}", error, cell.runs, f"{p:.3g}"])
    header = ["problem", "policy", "mean regret", "standard error", "runs", "p against best"]
    return csv_table(header, lines)
