"""Alert notices: the documents and notices about the alert of one field, and its quiet hours."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from heapq import nlargest
from math import floor

from edge_tvbo.config.alert_settings import AlertSettings
from edge_tvbo.control.alerts import AlertMonitor
from edge_tvbo.control.fault_detection import FaultDetector
from edge_tvbo.control.hotspots import HotspotFinder
from edge_tvbo.control.quantities import Quantities
from edge_tvbo.control.reading_filter import ReadingFilter
from edge_tvbo.messages.documents import Alert, Notice
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.models.field import SensorField

LocalTime = Callable[[float], datetime]  # converts a time in s since 1970 to local time
MAX_READINGS = 5  # readings named in the text of an alert; further readings are only counted
MAX_PUBLISHED_READINGS = 100  # readings in an alert's document, which must fit in one message


def in_utc(at: float) -> datetime:
    """Return the time `at`, in s since 1970, as a date and time in UTC."""
    return datetime.fromtimestamp(at, UTC)


class QuietHours:
    """Hours of the day in which no alert is announced.

    Parameters
    ----------
    hours : pair of int or None
        Beginning and end of the quiet hours, in minutes since midnight; None for no quiet hours.
    local_time : callable
        Converts a time in s since 1970 to local time.

    Examples
    --------
    >>> quiet = QuietHours((1320, 390), in_utc)  # 22:00 to 06:30
    >>> [quiet.includes(hour * 3600.0) for hour in (6, 7, 21, 22)]
    [True, False, False, True]
    """

    def __init__(self, hours: tuple[int, int] | None, local_time: LocalTime) -> None:
        self._hours = hours
        self._local_time = local_time

    def includes(self, at: float) -> bool:
        """Return whether the quiet hours of alerts include the time `at`, in s since 1970."""
        if self._hours is None:
            return False
        begin, end = self._hours
        time = self._local_time(at)
        minute = 60 * time.hour + time.minute
        return begin <= minute < end if begin < end else not end <= minute < begin


class AlertNotices:
    """Announces when the alert of one field begins, and when it is over.

    In the quiet hours, nothing is announced. When these hours are over, the beginning or the end of
    the alert is announced, unless the alert has both begun and ended in these hours.

    Parameters
    ----------
    settings : AlertSettings
        The threshold and the quiet hours.
    field : SensorField
        The field.
    hotspots : HotspotFinder
        Finds the hot spot.
    faults : FaultDetector
        Determines which readings are not used.
    readings : ReadingFilter
        The last reading of each sensor.
    names : mapping
        Maps sensor ids to readable names, if these differ from the ids.
    local_time : callable
        Converts a time in s since 1970 to local time.
    """

    def __init__(
        self,
        settings: AlertSettings,
        field: SensorField,
        hotspots: HotspotFinder,
        faults: FaultDetector,
        readings: ReadingFilter,
        names: Mapping[str, str],
        local_time: LocalTime,
    ) -> None:
        self.monitor = AlertMonitor(field, settings)
        self.is_delayed = False  # whether quiet hours delay a notice
        self._field = field
        self._hotspots = hotspots
        self._faults = faults
        self._readings = readings
        self._names = names
        self._quiet = QuietHours(settings.quiet, local_time)
        self._quantities = Quantities(field)

    def document(self, at: float) -> Alert | None:
        """Return the alert and its hot spot at time `at`, in s since 1970, for users.

        If the model has no readings yet, the result depends on the alert. If the alert is active,
        the result contains the hot spot of the prior; otherwise, the result is None.
        """
        monitor, quantities = self.monitor, self._quantities
        hottest = self._hotspots.hottest()
        if hottest is None:
            if not monitor.active:
                return None
            hottest = self._hotspots.argmax_mean(-1)
        figures = quantities.figures(hottest.mean, hottest.std)
        return Alert(
            at=rfc3339(at),
            active=monitor.active,
            since=rfc3339(monitor.since) if monitor.since else None,
            threshold=monitor.threshold,
            release=round(monitor.release, quantities.digits),
            sensor=hottest.sensor,
            value=figures.mean,
            std=figures.std,
            probability=round(monitor.probability(hottest.mean, hottest.std), 3),
            readings=self._most_extreme(self._causes()),
            unit=self._field.unit,
            text=self.text(),
        )

    def text(self) -> str:
        """Return the text of the alert: whether there is an alert, and why."""
        monitor, quantities, hottest = self.monitor, self._quantities, self._hotspots.hottest()
        side = "above" if self._field.objective == "max" else "below"
        unit = f" {self._field.unit}" if self._field.unit else ""
        limit = f"for values {side} {monitor.threshold:.12g}{unit}"
        hotspot = "no hot spot is estimated before the next reading"
        probable = ""
        if hottest is not None:
            name = self._name(hottest.sensor)
            figures = quantities.figures(hottest.mean, hottest.std)
            percent = min(99, floor(100.0 * monitor.probability(hottest.mean, hottest.std)))
            hotspot = f"{name} is estimated at {quantities.estimate(figures)}"
            probable = f", {side} the threshold with {percent} % probability"
        if not monitor.active:
            return f"No alert {limit}; {hotspot}"
        until = quantities.text(round(monitor.release, quantities.digits))
        sent = [
            f"{self._name(sensor)} sent {quantities.text(value)}"
            for sensor, value in self._causes().items()
        ]
        if len(sent) > MAX_READINGS:
            sent = [*sent[:MAX_READINGS], f"{len(sent) - MAX_READINGS} more sensors"]
        return f"Alert {limit}, until {until}: {', '.join(sent) or hotspot + probable}"

    def is_overdue(self, at: float) -> bool:
        """Return whether an alert notice that quiet hours have delayed is due at time `at`."""
        return self.is_delayed and not self._is_quiet(at)

    def update(self, at: float) -> Notice | None:
        """Compare the hot spot with the threshold; return an alert notice if one is due.

        Quiet hours have no effect while the clock is not set, because the time of day is unknown.
        """
        hottest = self._hotspots.hottest()
        hotspot = (hottest.mean, hottest.std) if hottest else None
        self.monitor.update(hotspot, self._hotspots.hidden(), at)
        is_quiet = self._is_quiet(at)
        self.is_delayed = is_quiet and self.monitor.has_event
        if is_quiet:
            return None
        if hottest is None and not self.monitor.arms_beyond():
            return None  # without an estimate, only an alert that a reading caused can be described
        event = self.monitor.take_event()
        state = self.document(at) if event else None
        if event is None or state is None:
            return None
        sensor = next(iter(state.readings), state.sensor)
        return Notice(event, rfc3339(at), state.text, sensor)

    def _is_quiet(self, at: float) -> bool:
        return self._readings.clock_is_set and self._quiet.includes(at)

    def _causes(self) -> dict[str, float]:
        """Return the rounded last reading of each sensor that causes the alert.

        Ignored and excluded sensors are left out, and so are sensors whose last reading may be in
        another unit. The monitor of the alert may still count these sensors among the causes. A
        sensor that may be stuck is not left out, because it only repeats a reading that the model
        has used.
        """
        sensors, values = self._field.sensors, self._readings.values
        digits, hidden = self._quantities.digits, self._hotspots.hidden()
        beyond = [arm for arm in self.monitor.arms_beyond() if not hidden[arm]]
        arms = [arm for arm in beyond if not self._faults.may_use_other_unit(arm)]
        return {sensors[arm]: round(values[arm], digits) + 0.0 for arm in arms}  # no minus zero

    def _most_extreme(self, readings: dict[str, float]) -> dict[str, float]:
        """Return the most extreme of the readings that cause an alert.

        At most `MAX_PUBLISHED_READINGS` are returned.
        """
        if len(readings) <= MAX_PUBLISHED_READINGS:
            return readings
        sign = 1.0 if self._field.objective == "max" else -1.0
        sensors = nlargest(MAX_PUBLISHED_READINGS, readings, key=lambda each: sign * readings[each])
        return {sensor: readings[sensor] for sensor in sensors}

    def _name(self, sensor: str) -> str:
        return self._names.get(sensor, sensor)
