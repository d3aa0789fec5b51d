"""Ranges of rows of a recording: by days, or by a share of the rows."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from math import ceil

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import DataError
from edge_tvbo.simulation.recording import Recording

DAY = 86_400.0  # s
TRAINING_SHARE = 0.75  # usual number of training rows, as a share of all rows


@dataclass(frozen=True)
class RowRange:
    """A range of rows of a recording; `first` is included, `last` is not included."""

    first: int
    last: int


def recorded_rows(recording: Recording, span: RowRange) -> NDArray[np.intp]:
    """Return the rows in the range `span` in which at least one sensor was observed."""
    observed = recording.observed[span.first : span.last].any(axis=1)
    return np.flatnonzero(observed) + span.first


def best_arm(recording: Recording, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return an array (T,) of the hottest observed arm in each of the T `rows`.

    For the objective "min", the coldest arm is returned.
    """
    sign = 1.0 if recording.objective == "max" else -1.0
    observed = np.where(recording.observed[rows], sign * recording.values[rows], -np.inf)
    return np.asarray(observed.argmax(axis=1))


def days(recording: Recording, text: str) -> RowRange:
    """Return the rows of a range of days, such as 2004-03-01:2004-03-06; both days are included.

    The first and the last day of a recording need not be whole.

    Raises
    ------
    DataError
        If the text is not a range of days, or if the recording does not contain these days.
    """
    parts = text.split(":")
    try:
        first, last = (date.fromisoformat(part) for part in (parts[0], parts[-1]))
    except ValueError:
        parts = []
    if len(parts) not in (1, 2):
        raise DataError(f"{text!r} is not a range of days, such as 2004-03-01:2004-03-06")
    begin, end = _row(recording, _midnight(first)), _row(recording, _midnight(last) + DAY)
    if first > last:
        raise DataError(f"{text}: the first day is later than the last; write  {last}:{first}")
    days_recorded = _days(recording)
    if not {first, last} <= set(days_recorded):
        raise DataError(
            f"{text}: {recording.name} contains only the days "
            f"{days_recorded[0]}:{days_recorded[-1]}."
        )
    return RowRange(max(begin, 0), min(end, len(recording.values)))


def split(recording: Recording) -> tuple[RowRange, RowRange]:
    """Return the first rows of a recording, for training, and its other rows, for the test."""
    border = int(len(recording.values) * TRAINING_SHARE)
    return RowRange(0, border), RowRange(border, len(recording.values))


def _midnight(day: date) -> float:
    """Return the beginning of a day in a range of rows, in s since 1970, UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def _row(recording: Recording, at: float) -> int:
    """Return the first row at or after time `at`; the row can be outside the recording."""
    return ceil((at - recording.start) / recording.interval - recording.rounding)


def _days(recording: Recording) -> list[date]:
    """Return all days from the first to the last interval of a recording."""
    last = recording.start + (len(recording.values) - 1) * recording.interval
    begin, end = (datetime.fromtimestamp(at, UTC).date() for at in (recording.start, last))
    return [begin + timedelta(days=n) for n in range((end - begin).days + 1)]
