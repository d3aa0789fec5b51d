"""What the daemon decides, in a browser."""

import logging
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_tvbo.cli.options import data_source
from edge_tvbo.cli.output import progress
from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from edge_tvbo_adapters.dashboard.state import DashboardField
    from edge_tvbo_adapters.storage.history_reader import HistoryReader

    from edge_tvbo.config.field_settings import FieldSettings
    from edge_tvbo.config.settings import Settings
    from edge_tvbo.simulation.backtest import Backtest
    from edge_tvbo.simulation.recording import Recording


@click.command()
@click.argument("config", required=False, type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8787, show_default=True, type=click.IntRange(0, 65535))
@click.option("--root-path", default="", help="What a proxy leaves before our paths: /dashboard.")
@click.option("--allow-host", multiple=True, help="A name that a proxy reaches us by.")
@click.option("--dataset", help="Replay a recording instead of watching a daemon.")
@click.option("--data-dir", multiple=True, help="Where to look for data first.")
@click.option("--replay", "day", help="Replay this day, 2004-03-07, of the history or recording.")
@click.option("--policy", default="et-gp-ucb", show_default=True, help="With --dataset.")
def dashboard(
    config: Path | None,
    host: str,
    port: int,
    root_path: str,
    allow_host: tuple[str, ...],
    dataset: str | None,
    data_dir: tuple[str, ...],
    day: str | None,
    policy: str,
) -> None:
    """Show in a browser what the daemon of CONFIG decides, and what it decided before.

    It reads the broker and, where [state] history keeps one and its file can be seen from here, the
    history; it may run on another machine than the daemon. --dataset needs no daemon at all.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    if (config is None) is (dataset is None):
        raise ConfigError(
            "What is to be shown? A daemon:     edge-tvbo dashboard config.toml\n"
            "              or a recording:  edge-tvbo dashboard --dataset lab-sample"
        )
    from edge_tvbo_adapters.dashboard import serve as serve_pages

    serve = partial(
        serve_pages,
        host=host,
        port=port,
        root_path=_prefix(root_path),
        hosts=allow_host,
        ready=lambda address: click.echo(f"dashboard: {address}" + (f"#day={day}" if day else "")),
    )
    if config is None:
        serve(**_recorded(str(dataset), data_dir, day, policy))
    else:
        serve(**_kept_and_live(config, day))


def _prefix(root_path: str) -> str:
    """Give the prefix with a slash before it and none after it."""
    inner = root_path.strip("/")
    return f"/{inner}" if inner else ""


# --- a daemon -----------------------------------------------------------------------------------


def _kept_and_live(config: Path, day: str | None) -> dict[str, Any]:
    from edge_tvbo_adapters.payloads import FORMATS

    from edge_tvbo.config.loader import load

    settings = load(config, FORMATS)
    past = _past(settings)
    if day is not None and past is None:
        raise ConfigError('There is no history to replay; in [state], history = "64MiB" keeps one.')
    return {
        "fields": {name: _scene(each) for name, each in settings.fields.items()},
        "title": settings.instance,
        "instance": settings.instance,
        "mqtt": None if day else settings.mqtt.for_readers(),
        "open_history": past,
    }


def _past(settings: "Settings") -> "partial[HistoryReader] | None":
    from edge_tvbo_adapters.storage.history_reader import HistoryReader

    state = settings.state
    if not state.dir or state.history is None:
        return None
    return partial(HistoryReader, state.dir, settings.instance)


def _scene(settings: "FieldSettings") -> "DashboardField":
    from edge_tvbo_adapters.dashboard.state import DashboardField

    unit, positions = settings.unit, settings.positions or {}
    if settings.model is not None:
        learned, placed = _learned(settings.model)
        unit, positions = unit or learned, positions or placed
    known = all(sensor in positions for sensor in settings.sensors)
    return DashboardField(
        settings.sensors,
        unit,
        settings.objective,
        settings.interval_s,
        tuple(positions[sensor] for sensor in settings.sensors) if known else None,
    )


def _learned(model: Path) -> tuple[str, dict[str, tuple[float, float]]]:
    """Give the unit and the positions that a model file has."""
    from edge_tvbo.training import model_file

    field = model_file.read(model)
    if field.positions is None:
        return field.unit, {}
    places = [(float(x), float(y)) for x, y in field.positions]
    return field.unit, dict(zip(field.sensors, places, strict=True))


# --- a recording --------------------------------------------------------------------------------


def _recorded(
    dataset: str, data_dir: tuple[str, ...], day: str | None, policy: str
) -> dict[str, Any]:
    from edge_tvbo.simulation.memory_history import replay_to_history

    backtest = _backtest(data_source(data_dir).load(dataset), day)
    with progress("deciding", None):
        history = replay_to_history(backtest, policy)
    recording = backtest.recording
    return {
        "fields": {recording.name: _scene_of(recording)},
        "title": f"{recording.name}, {policy}",
        "instance": "",
        "mqtt": None,
        "open_history": lambda: history,
    }


def _backtest(recording: "Recording", day: str | None) -> "Backtest":
    """Have `day` decided, or the last quarter, by what the days before it teach."""
    from edge_tvbo.simulation.backtest import Backtest
    from edge_tvbo.simulation.replay import RowRange, days, split

    train, test = split(recording, 0.75)
    if day is not None:
        test = days(recording, day)
        train = RowRange(0, test.first) if test.first else train
    return Backtest(recording, train, test)


def _scene_of(recording: "Recording") -> "DashboardField":
    from edge_tvbo_adapters.dashboard.state import DashboardField

    places = recording.positions
    return DashboardField(
        recording.sensors,
        recording.unit,
        "min" if recording.objective == "min" else "max",
        recording.interval,
        None if places is None else tuple((float(x), float(y)) for x, y in places),
    )
