"""The dashboard's page after single messages, which the tests publish instead of a daemon."""

import json
import re
from datetime import UTC, datetime, timedelta
from urllib.request import urlopen

import msgspec
import numpy as np
import pytest
from support.browser import layout_problems
from support.controllers import controller_settings
from support.dashboard import CONFIG, DashboardProcess, field_text, positions_of, wait_for

from edge_tvbo.control.controller import Controller
from edge_tvbo.control.decision_text import MAX_INELIGIBLE
from edge_tvbo.messages.commands import PublishState
from edge_tvbo.messages.documents import Ineligibility
from edge_tvbo.messages.events import IntervalElapsed, Reading
from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

pytestmark = pytest.mark.timeout(240)

BASE = "edge_tvbo/quiet"
CELLS = """
return [...document.querySelectorAll("#timeline-box svg title")].map(each => each.textContent)
"""


POSITIONS = positions_of(24)
CHANGES = {  # of the fields that differ from the others, each for one test
    "large": [("publish_posterior = 300", "publish_posterior = 1")],
    "log_scale": [('unit = "°C"', 'unit = "°C"\ntransform = "log1p"')],
    "large_values": [('unit = "°C"', 'unit = "µg/m³"'), ("plausible = [-40, 60]\n", "")],
    "small_values": [
        ('unit = "°C"', 'unit = "Sv/h"'),
        ("variance = 6.0, noise_variance = 0.05", "variance = 6e-16, noise_variance = 5e-18"),
        ("plausible = [-40, 60]\n", ""),
        ("alert = { threshold = 40.0, hysteresis = 0.5 }\n", ""),
    ],
    "no_alert": [("alert = { threshold = 40.0, hysteresis = 0.5 }\n", "")],
    "former_alert": [],
    "no_model": [('{ name = "et-gp-ucb", n_upper = 15 }', '{ name = "random" }')],
    "hourly": [('interval = "1s"', 'interval = "60min"')],
}
NAMES = [f"field{number}" for number in range(30)]  # each is given to one test


def text_of(field):
    """Return the tables of a field in the configuration."""
    text = field_text(field, field, POSITIONS)
    for old, new in CHANGES.get(field, ()):
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def start(broker, shared):
    """Return a function that starts a dashboard of fields of an instance without a daemon."""

    def start(directory, fields):
        config = directory / "quiet.toml"
        head = CONFIG.format(instance="quiet", port=broker.port)
        config.write_text(head + "".join(map(text_of, fields)))
        dashboard = DashboardProcess(directory / "log", config)
        shared.callback(dashboard.stop)
        wait_for(lambda: is_connected(dashboard))
        return dashboard

    return start


@pytest.fixture(scope="module")
def quiet(start, chromium, tmp_path_factory):
    """Return a dashboard of all fields, whose page is left after the tests."""
    yield start(tmp_path_factory.mktemp("quiet"), [*CHANGES, *NAMES])
    chromium.get("about:blank")


@pytest.fixture(scope="module")
def names():
    """Return an iterator of fields without messages."""
    return iter(NAMES)


@pytest.fixture
def field(names):
    """Return a field without messages; a test of another field names it as its parameter."""
    return next(names)


@pytest.fixture
def address(quiet, field):
    """Return the address of the page of the test's field."""
    return f"{quiet.address}#field={field}"


def is_connected(dashboard):
    """Return whether the broker has granted the subscriptions of a dashboard."""
    with urlopen(f"{dashboard.address}events") as stream:
        view = next(line for line in stream if line.startswith(b"data:"))
    return json.loads(view.removeprefix(b"data:"))["connections"]["broker"]["online"]


@pytest.fixture
def publish(peer, broker, field):
    """Return a function that publishes a document of the test's field."""
    client = peer(broker.port, f"{BASE}/none")

    def publish(level, document):
        client.publish(f"{BASE}/{field}/{level}", json.dumps(document))

    return publish


@pytest.fixture
def set_time_zone(chromium):
    """Return a function that sets the time zone of the browser until the test ends."""

    def set_time_zone(name):
        chromium.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": name})

    yield set_time_zone
    set_time_zone("")


def decision(interval, at, sensor):
    """Return the document of a decision."""
    return {
        "interval": interval, "at": at, "expires_at": at, "sensor": sensor, "policy": "auto",
        "mean": 20.0, "std": 1.0, "ucb": 22.0, "unit": "°C", "reason": "explore", "factors": [],
        "text": f"{sensor}: text", "model": {"observations": 1, "resets": 0},
    }  # fmt: skip


def posterior(interval, at, value):
    """Return the document of the posterior after `node-1` has replied `value`."""
    return {
        "interval": interval, "at": at, "ending": "answered", "unit": "°C", "sensors": ["node-1"],
        "mean": [value], "std": [1.0], "last": [value], "age_s": [0.0],
    }  # fmt: skip


def publish_three_intervals(publish):
    """Publish three decisions and the first reply; return the second reply, which is late."""
    times = [f"2026-11-24T08:0{minute}:00Z" for minute in range(3)]
    publish("selected", decision(0, times[0], "node-1"))
    publish("posterior", posterior(0, times[0], 27.0))
    publish("selected", decision(1, times[1], "node-1"))
    publish("selected", decision(2, times[2], "node-1"))
    return posterior(1, times[1], 27.0)


CHART_READINGS = """
return [...document.querySelectorAll("#course-box .dots")]
    .map(each => each.getAttribute("d").split("M").length - 1).reduce((a, b) => a + b, 0)
"""


@pytest.mark.parametrize("count", [1, 2, 3])
def test_intervals_of_a_restarted_daemon_do_not_replace_those_before(page, address, publish, count):
    """A daemon without `[state]` counts its intervals from 0 after each start."""

    def publish_intervals(hour, count, value):
        for interval in range(count):
            at = f"2026-11-24T{hour:02}:{interval:02}:00Z"
            publish("selected", decision(interval, at, "node-1"))
            publish("posterior", posterior(interval, at, value))

    publish_intervals(8, count, 21.0)
    page.open(address)
    wait_for(lambda: len(page.script(CELLS)) == page.script(CHART_READINGS) == count)
    publish_intervals(9, 2, 27.0)
    page.wait_for_text("facts", lambda text: "Interval1R" in text and "Reply27.00 °C" in text)
    cells = page.script(CELLS)
    assert [each.rpartition(" ")[2] for each in cells] == ["21.00"] * count + ["27.00"] * 2
    assert page.script(CHART_READINGS) == count + 2
    page.save_screenshots("restarted-daemon")


@pytest.mark.parametrize("field", ["large"])
def test_page_says_which_setting_publishes_the_estimates_of_a_large_field(page, address, publish):
    publish("selected", decision(0, "2026-11-24T08:00:00Z", "node-1") | {"recommended": True})
    page.open(address)
    page.wait_for_text("candidates", "not published. To see them, set publish_posterior = ")
    page.wait_for_text("facts", "Readingnot published")
    page.wait_for_text("sensor-box", "Last readingnot published")


BROKEN_WORDS = """
return [...document.querySelectorAll("#facts dd")].flatMap(({ firstChild: text }) =>
    [...text.textContent.matchAll(/[^ \u00a0]+/g)].filter(({ 0: word, index }) => {
        const range = document.createRange();
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        return new Set([...range.getClientRects()].map(box => box.top)).size > 1;
    }).map(({ 0: word }) => word));
"""


