"""Directories in memory, for tests that write thousands of files, which a disk flushes slowly."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

DISK = "/dev/shm"  # a file system in memory, if there is one


@contextmanager
def directory_in_memory() -> Iterator[Path]:
    """Yield a new directory, in memory if possible."""
    with TemporaryDirectory(dir=_disk()) as name:
        yield Path(name)


@cache
def _disk() -> str | None:
    return DISK if Path(DISK).is_dir() else None
