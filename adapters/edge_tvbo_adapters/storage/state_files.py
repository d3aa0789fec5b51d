"""State files: the two newest checkpoints of a daemon, in one directory.

A checkpoint is written to a new file, flushed to the disk and renamed. So a power cut at any time
leaves at least one complete file. A few rejected files are kept, so that the user can inspect them.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from errno import EINVAL
from pathlib import Path

log = logging.getLogger(__name__)

MAX_REJECTED_FILES = 3
MAX_DOCUMENT_SIZE = 2**28  # bytes that are read
_APPENDED_FILE = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


class FileStore:
    """Store of the two newest state files of one daemon.

    Parameters
    ----------
    directory : str or Path
        The state directory; it is created by the first `save`.
    name : str
        The daemon's name, with which the file names start.
    """

    def __init__(self, directory: str | Path, name: str) -> None:
        directory = Path(directory)
        self._directory = directory
        self._name = name
        self._current = directory / f"{name}.state"
        self._previous = directory / f"{name}.state.previous"
        self._draft = directory / f"{name}.state.new"
        self._journal = directory / f"{name}.state.journal"
        self._previous_journal = directory / f"{name}.state.previous.journal"
        self._replays = directory / f"{name}.state.replays"
        self._unsaved = directory / f"{name}.state.unsaved"
        self._written = 0
        self._to_rename: dict[Path, str] = {}  # files that `save` does not overwrite, and why
        self._logged_problem = ""

    @property
    def written(self) -> int:
        """Bytes written to state files since the start."""
        return self._written

    @property
    def newest(self) -> str:
        """Path of the newest state file."""
        return str(self._current)

    def generations(self) -> Iterator[tuple[str, bytes]]:
        """Yield the path and the content of each state file, the newest first.

        The next `save` does not overwrite a file that cannot be read, but renames it, because the
        file may be readable again later.
        """
        self._to_rename.clear()
        for path in (self._current, self._previous):
            try:
                with path.open("rb") as file:
                    content = file.read(MAX_DOCUMENT_SIZE)
            except FileNotFoundError:
                continue
            except OSError as error:
                log.error("state: %s cannot be read: %s", path, error.strerror)
                self._to_rename[path] = "unreadable"
                continue
            yield str(path), content

    def why_empty(self) -> str:
        """Return why there is no state file to read; "" if nothing has been stored yet.

        The state files may be unreadable, or belong to a daemon with another name.
        """
        if self._to_rename:
            return "the stored state cannot be read"
        names: list[str] = []
        with suppress(OSError):
            names = sorted(path.stem for path in self._directory.glob("*.state"))
        others = ", ".join(names)
        return f"{self._directory} has no state of {self._name}, only of {others}" if names else ""

    def set_aside(self, generation: str, why: str) -> str:
        """Rename a rejected state file by appending ``.<why>-<number>``; return a text for the log.

        The oldest rejected files are deleted if there are more than `MAX_REJECTED_FILES`. If the
        file cannot be renamed, the next `save` tries again before it stores a new file.
        """
        try:
            target = self._set_aside(Path(generation), why)
        except OSError as error:
            self.keep(generation, why)
            return f"the file could not be renamed: {error.strerror}"
        return f"the file was renamed to {target.name}"

    def keep(self, generation: str, why: str) -> None:
        """Make the next `save` rename a state file instead of overwriting it; see `set_aside`."""
        self._to_rename[Path(generation)] = why

    def demote_newest(self) -> None:
        """Rename the newest state file to the name of the previous file, if the disk allows it."""
        with suppress(OSError):
            self._current.replace(self._previous)
            _flush(self._directory)

    def save(self, document: bytes) -> bool:
        """Store `document` as the newest state file.

        The file that was the newest before becomes the previous file. Returns whether the document
        was stored; an error of the disk is logged.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._write(self._draft, _NEW_FILE, document)
            for path, why in list(self._to_rename.items()):
                with suppress(FileNotFoundError):
                    target = self._set_aside(path, why)
                    log.info("state: %s was renamed to %s", path, target.name)
                del self._to_rename[path]
            with suppress(FileNotFoundError):
                self._current.replace(self._previous)
            self._draft.replace(self._current)
            self._end_journal()
            self._unsaved.unlink(missing_ok=True)
            _flush(self._directory)
        except OSError as error:
            self._log_problem(error.strerror or str(error))
            with suppress(OSError):
                self._draft.unlink()
            return False
        self._log_problem("")
        return True

    def mark_unsaved(self, until: float) -> None:
        """Store a mark: no state file could be stored, and the next attempt is due at `until`.

        `until` is in s since 1970. The mark is an empty file with the modification time `until`,
        because an empty file needs no space on a full disk. If the disk allows no new file, there
        is no mark.
        """
        with suppress(OSError):
            descriptor = os.open(self._unsaved, _APPENDED_FILE, 0o600)
            try:
                os.utime(descriptor, (until, until))
            finally:
                os.close(descriptor)

    def unsaved_until(self) -> float | None:
        """Return the time in the mark of `mark_unsaved`; None if a state file was stored later."""
        try:
            return self._unsaved.stat().st_mtime
        except OSError:
            return None

    def append(self, entry: bytes) -> bool:
        """Append an entry to the journal of the newest state file; return whether it is stored.

        An error of the disk is logged; an incomplete entry may then be at the end of the file.
        """
        try:
            is_new = not self._journal.exists()
            self._write(self._journal, _APPENDED_FILE, entry)
            if is_new:
                _flush(self._directory)
        except OSError as error:
            self._log_problem(error.strerror or str(error))
            return False
        return True

    def journals(self) -> Iterator[bytes]:
        """Yield the journals of the newest and of the previous state file.

        If the daemon was killed while it renamed files, a journal may belong to the other state
        file, or to a state file that does not exist any more.
        """
        for path in (self._journal, self._previous_journal):
            try:
                with path.open("rb") as file:
                    yield file.read(MAX_DOCUMENT_SIZE)
            except FileNotFoundError:
                continue
            except OSError as error:
                log.error("state: %s cannot be read: %s", path, error.strerror)

    def count_replay(self) -> int:
        """Count a start of the daemon that replays a journal; return the number of these starts.

        Starts before the last call of `end_replay` do not count. The number is stored as the size
        of a file. If the number cannot be stored, 1 is returned.
        """
        try:
            descriptor = os.open(self._replays, _APPENDED_FILE, 0o600)
            try:
                os.write(descriptor, b".")
                return os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
        except OSError:
            return 1

    def end_replay(self) -> None:
        """Set the count of `count_replay` to 0, because a start has replayed the journal."""
        with suppress(OSError):
            self._replays.unlink()

    def _end_journal(self) -> None:
        """Rename the journal of the state file that was the newest one until now."""
        self._previous_journal.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            self._journal.replace(self._previous_journal)

    def _set_aside(self, path: Path, why: str) -> Path:
        """Rename a rejected state file, delete the oldest ones, and return the new path."""
        older = sorted(self._rejected_files())
        number = older[-1][0] + 1 if older else 1
        target = self._current.with_name(f"{self._current.name}.{why}-{number}")
        path.replace(target)
        for _, each in older[: max(0, len(older) + 1 - MAX_REJECTED_FILES)]:
            each.unlink()
        return target

    def _rejected_files(self) -> Iterator[tuple[int, Path]]:
        """Yield the number and the path of each rejected state file."""
        for path in self._directory.iterdir():
            name, _, number = path.name.rpartition("-")
            is_ours = name.startswith(f"{self._current.name}.")
            if is_ours and number.isdecimal() and len(number) < 10:
                yield int(number), path

    def _write(self, path: Path, flags: int, data: bytes) -> None:
        descriptor = os.open(path, flags, 0o600)
        try:
            rest = memoryview(data)
            while rest:
                count = os.write(descriptor, rest)
                self._written += count
                rest = rest[count:]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _log_problem(self, problem: str) -> None:
        """Log once that the state file cannot be stored, and once when storing works again."""
        if problem == self._logged_problem:
            return
        self._logged_problem = problem
        if problem:
            log.error(
                "state: cannot be stored in %s: %s; the daemon continues, but a restart would "
                "load the last stored state",
                self._directory,
                problem,
            )
        else:
            log.info("state: storing in %s works again", self._directory)


def _flush(directory: Path) -> None:
    """Flush the renames of state files to the disk, if the file system supports that."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != EINVAL:
            raise
    finally:
        os.close(descriptor)
