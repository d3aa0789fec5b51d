"""Dashboard server: its paths, headers, rejected requests, live events, and start."""

import asyncio
import http.client
import json
import re
import socket
import subprocess
import sys
from contextlib import ExitStack, closing, suppress

import pytest
from click.testing import CliRunner
from edge_tvbo_adapters.dashboard.content import DashboardContent
from edge_tvbo_adapters.dashboard.http_protocol import REQUEST_TIMEOUT_S
from edge_tvbo_adapters.dashboard.server import (
    MAX_CONNECTIONS,
    MAX_OPEN_PAGES,
    MAX_QUEUED_EVENTS,
    PAGES,
    Dashboard,
)
from support.dashboard import TIMEOUT_S, DashboardProcess, wait_for
from support.paths import ROOT

from edge_tvbo.cli import main
from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import DataError

SCRIPTS = tuple(sorted(each.name for each in PAGES.glob("*.js")))
CONNECTIONS_OF_BROWSER = 6  # to one server; Chromium and Firefox open at most this number
FILES = ("", "style.css", *SCRIPTS)
PATHS = (
    *FILES,
    "icon.svg",
    "fields.json",
    "day.json?field=temperature",
    "course.json?field=temperature",
)


def request(dashboard, path="/", method="GET", **headers):
    """Return the response to a request, with its body in `content`."""
    connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=TIMEOUT_S)
    connection.putrequest(method, path, skip_host="host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    response.content = response.read()
    connection.close()
    return response


@pytest.mark.parametrize("path", PATHS)
def test_every_response_has_security_headers(dashboard, path):
    response = request(dashboard, f"/{path}")
    policy = response.getheader("content-security-policy")
    assert response.status == 200 and response.content
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert response.getheader("x-content-type-options") == "nosniff"
    assert response.getheader("server") is None


def test_pages_have_no_inline_code_and_no_foreign_address(dashboard):
    for path in FILES:
        text = request(dashboard, f"/{path}").content.decode()
        assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "innerHTML" not in text and "eval(" not in text
    page = request(dashboard).content.decode()
    assert "<style" not in page and " style=" not in page
    assert not re.search(r" on[a-z]+=", page)
    assert 'src="/' not in page and 'href="/' not in page  # any prefix of a proxy works


def test_responses_contain_no_secret(dashboard, laboratory):
    assert "hunter2-secret" in laboratory.config.read_text()
    content = b"".join(request(dashboard, f"/{path}").content for path in PATHS)
    connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=TIMEOUT_S)
    connection.request("GET", "/events")
    stream = connection.getresponse()
    while b"event: field" not in content:
        content += stream.read1()
    connection.close()
    for secret in (b"hunter2", b"gateway", str(laboratory.config.parent).encode()):
        assert secret not in content


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_other_methods_are_rejected(dashboard, method):
    assert request(dashboard, method=method).status in (400, 405)


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/..%2f..%2fapp.py",
        "/app.py",
        "/day.json?field=x",
        "/course.json?field=x",
        "/course.json?field=temperature&sensor=x",
        "/plan",
        "/nothing",
    ],
)
def test_unknown_paths_are_not_found(dashboard, path):
    assert request(dashboard, path).status == 404


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "", "[::2]"])
def test_foreign_host_names_are_rejected(dashboard, host):
    assert request(dashboard, host=host).status == 421


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:9"])
def test_loopback_host_names_are_accepted(dashboard, host):
    assert request(dashboard, host=host).status == 200


def test_allowed_host_name_of_a_proxy_is_accepted(laboratory, tmp_path, shared):
    options = ("--allow-host", "gateway.example", "--root-path", "edge/")
    served = DashboardProcess(tmp_path / "log", laboratory.config, *options)
    shared.callback(served.stop)
    assert request(served, "/edge/", host="gateway.example").status == 200
    assert request(served, "/edge").getheader("location") == "/edge/"
    assert request(served, "/edge/", host="other.example").status == 421
    assert served.address.endswith("/edge/")


def test_listening_on_the_network_logs_a_warning(laboratory, tmp_path, shared):
    options = ("--host", "0.0.0.0", "--allow-host", "*")
    served = DashboardProcess(tmp_path / "log", laboratory.config, *options)
    shared.callback(served.stop)
    assert "every computer that can connect to" in served.output()
    assert request(served, host="any.example").status == 200


def run_in_process(monkeypatch, *arguments):
    """Return the result of the command `dashboard`, and the contents that it would serve."""
    served = []
    monkeypatch.setattr(
        "edge_tvbo_adapters.dashboard.serve", lambda content, **_: served.append(content)
    )
    return CliRunner().invoke(main, ["dashboard", *map(str, arguments)]), served


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_listening_everywhere_needs_the_names_that_browsers_use(laboratory, monkeypatch, host):
    result, served = run_in_process(monkeypatch, laboratory.config, "--host", host)
    assert result.exit_code == 2 and not served
    assert f"--host {host} --allow-host {socket.gethostname()}" in result.output


def test_half_sent_requests_do_not_keep_others_out(laboratory, tmp_path, shared):
    served = DashboardProcess(tmp_path / "log", laboratory.config)
    shared.callback(served.stop)
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            sock = socket.create_connection(("127.0.0.1", served.port), timeout=TIMEOUT_S)
            stack.enter_context(sock).sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        wait_for(lambda: request(served).status == 200, 5 * REQUEST_TIMEOUT_S)


