"""Decision history in memory: a replay of a recording, for the dashboard without a daemon."""

from collections.abc import Sequence
from math import inf

from edge_tvbo.daemon.history_recorder import HistoryRecorder
from edge_tvbo.messages.commands import Command
from edge_tvbo.messages.history import Entry
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.replay import replay


class InMemoryHistory:
    """The decision history of one replay: written as a `History`, then read as a `Past`."""

    written = 0

    def __init__(self, field: str) -> None:
        self._field = field
        self._entries: dict[int, Entry] = {}

    def keep(self, entries: Sequence[Entry]) -> bool:
        """Store `entries`."""
        self._entries.update((each.decision.interval, each) for each in entries)
        return True

    def latest(self, field: str) -> None:
        """Return None: no earlier run was stored."""

    def fields(self) -> list[str]:
        """Return the names of the fields: the replay has one."""
        return [self._field]

    def span(self, field: str) -> tuple[int, int] | None:
        """Return the lowest and the highest interval number; None if there is none."""
        return (min(self._entries), max(self._entries)) if self._entries else None

    def entry(self, field: str, interval: int) -> Entry | None:
        """Return the entry of one interval; None if there is none."""
        return self._entries.get(interval)

    def newest(self, field: str, count: int) -> list[Entry]:
        """Return the last `count` entries, newest first."""
        return [self._entries[number] for number in sorted(self._entries)[-count:]][::-1]

    def between(self, field: str, first: int, last: int) -> list[Entry]:
        """Return the entries from interval `first` to `last`, both included, oldest first."""
        return [self._entries[each] for each in sorted(self._entries) if first <= each <= last]

    def close(self) -> None:
        """Do nothing: there is no file to close."""


def replay_to_history(backtest: Backtest, policy: str) -> InMemoryHistory:
    """Replay the test days with `policy` and return the decision history."""
    name = backtest.recording.name
    controller = backtest.controller(policy, {}, seed=0)
    history = InMemoryHistory(name)
    recorder = HistoryRecorder(history, inf, {name: controller})

    def watch(command: Command) -> None:
        recorder(name, command)
        recorder.service(0.0)

    replay(backtest.recording, backtest.test_span, controller, watch)
    recorder.close()
    return history
