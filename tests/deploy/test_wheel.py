"""The wheel, built from the sdist and installed alone into a fresh environment."""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import zipfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from edge_tvbo_adapters.simulation import local_broker
from paho.mqtt import subscribe
from support.installation import (
    add_bytecode,
    add_compiled_kernels,
    add_dependencies,
    environment_with_pip,
    install_commands,
)
from support.mosquitto import Peer
from support.paths import ROOT
from support.ports import free_port

from edge_tvbo import __version__
from edge_tvbo.messages.documents import Reason
from edge_tvbo.numerics.compiled import MODULES

EXAMPLE = (ROOT / "deploy" / "config.example.toml").read_text()
PIP = ["-q", "--disable-pip-version-check", "--no-input"]
BUILD = "import sys, hatchling.build as b; getattr(b, 'build_' + sys.argv[1])(sys.argv[2])"
TIMEOUT_S = 60.0  # the machine may be busy
pytestmark = pytest.mark.timeout(900)  # the first test also builds and installs the wheel
RECOMPILED = ("change_point.", "state_space.")  # kernels that are quickly compiled
EXTRAS = {"prometheus_client", "matplotlib", "pooch", "distributed", "starlette", "amqtt"}


def called(*command, cwd=ROOT, status=0, **environment):
    """Return the output of a command, whose exit status is `status`."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=4 * TIMEOUT_S,
        env=variables(**environment),
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def variables(**environment):
    """Return environment variables, without those that name modules or caches of this checkout."""
    ours = ("PYTHONPATH", "NUMBA_CACHE_DIR")
    return {name: each for name, each in os.environ.items() if name not in ours} | environment


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a directory with the sdist, and the wheel that was built from it."""
    directory = tmp_path_factory.mktemp("dist")
    called(sys.executable, "-c", BUILD, "sdist", directory)
    with tarfile.open(next(directory.glob("*.tar.gz"))) as sdist:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # as of 3.11.4
        sdist.extractall(directory, **safe)
    unpacked = next(directory.glob("edge_tvbo-*/"))
    called(sys.executable, "-c", BUILD, "wheel", directory, cwd=unpacked)
    return directory


@pytest.fixture(scope="module")
def wheel(built):
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """Return the `bin` of a fresh environment with the wheel and its dependencies."""
    fresh = environment_with_pip(tmp_path_factory.mktemp("fresh"))
    add_dependencies(fresh)
    called(fresh / "pip", "install", *PIP, "--no-compile", "--only-binary", ":all:", wheel)
    add_bytecode(fresh)
    return fresh


@pytest.fixture(scope="module")
def ready(fresh):
    """Return the `bin` of the fresh environment, after `precompile` compiled what was missing.

    Most kernels come from the cache of this checkout, where numba compiled them.
    """
    missing = remove(RECOMPILED, add_compiled_kernels(fresh))
    assert "cache: compiled" in called(fresh / "edge-tvbo", "precompile")
    assert all(each.exists() for each in missing)
    return fresh


def remove(modules, files):
    """Remove the files of these modules from numba's cache; return them."""
    removed = [each for each in files if each.name.startswith(modules)]
    for each in removed:
        each.unlink()
    return removed


def example(directory, port, extra=""):
    path = directory / "config.toml"
    path.write_text(EXAMPLE.replace("port = 1883", f"port = {port}", 1) + extra)
    return path


