"""Dashboard fixtures: a browser, a gateway whose sensors reply, and dashboards."""

from contextlib import ExitStack

import pytest
from support.browser import axe, chromium  # noqa: F401 - fixtures
from support.dashboard import DashboardProcess, Laboratory, Page


@pytest.fixture(scope="module")
def shared(fixtures_with_library):
    """Return the stack that closes what the tests of a module share."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory, broker, shared):
    """Return a gateway that decides every second."""
    laboratory = Laboratory(tmp_path_factory.mktemp("lab"), broker)
    shared.callback(laboratory.close)
    return laboratory


@pytest.fixture(scope="module")
def dashboard(laboratory, shared, tmp_path_factory):
    """Return a dashboard of the gateway."""
    log = tmp_path_factory.mktemp("dashboard") / "log"
    dashboard = DashboardProcess(log, laboratory.config)
    shared.callback(dashboard.stop)
    return dashboard


@pytest.fixture(scope="module")
def recorded(shared, tmp_path_factory):
    """Return a dashboard that replays a recorded day."""
    log = tmp_path_factory.mktemp("recorded") / "log"
    dashboard = DashboardProcess(log, "--dataset", "lab-sample", "--replay", "2026-03-08")
    shared.callback(dashboard.stop)
    return dashboard


@pytest.fixture
def page(chromium):  # noqa: F811
    """Return a new page, which is left after the test: it would follow its dashboard for ever."""
    page = Page(chromium)
    yield page
    page.leave()
