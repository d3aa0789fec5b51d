"""Fixtures, marks and Hypothesis profiles of all tests.

`pytest` tries new examples in every run; `make test` tries the same examples on every machine, so
that its result depends on the change alone.
"""

import gc
import logging
import os
import shutil
import signal
import time
from contextlib import ExitStack
from itertools import chain

import pytest
from edge_tvbo_adapters.simulation import local_broker
from hypothesis import settings
from support import certificates, doctests
from support.kernels import NEEDS, VARIABLE, can_compile, library, starts_many_programs
from support.marks import assign_marks, without_processes
from support.mosquitto import Driver, Mosquitto, Peer
from support.once import once
from support.paths import SHARED
from support.ports import free_port
from support.settings import VERSION

from edge_tvbo.daemon.log_format import AREAS, PACKAGES, SIGNAL_REPLIES
from edge_tvbo.errors import MissingExtra

collect_ignore = ["real"]  # scripts that root runs on real systems: tests/real/README.md

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts a command in the background with SIGINT ignored, and every process that the
    # tests start would inherit that: Ctrl-C would end none of them.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# A numba kernel compiles at its first call, which exceeds Hypothesis's 200 ms.
settings.register_profile("default", deadline=None)
settings.register_profile("repeatable", settings.get_profile("default"), derandomize=True)
settings.register_profile("quick", settings.get_profile("default"), max_examples=5)  # `make unit`
settings.load_profile("default")


def pytest_addoption(parser):
    parser.addoption(
        "--mqtt-version",
        choices=("3.1.1", "5"),
        help="the version of MQTT in tests and daemons that do not choose one",
    )


def pytest_configure(config):
    if version := config.getoption("--mqtt-version"):
        os.environ[VERSION] = version
    config.pluginmanager.register(doctests)


def pytest_collection_modifyitems(items):
    assign_marks(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the garbage collector from all that is imported and collected, which stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    with without_processes(item):
        return (yield)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config, log):
    from support.distribution import ByFileOrTest  # the emulated Raspberry Pi has no pytest-xdist

    if config.getvalue("dist") == "loadfile":
        return ByFileOrTest(config, log)
    return None


@pytest.fixture(scope="session")
def shared_directory(tmp_path_factory):
    """Return a directory that all processes of the tests share."""
    directory = tmp_path_factory.getbasetemp()
    return directory.parent if "PYTEST_XDIST_WORKER" in os.environ else directory


@pytest.fixture(scope="session")
def library_folder(shared_directory):
    """Return a folder with a library of kernels that was just compiled."""
    if not can_compile():
        pytest.fail(NEEDS) if os.environ.get("CI") else pytest.skip(NEEDS)
    return library(shared_directory / "kernels")


@pytest.fixture(autouse=True)
def unset_log_levels():
    """Unset the log levels that a daemon in this process has set, for the sake of later tests."""
    yield
    for name in (*PACKAGES, *SIGNAL_REPLIES, *chain(*AREAS.values())):
        if (log := logging.getLogger(name)).level:
            log.setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def programs_with_library(request):
    """Make programs load the library of kernels, in a third of the time that numba takes to load.

    The library's kernels are equal to numba's to the last bit: tests/numerics/test_compiled.py.
    A single process of tests starts few programs; they use numba's cache, as after `pip install`.
    """
    if starts_many_programs(request.node):
        _use_library(request, request.getfixturevalue("monkeypatch"))


@pytest.fixture(scope="module")
def fixtures_with_library(request):
    """Make programs that a module's fixtures start load the library too.

    Such a fixture is set up before `programs_with_library`.
    """
    with pytest.MonkeyPatch.context() as patch:
        _use_library(request, patch)
        yield


def _use_library(request, patch):
    is_one_of_many = "PYTEST_XDIST_WORKER" in os.environ
    if is_one_of_many and can_compile():
        patch.setenv(VARIABLE, str(request.getfixturevalue("library_folder")))


@pytest.fixture
def first_timeout_counts(monkeypatch):
    """Make every sensor unresponsive after one time-out; a new sensor usually needs three."""
    monkeypatch.setattr("edge_tvbo.control.sensor_health.MAX_TIMEOUTS", 1)


@pytest.fixture(scope="session")
def recordings():
    """Return the folder of the real recordings; skip the test where there is none."""
    if not SHARED.is_dir():
        pytest.skip(f"no recordings in {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def certs(shared_directory):
    """Return a directory with all certificates; skip the test where there is no openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("these tests want the openssl command")
    directory = shared_directory / "certificates"
    with once(directory) as is_missing:
        if is_missing:
            certificates.everything(directory)
    return directory


# --- brokers --------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def broker_directory(tmp_path_factory):
    """Return a directory for brokers; skip the test where there is no mosquitto."""
    path = tmp_path_factory.mktemp("mosquitto")
    try:
        name, _ = local_broker.choose(1, path)
    except MissingExtra:
        name = "none"
    if name != "mosquitto":
        reason = f"these tests need mosquitto; the broker here: {name}"
        if os.environ.get("CI") or os.environ.get("EDGE_TVBO_REQUIRE_BROKER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="module")
def broker(broker_directory):
    """Return a running broker, started as the demo starts its own."""
    with local_broker.start(free_port()) as running:
        assert running.name == "mosquitto"
        yield running


@pytest.fixture
def mosquitto(broker_directory):
    """Return a function that makes brokers; the test starts them."""
    made = []

    def make(extra=""):
        made.append(Mosquitto(broker_directory, extra=extra))
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def drive():
    """Return a function that makes drivers; their links are closed after the test."""
    with ExitStack() as stack:

        def make(*links):
            driver = Driver(links)
            stack.callback(driver.close)
            return driver

        yield make


@pytest.fixture
def peer():
    """Return a function that makes peers of a port, with the topic filters they subscribe to."""
    with ExitStack() as stack:

        def make(port, *filters, login=None):
            each = Peer(port, filters or ("edge_tvbo/#",), login)
            stack.callback(each.close)
            return each

        yield make


@pytest.fixture
def machine_zone(monkeypatch):
    """Return a function that sets the time zone of this machine for the rest of the test."""

    def set_zone(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()
