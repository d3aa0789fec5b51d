"""Kernels compiled ahead of time give the same numbers, and a stale library is not used."""

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from paho.mqtt import subscribe
from support.paths import ROOT

from edge_tvbo.numerics import compiled

RUNS = """
import hashlib, json, sys
import numpy as np
from edge_tvbo import SensorField, make_policy, policies
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.numerics import jit, structural
from edge_tvbo.policy import needing_positions

def filter_training():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(40, 3))
    rows[[5, 6, 20]] = np.nan
    loads, eigenvalues = rng.normal(size=(40, 2)), np.array([0.2, 0.8, 2.0])
    m, P = np.zeros((3, 2)), np.zeros((3, 2, 2))
    score = structural.filter_training(
        rows, eigenvalues, np.array([0.5, 0.4]), np.array([0.9, 0.5]), 0.1, loads, 4, m, P
    )
    return [score, m.tolist(), P.tolist()]

def run(name, sensors, interval=None):
    rng = np.random.default_rng(sensors)
    X = rng.normal(size=(sensors, 2))
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1))
    structure = interval and prior_structure(K, interval)
    field = SensorField(tuple(f"s{i}" for i in range(sensors)), K, 0.01, structure=structure)
    policy = make_policy(name, field, seed=3)
    for _ in range(120):
        choice = policy.select()
        policy.observe(choice.arm, float(rng.normal()))
        policy.observe(int(rng.integers(sensors)), float(rng.normal()))
        policy.advance()
    return hashlib.sha256(policy.snapshot()).hexdigest()

names = [name for name in policies() if name not in needing_positions()]
print(json.dumps({
    "compilation": jit.COMPILATION,
    "numba": "numba" in sys.modules,
    "snapshots": {f"{name} {n}": run(name, n) for name in names for n in (1, 5, 46)},
    "many": run("tv-gp-ucb", 600),
    "structural": run("auto", 46, 600.0),
    "low rank": run("auto", 501, 600.0),
    "training": filter_training(),
}))
"""

ON_A_FULL_DISK = """
import resource

resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
from edge_tvbo.numerics import jit

double = jit.kernel("f8(f8)")(lambda x: 2.0 * x)
print(double(2.0), len(jit.uncached_kernels))
"""

CONFIG = """
instance = "ahead"
mqtt = {{ port = {port} }}

[fields.lab]
sensors = ["a", "b", "c"]
interval = "1s"
reply_timeout = "500ms"
policy = {{ name = "auto" }}
kernel = {{ name = "exchangeable", correlation = 0.5, mean = 20, variance = 4, noise_variance = 1 }}
reading = {{ topic = "s/{{sensor}}" }}
activate = {{ mode = "live", topic = "s/{{sensor}}/go" }}
"""


def environment_with(kernels):
    return {**os.environ, "EDGE_TVBO_KERNELS": str(kernels), "NUMBA_DISABLE_JIT": "0"}


def run_policies(kernels):
    """Run every policy in another process; return digests of their snapshots, and a fit's state."""
    environment = environment_with(kernels)
    command = [sys.executable, "-c", RUNS]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_compiled_kernels_give_equal_snapshots_without_numba(library_folder):
    ahead, just_in_time = run_policies(library_folder), run_policies("jit")
    assert ahead.pop("compilation") == "ahead of time"
    assert just_in_time.pop("compilation") == "just in time"
    assert not ahead.pop("numba")
    assert just_in_time.pop("numba")
    assert len(ahead["snapshots"]) > 30
    assert ahead == just_in_time


def test_a_kernel_that_cannot_be_stored_on_a_full_disk_is_compiled(tmp_path):
    program = tmp_path / "program.py"  # numba caches only functions of files
    program.write_text(ON_A_FULL_DISK)
    environment = environment_with("jit") | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-B", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert (done.stdout, done.stderr) == ("4.0 1\n", "")


def test_a_library_of_another_source_is_not_loaded(library_folder, monkeypatch):
    assert compiled.load_library(library_folder) is not None
    monkeypatch.setattr(compiled, "source_fingerprint", lambda: 7)
    assert compiled.load_library(library_folder) is None


def test_a_missing_or_broken_library_is_not_loaded(tmp_path, library_folder):
    assert compiled.load_library(tmp_path) is None
    (name,) = (path.name for path in library_folder.iterdir())
    (tmp_path / name).write_bytes(b"not a library")
    assert compiled.load_library(tmp_path) is None


