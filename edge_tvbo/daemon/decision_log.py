"""Decision log: the last decisions of every field in memory, and log lines about decisions."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec.structs import replace

from edge_tvbo.control import history_text
from edge_tvbo.messages.commands import (
    Activate,
    Command,
    Ending,
    Notify,
    PublishState,
    Recommend,
    Record,
)
from edge_tvbo.messages.documents import Decision, Notice, Reason
from edge_tvbo.messages.formatting import MAX_NAMED_SENSORS, counted
from edge_tvbo.messages.history import EarlierActivation, HistoryEntry, PosteriorSnapshot

log = logging.getLogger(__name__)

MAX_DECISIONS = 50  # decisions of all fields together that the log keeps
MAX_NOTICES = 64  # notices of one interval that the log keeps
MAX_EARLIER = 16  # activations of one interval that the log keeps, besides the last one


class DecisionLog:
    """Log of the last decisions: makes history entries from the commands of the controllers.

    The `status` command, the history database, the crash file and the status dump all read
    decisions from this log.

    Attributes
    ----------
    posterior : callable, optional
        Returns the posterior of a field, which is stored with each new entry.
    """

    def __init__(self) -> None:
        self.posterior: Callable[[str], PosteriorSnapshot] | None = None
        self._recent: dict[tuple[str, int], HistoryEntry] = {}  # by field and interval
        self._newest: dict[str, HistoryEntry] = {}

    def newest(self, field: str) -> HistoryEntry | None:
        """Return the decision log's last entry of `field`; None if the field has no decision."""
        return self._newest.get(field)

    def decisions(self) -> dict[str, Decision]:
        """Return a dict that maps the name of each field to its last decision."""
        return {field: entry.decision for field, entry in self._newest.items()}

    def lines(self) -> Iterator[str]:
        """Yield one line of text for each entry of the decision log, the newest last."""
        for entry in self._recent.values():
            yield f"{entry.field} {history_text.one_line(entry)}"

    def restore(self, entry: HistoryEntry) -> None:
        """Restore `entry`, a field's last entry in the decision log of an earlier process."""
        self._newest[entry.field] = entry

    def keep_only(self, fields: Collection[str]) -> None:
        """Remove the last decisions of all fields except `fields` from the decision log."""
        self._newest = {name: entry for name, entry in self._newest.items() if name in fields}

    def update(self, field: str, command: Command) -> HistoryEntry | None:
        """Apply a controller's command to the decision log; return the created or changed entry."""
        match command:
            case PublishState(decision=decision):
                return self._add(field, decision)
            case Record(interval=interval):
                entry = self._newest.get(field)
                if entry is None or entry.decision.interval != interval:
                    return None
                return self._store(_with_record(entry, command))
            case Notify(notice=notice):
                return self._add_notice(field, notice)
            case _:
                return None

    def _add(self, field: str, decision: Decision) -> HistoryEntry:
        before = self._newest.get(field)
        same = before is not None and before.decision.interval == decision.interval
        notices = before.notices if before is not None and same else ()
        earlier = _activations(before) if before is not None and same else ()
        posterior = self.posterior(field) if self.posterior else None
        return self._store(HistoryEntry(field, decision, None, notices, posterior, earlier))

    def _add_notice(self, field: str, notice: Notice) -> HistoryEntry | None:
        entry = self._newest.get(field)
        if entry is None or len(entry.notices) >= MAX_NOTICES:
            return None
        return self._store(replace(entry, notices=(*entry.notices, notice)))

    def _store(self, entry: HistoryEntry) -> HistoryEntry:
        self._newest[entry.field] = entry
        self._recent[entry.field, entry.decision.interval] = entry
        if len(self._recent) > MAX_DECISIONS:
            del self._recent[next(iter(self._recent))]
        return entry


def _activations(entry: HistoryEntry) -> tuple[EarlierActivation, ...]:
    """Return the newest activations in `entry`, for the next log entry of the same interval.

    The result is empty after a decision to save energy: the controller makes this decision only at
    the beginning of an interval, and activates no sensor.
    """
    if entry.decision.reason is Reason.SAVED:
        return ()
    return (*entry.earlier, EarlierActivation(entry.decision, entry.record))[-MAX_EARLIER:]


