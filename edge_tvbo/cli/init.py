"""Commands that write a first configuration, and files for editors and shells."""

import json
import os
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from edge_tvbo.cli.options import DEFAULT, POSITIVE, duration, settings_of
from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from edge_tvbo.config.mqtt_settings import Mqtt
    from edge_tvbo.setup.config_template import TemplateValues
    from edge_tvbo.setup.sensor_discovery import Discovery, SensorGroup

MAX_LISTED_GROUPS = 9  # groups of sensors that are printed


class Answers(NamedTuple):
    """Values for a first configuration, from options and prompts."""

    host: str
    port: int
    user: str | None
    password_file: Path | None
    tls: bool
    seconds: float | None  # how long to listen; None: do not listen
    sensors: tuple[str, ...]
    quantity: str | None
    topic: str
    payload: str
    value: str | None
    unit: str | None
    interval: str
    mode: str
    mean: float | None
    spread: float | None


@click.command()
@click.argument("config", type=click.Path(path_type=Path), default="edge-tvbo.toml")
@click.option("--host", default="127.0.0.1", show_default=True, help="Host of the broker.")
@click.option("--port", default=1883, show_default=True, help="TCP port of the broker.")
@click.option("--user", help="User name for the broker; a terminal prompts for the password.")
@click.option(
    "--password-file", type=click.Path(path_type=Path), help="File that contains only the password."
)
@click.option("--tls", is_flag=True, help="Encrypt the connection.")
@click.option(
    "--listen",
    "seconds",
    metavar="DURATION",
    callback=lambda context, option, text: text and duration(context, option, text),
    help="Time to listen to the broker for sensors, such as 60s.",
)
@click.option(
    "--sensor", "sensors", multiple=True, help="Id of a sensor, instead of listening; repeatable."
)
@click.option(
    "--quantity", help="Quantity that the sensors measure: temperature, humidity, co2, ..."
)
@click.option(
    "--topic",
    default="sensors/{sensor}/temperature",
    show_default=True,
    help="Topic of the readings, with --sensor.",
)
@click.option(
    "--payload", default="number", show_default=True, help="Format of a reading, with --sensor."
)
@click.option("--value", help="Name of the value in a reading that has several, with --sensor.")
@click.option("--unit", help="Unit of the readings.  [default: that of the found sensors, or °C]")
@click.option(
    "--interval",
    default="10min",
    show_default=True,
    metavar="DURATION",
    help="How often a sensor is selected.",
)
@click.option(
    "--mode",
    type=click.Choice(["advise", "live"]),
    default="advise",
    show_default=True,
    help="Only publish which sensor is next (advise), or also activate it (live).",
)
@click.option(
    "--mean", type=float, help="Mean of the readings.  [default: that of the found sensors, or 20]"
)
@click.option(
    "--spread",
    type=POSITIVE,
    help="Standard deviation of the readings.  [default: that of the found sensors, or 3]",
)
@click.pass_context
def init(context: click.Context, /, config: Path, **options: Any) -> None:
    """Write a first configuration.

    The command listens to the broker to find the sensors, with their integration, topics and
    quantities. On a terminal, the command prompts for values that no option sets. The file CONFIG,
    by default edge-tvbo.toml, contains comments, and `run` accepts it unedited. No file is
    overwritten.
    """
    if config.exists():
        raise ConfigError(f"{config} exists already; name another file, or move this one.")
    answers = Answers(**options)
    interactive = _is_terminal()
    if interactive:
        answers = _prompted(context, answers)
    if not answers.sensors and answers.seconds is None:
        raise ConfigError(
            "There are no sensors.\nName them:  --sensor hall --sensor attic\n"
            "Or find them by listening to the broker:  --listen 60s"
        )
    password = _password(config, answers) if interactive else None
    if answers.sensors:
        values = _values_of_named_sensors(answers)
    else:
        values = _values_of_found_sensors(answers, password, interactive)
    _write(config, values, password)
    click.echo(f"Wrote {config}. Next:\n\n    edge-tvbo check --connect {config}\n")
    click.echo(f"    edge-tvbo run {config}")


