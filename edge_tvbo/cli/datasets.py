"""The recorded sensor networks there are."""

from pathlib import Path

import click

from edge_tvbo import plugins
from edge_tvbo.cli.options import by_dataset
from edge_tvbo.cli.output import print_json, progress
from edge_tvbo.simulation import dataset_lookup


@click.group()
def data() -> None:
    """List, describe and download recorded sensor networks."""


@data.command("list")
@click.option("--json", "as_json", is_flag=True)
def data_list(as_json: bool) -> None:
    """List the datasets there are."""
    rows = [(name, plugins.load("datasets", name)) for name in plugins.names("datasets")]
    if as_json:
        print_json(
            [{"name": name, "summary": each.summary, "url": each.url} for name, each in rows]
        )
        return
    for name, each in rows:
        click.echo(f"{name:12} {each.summary}")


@data.command("info")
@click.argument("dataset", shell_complete=by_dataset)
@click.option("--data-dir", multiple=True, help="Where to look for data first.")
@click.option("--json", "as_json", is_flag=True)
def data_info(dataset: str, data_dir: tuple[str, ...], as_json: bool) -> None:
    """Describe a recording: sensors, intervals, gaps, where it comes from."""
    facts = dataset_lookup.facts(dataset_lookup.recording(dataset, data_dir))
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        click.echo(f"{name:12} {value}")


@data.command("fetch")
@click.argument("dataset", shell_complete=by_dataset)
@click.option("--to", type=click.Path(path_type=Path), help="A directory; the cache by default.")
def data_fetch(dataset: str, to: Path | None) -> None:
    """Download a dataset from its publisher."""
    directory = to or dataset_lookup.cache()
    directory.mkdir(parents=True, exist_ok=True)
    with progress("fetching", None) as step:
        plugins.load("datasets", dataset).fetch(directory, lambda done, total: step(done, total))
    click.echo(f"{dataset} is in {directory}")
