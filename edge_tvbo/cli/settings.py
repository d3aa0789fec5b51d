"""Settings that a command reads from a configuration file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from edge_tvbo.config.settings import Settings


def settings_of(config: Path) -> "Settings":
    """Return the settings of a command's CONFIG; raises `ConfigErrors` if the file has errors."""
    from edge_tvbo_adapters.payloads.formats import FORMATS

    from edge_tvbo.config.loader import load

    return load(config, FORMATS)


def verbose_settings_of(config: Path) -> "Settings":
    """Return the settings of a command's CONFIG, with debug as the usual log level.

    If [log] sets a level for an area of the log, the area keeps that level.

    Raises `ConfigErrors` if the file has errors.
    """
    from msgspec.structs import replace

    settings = settings_of(config)
    return replace(settings, log=replace(settings.log, level="debug"))


def buildable_settings_of(config: Path) -> "Settings":
    """Read a command's CONFIG, test whether `run` could build the daemon, and return the settings.

    Raises `ConfigErrors` if the file has errors, or if the daemon cannot be built from it.
    """
    settings = settings_of(config)
    from edge_tvbo.config.loader import located

    with located(config), compilation_announced():
        from edge_tvbo.daemon import app  # imported after the check, because it takes a second

        app.check_buildable(settings)
    return settings


@contextmanager
def compilation_announced() -> Iterator[None]:
    """Print a line to stderr before the first kernel is compiled in the `with` block."""
    from edge_tvbo.numerics.jit import COMPILATION

    if COMPILATION != "just in time":
        yield
        return
    from numba.core import event

    class Announcement(event.Listener):
        is_due = True

        def on_start(self, compilation: Any) -> None:
            if self.is_due:
                click.echo(
                    "compiling the kernels, which takes a few seconds on a PC, and up to a minute "
                    "on a small board",
                    err=True,
                )
            self.is_due = False

        def on_end(self, compilation: Any) -> None:
            pass

    with event.install_listener("numba:compile", Announcement()):
        yield
