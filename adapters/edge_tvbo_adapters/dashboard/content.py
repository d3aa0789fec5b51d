"""Dashboard content: the fields that a dashboard shows, and the sources of their data."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Protocol

import msgspec

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo_adapters.dashboard.frames import DashboardField
from edge_tvbo_adapters.dashboard.plan import PlanImage


class DecisionHistory(Protocol):
    """Interface of a decision history for the dashboard; every method may raise `DataError`."""

    def newest(self, field: str, count: int) -> list[HistoryEntry]:
        """Return the last `count` entries of `field` for the dashboard, the newest first."""

    def close(self) -> None:
        """Close the file of the dashboard's decision history."""


class DashboardContent(msgspec.Struct, frozen=True):
    """The fields that a dashboard shows, and the sources of their data.

    Attributes
    ----------
    title : str
        The title of the page.
    instance : str
        The name of the daemon whose messages are shown.
    fields : mapping
        The fields; each key is the name of a field.
    mqtt : Mqtt, optional
        The broker from which live data come; None to show recorded days only.
    open_history : callable, optional
        Opens the decision history; None if the daemon stores no history.
    silent_after : float
        Seconds without a health report after which the daemon counts as not responding.
    plan : PlanImage, optional
        The image behind the map of the sensors.
    """

    title: str
    instance: str
    fields: Mapping[str, DashboardField]
    mqtt: Mqtt | None
    open_history: Callable[[], DecisionHistory] | None
    silent_after: float = inf
    plan: PlanImage | None = None
