"""Lock on the stored state of a daemon, so that no two daemons use the same interval numbers."""

import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path

from edge_tvbo.errors import StateInUse

log = logging.getLogger(__name__)

# Read-only, because a file that is open for writing would prevent a read-only remount of the disk.
_OPEN = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class StateLock:
    """Lock that a process holds on the stored state of one daemon.

    The operating system releases the lock when the process ends, even after a crash. So the lock
    file of a killed daemon is no obstacle, and the file is never deleted. The file contains the
    process id of the daemon that holds the lock.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._descriptor = -1

    def hold(self, directory: str, instance: str) -> None:
        """Lock the state of `instance` in `directory`, and release the previous lock.

        Without a directory, nothing is locked. If this process holds the lock already, nothing
        changes. If another daemon holds the lock, the previous lock is kept, and `StateInUse` is
        raised. If the file system does not support locks, this is logged, and the daemon can
        continue.
        """
        path = Path(directory).resolve() / f"{instance}.lock" if directory else None
        if path == self._path:
            return
        descriptor = _lock(path) if path else -1
        self.close()
        self._path, self._descriptor = path, descriptor

    def close(self) -> None:
        """Release the lock on the stored state."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._path, self._descriptor = None, -1


def _lock(path: Path) -> int:
    """Lock a stored state with the lock file `path`; return its descriptor, -1 without a lock.

    Raises `StateInUse` if another daemon holds the lock. If the file system does not support locks,
    this is logged, and -1 is returned.
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
    except OSError as error:
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)
        log.warning(
            "state: %s cannot be locked: %s; make sure that no second daemon uses this directory",
            path,
            error.strerror or error,
        )
        return -1
    with suppress(OSError):  # if the disk is full, the lock is valid without the process id
        path.write_text(f"{os.getpid()}\n", "ascii")
    return descriptor
