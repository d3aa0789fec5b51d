"""Times in CSV files: the formats in which people write them, and a parser of a time column."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path

import msgspec

from edge_tvbo.errors import DataError
from edge_tvbo_adapters.datasets.csv_values import number_of

DEFAULT_COUNT_INTERVAL = 60.0  # s per step, if a file contains step counts instead of times
UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}  # units in the names of files
STEP_NAMES = ("step", "interval", "index")  # columns of step counts
DATE_NAMES = ("date", "datetime", "datum", "day", "tag")  # columns of dates
EPOCH_UNITS = {"seconds": 1.0, "milliseconds": 1e-3, "microseconds": 1e-6, "nanoseconds": 1e-9}
EPOCH_STARTS = {"nanoseconds": 1e17, "microseconds": 1e14, "milliseconds": 1e11, "seconds": 1e8}
NUMERIC = (*EPOCH_UNITS, "count")
DAY_FIRST, MONTH_FIRST = "day-first", "month-first"
EXCEL_DAYS = (20_000.0, 80_000.0)  # 1954 to 2119, in days since 1899-12-30
COMPACT = re.compile(r"(?:19|20)\d{6}(?:[ T]?\d{4}(?:\d\d)?)?")  # 20260302, 202603020800
NUMBERED_DAY = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d\d)(?:[ ,T]+(.*))?")
TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d{1,6}))?)?(?: ?([AaPp])\.?[Mm]\.?)?")
SCIENTIFIC = re.compile(r"-?\d+(?:[.,](\d*))?[eE]\+?(\d+)")  # 1.77241E+12
SPREADSHEET_DIGITS = 6  # digits of a number that a spreadsheet shows with an exponent
ALLOWED = (
    "2026-03-02T08:00:00Z, 02.03.2026 08:00, seconds or milliseconds since 1970, or a step count"
)


class TimeFormat(msgspec.Struct, frozen=True):
    """Format of the times in a CSV file."""

    kind: str  # a key of EPOCH_UNITS, "count", "iso", "compact", DAY_FIRST or MONTH_FIRST
    naive: bool = False  # whether there are dates without a time zone
    zoned: bool = False  # whether there are dates with a time zone


class TimeParser:
    """Parser of the time column of a CSV file.

    The first timestamps determine the format of all timestamps.

    Parameters
    ----------
    path : Path
        The file, for error texts.
    header : str
        Name of the column.
    sample : sequence of str
        The first timestamps of the file. They determine the order of day and month.
    """

    def __init__(self, path: Path, header: str, sample: Sequence[str] = ()) -> None:
        self._path = path
        self._header = header.lower()
        self._counts = self._header in STEP_NAMES
        self._sample = sample
        self._kind: str | None = None
        self._naive = self._zoned = False
        self._known: dict[str, float] = {}

    def time_format(self) -> TimeFormat:
        """Return the format of the CSV times that were parsed."""
        return TimeFormat(self._kind or "count", self._naive, self._zoned)

    def read(self, number: int, text: str) -> float:
        """Return the time in a CSV row: the time since 1970 in the file's unit, or a step count."""
        at = self._known.get(text)
        if at is None:
            at = self._known[text] = self._parse(number, text.strip())
        return at

    def _parse(self, number: int, text: str) -> float:
        if self._kind is None:
            self._kind = self._first_kind(number, text)
        try:
            if self._kind in NUMERIC:
                at = number_of(text)
                if isfinite(at):
                    return at
                raise ValueError(text)
            moment = moment_of(text, self._kind)
        except ValueError:
            raise self._unreadable(number, text) from None
        if moment.tzinfo is not None:
            self._zoned = True
        else:
            self._naive = True
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp()

    def _first_kind(self, number: int, text: str) -> str:
        kind = "count" if self._counts else time_kind(text)
        numbered = NUMBERED_DAY.fullmatch(text)
        if numbered and numbered[2] != ".":
            return self._order_of_days(number, text)
        if all(map(_is_rounded, (text, *map(str.strip, self._sample)))):
            raise DataError(
                f"{self._path}, line {number}: the time is {text!r}, so a spreadsheet has rounded "
                "it; use the original file, or format the column as a number without decimals, and "
                "save it again."
            )
        if not self._counts and self._has_excel_days(text):
            raise DataError(
                f"{self._path}, line {number}: the time is {text!r}, which looks like Excel's "
                "number for a date; format the column as yyyy-mm-dd hh:mm, and save it again."
            )
        return kind

    def _has_excel_days(self, first: str) -> bool:
        """Return whether the CSV times are numbers of days, as Excel counts them.

        If the name of the column is not in `DATE_NAMES`, at least one number must have a fraction.
        """
        texts = [text.strip().replace(",", ".") for text in (first, *self._sample)]
        is_date = self._header in DATE_NAMES or any("." in text for text in texts)
        return is_date and all(map(_is_excel_day, texts))

    def _order_of_days(self, number: int, text: str) -> str:
        """Return the order of day and month in CSV times such as 02/03/2026."""
        found = [NUMBERED_DAY.fullmatch(each.strip()) for each in self._sample]
        if any(int(each[1]) > 12 for each in found if each):
            return DAY_FIRST
        if any(int(each[3]) > 12 for each in found if each):
            return MONTH_FIRST
        raise DataError(
            f"{self._path}, line {number}: the time is {text!r}, and the first lines do not show "
            "whether the day or the month comes first; write 2026-03-02 or 02.03.2026."
        )

    def _unreadable(self, number: int, text: str) -> DataError:
        return DataError(
            f"{self._path}, line {number}: the time {text!r} cannot be read; write all times "
            f"in one format: {ALLOWED}."
        )


