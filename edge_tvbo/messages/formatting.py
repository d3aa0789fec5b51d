"""Formatting: times, durations, numbers and tables as text."""

import csv
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import floor, inf, log10
from unicodedata import normalize

import msgspec

SEASONS = (("a day", 86_400.0), ("a week", 604_800.0), ("a year", 31_557_600.0))  # s
YEAR_1, YEAR_9999 = -62_135_596_800.0, 253_402_300_799.0  # s since 1970: the range of RFC 3339
MAX_NAMED_SENSORS = 12  # sensors that one text about a field names; the others are counted


def rfc3339(at: float) -> str:
    """Return a time as RFC 3339 text in UTC; the text of a whole second has no milliseconds.

    A time outside the years 1 to 9999 becomes the nearest time inside this range.

    >>> rfc3339(1078646400), rfc3339(0.25)
    ('2004-03-07T08:00:00Z', '1970-01-01T00:00:00.250Z')
    """
    inside = at if YEAR_1 <= at <= YEAR_9999 else min(max(at, YEAR_1), YEAR_9999)
    when = datetime.fromtimestamp(inside, UTC)
    text: str = msgspec.to_builtins(when)  # six times as fast as isoformat
    return f"{text[:23]}Z" if when.microsecond else text


def duration(seconds: float) -> str:
    """Return a duration as a short text: a rounded number of seconds, minutes, hours or days.

    >>> duration(31.4), duration(1080.0), duration(9000.0), duration(90_000.0), duration(1e6)
    ('31 s', '18 min', '2.5 h', '25 h', '12 d')
    >>> duration(7300.0), duration(-1.0)
    ('2 h', '0 s')
    """
    size, unit = _unit_of(seconds)
    number = max(0.0, seconds) / size
    return f"{significant(number, 2) if number < 10.0 else f'{number:.0f}'} {unit}"


def interval_text(seconds: float) -> str:
    """Return the length of an interval as text, rounded to three significant digits.

    >>> interval_text(600.0), interval_text(150.0), interval_text(9000.0), interval_text(0.1)
    ('10 min', '2.5 min', '2.5 h', '0.1 s')
    """
    size, unit = _unit_of(seconds)
    return f"{significant(seconds / size)} {unit}"


def _unit_of(seconds: float) -> tuple[float, str]:
    """Return the length in s and the symbol of the unit in which a duration is a short number."""
    for unit, size, limit in (("s", 1.0, 120.0), ("min", 60.0, 7200.0), ("h", 3600.0, 172_800.0)):
        if seconds < limit:
            return size, unit
    return 86_400.0, "d"


def season_text(period: float) -> str:
    """Format the length of a season in words.

    >>> season_text(86400.0), season_text(31_536_000.0), season_text(7200.0), season_text(0.0)
    ('a day', 'a year', '2 h', 'none')
    """
    if not period:
        return "none"
    for words, length in SEASONS:
        if abs(period - length) < 0.01 * length:
            return words
    return duration(period)


def significant(value: float, digits: int = 3) -> str:
    """Return a number as text, rounded to `digits` significant digits.

    The text has an exponent only if the number is very large or very small.

    >>> significant(0.0489), significant(7.0), significant(50_123.4)
    ('0.0489', '7', '50100')
    """
    return f"{float(f'{value:.{digits}g}'):.12g}"


def significant_in_spread(value: float, spread: float, digits: int = 3) -> str:
    """Return a value as text, with enough digits to distinguish values that differ by `spread`.

    The text has at least `digits` significant digits. It has more digits if the leading two digits
    of `spread` would otherwise be lost.

    >>> significant_in_spread(101_325.4, 71.0), significant_in_spread(21.34, 1.4)
    ('101325', '21.3')
    """
    if value and 0.0 < spread < inf:
        digits = max(digits, floor(log10(abs(value))) - floor(log10(spread)) + 2)
    return significant(value, digits)


def range_text(values: Collection[float], digits: int = 3) -> str:
    """Return the lowest and the highest of some values as text, with at least `digits` digits.

    >>> range_text([21.34, 17.7, 22.24]), range_text([101_325.4, 101_410.0])
    ('17.7 to 22.2', '101325 to 101410')
    """
    low, high = float(min(values)), float(max(values))
    ends = (significant_in_spread(end, high - low, digits) for end in (low, high))
    return " to ".join(ends)


def decimals(std: float) -> int:
    """Return the number of decimals that show 1/100 of the standard deviation `std`.

    >>> decimals(2.4), decimals(0.00009), decimals(500.0)
    (2, 7, 0)
    """
    return max(0, 2 - floor(log10(std)))


def text_table(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Format rows of cells as lines of text, with the columns aligned.

    The first `left` columns are left-aligned, and the other columns are right-aligned.

    >>> print(text_table([["policy", "regret"], ["gp-ucb", "0.4"]]))
    policy  regret
    gp-ucb     0.4
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def csv_table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Format rows of cells as the text of a CSV file.

    >>> print(csv_table(["policy", "regret"], [["gp-ucb", 0.4]]), end="")
    policy,regret
    gp-ucb,0.4
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def named(sensors: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """Format sensors as their readable names; a sensor without a name in `names` keeps its id.

    >>> named(["hall", "living"], {"living": "Living room"})
    ['hall', 'Living room']
    """
    return [names.get(sensor, sensor) for sensor in sensors]


def listed_sensors(sensors: Iterable[str], names: Mapping[str, str]) -> str:
    """Format the readable names of sensors as a text; if there are many, only count the last ones.

    >>> listed_sensors(["hall", "living"], {"living": "Living room"})
    'hall, Living room'
    """
    return listed(named(sensors, names), MAX_NAMED_SENSORS)


def interval_number_text(interval: int | None) -> str:
    """Return the number of an interval as text for a log or a report.

    >>> interval_number_text(7), interval_number_text(None)
    ('interval 7', 'no current interval')
    """
    return "no current interval" if interval is None else f"interval {interval}"


def counted(number: int, what: str) -> str:
    """Return a number with the noun `what`, in the plural if the number is not 1.

    >>> counted(1, "field"), counted(11, "sensor")
    ('1 field', '11 sensors')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"


def listed(words: Iterable[str], max_words: int = 5) -> str:
    """Format the first `max_words` of `words` as a text, followed by the number of other words.

    >>> listed("abcdefg")
    'a, b, c, d, e and 2 more'
    """
    every = list(words)
    others = f" and {len(every) - max_words} more" if len(every) > max_words else ""
    return ", ".join(every[:max_words]) + others


def may_be_same_unit(one: str, other: str) -> bool:
    """Return whether two texts may name the same unit.

    The texts may differ in a degree sign, in spaces and in their Unicode form. An empty text may
    name any unit.

    >>> may_be_same_unit("C", "°C"), may_be_same_unit("µg/m³", "μg/m3"), may_be_same_unit("", "°C")
    (True, True, True)
    >>> may_be_same_unit("°C", "°F"), may_be_same_unit("mW", "MW")
    (False, False)
    """
    return not (one and other) or _plain_unit(one) == _plain_unit(other)


def _plain_unit(unit: str) -> str:
    return normalize("NFKC", unit).replace("°", "").replace(" ", "")