@contextmanager
def running(fresh, path, until="INFO ready", **environment):
    """Run the daemon; yield the list of its log lines, which is complete at the end."""
    log = []
    command = [str(fresh / "edge-tvbo"), "run", str(path)]
    pipes = {"stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, env=variables(**environment)) as process:
        for line in process.stderr:
            log.append(line)
            if until in line:
                break
        try:
            yield log
        finally:
            process.send_signal(signal.SIGTERM)
            log += process.stderr.readlines()
    assert process.returncode == 0, "".join(log)


# --- contents -----------------------------------------------------------------------------------


def test_the_wheel_contains_licence_examples_and_types_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()

    assert wheel.name.endswith("-py3-none-any.whl")
    for ending in ("LICENSE", "edge_tvbo/py.typed", "/config.example.toml", "/edge-tvbo.service"):
        assert [name for name in names if name.endswith(ending)], ending
    assert not [name for name in names if "tests/" in name or "/test_" in name]


def test_the_sdist_contains_the_files_for_tests_and_installation(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}

    assert {
        "LICENSE",
        "README.md",
        "Makefile",
        "deploy/install.sh",
        "tests/support/naive.py",
    } <= names


def test_the_changelog_begins_with_this_version_and_its_upgrade_notes():
    text = (ROOT / "CHANGELOG.md").read_text()
    newest = text.split("\n## ")[1]

    assert newest.startswith(f"{__version__} ")
    assert "\n### Upgrade notes" in newest and "semver.org" in text.split("\n## ")[0]


def test_every_file_names_the_same_version():
    named = {
        "pyproject.toml": f'\nversion = "{__version__}"\n',
        "deploy/docker/compose.yaml": f"image: edge-tvbo:{__version__}\n",
        "deploy/home-assistant-addon/config.yaml": f'version: "{__version__}"\n',
    }

    assert [path for path, text in named.items() if text not in (ROOT / path).read_text()] == []


def test_git_ignores_the_environment_of_the_readme():
    directory = re.search(r"python3 -m venv (\S+)", install_commands())[1]
    names = (ROOT / ".gitignore").read_text().splitlines()

    assert f"{directory}/" in names


# --- without extras -----------------------------------------------------------------------------


def test_the_wheel_alone_installs_no_extra(fresh):
    code = f"from importlib.util import find_spec; print(*filter(find_spec, {sorted(EXTRAS)}))"

    assert called(fresh / "python", "-c", code).split() == []


def test_the_wheel_alone_prints_help_and_checks_a_configuration(ready, tmp_path):
    path = example(tmp_path, 1883)

    assert "Usage: edge-tvbo" in called(ready / "edge-tvbo", "--help")
    assert "good: 1 field, 3 sensors" in called(ready / "edge-tvbo", "check", path)


def test_the_wheel_alone_replays(ready, tmp_path):
    command = [ready / "edge-tvbo", "replay", "--policy", "tv-gp-ucb", "--set", "epsilon=0.05"]

    said = called(*command, "--json", cwd=tmp_path)

    assert '"policy": "tv-gp-ucb"' in said


def test_the_wheel_alone_fits_a_model(ready, tmp_path):
    said = called(ready / "edge-tvbo", "fit", "--train", "2026-03-08:2026-03-09", cwd=tmp_path)

    assert "Wrote model.json" in said


@pytest.mark.broker
def test_the_wheel_alone_decides_on_a_real_broker_and_logs_the_compile_time(ready, tmp_path):
    assert remove("acquisition.", cached(ready))
    with local_broker.start() as broker:
        path = example(tmp_path, broker.port)
        with running(ready, path) as log:
            topic = "edge_tvbo/lab/temperature/selected"
            decision = subscribe.simple(topic, hostname=broker.host, port=broker.port)
    said = "".join(log)

    assert b'"sensor":"mote-' in decision.payload.replace(b" ", b"")
    assert re.search(r"compiled \d+ kernels in \d+ s and cached them", said), said
    assert "edge-tvbo precompile" in said


@pytest.mark.acceptance(1)
@pytest.mark.broker
def test_a_fresh_installation_shows_decisions_with_reasons(ready, tmp_path):
    """Nothing is configured, and not all is compiled; `test_demo` checks the report."""
    assert remove("acquisition.", cached(ready))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command, said = [str(ready / "edge-tvbo"), "demo"], []
    with ExitStack() as stack:
        demo = stack.enter_context(
            subprocess.Popen(command, cwd=tmp_path, env=variables(), **pipes)
        )
        stack.callback(demo.send_signal, signal.SIGINT)
        for line in demo.stdout:
            said.append(line)
            if found := re.match(r"Broker: .* on 127\.0\.0\.1:(\d+)", line):
                peer = Peer(int(found[1]), ["edge_tvbo/#"])
                stack.callback(peer.close)
            if sum("; measured " in each for each in said) >= 5:
                break
        peer.wait(lambda: sum("/selected" in topic for topic, *_ in peer.received) >= 5)

    decisions = [json.loads(payload) for topic, payload, _ in peer.received if "/selected" in topic]
    assert {each["reason"] for each in decisions} <= set(Reason)
    assert all(f"  {each['text']}; " in "".join(said) for each in decisions[:5])


def cached(bin_directory):
    """Return the time of each file of numba's cache in an environment."""
    files = bin_directory.parent.rglob("edge_tvbo/numerics/__pycache__/*.nb?")
    return {each: each.stat().st_mtime_ns for each in files}


def test_after_precompile_the_first_start_compiles_nothing(ready, tmp_path):
    kept = cached(ready)
    compiled = {each.name.partition(".")[0] for each in kept if each.suffix == ".nbi"}
    assert compiled == set(MODULES)  # a field may need any of them

    with running(ready, example(tmp_path, 1)) as log:
        pass

    assert "INFO compiled" not in "".join(log)
    assert cached(ready) == kept
    assert "nothing to do" in called(ready / "edge-tvbo", "precompile")


# --- pipx and uv --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installers(tmp_path_factory):
    """Return a directory with pipx and uv, and the variables with which they change only it."""
    directory = tmp_path_factory.mktemp("installers")
    try:
        called(
            *(sys.executable, "-m", "pip", "install", *PIP, "--no-compile"),
            *("--target", directory, "pipx", "uv"),
        )
    except AssertionError as error:
        pytest.skip(f"pipx and uv cannot be installed here: {error}")
    places = ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR", "PIPX_COMPLETION_DIR", "UV_TOOL_DIR")
    places += ("UV_TOOL_BIN_DIR", "UV_CACHE_DIR", "HOME")
    own = {name: str(directory / name) for name in places}
    own |= {"UV_PYTHON": sys.executable, "UV_SYSTEM_CERTS": "true", "PYTHONPATH": str(directory)}
    own["PIP_COMPILE"] = "0"  # pipx's pip; uv does not compile either
    own["PATH"] = f"{directory}/bin:{os.environ['PATH']}"
    index = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True,
        text=True,
    )
    return own | ({"UV_DEFAULT_INDEX": index.stdout.strip()} if index.returncode == 0 else {})


