"""The dataset `intel-lab`: temperature at 54 motes of the Intel Berkeley Research Lab, 2004.

It can be read from either of two files: the publisher's `data.txt`, with a line for each sample,
and `intel_lab_10min.csv`, with averages over 10 minutes. Both files result in the recording that
the papers use: 46 motes, 2004-03-01 to 2004-03-08, 1152 intervals.

`data.txt` contains raw data. Its lines are not sorted, some are truncated, and some have invalid
mote ids. Motes whose battery is below about 2.35 V report temperatures of up to 122 °C.
"""

from array import array
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from edge_tvbo.errors import DataError
from edge_tvbo.simulation.recording import Recording
from edge_tvbo_adapters.datasets.fetch import Progress, RemoteFile, fetch_files
from edge_tvbo_adapters.datasets.files import find, look_for, verify
from edge_tvbo_adapters.datasets.text_files import open_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Grid = tuple[NDArray[np.float64], NDArray[np.bool_]]

Row = tuple[str, str, str, str]  # texts: time ("2004-03-01 00:1"), mote, °C, V

MOTES = 54  # the lab's motes are 1..54
KEPT_MOTES = 46  # motes of the recording
DAYS = range(1, 9)  # of March 2004
INTERVAL = 600.0  # s
MIN_VOLTAGE = 2.35  # V; below it the thermometers drift upwards
MIN_TEMPERATURE, MAX_TEMPERATURE = -10.0, 60.0  # °C

DATA = ("intel_lab_10min.csv.gz", "intel_lab_10min.csv", "data.txt.gz", "data.txt")
LOCATIONS = "mote_locs.txt"
COLUMNS = ("timestamp", "mote_id", "temperature_c", "voltage")
ADVICE = "Get it:  edge-tvbo data fetch intel-lab\nor give its directory with --data-dir."


class IntelLab:
    """The dataset `intel-lab`."""

    name = "intel-lab"
    summary = "46 motes in the Intel Berkeley lab, temperature, 10 min, 8 days of March 2004"
    url: str | None = "http://db.csail.mit.edu/labdata/data.txt.gz"
    files: tuple[RemoteFile, ...] = (
        ("http://db.csail.mit.edu/labdata/data.txt.gz", "data.txt.gz", None),
        ("https://db.csail.mit.edu/labdata/mote_locs.txt", LOCATIONS, None),
    )

    def load(self, directories: Iterable[str]) -> Recording:
        """Read the Intel lab's recording of 46 motes and 1152 intervals; raises `DataError`."""
        from edge_tvbo_adapters.datasets.grid import fill_gaps

        directories = list(directories)
        path = find(directories, DATA, f"{self.name} is not on this machine. {ADVICE}")
        values, observed, motes = choose_motes(*valid_means(path))
        return Recording(
            name=self.name,
            unit="°C",
            objective="max",
            sensors=tuple(f"mote-{mote}" for mote in motes),
            start=datetime(2004, 3, DAYS[0], tzinfo=UTC).timestamp(),
            interval=INTERVAL,
            values=fill_gaps(values, observed),
            observed=observed,
            positions=read_positions(directories, motes),
            source="Measured at the Intel Berkeley Research Lab in 2004 (Bodik, Hong, Guestrin, "
            "Madden, Paskin and Thibaux), published without a licence at "
            f"db.csail.mit.edu/labdata; read from {path.name}.",
        )

    def fetch(self, directory: Path, progress: Progress) -> None:
        """Download the Intel lab's `data.txt.gz` and positions; raises `DataError`."""
        fetch_files(self.files, directory, progress)


def valid_means(path: Path) -> "Grid":
    """Return the 10-minute means of the Intel lab's motes, and whether each mean can be used.

    Returns
    -------
    values : float64[T, 54]
        Mean temperatures, °C.
    observed : bool[T, 54]
        Whether the mote has plausible samples in the interval, and a battery that is not low.
    """
    import numpy as np

    from edge_tvbo_adapters.datasets.grid import bin_means

    step, mote, reading, voltage = samples(path)
    shape = (len(interval_table()), MOTES)
    valid = (reading >= MIN_TEMPERATURE) & (reading <= MAX_TEMPERATURE) & np.isfinite(voltage)
    step, mote = step[valid], mote[valid]
    values, observed = bin_means(step, mote, reading[valid], shape)
    volts, _ = bin_means(step, mote, voltage[valid], shape)
    observed &= volts >= MIN_VOLTAGE  # the papers also use the interval's mean voltage
    if not observed.any():
        raise DataError(
            f"{path}: holds no valid reading of 2004-03-{DAYS[0]:02} to 2004-03-{DAYS[-1]:02}.\n"
            f"It may be another file, or a web page saved under this name. Remove it. {ADVICE}"
        )
    return values, observed


