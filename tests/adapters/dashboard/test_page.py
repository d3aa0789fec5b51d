"""The page in Debian's chromium: a real mosquitto, a real daemon, sensors that answer."""

import http.client
import http.server
import json
import re
import threading
import urllib.request
from urllib.parse import urlsplit

import pytest
from adapters.dashboard.conftest import SHOTS, Laboratory, Served, until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

NOW = "return document.querySelector('tr.asked th').textContent"


def selected(peer):
    """Give the decisions that a client of the broker has heard."""
    return [json.loads(each) for each in peer.on("edge_tvbo/lab/temperature/selected")]


def test_picks_change_on_the_page_when_the_controller_picks(page, dashboard, laboratory, peer):
    page.open(dashboard.address)
    page.shows("broker", "Broker connected")
    page.shows("daemon", "Daemon online")
    client = peer(laboratory.broker.port, "edge_tvbo/lab/temperature/selected")
    seen = set()
    for _ in range(6):
        before = len(client.heard)
        client.wait(lambda before=before: len(client.heard) > before)
        decision = selected(client)[-1]
        page.shows("sentence", decision["text"] + ".", within=0.9)
        assert page.script(NOW) == decision["sensor"]
        seen.add(decision["sensor"])
    assert len(seen) > 1
    assert "answered" in page.text("picks-note")
    page.shows("facts", lambda text: re.search(r"Answer\d+\.\d+ °C", text))
    page.shoot("live")


def test_a_sensor_says_why_it_was_not_chosen(page, dashboard):
    page.open(dashboard.address)
    page.script("[...document.querySelectorAll('#rows tr:not(.asked) th button')].at(-1).click()")
    page.shows("sensor-title", lambda text: re.fullmatch(r"Sensor node-\d+", text))
    page.shows("sensor-box", lambda text: re.search(r"Estimate\d+\.\d+ ± \d\.\d+ °C", text))
    page.shows("sensor-box", lambda text: re.search(r"Not chosen|Chosen", text))


def test_a_silent_sensor_is_crossed_and_said_to_be_silent(page, dashboard, laboratory):
    page.open(dashboard.address)
    laboratory.sensors.dead = set(list(laboratory.places)[:12])
    try:
        page.shows("rows", "silent")
        page.shows("log", "Sensor lost")
        until(lambda: page.script("return !!document.querySelector('.cross:not([visibility])')"))
        page.shows("picks-note", lambda text: not re.search(r" 0 missed", text))
    finally:
        laboratory.sensors.dead = set()


def test_a_lost_broker_shows_as_lost_and_the_page_recovers_without_a_reload(
    page, mosquitto, tmp_path, shared
):
    broker = mosquitto()
    broker.start()
    laboratory = Laboratory(tmp_path, broker, count=6)
    shared.callback(laboratory.close)
    dashboard = Served(tmp_path / "log", laboratory.config)
    shared.callback(dashboard.stop)
    page.open(dashboard.address)
    page.shows("broker", "Broker connected")
    page.script("window.same = true")

    broker.kill()
    page.shows("broker", lambda text: re.fullmatch(r"Broker lost since \d\d:\d\d:\d\d", text), 5.0)
    page.shows("alarm", "The broker is lost since")
    page.shoot("broker-lost")
    last = page.text("sentence")

    broker.start()
    page.shows("broker", "Broker connected")
    page.shows("sentence", lambda text: text != last)
    assert page.script("return document.getElementById('alarm').hidden && window.same")

    laboratory.daemon.stop()
    page.shows("daemon", "Daemon offline")
    page.shows("alarm", "nobody decides")

    port = dashboard.port
    assert dashboard.stop() == 0
    page.shows("alarm", "This page has lost its server")
    laboratory.start()
    again = Served(tmp_path / "log2", laboratory.config, port=port)
    shared.callback(again.stop)
    page.shows("daemon", "Daemon online")
    assert page.script("return document.getElementById('alarm').hidden && window.same")


