"""Files of a dataset on disk: finding them, and checking their SHA-256."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from edge_tvbo.errors import DataError


def find(directories: Iterable[str], names: Sequence[str], advice: str) -> Path:
    """Find a dataset's file, check its SHA-256 if one is recorded, and return its path.

    Parameters
    ----------
    directories : iterable of str
        The directories to search, as in `look_for`.
    names : sequence of str
        The possible names of the file, the preferred one first.
    advice : str
        The end of the error text if no file is found.

    Raises
    ------
    DataError
        If there is no such file, or if its SHA-256 is wrong.
    """
    searched = [str(directory) for directory in directories]
    path = look_for(searched, names)
    if path is None:
        where = "".join(f"\n  {directory}" for directory in searched) or "\n  (no directory given)"
        raise DataError(f"none of {', '.join(names)} is in:{where}\n{advice}")
    verify(path)
    return path


def look_for(directories: Iterable[str], names: Sequence[str]) -> Path | None:
    """Search the directories in order for a dataset's file; return its path, or None.

    In each directory, the first of the `names` that exists is used. An entry of `directories` may
    also be the path of a file with one of the `names`.
    """
    for entry in map(Path, directories):
        if entry.name in names and is_file(entry):
            return entry
        for name in names:
            if is_file(entry / name):
                return entry / name
    return None


def is_file(path: Path) -> bool:
    """Return whether a dataset's `path` is a file; False if its directory is unreadable."""
    try:
        return path.is_file()
    except OSError:
        return False


def verify(path: Path) -> None:
    """Raise `DataError` if a dataset's file changed: its SHA-256 differs from the recorded one."""
    expected = recorded_sha256(path)
    if expected is not None and (found := sha256_of(path)) != expected:
        raise DataError(
            f"{path}: has SHA-256 {found}; {_sidecar(path).name} says {expected}.\n"
            "The file changed since it was fetched. Remove it and fetch it again. If you changed "
            "it intentionally, remove the .sha256 file."
        )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the bytes of a dataset's file, in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error}.") from error


def recorded_sha256(path: Path) -> str | None:
    """Return the SHA-256 that was recorded when a dataset's file was fetched.

    Returns None if no SHA-256 was recorded.
    """
    sidecar = _sidecar(path)
    if not sidecar.is_file():
        return None
    words = sidecar.read_text(encoding="ascii", errors="replace").split()
    if not words or len(words[0]) != 64:
        raise DataError(
            f"{sidecar}: has no SHA-256; a line '<64 hex digits>  {path.name}' is "
            "expected.\nRemove this file to skip the check."
        )
    return words[0].lower()


def keep_sha256(path: Path, sha256: str) -> None:
    """Record the SHA-256 of a dataset's file in a file `<name>.sha256` beside it."""
    try:
        _sidecar(path).write_text(f"{sha256}  {path.name}\n", encoding="ascii")
    except OSError as error:
        raise DataError(
            f"{_sidecar(path)}: cannot be written: {error}.\n{path.name} itself is complete, "
            f"but without the .sha256 file, later changes to {path.name} would not be noticed."
        ) from error


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