def _with_record(entry: HistoryEntry, record: Record) -> HistoryEntry:
    """Return a copy of the log entry `entry`, in which `record` says how an activation ended."""
    if record.sensor == entry.decision.sensor:
        return replace(entry, record=record)
    earlier = (
        replace(each, record=record) if each.decision.sensor == record.sensor else each
        for each in entry.earlier
    )
    return replace(entry, earlier=tuple(earlier))


class DecisionLogger:
    """Logger of notices and decisions; a repeated selection is logged at debug level.

    If hundreds of sensors fail together, there is a notice about each sensor. For each kind of
    notice about sensors, only the first `MAX_NAMED_SENSORS` notices are logged; further notices are
    counted. The count restarts in each interval, and in each hour of a long interval or a pause.
    """

    def __init__(self) -> None:
        self.names: Mapping[str, Mapping[str, str]] = {}  # display names, by field and sensor
        self._selected: dict[tuple[str, int], str] = {}  # sensor, by field and place in interval
        self._undelivered: set[str] = set()  # fields whose last activation was not delivered
        self._intervals: dict[str, int] = {}  # number of the last interval of each field
        self._hours: dict[str, str] = {}  # hour of the last notice of each field
        self._notices: dict[str, Counter[str]] = {}  # number of notices, by field and event

    def __call__(self, field: str, command: Command) -> None:
        """Log a controller's command: a decision, a notice, an activation or its end."""
        match command:
            case PublishState(decision=decision):
                if self._intervals.get(field) != decision.interval:
                    self._intervals[field] = decision.interval
                    self._log_counted_notices(field)
                place = field, len(decision.earlier)
                changed = self._selected.get(place) != decision.sensor
                self._selected[place] = decision.sensor
                log.log(logging.INFO if changed else logging.DEBUG, "%s: %s", field, decision.text)
            case Activate(sensor=sensor, interval=interval):
                log.debug("%s: interval %d: %s is activated", field, interval, sensor)
            case Recommend(sensor=sensor, interval=interval):
                log.debug("%s: interval %d: %s is recommended", field, interval, sensor)
            case Record(sensor=sensor, interval=interval, ending=ending):
                self._log_delivery(field, command)
                log.debug("%s: interval %d: %s %s", field, interval, sensor, ending)
            case Notify(notice=notice):
                self._log_notice(field, notice)
            case _:
                pass

    def _log_notice(self, field: str, notice: Notice) -> None:
        if notice.sensor is None:
            log.warning("%s: %s: %s", field, notice.event, notice.text)
            return
        hour = notice.at[:13]  # of RFC 3339
        if self._hours.get(field) != hour:
            self._hours[field] = hour
            self._log_counted_notices(field)
        numbers = self._notices.setdefault(field, Counter())
        numbers[notice.event] += 1
        if numbers[notice.event] <= MAX_NAMED_SENSORS:
            log.warning("%s: %s: %s", field, notice.event, notice.text)
        elif numbers[notice.event] == MAX_NAMED_SENSORS + 1:
            log.warning(
                "%s: %s: more than %d of these events in a short time; further events are only "
                "counted",
                *(field, notice.event, MAX_NAMED_SENSORS),
            )

    def _log_counted_notices(self, field: str) -> None:
        """Log how many notices about sensors of `field` were only counted, and reset the count."""
        for event, number in self._notices.pop(field, Counter()).items():
            if number > MAX_NAMED_SENSORS:
                more = counted(number - MAX_NAMED_SENSORS, "more event")
                log.warning("%s: %s: %s", field, event, more)

    def _log_delivery(self, field: str, record: Record) -> None:
        """Log when an activation of `field` is not delivered, and the next delivery after that.

        The log names both sensors, because the broker may refuse the activations of one of them.
        """
        is_delivered = record.ending is not Ending.UNDELIVERED
        if is_delivered is (field not in self._undelivered):
            return
        name = self.names.get(field, {}).get(record.sensor, record.sensor)
        if is_delivered:
            self._undelivered.discard(field)
            text = "%s: interval %d: the activation of %s was delivered"
            log.info(text, field, record.interval, name)
            return
        self._undelivered.add(field)
        log.warning(
            "%s: interval %d: the activation of %s was not delivered; this is not a time-out of "
            "the sensor; energy is charged only if the activation was sent",
            *(field, record.interval, name),
        )
