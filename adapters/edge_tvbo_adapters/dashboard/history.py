"""Interface through which the dashboard reads the decision history."""

from typing import Protocol

from edge_tvbo.messages.history import HistoryEntry


class DecisionHistory(Protocol):
    """Interface of a decision history for the dashboard; every method may raise `DataError`."""

    def newest(self, field: str, count: int) -> list[HistoryEntry]:
        """Return the last `count` entries of `field` for the dashboard, the newest first."""

    def close(self) -> None:
        """Close the file of the dashboard's decision history."""
