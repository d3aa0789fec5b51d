"""Implausible readings: the sensor, the value and the range are named in notices and health."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import controller_settings

from edge_tvbo.control.controller import Controller
from edge_tvbo.control.implausible_readings import ImplausibleReadings
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.commands import Notify, Reject
from edge_tvbo.messages.events import (
    DowntimeElapsed,
    IgnoreRequested,
    IntervalElapsed,
    Reading,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

NAMES = ("a", "b", "c")
RANGE = (-40.0, 60.0)


class NamedSettings(type(controller_settings()), frozen=True, kw_only=True):
    """Settings of a field whose sensor b has a name."""

    @property
    def sensor_names(self):
        return {"b": "Attic"}


def controller_of(log1p_scale=None, **changes):
    field = SensorField(
        NAMES, np.eye(3) + 0.5, 0.01, unit="°C", center=20.0, scale=2.0, log1p_scale=log1p_scale
    )
    limits = {"interval": 100.0, "reply_timeout": 20.0, "max_age": 150.0, **changes}
    controller = Controller(make_policy("round-robin", field), NamedSettings(**limits))
    controller.handle(IntervalElapsed(0.0))
    return controller


def read(controller, value, at=5.0, sensor="b"):
    commands = controller.handle(Reading(sensor, value, at, at))
    return (
        [each.notice for each in commands if isinstance(each, Notify)],
        [each for each in commands if isinstance(each, Reject)],
    )


def test_notice_log_and_health_name_the_sensor_the_value_and_the_range():
    controller = controller_of(plausible=RANGE)
    (notice,), (rejected,) = read(controller, 85.0)
    assert (notice.event, notice.sensor) == ("sensor-implausible", "b")
    assert "Attic sent 85 °C; plausible: -40 to 60 °C" in notice.text
    assert (rejected.source, rejected.detail) == ("b", "85 °C; plausible: -40 to 60 °C")
    assert controller.health().implausible == {"b": "85 °C; plausible: -40 to 60 °C"}


def test_after_a_downtime_the_next_implausible_reading_is_reported_before_the_first_interval():
    """It was taken for a second one in the interval of the state file."""
    controller = controller_of(plausible=RANGE)
    assert read(controller, 85.0)[0]
    assert read(controller, 21.0, 6.0) == ([], [])
    assert not read(controller, 85.0, 7.0)[0]
    assert read(controller, 22.0, 8.0) == ([], [])
    controller.handle(DowntimeElapsed(43_200.0, 432))
    assert read(controller, 85.0, 43_205.0)[0]


def test_range_of_standard_deviations_is_named_in_the_unit_of_the_readings():
    controller = controller_of(plausible=10.0)
    assert read(controller, 44.0)[1] == []  # 2 * 10 * sqrt(1.5) = 24.5
    (notice,), (rejected,) = read(controller, 45.0, 6.0)
    text = "45 °C; plausible: -4.49 to 44.49 °C"
    assert f"Attic sent {text}. " in notice.text
    assert (rejected.detail, controller.health().implausible) == (text, {"b": text})


def test_range_covers_sensors_with_other_means_than_their_trained_kernel():
    """The kernel of a trained field is that of residuals; the scale covers all readings."""
    field = SensorField(NAMES, 0.01 * np.eye(3), 0.01, unit="°C", center=20.0, scale=5.0)
    limits = {"interval": 100.0, "reply_timeout": 20.0, "max_age": 150.0}
    controller = Controller(make_policy("round-robin", field), NamedSettings(**limits))
    controller.handle(IntervalElapsed(0.0))
    assert read(controller, 35.0)[1] == []  # 3 units above the center, 30 of the residuals


@given(st.floats(-1e3, 1e3), st.sampled_from([None, 2.0]))
def test_readings_are_accepted_exactly_within_a_configured_range(value, log1p_scale):
    _, rejected = read(controller_of(log1p_scale, plausible=RANGE), value)
    assert [each.reason for each in rejected] == (
        [] if RANGE[0] <= value <= RANGE[1] else ["implausible"]
    )


def test_a_plausible_reading_ends_it_and_a_sensor_that_alternates_floods_no_notices():
    controller = controller_of(plausible=RANGE)
    events = []
    for n in range(20):
        notices, _ = read(controller, 85.0 if n % 2 else 20.0 + n / 8, 5.0 + n)
        events += notices
    assert len(events) == 1
    assert "b" in controller.health().implausible
    read(controller, 21.0, 30.0)
    assert controller.health().implausible == {}
    controller.handle(IntervalElapsed(100.0))
    assert len(read(controller, 85.0, 105.0)[0]) == 1


def test_an_ignored_sensor_is_not_listed():
    controller = controller_of(plausible=RANGE)
    read(controller, 85.0)
    controller.handle(IgnoreRequested("b", True, 6.0))
    assert controller.health().implausible == {}
    assert read(controller, 86.0, 7.0)[0] == []


def test_snapshot_contains_it_only_after_the_first_implausible_reading():
    controller, other = controller_of(plausible=RANGE), controller_of(plausible=RANGE)
    before = controller.snapshot()
    read(controller, 1e300)
    after = controller.snapshot()
    assert b"implausible_value" not in before
    other.restore(after)
    assert other.health() == controller.health()
    assert other.snapshot() == after
    assert read(other, 85.0, 6.0)[0] == []
    other.restore(before)
    assert other.health().implausible == {}
    assert other.snapshot() == before


@given(st.floats(61.0, 1e3), st.floats(61.0, 1e3), st.booleans())
def test_after_a_restart_only_values_outside_the_present_range_are_listed(value, highest, partly):
    """After the range was widened, the health named the value until the next reading."""
    controller, other = (controller_of(plausible=(-40.0, each)) for each in (60.0, highest))
    read(controller, value)
    (other.restore_partial if partly else other.restore)(controller.snapshot())
    assert list(other.health().implausible) == (["b"] if value > highest else [])


def test_invalid_state_is_an_invalid_snapshot():
    readings = ImplausibleReadings(3)
    readings.note(1, 85.0, 0)
    state = readings.snapshot()
    for changed in (
        {**state, "implausible_noticed": -state["implausible_noticed"]},
        {**state, "implausible_value": np.zeros(2)},
    ):
        with pytest.raises(SnapshotError):
            ImplausibleReadings(3).check(changed)
