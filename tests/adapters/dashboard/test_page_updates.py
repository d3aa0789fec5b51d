"""The dashboard's page after single messages, which the tests publish instead of a daemon."""

import json
import re
from urllib.request import urlopen

import numpy as np
import pytest
from support.dashboard import DashboardProcess, wait_for

from edge_tvbo.models.field import SensorField

pytestmark = pytest.mark.timeout(240)

BASE = "edge_tvbo/quiet"
CELLS = """
return [...document.querySelectorAll("#timeline-box svg title")].map(each => each.textContent)
"""


@pytest.fixture
def quiet(laboratory, tmp_path):
    """Return a dashboard of an instance without a daemon."""
    config = tmp_path / "quiet.toml"
    text = laboratory.config.read_text().replace('instance = "lab"', 'instance = "quiet"')
    config.write_text(re.sub(r"\[state\](\n.+)*", "", text))
    dashboard = DashboardProcess(tmp_path / "log", config)
    wait_for(lambda: is_connected(dashboard))
    yield dashboard
    dashboard.stop()


def is_connected(dashboard):
    """Return whether the broker has granted the subscriptions of a dashboard."""
    with urlopen(f"{dashboard.address}events") as stream:
        view = next(line for line in stream if line.startswith(b"data:"))
    return json.loads(view.removeprefix(b"data:"))["connections"]["broker"]["online"]


@pytest.fixture
def publish(peer, laboratory):
    """Return a function that publishes a document of the instance without a daemon."""
    client = peer(laboratory.broker.port, f"{BASE}/none")

    def publish(level, document):
        client.publish(f"{BASE}/temperature/{level}", json.dumps(document))

    return publish


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


def test_intervals_of_a_restarted_daemon_do_not_replace_those_before(page, quiet, publish):
    """A daemon without `[state]` counts its intervals from 0 after each start."""

    def publish_intervals(hour, count, value):
        for interval in range(count):
            at = f"2026-11-24T{hour:02}:{interval:02}:00Z"
            publish("selected", decision(interval, at, "node-1"))
            publish("posterior", posterior(interval, at, value))

    publish_intervals(8, 3, 21.0)
    page.open(quiet.address)
    wait_for(lambda: len(page.script(CELLS)) == 3)
    publish_intervals(9, 2, 27.0)
    page.wait_for_text("facts", lambda text: "Interval1R" in text and "Reply27 °C" in text)
    cells = page.script(CELLS)
    assert [each.rpartition(" ")[2] for each in cells] == ["21"] * 3 + ["27"] * 2
    page.save_screenshots("restarted-daemon")


def test_page_says_which_setting_publishes_the_estimates_of_a_large_field(
    page, laboratory, publish, tmp_path
):
    config = tmp_path / "quiet.toml"
    text = laboratory.config.read_text().replace('instance = "lab"', 'instance = "quiet"')
    text = re.sub(r"\[state\](\n.+)*", "", text)
    config.write_text(re.sub(r"publish_posterior = \d+", "publish_posterior = 1", text))
    dashboard = DashboardProcess(tmp_path / "log", config)
    try:
        wait_for(lambda: is_connected(dashboard))
        publish("selected", decision(0, "2026-11-24T08:00:00Z", "node-1") | {"recommended": True})
        page.open(dashboard.address)

        page.wait_for_text("candidates", "not published. To see them, set publish_posterior = ")
        page.wait_for_text("facts", "Readingnot published")
        page.wait_for_text("sensor-box", "Last readingnot published")
    finally:
        dashboard.stop()


def test_reply_that_began_the_next_interval_appears_in_the_timeline(page, quiet, publish):
    """Then the decision of the new interval arrives before the posterior of the old one."""
    late_reply = publish_three_intervals(publish)
    page.open(quiet.address)
    wait_for(lambda: len(page.script(CELLS)) == 3)

    publish("posterior", late_reply)

    page.wait_for_text("timeline-note", "2 with a reply")
    assert [each.endswith(" 27") for each in page.script(CELLS)] == [True, True, False]


CHART_READINGS = """
return [...document.querySelectorAll("#course-box .dots")]
    .map(each => each.getAttribute("d").split("M").length - 1).reduce((a, b) => a + b, 0)
"""


def test_reply_that_began_the_next_interval_appears_in_the_chart(page, quiet, publish):
    late_reply = publish_three_intervals(publish)
    page.open(quiet.address)
    wait_for(lambda: page.script(CHART_READINGS) == 1)

    publish("posterior", late_reply)

    wait_for(lambda: page.script(CHART_READINGS) == 2)


ALERT_SPANS = """
return [...document.querySelectorAll("#course-box .alert-span")].map(each => [
    +each.getAttribute("x"), +each.getAttribute("x") + +each.getAttribute("width")
])
"""


def test_an_alert_whose_end_was_missed_ends_in_the_chart(page, quiet, publish):
    """Notices are not retained; the retained document of the alert says since when it is over."""
    for interval in range(12):
        at = f"2026-11-24T10:{5 * interval:02}:00Z"
        publish("selected", decision(interval, at, "node-1"))
        publish("posterior", posterior(interval, at, 21.0))
    publish(
        "event", {"event": "alert", "at": "2026-11-24T10:10:00Z", "text": "t", "sensor": "node-1"}
    )
    page.open(quiet.address)
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


DATES = """
return [...document.querySelectorAll("#course-box svg > text")].map(each => each.textContent)
    .filter(each => / (Oct|Nov)$/.test(each))
"""