def choose_motes(
    values: "NDArray[np.float64]", observed: "NDArray[np.bool_]"
) -> "tuple[NDArray[np.float64], NDArray[np.bool_], list[int]]":
    """Return the columns and ids of the 46 Intel lab motes that have the most valid intervals.

    If two motes have the same number of valid intervals, the mote with the lower id is preferred.
    """
    import numpy as np

    count = observed.sum(axis=0)
    best = np.argsort(-count, kind="stable")[:KEPT_MOTES]
    kept = np.sort(best[count[best] > 0])
    return values[:, kept], observed[:, kept], [int(j) + 1 for j in kept]


def samples(
    path: Path,
) -> "tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]":
    """Return the samples of the Intel lab as four arrays of shape (n,).

    The arrays contain the number of the interval, the mote's id minus 1, the temperature in °C, and
    the voltage of the battery in V.
    """
    import numpy as np

    steps = interval_table()
    motes = {str(mote): mote - 1 for mote in range(1, MOTES + 1)}
    step, mote, reading, voltage = array("q"), array("q"), array("d"), array("d")
    for at, mote_id, celsius, volt in rows(path):
        if (t := steps.get(at)) is None or (j := motes.get(mote_id)) is None:
            continue
        try:
            sample = float(celsius), float(volt)
        except ValueError:
            continue  # a line truncated inside a number
        step.append(t)
        mote.append(j)
        reading.append(sample[0])
        voltage.append(sample[1])
    return (
        np.array(step, dtype=np.intp),
        np.array(mote, dtype=np.intp),
        np.array(reading, dtype=np.float64),
        np.array(voltage, dtype=np.float64),
    )


def interval_table() -> dict[str, int]:
    """Return a dict that maps a time's first 15 characters to the Intel lab's interval number.

    The last of these characters is the tens digit of the minutes, because an interval is 10 minutes
    long.

    >>> interval_table()["2004-03-02 01:2"]
    152
    """
    tens = product(DAYS, range(24), range(6))
    return {f"2004-03-{day:02} {hour:02}:{ten}": t for t, (day, hour, ten) in enumerate(tens)}


def rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file of the Intel lab: `data.txt` or `intel_lab_10min.csv`."""
    with open_text(path) as lines:
        yield from csv_rows(path, lines) if ".csv" in path.suffixes else raw_rows(lines)


def raw_rows(lines: Iterable[str]) -> Iterator[Row]:
    """Yield a row for each complete line of the Intel lab's file `data.txt`.

    A complete line is `date time epoch moteid temperature humidity light voltage`.
    """
    for line in lines:
        words = line.split()
        if len(words) == 8:
            yield line[:15], words[3], words[4], words[7]


def csv_rows(path: Path, lines: Iterator[str]) -> Iterator[Row]:
    """Yield the rows of `intel_lab_10min.csv`; the names in its header identify the columns."""
    header = next(lines, "").strip().split(",")
    if missing := [column for column in COLUMNS if column not in header]:
        raise DataError(
            f"{path}, line 1: there is no column {', '.join(missing)}; found {', '.join(header)}.\n"
            "Use the dataset 'csv' for another CSV file."
        )
    at, mote, reading, voltage = map(header.index, COLUMNS)
    for number, line in enumerate(lines, start=2):
        cells = line.strip().split(",")
        if len(cells) != len(header):
            raise DataError(
                f"{path}, line {number}: has {len(cells)} cells, but the first line has "
                f"{len(header)}.\nThe file is damaged; remove it and get it again."
            )
        yield cells[at][:15].replace("T", " "), cells[mote], cells[reading], cells[voltage]


def read_positions(directories: Iterable[str], motes: list[int]) -> "NDArray[np.float64] | None":
    """Return the positions of the Intel lab's motes, in m, as an array of shape (M, 2).

    Returns None if there is no `mote_locs.txt`.
    """
    import numpy as np

    path = look_for(directories, (LOCATIONS,))
    if path is None:
        return None
    verify(path)
    with open_text(path) as lines:
        places = _places(path, lines)
    if absent := [str(mote) for mote in motes if mote not in places]:
        raise DataError(
            f"{path}: has no line for mote {', '.join(absent)}; "
            "write lines '<mote> <x in m> <y in m>'. If you need no positions, remove the file."
        )
    return np.array([places[mote] for mote in motes], dtype=np.float64)


def _places(path: Path, lines: Iterable[str]) -> dict[int, tuple[float, float]]:
    """Return each Intel lab mote's position; raises `DataError` if a mote has two positions."""
    places: dict[int, tuple[float, float]] = {}
    first: dict[int, int] = {}  # line of each mote
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        mote, place = _place(path, number, line)
        if places.setdefault(mote, place) != place:
            raise DataError(
                f"{path}, lines {first[mote]} and {number}: mote {mote} has two positions; "
                "remove one of the lines."
            )
        first.setdefault(mote, number)
    return places


def _place(path: Path, number: int, line: str) -> tuple[int, tuple[float, float]]:
    try:
        mote, x, y = line.split()
        return int(mote), (float(x), float(y))
    except ValueError:
        raise DataError(
            f"{path}, line {number}: found {line.strip()!r}; a line is '<mote> <x in m> <y in m>'."
        ) from None


dataset = IntelLab()
