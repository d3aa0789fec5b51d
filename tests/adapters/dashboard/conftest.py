"""Dashboard fixtures: a browser, a gateway whose sensors reply, and dashboards."""

import os
import shutil
from contextlib import ExitStack

import pytest
from support.dashboard import DashboardProcess, Laboratory, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")


@pytest.fixture(scope="module")
def shared():
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


@pytest.fixture(scope="session")
def chromium():
    """Return a driver of Debian's chromium, headless."""
    if not (CHROMIUM and DRIVER):
        reason = "these tests need chromium and chromium-driver:  apt install chromium-driver"
        if os.environ.get("EDGE_TVBO_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for each in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{each}")
    options.add_argument("--hide-scrollbars")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(chromium):
    """Return a new page."""
    return Page(chromium)
