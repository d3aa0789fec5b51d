"""History recorder: writes the entries of the decision log to the history database in batches."""

from collections.abc import Sequence
from math import inf
from typing import Protocol

import numpy as np

from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.history import HistoryEntry, PosteriorSnapshot, QuantizedArray
from edge_tvbo.numerics.types import Array

MAX_PENDING = 256  # entries; this many are written at once, and above twice this many are dropped
MAX_RETRY_DELAY_S = 60.0


class HistoryWriter(Protocol):
    """Writer of a history database of bounded size; errors of the disk are logged, not raised."""

    @property
    def written(self) -> int:
        """Upper limit of the number of bytes written to the history since the start."""
        ...

    def store(self, entries: Sequence[HistoryEntry]) -> bool:
        """Store all `entries` or none; an entry replaces the stored entry of its interval."""
        ...

    def latest(self, field: str) -> HistoryEntry | None:
        """Return the newest readable history entry of `field`."""
        ...

    def close(self) -> None:
        """Close the history database."""
        ...


class HistoryRecorder:
    """Service of the loop that writes changed history entries every `period` seconds."""

    def __init__(self, history: HistoryWriter, period: float) -> None:
        self._history = history
        self._period = period
        self._pending: dict[tuple[str, int], HistoryEntry] = {}  # the oldest first
        self._due: float | None = None  # monotonic time
        self.failing = False  # whether the last batch could not be written

    @property
    def written(self) -> int:
        """Number of bytes written to the history since the start."""
        return self._history.written

    def latest(self, field: str) -> HistoryEntry | None:
        """Return the newest stored history entry of `field`."""
        return self._history.latest(field)

    def add(self, entry: HistoryEntry) -> None:
        """Queue a history entry for writing, in place of a queued entry of its interval."""
        self._pending[entry.field, entry.decision.interval] = entry
        if len(self._pending) > 2 * MAX_PENDING:
            del self._pending[next(iter(self._pending))]

    def fileno(self) -> int:
        """Return -1, because the history recorder has no descriptor to wait for."""
        return -1

    def wake_at(self) -> float:
        """Return the time when the next batch of history entries is due."""
        return inf if self._due is None else self._due

    def service(self, now: float) -> None:
        """Write the queued history entries if a batch is due, or if too many are queued."""
        if self._due is None:
            self._due = now + self._period
        too_many = len(self._pending) >= MAX_PENDING and not self.failing
        if now >= self._due or too_many:
            self.failing = not self.save()
            retry = min(self._period, MAX_RETRY_DELAY_S)
            self._due = now + (retry if self.failing else self._period)

    def save(self) -> bool:
        """Write the queued history entries now; return whether the write succeeded."""
        if self._pending and not self._history.store(list(self._pending.values())):
            return False
        self._pending.clear()
        return True

    def close(self) -> None:
        """Write the queued history entries, and close the history database."""
        self.save()
        self._history.close()


def posterior_snapshot(controller: Controller) -> PosteriorSnapshot:
    """Return the posterior of every sensor, in the field's unit, for the decision history."""
    field = controller.policy.field
    mean, std = controller.policy.posterior()
    return PosteriorSnapshot(
        field.sensors, quantize(field.to_unit(mean)), quantize(field.std_to_unit(mean, std))
    )


def quantize(values: Array) -> QuantizedArray:
    r"""Return `values` rounded to 256 evenly spaced levels from the lowest to the highest value.

    >>> quantize(np.array([20.0, 30.5, 24.2]))
    QuantizedArray(low=20.0, high=30.5, steps=b'\x00\xfff')
    """
    low, high = float(values.min()), float(values.max())
    steps = np.rint((values - low) * (255 / (high - low) if high > low else 0.0))
    return QuantizedArray(low, high, steps.astype(np.uint8).tobytes())
