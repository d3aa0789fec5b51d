"""Dataset lookup: finds the recording of a dataset in several directories, and loads it.

Datasets are adapters, which this package does not import. Therefore the command line passes a
`DataSource` to all code that needs recordings. The `DataSource` contains the function that finds a
dataset by its name.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from edge_tvbo.errors import DataError
from edge_tvbo.messages.formatting import range_text
from edge_tvbo.simulation.recording import Recording, with_replies


class Dataset(Protocol):
    """A dataset of the entry-point group `edge_tvbo.datasets`, to be loaded or downloaded."""

    @property
    def name(self) -> str:
        """Name of the dataset, by which the dataset lookup finds it."""
        ...

    @property
    def summary(self) -> str:
        """One-line description of a dataset that the lookup can find, for ``data list``."""
        ...

    @property
    def url(self) -> str | None:
        """Address from which `fetch` downloads the dataset; None if it cannot be downloaded."""
        ...

    def load(self, directories: Iterable[str]) -> Recording:
        """Return the dataset's recording from the first directory that contains it.

        Raises `DataError` if the recording is not found or is invalid.
        """
        ...

    def fetch(self, directory: Path, progress: Callable[[int, int | None], None]) -> None:
        """Download the dataset's files that `load` needs; raises `DataError` if this fails.

        `progress` is called with the number of downloaded bytes, and with the total number of
        bytes, or None if the total is unknown.
        """
        ...


class DataSource(NamedTuple):
    """Loader of recordings by the name of the dataset; it can be sent to another process.

    Parameters
    ----------
    find : callable
        Function that returns the `Dataset` with a given name, and raises `ConfigError` for an
        unknown name.
    directories : tuple of str
        Directories that are searched before all others.
    """

    find: Callable[[str], Dataset]
    directories: tuple[str, ...] = ()

    def load(self, name: str, gaps: str = "silent") -> Recording:
        """Return the recording of the dataset `name`; for `gaps`, see `load_recording`."""
        return load_recording(self.find(name), self.directories, gaps)


def load_recording(dataset: Dataset, first: Iterable[str] = (), gaps: str = "silent") -> Recording:
    """Return the recording of `dataset`; raises `DataError` if the recording cannot be loaded.

    The value of `gaps` determines what happens if a sensor is activated in a gap:

    - "silent": the sensor does not reply.
    - "filled": the sensor replies with the value that fills the gap, and this value is not scored.
      In an interval in which no sensor was observed, no sensor replies.
    - "paper": as "filled", but the value also counts as observed, and is scored as the truth. Use
      "paper" to reproduce the papers' figures.
    """
    recording = dataset.load(search_directories(first))
    if not isinstance(recording, Recording):
        raise DataError(
            f"The dataset {dataset.name!r} cannot be used: its function `load` returned "
            f"{type(recording).__name__} instead of a `Recording`."
        )
    return with_replies(recording, gaps)


def with_home(path: str) -> Path:
    """Return the path of a dataset with the home directory in place of ``~``.

    Raises `DataError` if there is no such home directory.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise DataError(
            f"{path}: this home directory is unknown; write the path without ~, or set HOME."
        ) from None


def cache_directory() -> Path:
    """Return the directory into which ``data fetch`` downloads datasets.

    Raises `DataError` if the user has no home directory, and XDG_CACHE_HOME is not set.
    """
    return with_home(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "edge_tvbo"


def search_directories(first: Iterable[str] = ()) -> list[str]:
    """Return the directories that the dataset lookup searches, in the order of the search.

    The directories are `first`, the directory in $EDGE_TVBO_DATA, the cache directory, and
    shared/data of a source checkout. Raises `DataError` if one of `first` does not exist.
    """
    named = [str(with_home(each)) for each in first]
    for each in named:
        if not Path(each).exists():
            raise DataError(f"{each}: there is no such file or directory.")
    from_environment = [os.environ["EDGE_TVBO_DATA"]] if os.environ.get("EDGE_TVBO_DATA") else []
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    beside = [str(shared)] if shared.is_dir() else []
    cached: list[str] = []
    with suppress(DataError):  # a user without a home directory
        cached = [str(cache_directory())]
    return [*named, *from_environment, *cached, *beside]


def describe(recording: Recording) -> dict[str, Any]:
    """Return a dict that describes the recording of a dataset that the lookup has found.

    ``data info`` prints the items of the dict as lines, or with --json as JSON.
    """
    rows = len(recording.values)
    start = datetime.fromtimestamp(recording.start, UTC)
    end = start + timedelta(seconds=rows * recording.interval)
    ends = recording.values.min(), recording.values.max()
    return {
        "name": recording.name,
        "sensors": len(recording.sensors),
        "intervals": rows,
        "interval": f"{recording.interval:g} s",
        "start": start.isoformat(),
        "end": end.isoformat(),
        "observed": _percent(float(recording.observed.mean())),
        "range": f"{range_text(ends, 4)} {recording.unit}".rstrip(),
        "positions": "known" if recording.positions is not None else "unknown",
        "source": recording.source,
    }


def _percent(share: float) -> str:
    """Return a dataset's share of observed readings as text.

    A share below 1 is not rounded to 100 %, and a share above 0 is not rounded to 0 %.

    >>> [_percent(share) for share in (1.0, 0.99951, 0.983, 0.00004)]
    ['100.0%', '99.95%', '98.3%', '0.004%']
    """
    digits = 1
    while 0.0 < share < 1.0 and float(f"{100.0 * share:.{digits}f}") in (0.0, 100.0):
        digits += 1
    return f"{share:.{digits}%}"
