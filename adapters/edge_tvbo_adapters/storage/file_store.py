"""State in two files of one directory: the newest document, and the one before it.

A document is written beside, flushed to the disk, and renamed into place, so that a power cut at
any moment leaves at least one that is whole. Files out of use are kept, a few, for whoever wants
to know what happened.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from errno import EINVAL
from pathlib import Path

log = logging.getLogger(__name__)

ASIDE = 3  # files out of use that are kept
LARGEST = 2**28  # bytes of a document that is read
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


class FileStore:
    """A `Store` in files; see `open_store`."""

    def __init__(self, directory: str | Path, name: str) -> None:
        directory = Path(directory)
        self._directory = directory
        self._current = directory / f"{name}.state"
        self._previous = directory / f"{name}.state.previous"
        self._draft = directory / f"{name}.state.new"
        self._written = 0
        self._trouble = ""  # what was last said of the disk

    @property
    def written(self) -> int:
        """Bytes written since the start."""
        return self._written

    @property
    def newest(self) -> str:
        """Name of the file that was written last."""
        return str(self._current)

    def generations(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the content of each file there is, the newest first."""
        for path in (self._current, self._previous):
            try:
                with path.open("rb") as file:
                    content = file.read(LARGEST)
            except FileNotFoundError:
                continue
            except OSError as error:
                log.error("state: %s cannot be read: %s", path, error.strerror)
                continue
            yield str(path), content

    def set_aside(self, generation: str, why: str) -> str:
        """Rename a file to ``.<why>-<number>`` and drop the oldest such, so that few are kept."""
        path = Path(generation)
        try:
            older = sorted(self._aside())
            number = older[-1][0] + 1 if older else 1
            aside = self._current.with_name(f"{self._current.name}.{why}-{number}")
            path.replace(aside)
            for _, each in older[: max(0, len(older) + 1 - ASIDE)]:
                each.unlink()
        except OSError as error:
            return f"it stays where it is: {error.strerror}"
        return f"it is kept as {aside.name}"

    def save(self, document: bytes) -> bool:
        """Keep `document` in the newest file, and what was there in the one before it."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._write(document)
            with suppress(FileNotFoundError):
                self._current.replace(self._previous)
            self._draft.replace(self._current)
            _flush(self._directory)
        except OSError as error:
            self._say(error.strerror or str(error))
            with suppress(OSError):
                self._draft.unlink()
            return False
        self._say("")
        return True

    def _aside(self) -> Iterator[tuple[int, Path]]:
        """Yield the number and the path of each file out of use."""
        for path in self._directory.iterdir():
            name, _, number = path.name.rpartition("-")
            ours = name.startswith(f"{self._current.name}.")
            if ours and number.isdecimal() and len(number) < 10:
                yield int(number), path

    def _write(self, document: bytes) -> None:
        descriptor = os.open(self._draft, _NEW, 0o600)
        try:
            rest = memoryview(document)
            while rest:
                done = os.write(descriptor, rest)
                self._written += done
                rest = rest[done:]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _say(self, trouble: str) -> None:
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if trouble:
            log.error(
                "state: nothing can be kept in %s: %s; deciding goes on, and a restart would "
                "begin from the last state that was kept",
                self._directory,
                trouble,
            )
        else:
            log.info("state: it is kept in %s again", self._directory)


def _flush(directory: Path) -> None:
    """Have the renames on the disk, where its file system knows how."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != EINVAL:
            raise
    finally:
        os.close(descriptor)
