"""Commands on datasets: list, describe and download recorded sensor networks."""

from contextlib import suppress
from pathlib import Path

import click

from edge_tvbo.cli.options import by_dataset, data_dir_option, json_option
from edge_tvbo.cli.output import print_json, print_warnings, progress
from edge_tvbo.cli.recordings import data_source


@click.group()
def data() -> None:
    """List, describe and download datasets."""


@data.command("list")
@json_option
def data_list(as_json: bool) -> None:
    """List all datasets."""
    from edge_tvbo_adapters import datasets

    print_warnings()
    found = datasets.find_all().items()
    if as_json:
        print_json(
            [{"name": name, "summary": each.summary, "url": each.url} for name, each in found]
        )
        return
    for name, each in found:
        click.echo(f"{name:12} {each.summary}")


@data.command("info")
@click.argument("dataset", shell_complete=by_dataset)
@data_dir_option
@json_option
def data_info(dataset: str, data_dir: tuple[str, ...], as_json: bool) -> None:
    """Describe a dataset.

    The command prints the sensors, intervals, gaps and origin of the recording.
    """
    from edge_tvbo.simulation.dataset_lookup import describe

    description = describe(data_source(data_dir).load(dataset))
    if as_json:
        print_json(description)
        return
    for name, value in description.items():
        click.echo(f"{name:12} {value}")


@data.command("fetch")
@click.argument("dataset", shell_complete=by_dataset)
@click.option(
    "--to", type=click.Path(path_type=Path), help="Target directory; by default the user's cache."
)
def data_fetch(dataset: str, to: Path | None) -> None:
    """Download a dataset from its publisher."""
    from edge_tvbo_adapters import datasets

    from edge_tvbo.simulation.dataset_lookup import cache_directory

    found = datasets.find(dataset)
    directory = to or cache_directory()
    is_new = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with progress("fetching", None) as step:
            found.fetch(directory, lambda done, total: step(done, total))
    finally:
        if is_new:
            with suppress(OSError):  # it contains files
                directory.rmdir()
    click.echo(f"{dataset} is in {directory}")
