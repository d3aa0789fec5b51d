"""The dashboard's page in chromium, with a real mosquitto, a real daemon and replying sensors."""

import http.client
import http.server
import json
import re
import threading
import urllib.request
from contextlib import closing
from functools import partial
from urllib.parse import urlsplit

import pytest
from edge_tvbo_adapters.storage.history_reader import HistoryReader
from support.browser import started_chromium
from support.dashboard import (
    CONFIG,
    DashboardProcess,
    Laboratory,
    Page,
    field_text,
    positions_of,
    wait_for,
)

from edge_tvbo.errors import DataError

pytestmark = pytest.mark.timeout(240)

SELECTED = "return document.querySelector('#rows tr.selected th').textContent"


def decisions(peer):
    """Return the decisions that a client of the broker has received."""
    return [json.loads(each) for each in peer.on("edge_tvbo/lab/temperature/selected")]


def test_page_follows_each_decision(page, dashboard, laboratory, peer):
    page.open(dashboard.address)
    page.wait_for_text("broker", "Broker connected")
    page.wait_for_text("daemon", "Daemon online")
    client = peer(laboratory.broker.port, "edge_tvbo/lab/temperature/selected")
    client.wait(lambda: client.received)
    followed = set()

    def follows():
        latest = decisions(client)[-1]
        shown = page.text("sentence"), page.script(SELECTED)
        if shown == (f"{latest['text']}.", latest["sensor"]):
            followed.add(latest["sensor"])
        return len(followed) > 1

    wait_for(follows)
    page.wait_for_text("timeline-note", "with a reply")
    page.wait_for_text("facts", lambda text: re.search(r"Reply\d+\.\d+ °C", text))
    page.save_screenshots("live")


def test_sensor_panel_explains_why_it_was_not_selected(page, dashboard):
    page.open(dashboard.address)
    page.script(
        "[...document.querySelectorAll('#rows tr:not(.selected) th button')].at(-1).click()"
    )
    page.wait_for_text("sensor-title", lambda text: re.fullmatch(r"Sensor node-\d+", text))
    page.wait_for_text("sensor-box", lambda text: re.search(r"Estimate\d+\.\d+ ± \d\.\d+ °C", text))
    page.wait_for_text("sensor-box", lambda text: re.search(r"Not selected|Selected", text))


def test_unresponsive_sensor_has_a_sign(page, dashboard, laboratory):
    page.open(dashboard.address)
    laboratory.sensors.unresponsive = set(list(laboratory.positions)[:12])
    try:
        page.wait_for_text("rows", "unresponsive")
        page.wait_for_text("log", "Sensor lost")
        wait_for(
            lambda: page.script("return !!document.querySelector('#plan .badge:not([visibility])')")
        )
        page.wait_for_text("timeline-note", lambda text: " 0 timed out" not in text)
    finally:
        laboratory.sensors.unresponsive = set()


def test_chart_shows_the_threshold_that_a_command_sets(page, dashboard, laboratory, peer):
    client = peer(laboratory.broker.port)
    label = "return document.querySelector('#course .threshold-label')?.textContent ?? ''"

    def is_drawn(threshold):
        return f"alert threshold {threshold} °C" in page.script(label).replace("\xa0", " ")

    page.open(dashboard.address)
    wait_for(lambda: is_drawn(40))
    for threshold in (33, 40):
        request = json.dumps({"threshold": threshold})
        client.client.publish("edge_tvbo/lab/cmd/threshold", request, qos=1)
        wait_for(partial(is_drawn, threshold))


