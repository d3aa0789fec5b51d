"""Readings in CSV files: numbers as people write them, empty cells, and codes for "no reading"."""

import re
from collections import Counter
from collections.abc import Sequence
from math import inf, isinf, nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import DataError

EMPTY = frozenset(
    {"", "nan", "na", "n/a", "#n/a", "#nv", "null", "none", "-", "--", "?"}
    | {"unavailable", "unknown", "undefined", "missing"}  # written by Home Assistant and Grafana
)
CODES = (-999.0, -999.9, -9999.0, -99999.0, -32768.0, -127.0, 9999.0, 99999.0)  # no reading
MIN_FILL_VALUE = 1e20  # a number this large may be a fill value: 9.96921e36 in netCDF files
MAX_BESIDE_FILL = 1e14  # largest other number in a file with a fill value
HUNDREDS = re.compile(r"\s*-?[1-9]\d{2}\s*")  # 100 to 999: no thousands separator is needed
THOUSANDS = re.compile(r"-?[1-9]\d{0,2},\d{3}")
POINT_THOUSANDS = re.compile(r"-?\d{1,3}(?:\.\d{3})+(?:,\d+)?")
MIN_CODE_DISTANCE = 2.0  # distance of a code from the other readings, in units of their range


class ValueReader:
    """Parser of the readings in a CSV file, with a decimal point or a decimal comma."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._commas = self._points = 0  # first line with a decimal comma; with a decimal point
        self._hundreds = 0  # first line that matches `HUNDREDS`, if no earlier line has a point
        self._all_thousands = True  # whether each comma may be a thousands separator
        self._words: dict[str, tuple[int, str]] = {}  # each sensor's first word, with its line
        self._counts: dict[str, Counter[str]] = {}  # counts of each sensor's words

    def read(self, number: int, cells: Sequence[str], sensors: Sequence[str]) -> list[float]:
        """Return the readings in the cells of one CSV row, NaN for a cell without a number.

        `sensors` names the sensor of each cell. Raises `DataError` for an infinite number.
        """
        if not self._points:
            if any("." in cell and _has_point(cell.strip()) for cell in cells):
                self._points = number
            if not self._hundreds and any(map(HUNDREDS.fullmatch, cells)):
                self._hundreds = number
        try:
            values = [number_of(cell) if cell else nan for cell in cells]
        except ValueError:
            pairs = zip(cells, sensors, strict=True)
            values = [self._value(number, cell, sensor) for cell, sensor in pairs]
        if inf in values or -inf in values:
            j = next(j for j, value in enumerate(values) if isinf(value))
            raise self._not_a_number(number, cells[j], sensors[j])
        return values

    def words_only(self, with_numbers: set[str]) -> list[str]:
        """Return the CSV columns that hold words and no number, and so are not sensors.

        `with_numbers` names the columns that hold a number. Raises `DataError` for a word in one of
        these columns, or if some readings have a decimal comma and others a point.
        """
        for sensor, (number, cell) in self._words.items():
            if sensor in with_numbers or not with_numbers:
                raise self._not_a_number(number, cell, sensor)
        if self._commas and self._points:
            raise DataError(
                f"{self._path}: line {self._commas} has a decimal comma, and line {self._points} "
                "a decimal point; use only one of the two, and no thousands separators."
            )
        if self._commas and self._hundreds and self._all_thousands:
            raise DataError(
                f"{self._path}: the comma in line {self._commas} may separate thousands, because "
                f"line {self._hundreds} has a number of at least 100 without a comma. If the "
                "comma separates thousands, remove all such commas. If it is a decimal comma, "
                "write one in each number."
            )
        return list(self._words)

    def labels(self, columns: Sequence[str], rows: int) -> list[str]:
        """Return the CSV `columns` that have a word in more than half of the rows.

        `rows` is the number of rows. A column is left out if all its words are the same.
        """
        counts = {name: self._counts[name] for name in columns}
        return [name for name, each in counts.items() if len(each) > 1 and 2 * each.total() > rows]

    def _value(self, number: int, cell: str, sensor: str) -> float:
        text = cell.strip()
        if text.lower() in EMPTY:
            return nan
        if text.count(",") == 1 and "." not in text:
            self._commas = self._commas or number
            self._all_thousands &= bool(THOUSANDS.fullmatch(text))
            text = text.replace(",", ".")
        try:
            return number_of(text)
        except ValueError:
            self._words.setdefault(sensor, (number, cell))
            self._counts.setdefault(sensor, Counter())[text] += 1
            return nan

    def _not_a_number(self, number: int, cell: str, sensor: str) -> DataError:
        return DataError(
            f"{self._path}, line {number}: {sensor} has {cell!r}; write a finite number without "
            "a unit, or leave the cell empty where there is no reading."
        )


def _has_point(text: str) -> bool:
    """Return whether a CSV cell's text is a number; the text is known to contain a point."""
    return is_number(text) or POINT_THOUSANDS.fullmatch(text) is not None


def number_of(text: str) -> float:
    """Return the number in the text of a CSV cell; raise ValueError if the text is not a number.

    Underscores, as in 2026_03_02, and digits other than 0 to 9 are not allowed, though `float`
    reads them.

    >>> number_of("21.5")
    21.5
    """
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)


def is_number(text: str) -> bool:
    """Return whether the text of a CSV cell is a number, with a decimal point or a decimal comma.

    >>> is_number("21,5"), is_number("hall")
    (True, False)
    """
    try:
        number_of(text.replace(",", ".", 1))
    except ValueError:
        return False
    return True


def without_codes(reading: NDArray[np.float64]) -> tuple[NDArray[np.float64], dict[float, int]]:
    """Return CSV readings with NaN in place of codes such as -999, and how often each code occurs.

    A code is far below or far above all other readings. It is one of `CODES`, or a fill value: the
    absolute value of a fill value is at least `MIN_FILL_VALUE`, and the absolute values of all
    other numbers are at most `MAX_BESIDE_FILL`.

    >>> import numpy as np
    >>> without_codes(np.array([20.0, -999.0, 25.0]))
    (array([20., nan, 25.]), {-999.0: 1})
    >>> without_codes(np.array([-1200.0, -999.0, 700.0]))[1]
    {}
    >>> without_codes(np.array([9.96921e36, 20.0, 25.0]))[1]
    {9.96921e+36: 1}
    >>> without_codes(np.array([2e20, 5e19, 3e20]))[1]
    {}
    """
    size = np.abs(reading)
    is_large = size >= MIN_FILL_VALUE
    is_code = np.isin(reading, CODES)
    if len(np.unique(reading[is_large])) == 1 and not (size[~is_large] > MAX_BESIDE_FILL).any():
        is_code |= is_large
    others = reading[~is_code & ~np.isnan(reading)]
    if not is_code.any() or not len(others):
        return reading, {}
    lowest, highest = float(others.min()), float(others.max())
    far = MIN_CODE_DISTANCE * (highest - lowest)
    is_code &= (reading < lowest - far) | (reading > highest + far)
    codes, counts = np.unique(reading[is_code], return_counts=True)
    found = dict(zip(codes.tolist(), counts.tolist(), strict=True))
    return np.where(is_code, np.nan, reading), found
