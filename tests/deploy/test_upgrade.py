"""An upgrade restarts the daemon only if the new version accepts the configuration."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from support.gateway import Gateway
from support.kernels import VARIABLE
from support.paths import DEPLOY, ROOT

from edge_tvbo.cli.output import EX_USAGE

POSTINST = (DEPLOY / "debian" / "postinst").read_text()
INSTALL = (DEPLOY / "install.sh").read_text()
UPGRADES = {  # the text of a script that upgrades, and its arguments
    "package": (POSTINST, ["postinst", "configure", "0.1.0"]),
    "abort-upgrade": (POSTINST, ["postinst", "abort-upgrade", "1.0.0"]),
    "install.sh": (INSTALL.partition("# --- the command line")[0] + "restart", ["install.sh"]),
}
FINDING = "config.toml:3:1: the password is 'two words' [E105]"


@contextmanager
def running(config):
    """Run a process in place of the daemon, with a variable that the unit sets."""
    command, variables = [sys.executable, "-c", "input()", config], {"MQTT_PASSWORD": "two words"}
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def process(tmp_path):
    with running(tmp_path / "etc/edge-tvbo/config.toml") as process:
        yield process


def upgrade(directory, name, *, pid, check, restart=0, broken=None):
    """Run the script `name`; return its output, its status and what it let systemd restart.

    `check` and `restart` are the exit statuses of the new version's check and of the restart;
    `broken` are programs that replace the others.
    """
    text, words = UPGRADES[name]
    called = directory / "called"
    called.touch()
    (directory / "run/systemd/system").mkdir(parents=True)
    finding = "config.toml:3:1: the password is '$MQTT_PASSWORD' [E105]"
    checking = f'echo "{finding}" >&2; exit {check}'
    log = f'echo "${{0##*/}} $*" >>{called}'
    programs = {
        "opt/edge-tvbo/bin/edge-tvbo": checking,
        "usr/bin/edge-tvbo": checking,
        "bin/systemctl": f'if [ "$1" = show ]; then echo {pid}; else {log}; exit {restart}; fi',
        "bin/deb-systemd-invoke": f"{log}; exit {restart}",
        "bin/nsenter": f"{log}; env >>{called}; "
        'while [ "${1##*/}" != python3 ]; do shift; done; exec "$@"',
    }
    python = f'{log}; exec {sys.executable} "$@"'
    programs |= {"opt/edge-tvbo/bin/python3": python, "usr/bin/python3": python}
    others = ("adduser", "install", "py3compile", "deb-systemd-helper")
    programs |= {f"bin/{each}": "exit 0" for each in others} | (broken or {})
    for place, program in programs.items():
        (directory / place).parent.mkdir(parents=True, exist_ok=True)
        (directory / place).write_text(f"#!/bin/sh\n{program}\n")
        (directory / place).chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", re.sub(r"(?<=[ =])/(?=(etc|opt|usr|run)/)", f"{directory}/", text), *words],
        env={"PATH": f"{directory}/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    lines = called.read_text().splitlines()
    return done.stdout + done.stderr, done.returncode, [each for each in lines if "restart" in each]


@pytest.mark.parametrize("name", UPGRADES)
def test_a_daemon_whose_configuration_is_accepted_is_restarted(name, process, tmp_path):
    text, status, restarts = upgrade(tmp_path, name, pid=process.pid, check=0)

    assert (status, len(restarts)) == (0, 1)
    assert "not restarted" not in text


@pytest.mark.parametrize("name", UPGRADES)
def test_a_daemon_whose_configuration_is_invalid_now_runs_on(name, process, tmp_path):
    """The check has the environment of the daemon, in which a variable of the file may be set."""
    text, status, restarts = upgrade(tmp_path, name, pid=process.pid, check=EX_USAGE)

    assert restarts == []
    assert FINDING in text
    assert "edge-tvbo/config.toml, so the daemon was not restarted.\n" in text
    assert text.endswith("Fix the file, and run  systemctl restart edge-tvbo\n")
    assert "new version" not in text.lower()  # after abort-upgrade, the old version is installed
    # apt would call the package broken; a script that runs install.sh has to notice
    assert status == (1 if name == "install.sh" else 0)


@pytest.mark.parametrize("name", UPGRADES)
def test_only_the_user_of_the_daemon_sees_the_variables_of_the_daemon(name, process, tmp_path):
    """Each user can read the arguments of a program; a daemon can change its own variables."""
    upgrade(tmp_path, name, pid=process.pid, check=0)

    called = (tmp_path / "called").read_text()
    assert f"nsenter --target {process.pid} --mount setpriv --reuid=edge-tvbo " in called
    assert "MQTT_PASSWORD" not in called
    assert "two words" not in called


@pytest.mark.parametrize("name", UPGRADES)
@pytest.mark.parametrize(
    ("check", "broken"),
    [
        ("1", {}),
        ("$(kill -9 $$)", {}),
        ("2", {"bin/nsenter": "exit 1"}),
        ("2", {"bin/cat": "exit 1"}),  # the environment is not readable
    ],
    ids=["traceback", "killed", "no nsenter", "no environment"],
)
def test_a_check_that_cannot_run_does_not_prevent_the_restart(
    name, check, broken, process, tmp_path
):
    text, status, restarts = upgrade(tmp_path, name, pid=process.pid, check=check, broken=broken)

    assert (status, len(restarts)) == (0, 1)
    assert re.search(r"could not be checked \(status \d+\); the daemon is restarted\n", text)
    assert "not accept" not in text


@pytest.mark.parametrize("name", UPGRADES)
def test_a_daemon_with_another_file_is_restarted(name, tmp_path):
    """`systemctl edit` can change the path."""
    with running(tmp_path / "other.toml") as process:
        text, status, restarts = upgrade(tmp_path, name, pid=process.pid, check=EX_USAGE)

    assert (status, len(restarts)) == (0, 1)
    assert "could not be checked (status " in text


def test_both_scripts_check_in_the_same_way():
    pattern = re.compile(r"^# Run the check .*?^}$", re.MULTILINE | re.DOTALL)

    assert pattern.findall(POSTINST) == pattern.findall(INSTALL) != []


@pytest.mark.parametrize("name", UPGRADES)
def test_without_a_running_daemon_nothing_is_checked(name, tmp_path):
    text, status, restarts = upgrade(tmp_path, name, pid=0, check=EX_USAGE)

    assert (status, len(restarts)) == (0, 1)
    assert FINDING not in text


def test_a_package_says_that_the_service_does_not_start(tmp_path):
    text, status, _ = upgrade(tmp_path, "package", pid=0, check=0, restart=1)

    assert status == 0
    assert "the service does not start" in text


@pytest.mark.broker
def test_a_running_daemon_runs_on_without_its_files(tmp_path, mosquitto, peer, library_folder):
    """The upgrade replaces the files, and the old version may run on for days."""
    copy, broker = tmp_path / "old", mosquitto()
    for each in ("edge_tvbo", "adapters"):
        shutil.copytree(ROOT / each, copy / each, ignore=shutil.ignore_patterns("__pycache__"))
    broker.start()
    gateway = Gateway(tmp_path, broker.port, peer)
    gateway.configure(extra="[homeassistant]\n")
    changes = {
        "PYTHONPATH": f"{copy}:{copy}/adapters",
        "PYTHONDONTWRITEBYTECODE": "",
        VARIABLE: str(library_folder),
    }
    gateway.start(by=(sys.executable, "-P", "-m", "edge_tvbo"), env=os.environ | changes)
    try:
        gateway.wait_for_activations()
        assert (copy / "edge_tvbo/daemon/__pycache__").exists(), "it runs from another place"
        shutil.rmtree(copy)

        gateway.wait_for_activations()
        gateway.wait_for_checkpoint()
        gateway.process.send_signal(signal.SIGUSR1)
        gateway.wait_for_log("policy tv-gp-ucb with ")
        broker.stop()
        gateway.wait_for_log("[E402]")
        broker.start()
        gateway.wait_for_activations()
        gateway.stop()
    finally:
        gateway.close()
    assert "Traceback" not in gateway.log_text()
    assert gateway.log_text().count("INFO ready") == 1
