"""Command `init`: writes a first configuration."""

import os
import re
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Any

import click

from edge_tvbo.cli.init_prompts import (
    NAMED_ONLY,
    Answers,
    as_options,
    ask_for_broker,
    ask_for_sensors,
    prompted,
    prompted_interval,
)
from edge_tvbo.cli.options import HOST, PORT, POSITIVE, NumberRange, duration_option, given_options
from edge_tvbo.cli.settings import settings_of
from edge_tvbo.errors import ConfigError, EdgeTvboError, LinkError, error_text, naming_file

if TYPE_CHECKING:
    from edge_tvbo.config.errors import Finding
    from edge_tvbo.config.settings import Settings
    from edge_tvbo.setup.config_template import FieldValues, TemplateValues

PARAMETER_OF = {"username": "user", "variance": "spread", "noise_variance": "spread"}


@click.command()
@click.argument("config", type=click.Path(path_type=Path), default="edge-tvbo.toml")
@click.option(
    "--host", default="127.0.0.1", show_default=True, type=HOST, help="Host of the broker."
)
@click.option("--port", default=1883, show_default=True, type=PORT, help="TCP port of the broker.")
@click.option(
    "--user", help="User name for the broker; on a terminal, the command prompts for the password."
)
@click.option(
    "--password-file", type=click.Path(path_type=Path), help="File that contains only the password."
)
@click.option("--tls", is_flag=True, help="Encrypt the connection.")
@click.option(
    "--ca",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with the certificate of the CA that signed the broker's certificate, in PEM format;"
    " also encrypts the connection.  [default: the CAs of this system]",
)
@click.option(
    "--listen",
    "seconds",
    metavar="DURATION",
    callback=lambda context, option, text: text and duration_option(context, option, text),
    help="Time to listen to the broker for sensors, such as 60s.",
)
@click.option(
    "--sensor", "sensors", multiple=True, help="Id of a sensor, if it is known; repeatable."
)
@click.option(
    "--quantity",
    "quantities",
    multiple=True,
    help="Quantity that the sensors measure: temperature, humidity, co2, ...; repeatable. Each"
    " quantity becomes a field.",
)
@click.option(
    "--topic",
    default="sensors/{sensor}/{quantity}",
    show_default=True,
    help="Topic of the readings, with --sensor.",
)
@click.option(
    "--payload", default="number", show_default=True, help="Format of a reading, with --sensor."
)
@click.option("--value", help="Name of the value, if a payload has several values; with --sensor.")
@click.option(
    "--unit",
    help="Unit of the readings, for each quantity that can have this unit.  [default: the unit of"
    " the quantity]",
)
@click.option(
    "--interval",
    default="10min",
    show_default=True,
    metavar="DURATION",
    callback=lambda context, option, text: prompted_interval(text),
    help="How often a sensor is selected.",
)
@click.option(
    "--mode",
    type=click.Choice(["advise", "live"]),
    default="advise",
    show_default=True,
    help="advise (for sensors that report on their own): only publish which sensor to read next."
    " live (for sensors that reply to a command): also activate this sensor.",
)
@click.option(
    "--mean",
    type=NumberRange(-1e50, 1e50, example=20),  # as a configuration allows
    help="Mean of the readings.  [default: median of the readings of the sensors found; with"
    " --sensor, the usual value of the quantity]",
)
@click.option(
    "--spread",
    type=POSITIVE,
    help="Standard deviation of the readings.  [default: from the readings of the sensors found;"
    " with --sensor, the usual value of the quantity]",
)
@click.pass_context
def init(context: click.Context, /, config: Path, **options: Any) -> None:
    """Write a first configuration.

    The command listens to the broker to find the sensors and their integrations, topics and
    quantities. On a terminal, the command prompts for values that no option sets. It prompts for
    the broker only if neither --host nor --port is set; with --port alone, the host is 127.0.0.1.
    Each quantity becomes a field, whose sensors may belong to several integrations. The file
    CONFIG, by default edge-tvbo.toml, contains comments, and `run` can use it without changes. No
    file is overwritten. The exit status is 1 if the broker is unreachable, or if no sensor is
    found.
    """
    if config.exists():
        raise ConfigError(f"{config} exists already; name another file, or move the existing file.")
    if not config.parent.is_dir():
        raise ConfigError(
            f"{config}: the directory {config.parent} does not exist; create it, or name another"
            " file."
        )
    if not os.access(config.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{config}: this user cannot write to {config.absolute().parent}; change its"
            " permissions, or name another file."
        )
    answers = Answers(**options)
    if answers.sensors and answers.seconds is not None:
        raise ConfigError(
            "With --listen, the command finds the sensors; with --sensor, you list the sensors"
            " yourself. Remove one of the two options."
        )
    if answers.seconds is not None and not _is_terminal():
        for option in given_options(*NAMED_ONLY):
            raise ConfigError(
                "--listen finds the sensors and their messages. Remove --listen, or remove"
                f" {option}, which can only be used with --sensor."
            )
    if answers.sensors and answers.mode == "live":
        raise ConfigError(
            "--mode live needs sensors that were found by listening. Remove --mode, and then"
            " edit `activate` in the file that this command writes."
        )
    if _is_terminal():
        written = _write_after_prompts(context, config, prompted(context, answers))
    else:
        from edge_tvbo.cli.init_fields import make_fields
        from edge_tvbo.cli.init_groups import groups_without_prompt

        fields = make_fields(answers, None, groups_without_prompt)
        written = _write(config, _template_values(config, answers, fields), None)
    click.echo(f"Wrote {config}:")
    from edge_tvbo.messages.formatting import listed_sensors

    for name, field in written.fields.items():
        sensors = listed_sensors(field.sensors, field.sensor_names)
        click.echo(f"- {name}, mode {field.activate.mode}: {sensors}")
    click.echo(f"Next:\n\n    {join(['edge-tvbo', 'check', '--connect', str(config)])}\n")
    click.echo(f"    {join(['edge-tvbo', 'run', str(config)])}")


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _write_after_prompts(context: click.Context, config: Path, answers: Answers) -> "Settings":
    """Write the configuration after all prompts of `init`, and return the settings.

    If the broker cannot be reached, prompt for another broker. If no sensor is found, prompt for
    the sensors. The other prompts are not repeated. After any other error, print the answers as
    options that the user can reuse.
    """
    from edge_tvbo.cli.init_fields import make_fields
    from edge_tvbo.cli.init_groups import NothingFound, chosen_groups

    try:
        password = _password(config, answers)
        while True:
            try:
                fields = make_fields(answers, password, chosen_groups)
                return _write(config, _template_values(config, answers, fields), password)
            except NothingFound as error:
                click.echo(error_text(error), err=True)
                if not click.confirm("Listen again?", default=True):
                    answers = ask_for_sensors(answers)
            except LinkError as error:
                click.echo(error_text(error), err=True)
                answers = ask_for_broker(answers)
                password = _password(config, answers)
    except (EdgeTvboError, OSError):
        command = join(["edge-tvbo", "init", str(config), *as_options(context, answers)])
        click.echo(f"Your answers as options:\n\n    {command}\n", err=True)
        raise