PIPX = (sys.executable, "-m", "pipx")


@pytest.fixture(scope="module")
def compiled_wheel(library_folder, tmp_path_factory):
    """Return a wheel with compiled kernels, which requires neither numba nor scipy."""
    directory = tmp_path_factory.mktemp("compiled")
    called(sys.executable, "-c", BUILD, "wheel", directory, EDGE_TVBO_KERNELS=str(library_folder))
    return next(directory.glob("*.whl"))


@pytest.mark.parametrize(
    ("install", "programs", "upgrade"),
    [
        ((*PIPX, "install"), "PIPX_BIN_DIR", (*PIPX, "install", "--force")),
        (("uv", "tool", "install"), "UV_TOOL_BIN_DIR", ("uv", "tool", "install", "--reinstall")),
    ],
    ids=["pipx", "uv-tool"],
)
def test_pipx_and_uv_install_the_wheel_and_the_extra_that_the_program_names(
    installers, compiled_wheel, tmp_path, install, programs, upgrade
):
    """No index has edge_tvbo, so the named command must not search one for it."""
    called(*install, compiled_wheel, **installers)
    program = Path(installers[programs], "edge-tvbo")
    python = program.resolve().with_name("python")
    path = example(tmp_path, 1)

    missing = called(program, "dashboard", path, status=2)
    named = re.search(r"Install it with:  (.*)", missing)[1]
    called("sh", "-c", named.replace("pipx ", f"{sys.executable} -m pipx "), **installers)

    assert called(python, "-c", "import starlette, uvicorn") == ""
    called(*upgrade, compiled_wheel, **installers)
    assert "edge-tvbo, version" in called(program, "--version")


def test_uvx_runs_the_wheel_without_installing_it(installers, compiled_wheel, tmp_path):
    command = ("uvx", "--from", compiled_wheel, "edge-tvbo", "check", example(tmp_path, 1))

    said = called(*command, **installers)

    assert "good: 1 field, 3 sensors" in said


# --- missing extras -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("plots", ["experiment", "E2", "--runs", "1", "--jobs", "1"]),
        ("plots", ["fit", "-o", "model.json", "--plot", "model.png"]),
        ("dashboard", ["dashboard", "config.toml"]),
        ("data", ["data", "fetch", "intel-lab"]),
        ("cluster", ["compare", "--cluster", "local", "--policies", "random", "--seeds", "1"]),
    ],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    ready, tmp_path, extra, arguments
):
    example(tmp_path, 1)
    command = [ready / "edge-tvbo", *arguments]

    said = called(*command, cwd=tmp_path, status=2)

    assert f"Install it with:  {ready}/pip install 'edge-tvbo[{extra}]'\n" in said
    assert "Traceback" not in said


def test_check_and_the_daemon_name_the_metrics_extra_and_the_daemon_decides_without(
    ready, tmp_path
):
    path = example(tmp_path, 1, f"\n[metrics]\nport = {free_port()}\n")
    line = path.read_text().splitlines().index("[metrics]") + 2
    said = called(ready / "edge-tvbo", "check", path, status=2)
    assert f"config.toml:{line}:1: metrics.port cannot be used: The package" in said
    assert f"{ready}/pip install 'edge-tvbo[metrics]' [E500]" in said

    with running(ready, path, until="no reading since the start") as log:
        pass

    assert f"{ready}/pip install 'edge-tvbo[metrics]'" in "".join(log)


def test_a_demo_without_a_broker_names_the_extra_with_the_search_for_mosquitto_faked(
    ready, tmp_path
):
    """Mosquitto is installed where these tests run, in a directory that is always searched."""
    hidden = (
        "import shutil; shutil.which = lambda *_, **__: None; "
        "from edge_tvbo.cli import main; main(['demo'])"
    )

    said = called(ready / "python", "-c", hidden, cwd=tmp_path, status=2)

    assert f"{ready}/pip install 'edge-tvbo[broker]'" in said


def test_the_named_command_installs_the_extra_without_searching_an_index_for_edge_tvbo(fresh):
    command = [fresh / "pip", "install", "--dry-run", "--disable-pip-version-check"]

    said = called(*command, "edge-tvbo[metrics]")

    would = re.search("Would install (.*)", said)[1]
    assert "prometheus" in would and "edge-tvbo" not in would.replace("_", "-")
