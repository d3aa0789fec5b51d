"""What is known of every field, folded from what the daemon publishes; nothing grows with time.

`Board.take` is given each message, and gives what the pages that are open have to be told. A page
that opens, or comes back, is given `Board.view`: all there is.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from math import nan
from typing import Any, Literal, Protocol

import msgspec

from edge_tvbo.messages.documents import Decision, Health, Hotspot, Notice, Posterior, Reason
from edge_tvbo.messages.history import HistoryEntry, QuantizedArray

MOST_FRAMES = 1500  # intervals of a field that are remembered
MOST_CELLS = 150_000  # the same, by sensors
MOST_PICKS = 400  # that a page is given
MOST_NOTICES = 200
LARGEST = {"selected": 2**14, "event": 2**12}  # bytes of a message
LARGEST_OTHER = 2**18
DIGITS = 3  # of what a history keeps as a 510th of a range

Ended = Literal["answered", "missed"]
SseEvent = tuple[str, Any]  # the name of a server-sent event, and its document


class DashboardField(msgspec.Struct, frozen=True):
    """One field, as the dashboard draws it."""

    sensors: tuple[str, ...]
    unit: str
    objective: Literal["max", "min"]
    interval: float | None  # s; None where intervals follow the readings
    positions: tuple[tuple[float, float], ...] | None  # in m, by sensor; None where unknown


class DecisionHistory(Protocol):
    """A decision history, as the dashboard reads it; every method may raise `DataError`."""

    def newest(self, field: str, count: int) -> list[HistoryEntry]:
        """Return the last `count` entries of `field`, the newest first."""

    def close(self) -> None:
        """Close the file."""


class Frame(msgspec.Struct, frozen=True):
    """One interval: what was decided, and by what belief; by sensor in the scene's order."""

    decision: Decision
    ending: Ended | None = None  # None while it runs, and where nobody said
    value: float | None = None  # what the sensor answered
    mean: list[float] | None = None  # before the answer; None where it was not published
    std: list[float] | None = None


class Pick(msgspec.Struct, frozen=True):
    """What the history of picks needs of a frame."""

    interval: int
    at: str
    sensor: str
    asked: bool  # False where nobody was, to save energy
    resets: int
    ending: Ended | None
    value: float | None


class Connection(msgspec.Struct, frozen=True):
    """How it stands with the broker."""

    online: bool
    since: str  # RFC 3339, UTC
    why: str = ""  # it is not


class ConnectionState(msgspec.Struct, frozen=True):
    """How it stands with all that the pages hang on."""

    at: str  # by the clock of whoever serves the page
    broker: Connection
    daemon: str | None  # "online", "offline"; None where nothing was heard of it
    health: Health | None


class FieldView(msgspec.Struct, frozen=True):
    """All there is of one field."""

    picks: list[Pick]
    decision: Decision | None
    posterior: Posterior | None
    chosen_by: Posterior | None  # the posterior before the answer, if it was heard
    hotspot: Hotspot | None
    notices: list[Notice]


class View(msgspec.Struct, frozen=True):
    """All there is."""

    standing: ConnectionState
    fields: dict[str, FieldView]
    notices: list[Notice]  # of the daemon


