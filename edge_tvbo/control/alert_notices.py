"""Alert notices: the documents and notices about the alert of one field, and its quiet hours."""

from collections.abc import Mapping, Sequence

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.control.alerts import AlertMonitor
from edge_tvbo.control.hotspots import HotspotFinder
from edge_tvbo.messages.documents import Alert, Notice
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.models.field import SensorField


class AlertNotices:
    """Announces when the alert of one field begins, and when it is over.

    Parameters
    ----------
    monitor : AlertMonitor
        The state of the alert.
    hotspots : HotspotFinder
        Finds the hot spot.
    names : mapping
        Names of sensors for people, by their ids.
    """

    def __init__(
        self, monitor: AlertMonitor, hotspots: HotspotFinder, names: Mapping[str, str]
    ) -> None:
        self.monitor = monitor
        self._hotspots = hotspots
        self._names = names

    @classmethod
    def from_settings(
        cls, settings: ControllerSettings, field: SensorField, hotspots: HotspotFinder
    ) -> "AlertNotices | None":
        """Return the alert notices of a field; None if the field has no threshold."""
        if settings.alert is None:
            return None
        return cls(AlertMonitor(field, settings.alert), hotspots, settings.sensor_names)

    def document(self, at: float, values: Sequence[float]) -> Alert | None:
        """Return the state of the alert at time `at`; None before the first reading.

        `values` contains the last reading of each sensor.
        """
        return self._hotspots.alert(self.monitor, at, values, self._names)

    def text(self, at: float, values: Sequence[float]) -> str | None:
        """Return the text of the alert; None if there is no alert."""
        state = self.document(at, values) if self.monitor.active else None
        return state.text if state else None

    def update(self, at: float, values: Sequence[float]) -> Notice | None:
        """Compare the hot spot with the threshold; return a notice if one is due."""
        hottest = self._hotspots.hottest()
        if hottest is None:
            return None
        hidden = self._hotspots.hidden()
        event = self.monitor.update(hottest.mean, hottest.std, hidden, at)
        state = self.document(at, values) if event else None
        if event is None or state is None:
            return None
        sensor = next(iter(state.readings), state.sensor)
        return Notice(event, rfc3339(at), state.text, sensor)
