"""Prometheus metrics and health page, read over a socket from a server in a loop."""

import http.client
import json
import selectors
import socket
import threading
import time

import msgspec
import pytest

pytest.importorskip("prometheus_client", reason="the extra `metrics` is not installed")

from edge_tvbo_adapters.monitoring import http_server
from edge_tvbo_adapters.monitoring.http_server import HttpServer
from edge_tvbo_adapters.monitoring.prometheus import encode_metrics, open_endpoint
from prometheus_client.parser import text_string_to_metric_families

from edge_tvbo.config.field_types import Secret
from edge_tvbo.config.settings import Metrics
from edge_tvbo.errors import EdgeTvboError
from edge_tvbo.messages.documents import FieldHealth, FieldStatus, Health, LastReading, Status


def field_status(*, selected="a", last_readings=None, rejected=None):
    health = FieldHealth(
        interval=7,
        selected=selected,
        answered=40,
        missed=20,
        suspects=["c"],
        refused={"late": 30},
    )
    last = {"a": LastReading(21.5, 990.0), "b": LastReading(-3.0, 1000.0)}
    return FieldStatus(
        health=health,
        sensors=3,
        decisions=7,
        activations=6,
        resets=1,
        last_readings=last if last_readings is None else last_readings,
        endings={"answered": 4, "missed": 2},
        refused={"late": 3, "retained": 2} if rejected is None else rejected,
    )


def status(**changes):
    fields = changes.pop("fields", {"heat": field_status()})
    health = Health(
        at="1970-01-01T00:16:40Z",
        uptime_s=60,
        version="1.2.3",
        unacknowledged_s=2.5,
        problem="the state cannot be stored",
        fields={name: each.health for name, each in fields.items()},
    )
    defaults = {
        "health": health,
        "at": 1000.0,
        "uptime": 60.0,
        "healthy": True,
        "reason": "heat: a",
        "online": True,
        "away": 0.0,
        "reconnects": 2,
        "lost": 5,
        "queued": 3,
        "fields": fields,
        "written": 4096,
        "resident": 30_000_000,
        "second_daemon": True,
    }
    return Status(**defaults | changes)


TIMEOUT_S = 60.0  # a busy machine needs seconds


class Loop(threading.Thread):
    """Runs one service in a thread, as the daemon's loop does."""

    def __init__(self, service):
        super().__init__(daemon=True)
        self.service = service
        self.turns = 0
        self.stopped = False
        self.start()

    def run(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.service.fileno(), selectors.EVENT_READ)
            while not self.stopped:
                wait = self.service.wake_at() - time.monotonic()
                selector.select(max(0.0, min(wait, 0.2)))
                self.service.service(time.monotonic())
                self.turns += 1

    def stop(self):
        self.stopped = True
        self.join(TIMEOUT_S)
        self.service.close()


@pytest.fixture
def served():
    """Return a list with the present status, and a loop that serves it."""
    statuses = [status()]
    loop = Loop(open_endpoint(Metrics(port=0), lambda: statuses[0]))
    yield statuses, loop
    loop.stop()