def test_words_of_a_decision_are_not_broken_on_a_very_narrow_screen(page, address, publish):
    at, model = "2026-11-24T08:00:00Z", {"observations": 1234, "resets": 0}
    publish("selected", decision(12345, at, "node-1") | {"reason": "exploit", "model": model})
    publish("posterior", posterior(12345, at, 27.35) | {"ending": "undelivered"})
    page.set_size(320)
    page.open(address)
    page.wait_for_text("facts", "Reasonhighest estimateReplycommand not sent")
    page.wait_for_text("facts", "1234 readings")
    assert page.script(BROKEN_WORDS) == []


TIMED_OUT = "return document.querySelector('#rows tr.selected').children[6].textContent"


@pytest.mark.parametrize("field", ["large"])
def test_page_does_not_count_replies_that_are_not_published(page, address, publish):
    for interval in range(2, 5):
        publish("selected", decision(interval, f"2026-11-24T08:00:0{interval}Z", "node-1"))
    page.open(address)
    page.wait_for_text("facts", "Replynot published")
    page.wait_for_text("sensor-box", lambda text: re.search(r"Activated\d+×State", text))
    assert page.script(TIMED_OUT) == "–"
    page.wait_for_text("timeline-note", "0 with a reply, 0 timed out (×), ")
    assert "with an unknown result, 0 model resets" in page.text("timeline-note")
    assert "Colours" not in page.text("timeline-note")


TIMED_OUT_IN_REPLAY = """(endings => {
    const at = "2026-11-24T08:00:00Z", model = { observations: 1 }, id = "a";
    const field = { sensors: [id], is_published: false, has_model: true, name: id => id };
    const frames = endings.map(() => ({ decision: { at, model, sensor: id }, readings: {} }));
    const selections = endings.map(ending => ({ at, sensor: id, activated: true, ending, earlier: [] }));
    const day = { frames, selections, notices: [], before: [] };
    return m.recordedSnapshot(field, day, endings.length - 1).sensor(id).timedOut;
})"""  # noqa: E501 - lines of a page


@pytest.mark.parametrize(
    ("endings", "count"), [([None, None], None), ([None, "missed"], 1), (["answered"], 0)]
)
def test_replay_does_not_count_replies_that_are_not_published(run, endings, count):
    """Without a history, a day has only what was published; a history has all results."""
    assert run("snapshot", f"{TIMED_OUT_IN_REPLAY}({json.dumps(endings)})") == count


def test_intervals_whose_result_was_missed_are_counted(page, address, publish):
    for interval in range(4):
        at = f"2026-11-24T08:00:0{interval}Z"
        publish("selected", decision(interval, at, "node-1"))
        publish("posterior", posterior(interval, at, 27.0) | {"ending": None})
        if interval != 2:
            publish("posterior", posterior(interval, at, 27.0))
    page.open(address)
    page.wait_for_text("timeline-note", "4 intervals: 3 with a reply, 0 timed out (×), 1 with an")
    publish("selected", decision(4, "2026-11-24T08:00:04Z", "node-1"))
    page.wait_for_text("timeline-note", "5 intervals: 3 with a reply, 0 timed out (×), 1 with an")


def test_reply_that_began_the_next_interval_appears_in_the_timeline(page, address, publish):
    """Then the decision of the new interval arrives before the posterior of the old one."""
    late_reply = publish_three_intervals(publish)
    page.open(address)
    wait_for(lambda: len(page.script(CELLS)) == 3)

    publish("posterior", late_reply)

    page.wait_for_text("timeline-note", "2 with a reply")
    assert [each.endswith(" 27.00") for each in page.script(CELLS)] == [True, True, False]


def test_reply_that_began_the_next_interval_appears_in_the_chart(page, address, publish):
    late_reply = publish_three_intervals(publish)
    page.open(address)
    wait_for(lambda: page.script(CHART_READINGS) == 1)

    publish("posterior", late_reply)

    wait_for(lambda: page.script(CHART_READINGS) == 2)


ALERT_SPANS = """
return [...document.querySelectorAll("#course-box .alert-span")].map(each => [
    +each.getAttribute("x"), +each.getAttribute("x") + +each.getAttribute("width")
])
"""


def test_an_alert_whose_end_was_missed_ends_in_the_chart(page, address, publish):
    """Notices are not retained; the retained document of the alert says since when it is over."""
    for interval in range(12):
        at = f"2026-11-24T10:{5 * interval:02}:00Z"
        publish("selected", decision(interval, at, "node-1"))
        publish("posterior", posterior(interval, at, 21.0))
    publish(
        "event", {"event": "alert", "at": "2026-11-24T10:10:00Z", "text": "t", "sensor": "node-1"}
    )
    page.open(address)
    wait_for(lambda: page.script(ALERT_SPANS))
    ((begin, without_end),) = page.script(ALERT_SPANS)
    publish("alert", alert_over("2026-11-24T10:20:00Z"))
    wait_for(lambda: page.script(ALERT_SPANS)[0][1] != without_end)
    ((begin, end),) = page.script(ALERT_SPANS)
    assert (end - begin) / (without_end - begin) == pytest.approx(10 / 45, abs=0.01)


def alert_over(at):
    """Return the retained document of an alert that is over since `at`."""
    return {
        "at": at, "active": False, "since": at, "threshold": 40.0, "release": 39.5,
        "sensor": "node-1", "value": 21.0, "std": 1.0, "probability": 0.0, "readings": {},
        "unit": "°C", "text": "over",
    }  # fmt: skip


@pytest.mark.parametrize("field", ["no_alert", "former_alert"])
def test_an_alert_is_shown_until_a_reload_of_the_daemon_removes_it(
    field, page, quiet, peer, broker
):
    """The dashboard has read the configuration when it started, before the alert was changed."""
    client = peer(broker.port, f"{BASE}/none")
    active = alert_over(AT) | {"active": True, "threshold": 24.2, "text": "node-1 is too hot"}
    for level, document in (
        ("selected", decision(0, AT, "node-1")),
        ("posterior", posterior(0, AT, 24.0)),
        ("alert", active),
    ):
        client.publish(f"{BASE}/{field}/{level}", json.dumps(document), retain=True)
    page.open(f"{quiet.address}#field={field}")
    page.wait_for_text("alert", "node-1 is too hot")
    label = "return document.querySelector('#course .threshold-label')?.textContent ?? ''"
    wait_for(lambda: "24.2" in page.script(label))
    client.publish(f"{BASE}/{field}/alert", "", retain=True)  # the alert was removed
    wait_for(lambda: page.script("return document.getElementById('alert').hidden"))
    wait_for(lambda: page.script(label) == "")


DATES = """
return [...document.querySelectorAll("#course-box svg > text")].map(each => each.textContent)
    .filter(each => / (Oct|Nov)$/.test(each))
"""


def test_dates_of_the_chart_are_those_of_the_clock_after_summer_time(
    page, address, publish, set_time_zone
):
    set_time_zone("Europe/Berlin")
    for interval, day in enumerate([*range(22, 32), 1, 2]):
        at = f"2026-{10 if day > 20 else 11}-{day:02}T08:00:00Z"
        publish("selected", decision(interval, at, "node-1"))
        publish("posterior", posterior(interval, at, 21.0))
    page.open(address)
    wait_for(lambda: "1 Nov" in page.script(DATES))
    dates = page.script(DATES)
    assert dates[: dates.index("1 Nov") + 1] == [f"{day} Oct" for day in range(23, 32)] + ["1 Nov"]


