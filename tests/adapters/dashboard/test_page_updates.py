"""The dashboard's page after single messages, which the tests publish instead of a daemon."""

import json
import re

import pytest
from support.dashboard import DashboardProcess, wait_for

pytestmark = pytest.mark.timeout(240)

BASE = "edge_tvbo/quiet"
CELLS = """
return [...document.querySelectorAll("#timeline-box svg title")].map(each => each.textContent)
"""


@pytest.fixture(scope="module")
def quiet(laboratory, tmp_path_factory, shared):
    """Return a dashboard of an instance without a daemon."""
    directory = tmp_path_factory.mktemp("quiet")
    config = directory / "quiet.toml"
    text = laboratory.config.read_text().replace('instance = "lab"', 'instance = "quiet"')
    config.write_text(re.sub(r"\[state\](\n.+)*", "", text))
    dashboard = DashboardProcess(directory / "log", config)
    shared.callback(dashboard.stop)
    return dashboard


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
