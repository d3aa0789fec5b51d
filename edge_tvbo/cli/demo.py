"""Commands `demo` and `simulate`: replay a recording over MQTT, and simulate its sensors."""

import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

import click

from edge_tvbo.cli.backtest_options import trainable_recording
from edge_tvbo.cli.options import (
    HOST,
    PORT,
    SPEED,
    WholeNumberRange,
    by_policy,
    data_dir_option,
    dataset_options,
    gaps_option,
)
from edge_tvbo.cli.output import print_warnings
from edge_tvbo.cli.recordings import data_source
from edge_tvbo.errors import DataError

if TYPE_CHECKING:
    from edge_tvbo.messages.commands import Command
    from edge_tvbo.simulation.backtest import Backtest, Result

REAL, SYNTHETIC = "intel-lab", "lab-sample"
SEEDS = 8  # number of replays of each baseline, each with its own seed
MAX_LINE_LENGTH = 118  # characters, on a wide terminal


@click.command()
@click.option(
    "--dataset", help="Dataset to replay.  [default: intel-lab if on this machine, else lab-sample]"
)
@data_dir_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="demo-out",
    show_default=True,
    help="Directory for the report.",
)
@click.option(
    "--speed",
    default=6000.0,
    show_default=True,
    type=SPEED,
    help="Speed of the replay, as a multiple of real time.",
)
@click.option(
    "--policy",
    default="auto",
    show_default=True,
    shell_complete=by_policy,
    help="Policy to demonstrate.",
)
def demo(
    out: Path, speed: float, policy: str, dataset: str | None, data_dir: tuple[str, ...]
) -> None:
    """Follow the hottest spot of a laboratory.

    Simulated sensors reply with recorded readings, over an MQTT broker that the command starts. A
    report compares the policy with simpler policies.
    """
    from edge_tvbo.research import reports
    from edge_tvbo.research.reports.summary import SIMPLE_BASELINES

    name = dataset or _default_dataset(data_dir)
    recording = data_source(data_dir).load(name)
    click.echo(f"{recording.name}: {len(recording.sensors)} sensors. {recording.source}")
    reports.prepare(out)
    from edge_tvbo.simulation.backtest import Backtest, results_table
    from edge_tvbo.simulation.row_range import split

    train, test = split(recording)
    backtest = Backtest(trainable_recording(recording, train), train, test)
    source = ["--dataset", name, *(word for each in data_dir for word in ("--data-dir", each))]
    online = _replay_on_own_broker(backtest, policy, speed, [*source, "--gaps", "silent"])
    offline = backtest.run(policy, {}, 1)
    same = "the same" if online.digests == offline.digests else "OTHER"
    click.echo(f"A replay without a broker gives {same} decisions ({offline.digests[0][:12]}).\n")
    others = [backtest.run(each, {}, SEEDS) for each in SIMPLE_BASELINES if each != policy]
    results = [online, *others, backtest.oracle()]
    command = join(["edge-tvbo", "demo", *source, "--policy", policy])
    page = reports.write(backtest, results, out, command)  # first, because printing may fail
    click.echo(f"{results_table(results)}\n\nThe report is {page}")


def _default_dataset(data_dir: tuple[str, ...]) -> str:
    """Return the name of the demo's dataset: intel-lab if it can be loaded, else lab-sample."""
    try:
        data_source(data_dir).load(REAL)
    except DataError:
        return SYNTHETIC
    return REAL


def _replay_on_own_broker(
    backtest: "Backtest", policy: str, speed: float, sensors: list[str]
) -> "Result":
    """Start a broker for the demo, replay the test days over MQTT, and print every decision.

    `sensors` contains the options of ``edge-tvbo simulate`` that name the recording.
    """
    from edge_tvbo_adapters.mqtt.link import MqttLink
    from edge_tvbo_adapters.simulation import local_broker

    from edge_tvbo.config.mqtt_settings import Mqtt
    from edge_tvbo.simulation import mqtt_replay

    controller = backtest.controller(policy, {}, seed=0)
    with local_broker.start() as running:
        mqtt = Mqtt(host=running.host, port=running.port)
        click.echo(f"Broker: {running.name} on {mqtt.address}")
        with mqtt_replay.sensor_process(sensors, mqtt):
            intervals = backtest.test_span.last - backtest.test_span.first
            seconds = intervals * backtest.recording.interval / speed
            click.echo(f"Replaying {intervals} intervals over MQTT in about {seconds:.0f} s")
            recorder = mqtt_replay.replay_over_mqtt(
                backtest, controller, partial(MqttLink, mqtt, "demo"), speed, _decision_printer()
            )
    if sys.stdout.isatty():
        click.echo()
    return backtest.result(policy, {}, [recorder.run()])