def test_chart_shows_the_intervals_whose_times_are_of_the_present_clock(page, address, publish):
    """As of a gateway that has no clock of its own: it begins in 1970, until the clock is set."""

    def run(intervals, day):
        for interval in intervals:
            at = f"{day}T10:{interval:02}:00Z"
            publish("selected", decision(interval, at, "node-1"))
            publish("posterior", posterior(interval, at, 21.0))

    run(range(3), "1970-01-01")
    page.open(address)
    page.wait_for_text("course-note", "3 intervals, 1 Jan 1970")
    run(range(3, 8), "2026-11-24")
    assert "1970" not in page.wait_for_text("course-note", "5 intervals, ")
    run([8], "1970-01-01")  # after the next start
    page.wait_for_text("course-note", "4 intervals, 1 Jan 1970")


REJECT_FIRST = """
const fetchNow = window.fetch;
window.fetch = async (path) => {
    if (path !== "fields.json") return fetchNow(path);
    window.fetch = fetchNow;
    return { ok: false, status: 503 };
};
"""


def test_page_that_stays_open_shows_the_sensors_of_a_changed_configuration(
    page, start, field, publish, tmp_path
):
    """The page itself says to restart the dashboard; a page on a wall is never reloaded by hand.

    The server rejects the first request, as if too many pages were loaded again at once.
    """
    dashboard = start(tmp_path, [field])
    publish("selected", decision(0, "2026-11-24T08:00:00Z", "node-1"))
    page.open(dashboard.address)
    page.script(REJECT_FIRST)
    dashboard.stop()
    config = tmp_path / "quiet.toml"
    config.write_text(
        config.read_text()
        .replace('sensors = ["node-1",', 'sensors = ["node-1", "attic",')
        .replace(f"[fields.{field}.positions]", f"[fields.{field}.positions]\nattic = [1, 1]")
    )
    again = DashboardProcess(tmp_path / "log2", config, port=dashboard.port)
    try:
        wait_for(
            lambda: page.script(
                "return document.getElementById('rows').textContent.includes('attic')"
            )
        )
        publish("selected", decision(1, "2026-11-24T08:01:00Z", "attic"))
        page.wait_for_text("sentence", "attic: text")
    finally:
        again.stop()


def test_alarm_about_a_removed_sensor_ends_with_the_next_message(
    page, start, field, publish, peer, broker, tmp_path
):
    at, topic = "2026-11-24T08:00:00Z", f"{BASE}/{field}/selected"
    client = peer(broker.port, f"{BASE}/none")
    client.publish(topic, json.dumps(decision(0, at, "removed")), retain=True)
    dashboard = start(tmp_path, [field])
    page.driver.get(dashboard.address)
    page.wait_for_text("alarm", "The daemon has other fields, sensors or units than this")
    publish("selected", decision(1, "2026-11-24T08:01:00Z", "node-1"))
    page.wait_for_text("sentence", "node-1: text")
    wait_for(lambda: page.text("alarm") == "")


def test_sensors_activated_earlier_in_an_interval_are_counted(page, address, publish):
    """As with `per_interval = 2`: the second decision replaces the first one of the interval."""
    for interval in range(2):
        at = f"2026-11-24T08:0{interval}:00Z"
        publish("selected", decision(interval, at, "node-1"))
        publish("selected", decision(interval, at, "node-2") | {"earlier": ["node-1"]})
    page.open(address)
    page.wait_for_text("facts", "Interval1")
    counts = [activated(page, sensor) for sensor in ("node-1", "node-2", "node-3")]
    assert counts == [2, 2, 0]
    page.click("replay")
    page.wait_for_text("when", "interval 0")
    assert [activated(page, sensor) for sensor in ("node-1", "node-2", "node-3")] == [1, 1, 0]


def activated(page, sensor):
    """Return how often the table of the sensors says that a sensor was activated."""
    return page.script(
        "const buttons = [...document.querySelectorAll('#rows button')];"
        "const row = buttons.find(each => each.title === arguments[0]).closest('tr');"
        "return Number(row.children[5].textContent)",
        sensor,
    )


def test_replay_shows_the_last_readings_of_sensors_that_were_not_selected(page, address, publish):
    """As in the mode advise, in which sensors report on their own."""
    at = "2026-11-24T08:00:00Z"
    publish("selected", decision(0, at, "node-1"))
    both = {"sensors": ["node-1", "node-2"]} | {
        column: [21.0, 25.0] for column in ("mean", "std", "last")
    }
    publish("posterior", posterior(0, at, 21.0) | both | {"age_s": [0.0, 0.0]})
    page.open(address)
    page.wait_for_text("facts", "Reply21.00")
    page.click("replay")
    page.wait_for_text("when", "interval 0")
    page.script("document.querySelector('#rows button[title=node-2]').click()")
    page.wait_for_text("sensor-box", lambda text: "Last reading25.00" in text)


AXIS = """
return [...document.querySelectorAll("#course-box svg > text[text-anchor=end]")]
    .map(each => Number(each.textContent.replace("−", "-").replace("°C", "")))
    .filter(each => !Number.isNaN(each))
"""


@pytest.mark.parametrize("field", ["log_scale"])
def test_band_of_a_field_on_a_log_scale_has_no_negative_values(page, address, publish):
    at = "2026-11-24T08:00:00Z"
    publish("selected", decision(0, at, "node-1"))
    publish(
        "hotspot",
        {"at": at, "sensor": "node-1", "value": 2.0, "std": 9.0, "unit": "°C", "age_s": 1},
    )
    publish("posterior", posterior(0, at, 2.0) | {"std": [9.0]})
    page.open(address)
    wait_for(lambda: page.script(AXIS))
    assert max(page.script(AXIS)) > 9.0 and min(page.script(AXIS)) >= 0.0


@pytest.mark.parametrize("clock_synced", [True, False])
def test_daemon_whose_reports_are_missing_does_not_look_online(
    page, start, field, peer, broker, tmp_path, clock_synced
):
    """As after a power failure: mosquitto stores the status `online`, and no daemon starts."""
    dashboard = start(tmp_path, [field])
    client = peer(broker.port, f"{BASE}/none")
    of_field = {
        "interval": 0, "selected": "node-1", "answered": 0, "missed": 0, "suspects": [],
        "refused": {},
    }  # fmt: skip
    health = {"at": "2026-01-01T08:00:00Z", "uptime_s": 9, "version": "0.2.0"}
    health |= {"fields": {field: of_field}, "clock_synced": clock_synced}
    client.publish(f"{BASE}/status", "online")
    client.publish(f"{BASE}/health", json.dumps(health))
    page.driver.get(dashboard.address)
    page.wait_for_text("daemon", "Daemon not responding")
    page.wait_for_text("alarm", "no report since")

    for at in ("1970-01-01T00:00:09Z", "2999-11-24T08:00:00Z"):  # the first clock is not set
        client.publish(f"{BASE}/health", json.dumps(health | {"at": at}))
        page.wait_for_text("daemon", "Daemon online")
        assert page.script("return document.getElementById('alarm').hidden")
        client.publish(f"{BASE}/health", json.dumps(health))
        page.wait_for_text("daemon", "Daemon not responding")


# --- two fields -----------------------------------------------------------------------------------

DELAY_DAYS = """
const fetchNow = window.fetch, nothing = { frames: [], notices: [], before: [] };
const empty = { days: [], day: "", complete: true, ...nothing };
const other = arguments[1];
window.delays = arguments[0];
window.fetch = async (address, ...rest) => {
    const field = /^day.json.*field=(\\w+)/.exec(address)?.[1];
    if (field) await new Promise(done => setTimeout(done, window.delays[field]));
    if (field === other) return { ok: true, json: async () => empty };
    return fetchNow(address, ...rest);
};
"""
IS_SHOWN = "return document.getElementById(arguments[0]).checkVisibility()"