# --- prompts ----------------------------------------------------------------------------------


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _prompted(context: click.Context, answers: Answers) -> Answers:
    """Prompt for the values that no option sets, and return `answers` with these values."""

    def is_missing(name: str) -> bool:
        return context.get_parameter_source(name) is DEFAULT

    if is_missing("host"):
        address = click.prompt("Broker (host, host:port or user@host)", default=answers.host)
        answers = _with_broker(answers, address)
    if is_missing("seconds") and not answers.sensors:
        if click.confirm("Listen to the broker for a minute, to find the sensors?", default=True):
            answers = answers._replace(seconds=60.0)
        else:
            named = click.prompt("Ids of the sensors, separated by spaces")
            answers = answers._replace(sensors=tuple(named.split()))
    if is_missing("interval"):
        interval = click.prompt("How often is a sensor selected?", default=answers.interval)
        answers = answers._replace(interval=interval)
    if is_missing("mode") and not answers.sensors:
        live = click.confirm("Also activate the selected sensor?", default=False)
        answers = answers._replace(mode="live" if live else "advise")
    return answers


def _with_broker(answers: Answers, address: str) -> Answers:
    """Return `answers` with the user, host and port of an address such as ``user@host:port``."""
    user, _, place = address.rpartition("@")
    host, _, port = place.partition(":") if place.count(":") == 1 else (place, "", "")
    if port and not port.isdecimal():
        raise ConfigError(f"{port!r} is not a port; write the broker as host:1883.")
    return answers._replace(
        host=host,
        port=int(port) if port else answers.port,
        user=user or answers.user,
    )


def _password(config: Path, answers: Answers) -> str | None:
    """Prompt for the broker's password, and return the password.

    Return None without a prompt if there is no user name, or if a file contains the password.
    """
    if answers.user is None or answers.password_file is not None:
        return None
    if _secret_file(config).exists():
        raise ConfigError(
            f"{_secret_file(config)} exists already; if it contains the password, add"
            f" --password-file {_secret_file(config)}."
        )
    return str(click.prompt(f"Password of {answers.user}", hide_input=True))


def _secret_file(config: Path) -> Path:
    return config.with_suffix(".password")


# --- sensors ----------------------------------------------------------------------------------


def _values_of_named_sensors(answers: Answers) -> "TemplateValues":
    """Return the template values for the sensors that options or prompts name."""
    from edge_tvbo.setup.config_template import TemplateValues

    if answers.mode == "live":
        raise ConfigError(
            "--mode live needs sensors that were found by listening. Remove --mode, and edit"
            " `activate` in the file."
        )
    return TemplateValues(
        sensors={sensor: sensor for sensor in answers.sensors},
        field=answers.quantity or "temperature",
        topic=answers.topic,
        payload=answers.payload,
        value=answers.value,
        unit="°C" if answers.unit is None else answers.unit,
        mean=20.0 if answers.mean is None else answers.mean,
        spread=3.0 if answers.spread is None else answers.spread,
        **_common(answers),
    )


def _values_of_found_sensors(
    answers: Answers, password: str | None, interactive: bool
) -> "TemplateValues":
    """Return the template values for the sensors that are found by listening to the broker."""
    from edge_tvbo.setup.config_template import TemplateValues
    from edge_tvbo.setup.sensor_discovery import ids, shown

    discovery = _listen(answers, password)
    group = _choose(discovery, answers, interactive)
    if discovery.unusable:
        named = ", ".join(map(shown, discovery.unusable))
        click.echo(f"Sensors with names that cannot be used are left out: {named}", err=True)
    if answers.mode == "live" and group.activate is None:
        raise ConfigError(
            f"Sensors of {group.integration} have no known command; use --mode advise."
        )
    return TemplateValues(
        sensors=ids(group.readings),
        field=group.quantity.name,
        topic=group.topic,
        payload=group.integration,
        value=group.value,
        unit=group.quantity.unit if answers.unit is None else answers.unit,
        activate=group.activate,
        mean=group.center if answers.mean is None else answers.mean,
        spread=group.spread if answers.spread is None else answers.spread,
        **_common(answers),
    )


def _common(answers: Answers) -> dict[str, Any]:
    file = answers.password_file
    return {
        "host": answers.host,
        "port": answers.port,
        "user": answers.user,
        "password_file": None if file is None else str(file.resolve()),
        "tls": answers.tls,
        "interval": answers.interval,
        "live": answers.mode == "live",
    }


