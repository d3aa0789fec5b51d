"""A recorded network, decided upon here and now, as the history that a daemon would have kept."""

from collections.abc import Sequence
from math import inf

from edge_tvbo.daemon.history_recorder import HistoryRecorder
from edge_tvbo.messages.commands import Command
from edge_tvbo.messages.history import Entry
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.replay import replay


class InMemoryHistory:
    """What one run came to: a `History` while it runs, and a `Past` from then on; in memory."""

    written = 0

    def __init__(self, field: str) -> None:
        self._field = field
        self._entries: dict[int, Entry] = {}

    def keep(self, entries: Sequence[Entry]) -> bool:
        """Keep `entries`."""
        self._entries.update((each.decision.interval, each) for each in entries)
        return True

    def latest(self, field: str) -> None:
        """Give nothing: the run is the first."""

    def fields(self) -> list[str]:
        """Give the one field."""
        return [self._field]

    def span(self, field: str) -> tuple[int, int] | None:
        """Give the lowest and the highest number of an interval."""
        return (min(self._entries), max(self._entries)) if self._entries else None

    def entry(self, field: str, interval: int) -> Entry | None:
        """Give what became of one interval."""
        return self._entries.get(interval)

    def newest(self, field: str, count: int) -> list[Entry]:
        """Give the last `count` entries, the newest first."""
        return [self._entries[number] for number in sorted(self._entries)[-count:]][::-1]

    def between(self, field: str, first: int, last: int) -> list[Entry]:
        """Give the entries with these numbers and all in between, oldest first."""
        return [self._entries[each] for each in sorted(self._entries) if first <= each <= last]

    def close(self) -> None:
        """Hold nothing."""


def replay_to_history(backtest: Backtest, policy: str) -> InMemoryHistory:
    """Give what the daemon would have done on the test days."""
    name = backtest.recording.name
    controller = backtest.controller(policy, {}, seed=0)
    rehearsal = InMemoryHistory(name)
    chronicle = HistoryRecorder(rehearsal, inf, {name: controller})

    def watch(command: Command) -> None:
        chronicle(name, command)
        chronicle.service(0.0)

    replay(backtest.recording, backtest.test_span, controller, watch)
    chronicle.close()
    return rehearsal
