"""Fixtures of the tests of the daemon."""

import logging
from itertools import chain

import pytest

from edge_tvbo.daemon.log_format import AREAS, PACKAGES, SIGNAL_REPLIES


@pytest.fixture
def root():
    """Return the root logger; its handlers and all log levels are restored after the test."""
    log = logging.getLogger()
    handlers, level = list(log.handlers), log.level
    yield log
    log.handlers[:] = handlers
    log.setLevel(level)
    for name in (*PACKAGES, *SIGNAL_REPLIES, *chain(*AREAS.values())):
        logging.getLogger(name).setLevel(logging.NOTSET)
