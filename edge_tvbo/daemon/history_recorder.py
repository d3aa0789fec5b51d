"""What became of each interval, gathered from the commands and kept from time to time."""

from collections.abc import Mapping
from math import inf

import msgspec
import numpy as np

from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.commands import Command, Notify, PublishState, Record
from edge_tvbo.messages.documents import Notice
from edge_tvbo.messages.history import Entry, PosteriorSnapshot, QuantizedArray
from edge_tvbo.numerics.types import Array
from edge_tvbo.ports import History

MOST = 256  # entries that wait; then they are kept at once, or at twice as many forgotten
MOST_NOTICES = 64  # of one interval
RETRY = 60.0  # s, at the most, until what could not be kept is tried again


class HistoryRecorder:
    """Gathers entries as the loop's `watch`, and has them kept as its attendant.

    Parameters
    ----------
    history : History
        Where to; closed in the end.
    every : float
        Seconds between two times that entries are kept.
    controllers : mapping
        Of each field.
    """

    def __init__(
        self, history: History, every: float, controllers: Mapping[str, Controller]
    ) -> None:
        self._history = history
        self._every = every
        self._controllers = controllers
        self._running: dict[str, Entry | None] = {}  # the newest of each field
        self._waiting: dict[tuple[str, int], Entry] = {}  # to be kept, the oldest first
        self._due: float | None = None  # monotonic
        self.failing = False  # what waited last could not be kept

    @property
    def written(self) -> int:
        """Bytes written since the start."""
        return self._history.written

    def __call__(self, field: str, command: Command) -> None:
        """Note what `command` says of the interval that is running."""
        match command:
            case PublishState(decision=decision):
                beliefs = beliefs_of(self._controllers[field])
                before = self._newest(field)
                again = before is not None and before.decision.interval == decision.interval
                notices = before.notices if before and again else ()
                self._note(Entry(field, decision, notices=notices, beliefs=beliefs))
            case Record(interval=interval):
                entry = self._newest(field)
                if entry and entry.decision.interval == interval:
                    self._note(msgspec.structs.replace(entry, record=command))
            case Notify(notice=notice):
                self._notify(field, notice)
            case _:
                pass

    def _notify(self, field: str, notice: Notice) -> None:
        entry = self._newest(field)
        if entry and len(entry.notices) < MOST_NOTICES:
            self._note(msgspec.structs.replace(entry, notices=(*entry.notices, notice)))

    def _newest(self, field: str) -> Entry | None:
        """Give the interval that is running, as another process may have begun it."""
        if field not in self._running:
            self._running[field] = self._history.latest(field)
        return self._running[field]

    def _note(self, entry: Entry) -> None:
        self._running[entry.field] = entry
        self._waiting[entry.field, entry.decision.interval] = entry
        if len(self._waiting) > 2 * MOST:
            del self._waiting[next(iter(self._waiting))]

    # --- what the loop calls --------------------------------------------------------------------

    def fileno(self) -> int:
        """Give no descriptor."""
        return -1

    def wake_at(self) -> float:
        """Give when entries are due to be kept."""
        return inf if self._due is None else self._due

    def service(self, now: float) -> None:
        """Keep what waits, if that is due or too much."""
        if self._due is None:
            self._due = now + self._every
        too_many = len(self._waiting) >= MOST and not self.failing
        if now >= self._due or too_many:
            self.failing = not self.save()
            self._due = now + (min(self._every, RETRY) if self.failing else self._every)

    def save(self) -> bool:
        """Keep what waits, whatever the time, and say whether that was done."""
        if self._waiting and not self._history.keep(list(self._waiting.values())):
            return False
        self._waiting.clear()
        return True

    def close(self) -> None:
        """Keep what waits, and let go of the history."""
        self.save()
        self._history.close()


def beliefs_of(controller: Controller) -> PosteriorSnapshot:
    """Give what `controller` believes of every sensor now, in the field's unit."""
    field = controller.policy.field
    mean, std = controller.policy.posterior()
    return PosteriorSnapshot(field.sensors, levels(field.to_unit(mean)), levels(std * field.scale))


def levels(values: Array) -> QuantizedArray:
    r"""Give numbers to a 510th of their range.

    >>> levels(np.array([20.0, 30.5, 24.2]))
    QuantizedArray(low=20.0, high=30.5, steps=b'\x00\xfff')
    """
    low, high = float(values.min()), float(values.max())
    steps = np.rint((values - low) * (255 / (high - low) if high > low else 0.0))
    return QuantizedArray(low, high, steps.astype(np.uint8).tobytes())