def test_page_shows_a_lost_connection_and_recovers(page, mosquitto, tmp_path, shared):
    broker = mosquitto()
    broker.start()
    laboratory = Laboratory(tmp_path, broker, count=6)
    shared.callback(laboratory.close)
    dashboard = DashboardProcess(tmp_path / "log", laboratory.config)
    shared.callback(dashboard.stop)
    page.open(dashboard.address)
    page.wait_for_text("broker", "Broker connected")
    page.script("window.notReloaded = true")

    broker.kill()
    since = re.compile(r"Broker disconnected since \d\d:\d\d:\d\d")
    page.wait_for_text("broker", since.fullmatch)
    page.wait_for_text("alarm", "The broker has been disconnected since")
    page.save_screenshots("broker-lost")
    last = page.text("sentence")

    broker.start()
    page.wait_for_text("broker", "Broker connected")
    page.wait_for_text("sentence", lambda text: text != last)
    assert page.script("return document.getElementById('alarm').hidden && window.notReloaded")

    laboratory.daemon.stop()
    page.wait_for_text("daemon", "Daemon offline")
    page.wait_for_text("alarm", "so no sensor is selected")

    port = dashboard.port
    assert dashboard.stop() == 0
    page.wait_for_text("alarm", "The dashboard server does not respond")
    laboratory.start()
    again = DashboardProcess(tmp_path / "log2", laboratory.config, port=port)
    shared.callback(again.stop)
    page.wait_for_text("daemon", "Daemon online")
    assert page.script("return document.getElementById('alarm').hidden && window.notReloaded")


def test_names_are_unique(page, recorded):
    page.open(recorded.address)
    found = page.driver.execute_async_script("""
        const done = arguments[0], sensors = ["a", "b", "c", "d"];
        const names = { a: "Attic", b: "Attic window", c: "Hall", d: "Hall" };
        import("./names.js").then(m => done(sensors.map(m.addNames({ sensors, names }).name)));
    """)
    assert found == ["Attic", "Attic window", "Hall (c)", "Hall (d)"]


def test_slider_moves_through_a_recorded_day(page, recorded):
    page.open(recorded.address)
    with urllib.request.urlopen(
        f"http://127.0.0.1:{recorded.port}/day.json?field=lab-sample"
    ) as day:
        frames = json.load(day)["frames"]
    assert len(frames) == 144
    for index in (0, 90, 143):
        page.seek(index)
        assert page.text("sentence") == frames[index]["decision"]["text"] + "."
        assert page.script(SELECTED) == frames[index]["decision"]["sensor"]
        value = frames[index]["value"]
        shown = page.text("facts")
        assert ("timed out" if value is None else f"Reply{value:.2f}"[:-1]) in shown
    page.seek(90)
    page.save_screenshots("replay")


def test_replay_can_be_operated_by_keyboard(page, recorded):
    page.open(recorded.address)
    page.script("document.getElementById('slider').focus()")
    page.press("\ue014", times=3)  # arrow right
    assert page.text("when").endswith("interval 3")
    page.press("\ue010")  # end
    assert page.text("when").endswith("interval 143")
    page.press("\ue011")  # home
    page.script("document.getElementById('play').focus()")
    page.press(" ")
    page.wait_for_text("play", "Pause")
    page.wait_for_text("when", lambda text: int(text.rpartition("interval ")[2]) >= 5)
    page.press(" ")
    page.wait_for_text("play", "Play")
    paused_at = page.text("when")
    page.driver.execute_async_script("setTimeout(arguments[0], 500)")  # four intervals, if it plays
    assert page.text("when") == paused_at and not paused_at.endswith("interval 143")


def stored_decisions(laboratory):
    """Return the decisions in the history, the oldest first; [] before there is a history."""
    try:
        with closing(HistoryReader(str(laboratory.config.parent / "state"), "lab")) as history:
            return [each.decision for each in history.newest("temperature", 10_000)][::-1]
    except DataError:
        return []


def test_replay_shows_the_history_of_the_daemon(page, laboratory, tmp_path, shared):
    stored = wait_for(lambda: len(found := stored_decisions(laboratory)) > 5 and found)
    dashboard = DashboardProcess(tmp_path / "log", laboratory.config)
    shared.callback(dashboard.stop)
    page.open(dashboard.address)
    page.click("replay")
    page.wait_for_text("when", "UTC, interval")
    day = page.script("return document.getElementById('day').value")
    texts = [f"{each.text}." for each in stored if each.at.startswith(day)]
    for index in (2, 4):
        page.seek(index)
        assert page.text("sentence") == texts[index]
    page.click("live")
    page.wait_for_text("facts", "Next in")


TAB = "\ue004"
FOCUS = """
const e = document.activeElement, s = getComputedStyle(e);
return {
    key: e === document.body ? "BODY" : e.id || e.getAttribute("class") || e.textContent.trim(),
    outlined: s.outlineStyle !== "none" || !!e.closest("svg"),
}
"""


