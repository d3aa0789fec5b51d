"""Home Assistant commands: print or remove the discovery message of a daemon."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edge_tvbo.cli.options import config_argument
from edge_tvbo.cli.output import print_json
from edge_tvbo.cli.settings import settings_of
from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from edge_tvbo.config.settings import Settings

BROKER_TIMEOUT_S = 15.0
NOT_CONFIGURED = "CONFIG has no table [homeassistant]. Add this table to use Home Assistant."


@click.group()
def ha() -> None:
    """Show or remove the Home Assistant device."""


@ha.command()
@config_argument
def show(config: Path) -> None:
    """Print the Home Assistant message of CONFIG.

    This is the MQTT discovery message, from which Home Assistant creates the device.
    """
    from edge_tvbo.config.loader import located
    from edge_tvbo.daemon.build_controllers import controllers
    from edge_tvbo.daemon.build_discovery import discovery_message

    settings = settings_of(config)
    if settings.homeassistant is None:
        raise ConfigError(NOT_CONFIGURED)
    with located(config):
        print_json(discovery_message(settings, settings.homeassistant, controllers(settings)))


@ha.command()
@config_argument
@click.option("--instance", help="Name of the instance, if it differs from the instance in CONFIG.")
@click.option("--prefix", help="Discovery prefix, if it differs from the prefix in CONFIG.")
def remove(config: Path, instance: str | None, prefix: str | None) -> None:
    """Remove the Home Assistant device of CONFIG.

    The entities of the device are removed too. First stop the daemon, or remove [homeassistant]
    from CONFIG and send SIGHUP to the daemon. If the broker uses logins as client ids, stop the
    daemon: the command uses the daemon's login, so it would end the session of a running daemon.
    """
    from edge_tvbo_adapters.homeassistant.discovery import topic_for
    from edge_tvbo_adapters.mqtt.clear_retained import clear_retained

    settings = settings_of(config)
    if instance is not None and not re.fullmatch(r"[a-z0-9_-]{1,64}", instance):
        raise ConfigError(
            f"--instance is {instance!r}; allowed: 1 to 64 of the characters a-z 0-9 _ -"
        )
    instance, own = instance or settings.instance, settings.homeassistant
    topic = topic_for(_prefix(settings, prefix), instance)
    if own and topic == topic_for(own.prefix, settings.instance):
        _refuse_while_it_runs(settings, config)
    removed = clear_retained(settings.mqtt, instance, topic, BROKER_TIMEOUT_S)
    click.echo(f"Removed {topic}" if removed else f"There was nothing to remove on {topic}")


def _prefix(settings: "Settings", prefix: str | None) -> str:
    """Return the discovery prefix of the Home Assistant device.

    The result is `prefix`, the value of the option --prefix. If it is None, the result is the
    discovery prefix in the `settings`.
    """
    from edge_tvbo.config.settings import PLAIN_TOPIC, HomeAssistant

    if prefix is None:
        return (settings.homeassistant or HomeAssistant()).prefix
    if not re.fullmatch(PLAIN_TOPIC, prefix):
        raise ConfigError(
            f"--prefix is {prefix!r}; allowed: the values of the setting homeassistant.prefix"
        )
    return prefix


def _refuse_while_it_runs(settings: "Settings", config: Path) -> None:
    from edge_tvbo_adapters.mqtt.read_retained import read_retained

    reader = settings.mqtt.for_readers()  # [mqtt.readonly] keeps the daemon's session
    if read_retained(reader, settings.instance, (), BROKER_TIMEOUT_S).status == "online":
        raise ConfigError(
            f"The daemon of {config} is running and would publish the device again. Stop the"
            " daemon first, or remove [homeassistant] from the file and send SIGHUP to the daemon."
        )
