"""Settings that a command reads from a configuration file."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edge_tvbo.config.settings import Settings


def settings_of(config: Path) -> "Settings":
    """Return the settings of a configuration file; raises `ConfigErrors` if the file has errors."""
    from edge_tvbo_adapters.payloads import FORMATS
    from edge_tvbo_adapters.payloads.of_field import check_payloads

    from edge_tvbo.config.loader import load, located

    settings = load(config, FORMATS)
    with located(config):
        check_payloads(settings.fields)
    return settings


def buildable_settings_of(config: Path) -> "Settings":
    """Return the settings of a file after a test build of everything that `run` builds.

    Raises `ConfigErrors` if the file has errors, or if the daemon cannot be built from it.
    """
    settings = settings_of(config)
    from edge_tvbo.config.loader import located
    from edge_tvbo.daemon import app  # imported after the check, because it takes a second

    with located(config):
        app.check_buildable(settings)
    return settings
