"""Decision history in memory: filled by a replay, for a dashboard that needs no daemon."""

from edge_tvbo.daemon.decision_log import DecisionLog
from edge_tvbo.daemon.history_recorder import posterior_snapshot
from edge_tvbo.messages.commands import Command
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.replay import replay


class InMemoryHistory:
    """The decision history of a replay, stored in memory and not in a file."""

    def __init__(self) -> None:
        self._entries: dict[int, HistoryEntry] = {}

    def store(self, entry: HistoryEntry) -> None:
        """Store a history entry in memory; it replaces an earlier entry of the same interval."""
        self._entries[entry.decision.interval] = entry

    def newest(self, field: str, count: int) -> list[HistoryEntry]:
        """Return the last `count` entries of the history in memory, newest first."""
        return [self._entries[number] for number in sorted(self._entries)[-count:]][::-1]

    def close(self) -> None:
        """Do nothing, because a history in memory has no file to close."""


def replay_to_history(backtest: Backtest, policy: str) -> InMemoryHistory:
    """Replay the test days of `backtest` with `policy`, and return the decision history."""
    name = backtest.recording.name
    controller = backtest.controller(policy, {}, seed=0)
    history, decisions = InMemoryHistory(), DecisionLog()
    decisions.posterior = lambda field: posterior_snapshot(controller)

    def watch(command: Command) -> None:
        if entry := decisions.update(name, command):
            history.store(entry)

    replay(backtest.recording, backtest.test_span, controller, watch)
    return history