def test_an_edit_of_a_kernel_changes_the_fingerprint(tmp_path, monkeypatch):
    before = compiled.source_fingerprint()
    for path in Path(compiled.__file__).parent.glob("*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "library.py"))
    assert compiled.source_fingerprint() == before
    with (tmp_path / "window.py").open("a") as file:
        file.write("\n")
    assert compiled.source_fingerprint() != before


@pytest.fixture(scope="module")
def wheel(library_folder, tmp_path_factory):
    """Return a wheel with the library, built from a copy of this checkout."""
    directory = tmp_path_factory.mktemp("wheel")
    source = directory / "source"
    ignored = shutil.ignore_patterns(".*", "*.so", "__pycache__", "*-out", "build", "dist")
    shutil.copytree(ROOT, source, ignore=ignored)
    return built_wheel(source, directory, library_folder)


def built_wheel(source, directory, kernels):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    environment = environment_with(kernels)
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    (wheel,) = directory.glob("*.whl")
    return wheel


def test_a_wheel_contains_the_library_and_names_its_platform(wheel, tmp_path):
    version = "".join(map(str, sys.version_info[:2]))
    machine = os.uname().machine
    assert re.fullmatch(
        rf"edge_tvbo-[\d.]+-cp{version}-cp{version}-manylinux_2_\d+_{machine}.whl", wheel.name
    )
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "installed")
    code = "from edge_tvbo.numerics import jit; print(jit.COMPILATION, jit.__file__)"
    environment = {**environment_with(""), "PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(f"ahead of time {tmp_path}/installed/")


def test_the_wheel_tag_follows_from_name_and_symbols_of_library(tmp_path):
    spec = spec_from_file_location("hook", ROOT / "deploy" / "hatch_build.py")
    hook = module_from_spec(spec)
    spec.loader.exec_module(hook)
    compiled = tmp_path / "_compiled.cpython-313-aarch64-linux-gnu.so"
    compiled.write_bytes(b"..GLIBC_2.17\0GLIBC_2.29\0GLIBC_2.4\0")
    assert hook.tag(compiled) == "cp313-cp313-manylinux_2_29_aarch64"
    compiled.write_bytes(b"no symbols")
    assert hook.tag(compiled) == "cp313-cp313-manylinux_2_17_aarch64"
    with pytest.raises(ValueError, match="is not a Linux library"):
        hook.tag(tmp_path / "_compiled.pyd")


def test_a_wheel_with_the_library_requires_neither_numba_nor_scipy(wheel, tmp_path):
    compiled, plain = requirements(wheel), requirements(built_wheel(ROOT, tmp_path, ""))

    assert plain - compiled == {"numba", "scipy"}
    assert compiled < plain


def requirements(wheel):
    """Return the names of the packages that a wheel requires."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = (each for each in file.namelist() if each.endswith("METADATA"))
        lines = file.read(name).decode().splitlines()
    found = [re.match(r"Requires-Dist: ([\w-]+)[^;]*$", line) for line in lines]
    return {each[1] for each in found if each}


def deny_write_execute():
    """Deny memory that is written and then executed, as the systemd unit does, if Linux can."""
    ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN; Linux 6.3


def test_a_daemon_runs_with_the_library_and_without_numba(library_folder, broker, tmp_path):
    config = tmp_path / "edge.toml"
    config.write_text(CONFIG.format(port=broker.port))
    environment = environment_with(library_folder)
    command = [sys.executable, "-m", "edge_tvbo", "run", str(config)]
    with subprocess.Popen(
        command,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=deny_write_execute,
    ) as daemon:
        try:
            ready = next((line for line in daemon.stderr if "ready:" in line), "")
            assert "kernels compiled ahead of time" in ready
            topics = ["edge_tvbo/ahead/lab/selected", "edge_tvbo/ahead/health"]
            received = subscribe.simple(topics, msg_count=2, port=broker.port, keepalive=10)
            maps = Path(f"/proc/{daemon.pid}/maps").read_text()
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.stderr.read()  # to its end: a log that is not read gives exit status 120
    assert {message.topic for message in received} == set(topics)
    health = next(json.loads(each.payload) for each in received if each.topic.endswith("health"))
    assert health["kernels"] == "ahead of time"
    assert "_compiled.cpython" in maps and "llvmlite" not in maps
    assert daemon.returncode == 0
