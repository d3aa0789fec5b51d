"""Dashboard state: a bounded number of the newest decisions, estimates and events of every field.

`DashboardState.process` processes one message of the broker, and returns the server-sent events for
the open pages. A page that opens or reconnects receives `DashboardState.view`, the whole state.
"""

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from math import nan
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from edge_tvbo.messages.documents import (
    Alert,
    Decision,
    Health,
    Hotspot,
    Notice,
    PublishedPosterior,
    Reason,
)
from edge_tvbo.messages.formatting import may_be_same_unit
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo_adapters.dashboard.frames import (
    CoursePoint,
    DashboardField,
    Frame,
    Selection,
    course_point,
    frames_of,
    selection_of,
)

MAX_FRAMES = 1500  # intervals stored for each field
MAX_CELLS = 150_000  # intervals times sensors stored for each field
MAX_SELECTIONS = 400  # intervals of the timeline that are sent to a page
MAX_NOTICES = 200  # stored for each field, and for the daemon
MAX_MESSAGE_SIZES = {"selected": 2**14, "event": 2**12}  # bytes, by the last topic level
MAX_MESSAGE_SIZE = 2**18  # bytes of any other message
MAX_AGE_ERROR_S = 0.15  # of a reading's time: the ages in a posterior are rounded

log = logging.getLogger(__name__)
SseEvent = tuple[str, Any]  # a server-sent event: its name, and the document to send as JSON


class DecisionHistory(Protocol):
    """Interface of a decision history for the dashboard; every method may raise `DataError`."""

    def newest(self, field: str, count: int) -> list[HistoryEntry]:
        """Return the last `count` entries of `field` for the dashboard, the newest first."""

    def close(self) -> None:
        """Close the file of the dashboard's decision history."""


class UnknownSensor(ValueError):
    """A message is about a sensor that the dashboard's configuration does not have."""


class OtherUnit(ValueError):
    """A message is in another unit than that of the field in the dashboard's configuration."""


class BrokerConnection(msgspec.Struct, frozen=True):
    """State of the dashboard's connection to the broker, and the time at which this state began."""

    online: bool
    since: str  # RFC 3339, UTC
    reason: str = ""  # why it is not connected; "" before the first attempt has failed


class ConnectionState(msgspec.Struct, frozen=True):
    """State of the broker connection and the daemon, as it is sent to the dashboard's pages."""

    at: str  # the present time by the clock of the dashboard server
    broker: BrokerConnection
    daemon: str | None  # "online" or "offline"; None before the first status arrives
    health: Health | None  # of the daemon; None before it arrives
    outdated: bool = False  # whether the daemon has a sensor or a unit that the dashboard lacks


class FieldView(msgspec.Struct, frozen=True):
    """The state of one field, as it is sent to a page that opens."""

    selections: list[Selection]
    decision: Decision | None
    posterior: PublishedPosterior | None
    prediction: PublishedPosterior | None  # the posterior before the reply of the interval
    hotspot: Hotspot | None
    alert: Alert | None
    notices: list[Notice]


class View(msgspec.Struct, frozen=True):
    """The whole state of the dashboard, as it is sent to a page that opens."""

    connections: ConnectionState
    fields: dict[str, FieldView]
    notices: list[Notice]  # of the daemon; the notices of a field are in `fields`


