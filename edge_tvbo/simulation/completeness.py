"""Completeness of a user's recordings: their size and gaps, and the rows that can be used.

A row is complete if at least half of the sensors were read in it. If there are only two sensors,
both must have been read, because a single reading would always be the best one. A model is fitted
from complete rows, and the best sensor is known only in complete rows.

A recording is too sparse if it has fewer than `MIN_ROWS` complete rows, and these rows are less
than `MIN_COMPLETE_SHARE` (80 %) of the rows with readings. The values between the readings of a
sparse recording are unknown, and an interpolation would only invent values.
"""

from math import ceil
from typing import TYPE_CHECKING

from msgspec.structs import replace

from edge_tvbo.errors import DataError
from edge_tvbo.messages.formatting import (
    counted,
    duration,
    interval_text,
    listed,
    range_text,
    rfc3339,
    significant,
)
from edge_tvbo.simulation.recording import USUAL_INTERVALS, Recording

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edge_tvbo.simulation.row_range import RowRange

MIN_ROW_SHARE = 0.5  # smallest share of the sensors that were read in a complete row
MIN_SENSORS = 2  # smallest number of sensors that were read in a complete row, unless M is 1
MIN_ROWS = 24
# Complete rows, as a share of the rows with a reading. A recording with fewer complete rows than
# MIN_ROWS is used only if it has at least this share. A longer interval is proposed only if the
# recording then has at least this share.
MIN_COMPLETE_SHARE = 0.8


def understood(recording: Recording) -> list[str]:
    """Return three lines of text on how complete a recording is: sensors, intervals, gaps."""
    T, M = recording.values.shape
    end = recording.start + (T - 1) * recording.interval
    unit = f" {recording.unit}" if recording.unit else ""
    ends = recording.values.min(), recording.values.max()
    missing = 1.0 - float(recording.observed.mean())
    gaps = "none"
    if missing:
        rows, arm = _longest_gap(recording.observed)
        gaps = (
            f"{_percent(missing)} of the readings are missing; the longest gap is "
            f"{duration(rows * recording.interval)}, in the readings of "
            f"{recording.named_sensors[arm]}"
        )
    return [
        f"sensors: {M} ({listed(recording.named_sensors)}), {range_text(ends)}{unit}",
        f"intervals: {T} of {interval_text(recording.interval)}, from {rfc3339(recording.start)} "
        f"to {rfc3339(end)}",
        f"gaps: {gaps}",
    ]


def complete_rows(recording: Recording, span: "RowRange") -> Recording:
    """Return a recording in which only complete rows count as observed.

    A row is complete if at least half of the sensors were read in it. If there are two or more
    sensors, at least two must have been read. A sensor that was never read in the training rows
    `span` does not count in these rules. However, if more than half of the sensors were never read
    in `span`, all sensors count. Incomplete rows are neither trained on nor scored.

    Raises
    ------
    DataError
        If there are too few complete rows. If a longer interval helps, the error names this
        interval.
    """
    relevant = _counted_sensors(recording, span)
    is_complete = _is_complete(recording.observed[:, relevant])
    rows = int(is_complete.sum())
    recorded = int(recording.observed.any(axis=1).sum())
    if rows < _needed_rows(recorded):
        raise DataError(_too_sparse(recording, relevant, rows))
    if rows == recorded:
        return recording
    observed = recording.observed & is_complete[:, None]
    replies = None if recording.replies is None else recording.replies & is_complete[:, None]
    return replace(recording, observed=observed, replies=replies)


def incomplete_text(recording: Recording, used: Recording, span: "RowRange") -> str:
    """Return a text on the incomplete rows of `recording`, which the recording `used` leaves out.

    The text is "" if no rows are left out. If most rows are left out, and a longer interval helps,
    the text names this interval.
    """
    before, after = (int(each.observed.any(axis=1).sum()) for each in (recording, used))
    if before == after:
        return ""
    relevant = _counted_sensors(recording, span)
    both = relevant.sum() == MIN_SENSORS
    few = "only one of two sensors was read" if both else "fewer than half of the sensors were read"
    text = f"{counted(before - after, 'interval')} in which {few}"
    advice = _longer_interval(recording, relevant) if 2 * after < before else ""
    return f"{text}. {advice}" if advice else text


def basis(recording: Recording, first: int, last: int) -> str:
    """Return a text on how complete the training rows are: counts of readings, share of gaps."""
    import numpy as np

    observed = recording.observed[first:last]
    used = np.asarray(observed.any(axis=1))
    missing = 1.0 - float(observed[used].mean()) if used.any() else 0.0
    gaps = (
        f"; {_percent(missing)} of the readings in these intervals are missing, and were filled in"
    )
    return (
        f"based on {int(observed.sum())} readings of "
        f"{counted(len(recording.sensors), 'sensor')} "
        f"(in {int(used.sum())} of {len(used)} intervals of {interval_text(recording.interval)})"
        f"{gaps if missing else ''}"
    )