def get(loop, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", loop.service.port, timeout=TIMEOUT_S)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def series(body):
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


# --- pages ------------------------------------------------------------------------------------


def test_metrics_contain_every_number(served):
    _, loop = served
    response, body = get(loop, "/metrics")

    assert response.status == 200
    assert response.getheader("Content-Type").startswith("text/plain; version=0.0.4")
    found = series(body)
    assert found[("edge_tvbo_info", "1.2.3")] == 1
    assert found[("edge_tvbo_link_online",)] == 1
    assert found[("edge_tvbo_link_reconnects_total",)] == 2
    assert found[("edge_tvbo_link_unacknowledged_seconds",)] == 2.5
    assert found[("edge_tvbo_link_lost_total",)] == 5
    assert found[("edge_tvbo_link_queued",)] == 3
    assert found[("edge_tvbo_second_daemon",)] == 1
    assert found[("edge_tvbo_written_bytes_total",)] == 4096
    assert found[("edge_tvbo_decisions_total", "heat")] == 7
    assert found[("edge_tvbo_activations_total", "heat")] == 6
    assert found[("edge_tvbo_answered_total", "heat")] == 4
    assert found[("edge_tvbo_missed_total", "heat")] == 2
    assert found[("edge_tvbo_resets_total", "heat")] == 1
    assert found[("edge_tvbo_refused_total", "heat", "late")] == 3
    assert found[("edge_tvbo_suspects", "heat")] == 1
    assert found[("edge_tvbo_selected", "a", "heat")] == 1
    assert found[("edge_tvbo_reading", "a", "heat")] == 21.5
    assert found[("edge_tvbo_reading_age_seconds", "a", "heat")] == 10
    assert found[("process_resident_memory_bytes",)] == 30_000_000


@pytest.mark.acceptance(17)
def test_series_of_a_removed_sensor_disappear(served):
    statuses, loop = served
    before = {key for key in series(get(loop, "/metrics")[1]) if "b" in key}
    statuses[0] = status(
        fields={"heat": field_status(last_readings={"a": LastReading(21.5, 990.0)}, selected="a")}
    )
    after = {key for key in series(get(loop, "/metrics")[1]) if "b" in key}

    assert {key[0] for key in before} == {"edge_tvbo_reading", "edge_tvbo_reading_age_seconds"}
    assert after == set()


def test_a_sensor_with_a_name_has_a_series_that_tells_it():
    named = msgspec.structs.replace(field_status(), names={"a": "Living room"})
    found = series(encode_metrics(status(fields={"heat": named})))

    assert found[("edge_tvbo_sensor_info", "Living room", "a", "heat")] == 1
    assert not any(key[0] == "edge_tvbo_sensor_info" for key in series(encode_metrics(status())))


def test_labels_are_quoted():
    hostile = 'a"} 1\nedge_tvbo_healthy 1 #\\'
    found = series(
        encode_metrics(status(healthy=False, fields={"heat": field_status(rejected={hostile: 5})}))
    )

    assert found[("edge_tvbo_refused_total", *sorted(["heat", hostile]))] == 5
    assert found[("edge_tvbo_healthy",)] == 0


def test_health_page_has_status_200_or_503_and_a_reason(served):
    statuses, loop = served
    response, body = get(loop, "/healthz")
    assert (response.status, json.loads(body)["healthy"]) == (200, True)

    statuses[0] = status(healthy=False, reason="not connected to the broker for 99 s", online=False)
    response, body = get(loop, "/healthz?verbose")
    assert response.status == 503
    document = json.loads(body)
    assert document["reason"] == "not connected to the broker for 99 s"
    assert document["broker"] == "away"
    assert document["unacknowledged_s"] == 2.5
    assert document["problem"] == "the state cannot be stored"


# --- requests ---------------------------------------------------------------------------------


def send_raw(loop, request, *, finish=False):
    """Send the bytes of `request` and return the whole response."""
    with socket.create_connection(("127.0.0.1", loop.service.port), timeout=TIMEOUT_S) as sock:
        sock.sendall(request)
        if finish:
            sock.shutdown(socket.SHUT_WR)
        response = b""
        while chunk := sock.recv(65536):
            response += chunk
        return response


def test_head_has_no_body_and_other_methods_are_rejected(served):
    _, loop = served

    response, body = get(loop, "/metrics", "HEAD")
    assert (response.status, body) == (200, b"")
    assert int(response.getheader("Content-Length")) > 1000
    assert get(loop, "/metrics", "POST")[0].status == 405
    assert get(loop, "/")[0].status == 404
    assert get(loop, "/../etc/passwd")[0].status == 404


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics\r\n\r\n",
        b"GET http://x/metrics HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * 2000 + b" HTTP/1.1\r\n\r\n",
        b"\x00\xff" * 100 + b"\r\n\r\n",
        b"GET /metrics HTTP/2.0\r\n\r\n",
        b"x" * 8192,
    ],
)
def test_invalid_request_is_answered_with_400(served, request_bytes):
    _, loop = served

    assert send_raw(loop, request_bytes).startswith(b"HTTP/1.0 400 ")


def test_request_may_arrive_in_pieces(served):
    _, loop = served
    with socket.create_connection(("127.0.0.1", loop.service.port), timeout=TIMEOUT_S) as sock:
        for piece in (b"GET /hea", b"lthz HTTP/1.0\n", b"Host: localhost\n", b"\n"):
            sock.sendall(piece)
            time.sleep(0.02)
        assert sock.recv(100).startswith(b"HTTP/1.0 200 ")
    assert send_raw(loop, b"GET /healthz HTTP/1.0\r\n\r\n", finish=True).startswith(
        b"HTTP/1.0 200 "
    )
    assert send_raw(loop, b"GET /healthz", finish=True) == b""


def test_failing_page_is_answered_with_500():
    def fail():
        raise RuntimeError("no status")

    loop = Loop(open_endpoint(Metrics(port=0), fail))
    assert get(loop, "/metrics")[0].status == 500
    assert get(loop, "/healthz")[0].status == 500
    assert loop.is_alive()
    loop.stop()


def test_large_page_reaches_a_slow_client_completely():
    body = bytes(range(256)) * 8192
    page = http_server.Page(http_server.HTTPStatus.OK, "x/y", body)
    loop = Loop(HttpServer("127.0.0.1", 0, lambda path: page))
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(TIMEOUT_S)
        sock.connect(("127.0.0.1", loop.service.port))
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        response = b""
        while chunk := sock.recv(65536):
            response += chunk
    loop.stop()

    assert response.endswith(body)


# --- access -----------------------------------------------------------------------------------


@pytest.fixture
def serve():
    """Return a function that serves the status with the given settings, in a loop."""
    loops = []

    def start(**settings):
        loops.append(Loop(open_endpoint(Metrics(port=0, **settings), status)))
        return loops[-1]

    yield start
    for each in loops:
        each.stop()