def _password(config: Path, answers: Answers) -> str | None:
    """Prompt for the broker's password, which `init` writes to a file, and return the password.

    Return None without a prompt if there is no user name, or if the user has named a password file.
    """
    if answers.user is None or answers.password_file is not None:
        return None
    if _secret_file(config).exists():
        raise ConfigError(
            f"{_secret_file(config)} exists already; if it contains the password, add  "
            f"--password-file {quote(str(_secret_file(config)))}"
        )
    return str(click.prompt(f"Password of {answers.user}", hide_input=True))


def _secret_file(config: Path) -> Path:
    return config.with_suffix(".password")


def _template_values(
    config: Path, answers: Answers, fields: "Iterable[FieldValues]"
) -> "TemplateValues":
    from edge_tvbo.setup.config_template import TemplateValues

    file = answers.password_file
    return TemplateValues(
        fields=tuple(fields),
        host=answers.host,
        port=answers.port,
        user=answers.user,
        password_file=None if file is None else str(file.resolve()),
        tls=answers.is_encrypted,
        ca=None if answers.ca is None else str(answers.ca.absolute()),
        state=f"{config.stem}-state",
        interval=answers.interval,
        live=answers.mode == "live",
    )


def _write(config: Path, values: "TemplateValues", password: str | None) -> "Settings":
    """Write the configuration and the password file for `init`, and return the settings.

    If the configuration is invalid, both files are removed.
    """
    import msgspec

    from edge_tvbo.config.errors import ConfigErrors
    from edge_tvbo.setup.config_template import render_config

    with ExitStack() as undo:
        if password is not None:
            secret = _secret_file(config)
            _create(secret, f"{password}\n", 0o600, undo)
            values = msgspec.structs.replace(values, password_file=secret.name)
        _create(config, _utf_8(render_config(values)), 0o666, undo)
        try:
            settings = settings_of(config)
        except ConfigErrors as errors:
            raise ConfigErrors(map(_without_line, errors.findings)) from None
        undo.pop_all()
    return settings


def _without_line(finding: "Finding") -> "Finding":
    """Return a configuration error that names an option of `init` in place of a line number.

    A line number would be of no use, because `init` removes the invalid configuration. If no option
    caused the error, the error keeps the name of the file, without a line number.
    """
    from msgspec.structs import replace

    setting = finding.key.rpartition(".")[2].partition("[")[0]
    parameter = PARAMETER_OF.get(setting, setting)
    option = next(iter(given_options(parameter)), finding.file)
    return replace(finding, file=option, line=0, column=0)


def _utf_8(text: str) -> str:
    """Return the text of a first configuration; raises `ConfigError` if it is not UTF-8."""
    if wrong := re.search('[^"]*[\ud800-\udfff][^"]*', text):
        raise ConfigError(f"{wrong[0]!r} is not UTF-8; use a terminal with UTF-8, or another name.")
    return text


def _create(file: Path, text: str, mode: int, undo: ExitStack) -> None:
    """Write a new file for the command `init`; `undo` removes it if a later step fails.

    Raises `FileExistsError` if the file exists.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    undo.callback(file.unlink)
    with naming_file(file), os.fdopen(descriptor, "w", encoding="utf-8") as written:
        written.write(text)
