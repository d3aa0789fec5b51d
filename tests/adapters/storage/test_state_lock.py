"""State lock: one daemon at a time, whose process id a second daemon reports."""

import os
import shutil
import subprocess
import sys
from contextlib import closing

import pytest
from edge_tvbo_adapters.storage.state_lock import StateLock

from edge_tvbo.errors import StateInUse

HOLDER = """\
import sys
from edge_tvbo_adapters.storage.state_lock import StateLock
lock = StateLock()
lock.hold(sys.argv[1], "lab")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lock():
    """Yield a lock that holds nothing yet."""
    with closing(StateLock()) as made:
        yield made


@pytest.fixture
def holder(tmp_path):
    """Yield a process that holds the lock of the instance lab."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_the_error_names_the_other_process_the_directory_and_what_to_do(lock, holder, tmp_path):
    with pytest.raises(StateInUse) as caught:
        lock.hold(str(tmp_path), "lab")
    text = caught.value.with_code()
    assert f"process {holder.pid}" in text
    assert str(tmp_path) in text
    assert "'lab'" in text
    assert "another `instance`" in text
    assert text.endswith("[E111]")


def test_another_instance_in_the_same_directory_is_not_locked(lock, holder, tmp_path):
    lock.hold(str(tmp_path), "attic")


def test_the_lock_of_a_killed_process_is_no_obstacle(lock, holder, tmp_path):
    holder.kill()
    holder.wait()
    lock.hold(str(tmp_path), "lab")
    assert (tmp_path / "lab.lock").read_text() == f"{os.getpid()}\n"


def test_the_same_state_under_another_path_stays_locked(lock, tmp_path):
    lock.hold(str(tmp_path), "lab")
    lock.hold(f"{tmp_path}/./", "lab")
    with closing(StateLock()) as other, pytest.raises(StateInUse):
        other.hold(str(tmp_path), "lab")


def test_a_state_that_is_in_use_leaves_the_former_lock(lock, holder, tmp_path):
    former = str(tmp_path / "former")
    lock.hold(former, "lab")
    with pytest.raises(StateInUse):
        lock.hold(str(tmp_path), "lab")
    with closing(StateLock()) as other, pytest.raises(StateInUse):
        other.hold(former, "lab")


def test_a_change_of_the_state_releases_the_former_lock(lock, tmp_path):
    lock.hold(str(tmp_path / "former"), "lab")
    lock.hold("", "lab")
    with closing(StateLock()) as other:
        other.hold(str(tmp_path / "former"), "lab")


def test_a_lock_file_that_is_still_there_is_not_locked_again(lock, tmp_path, caplog):
    for _ in range(2):
        assert not lock.hold(str(tmp_path), "lab")
    assert caplog.messages == []


@pytest.mark.parametrize("whole", [True, False])
def test_a_removed_lock_file_is_created_and_locked_again(lock, tmp_path, caplog, whole):
    directory = tmp_path / "state"
    lock.hold(str(directory), "lab")
    if whole:
        shutil.rmtree(directory)
    else:
        (directory / "lab.lock").unlink()
    assert lock.hold(str(directory), "lab")
    assert not lock.hold(str(directory), "lab")
    (line,) = caplog.messages
    assert f"{directory}/lab.lock was removed or replaced while the daemon was running" in line
    with closing(StateLock()) as other, pytest.raises(StateInUse):
        other.hold(str(directory), "lab")


def test_a_removed_lock_file_that_another_daemon_has_locked_is_in_use(lock, tmp_path):
    directory = tmp_path / "state"
    lock.hold(str(directory), "lab")
    shutil.rmtree(directory)
    with closing(StateLock()) as other:
        other.hold(str(directory), "lab")
        for _ in range(2):
            with pytest.raises(StateInUse):
                lock.hold(str(directory), "lab")
    assert lock.hold(str(directory), "lab")


def test_a_removed_lock_file_that_cannot_be_created_is_created_later(lock, tmp_path, caplog):
    directory = tmp_path / "state"
    lock.hold(str(directory), "lab")
    shutil.rmtree(directory)
    directory.write_text("a file in place of the directory")
    for _ in range(3):
        assert not lock.hold(str(directory), "lab")
    (line,) = caplog.messages  # the daemon tries again before each write
    assert "cannot be locked" in line
    directory.unlink()
    assert lock.hold(str(directory), "lab")


def test_in_a_removed_working_directory_the_lock_is_lost_without_an_error(
    lock, tmp_path, monkeypatch, caplog
):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    lock.hold("state", "lab")
    shutil.rmtree(home)
    for _ in range(2):
        assert not lock.hold("state", "lab")
    (line,) = caplog.messages
    assert "state/lab.lock cannot be locked: No such file or directory" in line


def test_a_directory_that_is_replaced_through_a_symbolic_link_is_locked(lock, tmp_path, caplog):
    link, first, second = (tmp_path / each for each in ("link", "first", "second"))
    first.mkdir()
    second.mkdir()
    link.symlink_to(first)
    lock.hold(str(link), "lab")
    link.unlink()
    link.symlink_to(second)
    assert lock.hold(str(link), "lab")
    assert not lock.hold(str(link), "lab")
    (line,) = caplog.messages
    assert f"{second}/lab.lock was removed or replaced while the daemon was running" in line
    with closing(StateLock()) as other:
        other.hold(str(first), "lab")
        with pytest.raises(StateInUse):
            other.hold(str(second), "lab")


def test_a_lock_file_with_another_inode_number_stays_locked(lock, tmp_path, monkeypatch, caplog):
    """As on a network file system that numbers a file again when it leaves the cache."""
    lock.hold(str(tmp_path), "lab")
    monkeypatch.setattr(os.path, "samestat", lambda one, other: False)
    for _ in range(2):
        assert not lock.hold(str(tmp_path), "lab")
    with closing(StateLock()) as other, pytest.raises(StateInUse):
        other.hold(str(tmp_path), "lab")
    assert caplog.messages == []


def test_a_copy_of_the_lock_file_in_its_place_is_locked(lock, tmp_path, caplog):
    """Some file systems lock the file with the new inode number as if it was another file."""
    lock.hold(str(tmp_path), "lab")
    for _ in range(2):
        shutil.copy2(tmp_path / "lab.lock", tmp_path / "copy")
        (tmp_path / "copy").replace(tmp_path / "lab.lock")
        assert not lock.hold(str(tmp_path), "lab")
    assert caplog.messages == []
    with closing(StateLock()) as other, pytest.raises(StateInUse):
        other.hold(str(tmp_path), "lab")


@pytest.mark.parametrize("place", ["/proc/edge_tvbo", "/dev/null/x"])
def test_a_directory_without_locks_is_logged(lock, caplog, place):
    lock.hold(place, "lab")
    (line,) = caplog.messages
    assert "cannot be locked" in line
