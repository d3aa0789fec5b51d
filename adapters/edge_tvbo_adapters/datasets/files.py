"""Files of a dataset on disk: the search for them, and the check of their SHA-256."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from edge_tvbo.errors import DataError


def find(directories: Iterable[str], names: Sequence[str], advice: str) -> Path:
    """Return what `look_for` finds, its SHA-256 verified if one was kept.

    Raises
    ------
    DataError
        If there is no such file; the text lists the directories, followed by `advice`.
    """
    searched = [str(directory) for directory in directories]
    path = look_for(searched, names)
    if path is None:
        where = "".join(f"\n  {directory}" for directory in searched) or "\n  (no directory given)"
        raise DataError(f"none of {', '.join(names)} is in:{where}\n{advice}")
    verify(path)
    return path


def look_for(directories: Iterable[str], names: Sequence[str]) -> Path | None:
    """Return the first of `names` in the first directory that holds one; None if none does.

    An entry of `directories` may also be such a file itself.
    """
    for entry in map(Path, directories):
        if entry.name in names and is_file(entry):
            return entry
        for name in names:
            if is_file(entry / name):
                return entry / name
    return None


def is_file(path: Path) -> bool:
    """Return whether `path` is a file that can be seen; False in an unreadable directory."""
    try:
        return path.is_file()
    except OSError:
        return False


def verify(path: Path) -> None:
    """Raise `DataError` if the file has another SHA-256 than the one kept beside it."""
    expected = recorded_sha256(path)
    if expected is not None and (found := sha256_of(path)) != expected:
        raise DataError(
            f"{path}: has SHA-256 {found}; {_sidecar(path).name} says {expected}.\n"
            "The file changed since it was fetched. Remove it and fetch it again, or, if the "
            "change is meant, remove the .sha256 file."
        )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error}.") from error


def recorded_sha256(path: Path) -> str | None:
    """Return the SHA-256 kept beside `path` when it was fetched; None if there is none."""
    sidecar = _sidecar(path)
    if not sidecar.is_file():
        return None
    words = sidecar.read_text(encoding="ascii", errors="replace").split()
    if not words or len(words[0]) != 64:
        raise DataError(
            f"{sidecar}: holds no SHA-256; a line '<64 hex digits>  {path.name}' is "
            "expected.\nRemove it to do without the check."
        )
    return words[0].lower()


def keep_sha256(path: Path, sha256: str) -> None:
    """Write the SHA-256 of `path` to a file beside it."""
    try:
        _sidecar(path).write_text(f"{sha256}  {path.name}\n", encoding="ascii")
    except OSError as error:
        raise DataError(
            f"{_sidecar(path)}: cannot be written: {error}.\n{path.name} itself is complete; "
            "without this file a later change to it would not be noticed."
        ) from error


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
