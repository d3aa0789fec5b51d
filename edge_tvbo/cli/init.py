"""The way in: a first configuration, and what an editor, a shell and `man` want to know of us."""

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
    from edge_tvbo.setup.sensor_discovery import Discovery, Group

MOST = 9  # groups of sensors that are shown


class Answers(NamedTuple):
    """What `init` was told, by options or by a person."""

    host: str
    port: int
    user: str | None
    password_file: Path | None
    tls: bool
    seconds: float | None  # how long to listen; None for not at all
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
@click.option("--host", default="127.0.0.1", show_default=True, help="The broker.")
@click.option("--port", default=1883, show_default=True)
@click.option("--user", help="Who logs in; on a terminal, the password is asked for.")
@click.option("--password-file", type=click.Path(path_type=Path), help="Holds the password alone.")
@click.option("--tls", is_flag=True, help="Encrypt the connection.")
@click.option(
    "--listen",
    "seconds",
    metavar="DURATION",
    callback=lambda context, option, text: text and duration(context, option, text),
    help="Listen to the broker for so long, such as 60s, and propose the sensors that are heard.",
)
@click.option("--sensor", "sensors", multiple=True, help="An id, instead of listening; repeat it.")
@click.option("--quantity", help="Of what is heard: temperature, humidity, co2, ...")
@click.option("--topic", default="sensors/{sensor}/temperature", show_default=True)
@click.option("--payload", default="number", show_default=True, help="The format of a reading.")
@click.option("--value", help="Which value of a reading, where it has several.")
@click.option("--unit", help="By default that of what is heard, or °C.")
@click.option("--interval", default="10min", show_default=True)
@click.option(
    "--mode",
    type=click.Choice(["advise", "live"]),
    default="advise",
    show_default=True,
    help="Only say which sensor is next, or ask it too.",
)
@click.option("--mean", type=float, help="What readings are on average.  [default: heard, or 20]")
@click.option("--spread", type=POSITIVE, help="Their sd.  [default: heard, or 3]")
@click.pass_context
def init(context: click.Context, /, config: Path, **options: Any) -> None:
    """Write a commented configuration to CONFIG that `run` takes as it is.

    On a terminal it asks for what no option says; nothing is overwritten. Sensors are found by
    listening to the broker: their make, their topics, and what they measure.
    """
    if config.exists():
        raise ConfigError(f"{config} is there already; name another file, or move it away.")
    answers = Answers(**options)
    asking = _is_terminal()
    if asking:
        answers = _asked(context, answers)
    if not answers.sensors and answers.seconds is None:
        raise ConfigError(
            "There is no sensor to write of.\nName them:  --sensor hall --sensor attic\n"
            "Or have the broker listened to for a while:  --listen 60s"
        )
    password = _password(config, answers) if asking else None
    start = _named(answers) if answers.sensors else _found(answers, password, asking)
    _write(config, start, password)
    click.echo(f"Wrote {config}. Next:\n\n    edge-tvbo check --connect {config}\n")
    click.echo(f"    edge-tvbo run {config}")


# --- asking -----------------------------------------------------------------------------------


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _asked(context: click.Context, answers: Answers) -> Answers:
    """Ask for what no option says."""

    def open_(name: str) -> bool:
        return context.get_parameter_source(name) is DEFAULT

    if open_("host"):
        where = click.prompt("The broker, as host, host:port or user@host", default=answers.host)
        answers = _at(answers, where)
    if open_("seconds") and not answers.sensors:
        if click.confirm("Listen to it for a minute, to find the sensors?", default=True):
            answers = answers._replace(seconds=60.0)
        else:
            named = click.prompt("The sensors' ids, with spaces between them")
            answers = answers._replace(sensors=tuple(named.split()))
    if open_("interval"):
        every = click.prompt("How often is a sensor chosen?", default=answers.interval)
        answers = answers._replace(interval=every)
    if open_("mode") and not answers.sensors:
        live = click.confirm("Ask the sensor that is chosen, not only say which?", default=False)
        answers = answers._replace(mode="live" if live else "advise")
    return answers


def _at(answers: Answers, where: str) -> Answers:
    """Take ``user@host:port`` apart."""
    user, _, place = where.rpartition("@")
    host, _, port = place.partition(":") if place.count(":") == 1 else (place, "", "")
    if port and not port.isdecimal():
        raise ConfigError(f"{port!r} is no port; a broker is given as host:1883.")
    return answers._replace(
        host=host,
        port=int(port) if port else answers.port,
        user=user or answers.user,
    )


def _password(config: Path, answers: Answers) -> str | None:
    """Ask for the password that goes with a user, unless a file has it."""
    if answers.user is None or answers.password_file is not None:
        return None
    if _secret_file(config).exists():
        raise ConfigError(
            f"{_secret_file(config)} is there already; if it has the password, say"
            f" --password-file {_secret_file(config)}."
        )
    return str(click.prompt(f"The password of {answers.user}", hide_input=True))


