"""The kernels compiled ahead of time: the same numbers without numba, and never the wrong ones."""

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

LIVES = """
import hashlib, json, sys
import numpy as np
from edge_tvbo import SensorField, make_policy, policies
from edge_tvbo.numerics import jit
from edge_tvbo.policy import needing_positions

def life(name, sensors):
    chance = np.random.default_rng(sensors)
    X = chance.normal(size=(sensors, 2))
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1))
    field = SensorField(tuple(f"s{i}" for i in range(sensors)), K, 0.01)
    policy = make_policy(name, field, seed=3)
    for _ in range(120):
        choice = policy.select()
        policy.observe(choice.arm, float(chance.normal()))
        policy.observe(int(chance.integers(sensors)), float(chance.normal()))
        policy.advance()
    return hashlib.sha256(policy.snapshot()).hexdigest()

names = [name for name in policies() if name not in needing_positions()]
print(json.dumps({
    "kind": jit.KIND,
    "numba": "numba" in sys.modules,
    "lives": {f"{name} {n}": life(name, n) for name in names for n in (1, 5, 46)},
    "many": life("tv-gp-ucb", 600),
}))
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


def lives(kernels):
    environment = {**os.environ, "EDGE_TVBO_KERNELS": str(kernels)}
    command = [sys.executable, "-c", LIVES]
    done = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, timeout=200
    )
    return json.loads(done.stdout)


def test_every_policy_lives_the_same_life_to_the_last_bit_and_without_numba(built):
    ahead, just_in_time = lives(built), lives("jit")
    assert ahead["kind"] == "ahead of time"
    assert just_in_time["kind"] == "just in time"
    assert not ahead["numba"]
    assert len(ahead["lives"]) > 30
    assert ahead["lives"] == just_in_time["lives"]
    assert ahead["many"] == just_in_time["many"]


def test_a_library_of_another_source_is_left_alone(built, monkeypatch):
    assert compiled.load(built) is not None
    monkeypatch.setattr(compiled, "fingerprint", lambda: 7)
    assert compiled.load(built) is None


def test_what_is_no_library_is_left_alone(tmp_path, built):
    assert compiled.load(tmp_path) is None
    (name,) = (path.name for path in built.iterdir())
    (tmp_path / name).write_bytes(b"no library at all")
    assert compiled.load(tmp_path) is None


def test_an_edit_of_a_kernel_changes_the_fingerprint(tmp_path, monkeypatch):
    before = compiled.fingerprint()
    for path in Path(compiled.__file__).parent.glob("*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "library.py"))
    assert compiled.fingerprint() == before
    with (tmp_path / "window.py").open("a") as file:
        file.write("\n")
    assert compiled.fingerprint() != before


def test_a_wheel_carries_it_and_says_for_which_machines(built, tmp_path):
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns(".*", "*.so", "__pycache__", "*-out", "build", "dist")
    shutil.copytree(ROOT, source, ignore=ignored)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    environment = {**os.environ, "EDGE_TVBO_KERNELS": str(built)}
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    version = "".join(map(str, sys.version_info[:2]))
    machine = os.uname().machine
    assert re.fullmatch(
        rf"edge_tvbo-[\d.]+-cp{version}-cp{version}-manylinux_2_\d+_{machine}.whl", wheel.name
    )
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "installed")
    code = "from edge_tvbo.numerics import jit; print(jit.KIND, jit.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(f"ahead of time {tmp_path}/installed/")


def test_the_wheels_tag_follows_from_the_librarys_name_and_what_it_calls(tmp_path):
    spec = spec_from_file_location("hook", ROOT / "deploy" / "hatch_build.py")
    hook = module_from_spec(spec)
    spec.loader.exec_module(hook)
    compiled = tmp_path / "_compiled.cpython-313-aarch64-linux-gnu.so"
    compiled.write_bytes(b"..GLIBC_2.17\0GLIBC_2.29\0GLIBC_2.4\0")
    assert hook.tag(compiled) == "cp313-cp313-manylinux_2_29_aarch64"
    compiled.write_bytes(b"calls nothing")
    assert hook.tag(compiled) == "cp313-cp313-manylinux_2_17_aarch64"
    with pytest.raises(ValueError, match="is no library"):
        hook.tag(tmp_path / "_compiled.pyd")


def deny_write_execute():
    """Refuse memory that is written and then executed, as the unit's line does, where Linux can."""
    ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN; Linux 6.3


@pytest.mark.broker
def test_a_daemon_decides_with_it_without_numba_and_says_so(built, broker, tmp_path):
    config = tmp_path / "edge.toml"
    config.write_text(CONFIG.format(port=broker.port))
    environment = {**os.environ, "EDGE_TVBO_KERNELS": str(built)}
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
            heard = subscribe.simple(topics, msg_count=2, port=broker.port, keepalive=10)
            maps = Path(f"/proc/{daemon.pid}/maps").read_text()
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.stderr.read()  # to its end: a log that nobody takes is an exit status of 120
    assert {message.topic for message in heard} == set(topics)
    health = next(json.loads(each.payload) for each in heard if each.topic.endswith("health"))
    assert health["kernels"] == "ahead of time"
    assert "_compiled.cpython" in maps and "llvmlite" not in maps
    assert daemon.returncode == 0
