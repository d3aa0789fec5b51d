import json
import os
import shutil
import subprocess
import sys

import pytest

from edge_tvbo.numerics import library

LIVES = """
import hashlib, json, sys
import numpy as np
from edge_tvbo import SensorField, make_policy, policies
from edge_tvbo.numerics import jit
from edge_tvbo.policies import needing_positions

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
}))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler (cc) to link with; apt install gcc")
    directory = tmp_path_factory.mktemp("library")
    command = [sys.executable, "-m", "edge_tvbo.numerics.build", str(directory)]
    subprocess.run(command, check=True, capture_output=True, timeout=200)
    return directory


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


def test_a_library_of_another_source_is_left_alone(built, monkeypatch):
    assert library.load(built) is not None
    monkeypatch.setattr(library, "fingerprint", lambda: 7)
    assert library.load(built) is None


def test_what_is_no_library_is_left_alone(tmp_path, built):
    assert library.load(tmp_path) is None
    (name,) = (path.name for path in built.iterdir())
    (tmp_path / name).write_bytes(b"no library at all")
    assert library.load(tmp_path) is None


def test_an_edit_of_a_kernel_changes_the_fingerprint(tmp_path, monkeypatch):
    from pathlib import Path

    before = library.fingerprint()
    for path in Path(library.__file__).parent.glob("*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    assert library.fingerprint() == before
    with (tmp_path / "window.py").open("a") as file:
        file.write("\n")
    assert library.fingerprint() != before
