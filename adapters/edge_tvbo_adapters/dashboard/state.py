"""Dashboard state: the connections, and a bounded number of the newest messages of every field.

`DashboardState.process` processes one message of the broker, and returns the server-sent events for
the open pages. A page that opens or reconnects receives `DashboardState.view`, the whole state.
"""

import logging
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import msgspec

from edge_tvbo.messages.documents import (
    Alert,
    Decision,
    Health,
    Hotspot,
    Notice,
    PublishedPosterior,
)
from edge_tvbo.messages.formatting import listed
from edge_tvbo_adapters.dashboard.field_state import (
    MAX_NOTICES,
    DashboardFieldState,
    FieldView,
    OtherUnit,
    UnknownSensor,
)
from edge_tvbo_adapters.dashboard.frames import DashboardField
from edge_tvbo_adapters.dashboard.times import now

MAX_MESSAGE_SIZES = {"selected": 2**15, "event": 2**12}  # bytes; key: last level of the topic
MAX_MESSAGE_SIZE = 2**18  # bytes of any other message
MAX_DETAIL = 200  # characters of an error text in the log

log = logging.getLogger(__name__)
SseEvent = tuple[str, Any]  # a server-sent event: its name, and the document to send as JSON


class OtherFields(ValueError):
    """Error for a health report in which a field is missing, or is new to the dashboard."""


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
    health: Health | None  # the daemon's health; None before it arrives
    outdated: bool = False  # whether the daemon has other fields, sensors or units


class View(msgspec.Struct, frozen=True):
    """The whole state of the dashboard, as it is sent to a page that opens."""

    connections: ConnectionState
    fields: dict[str, FieldView]
    notices: list[Notice]  # notices about the daemon; notices about a field are in `fields`


