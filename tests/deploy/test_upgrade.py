"""An upgrade restarts the daemon only if the new version accepts the configuration."""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from support.gateway import Gateway
from support.kernels import VARIABLE
from support.paths import DEPLOY, ROOT

POSTINST = (DEPLOY / "debian" / "postinst").read_text()
INSTALL = (DEPLOY / "install.sh").read_text()
UPGRADES = {  # the text of a script that upgrades, and its arguments
    "package": (POSTINST, ["postinst", "configure", "0.1.0"]),
    "install.sh": (INSTALL.partition("# --- the command line")[0] + "restart", ["install.sh"]),
}
FINDING = "config.toml:3:1: the password is 'two words' [E105]"


@pytest.fixture
def process():
    """Return a process in place of the running daemon, with a variable that the unit sets."""
    with subprocess.Popen(["sleep", "1000"], env={"MQTT_PASSWORD": "two words"}) as running:
        yield running
        running.kill()


def upgrade(directory, name, *, pid, check, restart=0):
    """Run the script `name`; return its output, its status and what it let systemd restart.

    `check` and `restart` are the exit statuses of the new version's check and of the restart.
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
        "bin/nsenter": f'{log}; while [ "$1" != env ]; do shift; done; exec "$@"',
    }
    others = ("adduser", "install", "py3compile", "deb-systemd-helper")
    programs |= {f"bin/{each}": "exit 0" for each in others}
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
def test_a_daemon_whose_configuration_is_invalid_now_runs_on_as_the_old_version(
    name, process, tmp_path
):
    """The check has the environment of the daemon, in which a variable of the file may be set."""
    text, status, restarts = upgrade(tmp_path, name, pid=process.pid, check=2)

    assert restarts == []
    assert FINDING in text
    assert "edge-tvbo/config.toml, so the daemon was not restarted.\n" in text
    assert " && systemctl restart edge-tvbo\n" in text
    # apt would call the package broken; a script that runs install.sh has to notice
    assert status == {"package": 0, "install.sh": 1}[name]
    (entered,) = (
        line for line in (tmp_path / "called").read_text().splitlines() if "nsenter" in line
    )
    assert f"--target {process.pid} --mount setpriv --reuid=edge-tvbo " in entered


@pytest.mark.parametrize("name", UPGRADES)
def test_without_a_running_daemon_nothing_is_checked(name, tmp_path):
    text, status, restarts = upgrade(tmp_path, name, pid=0, check=2)

    assert (status, len(restarts)) == (0, 1)
    assert FINDING not in text


def test_a_package_says_that_the_service_does_not_start(tmp_path):
    text, status, _ = upgrade(tmp_path, "package", pid=0, check=0, restart=1)

    assert status == 0
    assert "the service does not start" in text


@pytest.mark.broker
def test_a_running_daemon_needs_its_files_no_more(tmp_path, mosquitto, peer, library_folder):
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