def test_the_slider_moves_a_recorded_day(page, recorded):
    page.open(recorded.address)
    with urllib.request.urlopen(
        f"http://127.0.0.1:{recorded.port}/tape.json?field=lab-sample"
    ) as tape:
        frames = json.load(tape)["frames"]
    assert len(frames) == 144
    for index in (0, 90, 143):
        page.seek(index)
        assert page.text("sentence") == frames[index]["decision"]["text"] + "."
        assert page.script(NOW) == frames[index]["decision"]["sensor"]
        value = frames[index]["value"]
        shown = page.text("facts")
        assert ("missed" if value is None else f"Answer{value:.2f}"[:-1]) in shown
    page.seek(90)
    page.shoot("replay")


def test_the_replay_plays_pauses_and_is_operated_by_keys(page, recorded):
    page.open(recorded.address)
    page.script("document.getElementById('slider').focus()")
    page.press("\ue014", times=3)  # arrow right
    assert page.text("when").endswith("interval 3")
    page.press("\ue010")  # end
    assert page.text("when").endswith("interval 143")
    page.press("\ue011")  # home
    page.script("document.getElementById('play').focus()")
    page.press(" ")
    page.shows("play", "Pause")
    page.shows("when", "interval 5")
    page.press(" ")
    page.shows("play", "Play")
    held = page.text("when")
    page.script("return 0")
    assert page.text("when") == held


def test_what_was_live_is_replayed_from_the_history(page, dashboard):
    page.open(dashboard.address)
    page.shows("picks-note", lambda text: int(text.split()[0]) >= 5)
    page.click("replay")
    page.shows("when", "UTC, interval")
    assert page.script("return +document.getElementById('slider').max") >= 5
    page.seek(2)
    first = page.text("sentence")
    page.seek(4)
    assert page.text("when") and first
    page.click("live")
    page.shows("facts", "Next in")


TAB = "\ue004"
WHERE = """
const e = document.activeElement, s = getComputedStyle(e);
return {
    key: e === document.body ? "BODY" : e.id || e.getAttribute("class") || e.textContent.trim(),
    outlined: s.outlineStyle !== "none" || !!e.closest("svg"),
}
"""


def test_the_keyboard_reaches_everything_is_seen_and_is_not_trapped(page, recorded):
    page.open(recorded.address)
    page.script("document.activeElement.blur()")
    seen = []
    for _ in range(90):
        page.press(TAB)
        where = page.script(WHERE)
        seen.append(where["key"])
        if where["key"] == "BODY":
            break
        assert where["outlined"], f"no focus is seen on {where}"
    for wanted in ("skip", "replay", "play", "slider", "day", "speed", "place", "Sensor", "State"):
        assert wanted in seen, f"{wanted} is not reached: {seen}"
    assert len(set(seen)) > 50  # every sensor of the table too


def test_on_the_floor_plan_arrows_go_from_sensor_to_sensor_and_enter_chooses(page, recorded):
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


def test_a_screen_reader_finds_its_way(page, recorded):
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


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_overflows_and_nothing_overlaps(page, recorded, width):
    page.open(recorded.address)
    page.size(width)
    page.seek(60)
    until(lambda: page.script("return innerWidth") == width)
    assert page.script("return document.documentElement.scrollWidth") <= width
    overlapping = """
    const boxes = [...document.querySelectorAll("header, .card:not([hidden])")]
        .map(e => [e.id, e.getBoundingClientRect()]);
    const meet = (p, q) => p.left < q.right - 1 && q.left < p.right - 1
        && p.top < q.bottom - 1 && q.top < p.bottom - 1;
    return boxes.flatMap(([a, p], k) =>
        boxes.slice(k + 1).filter(([, q]) => meet(p, q)).map(([b]) => [a, b]));
    """
    assert page.script(overlapping) == []


