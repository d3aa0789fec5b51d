"""Labels in CSV files: columns of words or whole numbers by which readings of one time differ.

Such readings must not be averaged. A label is the quantity that was read, such as temperature or
humidity. If no other column contains the sensor of a reading, a label can also be the sensor.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edge_tvbo.errors import DataError
from edge_tvbo_adapters.datasets.csv_values import EMPTY, is_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNITS = ("unit", "units", "unit_of_measurement", "einheit")
MAX_CHANNELS = 16  # largest number of different whole numbers in a column of labels
MIN_SHARED = 0.1  # share of rows with a repeated time; if it is smaller, labels are not checked


class Labels:
    """The words or whole numbers in the label columns of a CSV file.

    Parameters
    ----------
    header : sequence of str
        Names of all columns of the file.
    candidates : iterable of int
        Numbers of the columns that may be labels.
    head : sequence of rows
        The first rows of the file. A column is a label if it has only words in them.
    is_long : bool
        Whether the file has a row for each reading. Then a column is also a label if it has a few
        different whole numbers in these rows, such as the channels of a sensor.
    """

    def __init__(
        self,
        header: Sequence[str],
        candidates: Iterable[int],
        head: Sequence[Sequence[str]],
        *,
        is_long: bool,
    ) -> None:
        self._header = header
        self._codes: dict[int, dict[str, int]] = {
            column: {}
            for column in candidates
            if _has_words(cells := [row[column] for row in head])
            or (is_long and _has_channels(cells))
        }
        self._rows: dict[int, list[int]] = {column: [] for column in self._codes}

    def add(self, row: Sequence[str]) -> None:
        """Add the labels of one CSV row."""
        for column, codes in self._codes.items():
            self._rows[column].append(codes.setdefault(row[column].strip(), len(codes)))

    def check_units(self, path: Path, lines: Sequence[int]) -> None:
        """Raise `DataError` if the CSV rows have several units; `lines` are their line numbers."""
        for column, codes in self._codes.items():
            units = [each for each in codes if each]
            if self._header[column].lower() in UNITS and len(units) > 1:
                first, other = (lines[self._rows[column].index(codes[each])] for each in units[:2])
                raise DataError(
                    f"{path}, line {other}: the {self._header[column]} is {units[1]!r}, and in line"
                    f" {first} it is {units[0]!r}; convert all readings to one unit, or keep the "
                    "rows of one unit."
                )

    def check_times(
        self,
        path: Path,
        times: Sequence[float],
        lines: Sequence[int],
        sensor: "Sequence[int] | None" = None,
    ) -> None:
        """Raise `DataError` if most CSV rows with the same time and sensor differ in a label.

        `sensor` is the number of each row's sensor; None if no column names the sensors.
        """
        import numpy as np

        if not self._codes or not times:
            return
        _, group = np.unique(times, return_inverse=True)
        if sensor is not None:
            group = group * (max(sensor) + 1) + np.array(sensor)
        shared = _repetitions(group) > 1
        if shared.mean() < MIN_SHARED:
            return
        for column, codes in self._codes.items():
            label = np.array(self._rows[column])
            apart = shared & (_repetitions(group * len(codes) + label) == 1)
            if 2 * apart.sum() >= shared.sum() and 2 * len(codes) <= len(group):
                row = int(np.flatnonzero(apart)[0])
                other = int(np.flatnonzero((group == group[row]) & (label != label[row]))[0])
                rows = min(row, other), max(row, other)
                raise self._averaged(path, lines, column, rows, is_wide=sensor is None)

    def _averaged(
        self,
        path: Path,
        lines: Sequence[int],
        column: int,
        rows: tuple[int, int],
        *,
        is_wide: bool,
    ) -> DataError:
        words = list(self._codes[column])
        one, other = (words[self._rows[column][row]] for row in rows)
        name = self._header[column]
        advice = (
            f"If the column names the sensors, call it 'sensor' instead of {name!r}; otherwise keep"
            if is_wide
            else "Keep"
        )
        return DataError(
            f"{path}, line {lines[rows[1]]}: has the same time"
            f"{'' if is_wide else ' and sensor'} as line {lines[rows[0]]}; in the column {name!r}, "
            f"the two lines have {one!r} and {other!r}. {advice} only the rows with one of these "
            "words or numbers, or remove the column to average the readings."
        )


def _has_words(cells: Iterable[str]) -> bool:
    """Return whether the cells of a CSV column have words, and no number."""
    texts = [text for cell in cells if (text := cell.strip()).lower() not in EMPTY]
    return bool(texts) and not any(map(is_number, texts))


def _has_channels(cells: Iterable[str]) -> bool:
    """Return whether the cells of a CSV column have a few different whole numbers only."""
    texts = {text for cell in cells if (text := cell.strip()).lower() not in EMPTY}
    return 1 < len(texts) <= MAX_CHANNELS and all(text.isdigit() for text in texts)


def _repetitions(keys: "NDArray[np.intp]") -> "NDArray[np.intp]":
    """Return how often each of the `keys` of the CSV rows occurs, as an array (n,)."""
    import numpy as np

    _, index, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return np.asarray(counts[index])
