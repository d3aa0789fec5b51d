"""Backups: the commands of docs/install.md, carried out on a real daemon."""

import os
import re
import shutil
import signal
import subprocess
from contextlib import closing

import pytest
from edge_tvbo_adapters.storage.history_reader import HistoryReader
from edge_tvbo_adapters.storage.reading_db import read_readings
from support.gateway import Gateway
from support.pages import sections
from support.paths import ROOT

from edge_tvbo.errors import DataError

TITLE = "Back up, and move to another gateway"
SECTION = sections((ROOT / "docs" / "install.md").read_text("utf-8"), 2)[TITLE]
BLOCKS = [each.split("\n") for each in re.findall(r"(?<=\n\n)    .*(?:\n    .*)*", SECTION)]
BACK_UP, RESTORE, PACK, UNPACK = BLOCKS
DIRECTORIES = ("etc/edge-tvbo", "var/lib/edge-tvbo")


class Machine(Gateway):
    """A gateway with the directories of the service, below a directory of its own."""

    def __init__(self, root, port, peer):
        for each in DIRECTORIES:
            (root / each).mkdir(parents=True)
        self.root, self.directory = root, root / DIRECTORIES[1]
        super().__init__(root / DIRECTORIES[0], port, peer, "edge")
        self.state, self.log = self.directory / "edge.state", root / "log"

    def configure(self, **changes):
        super().configure(dir=f'{self.directory}"\nhistory = "16MiB', **changes)

    def rename(self, name):
        """Change the name of the instance, but not the topics of the sensors."""
        text = self.config.read_text()
        self.config.write_text(text.replace('instance = "edge"', f'instance = "{name}"'))
        self.state, self.name = self.directory / f"{name}.state", name

    def carry_out(self, commands, directory):
        """Run commands of the page, but those of systemd, in a directory of all machines."""
        user, group = os.getuid(), os.getgid()
        for command in commands:
            if "systemctl" not in command:
                here = command.replace(" edge-tvbo: ", f" {user}:{group} ")
                here = here.replace("-o edge-tvbo -g edge-tvbo", f"-o {user} -g {group}")
                here = here.replace("-C /", f"-C {self.root}")
                here = re.sub(r" /(?=etc/|var/)", f" {self.root}/", here)
                subprocess.run(here, shell=True, check=True, cwd=directory)

    def intervals(self):
        """Return the first and the last number in the history."""
        with closing(HistoryReader(str(self.directory), self.name)) as history:
            return history.span("lab")

    def readings(self):
        """Return the times of the recorded readings."""
        return list(read_readings(str(self.directory), self.name, "lab").at)

    def has_stored(self):
        """Return whether both databases contain something, which is stored after the state."""
        try:
            return self.intervals() is not None and bool(self.readings())
        except DataError:
            return False


@pytest.fixture
def machine(tmp_path, mosquitto, peer):
    """Return a function that makes machines by name, each with its own broker."""
    made = []

    def make(name):
        broker = mosquitto()
        broker.start()
        made.append(Machine(tmp_path / name, broker.port, peer))
        return made[-1]

    yield make
    for each in made:
        each.close()


def assert_continues(new, old):
    """Start `new`; the numbers, the model and both databases continue those of `old`."""
    first, *_ = old.readings()
    new.start()
    new.wait_for_activations()
    new.stop()
    new.wait_for_sensors()
    log = new.log_text()
    assert "state: restored from" in log.splitlines()[0]
    assert re.search(r"1 field, [1-9]\d* readings? in their models", log)
    assert "ERROR" not in log
    assert new.intervals() == (0, new.activations[-1][0])
    assert new.readings()[0] == first
    old.activations += new.activations
    old.assert_never_twice()


@pytest.mark.skipif(not shutil.which("sqlite3"), reason="sqlite3 is not installed")
def test_a_backup_of_a_running_daemon_is_restored_on_another_gateway(machine, tmp_path):
    old, new = machine("old"), machine("new")
    old.start()
    old.wait_for_checkpoint()
    old.wait(old.has_stored)
    old.carry_out(BACK_UP, tmp_path)
    old.wait_for_activations()
    old.kill()
    new.carry_out(RESTORE, tmp_path)
    assert new.config.read_text() == old.config.read_text()
    new.configure()
    assert_continues(new, old)


def test_a_daemon_is_moved_to_another_gateway(machine, tmp_path):
    old, new = machine("old"), machine("new")
    old.start()
    old.wait_for_activations()
    old.stop()
    old.carry_out(PACK, tmp_path)
    new.carry_out(UNPACK, tmp_path)
    assert new.config.read_text() == old.config.read_text()
    new.configure()
    assert_continues(new, old)


def test_another_instance_continues_after_its_files_are_renamed(machine):
    old, new = machine("old"), machine("new")
    old.start()
    old.wait_for_activations()
    old.stop()
    assert old.stored_state().final
    shutil.copytree(old.directory, new.directory, dirs_exist_ok=True)
    new.rename("hall")
    for path in new.directory.glob("edge.*"):
        path.replace(path.with_name(path.name.replace("edge", "hall")))
    assert_continues(new, old)


@pytest.mark.parametrize("change", ["instance", "directory"])
def test_a_reload_that_leaves_the_databases_behind_says_how_to_continue_them(machine, change):
    gateway = machine("old")
    gateway.start()
    gateway.wait_for_activations()
    first = gateway.directory / "edge"
    if change == "instance":
        gateway.rename("hall")
    else:
        gateway.directory = gateway.root / "disk"
        gateway.configure()
    now = gateway.directory / gateway.name
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait_for_log("reload: done", f"{first}.*.db are no longer used, and {now}.*.db are new")
    gateway.wait_for_activations()
    gateway.stop()
    assert gateway.intervals()[0] > 0
    for path in first.parent.glob("edge.*.db"):
        path.replace(gateway.directory / path.name.replace("edge", gateway.name))
    assert gateway.intervals()[0] == 0
    gateway.assert_never_twice()
