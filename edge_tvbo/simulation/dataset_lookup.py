"""Where recordings are looked for, and what can be said of one."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from edge_tvbo import plugins
from edge_tvbo.errors import DataError

if TYPE_CHECKING:
    from edge_tvbo.ports import Recording

DAY = 86_400.0  # s


def cache() -> Path:
    """Give the user's cache, where `data fetch` puts what it downloads."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "edge_tvbo"


def directories(first: Iterable[str] = ()) -> list[str]:
    """Give where to look: `first`, $EDGE_TVBO_DATA, the cache, and ../shared/data of a checkout."""
    named = [str(Path(each).expanduser()) for each in first]
    for each in named:
        if not Path(each).exists():
            raise DataError(f"{each}: there is no such file or directory.")
    from_environment = [os.environ["EDGE_TVBO_DATA"]] if os.environ.get("EDGE_TVBO_DATA") else []
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    beside = [str(shared)] if shared.is_dir() else []
    return [*named, *from_environment, str(cache()), *beside]


def recording(name: str, first: Iterable[str] = (), gaps: str = "silent") -> "Recording":
    """Give the recording of the dataset `name`; raises `ConfigError` or `DataError`.

    Where it has gaps its sensors are "silent", or `gaps` are "filled" and they always answer.
    """
    found: Recording = plugins.load("datasets", name).load(directories(first))
    return cast("Recording", FilledGaps(found)) if gaps == "filled" else found


def shift_to_today(recording: "Recording", now: float) -> "Recording":
    """Give `recording` as if its last day, in UTC, were that of `now`, in s since 1970."""
    last = recording.start + (len(recording.values) - 1) * recording.interval
    return cast("Recording", TimeShifted(recording, DAY * (now // DAY - last // DAY)))


class TimeShifted:
    """A recording as if it had been made `by` seconds later."""

    def __init__(self, recording: "Recording", by: float) -> None:
        self._recording = recording
        self.start = recording.start + by

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recording, name)


class FilledGaps:
    """A recording whose filled-in values count as measured, as in the papers."""

    def __init__(self, recording: "Recording") -> None:
        self._recording = recording
        self.observed = recording.observed | True

    def __reduce__(self) -> tuple[Any, ...]:  # unpickled without, `__getattr__` asks itself
        return FilledGaps, (self._recording,)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recording, name)


def facts(recording: "Recording") -> dict[str, Any]:
    """Give what can be said of a recording, by name, fit for JSON."""
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
