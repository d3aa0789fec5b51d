"""History recorder: writes the entries of the decision log to the history database in batches."""

from typing import Protocol

import numpy as np

from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.batch_recorder import BatchRecorder, BatchWriter
from edge_tvbo.messages.history import HistoryEntry, PosteriorSnapshot, QuantizedArray
from edge_tvbo.numerics.types import Array

MAX_PENDING = 256  # queued entries; see `BatchRecorder`
MAX_BATCH = 64  # entries; even with 2000 sensors, a batch is smaller than the largest WAL


class HistoryWriter(BatchWriter[HistoryEntry], Protocol):
    """Writer of a history database; an entry replaces the entry of the same field and interval."""

    def latest(self, field: str) -> HistoryEntry | None:
        """Return the newest readable entry of `field` in the recorder's database, or None."""
        ...


class HistoryRecorder(BatchRecorder[HistoryEntry]):
    """Service of the loop that writes changed history entries every `period` seconds."""

    content, entry = "history", "interval"

    def __init__(self, history: HistoryWriter, period: float) -> None:
        super().__init__(history, period, MAX_PENDING, MAX_BATCH)
        self._history = history

    def latest(self, field: str) -> HistoryEntry | None:
        """Return the newest entry of `field` that the recorder has stored, or None."""
        return self._history.latest(field)

    def add(self, entry: HistoryEntry) -> None:
        """Queue a history entry, in place of a queued entry of the same field and interval."""
        self._queue((entry.field, entry.decision.interval), entry)


def posterior_snapshot(controller: Controller) -> PosteriorSnapshot:
    """Return the posterior of every sensor, in the field's unit, for the history recorder."""
    field = controller.policy.field
    mean, std = controller.policy.posterior()
    return PosteriorSnapshot(
        field.sensors, quantize(field.to_unit(mean)), quantize(field.std_to_unit(mean, std))
    )


def quantize(values: Array) -> QuantizedArray:
    r"""Round `values` for the history: to 256 levels, from the lowest to the highest value.

    >>> quantize(np.array([20.0, 30.5, 24.2]))
    QuantizedArray(low=20.0, high=30.5, steps=b'\x00\xfff')
    """
    low, high = float(values.min()), float(values.max())
    steps = np.rint((values - low) * (255 / (high - low) if high > low else 0.0))
    return QuantizedArray(low, high, steps.astype(np.uint8).tobytes())
