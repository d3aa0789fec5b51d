"""Prometheus metrics: `/metrics` in the text format, and `/healthz` in JSON.

The daemon's loop answers each scrape from the current status. A sensor has time series only if it
is configured and has readings.

Each counter begins at 0 when the daemon starts; it does not continue a count of the stored state.
If the daemon was killed, a stored count can be lower than the count at the last scrape. If the
counter began with this lower count, Prometheus would assume that the counter had restarted at 0,
and would add the whole stored count to the increase of the counter.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from edge_tvbo.config.field_types import is_address, is_loopback
from edge_tvbo.config.settings import Metrics
from edge_tvbo.errors import MissingExtra
from edge_tvbo.messages.documents import FieldStatus, Status
from edge_tvbo_adapters.monitoring.http_server import HttpServer, Page

if TYPE_CHECKING:
    from prometheus_client import Metric

log = logging.getLogger(__name__)

COUNTERS: dict[str, tuple[str, Callable[[FieldStatus], float]]] = {  # name: (help, value)
    "decisions": (
        "Decisions; an interval in which several sensors are selected has several decisions.",
        lambda field: field.decisions,
    ),
    "activations": (
        'Activations sent; 0 if mode = "advise", which sends no command.',
        lambda field: field.activations,
    ),
    "answered": (
        "Activations or recommendations whose sensor replied in time.",
        lambda field: field.endings.get("answered", 0),
    ),
    "missed": ("Activations whose sensor timed out.", lambda field: field.endings.get("missed", 0)),
    "undelivered": (
        "Activations that the broker refused, or did not confirm in time, or that a restart"
        " withdrew.",
        lambda field: field.endings.get("undelivered", 0),
    ),
    "resets": ("Resets of the model.", lambda field: field.resets),
}
GAUGES: dict[str, tuple[str, Callable[[FieldStatus], float]]] = {
    "sensors": ("Configured sensors.", lambda field: field.sensors),
    "suspects": ("Unresponsive sensors.", lambda field: len(field.health.suspects)),
    "faulty": ("Sensors whose readings are wrong.", lambda field: len(field.health.faulty)),
    "ignored": (
        "Sensors that a command has taken out of use.",
        lambda field: len(field.health.ignored),
    ),
}


def check_installed() -> None:
    """Raise `MissingExtra` if prometheus-client is not installed."""
    if find_spec("prometheus_client") is None:
        raise MissingExtra("The package prometheus-client, which [metrics] needs,", "metrics")


def open_endpoint(settings: Metrics, status: Callable[[], Status]) -> HttpServer:
    """Return an HTTP server for the Prometheus metrics and the health endpoint.

    Raises `MissingExtra` if prometheus-client is not installed, and `EdgeTvboError` if the port is
    in use.
    """
    check_installed()
    host, token = settings.host, settings.token.reveal() if settings.token else None
    accepts = partial(_is_accepted, settings)
    server = HttpServer(host, settings.port or 0, partial(page, status), accepts, token)
    if not is_loopback(host) and token is None:
        log.warning("metrics: every computer that can connect to %s can read the metrics", host)
    log.info("metrics: http://%s:%d/metrics", f"[{host}]" if ":" in host else host, server.port)
    return server


def _is_accepted(settings: Metrics, name: str) -> bool:
    """Return whether the Prometheus endpoint answers requests to the host `name`.

    If the endpoint listens on the network, every IP address is accepted as `name`. An attack by DNS
    rebinding cannot use an IP address, because it needs a host name.
    """
    if is_loopback(name) or name in (each.lower() for each in settings.allow_hosts):
        return True
    return not is_loopback(settings.host) and (name == settings.host.lower() or is_address(name))


def page(status: Callable[[], Status], path: str) -> Page | None:
    """Return the Prometheus endpoint's page `/metrics` or `/healthz`; None for any other path."""
    match path:
        case "/metrics":
            body = encode_metrics(status())
            return Page(HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", body)
        case "/healthz":
            return _health_page(status())
        case _:
            return None


def _health_page(status: Status) -> Page:
    document = {
        "healthy": status.healthy,
        "reason": status.reason,
        "problem": status.health.problem,
        "broker": "online" if status.online else "away",
        "unacknowledged_s": status.health.unacknowledged_s,
        "uptime_s": round(status.uptime),
        "version": status.health.version,
        "selected": {name: field.health.selected for name, field in status.fields.items()},
    }
    code = HTTPStatus.OK if status.healthy else HTTPStatus.SERVICE_UNAVAILABLE
    return Page(code, "application/json", msgspec.json.encode(document) + b"\n")


def encode_metrics(status: Status) -> bytes:
    """Return the metrics of the daemon's `status`, in Prometheus's text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    class StatusCollector:
        def collect(self) -> "Iterator[Metric]":
            yield from _daemon_metrics(status)
            yield from _field_metrics(status.fields)
            yield from _energy_metrics(status.fields)
            yield from _sensor_metrics(status)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector())
    encoded: bytes = generate_latest(registry)
    return encoded


def _daemon_metrics(status: Status) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    def gauge(name: str, help: str, value: float) -> Any:
        return GaugeMetricFamily(f"edge_tvbo_{name}", help, value=value)

    info = GaugeMetricFamily("edge_tvbo_info", "Version of the daemon.", labels=["version"])
    info.add_metric([status.health.version], 1)
    yield info
    yield gauge("uptime_seconds", "Seconds since the start.", status.uptime)
    yield gauge("healthy", "1 while /healthz returns 200, otherwise 0.", status.healthy)
    yield gauge(
        "link_online", "1 while the daemon is connected to the broker, otherwise 0.", status.online
    )
    yield gauge(
        "link_away_seconds", "Seconds since the connection to the broker was lost.", status.away
    )
    yield gauge(
        "link_unacknowledged_seconds",
        "Seconds for which the oldest unacknowledged message has waited for the broker.",
        status.health.unacknowledged_s,
    )
    yield gauge(
        "link_queued",
        "Messages that wait to be sent, or that the broker has not acknowledged.",
        status.queued,
    )
    yield gauge(
        "second_daemon",
        "1 while another daemon of this instance publishes to the broker, otherwise 0.",
        status.second_daemon,
    )
    yield CounterMetricFamily(
        "edge_tvbo_link_lost", "Activations, notices and responses that were dropped.", status.lost
    )
    yield CounterMetricFamily(
        "edge_tvbo_link_reconnects", "Reconnections to the broker.", status.reconnects
    )
    if status.written is not None:
        yield CounterMetricFamily(
            "edge_tvbo_written_bytes", "Bytes of state written to disk.", status.written
        )
    if status.resident is not None:
        yield GaugeMetricFamily(
            "process_resident_memory_bytes", "Resident memory in bytes.", value=status.resident
        )


def _field_metrics(fields: dict[str, FieldStatus]) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    for family, metrics in ((CounterMetricFamily, COUNTERS), (GaugeMetricFamily, GAUGES)):
        for name, (help, value) in metrics.items():
            metric = family(f"edge_tvbo_{name}", help, labels=["field"])
            for field, each in fields.items():
                metric.add_metric([field], value(each))
            yield metric
    rejected = CounterMetricFamily(
        "edge_tvbo_refused", "Rejected messages and readings.", labels=["field", "reason"]
    )
    for field, each in fields.items():
        for reason, count in each.refused.items():
            rejected.add_metric([field, reason], count)
    yield rejected


def _energy_metrics(fields: dict[str, FieldStatus]) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import GaugeMetricFamily

    labels = ["field", "unit"]
    spent = GaugeMetricFamily(
        "edge_tvbo_energy_spent",
        "Energy of the activations in the last period of the energy budget.",
        labels=labels,
    )
    left = GaugeMetricFamily(
        "edge_tvbo_energy_left", "Remaining energy in the field's budget.", labels=labels
    )
    low = GaugeMetricFamily(
        "edge_tvbo_low_batteries",
        "Sensors that cannot be selected because their battery is low.",
        labels=["field"],
    )
    for field, each in fields.items():
        energy = each.health.energy
        if energy is None:
            continue
        spent.add_metric([field, energy.unit], energy.spent)
        low.add_metric([field], len(energy.low_battery))
        if energy.left is not None:
            left.add_metric([field, energy.unit], energy.left)
    yield from (each for each in (spent, left, low) if each.samples)


def _sensor_metrics(status: Status) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import GaugeMetricFamily

    labels = ["field", "sensor"]
    selected = GaugeMetricFamily(
        "edge_tvbo_selected", "1 for the sensor selected last.", labels=labels
    )
    value = GaugeMetricFamily(
        "edge_tvbo_reading", "Last reading, in the field's unit.", labels=labels
    )
    age = GaugeMetricFamily(
        "edge_tvbo_reading_age_seconds", "Seconds since the last reading arrived.", labels=labels
    )
    info = GaugeMetricFamily(
        "edge_tvbo_sensor_info",
        "1 for each sensor with a name that differs from its id.",
        labels=[*labels, "name"],
    )
    for field, each in status.fields.items():
        if each.health.selected is not None:
            selected.add_metric([field, each.health.selected], 1)
        for sensor, name in each.names.items():
            info.add_metric([field, sensor, name], 1)
        for sensor, reading in each.last_readings.items():
            value.add_metric([field, sensor], reading.value)
            age.add_metric([field, sensor], max(0.0, status.at - reading.received))
    yield from (selected, value, age, *([info] if info.samples else []))
