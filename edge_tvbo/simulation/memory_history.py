"""A recorded network, decided upon here and now, as the history that a daemon would have kept."""

from edge_tvbo.daemon.decision_log import DecisionLog
from edge_tvbo.daemon.history_recorder import posterior_snapshot
from edge_tvbo.messages.commands import Command
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.replay import replay


class InMemoryHistory:
    """The decision history of one replay, in memory."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._entries: dict[int, HistoryEntry] = {}

    def store(self, entry: HistoryEntry) -> None:
        """Store `entry`, in place of an earlier one of the same interval."""
        self._entries[entry.decision.interval] = entry

    def fields(self) -> list[str]:
        """Give the one field."""
        return [self._field]

    def span(self, field: str) -> tuple[int, int] | None:
        """Give the lowest and the highest number of an interval."""
        return (min(self._entries), max(self._entries)) if self._entries else None

    def entry(self, field: str, interval: int) -> HistoryEntry | None:
        """Give what became of one interval."""
        return self._entries.get(interval)

    def newest(self, field: str, count: int) -> list[HistoryEntry]:
        """Give the last `count` entries, the newest first."""
        return [self._entries[number] for number in sorted(self._entries)[-count:]][::-1]

    def between(self, field: str, first: int, last: int) -> list[HistoryEntry]:
        """Give the entries with these numbers and all in between, oldest first."""
        return [self._entries[each] for each in sorted(self._entries) if first <= each <= last]

    def close(self) -> None:
        """Hold nothing."""


def replay_to_history(backtest: Backtest, policy: str) -> InMemoryHistory:
    """Return the decisions of `policy` on the test days, as a daemon would have stored them."""
    name = backtest.recording.name
    controller = backtest.controller(policy, {}, seed=0)
    history, decisions = InMemoryHistory(name), DecisionLog()
    decisions.posterior = lambda field: posterior_snapshot(controller)

    def watch(command: Command) -> None:
        if entry := decisions.update(name, command):
            history.store(entry)

    replay(backtest.recording, backtest.test_span, controller, watch)
    return history