class DashboardState:
    """State of a daemon and of its fields, as the dashboard shows it; updated by MQTT messages.

    Parameters
    ----------
    instance : str
        The daemon's name.
    fields : mapping of str to DashboardField
        The fields; each key is the name of a field.

    Attributes
    ----------
    fields : dict of str to DashboardFieldState
        The state of each field.
    unreadable : Counter of str
        For each topic, the number of messages that could not be read.
    """

    def __init__(self, instance: str, fields: Mapping[str, DashboardField]) -> None:
        self._base = f"edge_tvbo/{instance}"
        self.fields = {name: DashboardFieldState(field) for name, field in fields.items()}
        self.unreadable: Counter[str] = Counter()
        self._broker = BrokerConnection(False, now())
        self._daemon: str | None = None
        self._is_outdated = False
        self._unfit: set[str] = set()  # topics whose last message does not fit, but may be old
        self._health: Health | None = None
        self._first_fields: frozenset[str] | None = None  # the fields in the daemon's first health
        self._notices: deque[Notice] = deque(maxlen=MAX_NOTICES)

    @property
    def topics(self) -> list[str]:
        """Topics to which the dashboard subscribes, to update its state."""
        of_daemon = [f"{self._base}/{each}" for each in ("status", "health", "event")]
        levels = ("selected", "posterior", "hotspot", "alert", "event")
        return of_daemon + [
            f"{self._base}/{name}/{level}" for name in self.fields for level in levels
        ]

    def process(self, topic: str, payload: bytes, *, retained: bool = False) -> list[SseEvent]:
        """Update the dashboard's state with a message; return the events for the open pages.

        An empty message says that the topic was cleared. A message that is too large or
        cannot be decoded is counted in `unreadable`; the first one of each topic is logged.

        A message does not fit the dashboard's configuration if it names an unknown sensor, has
        another unit, or is a health report about other fields. Then the pages advise the user to
        restart the dashboard. There are two cases:

        - The message names an unknown sensor, and is not `retained`. The pages show the advice
          until the restart.
        - Any other message may be an old one, from an earlier configuration. The pages remove the
          advice when the topic is cleared, or when a later message on the topic fits.
        """
        limit = MAX_MESSAGE_SIZES.get(topic.rpartition("/")[2], MAX_MESSAGE_SIZE)
        if len(payload) > limit:
            why = f"its {len(payload)} bytes are more than the limit of {limit} bytes"
            return self._reject(topic, why)
        try:
            events = self._process(topic.removeprefix(f"{self._base}/").split("/"), payload)
            if topic not in self._unfit:
                return events
            self._unfit.discard(topic)
            return [*events, ("connections", self.connections())]
        except (OtherFields, OtherUnit, UnknownSensor) as error:
            may_be_old = retained or not isinstance(error, UnknownSensor)
            self._set_outdated(topic, error, may_be_old=may_be_old)
            return [("connections", self.connections())]
        except (ValueError, LookupError, RecursionError) as error:  # msgspec's are ValueErrors
            why = f"{_detail(error)}; update the dashboard if the daemon is newer"
            return self._reject(topic, why)

    def forget_alerts(self) -> list[SseEvent]:
        """Remove the alerts from the dashboard's state; return the events for the pages.

        After each subscription, the broker sends the alerts that it retains. The broker does not
        say that an alert was cleared while the dashboard was not connected.
        """
        events: list[SseEvent] = []
        for name, field in self.fields.items():
            if field.alert:
                field.clear("alert")
                events.append(("field", {"field": name, **field.changed_by("alert")}))
        return events

    def broker_connected(self) -> list[SseEvent]:
        """Store that the dashboard is connected to the broker; return the events for the pages."""
        return self._set_broker(online=True)

    def broker_lost(self, reason: str) -> list[SseEvent]:
        """Store why the dashboard is not connected to the broker; return events for the pages."""
        return self._set_broker(online=False, reason=reason)

    def ended(self, reason: str) -> list[SseEvent]:
        """Store why the dashboard receives no more messages; return the events for the pages."""
        since = now() if self._broker.online else self._broker.since
        self._broker = BrokerConnection(False, since, reason)
        return [("connections", self.connections())]

    def connections(self) -> ConnectionState:
        """Return the state of the broker connection and of the daemon, as a page shows it."""
        outdated = self._is_outdated or bool(self._unfit)
        return ConnectionState(now(), self._broker, self._daemon, self._health, outdated)

    def view(self) -> View:
        """Return the whole state of the dashboard, for a page that opens."""
        fields = {name: each.view() for name, each in self.fields.items()}
        return View(self.connections(), fields, list(self._notices))

    def _set_outdated(self, topic: str, error: ValueError, *, may_be_old: bool) -> None:
        """Store and log that a message does not fit the configuration of the dashboard."""
        if may_be_old:
            is_known = topic in self._unfit
            advice = "restart the dashboard if the configuration has changed"
            self._unfit.add(topic)
        else:
            is_known, advice = self._is_outdated, "restart the dashboard to load the configuration"
            self._is_outdated = True
        if not is_known:
            log.warning("%s: %s; %s", topic, _detail(error), advice)

    def _reject(self, topic: str, why: str) -> list[SseEvent]:
        """Count a message that the dashboard cannot read; log the first of each topic."""
        self.unreadable[topic] += 1
        if self.unreadable[topic] == 1:
            log.warning("%s: a message cannot be read: %s", topic, why)
        return []

    def _set_broker(self, *, online: bool, reason: str = "") -> list[SseEvent]:
        if online is not self._broker.online or not (online or self._broker.reason):
            self._broker = BrokerConnection(online, now(), reason)
        return [("connections", self.connections())]

    def _process(self, levels: list[str], payload: bytes) -> list[SseEvent]:
        match levels:
            case ["status"]:
                self._daemon = "online" if payload == b"online" else "offline"
            case ["health"]:
                self._health = msgspec.json.decode(payload, type=Health) if payload else None
                if self._health:
                    self._check_fields(frozenset(self._health.fields))
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

    def _check_fields(self, names: frozenset[str]) -> None:
        """Raise `OtherFields` if the daemon lacks a field of the dashboard, or has added one.

        `names` are the fields in a health report of the daemon. The dashboard may show only some of
        the daemon's fields. Therefore a field counts as added only if the first health report did
        not contain it.
        """
        if self._first_fields is None:
            self._first_fields = names
        if others := (names ^ self.fields.keys()) - (names & self._first_fields):
            raise OtherFields(
                "the daemon and the dashboard have different fields: only one of them has "
                f"{listed(sorted(others))}"
            )


def _add_notice(field: str | None, notices: deque[Notice], payload: bytes) -> SseEvent:
    notice = msgspec.json.decode(payload, type=Notice)
    notices.append(notice)
    return "notice", {"field": field, "notice": notice}


def _detail(error: Exception) -> str:
    """Return the text of an error for the dashboard's log: short, and only printable characters.

    The text may quote a message, which can contain any characters.
    """
    return "".join(filter(str.isprintable, str(error)))[:MAX_DETAIL]


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
