"""Commands that write a first configuration, and files for editors and shells."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from edge_tvbo.cli.options import DEFAULT, POSITIVE, duration, settings_of
from edge_tvbo.errors import ConfigError, EdgeTvboError, LinkError, error_text
from edge_tvbo.messages.formatting import listed, named

if TYPE_CHECKING:
    from edge_tvbo.config.mqtt_settings import Mqtt
    from edge_tvbo.config.settings import Settings
    from edge_tvbo.setup.config_template import FieldValues, TemplateValues
    from edge_tvbo.setup.sensor_discovery import Discovery, Quantity, SensorGroup

MAX_LISTED_GROUPS = 9  # groups of sensors that are printed
MAX_LISTED_SENSORS = 12  # of a field that was written
QUANTITY = "{quantity}"  # stands for the quantity in --topic


class Answers(NamedTuple):
    """Values for a first configuration, from options and prompts."""

    host: str
    port: int
    user: str | None
    password_file: Path | None
    tls: bool
    seconds: float | None  # how long to listen; None: do not listen
    sensors: tuple[str, ...]
    quantities: tuple[str, ...]
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
    "--quantity",
    "quantities",
    multiple=True,
    help="Quantity that the sensors measure: temperature, humidity, co2, ...; repeatable. Each"
    " becomes a field.",
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
@click.option("--value", help="Name of the value in a reading that has several, with --sensor.")
@click.option("--unit", help="Unit of the readings.  [default: that of the quantity]")
@click.option(
    "--interval",
    default="10min",
    show_default=True,
    metavar="DURATION",
    callback=lambda context, option, text: _interval(text),
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
    help="Standard deviation of the readings.  [default: that of the found sensors, or usual]",
)
@click.pass_context
def init(context: click.Context, /, config: Path, **options: Any) -> None:
    """Write a first configuration.

    The command listens to the broker to find the sensors, with their integration, topics and
    quantities. On a terminal, the command prompts for values that no option sets. Each quantity
    becomes a field, whose sensors may belong to several integrations. The file CONFIG, by default
    edge-tvbo.toml, contains comments, and `run` accepts it unedited. No file is overwritten.
    """
    if config.exists():
        raise ConfigError(f"{config} exists already; name another file, or move this one.")
    answers = Answers(**options)
    if answers.sensors and answers.mode == "live":
        raise ConfigError(
            "--mode live needs sensors that were found by listening. Remove --mode, and edit"
            " `activate` in the file."
        )
    password = None
    if _is_terminal():
        answers = _prompted(context, answers)
        with _answers_shown_after_an_error(config, answers):
            password = _password(config, answers)
            answers, fields, password = _fields_on_a_terminal(config, answers, password)
            written = _write(config, _template_values(config, answers, fields), password)
    else:
        fields = _fields(answers, password, _first_groups)
        written = _write(config, _template_values(config, answers, fields), password)
    click.echo(f"Wrote {config}:")
    for name, field in written.fields.items():
        sensors = listed(named(field.sensors, field.sensor_names), MAX_LISTED_SENSORS)
        click.echo(f"- {name}, mode {field.activate.mode}: {sensors}")
    click.echo(f"Next:\n\n    edge-tvbo check --connect {config}\n")
    click.echo(f"    edge-tvbo run {config}")


# --- prompts ----------------------------------------------------------------------------------


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _prompted(context: click.Context, answers: Answers) -> Answers:
    """Prompt for the values that no option sets, and return `answers` with these values.

    A prompt is repeated until its answer is valid.
    """

    def is_missing(name: str) -> bool:
        return context.get_parameter_source(name) is DEFAULT

    if is_missing("host"):
        answers = _ask_for_broker(answers)
    if is_missing("seconds") and not answers.sensors:
        if click.confirm("Listen to the broker for a minute, to find the sensors?", default=True):
            answers = answers._replace(seconds=60.0)
        else:
            answers = _ask_for_sensors(answers)
    if is_missing("interval"):
        interval = click.prompt(
            "How often is a sensor selected?", default=answers.interval, value_proc=_interval
        )
        answers = answers._replace(interval=interval)
    if is_missing("mode") and not answers.sensors:
        live = click.confirm("Also activate the selected sensor?", default=False)
        answers = answers._replace(mode="live" if live else "advise")
    return answers


@contextmanager
def _answers_shown_after_an_error(config: Path, answers: Answers) -> Iterator[None]:
    """If the context fails, print the answers as options, which the user can use again."""
    try:
        yield
    except (EdgeTvboError, OSError):
        words = ["--host", answers.host, "--port", str(answers.port)]
        words += ["--user", answers.user] if answers.user else []
        words += ["--listen", f"{answers.seconds:g}s"] if answers.seconds else []
        words += [word for each in answers.sensors for word in ("--sensor", each)]
        words += [word for each in answers.quantities for word in ("--quantity", each)]
        words += ["--interval", answers.interval, "--mode", answers.mode]
        command = join(["edge-tvbo", "init", str(config), *words])
        click.echo(f"Your answers as options:\n\n    {command}\n", err=True)
        raise


def _ask_for_broker(answers: Answers) -> Answers:
    """Prompt for the broker, and return `answers` with its user, host and port."""

    def read(address: str) -> Answers:
        return _with_broker(answers, address)

    shown = answers.host if answers.port == 1883 else f"{answers.host}:{answers.port}"
    asked: Answers = click.prompt(
        "Broker (host, host:port or user@host)", default=shown, value_proc=read
    )
    return asked


def _with_broker(answers: Answers, address: str) -> Answers:
    """Return `answers` with the user, host and port of an address such as ``user@host:port``.

    Raises `click.BadParameter` if the address is invalid.
    """
    from edge_tvbo.config.field_types import host as checked_host

    user, _, place = address.strip().rpartition("@")
    host, _, port = place.partition(":") if place.count(":") == 1 else (place, "", "")
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise click.BadParameter(f"{port!r} is not a port; write the broker as host:1883.")
    try:
        checked_host(host)
    except ValueError as error:
        hint = str(error) or "write the broker as host, host:1883 or user@host"
        raise click.BadParameter(f"{host!r} is not a host; {hint}.") from None
    return answers._replace(
        host=host,
        port=int(port) if port else answers.port,
        user=user or answers.user,
    )


def _ask_for_sensors(answers: Answers) -> Answers:
    sensors = click.prompt("Ids of the sensors, separated by spaces", value_proc=_sensor_ids)
    return answers._replace(sensors=sensors, seconds=None, mode="advise")


def _sensor_ids(text: str) -> tuple[str, ...]:
    """Return the ids in a text, each once; raises `click.BadParameter` for an invalid id."""
    from edge_tvbo.setup.sensor_discovery import is_id

    named = tuple(dict.fromkeys(text.replace(",", " ").split()))
    wrong = [each for each in named if not is_id(each)]
    if wrong or not named:
        what = f"{wrong[0]!r} is not an id" if wrong else "there is no id"
        raise click.BadParameter(
            f"{what}; an id has 1 to 64 of the characters A-Z a-z 0-9 _ . - and no space."
        )
    return named


def _interval(text: str) -> str:
    """Return the text of an interval; raises `click.BadParameter` if it is invalid."""
    from edge_tvbo.config.field_types import interval

    text = text.strip()
    try:
        interval(text)
    except ValueError as error:
        hint = f" {error}" if str(error) else ""
        raise click.BadParameter(
            f'{text!r} is not an interval, 10ms to 366d, such as "10min", or "on-reading".{hint}'
        ) from None
    return text


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


Choose = Callable[["list[SensorGroup]", Answers], "list[SensorGroup]"]


def _fields_on_a_terminal(
    config: Path, answers: Answers, password: str | None
) -> "tuple[Answers, list[FieldValues], str | None]":
    """Return the fields, with the answers and the password that the broker accepted.

    If the broker cannot be reached, or if no sensor is found, prompt for another broker or for the
    sensors. All other answers are kept.
    """
    while True:
        try:
            return answers, _fields(answers, password, _chosen_groups), password
        except LinkError as error:
            click.echo(error_text(error), err=True)
            answers = _ask_for_broker(answers)
            password = _password(config, answers)
        except NothingFound as error:
            click.echo(error_text(error), err=True)
            if not click.confirm("Listen again?", default=True):
                answers = _ask_for_sensors(answers)


def _fields(answers: Answers, password: str | None, choose: Choose) -> "list[FieldValues]":
    """Return the values of each field, from the sensors that are named or found."""
    if answers.sensors:
        return _named_sensors(answers)
    if answers.seconds is None:
        raise ConfigError(
            "There are no sensors.\nName them:  --sensor hall --sensor attic\n"
            "Or find them by listening to the broker:  --listen 60s"
        )
    return _found_sensors(answers, password, choose)


def _named_sensors(answers: Answers) -> "list[FieldValues]":
    """Return the values of a field for each quantity of the sensors that are named."""
    from edge_tvbo.setup.config_template import FieldValues, SourceValues
    from edge_tvbo.setup.sensor_discovery import known_quantity

    names = answers.quantities or ("temperature",)
    if len(names) > 1 and QUANTITY not in answers.topic and answers.value is None:
        raise ConfigError(
            f"The quantities {', '.join(names)} cannot have the same topic. Write {QUANTITY} where"
            f" the topics differ:  --topic 'home/{{sensor}}/{QUANTITY}'"
        )
    quantities = [known_quantity(name) for name in names]
    return [
        FieldValues(
            name=name,
            sources=(
                SourceValues(
                    sensors={sensor: sensor for sensor in answers.sensors},
                    topic=answers.topic.replace(QUANTITY, name),
                    payload=answers.payload,
                    value=None if answers.value is None else answers.value.replace(QUANTITY, name),
                ),
            ),
            unit=quantity.unit if answers.unit is None else answers.unit,
            mean=20.0 if answers.mean is None else answers.mean,
            spread=quantity.spread if answers.spread is None else answers.spread,
        )
        for name, quantity in zip(names, quantities, strict=True)
    ]


def _found_sensors(answers: Answers, password: str | None, choose: Choose) -> "list[FieldValues]":
    """Return the values of a field for each quantity of the chosen groups of sensors."""
    from edge_tvbo.setup.sensor_discovery import shown

    discovery = _listen(answers, password)
    groups = _groups(discovery, answers)
    chosen = choose(groups, answers)
    if discovery.unusable:
        unusable = ", ".join(map(shown, discovery.unusable))
        click.echo(f"Sensors with names that cannot be used are left out: {unusable}", err=True)
    if answers.mode == "live":
        _check_commands(chosen)
    fields: dict[tuple[Quantity, str], list[SensorGroup]] = {}
    for group in sorted(chosen, key=lambda each: _mode(each, answers) == "advise"):
        fields.setdefault((group.quantity, _mode(group, answers)), []).append(group)
    return [_field_of_groups(each, answers) for each in fields.values()]


def _mode(group: "SensorGroup", answers: Answers) -> str:
    """Return how the sensors of a group are activated; all sensors of a field have one mode."""
    return "advise" if answers.mode == "advise" or not group.activate else group.activate.mode


def _field_of_groups(groups: "list[SensorGroup]", answers: Answers) -> "FieldValues":
    """Return the values of a field with a source for each of `groups`, of the same quantity."""
    from msgspec.structs import replace

    from edge_tvbo.setup.config_template import FieldValues, SourceValues
    from edge_tvbo.setup.sensor_discovery import ids

    sources: list[SourceValues] = []
    readings: dict[str, float] = {}
    seen: set[tuple[str, str]] = set()  # topics and names in them: a sensor may have several values
    for group in groups:
        names = [name for name in group.readings if (group.topic, name) not in seen]
        seen |= {(group.topic, name) for name in names}
        sensors = ids(names, readings)
        readings |= {sensor: group.readings[name] for sensor, name in sensors.items()}
        if sensors:
            sources.append(
                SourceValues(
                    sensors=sensors,
                    topic=group.topic,
                    payload=group.integration,
                    value=group.value,
                    activate=group.activate,
                )
            )
    every = replace(groups[0], readings=readings)
    return FieldValues(
        name=every.quantity.name,
        sources=tuple(sources),
        unit=every.quantity.unit if answers.unit is None else answers.unit,
        mean=every.center if answers.mean is None else answers.mean,
        spread=every.spread if answers.spread is None else answers.spread,
    )


def _check_commands(groups: "list[SensorGroup]") -> None:
    """Print which sensors cannot be activated; raise `ConfigError` if none can."""
    from edge_tvbo.setup.sensor_discovery import source_name

    without = [each for each in groups if each.activate is None]
    integrations = " and ".join(dict.fromkeys(source_name(each.integration) for each in without))
    if len(without) == len(groups):
        raise ConfigError(
            f"There is no known command for sensors of {integrations}; use --mode advise."
        )
    if without:
        click.echo(
            f"There is no known command for sensors of {integrations}: they get a field of their"
            " own, in the mode advise.",
            err=True,
        )


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
        tls=answers.tls,
        state=f"{config.stem}-state",
        interval=answers.interval,
        live=answers.mode == "live",
    )


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


class NothingFound(ConfigError):
    """No message on the broker was a reading of the wanted quantities."""


def _groups(discovery: "Discovery", answers: Answers) -> "list[SensorGroup]":
    """Print and return the groups of sensors of the wanted quantities."""
    wanted = answers.quantities
    groups = [
        each
        for each in discovery.groups()
        if not wanted or each.quantity.name in wanted or each.value in wanted
    ]
    for number, group in enumerate(groups[:MAX_LISTED_GROUPS], 1):
        click.echo(f"{number:>3}  {group.describe()}")
    found = {each for group in groups for each in (group.quantity.name, group.value)}
    if not groups or not found.issuperset(wanted):
        raise NothingFound(_nothing_found(discovery, answers, found))
    return groups[:MAX_LISTED_GROUPS]


def _first_groups(groups: "list[SensorGroup]", answers: Answers) -> "list[SensorGroup]":
    """Return the first group of each quantity that the options name, with its other sources.

    If the options name no quantity, it is the quantity of the first group.
    """
    from edge_tvbo.setup.sensor_discovery import companions

    firsts = [
        next(each for each in groups if wanted in (each.quantity.name, each.value))
        for wanted in dict.fromkeys(answers.quantities)
    ]
    every = [companions(first, groups) for first in firsts or groups[:1]]
    return [group for each in every for group in each]


def _chosen_groups(groups: "list[SensorGroup]", answers: Answers) -> "list[SensorGroup]":
    """Return the groups that the user chooses; without a prompt if there is no choice."""
    if len(groups) <= max(1, len(set(answers.quantities))):
        return groups
    usual = [groups.index(each) + 1 for each in _first_groups(groups, answers)]

    def read(text: str) -> list[int]:
        words = text.replace(",", " ").split()
        numbers = [int(each) if each.isdecimal() else 0 for each in words]
        if not numbers or not all(0 < each <= len(groups) for each in numbers):
            raise click.BadParameter(f"{text!r} is not a list of numbers from 1 to {len(groups)}.")
        return sorted(set(numbers))

    chosen = click.prompt(
        "Numbers of the groups to use, separated by spaces; each quantity becomes a field",
        default=" ".join(map(str, usual)),
        value_proc=read,
    )
    return [groups[number - 1] for number in chosen]


def _nothing_found(discovery: "Discovery", answers: Answers, found: Iterable[object]) -> str:
    from edge_tvbo.setup.sensor_discovery import shown

    missing = [each for each in answers.quantities if each not in set(found)]
    of = f" of {', '.join(missing)}" if missing else ""
    topics = ", ".join(shown(topic) for topic in discovery.unknown)
    return (
        f"None of {discovery.messages} messages in {answers.seconds:g} s was a reading{of} of a"
        f" known integration{'. Topics of other messages: ' + topics if topics else ''}.\n"
        "Listen for longer, or name the sensors and their topic:\n"
        "    edge-tvbo init --sensor hall --topic 'home/{sensor}/temperature' --payload json"
    )


# --- writing ----------------------------------------------------------------------------------


def _write(config: Path, values: "TemplateValues", password: str | None) -> "Settings":
    """Write the configuration and the password file, and return the settings.

    Both files are removed if `check` would reject them.
    """
    import msgspec

    from edge_tvbo.setup.config_template import render_config

    with ExitStack() as undo:
        if password is not None:
            secret = _secret_file(config)
            _create(secret, f"{password}\n", 0o600, undo)
            values = msgspec.structs.replace(values, password_file=secret.name)
        _create(config, render_config(values), 0o666, undo)
        settings = settings_of(config)
        undo.pop_all()
    return settings


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