class FieldBoard:
    """What is known of one field."""

    def __init__(self, scene: DashboardField) -> None:
        self._order = {sensor: index for index, sensor in enumerate(scene.sensors)}
        most = max(1, min(MOST_FRAMES, MOST_CELLS // max(1, len(scene.sensors))))
        self.frames: deque[Frame] = deque(maxlen=most)
        self.notices: deque[Notice] = deque(maxlen=MOST_NOTICES)
        self.posterior: Posterior | None = None
        self.chosen_by: Posterior | None = None
        self.hotspot: Hotspot | None = None

    def recall(self, past: DecisionHistory, name: str) -> None:
        """Take in what a history kept of this field, as far as there is room."""
        entries = past.newest(name, self.frames.maxlen or 0)[::-1]
        self.frames.extend(frames_of(entries, list(self._order)))
        self.notices.extend(notice for entry in entries for notice in entry.notices)

    def decide(self, decision: Decision) -> None:
        """Take in a decision, or the same one again."""
        if decision.sensor not in self._order:
            raise ValueError(f"{decision.sensor} is none of the sensors")
        last = self.frames[-1] if self.frames else None
        if last and last.decision.interval == decision.interval:
            if last.decision == decision:
                return
            self.frames.pop()
        self.frames.append(Frame(decision))
        self._apply()

    def believe(self, posterior: Posterior) -> None:
        """Take in what is believed of the sensors."""
        columns = (posterior.mean, posterior.std, posterior.last, posterior.age_s)
        if any(len(each) != len(posterior.sensors) for each in columns):
            raise ValueError("its columns differ in length")
        self.posterior = posterior
        if posterior.ending is None:
            self.chosen_by = posterior
        self._apply()

    def view(self) -> FieldView:
        """Give all of it, as far as a page shows it."""
        skipped = max(0, len(self.frames) - MOST_PICKS)
        return FieldView(
            picks=[pick_of(each) for each in islice(self.frames, skipped, None)],
            decision=self.frames[-1].decision if self.frames else None,
            posterior=self.posterior,
            chosen_by=self.chosen_by,
            hotspot=self.hotspot,
            notices=list(self.notices),
        )

    def change(self, kind: str) -> dict[str, Any]:
        """Give what a message on the topic `kind` may have changed."""
        last = self.frames[-1] if self.frames else None
        changed = {"pick": pick_of(last) if last else None}
        match kind:
            case "selected":
                return {**changed, "decision": last and last.decision}
            case "posterior":
                return {**changed, "posterior": self.posterior}
            case _:
                return {**changed, "hotspot": self.hotspot}

    def _apply(self) -> None:
        """Write the posterior into the frame of its interval, if that is the last one."""
        posterior = self.posterior
        if not self.frames or posterior is None:
            return
        decision = self.frames[-1].decision
        if posterior.interval != decision.interval:
            return
        by = self.chosen_by
        believed = by if by and by.interval == decision.interval else posterior
        last = dict(zip(posterior.sensors, posterior.last, strict=True))
        self.frames[-1] = Frame(
            decision,
            posterior.ending,
            last.get(decision.sensor) if posterior.ending == "answered" else None,
            self._ordered(believed, believed.mean),
            self._ordered(believed, believed.std),
        )

    def _ordered(self, posterior: Posterior, values: list[float]) -> list[float]:
        by_sensor = dict(zip(posterior.sensors, values, strict=True))
        return [by_sensor.get(sensor, nan) for sensor in self._order]


class DashboardState:
    """What is known of a daemon and its fields."""

    def __init__(self, instance: str, scenes: Mapping[str, DashboardField]) -> None:
        self._base = f"edge_tvbo/{instance}"
        self.fields = {name: FieldBoard(scene) for name, scene in scenes.items()}
        self.unreadable = 0  # messages
        self._broker = Connection(False, now(), "not connected yet")
        self._daemon: str | None = None
        self._health: Health | None = None
        self._notices: deque[Notice] = deque(maxlen=MOST_NOTICES)

    @property
    def topics(self) -> list[str]:
        """What to subscribe to."""
        of_daemon = [f"{self._base}/{each}" for each in ("status", "health", "event")]
        kinds = ("selected", "posterior", "hotspot", "event")
        return of_daemon + [f"{self._base}/{name}/{kind}" for name in self.fields for kind in kinds]

    def take(self, topic: str, payload: bytes) -> list[SseEvent]:
        """Take a message in, and give what to tell; one that cannot be read is counted."""
        try:
            return self._take(topic.removeprefix(f"{self._base}/").split("/"), payload)
        except (ValueError, LookupError, RecursionError):  # msgspec's are ValueErrors
            self.unreadable += 1
            return []

    def linked(self, *, why: str = "") -> list[SseEvent]:
        """Note that the broker has let us in, or `why` it has not."""
        online = not why
        if online is not self._broker.online:
            self._broker = Connection(online, now(), why)
        return [("standing", self.standing())]

    def standing(self) -> ConnectionState:
        """Give how it stands."""
        return ConnectionState(now(), self._broker, self._daemon, self._health)

    def view(self) -> View:
        """Give all there is."""
        fields = {name: each.view() for name, each in self.fields.items()}
        return View(self.standing(), fields, list(self._notices))

    def _take(self, levels: list[str], payload: bytes) -> list[SseEvent]:
        if len(payload) > LARGEST.get(levels[-1], LARGEST_OTHER):
            raise ValueError("it is too large")
        match levels:
            case ["status"]:
                self._daemon = "online" if payload == b"online" else "offline"
            case ["health"]:
                self._health = msgspec.json.decode(payload, type=Health)
            case ["event"]:
                return [self._noted(None, self._notices, payload)]
            case [name, "event"]:
                return [self._noted(name, self.fields[name].notices, payload)]
            case [name, kind]:
                field = self.fields[name]
                _fold(field, kind, payload)
                return [("field", {"field": name, **field.change(kind)})]
        return [("standing", self.standing())]

    def _noted(self, field: str | None, notices: deque[Notice], payload: bytes) -> SseEvent:
        notice = msgspec.json.decode(payload, type=Notice)
        notices.append(notice)
        return "notice", {"field": field, "notice": notice}


def _fold(field: FieldBoard, kind: str, payload: bytes) -> None:
    match kind:
        case "selected":
            field.decide(msgspec.json.decode(payload, type=Decision))
        case "posterior":
            field.believe(msgspec.json.decode(payload, type=Posterior))
        case "hotspot":
            field.hotspot = msgspec.json.decode(payload, type=Hotspot)


def frames_of(entries: Iterable[HistoryEntry], sensors: Sequence[str]) -> Iterator[Frame]:
    """Yield entries of a history as frames, but for those of sensors that are no more."""
    for entry in entries:
        if entry.decision.sensor not in sensors:
            continue
        record, beliefs = entry.record, entry.posterior
        yield Frame(
            entry.decision,
            None if record is None else record.ending.value,
            None if record is None or record.value is None else round(record.value, DIGITS),
            None if beliefs is None else _column(beliefs.sensors, beliefs.mean, sensors),
            None if beliefs is None else _column(beliefs.sensors, beliefs.std, sensors),
        )


def _column(known: Sequence[str], levels: QuantizedArray, sensors: Sequence[str]) -> list[float]:
    by_sensor = dict(zip(known, levels.values(), strict=False))
    return [round(by_sensor.get(sensor, nan), DIGITS) for sensor in sensors]


def pick_of(frame: Frame) -> Pick:
    """Give what the history of picks needs."""
    decision = frame.decision
    return Pick(
        decision.interval,
        decision.at,
        decision.sensor,
        decision.reason is not Reason.SAVED,
        decision.model.resets,
        frame.ending,
        frame.value,
    )


def now() -> str:
    """Give the present, RFC 3339 and UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