def test_the_page_needs_nothing_from_elsewhere_and_the_console_is_silent(page, dashboard):
    page.open(dashboard.address)
    page.click("replay")
    page.shows("when", "UTC, interval")
    page.click("live")
    page.shows("facts", "Next in")
    requests = [
        message["params"]["request"]["url"]
        for message in (
            json.loads(each["message"])["message"] for each in page.driver.get_log("performance")
        )
        if message["method"] == "Network.requestWillBeSent"
    ]
    ours = [url for url in requests if not url.startswith(("about:", "data:"))]
    assert len(ours) >= 9
    assert {urlsplit(url).netloc for url in ours} == {f"127.0.0.1:{dashboard.port}"}
    assert page.complaints() == []


def test_what_comes_over_mqtt_is_never_markup(page, dashboard, laboratory, peer):
    client = peer(laboratory.broker.port, "edge_tvbo/lab/temperature/event")
    text = "<img src=x onerror=\"document.title='owned'\"><script>1</script>"
    notice = {"event": "model-reset", "at": "2026-11-21T00:00:00Z", "text": text}
    page.open(dashboard.address)
    page.shows("daemon", "Daemon online")
    client.publish("edge_tvbo/lab/temperature/event", json.dumps(notice))
    page.shows("log", text)
    assert page.script("return document.querySelectorAll('#log img, #log script').length") == 0
    assert "owned" not in page.script("return document.title")


def test_without_positions_the_sensors_stand_in_a_circle_and_the_page_says_so(
    page, tmp_path, laboratory, shared
):
    text = laboratory.config.read_text().partition("[fields.temperature.positions]")[0]
    config = tmp_path / "nowhere.toml"
    model = tmp_path / "model.json"
    ids = list(laboratory.places)
    kernel = [[float(a == b) for a in ids] for b in ids]
    model.write_text(
        json.dumps(
            {"format": 2, "unit": "°C", "objective": "max", "center": 21.0, "scale": 2.0}
            | {"noise_variance": 0.05, "sensors": ids, "kernel": kernel}
        )
    )
    config.write_text(re.sub(r"kernel = .*", f'model = "{model}"', text))
    dashboard = Served(tmp_path / "log", config)
    shared.callback(dashboard.stop)
    page.open(dashboard.address)
    page.shows("plan-note", "says no positions")
    assert page.script("return document.querySelectorAll('.place').length") == len(ids)
    page.shoot("circle")


class Proxy(http.server.BaseHTTPRequestHandler):
    """A reverse proxy for /edge/: it takes the prefix off, and passes on what comes as it comes."""

    port = 0
    keeps_prefix = False

    def do_GET(self):
        if not self.path.startswith("/edge/"):
            self.send_error(404)
            return
        path = self.path if self.keeps_prefix else self.path.removeprefix("/edge")
        behind = http.client.HTTPConnection("127.0.0.1", self.port)
        behind.request("GET", path)
        answer = behind.getresponse()
        self.send_response(answer.status)
        for name in ("content-type", "content-security-policy"):
            self.send_header(name, answer.getheader(name, ""))
        self.end_headers()
        try:
            while chunk := answer.read1(65536):
                self.wfile.write(chunk)
        except (OSError, http.client.HTTPException):
            pass  # the page has gone, or the dashboard
        behind.close()

    def log_message(self, *arguments):
        pass


@pytest.mark.parametrize("keeps_prefix", [False, True])
def test_it_works_behind_a_sub_path(page, laboratory, tmp_path, shared, keeps_prefix):
    options = ("--root-path", "/edge") if keeps_prefix else ()
    dashboard = Served(tmp_path / "log", laboratory.config, *options)
    shared.callback(dashboard.stop)
    handler = type("Here", (Proxy,), {"port": dashboard.port, "keeps_prefix": keeps_prefix})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever).start()
        page.open(f"http://127.0.0.1:{proxy.server_port}/edge/")
        page.shows("daemon", "Daemon online")
        page.click("replay")
        page.shows("when", "UTC, interval")
        assert page.complaints() == []
        page.driver.get("about:blank")
        proxy.shutdown()


def test_the_pictures_are_there():
    names = {each.name for each in SHOTS.glob("*.png")}
    for name in ("live", "replay", "broker-lost", "circle"):
        assert {f"{name}-{w}-{k}.png" for w in (1280, 390) for k in ("light", "dark")} <= names
