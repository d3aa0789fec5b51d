"""Getting a dataset's files from their publisher, and finding them again on disk."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from edge_tvbo.errors import DataError

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all where the server says
RemoteFile = tuple[str, str, str | None]  # url, file name, SHA-256 where the publisher states it

CHUNK = 1 << 16  # bytes
TIMEOUT = 30.0  # s without a byte


def fetch(url: str, target: Path, sha256: str | None, progress: Progress) -> str:
    """Download `url` to `target` and give its SHA-256; `target` is replaced only by a whole file.

    Raises `DataError` and leaves nothing behind when the file cannot be had, is cut short, or
    does not have the SHA-256 asked for.
    """
    from http.client import HTTPException  # slow to import, and only a fetch needs it

    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"{url}: cannot be fetched; only http and https addresses can.")
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        seen = _download(url, part, progress)
        if sha256 is not None and seen != sha256.lower():
            raise DataError(
                f"{url}: the file has SHA-256 {seen}, expected {sha256.lower()}; it was "
                "not kept.\nIt was damaged on the way or changed by its publisher: try again, "
                "and if it persists compare with the publisher's page."
            )
        part.replace(target)
    except (OSError, HTTPException) as error:
        raise DataError(
            f"{url}: could not be fetched to {target}: {error}.\nCheck the network and the free "
            f"space, or download it by other means and put it there."
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()
    return seen


def _download(url: str, part: Path, progress: Progress) -> str:
    """Stream the body to `part`; give its SHA-256 once its length is what the server said."""
    with _opener().open(url, timeout=TIMEOUT) as response, part.open("wb") as out:
        length = response.headers.get("Content-Length")
        total = int(length) if length and length.isdecimal() else None
        done, seen = _copy(response, out, total, progress)
    if total is not None and done != total:
        raise DataError(
            f"{url}: the connection ended after {done} of {total} bytes; nothing was kept.\n"
            "Run the same command again."
        )
    return seen


def _copy(
    source: IO[bytes], out: IO[bytes], total: int | None, progress: Progress
) -> tuple[int, str]:
    done, digest = 0, hashlib.sha256()
    while chunk := source.read(CHUNK):
        out.write(chunk)
        digest.update(chunk)
        done += len(chunk)
        progress(done, total)
    return done, digest.hexdigest()


def _opener() -> "OpenerDirector":
    """Give an opener for http and https alone: a redirect cannot lead to file: or ftp:."""
    from urllib import request  # slow to import, as above

    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPRedirectHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPErrorProcessor,
        request.UnknownHandler,
    ):
        opener.add_handler(handler())
    opener.addheaders = [("User-Agent", "edge-tvbo")]
    return opener


def fetch_files(files: Iterable[RemoteFile], directory: Path, progress: Progress) -> None:
    """Have every file in `directory`, as published or as first seen.

    Where the publisher states no SHA-256, the one of the first download is kept beside the file
    as `<name>.sha256` and holds from then on. A file that is there and right stays.
    """
    for url, name, published in files:
        target = directory / name
        expected = published or recorded_sha256(target)
        if expected is not None and target.is_file() and sha256_of(target) == expected:
            continue
        seen = fetch(url, target, expected, progress)
        if published is None:
            _keep_sha256(target, seen)


def verify(path: Path) -> None:
    """Raise `DataError` if the file is no longer the one whose SHA-256 was kept beside it."""
    expected = recorded_sha256(path)
    if expected is not None and (seen := sha256_of(path)) != expected:
        raise DataError(
            f"{path}: has SHA-256 {seen}; {_sidecar(path).name} says {expected}.\n"
            "The file changed since it was fetched. Remove it and fetch it again, or, if the "
            "change is meant, remove the .sha256 file."
        )


def sha256_of(path: Path) -> str:
    """Give the SHA-256 of a file's bytes, in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error}.") from error


def recorded_sha256(path: Path) -> str | None:
    """Give the SHA-256 kept beside `path` when it was fetched; None if there is none."""
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


def _keep_sha256(path: Path, sha256: str) -> None:
    try:
        _sidecar(path).write_text(f"{sha256}  {path.name}\n", encoding="ascii")
    except OSError as error:
        raise DataError(
            f"{_sidecar(path)}: cannot be written: {error}.\n{path.name} itself is whole; "
            "without this file a later change to it would go unnoticed."
        ) from error


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def cannot_fetch(name: str, advice: str) -> NoReturn:
    """Raise the `DataError` of a dataset that has no address to fetch from."""
    raise DataError(f"{name}: cannot be fetched. {advice}")


def look_for(directories: Iterable[str], names: Sequence[str]) -> Path | None:
    """Give the first of `names` in the first directory that has one, or None.

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
    """Tell whether a file can be seen there; in a directory that is closed to us, none can."""
    try:
        return path.is_file()
    except OSError:
        return False


def find(directories: Iterable[str], names: Sequence[str], advice: str) -> Path:
    """Give what `look_for` finds, its SHA-256 verified where one was kept.

    Raises `DataError` saying where it looked, followed by `advice`.
    """
    looked = [str(directory) for directory in directories]
    path = look_for(looked, names)
    if path is None:
        where = "".join(f"\n  {directory}" for directory in looked) or "\n  (no directory given)"
        raise DataError(f"none of {', '.join(names)} is in:{where}\n{advice}")
    verify(path)
    return path
