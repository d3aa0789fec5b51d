"""The documents' commands are run, and what they name exists."""

import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edge_tvbo.config import explain
from edge_tvbo.policies import policies

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^    (\S.*)$", README, flags=re.MULTILINE)
COMMANDS = [line for line in BLOCKS if line.startswith("edge-tvbo ")]


def program(line):
    words = shlex.split(line)[1:]
    words = [str(SHARED) if word == "../shared/data" else word for word in words]
    return [sys.executable, "-m", "edge_tvbo", *words]


def test_the_first_two_commands_are_make_demo_and_make_test():
    assert BLOCKS[:2] == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{name}:", makefile, re.MULTILINE) for name in ("demo", "test"))


def test_ci_runs_make_test_and_nothing_else():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()

    assert [line for line in lines if "make" in line] == ["exec make test"]


def test_the_readmes_commands_run_in_their_order(tmp_path):
    assert len(COMMANDS) >= 7
    for line in COMMANDS:
        if "../shared/data" in line and not SHARED.is_dir():
            continue
        command = program(line)
        if " run " in line:
            assert daemon_stops_politely(command, tmp_path), line
            continue
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def daemon_stops_politely(command, directory):
    with subprocess.Popen(command, cwd=directory, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if "ready" in line:
                break
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        return process.wait(timeout=10) == 0


def test_the_readmes_python_runs():
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)

    exec(compile(block, "README.md", "exec"), {})


def test_the_readme_compares_every_policy():
    assert [name for name in policies() if f"`{name}`" not in README] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))

    assert [each for each in targets if not (page.parent / each).exists()] == []


def test_the_example_configuration_mentions_only_settings_that_exist():
    keys = set(
        re.findall(
            r"^#? ?([a-z_]+) = ",
            (ROOT / "deploy" / "config.example.toml").read_text(),
            re.MULTILINE,
        )
    )

    assert [key for key in keys if key not in explain()] == []
