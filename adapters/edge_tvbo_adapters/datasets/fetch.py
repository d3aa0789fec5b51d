"""Download of a dataset's files from their publisher, with the package pooch."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from edge_tvbo.errors import DataError, MissingExtra
from edge_tvbo_adapters.datasets.files import keep_sha256, recorded_sha256, sha256_of

Progress = Callable[[int, int | None], None]  # downloaded bytes, total bytes; None if unknown
RemoteFile = tuple[str, str, str | None]  # url, file name, SHA-256 if the publisher states it

CHUNK_SIZE = 1 << 16  # bytes
TIMEOUT_S = 30.0  # the download fails if the server sends nothing for this time


def fetch_files(files: Iterable[RemoteFile], directory: Path, progress: Progress) -> None:
    """Download the files of a dataset to `directory`.

    A file that is already there, with the expected SHA-256, is not downloaded again.

    If the publisher states no SHA-256, the SHA-256 of the first download is recorded beside the
    file, as `<name>.sha256`. Later downloads must have the same SHA-256.
    """
    for url, name, published in files:
        target = directory / name
        expected = published or recorded_sha256(target)
        if expected is not None and target.is_file() and sha256_of(target) == expected:
            continue
        sha256 = fetch(url, target, expected, progress)
        if published is None:
            keep_sha256(target, sha256)


def fetch(url: str, target: Path, sha256: str | None, progress: Progress) -> str:
    """Download one file of a dataset from `url` to `target`; return its SHA-256.

    Only a complete file replaces `target`; a failed download leaves no partial file.

    Raises
    ------
    DataError
        If the download fails or ends early, or if the SHA-256 of the file is not `sha256`.
    MissingExtra
        If pooch is not installed.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"{url}: cannot be fetched; the address must begin with http or https.")
    try:
        import pooch
    except ImportError:
        raise MissingExtra("pooch, which downloads datasets,", "data") from None
    pooch.get_logger().setLevel("WARNING")
    bar = _PoochProgress(progress)
    downloader = pooch.HTTPDownloader(
        progressbar=bar,
        chunk_size=CHUNK_SIZE,
        timeout=TIMEOUT_S,
        headers={"User-Agent": "edge-tvbo", "Accept-Encoding": "identity"},
    )
    known = None if sha256 is None else sha256.lower()
    part = target.with_name(f"{target.name}.part")
    try:
        part.unlink(missing_ok=True)  # pooch would not replace an existing file
        pooch.retrieve(url, known, part.name, part.parent, downloader=downloader)
        part.replace(target)
    except OSError as error:
        raise DataError(
            f"{url}: could not be fetched to {target}: {error}.\nCheck the network and the free "
            f"space, or download the file by other means and save it as {target}."
        ) from error
    except ValueError as error:
        raise DataError(
            f"{url}: {error}\nThe file was damaged in transit, or its publisher has changed it. "
            "Try again; if that fails too, look for news on the publisher's page."
        ) from error
    progress(target.stat().st_size, bar.total or None)
    return sha256_of(target)


class _PoochProgress:
    """Progress bar with the methods that pooch calls; it reports the bytes of finished chunks."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done = 0
        self._ended = False
        self.total = 0  # bytes; set by pooch, 0 if unknown

    def update(self, size: int) -> None:
        """Report the progress of a download: the bytes of all chunks before the present chunk.

        The present chunk is not included, because it may be shorter than `size`.
        """
        if not self._ended:
            self._progress(self._done, self.total or None)
            self._done += size

    def reset(self) -> None:
        """Stop the reports about the progress of a download.

        After this call, pooch calls `update` once more with the total size, which must not be
        reported.
        """
        self._ended = True

    def close(self) -> None:
        """Do nothing; pooch calls this method at the end of a download."""


def cannot_fetch(name: str, advice: str) -> NoReturn:
    """Raise the `DataError` of a dataset that has no address to download from."""
    raise DataError(f"{name}: cannot be fetched. {advice}")
