"""Dashboard content: the fields that a dashboard shows, and the sources of their data."""

from collections.abc import Callable, Mapping
from math import inf

import msgspec

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.messages.history import DecisionHistory
from edge_tvbo_adapters.dashboard.frames import DashboardField
from edge_tvbo_adapters.dashboard.plan import PlanImage


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