def _percent(missing: float) -> str:
    """Return the share of missing readings as text; a share above 0 is not rounded to 0."""
    share = 100.0 * missing
    return f"{share:.1f} %" if share >= 0.05 else f"{significant(share, 1)} %"


def few_readings(recording: Recording, first: int, last: int) -> str:
    """Return a text on completeness that names the sensors with very few training readings.

    The text is "" if there is no such sensor. The gaps of such a sensor are filled from the
    readings of other sensors, but only with values in the range of the sensor's own readings.
    """
    observed = recording.observed[first:last]
    least = min(MIN_ROWS, int(observed.any(axis=1).sum()) // 2)
    pairs = zip(recording.named_sensors, observed.sum(axis=0).tolist(), strict=True)
    few = [f"{name} ({count})" for name, count in pairs if count < least]
    if not few:
        return ""
    return (
        f"very few readings of {listed(few)}: the model does not know the course of such a sensor, "
        "and estimates that the sensor is nearly constant. Fit the model again when there are more "
        "readings, or leave the sensor out"
    )


def _counted_sensors(recording: Recording, span: "RowRange") -> "NDArray[np.bool_]":
    """Return which sensors count for the completeness of a row."""
    import numpy as np

    has_reading = np.asarray(recording.observed[span.first : span.last].any(axis=0))
    return has_reading if has_reading.mean() >= MIN_ROW_SHARE else np.ones_like(has_reading)


def _is_complete(observed: "NDArray[np.bool_]") -> "NDArray[np.bool_]":
    import numpy as np

    M = observed.shape[1]
    return np.asarray(observed.sum(axis=1) >= max(MIN_ROW_SHARE * M, min(MIN_SENSORS, M)))


def _needed_rows(recorded: int) -> int:
    """Return how many complete rows a recording needs, if `recorded` of its rows have a reading."""
    return min(MIN_ROWS, ceil(MIN_COMPLETE_SHARE * recorded))


def _too_sparse(recording: Recording, relevant: "NDArray[np.bool_]", rows: int) -> str:
    readings, M = int(recording.observed.sum()), int(relevant.sum())
    recorded = int(recording.observed.any(axis=1).sum())
    needed = "both sensors" if M == MIN_SENSORS else f"at least half of the {M} sensors"
    advice = _longer_interval(recording, relevant) or (
        f"Longer intervals, up to {duration(USUAL_INTERVALS[-1])}, do not help. The policy `auto` "
        "learns from single readings while the daemon runs. To fit a model, let all sensors report "
        "by themselves for some days."
    )
    return (
        f"{recording.name}: too sparse ({readings} readings): only {rows} of {recorded} intervals "
        f"of {interval_text(recording.interval)} have readings of {needed}."
        f" A model needs at least {_needed_rows(recorded)} such intervals; in the other intervals, "
        f"most values are unknown.\n{advice}"
    )


def _longer_interval(recording: Recording, relevant: "NDArray[np.bool_]") -> str:
    """Return a sentence that proposes a longer interval with mostly complete rows, or ""."""
    for interval in USUAL_INTERVALS:
        if interval > recording.interval:
            found, of = _complete_in(recording, relevant, interval)
            if found >= max(MIN_ROWS, MIN_COMPLETE_SHARE * of):
                return (
                    f"With --interval {_option(interval)}, {found} of {of} intervals have readings "
                    "of enough sensors."
                )
    return ""


def _complete_in(
    recording: Recording, relevant: "NDArray[np.bool_]", interval: float
) -> tuple[int, int]:
    """Return the number of complete rows, and the number of rows with at least one reading.

    The rows are those of the recording after a division into intervals of the length `interval`.
    Only the sensors that are `relevant` count for the completeness of a row.
    """
    import numpy as np

    T, M = recording.observed.shape
    rows = np.floor(np.arange(T) * recording.interval / interval).astype(np.intp)
    observed = np.zeros((int(rows[-1]) + 1, M), np.bool_)
    np.logical_or.at(observed, rows, recording.observed)
    return int(_is_complete(observed[:, relevant]).sum()), int(observed.any(axis=1).sum())


def _option(interval: float) -> str:
    minutes = round(interval / 60.0)
    return f"{minutes}min" if minutes % 60 else f"{minutes // 60}h"


def _longest_gap(observed: "NDArray[np.bool_]") -> tuple[int, int]:
    """Return the longest gap of a recording: its length in rows, and the sensor's arm."""
    import numpy as np

    longest = []
    for column in observed.T:
        seen = np.r_[-1, np.flatnonzero(column), len(column)]
        longest.append(int(np.diff(seen).max()) - 1)
    arm = int(np.argmax(longest))
    return longest[arm], arm
