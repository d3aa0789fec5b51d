"""`/metrics` in Prometheus's text format, and `/healthz`, answered from the daemon's loop.

Each scrape writes what there is at that moment into families of its own, so the series of a sensor
that fell silent, or that the configuration no longer has, are simply not there any more.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import msgspec

from edge_tvbo.errors import MissingExtra
from edge_tvbo.messages.documents import FieldStatus, Status
from edge_tvbo_adapters.monitoring.http_server import HttpServer, Page

if TYPE_CHECKING:
    from prometheus_client import Metric

log = logging.getLogger(__name__)

COUNTERS: dict[str, tuple[str, Callable[[FieldStatus], float]]] = {
    "decisions": ("Sensors selected.", lambda field: field.decisions),
    "activations": (
        "Sensors activated, or recommended in advise mode.",
        lambda field: field.activations,
    ),
    "answered": ("Intervals whose sensor replied in time.", lambda field: field.health.answered),
    "missed": ("Intervals whose sensor timed out.", lambda field: field.health.missed),
    "resets": ("Resets of the model.", lambda field: field.resets),
}


def open_endpoint(host: str, port: int, status: Callable[[], Status]) -> HttpServer:
    """Listen on `host` and `port`; raises `MissingExtra`, or `EdgeTvboError` for a taken port."""
    if find_spec("prometheus_client") is None:
        raise MissingExtra("The package prometheus-client, which [metrics] wants,", "metrics")
    responder = HttpServer(host, port, partial(page, status))
    if not _is_loopback(host):
        log.warning("[metrics] on %s: whoever reaches this machine can read them", host)
    log.info("metrics: http://%s:%d/metrics", f"[{host}]" if ":" in host else host, responder.port)
    return responder


def page(status: Callable[[], Status], path: str) -> Page | None:
    """Give what is at `path`."""
    match path:
        case "/metrics":
            return Page(HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", text(status()))
        case "/healthz":
            return _health(status())
        case _:
            return None


def _health(status: Status) -> Page:
    document = {
        "healthy": status.healthy,
        "reason": status.reason,
        "broker": "online" if status.online else "away",
        "uptime_s": round(status.uptime),
        "version": status.health.version,
        "selected": {name: field.health.selected for name, field in status.fields.items()},
    }
    code = HTTPStatus.OK if status.healthy else HTTPStatus.SERVICE_UNAVAILABLE
    return Page(code, "application/json", msgspec.json.encode(document) + b"\n")


def text(status: Status) -> bytes:
    """Write `status` in Prometheus's text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    class Once:
        def collect(self) -> "Iterator[Metric]":
            yield from _daemon(status)
            yield from _fields(status.fields)
            yield from _energy(status.fields)
            yield from _sensors(status)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Once())
    written: bytes = generate_latest(registry)
    return written


def _daemon(status: Status) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    def gauge(name: str, meaning: str, value: float) -> Any:
        return GaugeMetricFamily(f"edge_tvbo_{name}", meaning, value=value)

    info = GaugeMetricFamily("edge_tvbo_info", "The version that runs.", labels=["version"])
    info.add_metric([status.health.version], 1)
    yield info
    yield gauge("uptime_seconds", "Since the start.", status.uptime)
    yield gauge("healthy", "Whether /healthz says 200.", status.healthy)
    yield gauge("link_online", "Whether the broker has let us in.", status.online)
    yield gauge("link_away_seconds", "Since the broker was lost.", status.away)
    yield CounterMetricFamily(
        "edge_tvbo_link_reconnects", "Times the broker was lost and came back.", status.reconnects
    )
    if status.written is not None:
        yield CounterMetricFamily("edge_tvbo_written_bytes", "State on disk.", status.written)
    if status.resident is not None:
        yield GaugeMetricFamily("process_resident_memory_bytes", "RSS.", value=status.resident)


def _fields(fields: dict[str, FieldStatus]) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    for name, (meaning, value) in COUNTERS.items():
        counter = CounterMetricFamily(f"edge_tvbo_{name}", meaning, labels=["field"])
        for field, each in fields.items():
            counter.add_metric([field], value(each))
        yield counter
    refused = CounterMetricFamily(
        "edge_tvbo_refused", "Readings and messages not used.", labels=["field", "reason"]
    )
    sensors = GaugeMetricFamily("edge_tvbo_sensors", "Sensors.", labels=["field"])
    suspects = GaugeMetricFamily(
        "edge_tvbo_suspects", "Sensors that did not answer.", labels=["field"]
    )
    for field, each in fields.items():
        for reason, count in each.health.refused.items():
            refused.add_metric([field, reason], count)
        sensors.add_metric([field], each.sensors)
        suspects.add_metric([field], len(each.health.suspects))
    yield from (refused, sensors, suspects)


def _energy(fields: dict[str, FieldStatus]) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import GaugeMetricFamily

    labels = ["field", "unit"]
    spent = GaugeMetricFamily(
        "edge_tvbo_energy_spent", "On activations, in the last period.", labels=labels
    )
    left = GaugeMetricFamily("edge_tvbo_energy_left", "Of the field's budget.", labels=labels)
    low = GaugeMetricFamily(
        "edge_tvbo_low_batteries", "Sensors not asked for that.", labels=["field"]
    )
    for field, each in fields.items():
        if each.health.energy is None:
            continue
        spent.add_metric([field, each.health.energy.unit], each.health.energy.spent)
        low.add_metric([field], len(each.health.energy.low_battery))
        if each.health.energy.left is not None:
            left.add_metric([field, each.health.energy.unit], each.health.energy.left)
    yield from (each for each in (spent, left, low) if each.samples)


def _sensors(status: Status) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import GaugeMetricFamily

    labels = ["field", "sensor"]
    selected = GaugeMetricFamily("edge_tvbo_selected", "Selected last.", labels=labels)
    value = GaugeMetricFamily("edge_tvbo_reading", "In the field's unit.", labels=labels)
    age = GaugeMetricFamily("edge_tvbo_reading_age_seconds", "Since it came.", labels=labels)
    for field, each in status.fields.items():
        if each.health.selected is not None:
            selected.add_metric([field, each.health.selected], 1)
        for sensor, latest in each.last_readings.items():
            value.add_metric([field, sensor], latest.value)
            age.add_metric([field, sensor], max(0.0, status.at - latest.received))
    yield from (selected, value, age)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
