"""Controllers built from a configuration: the time zone of the quiet hours of an alert."""

from datetime import UTC, datetime

import pytest

from edge_tvbo.config.loader import load
from edge_tvbo.daemon.build_controllers import controllers
from edge_tvbo.messages.commands import Notify
from edge_tvbo.messages.events import IntervalElapsed, Reading

CONFIG = """\
[fields.heat]
interval = "10min"
kernel = { name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20.0 }
policy = { name = "gp-ucb" }
sensors = ["a", "b"]
reading = { topic = "home/{sensor}/temperature" }
alert = { threshold = 24.0, quiet = "22:00-23:00", timezone = "" }
"""
BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"  # as POSIX writes it, for a machine without a database
HALF_PAST_TEN = (  # in the evening, in Berlin
    datetime(2026, 7, 1, 20, 30, tzinfo=UTC),
    datetime(2026, 12, 1, 21, 30, tzinfo=UTC),
)


@pytest.mark.parametrize("time", HALF_PAST_TEN, ids=["summer", "winter"])
@pytest.mark.parametrize(("machine", "setting"), [(BERLIN, ""), ("MST7", "Europe/Berlin")])
def test_quiet_hours_are_in_the_configured_zone_or_that_of_this_machine(
    machine, setting, time, machine_zone, tmp_path
):
    machine_zone(machine)
    path = tmp_path / "lab.toml"
    after = f', timezone = "{setting}"' if setting else ""
    path.write_text(CONFIG.replace(', timezone = ""', after))
    controller = controllers(load(path))["heat"]
    at = time.timestamp()
    controller.handle(IntervalElapsed(at - 1.0))

    events = [
        [each.notice.event for each in controller.handle(reading) if isinstance(each, Notify)]
        for reading in (Reading("a", 25.0, late, late) for late in (at, at + 1860.0))
    ]

    assert events == [[], ["alert"]]