def test_number_of_open_pages_is_limited(dashboard):
    with ExitStack() as stack:

        def open_page():
            connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=TIMEOUT_S)
            connection.request("GET", "/events")
            response = connection.getresponse()
            stack.callback(connection.close)
            return response.status == 200 and [connection, response]

        pages = [open_page() for _ in range(MAX_OPEN_PAGES)]
        assert all(pages) and not open_page()
        connection, response = pages[0]
        response.close()
        connection.close()
        wait_for(open_page)


def test_all_open_pages_can_load_the_page_again_at_once(dashboard):
    """As after a restart of the dashboard; a browser does not repeat a rejected request."""
    with ExitStack() as stack:
        for _ in range(MAX_OPEN_PAGES * CONNECTIONS_OF_BROWSER - 1):
            address = ("127.0.0.1", dashboard.port)
            stack.enter_context(socket.create_connection(address, timeout=TIMEOUT_S))
        assert request(dashboard).status == 200


def test_slow_page_is_disconnected():
    content = DashboardContent("lab", "lab", {}, Mqtt(), None)
    dashboard = Dashboard(content)

    async def open_slow_page():
        stream = (await dashboard._events(None)).body_iterator
        first = [await anext(stream), await anext(stream)]
        dashboard._send([("connections", {"at": ""})] * (MAX_QUEUED_EVENTS + 5))
        return first, [each async for each in stream]

    first, rest = asyncio.run(open_slow_page())
    assert b"event: view" in first[1]
    assert rest == [] and dashboard._pages == set()


def test_new_page_receives_the_whole_state(dashboard):
    wait_for(lambda: new_view(dashboard)["fields"]["temperature"]["selections"])
    view = new_view(dashboard)
    assert view["connections"]["broker"]["online"]
    assert view["connections"]["daemon"] == "online"
    assert view["fields"]["temperature"]["selections"]


def new_view(dashboard):
    """Return the state that a new page receives first."""
    connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=TIMEOUT_S)
    connection.request("GET", "/events")
    stream, content = connection.getresponse(), b""
    while content.count(b"\n\n") < 2:
        content += stream.read1()
    connection.close()
    return json.loads(content.split(b"event: view\ndata: ")[1].split(b"\n")[0])


STOPPED_EARLY = """
import signal
from edge_tvbo_adapters.dashboard.content import DashboardContent
from edge_tvbo_adapters.dashboard.server import serve

def ready(address):
    signal.raise_signal(signal.SIGTERM)

serve(DashboardContent("lab", "lab", {}, None, None), "127.0.0.1", 0, "", (), ready)
print("stopped")
"""


def test_signal_between_the_printed_address_and_the_first_request_stops_the_dashboard():
    command = [sys.executable, "-c", STOPPED_EARLY]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=TIMEOUT_S)
    assert done.stdout == "stopped\n", done.stderr


def test_dashboard_with_an_open_page_stops_without_an_error(laboratory, tmp_path, shared):
    served = DashboardProcess(tmp_path / "log", laboratory.config)
    shared.callback(served.stop)
    printed = served.output()
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=TIMEOUT_S)
    connection.request("GET", "/events")
    stream = connection.getresponse()
    assert stream.read1()
    served.stop()
    stream.read()  # the stream is complete: `IncompleteRead` would be raised otherwise
    connection.close()
    assert served.output() == printed


@pytest.mark.parametrize("options, is_live", [((), True), (("--replay", "2026-03-08"), False)])
def test_dashboard_reads_the_history_of_the_daemon(laboratory, monkeypatch, options, is_live):
    result, (content,) = run_in_process(monkeypatch, laboratory.config, *options)
    assert result.exit_code == 0 and (content.mqtt is not None) is is_live

    def has_decisions():
        with suppress(DataError), closing(content.open_history()) as history:
            return history.newest("temperature", 1)

    wait_for(has_decisions)


@pytest.mark.parametrize("settings", [r"\[state\](\n.+)*", "history = .*"])
def test_without_a_stored_history_only_the_present_is_shown(
    laboratory, monkeypatch, tmp_path, settings
):
    config = tmp_path / "lab.toml"
    config.write_text(re.sub(settings, "", laboratory.config.read_text()))
    result, (content,) = run_in_process(monkeypatch, config)
    assert result.exit_code == 0 and content.mqtt and content.open_history is None
    result, served = run_in_process(monkeypatch, config, "--replay", "2026-03-08")
    assert result.exit_code == 2 and not served
    assert 'There is no history to replay. Set history = "64MiB" in [state].' in result.output


def test_startup_error_is_printed_without_a_traceback():
    command = [sys.executable, "-m", "edge_tvbo", "dashboard"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=4 * TIMEOUT_S)
    assert done.returncode == 2 and not done.stdout
    assert "edge-tvbo dashboard --dataset lab-sample" in done.stderr
    assert "Traceback" not in done.stderr


def error_of(*arguments):
    """Return the error text of a dashboard that does not start."""
    result = CliRunner().invoke(main, ["dashboard", *map(str, arguments)])
    assert result.exit_code == 2 and not result.stdout
    return result.stderr


def test_startup_errors_name_the_next_step(dashboard, laboratory):
    assert "--port 8788" in error_of(laboratory.config, "--port", dashboard.port)
    unknown = error_of(laboratory.config, "--host", "192.0.2.1")
    assert "cannot listen on 192.0.2.1" in unknown and "; change --host" in unknown
    wrong = error_of(laboratory.config, "--replay", "2026-13-01")
    assert "'--replay': '2026-13-01' is not a day such as 2026-03-08" in wrong
    assert "contains only the days" in error_of("--dataset", "lab-sample", "--replay", "1999-01-01")