def time_kind(text: str) -> str:
    """Return the kind of format in which a time of a CSV file is written.

    >>> [time_kind(t) for t in ("2026-03-02 08:00", "1772438400", "1772438400000", "12")]
    ['iso', 'seconds', 'milliseconds', 'count']
    >>> [time_kind(t) for t in ("20260302", "202603020810", "02.03.2026 08:10", "2/13/26")]
    ['compact', 'compact', 'day-first', 'day-first']
    """
    if COMPACT.fullmatch(text) and is_time(text, "compact"):
        return "compact"
    if NUMBERED_DAY.fullmatch(text):
        return DAY_FIRST
    try:
        at = abs(number_of(text))
    except ValueError:
        return "iso"
    return next((kind for kind, start in EPOCH_STARTS.items() if at >= start), "count")


def moment_of(text: str, kind: str) -> datetime:
    """Return the date and time in the text of a CSV cell; ValueError if its format is not `kind`.

    >>> moment_of("2.3.2026 8:05", DAY_FIRST).isoformat()
    '2026-03-02T08:05:00'
    >>> moment_of("3/2/2026 8:05 PM", MONTH_FIRST).isoformat()
    '2026-03-02T20:05:00'
    >>> moment_of("2026/03/02 08:05:00 UTC", "iso").isoformat()
    '2026-03-02T08:05:00+00:00'
    """
    if kind == "compact":
        if not COMPACT.fullmatch(text):
            raise ValueError(text)
        digits = re.sub(r"\D", "", text)
        return datetime.strptime(digits.ljust(14, "0"), "%Y%m%d%H%M%S")
    if kind in (DAY_FIRST, MONTH_FIRST):
        return _numbered_day(text, month_first=kind == MONTH_FIRST)
    if text.isdigit():
        raise ValueError(text)
    return datetime.fromisoformat(re.sub(r" ?(?:UTC|GMT)$", "Z", text.replace("/", "-")))


def _numbered_day(text: str, *, month_first: bool) -> datetime:
    found = NUMBERED_DAY.fullmatch(text)
    if found is None:
        raise ValueError(text)
    first, second = int(found[1]), int(found[3])
    day, month = (second, first) if month_first else (first, second)
    year = int(found[4]) + (2000 if len(found[4]) == 2 else 0)
    if not found[5]:
        return datetime(year, month, day)
    clock = TIME_OF_DAY.fullmatch(found[5].strip())
    if clock is None:
        raise ValueError(text)
    hour = int(clock[1])
    if clock[5]:
        hour = hour % 12 + (12 if clock[5] in "Pp" else 0)
    microsecond = int((clock[4] or "0").ljust(6, "0"))
    return datetime(year, month, day, hour, int(clock[2]), int(clock[3] or 0), microsecond)


def is_time(text: str, kind: str | None = None) -> bool:
    """Return whether a CSV cell's text is a time in the format `kind`; None allows any format."""
    if kind is None:
        return is_time(text, time_kind(text)) or is_time(text, MONTH_FIRST)
    try:
        if kind in NUMERIC:
            number_of(text)
        else:
            moment_of(text, kind)
    except ValueError:
        return False
    return True


def _is_rounded(text: str) -> bool:
    """Return whether a CSV time is a number that a spreadsheet has rounded to at most six digits.

    An exponent alone is no sign of rounding, because some programs write exact times with an
    exponent, such as 1.7724096E9 for 1772409600.

    >>> _is_rounded("1.77241E+12"), _is_rounded("1.7724096E9")
    (True, False)
    """
    found = SCIENTIFIC.fullmatch(text)
    decimals = len(found[1] or "") if found else 0
    return found is not None and decimals < min(SPREADSHEET_DIGITS, int(found[2]))


def _is_excel_day(text: str) -> bool:
    try:
        return EXCEL_DAYS[0] < number_of(text) < EXCEL_DAYS[1]
    except ValueError:
        return False


def time_unit(
    path: Path, time_format: TimeFormat, step: float, interval: float | None = None
) -> tuple[float, str]:
    """Return the unit of a CSV file's times, in s, and a description of the times for the user."""
    if time_format.kind == "count":
        named = interval_in_name(path)
        chosen = interval or named or DEFAULT_COUNT_INTERVAL
        why = "by --interval" if interval else "according to the file name"
        if not (interval or named):
            why = "by default; set --interval"
        return chosen / step, f"times are a step count, with {chosen:g} s per step {why}"
    if time_format.kind in EPOCH_UNITS:
        return EPOCH_UNITS[time_format.kind], f"times in {time_format.kind} since 1970"
    if time_format.naive and time_format.zoned:
        return 1.0, "times with and without a zone; those without are taken as UTC"
    zone = "times without a zone, taken as UTC" if time_format.naive else "times with their zone"
    return 1.0, zone


def interval_in_name(path: Path) -> float | None:
    """Return the interval in a CSV file's name, such as 10min, in s; None if there is no interval.

    >>> interval_in_name(Path("speed_10min.csv.gz")), interval_in_name(Path("speed.csv"))
    (600.0, None)
    """
    match = re.search(r"(?:^|[_-])(\d+)(s|sec|min|h)(?=[_.-]|$)", path.name)
    return int(match[1]) * UNITS[match[2]] if match and int(match[1]) else None
