"""Answers from which `init` makes a first configuration, and the prompts for these answers."""

from pathlib import Path
from typing import NamedTuple

import click

from edge_tvbo.cli.options import DEFAULT
from edge_tvbo.config import field_types
from edge_tvbo.messages.sensor_ids import is_id

NAMED_ONLY = ("topic", "payload", "value")  # options that only have an effect with --sensor
PROMPTED = ("host", "port", "interval", "mode")  # `init` prompts for them despite their defaults


class Answers(NamedTuple):
    """Values for a first configuration, from options and prompts."""

    host: str
    port: int
    user: str | None
    password_file: Path | None
    tls: bool
    ca: Path | None
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

    @property
    def is_encrypted(self) -> bool:
        """Whether `init` uses TLS to connect to the broker that the answers name."""
        return self.tls or self.ca is not None


def prompted(context: click.Context, answers: Answers) -> Answers:
    """Prompt for the values that no option sets, and return `answers` with these values.

    There is no prompt for the broker if `--host` or `--port` is set. A prompt is repeated until its
    answer is valid.
    """

    def is_missing(name: str) -> bool:
        return context.get_parameter_source(name) is DEFAULT

    if is_missing("host") and is_missing("port"):
        answers = ask_for_broker(answers)
    if is_missing("seconds") and not answers.sensors:
        is_described = not all(map(is_missing, NAMED_ONLY))
        if not is_described and click.confirm(
            "Listen to the broker for a minute, to find the sensors?", default=True
        ):
            answers = answers._replace(seconds=60.0)
        else:
            answers = ask_for_sensors(answers)
    if is_missing("interval"):
        interval = click.prompt(
            "How often is a sensor selected?",
            default=answers.interval,
            value_proc=prompted_interval,
        )
        answers = answers._replace(interval=interval)
    if is_missing("mode") and not answers.sensors:
        live = click.confirm(
            "Also activate the selected sensor? Only for sensors that reply to a command",
            default=False,
        )
        answers = answers._replace(mode="live" if live else "advise")
    return answers


def as_options(context: click.Context, answers: Answers) -> list[str]:
    """Return the command-line options that give `init` the same answers without prompts.

    The result is a list of the words of a command line. The password is left out. An option for
    which there is no prompt is left out if its value is the default.
    """
    words = []
    for option in context.command.params:
        value = getattr(answers, option.name or "", None)
        if option.name not in PROMPTED and value == option.get_default(context):
            continue
        if option.name in NAMED_ONLY and answers.seconds is not None:
            continue
        match value:
            case None | False:
                pass
            case True:
                words += [option.opts[0]]
            case tuple():
                words += [word for each in value for word in (option.opts[0], each)]
            case float() if option.name == "seconds":
                words += [option.opts[0], field_types.duration_text(value)]
            case _:
                words += [option.opts[0], str(value)]
    return words


def ask_for_broker(answers: Answers) -> Answers:
    """Prompt for the broker, and return `answers` with its user, host and port."""

    def read(address: str) -> Answers:
        return _with_broker(answers, address)

    # An address with a port cannot have an IPv6 host. Without a port, the old port is kept.
    is_host = answers.port == 1883 or ":" in answers.host
    shown = answers.host if is_host else f"{answers.host}:{answers.port}"
    asked: Answers = click.prompt(
        "Broker (host, host:port or user@host)", default=shown, value_proc=read
    )
    return asked


def _with_broker(answers: Answers, address: str) -> Answers:
    """Return the `answers` to the prompts with the host, port and user of the broker's `address`.

    The address has the form ``user@host:port``; user and port are optional. Raises
    `click.BadParameter` if the address is invalid.
    """
    user, _, place = address.strip().rpartition("@")
    host, _, port = place.partition(":") if place.count(":") == 1 else (place, "", "")
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise click.BadParameter(f"{port!r} is not a port; write the broker as host:1883.")
    try:
        field_types.host(host)
    except ValueError as error:
        hint = str(error) or "write the broker as host, host:1883 or user@host"
        raise click.BadParameter(f"{host!r} is not a host; {hint}.") from None
    return answers._replace(
        host=host,
        port=int(port) if port else answers.port,
        user=user or answers.user,
    )


def ask_for_sensors(answers: Answers) -> Answers:
    """Prompt for the ids of the sensors, and return `answers` with these ids.

    With the returned answers, `init` does not listen to the broker.
    """
    sensors = click.prompt("Ids of the sensors, separated by spaces", value_proc=_sensor_ids)
    return answers._replace(sensors=sensors, seconds=None, mode="advise")


def _sensor_ids(text: str) -> tuple[str, ...]:
    """Return the different ids in a prompt's answer; raises `click.BadParameter` if invalid."""
    named = tuple(dict.fromkeys(text.replace(",", " ").split()))
    wrong = [each for each in named if not is_id(each)]
    if wrong or not named:
        what = f"{wrong[0]!r} is not an id" if wrong else "there is no id"
        raise click.BadParameter(
            f"{what}; an id has 1 to 64 of the characters A-Z a-z 0-9 _ . - and no space."
        )
    return named


def prompted_interval(text: str) -> str:
    """Return the answer to the prompt for the interval, without spaces at its start and end.

    Raises `click.BadParameter` if the answer is not a valid interval.
    """
    text = text.strip()
    try:
        field_types.interval(text)
    except ValueError as error:
        hint = f" ({error})" if str(error) else ""
        raise click.BadParameter(
            f'{text!r} is not an interval; allowed: a duration, 10ms to 366d, or "on-reading"{hint}'
        ) from None
    return text