def test_tab_key_reaches_every_control(page, recorded):
    page.open(recorded.address)
    page.script("document.activeElement.blur()")
    reached = []
    for _ in range(90):
        page.press(TAB)
        focus = page.script(FOCUS)
        reached.append(focus["key"])
        if focus["key"] == "BODY":
            break
        assert focus["outlined"], f"the focus is not visible on {focus}"
    for key in ("skip", "replay", "play", "slider", "day", "speed", "place", "Sensor", "State"):
        assert key in reached, f"{key} is not reached: {reached}"
    assert len(set(reached)) > 50  # every sensor of the table too


def test_arrow_keys_move_on_the_floor_plan(page, recorded):
    page.open(recorded.address)
    page.script("document.querySelector('.place[tabindex=\"0\"]').focus()")
    name = "return document.activeElement.getAttribute('aria-label').split(':')[0]"
    first = page.script(name)
    page.press("\ue014")
    second = page.script(name)
    page.press("\ue012")
    assert page.script(name) == first != second
    page.press("\ue014\ue007")
    assert page.text("sensor-title") == f"Sensor {second}"


def test_page_has_landmarks_and_labels_for_screen_readers(page, recorded):
    page.open(recorded.address)
    count = "return document.querySelectorAll(arguments[0]).length"
    for landmark in ("main", "header", "footer"):
        assert page.script(count, landmark) == 1
    assert page.script(count, "[aria-live=polite]") == 1
    assert page.script(count, "html[lang=en]") == 1
    assert page.script(count, "table:not(:has(caption))") == 0
    assert page.script(count, "svg:not([role]):not([aria-hidden])") == 0
    assert page.script(count, "[role=img]:not([aria-label]), [role=listbox]:not([aria-label])") == 0
    assert page.script(count, "[role=option]") == page.script(count, "#rows tr") == 46
    unnamed = """
    return [...document.querySelectorAll("button, select, input, a")].filter(e =>
        !e.textContent.trim() && !e.getAttribute("aria-label") && !(e.labels && e.labels.length))
        .map(e => e.outerHTML)
    """
    assert page.script(unnamed) == []
    headings = page.script("return [...document.querySelectorAll('h1, h2')].map(e => e.tagName)")
    assert headings[0] == "H1" and headings.count("H1") == 1


def test_page_requests_nothing_from_other_hosts(dashboard):
    with started_chromium("browser", "performance") as driver:
        page = Page(driver)
        page.open(dashboard.address)
        page.click("replay")
        page.wait_for_text("when", "UTC, interval")
        page.click("live")
        page.wait_for_text("facts", "Next in")
        log = [json.loads(each["message"])["message"] for each in driver.get_log("performance")]
        console = page.console()
    requests = [
        each["params"]["request"]["url"]
        for each in log
        if each["method"] == "Network.requestWillBeSent"
    ]
    urls = [url for url in requests if not url.startswith(("about:", "data:"))]
    assert len(urls) >= 9
    assert {urlsplit(url).netloc for url in urls} == {f"127.0.0.1:{dashboard.port}"}
    assert console == []


def test_texts_from_mqtt_are_never_markup(page, dashboard, laboratory, peer):
    client = peer(laboratory.broker.port, "edge_tvbo/lab/temperature/event")
    text = "<img src=x onerror=\"document.title='owned'\"><script>1</script>"
    notice = {"event": "model-reset", "at": "2026-11-21T00:00:00Z", "text": text}
    page.open(dashboard.address)
    page.wait_for_text("daemon", "Daemon online")
    client.publish("edge_tvbo/lab/temperature/event", json.dumps(notice))
    page.wait_for_text("log", text)
    assert page.script("return document.querySelectorAll('#log img, #log script').length") == 0
    assert "owned" not in page.script("return document.title")