def test_replay_never_shows_the_values_of_another_field(page, address, publish, field, names):
    other = next(names)
    publish_three_intervals(publish)
    page.open(address)
    page.script(DELAY_DAYS, {field: 0, other: 500}, other)
    page.click("replay")
    page.wait_for_text("when", "interval 0")
    page.script(f"location.hash = '#field={other}'")
    page.wait_for_text("when", "loading")
    assert not page.script(IS_SHOWN, "sensors") and not page.script(IS_SHOWN, "decision")
    page.wait_for_text("alarm", "No day is recorded yet.")
    assert not page.script(IS_SHOWN, "sensors")
    page.save_screenshots("no-day")

    page.script("window.delays = arguments[0]", {field: 700, other: 0})
    page.script(f"location.hash = '#field={field}'")
    page.wait_for_text("when", "loading")
    page.script(f"location.hash = '#field={other}'")
    page.wait_for_text("when", "no recorded interval")
    page.driver.execute_async_script("setTimeout(arguments[0], 1000)")  # the other day has arrived
    assert page.text("when") == "no recorded interval" and not page.script(IS_SHOWN, "sensors")


def test_panels_show_the_field_that_the_user_selects(page, address, publish, peer, broker, names):
    """Only what happened between the first and the last messages differs."""
    client, other = peer(broker.port, f"{BASE}/none"), next(names)
    times = [f"2026-11-24T08:0{minute}:00Z" for minute in range(4)]

    def publish_other(level, document):
        client.publish(f"{BASE}/{other}/{level}", json.dumps(document))

    for publish_to, second in ((publish, "node-2"), (publish_other, "node-3")):
        for at, text in zip(times, ("first", f"of {second}", "last"), strict=False):
            publish_to("event", {"event": "paused", "at": at, "text": text})
        for interval, sensor in enumerate(("node-1", second, "node-1", "node-1")):
            publish_to("selected", decision(interval, times[interval], sensor))
    page.open(address)
    page.wait_for_text("log", "of node-2")
    wait_for(lambda: len(page.script(CELLS)) == 4)
    page.script(f"location.hash = '#field={other}'")
    page.wait_for_text("course-title", lambda text: text.lower().startswith(other))
    page.wait_for_text("log", "of node-3")
    wait_for(lambda: "node-3" in page.script(CELLS)[1])


def test_note_about_missing_bounds_is_that_of_the_newest_decision(page, address, publish):
    publish("selected", decision(0, AT, "node-1"))
    page.open(address)
    page.wait_for_text("candidates", "no bounds of the same width were compared")
    keys = {"width": 2.0, "runner_up": "node-2", "runner_up_ucb": 21.5}
    publish("selected", decision(1, "2026-11-24T08:01:00Z", "node-1") | keys)
    page.wait_for_text("candidates", "The estimates of this interval are unknown")


COUNTS_OF_POINTS = """
const [name, updates, done] = arguments;
import("./course.js").then(async ({ LiveCourse }) => {
    const course = new LiveCourse(() => {}), counts = [];
    await course.load(name, null);
    for (const [field, interval, at] of updates) {
        const selection = { at, interval, sensor: "s", value: 1, begin: at };
        const data = { prediction: null, posterior: null };
        course.update(field, selection, data, { hotspot: null, readings: {} });
        counts.push(course.points.length);
    }
    done(counts);
});
"""


def counts_of_points(page, field, *updates):
    """Return the number of points of the loaded course of `field` after each update."""
    return page.driver.execute_async_script(COUNTS_OF_POINTS, field, updates)


def test_points_of_another_field_are_not_added_to_the_loaded_course(page, address, publish, field):
    publish_three_intervals(publish)
    page.open(address)
    at = "2026-11-24T09:00:00Z"
    assert counts_of_points(page, field, ("other", 9, at), (field, 9, at)) == [3, 4]


def test_message_about_an_interval_that_the_loaded_course_has_adds_no_point(
    page, address, publish, field
):
    """As if the message arrived after the course, or if the clock of the daemon was set back."""
    publish_three_intervals(publish)
    page.open(address)
    again, restarted = (field, 0, "2026-11-24T08:00:00Z"), (field, 0, "2026-11-24T09:00:00Z")
    assert counts_of_points(page, field, again, restarted, restarted) == [3, 4, 4]


FAIL_ONCE = """
const done = arguments[1], fetchNow = window.fetch;
let failed = false;
window.fetch = async (...request) => {
    if (failed) return fetchNow(...request);
    failed = true;
    return { ok: false, status: 503 };
};
import("./course.js").then(async ({ LiveCourse }) => {
    const course = new LiveCourse(() => {});
    await course.load(arguments[0], null);
    await course.load(arguments[0], null);
    done(course.points.length);
});
"""


def test_course_is_loaded_again_after_the_server_was_busy(page, address, publish, field):
    """The server rejects requests with status 503 while it has too many connections."""
    publish_three_intervals(publish)
    page.open(address)
    wait_for(lambda: len(page.script(CELLS)) == 3)
    assert page.driver.execute_async_script(FAIL_ONCE, field) == 3


LOAD_AGAIN = """
const [field, done] = arguments;
import("./course.js").then(async ({ LiveCourse }) => {
    const course = new LiveCourse(() => {}), counts = [];
    await course.load(field, null);
    course.invalidate();
    const loading = course.load(field, null);
    counts.push(course.points.length);
    await loading;
    counts.push(course.points.length);
    course.load(field, "node-2");
    done([...counts, course.points.length]);
});
"""


def test_chart_keeps_its_points_while_they_are_loaded_again(page, address, publish, field):
    """As after each reconnection of the page; another sensor has other points."""
    publish_three_intervals(publish)
    page.open(address)
    wait_for(lambda: len(page.script(CELLS)) == 3)
    assert page.driver.execute_async_script(LOAD_AGAIN, field) == [3, 3, 0]


SILENT_EVENTS = """
window.opened = [];
window.EventSource = class extends EventTarget {
    static CONNECTING = 0; static OPEN = 1; static CLOSED = 2;
    readyState = 1;
    constructor() { super(); window.opened.push(this); }
    close() { this.isClosed = true; }
};
"""


def test_page_opens_a_new_connection_if_no_event_arrives(page, quiet):
    """As after a change of the network: packets of the old connection are dropped."""
    script = page.driver.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": SILENT_EVENTS}
    )
    try:
        page.driver.get(quiet.address)
        page.wait_for_text("alarm", "The page keeps trying.")
        wait_for(lambda: page.script("return opened.map(each => !!each.isClosed)") == [True, False])
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


# --- what a field of another kind needs -----------------------------------------------------------


AT = "2026-11-24T08:00:00Z"
LEFT_ENDS = """
return [...document.querySelectorAll("#course-box svg > text")].map(each => each.getBBox().x)
"""


@pytest.mark.parametrize("field", ["large_values"])
def test_labels_of_the_value_axis_are_not_cut(page, address, publish):
    """The label 1200 µg/m³ without its first digit is another value."""
    unit = "µg/m³"
    publish("selected", decision(0, AT, "node-1") | {"unit": unit})
    estimates = {"mean": [1290.0], "std": [1.0], "last": [1290.0], "unit": unit}
    publish("posterior", posterior(0, AT, 1290.0) | estimates)
    publish("selected", decision(1, "2026-11-24T08:00:01Z", "node-1") | {"unit": unit})
    page.open(address)
    wait_for(lambda: page.script(LEFT_ENDS))
    assert min(page.script(LEFT_ENDS)) >= 0.0
    page.save_screenshots("wide-labels")


