"""The dataset `metr-la`: traffic speed at 207 loop detectors on highways of Los Angeles."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from edge_tvbo.errors import DataError
from edge_tvbo.simulation.recording import Recording
from edge_tvbo_adapters.datasets import csv as table
from edge_tvbo_adapters.datasets.fetch import Progress, cannot_fetch
from edge_tvbo_adapters.datasets.files import find, look_for, verify
from edge_tvbo_adapters.datasets.text_files import open_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DATA = ("metr_la_week_5min.csv.gz", "metr_la_week_5min.csv")
LOCATIONS = ("metr_la_sensor_locs.csv.gz", "metr_la_sensor_locs.csv")
EARTH_RADIUS = 6_371_000.0  # m, mean
ADVICE = (
    "METR-LA is published as an HDF5 file with DCRNN (github.com/liyaguang/DCRNN, Li et al. 2018). "
    f"Write a week of data to the file {DATA[1]}. The file needs the column 'timestamp' and a "
    "column for each detector. Give the directory of the file with --data-dir."
)


class MetrLa:
    """The dataset `metr-la`."""

    name = "metr-la"
    summary = (
        "207 loop detectors on the highways of Los Angeles, speed, 5 min, a week of March 2012"
    )
    url: str | None = None

    def load(self, directories: Iterable[str]) -> Recording:
        """Read METR-LA's week of traffic speeds; raises `DataError`.

        In METR-LA a speed of 0 means a missing reading.
        """
        from edge_tvbo_adapters.datasets.grid import fill_gaps

        directories = list(directories)
        path = find(directories, DATA, f"{self.name} is not on this machine. {ADVICE}")
        week = table.read(path)
        observed = week.observed & (week.values != 0.0)
        if silent := [
            s for s, seen in zip(week.sensors, observed.any(axis=0), strict=True) if not seen
        ]:
            raise DataError(
                f"{path}: detector {', '.join(silent)} has only readings of 0, which stand for "
                "missing readings; remove its column."
            )
        return Recording(
            name=self.name,
            unit="mph",
            objective="max",
            sensors=week.sensors,
            start=week.start,
            interval=week.interval,
            values=fill_gaps(week.values, observed),
            observed=observed,
            positions=read_positions(directories, week.sensors),
            source="METR-LA, measured by the loop detectors of Los Angeles County in 2012 and "
            "published with DCRNN (Li et al. 2018); local times, taken as UTC.",
        )

    def fetch(self, directory: Path, progress: Progress) -> None:
        """Raise a `DataError` that says where the data of METR-LA can be downloaded."""
        cannot_fetch(self.name, ADVICE)


def read_positions(
    directories: Iterable[str], sensors: tuple[str, ...]
) -> "NDArray[np.float64] | None":
    """Return the positions of METR-LA's loop detectors, in m, as an array of shape (M, 2).

    Returns None if there is no locations file.
    """
    path = look_for(directories, LOCATIONS)
    if path is None:
        return None
    verify(path)
    with open_text(path) as lines:
        next(lines, None)
        places = dict(_place(path, n, line) for n, line in enumerate(lines, 2) if line.strip())
    if absent := [sensor for sensor in sensors if sensor not in places]:
        raise DataError(
            f"{path}: has no line for sensor {', '.join(absent)}; write lines "
            "'sensor_id,latitude,longitude'. If you need no positions, remove the file."
        )
    return degrees_to_metres([places[sensor] for sensor in sensors])


def _place(path: Path, number: int, line: str) -> tuple[str, tuple[float, float]]:
    try:
        sensor, latitude, longitude = line.strip().split(",")
        return sensor, (float(latitude), float(longitude))
    except ValueError:
        raise DataError(
            f"{path}, line {number}: found {line.strip()!r}; "
            "a line is 'sensor_id,latitude,longitude'."
        ) from None


def degrees_to_metres(places: list[tuple[float, float]]) -> "NDArray[np.float64]":
    """Convert METR-LA's (latitude, longitude) to (east, north), in m from the south-west corner.

    The approximation holds if the places are within a few 100 km of each other. The returned array
    has the shape (M, 2).

    >>> degrees_to_metres([(34.0, -118.0), (34.0, -118.1)]).round(0).tolist()
    [[9218.0, 0.0], [0.0, 0.0]]
    """
    import numpy as np

    latitude, longitude = np.radians(np.array(places, dtype=np.float64)).T
    east = EARTH_RADIUS * np.cos(latitude.mean()) * longitude
    north = EARTH_RADIUS * latitude
    metres: NDArray[np.float64] = np.column_stack([east - east.min(), north - north.min()])
    return metres


dataset = MetrLa()
