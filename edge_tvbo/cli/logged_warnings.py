"""Logged warnings: collects the warnings that are logged while a configuration is checked."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edge_tvbo.cli.output import print_warnings
from edge_tvbo.config.errors import WHOLE, ConfigWarning


@contextmanager
def logged_warnings(config: Path) -> Iterator[list[ConfigWarning]]:
    """Provide a list of the warnings that the `with` block logs, and print them to stderr."""
    print_warnings()
    collector = _Collector(config)
    logging.getLogger().addHandler(collector)
    try:
        yield collector.found
    finally:
        logging.getLogger().removeHandler(collector)


class _Collector(logging.Handler):
    """A log handler that collects the warnings of one configuration.

    The check of a configuration also builds the daemon. A warning that this build logs has no line
    number, so it is stored with only the name of the file.
    """

    def __init__(self, config: Path) -> None:
        super().__init__(logging.WARNING)
        self._config = str(config)
        self.found: list[ConfigWarning] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Add the warning in the log `record` to the collected warnings."""
        located = [each for each in record.args or () if isinstance(each, ConfigWarning)]
        self.found += located or [ConfigWarning(self._config, *WHOLE, "", record.getMessage())]
