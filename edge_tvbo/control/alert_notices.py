"""Alert notices: the documents and notices about the alert of one field, and its quiet hours."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.control.alerts import AlertMonitor
from edge_tvbo.control.hotspots import HotspotFinder
from edge_tvbo.control.reading_filter import ReadingFilter
from edge_tvbo.messages.documents import Alert, Notice
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.models.field import SensorField

LocalTime = Callable[[float], datetime]  # returns the local time of a time in s since 1970


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
        Returns the local time of a time in s since 1970.

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

    Parameters
    ----------
    monitor : AlertMonitor
        The state of the alert.
    hotspots : HotspotFinder
        Finds the hot spot.
    readings : ReadingFilter
        The last reading of each sensor.
    quiet : QuietHours
        The hours in which nothing is announced. When the hours are over, the beginning or the end
        of the alert is announced, unless the alert has both begun and ended in these hours.
    names : mapping
        Readable names of sensors, by their ids.
    """

    def __init__(
        self,
        monitor: AlertMonitor,
        hotspots: HotspotFinder,
        readings: ReadingFilter,
        quiet: QuietHours,
        names: Mapping[str, str],
    ) -> None:
        self.monitor = monitor
        self._hotspots = hotspots
        self._readings = readings
        self._quiet = quiet
        self._names = names
        self.is_delayed = False  # whether quiet hours delay a notice

    @classmethod
    def from_settings(
        cls,
        settings: ControllerSettings,
        field: SensorField,
        hotspots: HotspotFinder,
        readings: ReadingFilter,
        local_time: LocalTime,
    ) -> "AlertNotices | None":
        """Return the alert notices of a field; None if the field has no threshold."""
        alert = settings.alert
        if alert is None:
            return None
        monitor, quiet = AlertMonitor(field, alert), QuietHours(alert.quiet, local_time)
        return cls(monitor, hotspots, readings, quiet, settings.sensor_names)

    def document(self, at: float) -> Alert | None:
        """Return the document about the alert at time `at`; see `HotspotFinder.alert`."""
        return self._hotspots.alert(self.monitor, at, self._readings.values, self._names)

    def text(self) -> str | None:
        """Return the text of the alert; None if there is no alert."""
        if not self.monitor.active:
            return None
        return self._hotspots.alert_text(self.monitor, self._readings.values, self._names)

    def is_overdue(self, at: float) -> bool:
        """Return whether quiet hours have delayed an alert notice, and are over at time `at`."""
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