def status_for(loop, host):
    """Return the HTTP status of both pages for a Host header."""
    statuses = {get(loop, path, Host=host)[0].status for path in ("/metrics", "/healthz")}
    assert len(statuses) == 1
    return statuses.pop()


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:80", "", "[::2]", "192.168.1.5:9464"]
)
def test_a_name_that_may_resolve_to_this_machine_is_refused(serve, caplog, host):
    """DNS rebinding: the browser of the gateway believes that it reads the page's own server."""
    assert status_for(serve(), host) == 421
    assert "allow_hosts" in caplog.text


def test_two_host_names_are_refused(serve):
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nhost: evil.example\r\n\r\n"
    assert send_raw(serve(), request).startswith(b"HTTP/1.0 421 ")


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:9", "LOCALHOST"])
def test_loopback_names_are_accepted(serve, host):
    assert status_for(serve(), host) == 200


def test_configured_names_are_accepted(serve):
    loop = serve(allow_hosts=("Gateway.lan",))
    assert status_for(loop, "gateway.lan:9464") == 200
    assert status_for(loop, "other.lan") == 421


def test_an_endpoint_on_the_network_accepts_addresses_and_no_other_names(serve):
    """No attacker's name is an address, so an address needs no setting."""
    loop = serve(host="0.0.0.0")
    assert status_for(loop, "192.168.1.5:9464") == 200
    assert status_for(loop, "evil.example") == 421


def test_with_a_token_requests_without_it_are_refused(serve):
    loop = serve(token=Secret("correct horse"))
    for path in ("/metrics", "/healthz"):
        response, body = get(loop, path)
        assert (response.status, response.getheader("WWW-Authenticate")) == (401, "Bearer")
        assert b"horse" not in body
        for wrong in ("Bearer correct", "Basic correct horse", "Bearer correct horse ä"):
            assert get(loop, path, Authorization=wrong.encode())[0].status == 401
        assert get(loop, path, Authorization="Bearer correct horse")[0].status == 200


# --- limits -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_idle_connections_time_out_and_others_wait(monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_S", 0.3)
    began = time.monotonic()
    loop = Loop(open_endpoint(Metrics(port=0), status))
    address = ("127.0.0.1", loop.service.port)
    idle = [
        socket.create_connection(address, timeout=TIMEOUT_S)
        for _ in range(http_server.MAX_CONNECTIONS + 3)
    ]

    while not (response := get_if_open(loop, "/healthz")):
        pass  # it took longer to send the request than the server waits
    assert response.status == 200
    assert all(sock.recv(1) == b"" for sock in idle)
    assert loop.turns < 1000 * (1 + time.monotonic() - began)  # the loop does not spin
    for sock in idle:
        sock.close()
    loop.stop()


def get_if_open(loop, path):
    """Return a response, or None if the server closed the connection before it."""
    try:
        return get(loop, path)[0]
    except (OSError, http.client.HTTPException):
        return None


@pytest.mark.slow
def test_server_out_of_descriptors_pauses(monkeypatch):
    monkeypatch.setattr(http_server, "ACCEPT_RETRY_DELAY_S", 0.3)
    loop = Loop(open_endpoint(Metrics(port=0), status))
    listener = loop.service._listener
    failing, began = True, time.monotonic()

    class Listener:
        def __getattr__(self, name):
            return getattr(listener, name)

        def accept(self):
            if failing:
                raise OSError(24, "Too many open files")
            return listener.accept()

    loop.service._listener = Listener()
    with socket.create_connection(("127.0.0.1", loop.service.port), timeout=TIMEOUT_S) as sock:
        sock.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        time.sleep(0.5)
        failing = False
        assert sock.recv(100).startswith(b"HTTP/1.0 200 ")
    assert loop.turns < 50 * (1 + time.monotonic() - began)
    loop.service._listener = listener
    loop.stop()


@pytest.mark.slow
def test_client_that_disconnects_early_does_no_harm(served, monkeypatch):
    """A connection that stayed open would take a place until its deadline."""
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_S", 3600.0)
    _, loop = served
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", loop.service.port), timeout=TIMEOUT_S) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            sock.sendall(b"GET /metrics HT")

    assert get(loop, "/metrics")[0].status == 200
    assert loop.service.wake_at() > time.monotonic()


def test_used_port_and_foreign_address_are_errors():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EdgeTvboError, match=f"Cannot listen on 127.0.0.1, port {port}"):
            open_endpoint(Metrics(port=port), status)
    with pytest.raises(EdgeTvboError, match=r"192\.0\.2\.1"):
        open_endpoint(Metrics(host="192.0.2.1", port=0), status)


def test_listening_on_the_network_logs_a_warning(caplog):
    service = open_endpoint(Metrics(host="0.0.0.0", port=0), status)
    service.close()

    assert "every computer that can connect to" in caplog.text


def test_with_a_token_listening_on_the_network_logs_no_warning(caplog):
    service = open_endpoint(Metrics(host="0.0.0.0", port=0, token=Secret("abc")), status)
    service.close()

    assert "every computer that can connect to" not in caplog.text
