"""Dataset lookup: where files of recordings are searched, and how a recording is loaded.

Datasets are adapters, which this package does not import. So the command line passes the function
that finds a dataset by its name, inside a `DataSource`, to all code that needs recordings.
"""

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec.structs import replace

from edge_tvbo.errors import DataError

if TYPE_CHECKING:
    from edge_tvbo.simulation.recording import Recording

DAY = 86_400.0  # s


class Dataset(Protocol):
    """Recording that can be found, downloaded and read; an entry point `edge_tvbo.datasets`."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    @property
    def summary(self) -> str:
        """Description in one line, for ``data list``."""
        ...

    @property
    def url(self) -> str | None:
        """Address that `fetch` downloads from; None if it cannot be downloaded."""
        ...

    def load(self, directories: Iterable[str]) -> "Recording":
        """Read the recording from the first directory that holds it; raises `DataError`."""
        ...

    def fetch(self, directory: Path, progress: Callable[[int, int | None], None]) -> None:
        """Download the files that `load` needs; raises `DataError`.

        `progress` is called with the bytes so far and, where it is known, their total number.
        """
        ...


class DataSource(NamedTuple):
    """Access to recordings by the names of their datasets; can be sent to another process.

    Parameters
    ----------
    find : callable
        Returns the `Dataset` of a name; raises `ConfigError`.
    directories : tuple of str
        Searched before all others.
    """

    find: Callable[[str], Dataset]
    directories: tuple[str, ...] = ()

    def load(self, name: str, gaps: str = "silent") -> "Recording":
        """Return the recording of the dataset `name`; see `load_recording`."""
        return load_recording(self.find(name), self.directories, gaps)


def load_recording(
    dataset: Dataset, first: Iterable[str] = (), gaps: str = "silent"
) -> "Recording":
    """Return the recording of `dataset`; raises `DataError`.

    Its sensors do not reply in gaps if these are "silent"; if `gaps` are "filled", the values that
    were filled in count as measured, as in the papers.
    """
    recording = dataset.load(search_directories(first))
    if gaps == "filled":
        return replace(recording, observed=recording.observed | True)
    return recording


def cache_directory() -> Path:
    """Return the directory that ``data fetch`` downloads to, in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "edge_tvbo"


def search_directories(first: Iterable[str] = ()) -> list[str]:
    """Return where to search: `first`, $EDGE_TVBO_DATA, the cache, a checkout's ../shared/data."""
    named = [str(Path(each).expanduser()) for each in first]
    for each in named:
        if not Path(each).exists():
            raise DataError(f"{each}: there is no such file or directory.")
    from_environment = [os.environ["EDGE_TVBO_DATA"]] if os.environ.get("EDGE_TVBO_DATA") else []
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    beside = [str(shared)] if shared.is_dir() else []
    return [*named, *from_environment, str(cache_directory()), *beside]


def shift_to_today(recording: "Recording", now: float) -> "Recording":
    """Return `recording` moved by whole days, so that it ends on the UTC day of `now`.

    `now` is in seconds since 1970.
    """
    last = recording.start + (len(recording.values) - 1) * recording.interval
    return replace(recording, start=recording.start + DAY * (now // DAY - last // DAY))


def describe(recording: "Recording") -> dict[str, Any]:
    """Return what ``data info`` says about a recording, by name, encodable as JSON."""
    rows = len(recording.values)
    start = datetime.fromtimestamp(recording.start, UTC)
    end = start + timedelta(seconds=rows * recording.interval)
    return {
        "name": recording.name,
        "sensors": len(recording.sensors),
        "intervals": rows,
        "interval": f"{recording.interval:g} s",
        "start": start.isoformat(),
        "end": end.isoformat(),
        "observed": f"{recording.observed.mean():.1%}",
        "range": f"{recording.values.min():.4g} to {recording.values.max():.4g} {recording.unit}",
        "positions": "known" if recording.positions is not None else "unknown",
        "source": recording.source,
    }
