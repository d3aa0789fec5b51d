"""Decision history in memory: filled by a replay, for a dashboard that needs no daemon."""

from edge_tvbo.daemon.decision_log import DecisionLog
from edge_tvbo.daemon.history_recorder import posterior_snapshot
from edge_tvbo.messages.commands import Command
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.replay import replay


class InMemoryHistory:
    """The decision history of one replay, stored in memory and not in a file."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._entries: dict[int, HistoryEntry] = {}

    def store(self, entry: HistoryEntry) -> None:
        """Store a history entry in memory; it replaces an earlier entry of the same interval."""
        self._entries[entry.decision.interval] = entry

    def fields(self) -> list[str]:
        """Return the names of the fields in the history in memory; a replay has only one field."""
        return [self._field]

    def span(self, field: str) -> tuple[int, int] | None:
        """Return the lowest and highest interval number in memory; None if the history is empty."""
        return (min(self._entries), max(self._entries)) if self._entries else None

    def entry(self, field: str, interval: int) -> HistoryEntry | None:
        """Return the in-memory entry of `interval`; None if the history has no such entry."""
        return self._entries.get(interval)

    def newest(self, field: str, count: int) -> list[HistoryEntry]:
        """Return the last `count` entries of the history in memory, newest first."""
        return [self._entries[number] for number in sorted(self._entries)[-count:]][::-1]

    def between(self, field: str, first: int, last: int) -> list[HistoryEntry]:
        """Return the entries in memory from `first` to `last`, both included, oldest first."""
        return [self._entries[each] for each in sorted(self._entries) if first <= each <= last]

    def close(self) -> None:
        """Do nothing, because a history in memory has no file to close."""


def replay_to_history(backtest: Backtest, policy: str) -> InMemoryHistory:
    """Replay the test days of `backtest` with `policy`, and return the decision history."""
    name = backtest.recording.name
    controller = backtest.controller(policy, {}, seed=0)
    history, decisions = InMemoryHistory(name), DecisionLog()
    decisions.posterior = lambda field: posterior_snapshot(controller)

    def watch(command: Command) -> None:
        if entry := decisions.update(name, command):
            history.store(entry)

    replay(backtest.recording, backtest.test_span, controller, watch)
    return history
