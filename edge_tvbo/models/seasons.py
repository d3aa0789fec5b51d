"""Daily seasons: the longest intervals that a field with a season of one day can have."""

MAX_DAILY_INTERVAL_S = 21_600.0  # a quarter of a day


def has_days(interval: float | None) -> bool:
    """Return whether the intervals are short enough for a season of one day: at most six hours.

    `interval` is the length of the intervals in s, or None if the lengths differ. For None, the
    result is True.
    """
    return interval is None or interval <= MAX_DAILY_INTERVAL_S