POINTED = """
const area = document.querySelector("#course-box .pointer-area");
return area?.dispatchEvent(new PointerEvent("pointermove", { clientX: 0 }));
"""


@pytest.mark.parametrize("field", ["no_model"])
def test_field_whose_policy_has_no_model_shows_readings_but_no_estimates(page, address, publish):
    scheduled = {"mean": 21.0, "std": 2.0, "ucb": 21.0, "reason": "scheduled"}
    publish("selected", decision(0, AT, "node-1") | scheduled)
    publish("posterior", posterior(0, AT, 27.35) | {"mean": [21.0], "std": [2.0]})
    page.open(address)
    page.wait_for_text("facts", "Reply27.35 °C")
    page.wait_for_text("sensor-box", "Estimatenone, because the policy has no model")
    page.wait_for_text("candidates", "The policy has no model")
    row = "return document.querySelector('#rows tr.selected').children[1].textContent"
    assert page.script(row) == "–"
    assert (
        page.script("return document.querySelectorAll('#plan-box .disc:not(.unknown)').length") == 0
    )
    page.wait_for_text("course-note", "Dots are readings.")
    for part in ("course-note", "course-legend", "legend", "course-box"):
        assert "estimate" not in page.text(part) and "Hot spot" not in page.text(part)
    page.script("document.querySelector('#plan .place').dispatchEvent(new Event('click'))")
    page.wait_for_text("course-legend", "node-1")
    wait_for(
        lambda: page.script(POINTED) and "chosen sensor: reading 27.35" in page.text("course-note")
    )
    assert "estimate" not in page.text("course-note")
    assert page.script("return document.querySelector('#course-legend :is(.band, .line)')") is None
    page.save_screenshots("no-model")


@pytest.mark.parametrize("field", ["small_values"])
def test_small_values_have_the_decimals_of_the_daemon(page, address, publish):
    small = {"mean": 1.2e-7, "std": 1e-8, "ucb": 1.4e-7, "unit": "Sv/h"}
    publish("selected", decision(0, AT, "node-1") | small)
    publish("posterior", posterior(0, AT, 1.234e-7) | {"std": [1e-8], "unit": "Sv/h"})
    page.open(address)
    page.wait_for_text("facts", "Reply0.0000001234 Sv/h")
    page.wait_for_text("sensor-box", "Estimate0.000000123 ± 0.000000010 Sv/h")


@pytest.mark.parametrize("field", ["small_values"])
def test_candidates_with_long_numbers_fit_on_a_very_narrow_screen(page, address, publish):
    """A page of 1280 px has 320 px after a zoom to 400 %."""
    small = {"mean": 1.2e-7, "std": 1e-8, "ucb": 1.4e-7, "width": 2.0, "unit": "Sv/h"}
    runner_up = {"runner_up": "node-2", "runner_up_ucb": 1.39e-7, "ineligible": {}}
    estimates = {
        "ending": None, "sensors": ["node-1", "node-2"], "mean": [1.2e-7, 1.19e-7],
        "std": [1e-10] * 2, "last": [1.2e-7] * 2, "age_s": [9.0] * 2, "unit": "Sv/h",
    }  # fmt: skip
    publish("selected", decision(9, AT, "node-1") | small | runner_up)
    publish("posterior", posterior(9, AT, 1.2e-7) | estimates)
    page.open(address)
    wait_for(lambda: page.script(CANDIDATES) == ["node-1", "node-2"])
    for width in (320, 361, 390):
        page.set_size(width)
        page.settle()
        assert page.script("return document.documentElement.scrollWidth") == width
        numbers = page.script(BOUNDS)
        assert [text for text, _ in numbers] == ["0.0000001400 Sv/h", "0.0000001390 Sv/h"]
        assert max(lines for _, lines in numbers) <= 2  # the number and its unit


CANDIDATES = """
return [...document.querySelectorAll("#candidates tbody th")].map(each => each.textContent)
"""

BOUNDS = """
return [...document.querySelectorAll("#candidates tbody td:last-child")].map(each => {
    const range = document.createRange();
    range.selectNodeContents(each);
    return [each.textContent, new Set([...range.getClientRects()].map(box => box.top)).size];
});
"""


OTHER_WORDS = [
    "Grenze: 22,0 °C",
    "next is node-3 with 22.0",
    "node-5 is backed off until interval 41: its last reading is 18 min old",
    "node-3 wartet bis zum Intervall 41",
]
WORDS = [
    "its bound is 22.0 °C",
    "next is node-2 with 21.5 °C",
    "node-3 is backed off until interval 41: its last reading is 18 min old",
    "1 other sensor cannot be activated now",
]


@pytest.mark.parametrize("factors", [WORDS, OTHER_WORDS, []], ids=["words", "other", "none"])
def test_candidates_are_the_sensors_that_could_be_selected(page, address, publish, factors):
    """Keys say which these are; the texts of the decision may change."""
    sensors = [f"node-{number}" for number in range(1, 6)]
    estimates = posterior(0, AT, 20.0) | {
        "ending": None, "sensors": sensors, "mean": [20.0, 19.5, 18.5, 22.0, 18.0],
        "std": [1.0] * 5, "last": [20.0] * 5, "age_s": [9.0] * 5,
    }  # fmt: skip
    keys = {"width": 2.0, "runner_up": "node-2", "runner_up_ucb": 21.5}
    compared = {"factors": factors, "ineligible": {"node-3": "backed-off"}} | keys
    publish("selected", decision(0, AT, "node-1") | compared)
    page.open(address)
    page.wait_for_text("candidates", "The estimates of this interval are unknown, and so are the")
    publish("posterior", estimates)
    page.wait_for_text("candidates", "Of the sensors that could be activated, the one with the")
    assert page.script(CANDIDATES) == ["node-1", "node-2", "node-5"]
    page.script("document.querySelector('#rows button[title=node-3]').click()")
    page.wait_for_text("sensor-box", "Not selected: it is unresponsive, and backed off.")
    page.script("document.querySelector('#rows button[title=node-4]').click()")
    page.wait_for_text("sensor-box", "it is one of the sensors that could not be activated")
    page.script("document.querySelector('#rows button[title=node-5]').click()")
    page.wait_for_text("sensor-box", "its bound is 20.00 °C, the bound of node-1 is 22.00 °C")
    page.save_screenshots("candidates")

    publish("selected", decision(1, AT, "node-1") | {"factors": factors})
    publish("posterior", estimates | {"interval": 1})
    page.wait_for_text("candidates", "no bounds of the same width were compared.")
    page.wait_for_text("sensor-box", "The decision compared no bounds of the same width")

    publish("selected", decision(2, AT, "node-1") | {"factors": factors, "in_turn": True})
    publish("posterior", estimates | {"interval": 2})
    page.wait_for_text("facts", "Reasonin turn")
    page.wait_for_text("sensor-box", "Not selected: the sensors are activated in turn, now node-1.")


LONG_ID = "0x00158d0001dc126a_wintergarten_nordseite_unter_dem_dach_links"
LONG_FIELD = "temperature_of_the_greenhouse_behind_the_old_town_hall_upstairs"