def _listen(answers: Answers, password: str | None) -> "Discovery":
    """Listen to the broker for some time, and return the sensors that were found."""
    from edge_tvbo_adapters.mqtt.listen import listen
    from edge_tvbo_adapters.payloads import all_presets, make_codec

    from edge_tvbo.setup.sensor_discovery import Discovery

    discovery = Discovery(all_presets(), make_codec)
    address, seconds = f"{answers.host}:{answers.port}", answers.seconds or 0.0
    click.echo(f"Listening to {address} for {seconds:g} s; Ctrl-C ends it earlier.", err=True)
    with suppress(KeyboardInterrupt):
        listen(_mqtt(answers, password), "init", seconds, discovery.add_message)
    return discovery


def _mqtt(answers: Answers, password: str | None) -> "Mqtt":
    from edge_tvbo.config.field_types import Secret
    from edge_tvbo.config.mqtt_settings import Mqtt, Tls

    if answers.password_file is not None:
        password = answers.password_file.read_text(encoding="utf-8").rstrip("\r\n")
    return Mqtt(
        host=answers.host,
        port=answers.port,
        username=answers.user,
        password=None if password is None else Secret(password),
        tls=Tls() if answers.tls else None,
    )


def _choose(discovery: "Discovery", answers: Answers, interactive: bool) -> "SensorGroup":
    """Print the groups of sensors that were found, and return the chosen group.

    If `interactive`, the user chooses the group. Otherwise the first group is chosen.
    """
    groups = [
        each
        for each in discovery.groups()
        if answers.quantity in (None, each.quantity.name, each.value)
    ]
    for number, group in enumerate(groups[:MAX_LISTED_GROUPS], 1):
        click.echo(f"{number:>3}  {group.describe()}")
    if not groups:
        raise ConfigError(_nothing_found(discovery, answers))
    if len(groups) == 1 or not interactive:
        return groups[0]
    choice = click.IntRange(1, min(MAX_LISTED_GROUPS, len(groups)))
    return groups[click.prompt("Number of the group to use", type=choice, default=1) - 1]


def _nothing_found(discovery: "Discovery", answers: Answers) -> str:
    from edge_tvbo.setup.sensor_discovery import shown

    of = f" of {answers.quantity}" if answers.quantity else ""
    topics = ", ".join(shown(topic) for topic in discovery.unknown)
    return (
        f"None of {discovery.messages} messages in {answers.seconds:g} s was a reading{of} of a"
        f" known integration{'. Topics of other messages: ' + topics if topics else ''}.\n"
        "Listen for longer, or name the sensors and their topic:\n"
        "    edge-tvbo init --sensor hall --topic 'home/{sensor}/temperature' --payload json"
    )


# --- writing ----------------------------------------------------------------------------------


def _write(config: Path, values: "TemplateValues", password: str | None) -> None:
    """Write the configuration and the password file; remove both if `check` would reject them."""
    import msgspec

    from edge_tvbo.setup.config_template import render_config

    with ExitStack() as undo:
        if password is not None:
            secret = _secret_file(config)
            _create(secret, f"{password}\n", 0o600, undo)
            values = msgspec.structs.replace(values, password_file=secret.name)
        _create(config, render_config(values), 0o666, undo)
        settings_of(config)
        undo.pop_all()


def _create(file: Path, text: str, mode: int, undo: ExitStack) -> None:
    """Write a new file; the file is removed when `undo` is closed, unless `undo` is cancelled.

    Raises `FileExistsError` if the file exists.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    undo.callback(file.unlink)
    with os.fdopen(descriptor, "w", encoding="utf-8") as written:
        written.write(text)


# --- editors and shells -------------------------------------------------------------------------


@click.command()
def schema() -> None:
    """Print the JSON Schema of a configuration.

    Editors use the schema to complete and check a configuration while it is written.
    """
    from edge_tvbo.config.json_schema import json_schema

    click.echo(json.dumps(json_schema(), indent=1, ensure_ascii=False))


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for a shell.

    It completes commands, options and their values.

    \b
    bash:  edge-tvbo completion bash > ~/.local/share/bash-completion/completions/edge-tvbo
    zsh:   edge-tvbo completion zsh > ~/.zfunc/_edge-tvbo       (with ~/.zfunc in fpath)
    fish:  edge-tvbo completion fish > ~/.config/fish/completions/edge-tvbo.fish
    """  # noqa: D301 - click wants the character itself
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = context.find_root().command
    click.echo(kind(root, {}, "edge-tvbo", "_EDGE_TVBO_COMPLETE").source())
