"""A field with another unit: no number that was measured in the former unit is used or shown."""

import numpy as np
import pytest
from support.controllers import INTERVAL, controller_settings

from edge_tvbo.config.alert_settings import AlertSettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.restoration import restore_controller
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.commands import Activate, Notify
from edge_tvbo.messages.events import (
    DocumentsCleared,
    IgnoreRequested,
    IntervalElapsed,
    Reading,
    ThresholdRequested,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

NAMES = ("a", "b", "c", "d")


def controller_of(unit, policy="tv-gp-ucb", center=20.0, threshold=22.0):
    field = SensorField(NAMES, np.eye(4) + 0.5, 0.01, unit=unit, center=center, scale=2.0)
    alert = AlertSettings(threshold=threshold)
    limits = controller_settings(max_backoff=64, alert=alert)
    return Controller(make_policy(policy, field, seed=1), limits)


def live(controller, intervals, first):
    """Run intervals in which "b" is silent, and "c" is stuck; return the events of all notices."""
    events = []
    for n in range(intervals):
        at = n * INTERVAL
        commands = controller.handle(IntervalElapsed(at))
        activated = [each.sensor for each in commands if isinstance(each, Activate)]
        for arm, sensor in enumerate(NAMES):
            if sensor == "b" or (sensor not in activated and (n + arm) % 2):
                continue
            value = first + 1.5 if sensor == "c" else first + arm + 0.1 * (n % 7)
            value = 900.0 if (sensor, n % 2) == ("d", 0) else value
            commands += controller.handle(Reading(sensor, value, at + 1.0 + arm, at + 1.0 + arm))
        events += [each.notice.event for each in commands if isinstance(each, Notify)]
    return events


def changed(before, unit, **others):
    """Return a controller with another unit, which continues from the snapshot of `before`."""
    controller = controller_of(unit, **others)
    restore_controller("state", "attic", controller, before.snapshot())
    return controller


@pytest.mark.parametrize("center", [20.0, 68.0])
@pytest.mark.parametrize("policy", ["tv-gp-ucb", "auto"])
def test_a_changed_unit_starts_the_field_without_readings(policy, center, caplog):
    before = controller_of("°C", policy)
    events = live(before, 40, 20.0)
    assert {"sensor-lost", "sensor-faulty", "sensor-implausible", "alert"} <= set(events)
    before.handle(IgnoreRequested("a", True, 40 * INTERVAL))
    after = changed(before, "°F", policy=policy, center=center, threshold=center + 2.0)
    assert after.policy.observations == 0
    assert (after.hotspot(0.0), after.last_readings()) == (None, {})
    health = after.health()
    assert (health.faulty, health.implausible) == ({}, {})
    assert caplog.messages == [
        "state: the field attic starts without readings: The readings in the snapshot are in °C,"
        " and the unit of the field is °F now."
    ]


def test_a_changed_unit_keeps_what_does_not_depend_on_it():
    before = controller_of("°C")
    live(before, 40, 20.0)
    before.handle(IgnoreRequested("a", True, 40 * INTERVAL))
    after, known = changed(before, "°F").health(), before.health()
    assert (after.suspects, after.ignored) == (["b"], ["a"]) == (known.suspects, known.ignored)
    assert (after.answered, after.missed) == (known.answered, known.missed)


def test_an_alert_in_the_former_unit_ends_with_the_first_reading_below_the_new_threshold():
    before = controller_of("°C")
    live(before, 4, 20.0)
    before.handle(ThresholdRequested(21.0, 4 * INTERVAL))
    assert before.health().alert
    after = changed(before, "°F", center=68.0, threshold=72.0)
    commands = after.handle(Reading("a", 67.0, 5 * INTERVAL, 5 * INTERVAL))
    assert [each.notice.event for each in commands if isinstance(each, Notify)] == ["alert-over"]
    alert = after.alert(5 * INTERVAL)
    assert (alert.active, alert.threshold, alert.readings) == (False, 72.0, {})


def test_after_a_change_of_the_unit_a_reading_is_compared_with_the_time_of_the_last_measurement():
    """Both readings arrive 30 s after they were measured, and the second one arrives twice."""
    before = controller_of("°C")
    live(before, 4, 20.0)
    after = changed(before, "°F", center=68.0, threshold=72.0)
    for at, value in ((500.0, 67.0), (520.0, 67.5), (520.0, 67.5)):
        after.handle(Reading("a", value, at, at + 30.0))
    new = after.health().refused.get("duplicate", 0) - before.health().refused.get("duplicate", 0)
    assert (after.policy.observations, new) == (2, 1)
    assert "late" not in after.health().refused


@pytest.mark.parametrize(
    ("units", "observations"),
    [
        (["", "°C"], 1),
        (["°C", ""], 1),
        (["C", "°C"], 1),
        (["\N{MICRO SIGN}g/m³", "\N{GREEK SMALL LETTER MU}g/m3"], 1),
        (["°C", "", "°F"], 0),
        (["°F", "°C"], 0),
        (["mW", "MW"], 0),
    ],
    ids=lambda each: " then ".join(each) if isinstance(each, list) else None,
)
def test_only_another_unit_discards_the_readings_and_not_another_name_of_it(units, observations):
    controller = controller_of(units[0])
    controller.handle(Reading("a", 21.0, 1.0, 1.0))
    for unit in units[1:]:
        controller = changed(controller, unit)
    assert controller.policy.observations == observations


def test_a_former_unit_is_stored_until_the_documents_in_it_are_cleared():
    after = changed(controller_of("°C"), "°F")
    again = changed(after, "°F")
    assert (after.former_unit, again.former_unit) == ("°C", "°C")
    assert changed(after, "°F", center=68.0).former_unit == "°C"
    again.handle(DocumentsCleared())
    assert (again.former_unit, changed(again, "°F").former_unit) == ("", "")


def test_a_snapshot_in_another_unit_changes_nothing():
    before, after = controller_of("°C"), controller_of("°F")
    live(before, 4, 20.0)
    fresh = after.snapshot()
    with pytest.raises(SnapshotError, match="in °C"):
        after.restore(before.snapshot())
    assert after.snapshot() == fresh
