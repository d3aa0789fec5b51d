"""Fixtures of the report tests: a browser, and axe-core."""

from support.browser import axe, chromium  # noqa: F401 - fixtures
