"""The web server: what it refuses, what it says, what it never says."""

import asyncio
import http.client
import json
import re
import subprocess
import sys
from contextlib import ExitStack

import pytest
from adapters.dashboard.conftest import ROOT, Served, until
from edge_tvbo_adapters.dashboard.server import MOST_LISTENERS, MOST_WAITING, Content, Dashboard

from edge_tvbo.ports import Broker

pytestmark = pytest.mark.broker

FILES = ("", "style.css", "app.js", "draw.js", "moment.js", "plan.js", "picks.js", "panels.js")
PATHS = (*FILES, "icon.svg", "scene.json", "tape.json?field=temperature")


def asked(dashboard, path="/", method="GET", **headers):
    """Give the answer to a request, its body read."""
    connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=20)
    connection.putrequest(method, path, skip_host="host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    answer.content = answer.read()
    connection.close()
    return answer


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_is_guarded(dashboard, path):
    answer = asked(dashboard, f"/{path}")
    policy = answer.getheader("content-security-policy")
    assert answer.status == 200 and answer.content
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert answer.getheader("x-content-type-options") == "nosniff"
    assert answer.getheader("server") is None


def test_pages_hold_no_script_no_style_and_no_address_of_elsewhere(dashboard):
    for path in FILES:
        text = asked(dashboard, f"/{path}").content.decode()
        assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "innerHTML" not in text and "eval(" not in text
    page = asked(dashboard).content.decode()
    assert "<style" not in page and " style=" not in page
    assert not re.search(r" on[a-z]+=", page)
    assert 'src="/' not in page and 'href="/' not in page  # a proxy may put it anywhere


def test_no_secret_is_ever_said(dashboard, laboratory):
    assert "hunter2-secret" in laboratory.config.read_text()
    said = b"".join(asked(dashboard, f"/{path}").content for path in PATHS)
    connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=20)
    connection.request("GET", "/events")
    stream = connection.getresponse()
    while b"event: field" not in said:
        said += stream.read1()
    connection.close()
    for secret in (b"hunter2", b"gateway", str(laboratory.config.parent).encode()):
        assert secret not in said


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_it_only_shows(dashboard, method):
    assert asked(dashboard, method=method).status in (400, 405)


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/..%2f..%2fapp.py", "/app.py", "/tape.json?field=x", "/nothing"]
)
def test_what_is_not_there_is_not_found(dashboard, path):
    assert asked(dashboard, path).status == 404


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "", "[::2]"])
def test_a_name_that_is_not_ours_is_not_answered_to(dashboard, host):
    assert asked(dashboard, host=host).status == 421


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:9"])
def test_this_machine_has_several_names(dashboard, host):
    assert asked(dashboard, host=host).status == 200


def test_a_proxy_s_name_is_answered_to_when_it_is_allowed(laboratory, tmp_path, shared):
    options = ("--allow-host", "gateway.example", "--root-path", "edge/")
    served = Served(tmp_path / "log", laboratory.config, *options)
    shared.callback(served.stop)
    assert asked(served, "/edge/", host="gateway.example").status == 200
    assert asked(served, "/edge").getheader("location") == "/edge/"
    assert asked(served, "/edge/", host="other.example").status == 421
    assert served.address.endswith("/edge/")


def test_whoever_binds_another_address_is_told_what_that_means(laboratory, tmp_path, shared):
    served = Served(tmp_path / "log", laboratory.config, "--host", "0.0.0.0")
    shared.callback(served.stop)
    assert "whoever reaches this machine can look at it" in served.said()


def test_so_many_pages_may_listen_and_the_place_of_one_that_left_is_free(dashboard):
    with ExitStack() as stack:

        def listens():
            connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=20)
            connection.request("GET", "/events")
            answer = connection.getresponse()
            stack.callback(connection.close)
            return answer.status == 200 and [connection, answer]

        pages = [listens() for _ in range(MOST_LISTENERS)]
        assert all(pages) and not listens()
        connection, answer = pages[0]
        answer.close()
        connection.close()
        until(listens)


def test_a_page_that_is_too_slow_has_to_come_again():
    content = Content("lab", {}, Broker(instance="lab"), None)
    dashboard = Dashboard(content)

    async def listens():
        stream = (await dashboard._events(None)).body_iterator
        begins = [await anext(stream), await anext(stream)]
        dashboard._tell([("standing", {"at": ""})] * (MOST_WAITING + 5))
        return begins, [each async for each in stream]

    begins, rest = asyncio.run(listens())
    assert b"event: view" in begins[1]
    assert rest == [] and dashboard._listeners == set()


def test_a_page_that_comes_is_given_all_there_is(dashboard):
    connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=20)
    connection.request("GET", "/events")
    stream, said = connection.getresponse(), b""
    while said.count(b"\n\n") < 2:
        said += stream.read1()
    connection.close()
    view = json.loads(said.split(b"event: view\ndata: ")[1].split(b"\n")[0])
    assert view["standing"]["broker"]["online"] and view["standing"]["daemon"] == "online"
    assert view["fields"]["temperature"]["picks"]


def said_to(*arguments):
    command = [sys.executable, "-m", "edge_tvbo", "dashboard", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 2 and not done.stdout
    return done.stderr


def test_what_cannot_be_shown_is_said_with_what_to_do(dashboard, laboratory):
    assert "edge-tvbo dashboard --dataset lab-sample" in said_to()
    taken = said_to(str(laboratory.config), "--port", str(dashboard.port))
    assert "--port 8788" in taken
    assert "contains the days" in said_to("--dataset", "lab-sample", "--replay", "1999-01-01")
