"""The dataset `csv`: any sensor network from a CSV file, wide or long.

A wide file has a column for each sensor, a long file has a row for each reading. The reader needs
no options. It recognises

- the separator: comma, semicolon or tab;
- decimal commas, and codes such as -999, which mean that there is no reading;
- the formats of times in `csv_times`;
- exports of Home Assistant;
- columns that are not sensors.

The readings are put on a regular grid in time; `grid.spacing` finds its interval. Readings with the
same nearest grid point are averaged. Gaps are filled by interpolation, and marked as not observed.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import msgspec

from edge_tvbo.errors import DataError
from edge_tvbo.simulation.recording import Recording
from edge_tvbo_adapters.datasets.fetch import Progress, cannot_fetch
from edge_tvbo_adapters.datasets.files import is_file, verify
from edge_tvbo_adapters.datasets.text_files import open_text

ADVICE = "Give the file with --data-dir:  --data-dir readings.csv"


class Csv(msgspec.Struct, frozen=True):
    """The dataset `csv`, which reads the user's own CSV file.

    Parameters
    ----------
    interval : float, optional
        Interval of the grid, in s. By default, it is found from the times in the file.
    """

    interval: float | None = None

    name: ClassVar[str] = "csv"
    summary: ClassVar[str] = (
        "your own CSV file: a column per sensor, or rows of time, sensor, value"
    )
    url: ClassVar[str | None] = None

    def load(self, directories: Iterable[str]) -> Recording:
        """Load the dataset `csv`: the given CSV file, or the only CSV file in a given directory.

        Raises `DataError` if there is no such file, or if it cannot be read.
        """
        return read(choose_file(list(directories)), self.interval)

    def fetch(self, directory: Path, progress: Progress) -> None:
        """Raise `DataError`: the dataset `csv` is the user's own file and cannot be downloaded."""
        cannot_fetch(self.name, f"It is your own file. {ADVICE}")


def choose_file(directories: list[str]) -> Path:
    """Return the path of the CSV file that the dataset `csv` reads.

    Each entry of `directories` is a CSV file, or a directory with one CSV file. The first file
    that is found is returned.

    Raises `DataError` if there is no CSV file, or if a directory has several CSV files.
    """
    for entry in map(Path, directories):
        if is_file(entry):
            return entry
        found = sorted(p for p in entry.glob("*") if p.name.lower().endswith((".csv", ".csv.gz")))
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise DataError(f"{entry}: has several CSV files: {names}.\n{ADVICE}")
        if found:
            return found[0]
    searched = "".join(f"\n  {entry}" for entry in directories) or "\n  (no directory given)"
    raise DataError(f"there is no CSV file in:{searched}\n{ADVICE}")


def read(path: Path, interval: float | None = None) -> Recording:
    """Return the recording in a CSV file; raises a `DataError` that names the file and the line.

    `interval` is the interval of the recording in s; if it is None, the times determine the
    interval.
    """
    # Not at the top, because these modules import numpy, and `edge-tvbo data list` must be fast.
    from edge_tvbo_adapters.datasets.csv_grid import to_grid
    from edge_tvbo_adapters.datasets.csv_reader import read_table

    verify(path)
    with open_text(path) as text:
        table = read_table(path, text)
    return to_grid(path, table, interval)


dataset = Csv()