def _secret_file(config: Path) -> Path:
    return config.with_suffix(".password")


# --- finding ----------------------------------------------------------------------------------


def _named(answers: Answers) -> "TemplateValues":
    """Take the sensors as they were named."""
    from edge_tvbo.setup.config_template import TemplateValues

    if answers.mode == "live":
        raise ConfigError(
            "How these sensors are asked is not known; leave --mode live out, and put"
            " activate into the file."
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


def _found(answers: Answers, password: str | None, asking: bool) -> "TemplateValues":
    """Listen, and take what is heard."""
    from edge_tvbo.setup.config_template import TemplateValues
    from edge_tvbo.setup.sensor_discovery import ids, shown

    survey = _heard(answers, password)
    group = _chosen(survey, answers, asking)
    if survey.unusable:
        named = ", ".join(map(shown, survey.unusable))
        click.echo(f"Left out, for such a name cannot be used: {named}", err=True)
    if answers.mode == "live" and group.activate is None:
        raise ConfigError(f"How {group.make} sensors are asked is not known; say --mode advise.")
    return TemplateValues(
        sensors=ids(group.readings),
        field=group.quantity.name,
        topic=group.topic,
        payload=group.make,
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


def _heard(answers: Answers, password: str | None) -> "Discovery":
    """Listen to the broker; Ctrl-C ends it sooner."""
    from edge_tvbo_adapters.mqtt.listen import listen
    from edge_tvbo_adapters.payloads import all_presets, make_codec

    from edge_tvbo.setup.sensor_discovery import Discovery

    survey = Discovery(all_presets(), make_codec)
    where, seconds = f"{answers.host}:{answers.port}", answers.seconds or 0.0
    click.echo(f"Listening to {where} for {seconds:g} s; Ctrl-C ends it sooner.", err=True)
    with suppress(KeyboardInterrupt):
        listen(_mqtt(answers, password), "init", seconds, survey.hear)
    return survey


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


def _chosen(survey: "Discovery", answers: Answers, asking: bool) -> "Group":
    """Show what was found, and give the group that is wanted."""
    groups = [
        each
        for each in survey.groups()
        if answers.quantity in (None, each.quantity.name, each.value)
    ]
    for number, group in enumerate(groups[:MOST], 1):
        click.echo(f"{number:>3}  {group.told()}")
    if not groups:
        raise ConfigError(_nothing(survey, answers))
    if len(groups) == 1 or not asking:
        return groups[0]
    choice = click.IntRange(1, min(MOST, len(groups)))
    return groups[click.prompt("Which of them?", type=choice, default=1) - 1]


def _nothing(survey: "Discovery", answers: Answers) -> str:
    from edge_tvbo.setup.sensor_discovery import shown

    of = f" of {answers.quantity}" if answers.quantity else ""
    some = ", ".join(shown(topic) for topic in survey.unknown)
    return (
        f"{survey.messages} messages came in {answers.seconds:g} s, and no reading{of} of a make"
        f" that is known{'; topics such as ' + some if some else ''}.\n"
        "Listen for longer, or name the sensors and their topic:\n"
        "    edge-tvbo init --sensor hall --topic 'home/{sensor}/temperature' --payload json"
    )


# --- writing ----------------------------------------------------------------------------------


def _write(config: Path, start: "TemplateValues", password: str | None) -> None:
    """Write what `check` takes, or nothing; in the place of no other file."""
    import msgspec

    from edge_tvbo.setup.config_template import render_config

    with ExitStack() as undoing:
        if password is not None:
            secret = _secret_file(config)
            _create(secret, f"{password}\n", 0o600, undoing)
            start = msgspec.structs.replace(start, password_file=secret.name)
        _create(config, render_config(start), 0o666, undoing)
        settings_of(config)
        undoing.pop_all()


def _create(file: Path, text: str, mode: int, undoing: ExitStack) -> None:
    """Write a file that there is not yet; `undoing` removes it again."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    undoing.callback(file.unlink)
    with os.fdopen(descriptor, "w", encoding="utf-8") as written:
        written.write(text)


# --- for editors, shells and man ----------------------------------------------------------------


@click.command()
def schema() -> None:
    """Print the JSON Schema of a configuration, by which editors complete and check it."""
    from edge_tvbo.config.json_schema import json_schema

    click.echo(json.dumps(json_schema(), indent=1, ensure_ascii=False))


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes SHELL complete our commands, options and their values.

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


@click.command()
@click.pass_context
def man(context: click.Context) -> None:
    """Print the manual page, which `edge-tvbo man | man -l -` shows."""
    from edge_tvbo.cli.manual import page

    click.echo(page(context.find_root()), nl=False)