def test_long_ids_and_names_of_fields_fit_on_a_narrow_screen(page, peer, broker, shared, tmp_path):
    config = tmp_path / "long.toml"
    fields = [LONG_FIELD, f"{LONG_FIELD[1:]}2"]
    positions = {LONG_ID: (0, 0), "node-1": (9, 9)}
    tables = [field_text(each, f"long{k}", positions) for k, each in enumerate(fields)]
    config.write_text(CONFIG.format(instance=LONG_FIELD, port=broker.port) + "".join(tables))
    client, base = peer(broker.port, f"{BASE}/none"), f"edge_tvbo/{LONG_FIELD}"
    of_field = {
        "interval": 0, "selected": LONG_ID, "answered": 1, "missed": 0, "suspects": [LONG_ID],
        "refused": {}, "implausible": {LONG_ID: "85 °C; plausible: -40 to 60 °C"},
    }  # fmt: skip
    health = {"at": AT, "uptime_s": 9, "version": "0.2.0"}
    health["fields"] = dict.fromkeys(fields, of_field)
    alert = alert_over(AT) | {"active": True, "sensor": LONG_ID, "text": f"{LONG_ID} is too hot"}
    keys = {"factors": [f"next is {LONG_ID}"], "runner_up": "node-1", "runner_up_ucb": 21.0}
    estimates = posterior(0, AT, 20.0) | {"sensors": [LONG_ID]}
    client.publish(f"{base}/health", json.dumps(health), retain=True)
    for level, document in (
        ("selected", decision(0, AT, LONG_ID) | keys | {"width": 1.0}),
        ("posterior", estimates),
        ("alert", alert),
    ):
        client.publish(f"{base}/{LONG_FIELD}/{level}", json.dumps(document), retain=True)
    dashboard = DashboardProcess(tmp_path / "log", config)
    shared.callback(dashboard.stop)
    page.open(dashboard.address)
    page.wait_for_text("alert", "is too hot")
    page.wait_for_text("problems", LONG_ID)
    for width in (1280, 390):
        page.set_size(width)
        page.settle()
        assert layout_problems(page, width) == {}
        page.save_screenshot(f"long-names-{width}")