def _decision_printer() -> "Callable[[Command], None]":
    """Return a function that prints each decision of the demo and the reply to it.

    The function is called with each command of the controller. On a terminal, each line replaces
    the previous line.
    """
    from edge_tvbo.messages.commands import PublishState, Record

    is_terminal = sys.stdout.isatty()
    decision_text = ""

    def watch(command: "Command") -> None:
        nonlocal decision_text
        match command:
            case PublishState(decision=decision):
                at = decision.at[5:16].replace("T", " ") if is_terminal else decision.at
                decision_text = f"{at}  {decision.text}"
            case Record(value=value, reset=reset):
                reply = "no reply" if value is None else f"measured {value:.2f}"
                line = f"{decision_text}; {reply}{', model reset' if reset else ''}"
                if is_terminal:
                    click.echo(f"\r\x1b[2K{_in_one_row(line)}", nl=False)
                else:
                    click.echo(line)
            case _:
                pass

    return watch


def _in_one_row(line: str) -> str:
    """Return a line of the demo, with "…" in place of its end if it is too long for the terminal.

    The last column stays empty, because some terminals begin a new row after a character in it.
    """
    length = min(MAX_LINE_LENGTH, shutil.get_terminal_size().columns - 1)
    return line if len(line) <= length else f"{line[: length - 1]}…"


@click.command()
@dataset_options
@click.option(
    "--host", default="127.0.0.1", show_default=True, type=HOST, help="Host of the broker."
)
@click.option("--port", default=1883, show_default=True, type=PORT, help="TCP port of the broker.")
@gaps_option
@click.option(
    "--today", is_flag=True, help="Shift the times of the recording so that it ends today."
)
@click.option(
    "--fields",
    default=1,
    show_default=True,
    type=WholeNumberRange(1, 1000, example=2),
    help="Number of fields. One field is called lab; several are called lab-1, lab-2, ...",
)
@click.option(
    "--reading-topic",
    default="{field}/{sensor}/reading",
    show_default=True,
    help="Topic of the readings.",
)
@click.option(
    "--activate-topic",
    default="{field}/{sensor}/activate",
    show_default=True,
    help="Topic of the commands.",
)
def simulate(
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
    """Simulate sensors on a broker until Ctrl-C.

    The sensors of a recording connect to the broker as clients. If a sensor receives {"at": seconds
    since 1970} on its activate topic, the sensor replies with the value that it measured at that
    time, as {"t": value, "ts": at}. A daemon that was started with `edge-tvbo run` requests the
    values of the present time. For such a daemon, add --today, which shifts the recording so that
    the recording ends today.

    With --fields, all fields repeat the same recording, each with its own starting point. The
    starting points are evenly spaced: with 4 fields, the starting point of lab-3 is half a
    recording after the starting point of lab-1.
    """
    from edge_tvbo_adapters.simulation import virtual_sensors

    from edge_tvbo.config.mqtt_settings import Mqtt
    from edge_tvbo.daemon.signals import stop_on_signal
    from edge_tvbo.simulation.recording import shift_to_today

    print_warnings()
    recording = data_source(data_dir).load(dataset, gaps)
    if today:
        recording = shift_to_today(recording, time.time())
    mqtt = Mqtt(host=host, port=port)
    names = [f"lab-{number}" for number in range(1, fields + 1)] if fields > 1 else ["lab"]
    count = f"{fields * len(recording.sensors)} sensors"
    of = f" of {fields} fields" if fields > 1 else ""
    with stop_on_signal() as (stop, _):
        virtual_sensors.simulate(
            recording,
            mqtt,
            names,
            reading_topic,
            activate_topic,
            ready=lambda: click.echo(f"ready: {count}{of} on {mqtt.address}"),
            stop=stop,
        )
