"""The Intel Berkeley Research Lab, 2004: temperature at 54 motes in an office of 40 x 30 m.

Two files hold it: the publisher's `data.txt`, one line a sample, and `intel_lab_10min.csv`, the
same already averaged over 10 minutes. Both lead to the recording of the papers: 46 motes,
2004-03-01 to 2004-03-08, 1152 intervals.

The publisher's text is as the motes left it: not sorted, lines cut short, mote ids that no mote
had, and batteries that below about 2.35 V report up to 122 °C.
"""

from array import array
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from edge_tvbo.errors import DataError
from edge_tvbo_adapters.datasets.fetch import (
    Progress,
    RemoteFile,
    fetch_files,
    find,
    look_for,
    verify,
)
from edge_tvbo_adapters.datasets.recording import GridRecording, bin_means, fill_gaps, open_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Grid = tuple[NDArray[np.float64], NDArray[np.bool_]]

Row = tuple[str, str, str, str]  # "2004-03-01?00:1", mote, °C, V, as written

MOTES = 54  # the lab's motes are 1..54
KEPT = 46
DAYS = range(1, 9)  # of March 2004
INTERVAL = 600.0  # s
LOWEST_VOLTAGE = 2.35  # V; below, the thermometers drift upwards
LOWEST, HIGHEST = -10.0, 60.0  # °C

DATA = ("intel_lab_10min.csv.gz", "intel_lab_10min.csv", "data.txt.gz", "data.txt")
LOCATIONS = "mote_locs.txt"
COLUMNS = ("timestamp", "mote_id", "temperature_c", "voltage")
ADVICE = "Get it:  edge-tvbo data fetch intel-lab\nor say where it is with --data-dir."


class IntelLab:
    """The dataset `intel-lab`."""

    name = "intel-lab"
    summary = "46 motes in the Intel Berkeley lab, temperature, 10 min, 8 days of March 2004"
    url: str | None = "http://db.csail.mit.edu/labdata/data.txt.gz"
    files: tuple[RemoteFile, ...] = (
        ("http://db.csail.mit.edu/labdata/data.txt.gz", "data.txt.gz", None),
        ("https://db.csail.mit.edu/labdata/mote_locs.txt", LOCATIONS, None),
    )

    def load(self, directories: Iterable[str]) -> GridRecording:
        """Read the 46 x 1152 recording; raises `DataError`."""
        directories = list(directories)
        path = find(directories, DATA, f"{self.name} is not here. {ADVICE}")
        values, observed, motes = choose_motes(*screen(path))
        return GridRecording(
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
        """Download the publisher's text and the motes' places; raises `DataError`."""
        fetch_files(self.files, directory, progress)


def screen(path: Path) -> "Grid":
    """Give the 10-minute means of all motes, and which are there and from a sound battery.

    Returns
    -------
    values : float64[T, 54], °C
    observed : bool[T, 54]
    """
    import numpy as np

    step, mote, reading, voltage = samples(path)
    shape = (len(step_of()), MOTES)
    sound = (reading >= LOWEST) & (reading <= HIGHEST) & np.isfinite(voltage)
    step, mote = step[sound], mote[sound]
    values, observed = bin_means(step, mote, reading[sound], shape)
    volts, _ = bin_means(step, mote, voltage[sound], shape)
    observed &= volts >= LOWEST_VOLTAGE  # of the bin, as in the papers' arrays
    if not observed.any():
        raise DataError(
            f"{path}: holds no sound reading of 2004-03-{DAYS[0]:02} to 2004-03-{DAYS[-1]:02}.\n"
            f"It may be another file, or a web page saved under its name. Remove it. {ADVICE}"
        )
    return values, observed


def choose_motes(
    values: "NDArray[np.float64]", observed: "NDArray[np.bool_]"
) -> "tuple[NDArray[np.float64], NDArray[np.bool_], list[int]]":
    """Keep the motes with most good intervals; the lower id wins a tie."""
    import numpy as np

    count = observed.sum(axis=0)
    best = np.argsort(-count, kind="stable")[:KEPT]
    kept = np.sort(best[count[best] > 0])
    return values[:, kept], observed[:, kept], [int(j) + 1 for j in kept]


def samples(
    path: Path,
) -> "tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]":
    """Give interval, mote - 1, °C and V of each sample in the days kept."""
    import numpy as np

    steps = step_of()
    motes = {str(mote): mote - 1 for mote in range(1, MOTES + 1)}
    step, mote, reading, voltage = array("q"), array("q"), array("d"), array("d")
    for at, who, celsius, volt in rows(path):
        if (t := steps.get(at)) is None or (j := motes.get(who)) is None:
            continue
        try:
            sample = float(celsius), float(volt)
        except ValueError:
            continue  # a line cut short inside a number
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


def step_of() -> dict[str, int]:
    """Give the interval of a time by its first 15 characters: the date, the hour, tens of minutes.

    >>> step_of()["2004-03-02 01:2"]
    152
    """
    tens = product(DAYS, range(24), range(6))
    return {f"2004-03-{day:02} {hour:02}:{ten}": t for t, (day, hour, ten) in enumerate(tens)}


def rows(path: Path) -> Iterator[Row]:
    """Give the rows of either file."""
    with open_text(path) as lines:
        yield from csv_rows(path, lines) if ".csv" in path.suffixes else raw_rows(lines)


def raw_rows(lines: Iterable[str]) -> Iterator[Row]:
    """Give the whole lines of `date time epoch moteid temperature humidity light voltage`."""
    for line in lines:
        words = line.split()
        if len(words) == 8:
            yield line[:15], words[3], words[4], words[7]


def csv_rows(path: Path, lines: Iterator[str]) -> Iterator[Row]:
    """Give the rows of `intel_lab_10min.csv`, its columns found by name."""
    header = next(lines, "").strip().split(",")
    if missing := [column for column in COLUMNS if column not in header]:
        raise DataError(
            f"{path}, line 1: there is no column {', '.join(missing)}; found {', '.join(header)}.\n"
            "Another CSV file can be read as the dataset 'csv'."
        )
    at, mote, reading, voltage = map(header.index, COLUMNS)
    for number, line in enumerate(lines, start=2):
        cells = line.strip().split(",")
        if len(cells) != len(header):
            raise DataError(
                f"{path}, line {number}: has {len(cells)} cells where the first line has "
                f"{len(header)}.\nThe file is damaged; remove it and get it again."
            )
        yield cells[at][:15].replace("T", " "), cells[mote], cells[reading], cells[voltage]


def read_positions(directories: Iterable[str], motes: list[int]) -> "NDArray[np.float64] | None":
    """Give x and y of each mote in metres; None where there is no `mote_locs.txt`."""
    import numpy as np

    path = look_for(directories, (LOCATIONS,))
    if path is None:
        return None
    verify(path)
    with open_text(path) as lines:
        places = dict(
            _place(path, number, line) for number, line in enumerate(lines, 1) if line.strip()
        )
    if absent := [str(mote) for mote in motes if mote not in places]:
        raise DataError(
            f"{path}: has no line for mote {', '.join(absent)}; "
            "a line is '<mote> <x in m> <y in m>'. Remove the file to do without positions."
        )
    return np.array([places[mote] for mote in motes], dtype=np.float64)


def _place(path: Path, number: int, line: str) -> tuple[int, tuple[float, float]]:
    try:
        mote, x, y = line.split()
        return int(mote), (float(x), float(y))
    except ValueError:
        raise DataError(
            f"{path}, line {number}: found {line.strip()!r}; a line is '<mote> <x in m> <y in m>'."
        ) from None


dataset = IntelLab()
