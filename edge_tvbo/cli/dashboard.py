"""Command `dashboard`, which serves web pages about a running daemon or a recording."""

from datetime import date
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING

import click

from edge_tvbo.cli.backtest_options import trainable_recording
from edge_tvbo.cli.daemon_state import history_reader
from edge_tvbo.cli.options import (
    CONFIG_FILE,
    NumberRange,
    WholeNumberRange,
    data_dir_option,
    given_options,
)
from edge_tvbo.cli.output import print_warnings, progress
from edge_tvbo.cli.recordings import data_source
from edge_tvbo.cli.status import MAX_MISSING_REPORTS
from edge_tvbo.config import field_types
from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from edge_tvbo_adapters.dashboard.content import DashboardContent
    from edge_tvbo_adapters.dashboard.frames import DashboardField
    from edge_tvbo_adapters.dashboard.plan import PlanImage

    from edge_tvbo.config.field_settings import FieldSettings
    from edge_tvbo.simulation.backtest import Backtest
    from edge_tvbo.simulation.recording import Recording


def _day(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Return the dashboard's option `--replay`; fail if it is not a date, such as 2026-03-08."""
    try:
        return text and date.fromisoformat(text).isoformat()
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a day such as 2026-03-08.") from None


def _host_names(
    context: click.Context, option: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    """Check the names in the dashboard's option `--allow-host`, and return them unchanged.

    Each name must be a host name, or "*" for all names.
    """
    for name in set(names) - {"*"}:
        try:
            field_types.host(name)
        except ValueError:
            raise click.BadParameter(
                f"{name!r} is not a host name; write the name without http:// and without a port."
            ) from None
    return names


@click.command()
@click.argument("config", required=False, type=CONFIG_FILE)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8787,
    show_default=True,
    type=WholeNumberRange(0, 65535, example=8787),
    help="TCP port to listen on.",
)
@click.option(
    "--root-path",
    default="",
    help="Prefix of the URL paths under which a proxy serves the pages, such as /dashboard.",
)
@click.option(
    "--allow-host",
    multiple=True,
    callback=_host_names,
    help="Host name under which browsers or a proxy may request pages; * allows all names."
    " Repeatable.",
)
@click.option(
    "--plan",
    type=click.Path(path_type=Path),
    help="Image behind the map of the sensors: PNG, JPEG or GIF. Needs --plan-width.",
)
@click.option(
    "--plan-width",
    metavar="METRES",
    type=NumberRange(0, 100_000, min_open=True, example=12.5),
    help="Width, in metres, of the area that the image shows. The lower left corner of the image is"
    " the position (0, 0).",
)
@click.option("--dataset", help="Show a recording instead of a daemon.")
@data_dir_option
@click.option(
    "--replay",
    "day",
    metavar="DATE",
    callback=_day,
    help="Replay this day of the history or recording.",
)
@click.option(
    "--policy", default="auto", show_default=True, help="Policy to replay, with --dataset."
)
def dashboard(
    config: Path | None,
    host: str,
    port: int,
    root_path: str,
    allow_host: tuple[str, ...],
    plan: Path | None,
    plan_width: float | None,
    dataset: str | None,
    data_dir: tuple[str, ...],
    day: str | None,
    policy: str,
) -> None:
    """Show decisions in a browser.

    With CONFIG, the dashboard shows present and past decisions of a daemon. The dashboard reads the
    daemon's messages from the broker, so the daemon can run on another machine. Past decisions are
    shown if the file of the decision history is on this machine. With --dataset, the dashboard
    shows a recording and needs no daemon.
    """
    print_warnings()
    if (config is None) is (dataset is None):
        raise ConfigError(
            "Name either a configuration or a dataset:  edge-tvbo dashboard config.toml\n"
            "                                           edge-tvbo dashboard --dataset lab-sample"
        )
    if host in ("0.0.0.0", "::") and not allow_host:
        raise ConfigError(
            f"--host {host} serves the dashboard under every name of this machine. Allow only the "
            f"names that browsers use:  --host {host} --allow-host {gethostname()}"
        )
    if config is not None and (unused := given_options("policy", "data_dir")):
        raise ConfigError(f"{unused[0]} is for --dataset, and not for CONFIG; remove this option.")
    from edge_tvbo_adapters.dashboard import serve
    from msgspec.structs import replace

    image = _plan_image(plan, plan_width)
    content = (
        _recording_content(str(dataset), data_dir, day, policy)
        if config is None
        else _daemon_content(config, day)
    )
    serve(
        replace(content, plan=image),
        host=host,
        port=port,
        root_path=f"/{root_path.strip('/')}".rstrip("/"),
        hosts=allow_host,
        ready=lambda address: click.echo(f"dashboard: {address}" + (f"#day={day}" if day else "")),
    )


def _plan_image(file: Path | None, width: float | None) -> "PlanImage | None":
    from edge_tvbo_adapters.dashboard.plan import read_plan

    if file is None and width is None:
        return None
    if file is None or width is None:
        raise ConfigError(
            "--plan and --plan-width belong together. --plan is the image; --plan-width is the "
            "width, in metres, of the area in the image:  --plan plan.png --plan-width 12.5"
        )
    return read_plan(file, width)


# --- a daemon -----------------------------------------------------------------------------------


def _daemon_content(config: Path, day: str | None) -> "DashboardContent":
    from edge_tvbo_adapters.dashboard.content import DashboardContent
    from edge_tvbo_adapters.payloads.formats import FORMATS

    from edge_tvbo.config.loader import load

    settings = load(config, FORMATS)
    has_history = settings.state.history is not None
    if day is not None and not has_history:
        raise ConfigError('There is no history to replay. Set history = "64MiB" in [state].')
    return DashboardContent(
        title=settings.instance,
        instance=settings.instance,
        fields={name: _configured_field(each) for name, each in settings.fields.items()},
        mqtt=None if day else settings.mqtt.for_readers(),
        open_history=partial(history_reader, settings) if has_history else None,
        silent_after=MAX_MISSING_REPORTS * settings.health,
    )


def _configured_field(settings: "FieldSettings") -> "DashboardField":
    from edge_tvbo_adapters.dashboard.frames import DashboardField

    from edge_tvbo.messages.formatting import decimals

    unit, positions = settings.unit, settings.positions or {}
    log1p_scale = settings.log1p_scale
    std = 1.0 if settings.kernel is None else settings.kernel.variance**0.5
    if settings.model is not None:
        model_unit, model_positions, log1p_scale, std = _facts_of_model(settings.model)
        unit, positions = unit or model_unit, positions or model_positions
    known = all(sensor in positions for sensor in settings.sensors)
    return DashboardField(
        settings.sensors,
        unit,
        settings.objective,
        settings.interval_s,
        tuple(positions[sensor] for sensor in settings.sensors) if known else None,
        settings.sensor_names,
        None if settings.alert is None else settings.alert.threshold,
        log1p_scale,
        is_published=settings.publishes_posterior,
        decimals=decimals(std),
        has_model=settings.policy.has_model,
    )


def _facts_of_model(
    model: Path,
) -> tuple[str, dict[str, tuple[float, float]], float | None, float]:
    """Return four facts from a model file: unit, sensor positions, `log1p_scale` and `scale`.

    The dashboard needs these facts. The positions map the id of a sensor to its x and y, in m; they
    are empty if the model contains no positions.
    """
    from edge_tvbo.training import model_file

    field = model_file.read(model)
    if field.positions is None:
        return field.unit, {}, field.log1p_scale, field.scale
    places = [(float(x), float(y)) for x, y in field.positions]
    by_sensor = dict(zip(field.sensors, places, strict=True))
    return field.unit, by_sensor, field.log1p_scale, field.scale


# --- a recording --------------------------------------------------------------------------------


def _recording_content(
    dataset: str, data_dir: tuple[str, ...], day: str | None, policy: str
) -> "DashboardContent":
    from edge_tvbo_adapters.dashboard.content import DashboardContent

    from edge_tvbo.simulation.memory_history import replay_to_history

    backtest = _backtest(data_source(data_dir).load(dataset), day)
    with progress("deciding", None):
        history = replay_to_history(backtest, policy)
    recording = backtest.recording
    return DashboardContent(
        title=f"{recording.name}, {policy}",
        instance="",
        fields={recording.name: _recorded_field(backtest, policy)},
        mqtt=None,
        open_history=lambda: history,
    )


def _backtest(recording: "Recording", day: str | None) -> "Backtest":
    """Return the backtest that the dashboard shows.

    - The test day is `day`; if it is None, the last quarter of the recording is replayed.
    - The training days are all days before `day`. If `day` is None or the first day, the
      training days are the first three quarters of the recording.
    """
    from edge_tvbo.simulation.backtest import Backtest
    from edge_tvbo.simulation.row_range import RowRange, days, split

    train, test = split(recording)
    if day is not None:
        test = days(recording, day)
        train = RowRange(0, test.first) if test.first else train
    return Backtest(trainable_recording(recording, train), train, test)


def _recorded_field(backtest: "Backtest", policy: str) -> "DashboardField":
    from edge_tvbo_adapters.dashboard.frames import DashboardField

    from edge_tvbo.control.quantities import field_decimals
    from edge_tvbo.policy.registry import settings_class

    recording = backtest.recording
    places = recording.positions
    return DashboardField(
        recording.sensors,
        recording.unit,
        "min" if recording.objective == "min" else "max",
        recording.interval,
        None if places is None else tuple((float(x), float(y)) for x, y in places),
        log1p_scale=backtest.field.log1p_scale,
        decimals=field_decimals(backtest.field),
        has_model=settings_class(policy).has_model,
    )
