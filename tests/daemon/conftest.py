"""Fixtures of the tests of the daemon."""

import logging

import pytest


@pytest.fixture
def root():
    """Return the root logger; its handlers and its level are restored after the test."""
    log = logging.getLogger()
    handlers, level = list(log.handlers), log.level
    yield log
    log.handlers[:] = handlers
    log.setLevel(level)
