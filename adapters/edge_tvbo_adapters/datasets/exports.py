"""Exports of recorded readings: CSV, Parquet and InfluxDB line protocol."""

import gzip
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

from edge_tvbo.errors import MissingExtra, naming_file
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.messages.readings import RecordedReading, RecordedReadings
from edge_tvbo.simulation.recording import Recording
from edge_tvbo_adapters.datasets.csv_columns import ALL_SENSORS, needs_mark

EXPORTED_ROWS = 1000  # number of rows that are converted to lists in one step


def csv_lines(recording: Recording) -> Iterator[str]:
    """Yield the lines of an export as wide CSV: a time, and the mean reading of each sensor.

    A cell is empty if the sensor was not read; an interval without any reading has no row. The
    dataset `csv` does not read a column such as ``battery`` as a sensor. If a sensor has such an
    id, the first line of the export says that all columns are sensors.
    """
    header = ",".join(["time", *recording.sensors])
    if needs_mark(header):
        yield f"{ALL_SENSORS}\n"
    yield f"{header}\n"
    for row, (values, observed) in enumerate(_rows(recording)):
        if any(observed):
            pairs = zip(values, observed, strict=True)
            cells = [repr(value) if has else "" for value, has in pairs]
            at = recording.start + row * recording.interval
            yield ",".join([rfc3339(at), *cells]) + "\n"


def _rows(recording: Recording) -> Iterator[tuple[list[float], list[bool]]]:
    """Yield the values of each row of an export, and which of them were observed.

    Lists take several times the memory of an array. Therefore only `EXPORTED_ROWS` rows at a time
    are converted to lists.
    """
    for first in range(0, len(recording.values), EXPORTED_ROWS):
        rows = slice(first, first + EXPORTED_ROWS)
        pairs = recording.values[rows].tolist(), recording.observed[rows].tolist()
        yield from zip(*pairs, strict=True)


def influxdb_lines(readings: Iterable[RecordedReading]) -> Iterator[str]:
    r"""Yield the lines of an export for InfluxDB; the measurement is the name of the field.

    >>> next(influxdb_lines([RecordedReading("lab", "mote-1", 1772438400.5, 21.25)]))
    'lab,sensor=mote-1 value=21.25 1772438400500000000\n'
    """
    for field, sensor, at, value, _ in readings:
        tag = re.sub(r"([,= ])", r"\\\1", sensor)
        yield f"{field},sensor={tag} value={value!r} {round(at * 1000) * 1_000_000}\n"


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a dataset's export as a text file, which is compressed if its name ends in .gz.

    An older file is replaced only when the new file is complete.
    """
    is_compressed = path.name.lower().endswith(".gz")
    with _replacement(path) as beside, beside.open("wb") as file:
        # The header of a compressed file names the unpacked file, and not `beside`:
        content = gzip.GzipFile(path.stem, "wb", fileobj=file) if is_compressed else file
        with TextIOWrapper(content, "utf-8", newline="") as text:
            text.writelines(lines)


@contextmanager
def _replacement(path: Path) -> Iterator[Path]:
    """Provide the path of a new file, which replaces the export `path` after the `with` block.

    After an exception, the new file is removed. The text of a disk error names `path`.
    """
    beside = path.with_name(f"{path.name}.new")
    try:
        with naming_file(path):
            yield beside
            beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def check_parquet() -> None:
    """Raise `MissingExtra` if the package for exports of readings to Parquet is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401 - imported only to check that it is installed
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet") from error


def write_parquet(path: Path, readings: RecordedReadings) -> None:
    """Export readings to a Parquet file with the columns time (UTC, in ms), sensor and value.

    An older file is replaced only when the new file is complete.
    """
    import pyarrow as pa
    from pyarrow import parquet

    times = [round(at * 1000) for at in readings.at.tolist()]
    table = pa.table(
        {
            "time": pa.array(times, pa.timestamp("ms", "UTC")),
            "sensor": pa.DictionaryArray.from_arrays(readings.sensor, readings.sensors),
            "value": pa.array(readings.value, pa.float64()),
        }
    )
    with _replacement(path) as beside:
        parquet.write_table(table, beside)
