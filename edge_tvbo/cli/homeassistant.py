"""Home Assistant: what it is told of a daemon, and that the daemon is there no more."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edge_tvbo.cli.options import settings_of
from edge_tvbo.cli.output import print_json
from edge_tvbo.errors import ConfigError

if TYPE_CHECKING:
    from edge_tvbo.config.settings import Settings

PATIENCE = 15.0  # s
OFF = "CONFIG has no table [homeassistant], so Home Assistant is told nothing; add it."


@click.group()
def ha() -> None:
    """Say what Home Assistant is told, or take that back."""


@ha.command()
@click.argument("config", type=click.Path(path_type=Path))
def show(config: Path) -> None:
    """Print the message by which Home Assistant gets to know the daemon of CONFIG."""
    from edge_tvbo_adapters.homeassistant.discovery import payload

    from edge_tvbo import __version__
    from edge_tvbo.daemon import app, build_controllers

    settings = settings_of(config)
    if settings.homeassistant is None:
        raise ConfigError(OFF)
    fields = app.discovery_fields(settings, build_controllers.controllers(settings))
    print_json(payload(settings.instance, fields, __version__))


@ha.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--instance", help="Another one than CONFIG names: what it was called before.")
def remove(config: Path, instance: str | None) -> None:
    """Have Home Assistant forget the daemon of CONFIG, with all its entities.

    Stop the daemon first, or take [homeassistant] out of CONFIG and send it SIGHUP.
    """
    from edge_tvbo_adapters.homeassistant.discovery import topic_for
    from edge_tvbo_adapters.mqtt.clear_retained import erase

    settings = settings_of(config)
    if instance is not None and not re.fullmatch(r"[a-z0-9_-]{1,64}", instance):
        raise ConfigError(f"--instance is {instance!r}; it can be 1 to 64 of a-z 0-9 _ -")
    instance = instance or settings.instance
    if settings.homeassistant and instance == settings.instance:
        _refuse_while_it_runs(settings, config)
    prefix = settings.homeassistant.prefix if settings.homeassistant else "homeassistant"
    topic = topic_for(prefix, instance)
    removed = erase(settings.mqtt, instance, topic, PATIENCE)
    click.echo(f"Removed {topic}" if removed else f"There was nothing on {topic}")


def _refuse_while_it_runs(settings: "Settings", config: Path) -> None:
    from edge_tvbo_adapters.mqtt.read_retained import ask

    if ask(settings.mqtt, settings.instance, (), PATIENCE).status == "online":
        raise ConfigError(
            f"The daemon of {config} is running and would announce itself again: stop it first, "
            "or take [homeassistant] out of the file and send it SIGHUP."
        )
