"""Command `fit`: train a model from recorded days."""

import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from edge_tvbo.cli.backtest_options import training_of
from edge_tvbo.cli.options import (
    check_not_input,
    dataset_options,
    noise_option,
    output_file,
    own_readings_options,
    writable_file,
)
from edge_tvbo.cli.output import progress
from edge_tvbo.cli.own_readings import own_field
from edge_tvbo.cli.recordings import is_csv
from edge_tvbo.config import field_types
from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from edge_tvbo.config.settings import Settings
    from edge_tvbo.training.covariance import Transform

MODEL = "model.json"  # default of --output for a dataset or a CSV file


def _period(context: click.Context, option: click.Parameter, text: str) -> float | None:
    """Return the value of the option `--period` of `fit`, in s: 0 for `none`, None for `auto`."""
    try:
        found = field_types.period(text)
    except ValueError as error:
        allowed = '"auto", "day", "week", "year", "none" or a duration, 1s to 366d, such as "12h"'
        hint = f" ({error})" if str(error) else ""
        raise click.BadParameter(f"{text!r} is not one of {allowed}{hint}.") from None
    return None if found == "auto" else found


@click.command()
@own_readings_options
@dataset_options
@click.option(
    "--train",
    metavar="DAYS",
    help="First and last training day, such as 2004-03-01:2004-03-06.  [default: all days]",
)
@noise_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    callback=output_file,
    help="Model file to write.  [default: the model file that CONFIG names for the field, or else"
    " a new file: model.json, or FIELD.model.json if CONFIG has several fields]",
)
@click.option(
    "--period",
    default="auto",
    show_default=True,
    callback=_period,
    help='Season of the field: day, week, year, none or a duration; "auto" finds it in the data.',
)
@click.option(
    "--transform",
    type=click.Choice(["auto", "none", "log1p"]),
    default="auto",
    show_default=True,
    help='Scale on which the model works. "log1p" is a log scale; "auto" lets the data decide.',
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    help="Also plot the training report to this file (png, svg, pdf).",
)
def fit(
    output: Path | None,
    plot: Path | None,
    period: float | None,
    transform: "Transform",
    **source: Any,
) -> None:
    """Train a model from recorded days.

    The setting `model` of a configuration names the model file. The file contains the course of
    each sensor, the covariance of the sensors and how fast the field changes. The model is trained
    on all days, or on the days that --train selects. The command replaces a file only if --output
    or CONFIG names this file. The first command below trains a model on the readings that the
    daemon of lab.toml recorded. The second command trains a model on your own readings in a CSV
    file.

    \b
        edge-tvbo fit lab.toml
        edge-tvbo fit readings.csv
    """  # noqa: D301 - click needs the character itself
    from edge_tvbo.simulation.completeness import basis, few_readings
    from edge_tvbo.training.model_file import write

    if plot:
        from edge_tvbo.training import plot as plotting

        plotting.check(plot)
    config = source["config"]
    check_not_input(output, config, source["positions"], *source["data_dir"])
    backtest = training_of(**source)
    own = None if config is None or is_csv(config) else own_field(config, source["field"])
    if output is None:
        output = writable_file(_own_model(*own) if own else _new_file(MODEL))
    with progress("learning", None) as step:
        backtest.fit_structure(step, period=period, transform=transform)
    learned = backtest.training_report(period=period)
    span = backtest.train_span
    lines = [basis(backtest.recording, span.first, span.last)]
    if few := few_readings(backtest.recording, span.first, span.last):
        lines.append(few)
    lines += learned.lines()
    write(output, backtest.structured_field)  # last, so that the old model remains after an error
    origin = "" if config else f", trained on the dataset {source['dataset']}"
    click.echo(f"Wrote {output}{origin}:")
    for line in lines:
        click.echo(f"- {line}")
    if own:
        _echo_next_step(config, *own, output, backtest.recording.sensors)
    if plot:
        plotting.plot_training_report(learned, plot, backtest.recording.named_sensors)
        click.echo(f"The plot is in {plot}")


def _own_model(settings: "Settings", field: str) -> Path:
    """Return the default model file of `fit` for a `field` of a configuration.

    The default is the model file that the configuration names for the field. If the configuration
    names no model file, the default is a new file.
    """
    from edge_tvbo.setup.config_template import model_file

    configured = settings.fields[field].model
    return configured or _new_file(model_file(field, len(settings.fields)))


def _new_file(name: str) -> Path:
    """Return the path of the model file `name` for `fit`; raise `ConfigError` if the file exists.

    A model file does not contain the name of its field, so `fit` cannot know whether an existing
    file is an older model of the same field.
    """
    path = Path(name)
    if path.exists():
        raise ConfigError(
            f"{path} exists, and may be the model of another field. To replace it, add  -o "
            f"{quote(name)}"
        )
    return path


def _echo_next_step(
    config: Path, settings: "Settings", field: str, model: Path, sensors: tuple[str, ...]
) -> None:
    """Print, after `fit`, what to do so that the daemon of CONFIG uses the new model of a `field`.

    `sensors` lists the sensors of the model. If sensors of the field are not in the model, their
    ids are printed, too.
    """
    from edge_tvbo.messages.formatting import listed
    from edge_tvbo.setup.config_template import toml_string

    chosen = settings.fields[field]
    missing = [sensor for sensor in chosen.sensors if sensor not in sensors]
    if chosen.model is None or chosen.model.resolve() != model.resolve():
        path = os.path.relpath(model, config.parent)
        removal = ""
        if chosen.kernel and chosen.positions:
            removal = ", and remove kernel and positions, which are in the model"
        elif chosen.kernel:
            removal = ", and remove kernel, which is in the model"
        click.echo(
            f"To use the model, set  model = {toml_string(path)}  in [fields.{field}] of"
            f" {config}{removal}."
        )
    elif not missing:
        click.echo("A running daemon uses the new model after a reload (SIGHUP) or a restart.")
    if missing:
        click.echo(
            "The model does not contain these sensors, because they have no reading on the "
            f"training days: {listed(missing)}. To use the model, remove these sensors from "
            f"`sensors` in [fields.{field}] of {config}, and from the tables that name them, or "
            "fit the model again when the sensors have readings."
        )