class DashboardFieldState:
    """State of one field on the dashboard."""

    def __init__(self, field: DashboardField) -> None:
        self._field = field
        self._order = {sensor: index for index, sensor in enumerate(field.sensors)}
        self._reading_times: dict[str, float] = {}  # of the last known reading of each sensor
        count = max(1, min(MAX_FRAMES, MAX_CELLS // max(1, len(field.sensors))))
        self.frames: deque[Frame] = deque(maxlen=count)
        self.notices: deque[Notice] = deque(maxlen=MAX_NOTICES)
        self.posterior: PublishedPosterior | None = None
        self.prediction: PublishedPosterior | None = None
        self.hotspot: Hotspot | None = None
        self.alert: Alert | None = None

    def load_history(self, history: DecisionHistory, name: str) -> None:
        """Add the newest entries of the decision history to the state of this field.

        `name` is the name of the field in the history.

        Raises `DataError` if the history cannot be read.
        """
        entries = history.newest(name, self.frames.maxlen or 0)[::-1]
        self.frames.extend(frames_of(entries, self._field))
        self.notices.extend(notice for entry in entries for notice in entry.notices)

    def add_decision(self, decision: Decision) -> None:
        """Add a frame with `decision` to the field's frames in the state of the dashboard.

        If the last frame is of the same interval, the decision of this frame is replaced instead. A
        retained decision that is already in one of the frames is ignored. Without stored state, a
        daemon that is restarted counts its intervals from 0 again, so another interval can have the
        number of the last frame; see `_is_of_interval`.
        Raises `ValueError` if the time of the decision is invalid, `UnknownSensor` if its sensor
        does not belong to the field, and `OtherUnit` if the decision is in another unit.
        """
        _seconds(decision.at)  # a posterior of this interval is dated by it
        self._check_known([decision.sensor])
        self._check_unit(decision.unit)
        last = self.frames[-1] if self.frames else None
        if last and _is_of_interval(decision, last.decision):
            if last.decision == decision:
                return
            begin = last.begin or last.decision.at
            self.frames[-1] = replace(last, decision=decision, begin=begin, ending=None, value=None)
        elif any(
            (each.decision.interval, each.decision.at) == (decision.interval, decision.at)
            for each in self.frames
        ):
            return
        else:
            if last and last.decision.interval == decision.interval:
                self._forget_posterior_before(decision)
            self.frames.append(Frame(decision))
        self._update_frame()

    def add_posterior(self, posterior: PublishedPosterior) -> None:
        """Store `posterior` as the field's present posterior in the state of the dashboard.

        Raises `ValueError` if the columns of the posterior differ in length, `UnknownSensor` if one
        of its sensors does not belong to the field, and `OtherUnit` if it is in another unit.
        """
        self._check_known(posterior.sensors)
        self._check_unit(posterior.unit)
        columns = (posterior.mean, posterior.std, posterior.last, posterior.age_s)
        if any(len(each) != len(posterior.sensors) for each in columns):
            raise ValueError("the columns differ in length")
        self._follow_clock(posterior)
        self.posterior = posterior
        if posterior.ending is None:
            self.prediction = posterior
        self._update_frame()

    def add_hotspot(self, hotspot: Hotspot) -> None:
        """Store the field's hot spot in the state of the dashboard.

        If the last frame has no hot spot, add the hot spot to this frame. Raises `OtherUnit` if the
        hot spot is in another unit than the field.
        """
        self._check_unit(hotspot.unit)
        self.hotspot = hotspot
        if self.frames and self.frames[-1].hotspot is None and hotspot.sensor in self._order:
            self.frames[-1] = replace(self.frames[-1], hotspot=hotspot.sensor)

    def add_alert(self, alert: Alert) -> None:
        """Store the state of the field's alert; raise `OtherUnit` if the alert has another unit."""
        self._check_unit(alert.unit)
        self.alert = alert

    def clear(self, level: str) -> None:
        """Remove from the dashboard's state a document that the broker no longer retains.

        `level` is the last level of the topic. The decisions stay, because they are history.
        """
        match level:
            case "posterior":
                self.posterior = self.prediction = None
            case "hotspot":
                self.hotspot = None
            case "alert":
                self.alert = None

    def view(self) -> FieldView:
        """Return the field's state, as it is sent to a page that opens."""
        skipped = max(0, len(self.frames) - MAX_SELECTIONS)
        return FieldView(
            selections=[selection_of(each) for each in islice(self.frames, skipped, None)],
            decision=self.frames[-1].decision if self.frames else None,
            posterior=self.posterior,
            prediction=self.prediction,
            hotspot=self.hotspot,
            alert=self.alert,
            notices=list(self.notices),
        )

    def changed_by(self, topic: str) -> dict[str, Any]:
        """Return the parts of a dashboard field that a message on `topic` can change, as a dict."""
        last = self.frames[-1] if self.frames else None
        frame = last
        if topic == "posterior" and (index := self._frame_of_posterior()) is not None:
            frame = self.frames[index]
        changed: dict[str, Any] = {"selection": selection_of(frame) if frame else None}
        if frame:
            changed["course"] = {"hotspot": frame.hotspot, "readings": frame.readings}
        match topic:
            case "selected":
                forgotten = {} if self.posterior else {"posterior": None}
                return {**changed, **forgotten, "decision": last and last.decision}
            case "posterior":
                return {**changed, "posterior": self.posterior}
            case "alert":
                return {**changed, "alert": self.alert}
            case _:
                return {**changed, "hotspot": self.hotspot}

    def course(self, sensor: str | None) -> list[CoursePoint]:
        """Return the points of the dashboard's chart: the hot spot and `sensor` in each interval.

        Raises `LookupError` if `sensor` does not belong to the field.
        """
        if sensor is not None and sensor not in self._order:
            raise LookupError(sensor)
        return [course_point(frame, self._order, sensor) for frame in self.frames]

    def _check_known(self, sensors: Iterable[str]) -> None:
        """Raise `UnknownSensor` for a sensor that the dashboard's configuration does not have."""
        for sensor in sensors:
            if sensor not in self._order:
                raise UnknownSensor(f"{sensor} is not a sensor of the field")

    def _check_unit(self, unit: str) -> None:
        """Raise `OtherUnit` if `unit` is not the unit in the dashboard's configuration."""
        if not may_be_same_unit(unit, self._field.unit):
            ours = self._field.unit
            raise OtherUnit(f"the message is in {unit}, and the unit of the field is {ours}")

    def _forget_posterior_before(self, decision: Decision) -> None:
        """Remove the dashboard's present posterior if it is older than `decision`.

        It is of an interval with the same number, before a restart of the daemon.
        """
        if self.posterior and _seconds(self.posterior.at) < _seconds(decision.at):
            self.posterior = self.prediction = None

    def _update_frame(self) -> None:
        """Copy the present posterior to the dashboard's frame of the same interval."""
        index, posterior = self._frame_of_posterior(), self.posterior
        if index is None or posterior is None:
            return
        before = self.prediction
        if before is None or before.interval != posterior.interval:
            before = posterior
        self.frames[index] = self._with_posterior(self.frames[index], before, posterior)

    def _frame_of_posterior(self) -> int | None:
        """Return the index of the dashboard's frame with the interval of the present posterior.

        The index is -1 for the last frame, -2 for the frame before it, and None if neither frame
        has the interval. If a reply begins a new interval, the decision of the new interval arrives
        before the posterior of the old interval; then the index is -2.
        """
        for index in range(-1, -1 - min(2, len(self.frames)), -1):
            if self.posterior and self.frames[index].decision.interval == self.posterior.interval:
                return index
        return None

    def _with_posterior(
        self, frame: Frame, before: PublishedPosterior, posterior: PublishedPosterior
    ) -> Frame:
        """Return a copy of the dashboard's `frame`, with the two posteriors of its interval.

        `before` is the posterior before the reply, from which the estimates are taken. `posterior`
        is the posterior after the reply, from which the readings are taken.
        """
        last = dict(zip(posterior.sensors, posterior.last, strict=True))
        sensor = frame.decision.sensor
        return replace(
            frame,
            ending=posterior.ending,
            value=last.get(sensor) if posterior.ending == "answered" else None,
            mean=self._in_field_order(before, before.mean),
            std=self._in_field_order(before, before.std),
            readings=frame.readings | self._new_readings(posterior, frame.decision),
        )

    def _new_readings(self, posterior: PublishedPosterior, decision: Decision) -> dict[str, float]:
        """Return, for the dashboard, the new readings in `posterior`, as a dict by sensor.

        A reading is new if it is newer than the sensor's last known reading. If no reading of
        the sensor is known, a reading is new if it arrived after `decision`.
        """
        at = _seconds(posterior.at)
        first = _seconds(decision.at) - 2 * MAX_AGE_ERROR_S  # an earlier reading is not new
        found = {}
        for sensor, value, age in zip(
            posterior.sensors, posterior.last, posterior.age_s, strict=True
        ):
            if value is None or age is None or sensor not in self._order:
                continue
            known = self._reading_times.setdefault(sensor, min(at - age, first))
            if abs(at - age - known) > MAX_AGE_ERROR_S:
                self._reading_times[sensor] = at - age
                found[sensor] = value
        return found

    def _follow_clock(self, posterior: PublishedPosterior) -> None:
        """Shift the times of the known readings if the daemon's clock was stepped.

        After a step, the ages of the daemon's readings continue to grow, but their times are all
        shifted by the same duration. To recognise a step, the dashboard needs at least two
        readings whose times it knows.
        """
        before, at = self.posterior, _seconds(posterior.at)
        shifts: dict[str, float] = {}
        if before is None:
            return
        readings = zip(before.last, before.age_s, strict=True)
        earlier = dict(zip(before.sensors, readings, strict=True))
        for sensor, value, age in zip(
            posterior.sensors, posterior.last, posterior.age_s, strict=True
        ):
            last, last_age = earlier.get(sensor, (None, None))
            if sensor not in self._reading_times or last_age is None:
                continue
            if value != last or age is None or age <= last_age + MAX_AGE_ERROR_S:
                return  # a new reading, or the same document again
            shifts[sensor] = at - age - self._reading_times[sensor]
        durations = shifts.values()
        if len(shifts) < 2 or min(map(abs, durations)) <= MAX_AGE_ERROR_S:
            return
        if max(durations) - min(durations) <= 2 * MAX_AGE_ERROR_S:
            for sensor in self._reading_times:
                self._reading_times[sensor] += shifts.get(sensor, min(durations))

    def _in_field_order(self, posterior: PublishedPosterior, values: list[float]) -> list[float]:
        by_sensor = dict(zip(posterior.sensors, values, strict=True))
        return [by_sensor.get(sensor, nan) for sensor in self._order]


class DashboardState:
    """State of a daemon and of its fields, as the dashboard shows it; updated by MQTT messages.

    Parameters
    ----------
    instance : str
        The daemon's name.
    fields : mapping of str to DashboardField
        Every field by its name.

    Attributes
    ----------
    fields : dict of str to DashboardFieldState
        The state of each field.
    unreadable : int
        Number of messages that could not be decoded.
    """

    def __init__(self, instance: str, fields: Mapping[str, DashboardField]) -> None:
        self._base = f"edge_tvbo/{instance}"
        self.fields = {name: DashboardFieldState(field) for name, field in fields.items()}
        self.unreadable = 0
        self._broker = BrokerConnection(False, now())
        self._daemon: str | None = None
        self._is_outdated = False
        self._other_units: set[str] = set()  # topics whose last message is in another unit
        self._health: Health | None = None
        self._notices: deque[Notice] = deque(maxlen=MAX_NOTICES)

    @property
    def topics(self) -> list[str]:
        """Topics to which the dashboard subscribes, to update its state."""
        of_daemon = [f"{self._base}/{each}" for each in ("status", "health", "event")]
        levels = ("selected", "posterior", "hotspot", "alert", "event")
        return of_daemon + [
            f"{self._base}/{name}/{level}" for name in self.fields for level in levels
        ]

    def process(self, topic: str, payload: bytes) -> list[SseEvent]:
        """Update the dashboard's state with a message; return the events for the open pages.

        An empty message says that the topic was cleared. A message that cannot be decoded is
        counted in `unreadable`. After a message about an unknown sensor, the pages say that the
        dashboard must be restarted. After a message in another unit, the pages say this, too, but
        only until the same topic has a message in the field's unit or is cleared. The reason is
        that the message in the other unit may be an old one that the broker retained.
        """
        try:
            events = self._process(topic.removeprefix(f"{self._base}/").split("/"), payload)
            if topic not in self._other_units:
                return events
            self._other_units.discard(topic)
            return [*events, ("connections", self.connections())]
        except OtherUnit as error:
            if topic not in self._other_units:
                log.warning(
                    "%s: %s; restart the dashboard if the configuration has changed", topic, error
                )
            self._other_units.add(topic)
            return [("connections", self.connections())]
        except UnknownSensor as error:
            if not self._is_outdated:
                log.warning("%s: %s; restart the dashboard to load the configuration", topic, error)
            self._is_outdated = True
            return [("connections", self.connections())]
        except (ValueError, LookupError, RecursionError):  # msgspec's errors are ValueErrors
            self.unreadable += 1
            return []

    def broker_connected(self) -> list[SseEvent]:
        """Store in the dashboard's state that it is connected; return the events for the pages."""
        return self._set_broker(online=True)

    def broker_lost(self, reason: str) -> list[SseEvent]:
        """Store in the dashboard's state why it is disconnected; return events for the pages."""
        return self._set_broker(online=False, reason=reason)

    def connections(self) -> ConnectionState:
        """Return the state of the broker connection and of the daemon, as a page shows it."""
        outdated = self._is_outdated or bool(self._other_units)
        return ConnectionState(now(), self._broker, self._daemon, self._health, outdated)

    def view(self) -> View:
        """Return the whole state of the dashboard, for a page that opens."""
        fields = {name: each.view() for name, each in self.fields.items()}
        return View(self.connections(), fields, list(self._notices))

    def _set_broker(self, *, online: bool, reason: str = "") -> list[SseEvent]:
        if online is not self._broker.online or not (online or self._broker.reason):
            self._broker = BrokerConnection(online, now(), reason)
        return [("connections", self.connections())]

    def _process(self, levels: list[str], payload: bytes) -> list[SseEvent]:
        if len(payload) > MAX_MESSAGE_SIZES.get(levels[-1], MAX_MESSAGE_SIZE):
            raise ValueError("the message is too large")
        match levels:
            case ["status"]:
                self._daemon = "online" if payload == b"online" else "offline"
            case ["health"]:
                self._health = msgspec.json.decode(payload, type=Health) if payload else None
            case ["event"]:
                return [_add_notice(None, self._notices, payload)]
            case [name, "event"]:
                return [_add_notice(name, self.fields[name].notices, payload)]
            case [name, level]:
                field = self.fields[name]
                if payload:
                    _update_field(field, level, payload)
                else:
                    field.clear(level)
                return [("field", {"field": name, **field.changed_by(level)})]
        return [("connections", self.connections())]


def _add_notice(field: str | None, notices: deque[Notice], payload: bytes) -> SseEvent:
    notice = msgspec.json.decode(payload, type=Notice)
    notices.append(notice)
    return "notice", {"field": field, "notice": notice}


def _update_field(field: DashboardFieldState, level: str, payload: bytes) -> None:
    match level:
        case "selected":
            field.add_decision(msgspec.json.decode(payload, type=Decision))
        case "posterior":
            field.add_posterior(msgspec.json.decode(payload, type=PublishedPosterior))
        case "hotspot":
            field.add_hotspot(msgspec.json.decode(payload, type=Hotspot))
        case "alert":
            field.add_alert(msgspec.json.decode(payload, type=Alert))


def now() -> str:
    """Return the present time for the dashboard, as RFC 3339 text in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_of_interval(decision: Decision, last: Decision) -> bool:
    """Return whether `decision` is of the interval of `last`, the dashboard's last decision.

    The numbers of both intervals must be equal. In addition, further decisions of an interval have
    the time of the first, or name the sensors that were activated before. Only a decision that a
    command has requested can lack both.
    """
    return decision.interval == last.interval and (
        decision.at == last.at or last.sensor in decision.earlier or decision.reason is Reason.ASKED
    )


def _seconds(time: str) -> float:
    """Return the RFC 3339 text `time` of a dashboard message in s since 1970.

    Raises `ValueError` if the text is invalid.
    """
    return datetime.fromisoformat(time).timestamp()
