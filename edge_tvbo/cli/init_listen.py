"""Sensor discovery of `init`: listens to the broker that the user names."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import click

from edge_tvbo.cli.init_prompts import Answers
from edge_tvbo.config.field_types import Secret
from edge_tvbo.config.mqtt_settings import Mqtt, Tls
from edge_tvbo.errors import Code, ConfigError, LinkError
from edge_tvbo.setup.sensor_discovery import SensorDiscovery

OPTIONS = {  # setting in the text of a connection problem -> option of `init`
    "mqtt.host": "--host",
    "mqtt.port": "--port",
    "mqtt.username": "--user",
    "mqtt.password_file": "--password-file",
    "[mqtt.tls]": "--tls",
    "mqtt.tls.ca": "--ca",
}


def discover(answers: Answers, password: str | None) -> tuple[SensorDiscovery, float]:
    """Listen to the broker for `answers.seconds`, or until Ctrl-C.

    Return the sensors that `init` has found, and for how many seconds it listened.
    """
    from edge_tvbo_adapters.mqtt.listen import listen
    from edge_tvbo_adapters.payloads.formats import all_presets, convertible_units, make_codec

    discovery = SensorDiscovery(all_presets(), make_codec, convertible_units, answers.unit)
    address = Mqtt(host=answers.host, port=answers.port).address
    seconds = answers.seconds or 0.0
    start = monotonic()
    try:
        click.echo(
            f"Listening to {address} for {seconds:g} s; press Ctrl-C to stop earlier.", err=True
        )
        with _naming_options(answers):
            listen(_mqtt(answers, password), "init", seconds, discovery.add_message)
    except KeyboardInterrupt:
        click.echo(
            f"Ended after {monotonic() - start:.0f} s. Sensors that sent nothing in this time are"
            " missing.",
            err=True,
        )
    return discovery, min(seconds, round(monotonic() - start, 1))


@contextmanager
def _naming_options(answers: Answers) -> Iterator[None]:
    """Rewrite a connection error in the `with` block: name options of `init` instead of settings.

    While `init` runs, there is no configuration yet in which the user could change a setting.
    Raises `ConfigError` if the file that --ca names is invalid.
    """
    try:
        yield
    except LinkError as error:
        if error.code is Code.NAMED_FILE:
            text = f"--ca is {answers.ca}, which has no certificate in PEM format."
            raise ConfigError(text) from None
        options = OPTIONS if answers.ca is None else OPTIONS | {"[mqtt.tls]": "--ca"}
        keys = "|".join(rf"{re.escape(key)}(?!\w)" for key in options)
        text = re.sub(keys, lambda key: options[key[0]], str(error))
        raise LinkError(text, error.code) from None


def _mqtt(answers: Answers, password: str | None) -> Mqtt:
    if answers.password_file is not None:
        password = _password_in(answers.password_file)
    return Mqtt(
        host=answers.host,
        port=answers.port,
        username=answers.user,
        password=None if password is None else Secret(password),
        tls=Tls(ca=answers.ca) if answers.is_encrypted else None,
    )


def _password_in(file: Path) -> str:
    """Return the content of `file`: the password for the broker to which `init` listens."""
    try:
        return file.read_text(encoding="utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigError(
            f"--password-file is {file}, which is not a UTF-8 text file; save it as UTF-8."
        ) from None
