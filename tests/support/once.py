"""Work that the first process of the tests does for all processes."""

import fcntl
from contextlib import contextmanager


@contextmanager
def once(shared):
    """Yield whether the work in the directory `shared` is still to be done; other processes wait.

    The work counts as done when the context ends without an exception.
    """
    shared.mkdir(exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = shared / "done"
        yield not done.exists()
        done.touch()