def test_dates_of_the_chart_are_those_of_the_clock_after_summer_time(page, quiet, publish):
    zone = {"timezoneId": "Europe/Berlin"}
    page.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", zone)
    try:
        for interval, day in enumerate([*range(22, 32), 1, 2]):
            at = f"2026-{10 if day > 20 else 11}-{day:02}T08:00:00Z"
            publish("selected", decision(interval, at, "node-1"))
            publish("posterior", posterior(interval, at, 21.0))
        page.open(quiet.address)
        wait_for(lambda: "1 Nov" in page.script(DATES))
        dates = page.script(DATES)
        assert dates[: dates.index("1 Nov") + 1] == [f"{day} Oct" for day in range(23, 32)] + [
            "1 Nov"
        ]
    finally:
        page.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})


def test_page_that_stays_open_shows_the_sensors_of_a_changed_configuration(
    page, quiet, publish, tmp_path
):
    """The page itself says to restart the dashboard; a page on a wall is never reloaded by hand."""
    publish("selected", decision(0, "2026-11-24T08:00:00Z", "node-1"))
    page.open(quiet.address)
    quiet.stop()
    config = tmp_path / "quiet.toml"
    config.write_text(
        config.read_text()
        .replace('sensors = ["node-1",', 'sensors = ["node-1", "attic",')
        .replace("[fields.temperature.positions]", "[fields.temperature.positions]\nattic = [1, 1]")
    )
    again = DashboardProcess(tmp_path / "log2", config, port=quiet.port)
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


def test_sensors_activated_earlier_in_an_interval_are_counted(page, quiet, publish):
    """As with `per_interval = 2`: the second decision replaces the first one of the interval."""
    for interval in range(2):
        at = f"2026-11-24T08:0{interval}:00Z"
        publish("selected", decision(interval, at, "node-1"))
        publish("selected", decision(interval, at, "node-2") | {"earlier": ["node-1"]})
    page.open(quiet.address)
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


def test_replay_shows_the_last_readings_of_sensors_that_were_not_selected(page, quiet, publish):
    """As in the mode advise, in which sensors report on their own."""
    at = "2026-11-24T08:00:00Z"
    publish("selected", decision(0, at, "node-1"))
    both = {"sensors": ["node-1", "node-2"]} | {
        column: [21.0, 25.0] for column in ("mean", "std", "last")
    }
    publish("posterior", posterior(0, at, 21.0) | both | {"age_s": [0.0, 0.0]})
    page.open(quiet.address)
    page.wait_for_text("facts", "Reply21")
    page.click("replay")
    page.wait_for_text("when", "interval 0")
    page.script("document.querySelector('#rows button[title=node-2]').click()")
    page.wait_for_text("sensor-box", lambda text: "Last reading25" in text)


@pytest.mark.parametrize("mean, std", [(0.4, 0.3), (0.1, 0.8), (-0.3, 1.2)])
def test_quantiles_on_a_log_scale_are_those_of_the_model(page, quiet, publish, mean, std):
    """The last two standard deviations reach below 0, where they are cut off."""
    field = SensorField(("a",), [[1.0]], 0.01, unit="W", center=10.0, scale=20.0, log1p_scale=20.0)
    publish("selected", decision(0, "2026-11-24T08:00:00Z", "node-1"))
    page.open(quiet.address)
    found = page.driver.execute_async_script(
        """
        const [field, mean, std, widths, done] = arguments;
        import("./quantiles.js").then(({ quantile, widthOf }) => {
            const found = widths.map(z => quantile(field, mean, std, z));
            done([...found, widthOf(field, mean, std, found.at(-1))]);
        });
        """,
        {"log1p_scale": 20.0}, field.to_unit(mean), field.std_to_unit(mean, std), [-1.6, 0, 1.6],
    )  # fmt: skip
    quantiles = field.to_unit(mean + np.array([-1.6, 0.0, 1.6]) * std)
    assert found == pytest.approx([*quantiles, 1.6])


AXIS = """
return [...document.querySelectorAll("#course-box svg > text[text-anchor=end]")]
    .map(each => Number(each.textContent.replace("−", "-").replace("°C", "")))
    .filter(each => !Number.isNaN(each))
"""


def test_band_of_a_field_on_a_log_scale_has_no_negative_values(page, quiet, publish, tmp_path):
    config = tmp_path / "quiet.toml"
    config.write_text(config.read_text().replace('unit = "°C"', 'unit = "°C"\ntransform = "log1p"'))
    quiet.stop()
    again = DashboardProcess(tmp_path / "log2", config)
    try:
        wait_for(lambda: is_connected(again))
        at = "2026-11-24T08:00:00Z"
        publish("selected", decision(0, at, "node-1"))
        publish(
            "hotspot",
            {"at": at, "sensor": "node-1", "value": 2.0, "std": 9.0, "unit": "°C", "age_s": 1},
        )
        publish("posterior", posterior(0, at, 2.0) | {"std": [9.0]})
        page.open(again.address)
        wait_for(lambda: page.script(AXIS))
        assert max(page.script(AXIS)) > 9.0 and min(page.script(AXIS)) >= 0.0
    finally:
        again.stop()


def test_daemon_whose_reports_are_missing_does_not_look_online(page, quiet, peer, laboratory):
    """As after a power failure: mosquitto stores the status `online`, and no daemon starts."""
    client = peer(laboratory.broker.port, f"{BASE}/none")
    health = {"at": "2026-11-24T08:00:00Z", "uptime_s": 9, "version": "0.2.0", "fields": {}}
    client.publish(f"{BASE}/status", "online")
    client.publish(f"{BASE}/health", json.dumps(health))
    page.driver.get(quiet.address)
    page.wait_for_text("daemon", "Daemon not responding")
    page.wait_for_text("alarm", "no report since")

    client.publish(f"{BASE}/health", json.dumps(health | {"at": "2999-11-24T08:00:00Z"}))
    page.wait_for_text("daemon", "Daemon online")
    assert page.script("return document.getElementById('alarm').hidden")
