"""Times in the documents of the dashboard: RFC 3339 texts in UTC."""

from datetime import UTC, datetime


def now() -> str:
    """Return the present time for the dashboard, as RFC 3339 text in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds(time: str) -> float:
    """Convert the RFC 3339 text `time` of a dashboard message to seconds since 1970.

    Raises `ValueError` if the text is invalid.
    """
    return datetime.fromisoformat(time).timestamp()
