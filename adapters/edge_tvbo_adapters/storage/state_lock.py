"""Lock on the stored state of a daemon, so that no two daemons use the same interval numbers."""

import fcntl
import logging
import os
import time
from contextlib import suppress
from pathlib import Path

from edge_tvbo.errors import StateInUse

log = logging.getLogger(__name__)

# Read-only, because a file that is open for writing would prevent a read-only remount of the disk.
_OPEN = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW

_Mark = tuple[int, bytes]  # see `_mark`


class StateLock:
    """Lock that a process holds on the stored state of one daemon.

    The operating system releases the lock when the process ends, even after a crash. So the lock
    file of a killed daemon is no obstacle, and the daemon never deletes the file. The file contains
    the process id of the daemon that holds the lock.

    If a user removes the file, a second daemon could lock a new file. So `hold` is called again
    before each write to the stored state.

    On some network file systems, the inode number of a file changes while the file is open. So a
    file with another inode number still counts as the locked file, as long as it has the process id
    and the modification time that this process wrote. A second daemon would replace the process id
    and the modification time.
    """

    def __init__(self) -> None:
        self._state: tuple[str, str] | None = None  # the last directory and instance
        self._path: Path | None = None
        self._descriptor = -1
        self._mark: _Mark | None = None  # of the locked file
        self._problem = ""  # the last logged reason why a removed lock file cannot be locked again

    def hold(self, directory: str, instance: str) -> bool:
        """Lock the state of `instance` in `directory`, and release the previous lock.

        The result is True if this process held the lock already, but the lock file was removed or
        replaced: for example, `directory` is a symbolic link that was changed. Then a warning is
        logged, and the file that is now at the path is locked; a missing file is created. In all
        other cases, the result is False. The special cases are:

        - If `directory` is empty, nothing is locked.
        - If this process holds the lock, and the lock file is unchanged, nothing is done.
        - If a copy has replaced the lock file, the copy is locked without a log message.
        - If another daemon holds the lock, the previous lock is kept, and `StateInUse` is raised.
        - If the file cannot be locked, for example because the file system does not support locks,
          a warning is logged, and the daemon can continue.
        """
        path = _lock_path(directory, instance) if directory else None
        is_again = self._state == (directory, instance)
        if path == self._path and not (path and self._is_removed(path)):
            self._state = directory, instance
            return False
        is_own = is_again and self._is_own(path)
        try:
            descriptor = _lock(path) if path else -1
        except StateInUse:
            if is_own:  # only the inode number of the locked file has changed
                return False
            raise
        except OSError as error:
            if is_again:
                self._log_problem(_problem_text(path, error))
                return False  # the next call tries again
            log.warning("state: %s", _problem_text(path, error))
            descriptor = -1
        is_removed = is_again and not is_own
        if is_removed:
            log.warning("state: %s", removed_text(directory, instance))
        self.close()
        self._state, self._path = (directory, instance), path
        self._descriptor, self._problem = descriptor, ""
        self._mark = _mark(path) if path else None
        return is_removed

    def _log_problem(self, problem: str) -> None:
        """Log once why the lock file of the state cannot be locked again."""
        if problem != self._problem:
            log.warning("state: %s", problem)
        self._problem = problem

    def _is_removed(self, path: Path) -> bool:
        """Return whether the locked file of the state is no longer the file at `path`."""
        if self._descriptor < 0:
            return False
        try:
            return not os.path.samestat(path.stat(), os.fstat(self._descriptor))
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:  # such as an error of the disk
            return False

    def _is_own(self, path: Path | None) -> bool:
        """Return whether the file at `path` is the locked file of the state, or a copy of it."""
        if path is None or path != self._path or self._mark is None:
            return False
        return _mark(path) == self._mark

    def close(self) -> None:
        """Release the lock on the stored state."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._path, self._descriptor = None, -1


def removed_text(directory: str, instance: str) -> str:
    """Return a text about the removed lock file of the state of `instance` in `directory`."""
    return (
        f"{_lock_path(directory, instance)} was removed or replaced while the daemon was running, "
        "perhaps together with the whole directory; the daemon has locked the file there again, "
        "and continues to store its state there"
    )


def _lock_path(directory: str, instance: str) -> Path:
    """Return the path of the lock file of the state of `instance` in `directory`."""
    with suppress(OSError):  # if `directory` is relative, and the working directory was removed
        directory = os.path.realpath(directory)
    return Path(directory) / f"{instance}.lock"


def _problem_text(path: Path | None, error: OSError) -> str:
    return (
        f"{path} cannot be locked: {error.strerror or error}; make sure that no second daemon uses "
        "this directory"
    )


def _lock(path: Path) -> int:
    """Lock a stored state with the lock file `path`; return its descriptor.

    Raises `StateInUse` if another daemon holds the lock, and `OSError` if the file cannot be
    created, or if the file system does not support locks.
    """
    descriptor = -1
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, _OPEN, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise StateInUse(path.name.removesuffix(".lock"), str(path.parent), holder) from None
    except OSError:
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)
        raise
    with suppress(OSError):  # if the disk is full, the lock is valid without the process id
        path.write_text(f"{os.getpid()}\n", "ascii")
        now = time.time_ns()  # the clock of a file system can be coarse
        os.utime(path, ns=(now, now))
    return descriptor


def _mark(path: Path) -> _Mark | None:
    """Return the modification time, in ns, and the content of a lock file; None if unreadable."""
    try:
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_mtime_ns, file.read(20)
    except OSError:
        return None
