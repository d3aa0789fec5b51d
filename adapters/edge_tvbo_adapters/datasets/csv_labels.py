"""Labels in CSV files: words or whole numbers that distinguish readings of a sensor.

A label usually names the measured quantity, such as temperature or humidity, or its unit. If no
other column contains the sensor of a reading, a label can also be the sensor. The checks of this
module raise an error in three cases:

- the readings have several units;
- readings with the same or nearly the same time but different labels would be averaged;
- a sensor's readings of several quantities alternate, and would be used as one quantity.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import DataError
from edge_tvbo_adapters.datasets.csv_values import EMPTY, is_number

UNITS = ("unit", "units", "unit_of_measurement", "einheit")
MAX_CHANNELS = 16  # largest number of different whole numbers in a column of labels
MIN_SHARED = 0.1  # share of rows with a repeated time; if it is smaller, labels are not checked
MIN_NEAR = 0.5  # like MIN_SHARED, but for nearly the same time, which is less certain evidence
MAX_NEAR_SHARE = 0.25  # of the mean time between two labels; times that differ by less are near
MIN_ALTERNATING = 0.9  # share of a sensor's readings with another label than the previous one
MIN_EXPLAINED = 0.9  # share of the variance of alternating readings that their labels explain
MIN_DATE_PERIOD_S = 0.9 * 86_400.0  # labels with at least this period may follow from the date
MIN_READINGS = 4  # per sensor and label, on average; with fewer readings, labels are not compared


class CsvLabels:
    """The words or whole numbers in the label columns of a CSV file.

    Parameters
    ----------
    header : sequence of str
        Names of all columns of the file.
    candidates : iterable of int
        Numbers of the columns that may be labels.
    head : sequence of rows
        The first rows of the file. A column that has only words in these rows contains labels.
    is_long : bool
        Whether the file has a row for each reading. In such a file, a column with only a few
        different whole numbers, such as the channels of a sensor, contains labels, too. The numbers
        in all rows are counted, because the file may be sorted by the numbers.
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
        cells = {column: [row[column] for row in head] for column in candidates}
        words = {column for column, texts in cells.items() if _has_words(texts)}
        self._numbers = {column for column in cells if is_long and _has_channels(cells[column])}
        self._codes: dict[int, dict[str, int]] = {
            column: {} for column in cells if column in words | self._numbers
        }
        self._rows: dict[int, list[int]] = {column: [] for column in self._codes}

    def add(self, row: Sequence[str]) -> None:
        """Add the labels of one CSV row."""
        for column, codes in self._codes.items():
            self._rows[column].append(codes.setdefault(row[column].strip(), len(codes)))
        for column in [each for each in self._numbers if len(self._codes[each]) > MAX_CHANNELS]:
            self._numbers.remove(column)
            del self._codes[column], self._rows[column]

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
        sensor: Sequence[int] | None = None,
    ) -> None:
        """Raise `DataError` if most CSV rows with the same time and sensor have different labels.

        In a long file, rows of a sensor with nearly the same time are checked, too: the sensor may
        send several quantities one after another. `sensor` is the number of each row's sensor; None
        if no column names the sensors.
        """
        if not self._codes or not times:
            return
        at, is_wide = np.array(times, np.float64), sensor is None
        arm = np.zeros(len(at), np.intp) if sensor is None else np.array(sensor)
        _, group = np.unique(at, return_inverse=True)
        group = group * (arm.max() + 1) + arm
        for column in self._codes:
            if rows := self._apart(column, group, MIN_SHARED):
                raise self._averaged(path, lines, column, rows, "the same time", is_wide=is_wide)
        for column in () if is_wide else self._codes:
            packet = _packets(at, arm, np.array(self._rows[column]))
            if rows := self._apart(column, packet, MIN_NEAR):
                same = "nearly the same time"
                raise self._averaged(path, lines, column, rows, same, is_wide=False)

    def check_alternation(
        self,
        path: Path,
        times: NDArray[np.float64],
        lines: Sequence[int],
        sensor: NDArray[np.intp],
        reading: NDArray[np.float64],
    ) -> None:
        """Raise `DataError` if the labels and the values of a sensor's CSV readings alternate.

        A sensor may alternate between quantities: it may send the temperature and, five minutes
        later, the humidity. Labels that follow from the date, such as the day of the week, are not
        quantities. Therefore labels that recur only after about a day or longer are not checked.
        `times` are in s, and `reading` is NaN for an empty cell of a long CSV file.
        """
        if not self._codes or not len(times):
            return
        known = np.flatnonzero(~np.isnan(reading))
        rows = known[np.lexsort((times[known], sensor[known]))]
        for column, codes in self._codes.items():
            label = np.array(self._rows[column])
            key = sensor * len(codes) + label
            labels = np.bincount(np.unique(key[rows]) // len(codes), minlength=sensor.max() + 1)
            mixed = rows[labels[sensor[rows]] > 1]  # readings of sensors with several labels
            if not len(mixed) or len(mixed) < MIN_READINGS * len(np.unique(key[mixed])):
                continue
            within = np.diff(sensor[mixed]) == 0
            alternates = within & (np.diff(label[mixed]) != 0)
            is_quantity = (
                alternates.sum() >= MIN_ALTERNATING * within.sum()
                and _usual_time(times[mixed], key[mixed]) < MIN_DATE_PERIOD_S
                and _explained(reading[mixed], sensor[mixed], key[mixed]) >= MIN_EXPLAINED
            )
            if is_quantity:
                at = int(np.flatnonzero(alternates)[0])
                raise self._mixed(path, lines, column, (int(mixed[at]), int(mixed[at + 1])))

    def _apart(
        self, column: int, group: NDArray[np.intp], min_shared: float
    ) -> tuple[int, int] | None:
        """Return two CSV rows of the same group that have different labels in `column`.

        `group` contains the number of each row's group. A row is shared if its group has at least
        two rows. Returns None in three cases:

        - the share of shared rows is less than `min_shared`;
        - fewer than half of the shared rows have a label that occurs only once in their group;
        - the number of different labels is more than half of the number of rows.
        """
        label, count = np.array(self._rows[column]), len(self._codes[column])
        shared = _repetitions(group) > 1
        apart = shared & (_repetitions(group * count + label) == 1)
        if shared.mean() < min_shared or 2 * apart.sum() < shared.sum() or 2 * count > len(group):
            return None
        row = int(np.flatnonzero(apart)[0])
        other = int(np.flatnonzero((group == group[row]) & (label != label[row]))[0])
        return min(row, other), max(row, other)

    def _averaged(
        self,
        path: Path,
        lines: Sequence[int],
        column: int,
        rows: tuple[int, int],
        same: str,
        *,
        is_wide: bool,
    ) -> DataError:
        words = list(self._codes[column])
        one, other = (words[self._rows[column][row]] for row in rows)
        name = self._header[column]
        keep = (
            "keep only the rows with one of these words or numbers, or remove the column to "
            "average the readings."
        )
        advice = (
            f"If the column has the names of the sensors, call it 'sensor' instead of {name!r}; "
            f"otherwise {keep}"
            if is_wide
            else keep.capitalize()
        )
        return DataError(
            f"{path}, line {lines[rows[1]]}: has {same}{'' if is_wide else ' and sensor'} as "
            f"line {lines[rows[0]]}; in the column {name!r}, the two lines have {one!r} and "
            f"{other!r}. {advice}"
        )

    def _mixed(
        self, path: Path, lines: Sequence[int], column: int, rows: tuple[int, int]
    ) -> DataError:
        words = list(self._codes[column])
        one, other = (words[self._rows[column][row]] for row in rows)
        return DataError(
            f"{path}, line {lines[rows[1]]}: in the column {self._header[column]!r}, the line has "
            f"{other!r}, and the previous reading of the sensor, in line {lines[rows[0]]}, has "
            f"{one!r}. The readings of each sensor alternate in this way, and their values "
            "alternate, too. So the readings seem to be of different quantities. Keep only the "
            "rows with one of these words or numbers, or remove the column to use all readings."
        )


def _has_words(cells: Iterable[str]) -> bool:
    """Return whether the cells of a CSV column contain words and no numbers."""
    texts = [text for cell in cells if (text := cell.strip()).lower() not in EMPTY]
    return bool(texts) and not any(map(is_number, texts))


def _has_channels(cells: Iterable[str]) -> bool:
    """Return whether the cells of a CSV column have only a few different whole numbers."""
    texts = {text for cell in cells if (text := cell.strip()).lower() not in EMPTY}
    return 0 < len(texts) <= MAX_CHANNELS and all(text.isdigit() for text in texts)


def _usual_time(at: NDArray[np.float64], key: NDArray[np.intp]) -> float:
    """Return the median time between successive CSV rows that have the same `key`.

    `at` contains the times of the rows; the result has their unit. Returns 0 if no two rows have
    the same `key`.
    """
    order = np.lexsort((at, key))
    between = np.diff(at[order])[np.diff(key[order]) == 0]
    return float(np.median(between)) if len(between) else 0.0


def _explained(
    reading: NDArray[np.float64], sensor: NDArray[np.intp], key: NDArray[np.intp]
) -> float:
    """Return the share of the variance of CSV readings that their labels explain, 0 to 1.

    A group contains the readings of one sensor that have the same label; `key` contains the number
    of each reading's group. The variance is the sum of the squared deviations of all readings from
    the mean of their sensor. The unexplained part is the sum of the squared deviations of all
    readings from the mean of their group.
    """

    def squares(group: NDArray[np.intp]) -> float:
        count = np.maximum(np.bincount(group), 1)
        mean = np.bincount(group, weights=reading) / count
        return float(((reading - mean[group]) ** 2).sum())

    total = squares(sensor)
    return 1.0 - squares(key) / total if total else 0.0


def _packets(
    at: NDArray[np.float64], sensor: NDArray[np.intp], label: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the packet number of each CSV row, as an array (n,).

    A packet contains rows of a sensor that follow one another quickly: the time from one row to the
    next is at most the fraction `MAX_NEAR_SHARE` of t / n. The time t is the usual time between two
    rows of a sensor with the same label; n is the mean number of labels per sensor. So t / n is
    about the mean time between two rows of a sensor.
    """
    key = sensor * (label.max() + 1) + label
    labels = len(np.unique(key)) / len(np.unique(sensor))
    near = MAX_NEAR_SHARE * _usual_time(at, key) / labels
    order = np.lexsort((at, sensor))
    begins = (np.diff(sensor[order]) != 0) | (np.diff(at[order]) > near)
    packet = np.zeros(len(at), np.intp)
    packet[order[1:]] = np.cumsum(begins)
    return packet


def _repetitions(keys: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return how often each of the `keys` of the CSV rows occurs, as an array (n,)."""
    _, index, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return np.asarray(counts[index])