@pytest.mark.parametrize("field", ["hourly"])
def test_time_to_the_next_interval_is_that_of_its_first_decision(page, address, publish):
    """A command activates a further sensor within an interval."""
    begin, later = (
        (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")
        for minutes in (45, 0)
    )
    publish("selected", decision(0, begin, "node-1"))
    page.open(address)
    page.wait_for_text("facts", "Next in15 min")
    publish("selected", decision(0, later, "node-2") | {"earlier": ["node-1"]})
    page.wait_for_text("sentence", "node-2")
    assert "Next in15 min" in page.text("facts")


# --- functions of the page ------------------------------------------------------------------------


@pytest.fixture
def run(chromium, quiet):
    """Return a function that returns the value of an expression with a module of the page.

    The page stays open for the next test that calls functions.
    """
    if chromium.current_url != quiet.address:
        chromium.get(quiet.address)

    def run(module, expression):
        return chromium.execute_async_script(
            f"const done = arguments[0]; import('./{module}.js').then(m => done({expression}));"
        )

    return run


def test_time_of_another_day_has_its_date(run, set_time_zone):
    set_time_zone("UTC")
    live = '{ live: true, now: "2026-11-28T12:00:00Z" }'
    times = [f'"{day}T11:03:22Z"' for day in ("2026-11-28", "2026-11-24", "2025-11-24")]
    found = run("draw", f"[{', '.join(times)}].map(each => m.moment(each, {live}, true))")
    assert [each[:-8] for each in found] == ["", "24 Nov, ", "24 Nov 2025, "]
    replay = '{ live: false, now: "2026-11-24T12:00:00Z" }'
    assert run("draw", f"m.moment({times[1]}, {replay})") == "11:03"
    assert run("draw", f"m.moment({times[0]}, {replay})") == "28 Nov, 11:03"
    assert run("draw", f"m.moment('nonsense', {replay})") == "–"


def test_times_are_those_of_another_zone_after_a_journey(run, set_time_zone):
    """In January, both zones have the same time; in July, only Berlin has summer time."""
    january, july = (
        f'm.moment("2026-{month}-09T23:30:00Z", {{ live: true, now: "2026-11-28T12:00:00Z" }})'
        for month in ("01", "07")
    )
    set_time_zone("Europe/Berlin")
    assert run("draw", f"[{january}, {july}]") == ["10 Jan 2026, 00:30", "10 Jul, 01:30"]
    set_time_zone("Africa/Lagos")
    assert run("draw", f"[{january}, {july}]") == ["10 Jan 2026, 00:30", "10 Jul, 00:30"]


@pytest.mark.parametrize("mean, std", [(0.4, 0.3), (0.1, 0.8), (-0.3, 1.2)])
def test_quantiles_on_a_log_scale_are_those_of_the_model(run, mean, std):
    """The last two standard deviations reach below 0, where they are cut off."""
    field = SensorField(("a",), [[1.0]], 0.01, unit="W", center=10.0, scale=20.0, log1p_scale=20.0)
    shown = f"{{ log1p_scale: 20 }}, {field.to_unit(mean)}, {field.std_to_unit(mean, std)}"
    found = run("quantiles", f"[-1.6, 0, 1.6].map(z => m.quantile({shown}, z))")
    assert found == pytest.approx(field.to_unit(mean + np.array([-1.6, 0.0, 1.6]) * std))


def test_digits_and_colours_of_very_small_and_large_numbers(run):
    assert run("draw", "[0.25, 3, 1.2e-7, 1e21].map(m.digitsOf)") == [2, 0, 8, 0]
    for low, high in ((1e16, 1e16), (-1e16, -1e16), (1e16, 1e16 + 2)):
        assert "NaN" not in run("draw", f"new m.Scale({low}, {high}).colour({low})")


@pytest.mark.parametrize(
    ("module", "shorten"),
    [
        ("labels", "m.linesOf(name)"),
        ("timeline", "[m.Timeline.prototype.shortName.call({ left: 152, snapshot }, name)]"),
    ],
)
def test_shortened_name_contains_no_half_of_an_emoji(run, module, shorten):
    """A browser shows such a half as a replacement character."""
    names = [f"{'x' * count}{'🔥' * 40}" for count in range(4)]
    shorten_all = f"snapshot => {json.dumps(names)}.flatMap(name => {shorten})"
    texts = run(module, f"({shorten_all})({{ field: {{ name: id => id }} }})")
    assert all(each.endswith("🔥…") for each in texts), texts


DRAWN_WIDTHS = """(name => {
    const svg = document.querySelector("main").appendChild(
        document.createElementNS("http://www.w3.org/2000/svg", "svg"));
    document.querySelector("main").classList.remove("empty");
    const drawn = line => {
        const text = svg.appendChild(document.createElementNS(svg.namespaceURI, "text"));
        text.textContent = line;
        return text.getComputedTextLength();
    };
    return [ROOMS];
})"""


@pytest.mark.parametrize(
    "name", ["W" * 40, "HEIZUNGSKELLER WESTWAND MITTE MUM", "щ" * 30, "\uff37" * 30]
)
def test_names_with_wide_letters_are_shortened_to_their_room(run, name):
    """Otherwise, they cover other names, or are cut at the edge of the picture."""
    label = """...m.linesOf(name).map(line => {
        const space = new m.LabelSpace(999, 500, []);
        space.place([500, 250, 10], [line]);
        const [left, , right] = space.taken[0];
        return [drawn(line), Math.min(right - left, 160)];
    })"""
    timeline = """[drawn(m.Timeline.prototype.shortName.call(
        { left: 152, snapshot: { field: { name: id => id } } }, name)), 144]"""
    for module, rooms in (("labels", label), ("timeline", timeline)):
        script = DRAWN_WIDTHS.replace("ROOMS", rooms)
        for width, room in run(module, f"{script}({json.dumps(name)})"):
            assert 60 < width <= room


MEASUREMENTS_OF_SECOND_DRAWING = """(() => {
    const [box, legend, note] = ["div", "div", "p"].map(tag => document.createElement(tag));
    const field = { id: "f", sensors: ["kitchen", "hall"], positions: [[0, 0], [9, 9]], unit: "",
                    has_model: true, name: id => id };
    const sensors = field.sensors.map(id => ({ id, name: id, mean: 20, std: 1 }));
    const scale = { low: 0, high: 1, digits: 0, colour: () => "red" };
    const plan = new m.FloorPlan(box, legend, note, () => {});
    const draw = () => plan.draw({ field, sensors, sign: 1, extreme: "" }, { scale, maxStd: 1, digits: 1 });
    draw();
    const { prototype } = CanvasRenderingContext2D, { measureText } = prototype;
    let count = 0;
    prototype.measureText = function(text) { count += 1; return measureText.call(this, text); };
    draw();
    prototype.measureText = measureText;
    return [count, plan.labels.textContent];
})()"""  # noqa: E501 - lines of a page


def test_names_on_the_map_are_measured_once(run):
    """A page is drawn each second, and a long name is measured many times to shorten it."""
    assert run("floor_plan", MEASUREMENTS_OF_SECOND_DRAWING) == [0, "kitchenhall"]


def test_names_from_right_to_left_do_not_reverse_the_numbers_that_follow(run):
    text = "סלון גדול: 23.4 ± 0.6 °C; next is غرفة with 22"
    isolated = (
        "\u2068סלון גדול\u2069: 23.4\u00a0±\u00a00.6\u00a0°C; next is \u2068غرفة\u2069 with 22"
    )
    assert run("draw", f"m.keepTogether({json.dumps(text)}, '°C')") == isolated
    assert run("draw", "m.isolate('Attic ± 3')") == "Attic ± 3"
    for name in ("סלון-צפון", 'מחו"ל', "צ'ילר", "חדר 2א"):
        assert run("draw", f"m.isolate({json.dumps(name)})") == f"\u2068{name}\u2069"
    assert run("draw", "m.isolateName('חדר 2')") == "\u2068חדר 2\u2069"  # as a whole
    assert run("draw", "m.isolateName('Room 2')") == "Room 2"


@pytest.mark.parametrize(
    "since, spans",
    [(12, [[8, 9], [12, 14]]), (8, [[8, 9]])],  # the second document is older than the notice
)
def test_active_alert_whose_begin_was_missed_is_drawn(run, since, spans):
    marks = '[{ event: "alert", at: 8 }, { event: "alert-over", at: 9 }]'
    alert = f'{{ active: true, since: "1970-01-01T00:00:00.{since:03}Z" }}'
    assert run("marks", f"m.alertSpans({marks}, 6, 14, {{ alert: {alert} }})") == spans


def test_period_of_a_hot_spot_ends_where_its_points_end(run):
    points = [{"at": at, "hotspot": "b" if at == 2 else "a"} for at in (0, 1, 2, 30, 31)]
    periods = run("chart", f"m.hotspotPeriods({json.dumps(points)}, 32, 3)")
    found = [(each["from"], each["to"], each["hotspot"]) for each in periods]
    assert found == [(0, 2, "a"), (2, 3, "b"), (30, 32, "a")]


def test_battery_is_not_low_in_a_replay_after_the_sensor_was_selected(run):
    frames = [
        {
            "decision": {**decision(hour, f"2026-11-24T0{hour}:00:00Z", sensor), "earlier": []},
            "readings": {},
        }
        for hour, sensor in ((5, "a"), (6, "b"))
    ]
    selections = [
        {"sensor": each["decision"]["sensor"], "at": each["decision"]["at"], "earlier": []}
        for each in frames
    ]
    low = {"event": "battery-low", "sensor": "b", "text": "t", "at": "2026-11-12T08:00:00Z"}
    day = {"frames": frames, "selections": selections, "notices": [], "before": [low]}
    field = {"sensors": ["a", "b"], "names": {}, "unit": "", "has_model": True}
    shown = "m.recordedSnapshot({ ...field, name: id => id }, day, index)"
    values = [
        run("snapshot", f"((field, day, index) => {shown}.sensor('b').lowBattery)"
            f"({json.dumps(field)}, {json.dumps(day)}, {index})")
        for index in (0, 1)
    ]  # fmt: skip
    assert values == [True, False]


SNAPSHOT = """(() => {
    const field = { sensors: ["a", "b"], names: {}, unit: "", decimals: 2, objective: "max", has_model: HAS,
                    name: id => id, plainName: id => id };
    const frame = { decision: DECISION, mean: [3, 2], std: [1, 1], hotspot: "a", readings: {} };
    const notice = { event: NOTICE, sensor: "b", text: "t", at: "2026-11-24T00:00:00Z" };
    const day = { frames: [frame], selections: [], notices: [], before: [notice] };
    const snapshot = m.recordedSnapshot(field, day, 0);
    return [snapshot.hotspot, m.reasonText(snapshot), m.couldBeSelected(snapshot, snapshot.sensor("b")),
            m.selectionText(snapshot, snapshot.sensor("b"), 2)];
})()"""  # noqa: E501 - lines of a page


def recorded_texts(run, *, has_model=True, notice="sensor-lost", **changes):
    """Return what a replay says after a notice about sensor b.

    Returns hot spot, reason, whether sensor b could be selected, and why it was not selected.
    """
    document = {**decision(1, "2026-11-24T05:00:00Z", "a"), "reason": "exploit", "ucb": 5.0}
    document |= {"mean": 3.0, "std": 1.0, "earlier": [], "ineligible": {}}
    script = SNAPSHOT.replace("HAS", json.dumps(has_model)).replace("NOTICE", json.dumps(notice))
    return run("snapshot", script.replace("DECISION", json.dumps(document | changes)))


def test_replay_of_a_policy_without_a_model_has_neither_hot_spot_nor_estimates(run):
    backed_off = {"b": "backed-off"}
    hotspot, reason, *_, text = recorded_texts(run, has_model=False, ineligible=backed_off)
    assert (hotspot, reason) == (None, "no model")
    assert text == "Not selected: it is unresponsive, and backed off."


@pytest.mark.parametrize("runner_up", ["b", "c"])
def test_sensor_that_is_unresponsive_now_could_be_selected_by_an_earlier_decision(run, runner_up):
    """It became unresponsive after the decision, or its back-off had ended, to try it again."""
    found = recorded_texts(run, width=2.0, runner_up=runner_up, runner_up_ucb=4.0)
    assert found[:3] == ["a", "highest estimate", True]
    assert found[3] == "Not selected: its bound is 4.00, the bound of a is 5.00."


@pytest.mark.parametrize("reason", Ineligibility)
def test_every_reason_why_a_sensor_could_not_be_selected_has_a_text(run, reason):
    *_, could_be_selected, text = recorded_texts(run, ineligible={"b": reason})
    assert not could_be_selected
    assert text.startswith("Not selected: ") and "could not" not in text


UNNAMED = "it is probably one of the sensors that could not be activated"
MANY = {f"s{number}": "backed-off" for number in range(MAX_INELIGIBLE)}


@pytest.mark.parametrize(
    ("notice", "earlier", "text"),
    [
        ("sensor-ignored", [], "it is ignored by command"),
        ("battery-low", [], "its battery is low"),
        ("sensor-faulty", [], UNNAMED),
        ("sensor-lost", [], UNNAMED),
        ("sensor-back", ["b"], "it was already activated in this interval"),
    ],
)
def test_sensor_is_no_candidate_if_its_state_says_so_and_the_decision_names_only_some(
    run, notice, earlier, text
):
    keys = {"width": 2.0, "runner_up": "c", "runner_up_ucb": 4.0, "earlier": earlier}
    found = recorded_texts(run, notice=notice, ineligible=MANY, **keys)
    assert found[2:] == [False, f"Not selected: {text}."]
    found = recorded_texts(run, notice="sensor-back", ineligible=MANY, **keys | {"earlier": []})
    assert found[2:] == [True, "Not selected: its bound is 4.00, the bound of a is 5.00."]


def test_runner_up_is_a_candidate_even_if_it_is_ignored_now(run):
    keys = {"width": 2.0, "runner_up": "b", "runner_up_ucb": 4.0, "ineligible": MANY}
    found = recorded_texts(run, notice="sensor-ignored", **keys)
    assert found[2:] == [True, "Not selected: its bound is 4.00, the bound of a is 5.00."]


@pytest.mark.parametrize(
    ("notice", "earlier", "text"),
    [
        ("sensor-ignored", [], "it is ignored by command"),
        ("battery-low", [], "its battery is low"),
        ("sensor-lost", ["b"], "it was already activated in this interval"),
        ("sensor-lost", [], "no sensor replies, so the sensors are activated in turn, now a"),
    ],
)
def test_sensor_that_cannot_be_activated_is_not_activated_in_turn(run, notice, earlier, text):
    *_, found = recorded_texts(run, notice=notice, reason="probe", earlier=earlier)
    assert found == f"Not selected: {text}."


def test_bounds_of_width_0_are_known(run):
    """Then, each bound is the estimate, as with `beta = { c1 = 0.8, c2 = 0.4 }` at the start."""
    found = recorded_texts(run, ucb=3.0, width=0.0, runner_up="b", runner_up_ucb=2.0)
    assert found[2:] == [True, "Not selected: its bound is 2.00, the bound of a is 3.00."]


LIVE = """(() => {
    const field = { sensors: ["a", "b", "c"], names: {}, unit: "", decimals: 2, objective: "max",
                    has_model: true, name: id => id, plainName: id => id };
    const data = { selections: [], notices: [], hotspot: null, alert: null, name: "heat",
                   decision: DECISION, posterior: POSTERIOR, prediction: PREDICTION };
    return m.liveSnapshot(field, data, null, 0).sensors.map(each => each.predicted.mean);
})()"""


def test_prediction_of_each_sensor_is_its_own_after_a_sensor_was_removed(run):
    """The daemon was reloaded within the interval, so its two posteriors differ in the sensors."""
    before = posterior(1, AT, 20.0) | {"sensors": ["a", "b", "c"], "ending": None}
    before |= {column: [20.0, 30.0, 25.0] for column in ("mean", "std", "last", "age_s")}
    after = posterior(1, AT, 20.0) | {"sensors": ["a", "c"]}
    after |= {column: [20.5, 25.5] for column in ("mean", "std", "last", "age_s")}
    script = LIVE.replace("DECISION", json.dumps(decision(1, AT, "a") | {"ineligible": {}}))
    script = script.replace("POSTERIOR", json.dumps(after))
    script = script.replace("PREDICTION", json.dumps(before))
    assert run("snapshot", script) == [20.0, 30.0, 25.0]


BEYOND = """((objective, has_model, alert) => {
    const field = { sensors: ["a", "b", "c"], names: {}, unit: "", decimals: 2, threshold: 22, objective,
                    has_model, name: id => id, plainName: id => id };
    const data = { selections: [], notices: [], hotspot: null, posterior: null, prediction: null,
                   decision: null, name: "heat", alert };
    return m.liveSnapshot(field, data, null, 0).sensors.filter(each => each.beyond).map(each => each.id);
})"""  # noqa: E501 - lines of a page


@pytest.mark.parametrize("has_model", [True, False], ids=["model", "no-model"])
@pytest.mark.parametrize(
    ("objective", "value", "readings", "beyond"),
    [
        ("max", 18.1, {"b": 22.6}, "b"),
        ("min", 25.9, {"b": 21.4}, "b"),
        ("max", 22.1, {"b": 22.6}, "ab"),
        ("min", 21.9, {"b": 21.4}, "ab"),
        ("max", 22.1, {}, "a"),
        ("max", 21.9, {}, ""),
        ("max", 21.9, {"b": 21.8, "c": 22.6}, "c"),
        ("min", 22.1, {"b": 22.2, "c": 21.4}, "c"),
    ],
)
def test_sensors_beyond_the_threshold_are_those_whose_values_are(
    run, has_model, objective, value, readings, beyond
):
    """An alert lasts until its release level. Its hot spot, always named, may not cause it."""
    alert = {"active": True, "sensor": "a", "value": value, "threshold": 22.0, "readings": readings}
    arguments = ", ".join(map(json.dumps, (objective, has_model, alert)))
    expected = [each for each in beyond if has_model or each != "a"]  # "a" has only an estimate
    assert run("snapshot", f"{BEYOND}({arguments})") == expected


OF_CONTROLLER = """((field, decision, mean, std) => {
    Object.assign(field, { name: id => id, plainName: id => id });
    const frame = { decision, mean, std, hotspot: null, readings: {} };
    const day = { frames: [frame], selections: [], notices: [], before: [] };
    const snapshot = m.recordedSnapshot(field, day, 0);
    return [snapshot.nextId, snapshot.sensors.map(each => each.bound),
            m.selectionText(snapshot, snapshot.sensor(snapshot.nextId), 2)];
})"""


@pytest.mark.parametrize(
    "scale",
    [{"objective": "max"}, {"objective": "min"}, {"objective": "max", "log1p_scale": 10.0}],
    ids=["max", "min", "log scale"],
)
@pytest.mark.parametrize(
    ("name", "settings", "width"),
    [
        ("gp-ucb", {"beta": LogBeta(0.8, 0.4)}, 0.0),
        ("kalman-ucb", {"width": 0.0}, 0.0),
        ("gp-ucb", {"beta": 4.0}, 2.0),
    ],
    ids=["LogBeta", "kalman-ucb", "beta 4"],
)
def test_page_shows_the_bounds_that_a_controller_compared(run, name, settings, width, scale):
    sensors = ("a", "b", "c", "d")
    field = SensorField(sensors, np.eye(4), 0.01, unit="", center=20.0, scale=10.0, **scale)
    controller = Controller(make_policy(name, field, **settings), controller_settings())
    for number, sensor in enumerate(sensors):
        controller.handle(Reading(sensor, 20.0 + number, float(number), float(number)))
    (selected,) = (
        each.decision
        for each in controller.handle(IntervalElapsed(10.0))
        if isinstance(each, PublishState)
    )
    posterior = list(zip(*controller.policy.posterior(), strict=True))
    shown = [
        {"sensors": sensors, "names": {}, "unit": "", "decimals": 2, "has_model": True, **scale},
        msgspec.to_builtins(selected),
        [field.to_unit(mean) for mean, _ in posterior],
        [field.std_to_unit(mean, std) for mean, std in posterior],
    ]
    runner_up, bounds, text = run(
        "snapshot", f"{OF_CONTROLLER}({', '.join(map(json.dumps, shown))})"
    )
    assert (selected.width, runner_up) == (width, "c" if scale["objective"] == "max" else "b")
    assert bounds == pytest.approx([field.to_unit(m + width * s) for m, s in posterior], abs=0.06)
    assert text.startswith("Not selected: its bound is ")
