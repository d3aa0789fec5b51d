"""A laboratory on a broker: the demonstration, and the nodes of which it is made."""

import logging
import sys
import time
from pathlib import Path

import click

from edge_tvbo import plugins
from edge_tvbo.cli.options import SPEED, by_dataset, by_policy, gaps_option
from edge_tvbo.simulation import dataset_lookup


@click.command()
@click.option("--dataset", help="intel-lab where its data are, else lab-sample, by default.")
@click.option("--data-dir", multiple=True, help="Where to look for data first.")
@click.option("--out", type=click.Path(path_type=Path), default="demo-out", show_default=True)
@click.option("--speed", default=6000.0, show_default=True, type=SPEED)
@click.option("--policy", default="auto", show_default=True, shell_complete=by_policy)
def demo(
    out: Path, speed: float, policy: str, dataset: str | None, data_dir: tuple[str, ...]
) -> None:
    """Watch the controller follow the hottest spot of a laboratory, over a broker of its own."""
    from edge_tvbo.cli.demo_run import Demo, default_dataset

    dataset = dataset or default_dataset(data_dir)
    Demo(click.echo, live=sys.stdout.isatty()).run(out, speed, policy, dataset, data_dir)


@click.command()
@click.option("--dataset", default="lab-sample", show_default=True, shell_complete=by_dataset)
@click.option("--data-dir", multiple=True, help="Where to look for data first.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The broker.")
@click.option("--port", default=1883, show_default=True)
@gaps_option
@click.option("--today", is_flag=True, help="As if the last day of the recording were this one.")
@click.option(
    "--fields",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="How many networks: lab, or lab-1, lab-2, ...",
)
@click.option("--reading-topic", default="{field}/{sensor}/reading", show_default=True)
@click.option("--activate-topic", default="{field}/{sensor}/activate", show_default=True)
def nodes(
    dataset: str,
    data_dir: tuple[str, ...],
    gaps: str,
    today: bool,
    host: str,
    port: int,
    fields: int,
    reading_topic: str,
    activate_topic: str,
) -> None:
    """Simulate a recording's sensors as clients of a broker, until Ctrl-C.

    A node that receives {"at": seconds since 1970} on its activate topic answers with what it
    measured then, as {"t": value, "ts": at}. A daemon that `run` started asks about now, of which
    a recording knows nothing but with --today.

    With --fields each network is at another place of the recording, spread evenly over it, and
    goes on from its beginning where it ends: lab-3 of 4 is half of it later, now and ever.
    """
    from edge_tvbo.daemon.signals import stop_on_signal
    from edge_tvbo.ports import Broker

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    recording = dataset_lookup.recording(dataset, data_dir, gaps)
    if today:
        recording = dataset_lookup.shift_to_today(recording, time.time())
    names = [f"lab-{number}" for number in range(1, fields + 1)] if fields > 1 else ["lab"]
    count = f"{fields * len(recording.sensors)} nodes" + f" of {fields} fields" * (fields > 1)
    simulate = plugins.load("nodes", "mqtt")
    with stop_on_signal() as (stop, _):
        simulate(
            recording,
            Broker(instance="nodes", host=host, port=port),
            names,
            reading_topic,
            activate_topic,
            ready=lambda: click.echo(f"ready: {count} on {host}:{port}"),
            stop=stop,
        )