def test_sensors_without_positions_are_drawn_in_a_circle(page, tmp_path, laboratory, shared):
    text = laboratory.config.read_text().partition("[fields.temperature.positions]")[0]
    config = tmp_path / "no-positions.toml"
    model = tmp_path / "model.json"
    ids = list(laboratory.positions)
    kernel = [[float(a == b) for a in ids] for b in ids]
    model.write_text(
        json.dumps(
            {"format": 2, "unit": "°C", "objective": "max", "center": 21.0, "scale": 2.0}
            | {"noise_variance": 0.05, "sensors": ids, "kernel": kernel}
        )
    )
    config.write_text(re.sub(r"kernel = .*", f'model = "{model}"', text))
    dashboard = DashboardProcess(tmp_path / "log", config)
    shared.callback(dashboard.stop)
    page.open(dashboard.address)
    page.wait_for_text("plan-note", "has no positions")
    assert page.script("return document.querySelectorAll('.place').length") == len(ids)
    page.save_screenshots("circle")


COVERED_DISCS = """
return [...document.querySelectorAll(".place")].filter(place => {
    const box = place.querySelector(".disc").getBoundingClientRect();
    const x = box.left + box.width / 2, y = box.top + box.height / 2;
    return document.elementFromPoint(x, y)?.closest(".place") !== place;
}).map(place => place.textContent);
"""


COUNTS = (60, 61, 500)


@pytest.fixture(scope="module")
def many_sensors(broker, shared, tmp_path_factory):
    """Return a dashboard of fields with many sensors without positions."""
    directory = tmp_path_factory.mktemp("many")
    text = CONFIG.format(instance="many", port=broker.port)
    for count in COUNTS:
        tables = field_text(f"rooms_{count}", f"rooms-{count}", positions_of(count))
        tables = tables.partition(f"[fields.rooms_{count}.names]")[0]
        text += tables.replace('name = "se", length_scale = 8.0', 'name = "exchangeable"')
    config = directory / "many.toml"
    config.write_text(text)
    dashboard = DashboardProcess(directory / "log", config)
    shared.callback(dashboard.stop)
    return dashboard


@pytest.mark.parametrize("count", COUNTS)
def test_each_of_many_sensors_without_positions_can_be_clicked(page, many_sensors, count):
    for width in (1280, 390):
        page.set_size(width, height=1200)
        page.driver.get("about:blank")
        page.driver.get(f"{many_sensors.address}#field=rooms_{count}")
        page.wait_for_text("plan-note", "in a circle" if count == 60 else "in rows")
        page.script("document.getElementById('plan-box').scrollIntoView()")
        assert page.script("return document.querySelectorAll('.place').length") == count
        assert page.script(COVERED_DISCS) == []


class Proxy(http.server.BaseHTTPRequestHandler):
    """A reverse proxy for /edge/ that can remove the prefix."""

    port = 0
    keeps_prefix = False

    def do_GET(self):
        if not self.path.startswith("/edge/"):
            self.send_error(404)
            return
        path = self.path if self.keeps_prefix else self.path.removeprefix("/edge")
        upstream = http.client.HTTPConnection("127.0.0.1", self.port)
        upstream.request("GET", path)
        response = upstream.getresponse()
        self.send_response(response.status)
        for name in ("content-type", "content-security-policy"):
            self.send_header(name, response.getheader(name, ""))
        self.end_headers()
        try:
            while chunk := response.read1(65536):
                self.wfile.write(chunk)
        except (OSError, http.client.HTTPException):
            pass  # the page or the dashboard closed the connection
        upstream.close()

    def log_message(self, *arguments):
        pass


@pytest.mark.parametrize("keeps_prefix", [False, True])
def test_page_works_behind_a_path_prefix(page, laboratory, tmp_path, shared, keeps_prefix):
    options = ("--root-path", "/edge") if keeps_prefix else ()
    dashboard = DashboardProcess(tmp_path / "log", laboratory.config, *options)
    shared.callback(dashboard.stop)
    handler = type("Handler", (Proxy,), {"port": dashboard.port, "keeps_prefix": keeps_prefix})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever).start()
        page.open(f"http://127.0.0.1:{proxy.server_port}/edge/")
        page.wait_for_text("daemon", "Daemon online")
        page.click("replay")
        page.wait_for_text("when", "UTC, interval")
        assert page.console() == []
        page.driver.get("about:blank")
        proxy.shutdown()
