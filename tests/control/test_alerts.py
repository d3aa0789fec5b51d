"""Alerts: an event and a state when the hot spot is above the threshold, or probably is.

The field has center 20 and scale 2, so a value that was not converted from model units shows.
"""

from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.controllers import controller_settings

from edge_tvbo.config.alert_settings import AlertSettings
from edge_tvbo.control.alerts import AlertMonitor, release_level
from edge_tvbo.control.controller import Controller
from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.messages.commands import Notify, Reject
from edge_tvbo.messages.events import (
    ClockStepped,
    IgnoreRequested,
    IntervalElapsed,
    LinkRestored,
    QuietHoursEnded,
    Reading,
    ResetRequested,
    ThresholdRequested,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.snapshot import decode_snapshot
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.policy import make_policy

NAMES = ("a", "b", "c")
STEP = 100.0
ALERT = AlertSettings(threshold=24.0, hysteresis=1.0)


@cache
def field_of(objective="max", log1p_scale=None, correlation=0.5, noise=0.01):
    K = np.full((3, 3), correlation) + (1 - correlation) * np.eye(3)
    return SensorField(
        NAMES,
        K,
        noise,
        unit="°C",
        center=20.0,
        scale=2.0,
        objective=objective,
        log1p_scale=log1p_scale,
    )


@cache
def fitted_field():
    """Return a field whose model is fitted: it has estimates even without a reading."""
    field = field_of()
    structure = prior_structure(field.kernel, STEP)
    course = np.outer(np.cos(np.arange(24)), structure.spread)
    return SensorField(
        NAMES,
        field.kernel,
        field.noise_variance,
        unit="°C",
        center=20.0,
        scale=2.0,
        structure=replace(structure, course=course, rows=72),
    )


def controller_of(*arguments, **changes):
    """Return a controller in its first interval; arguments as for `started`."""
    controller = started(*arguments, **changes)
    controller.handle(IntervalElapsed(0.0))
    return controller


def started(alert=ALERT, policy="tv-gp-ucb", field=None, keep_last=None, **changes):
    """Return a controller before its first interval, as after a restart."""
    limits = {"reply_timeout": 20.0, "max_age": 150.0, "alert": alert, **changes}
    parameters = {} if keep_last is None else {"keep_last": keep_last}
    made = make_policy(policy, field or field_of(), **parameters)
    return Controller(made, controller_settings(**limits))


def alerts(commands):
    notices = [each.notice for each in commands if isinstance(each, Notify)]
    return [each.event for each in notices if each.event.startswith("alert")]


def read(controller, sensor, value, at):
    return alerts(controller.handle(Reading(sensor, value, at, at)))


def test_alert_begins_and_ends_with_the_readings_of_a_sensor_with_hysteresis():
    controller = controller_of(policy="et-gp-ucb")
    assert controller.alert(0.0) is None
    values = (21.0, 24.2, 23.5, 24.5, 23.2, 22.5, 23.5, 24.2)
    events = [read(controller, "b", value, 1.0 + n) for n, value in enumerate(values)]
    assert events == [[], ["alert"], [], [], [], ["alert-over"], [], ["alert"]]
    state = controller.alert(9.0)
    assert (state.active, state.sensor, state.readings) == (True, "b", {"b": 24.2})
    assert (state.threshold, state.release) == (24.0, 23.0)
    assert state.text == "Alert for values above 24 °C, until 23 °C: b sent 24.2 °C"
    assert controller.health().alert == state.text


@pytest.mark.parametrize("objective", ["max", "min"])
def test_the_alert_of_very_many_sensors_lists_the_most_extreme_readings(objective):
    """With all of 2000 sensors, the document would be larger than many brokers accept."""
    number, sign = 200, 1.0 if objective == "max" else -1.0
    sensors = tuple(f"building-7-floor-3-room-{each:04d}" for each in range(number))
    field = SensorField(sensors, np.eye(number), 0.01, center=20.0, objective=objective)
    alert = AlertSettings(threshold=20.0 + sign, hysteresis=0.5)
    controller = controller_of(alert, field=field)
    for n, sensor in enumerate(sensors[:150]):
        value = 20.0 + sign * (2.0 + n / 100)
        controller.handle(Reading(sensor, value, 1.0 + n / 100, 1.0 + n / 100))
    state = controller.alert(12.0)
    assert set(state.readings) == set(sensors[50:150])
    assert state.text.endswith(", 145 more sensors")
    assert len(msgspec.json.encode(state)) < 8192


def test_event_names_the_sensor_whose_reading_is_above_the_threshold():
    controller = controller_of(policy="et-gp-ucb")
    commands = controller.handle(Reading("b", 24.2, 1.0, 1.0))
    (notice,) = [each.notice for each in commands if isinstance(each, Notify)]
    assert (notice.event, notice.sensor) == ("alert", "b")


def test_an_active_alert_has_a_text_after_a_reset_of_the_model():
    controller = controller_of(policy="et-gp-ucb")
    read(controller, "b", 24.2, 1.0)
    text = controller.health().alert
    controller.handle(ResetRequested(2.0))
    assert controller.health().alert == text
    controller._state.alerts.monitor.forget_values()  # as if the model had caused the alert
    assert controller.health().alert == (
        "Alert for values above 24 °C, until 23 °C: no hot spot is estimated before the next"
        " reading"
    )
    assert alerts(controller.handle(IntervalElapsed(STEP))) == []
    assert read(controller, "b", 22.0, STEP + 3.0) == ["alert-over"]
    assert controller.health().alert is None


@pytest.mark.parametrize("objective", ["max", "min"])
def test_an_alert_begins_with_a_reply_that_resets_the_model_and_is_not_kept(objective):
    side = 1.0 if objective == "max" else -1.0
    alert = AlertSettings(threshold=20.0 + 4.0 * side, hysteresis=1.0)
    controller = controller_of(alert, "et-gp-ucb", field_of(objective), keep_last=False)
    for n in range(20):
        controller.handle(IntervalElapsed(STEP * n))
        selected = controller.health().selected
        assert read(controller, selected, 20.0, STEP * n + 1.0) == []
    controller.handle(IntervalElapsed(2000.0))
    selected, value = controller.health().selected, 20.0 + 4.2 * side
    assert read(controller, selected, value, 2001.0) == ["alert"]
    assert controller.policy.observations == 0
    state = controller.alert(2002.0)
    assert (state.active, state.readings) == (True, {selected: round(value, 1)})
    assert f"until {20 + 3 * side:.0f} °C: {selected} sent {value:.1f} °C" in state.text
    assert alerts(controller.handle(IntervalElapsed(2100.0))) == []
    assert read(controller, selected, 20.0, 2101.0) == ["alert-over"]


def test_hotspot_that_is_probably_above_the_threshold_is_an_alert():
    """The sensor that is hot is never read: two others, which are correlated with it, are."""
    K = np.array([[1.0, 0.0, 0.7], [0.0, 1.0, 0.7], [0.7, 0.7, 1.0]])
    field = SensorField(NAMES, K, 1e-4, unit="°C", center=20.0, scale=2.0)
    controller = controller_of(AlertSettings(threshold=24.5, hysteresis=1.0), field=field)
    assert read(controller, "a", 23.9, 1.0) == []
    assert read(controller, "b", 23.9, 2.0) == ["alert"]
    state = controller.alert(3.0)
    assert (state.sensor, state.readings) == ("c", {})
    assert state.probability >= 0.9
    assert state.value > 24.5 > max(23.9, state.release)
    assert "c is estimated at" in state.text
    assert "above the threshold with 9" in state.text
    assert read(controller, "a", 21.0, 4.0) == []
    assert read(controller, "b", 21.0, 5.0) == ["alert-over"]


@pytest.mark.parametrize("log1p_scale", [None, 2.0])
@pytest.mark.parametrize("objective", ["max", "min"])
def test_probability_is_the_share_of_samples_of_the_posterior_beyond_it(objective, log1p_scale):
    field = field_of(objective, log1p_scale)
    threshold = 24.0 if objective == "max" else 16.0
    rng = np.random.default_rng(3)
    for mean in np.linspace(0.0, 4.0, 9):
        samples = field.to_unit(mean + 0.7 * rng.standard_normal(200_000))
        share = (samples > threshold if objective == "max" else samples < threshold).mean()
        for probability in (0.5, 0.9, 0.99):
            alert = AlertSettings(threshold=threshold, hysteresis=1.0, probability=probability)
            monitor = AlertMonitor(field, alert)
            assert monitor.probability(mean, 0.7) == pytest.approx(share, abs=0.005)
            monitor.update((mean, 0.7), np.zeros(3, np.bool_), 1.0)
            if abs(share - probability) > 0.01:
                assert monitor.take_event() == ("alert" if share >= probability else None)


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(15, 25)), max_size=30))
def test_min_is_the_mirror_image_of_max(readings):
    low = AlertSettings(threshold=18.0, hysteresis=1.0)
    high = AlertSettings(threshold=22.0, hysteresis=1.0)
    one = controller_of(low, field=field_of("min"))
    other = controller_of(high, field=field_of("max"))
    for n, (arm, value) in enumerate(readings):
        assert read(one, NAMES[arm], value, n) == read(other, NAMES[arm], 40.0 - value, n)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(NAMES), st.floats(18, 26)),
        st.sampled_from(["interval", "reset", "ignore", "use"]),
    ),
    max_size=40,
)


def event_of(step, at):
    match step:
        case "interval":
            return IntervalElapsed(at)
        case "reset":
            return ResetRequested(at)
        case "ignore" | "use":
            return IgnoreRequested("b", step == "ignore", at)
        case sensor, value:
            return Reading(sensor, value, at, at)


@given(
    STEPS,
    st.sampled_from(
        [("tv-gp-ucb", None), ("et-gp-ucb", True), ("et-gp-ucb", False), ("auto", None)]
    ),
)
def test_events_alternate_and_agree_with_the_state_before_and_after_restarts(steps, policy):
    name, keep_last = policy
    controller, active = controller_of(policy=name, keep_last=keep_last), False
    for n, step in enumerate(steps):
        at = 10.0 * n
        event = event_of(step, at)
        other = started(policy=name, keep_last=keep_last)
        other.restore(controller.snapshot())
        events = alerts(controller.handle(event))
        assert alerts(other.handle(event)) == events
        assert other.alert(at) == controller.alert(at)
        assert events in ([], ["alert-over" if active else "alert"])
        active = active is not bool(events)
        state = controller.alert(at)
        assert (state is not None and state.active) is active or state is None
        assert (controller.health().alert is not None) <= active


@pytest.mark.parametrize("policy", ["auto", "kalman-ucb"])
@given(STEPS)
def test_the_alert_of_a_fitted_model_agrees_with_its_own_numbers(policy, steps):
    """A fitted model has an estimate after a reset, too, so an alert need not await a reading."""
    controller = controller_of(policy=policy, field=fitted_field())
    for n, step in enumerate(steps):
        controller.handle(event_of(step, 10.0 * n))
        state = controller.alert(10.0 * n)
        if state is None:  # the course of the field is at its mean
            continue
        if state.active:
            assert state.readings or state.value >= state.release or state.probability >= 0.9
        else:
            assert not state.readings
            assert state.probability <= 0.9


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(15, 28)), min_size=1, max_size=40),
    st.integers(0, 1439),
    st.integers(1, 1439),
)
def test_quiet_hours_delay_events_and_lose_no_change(readings, begin, length):
    """A reading every 50 min; the state has the alert at once, the events have it afterwards."""
    quiet = (begin, (begin + length) % 1440)
    settings = AlertSettings(threshold=24.0, hysteresis=1.0, quiet=quiet)
    controller, twin = controller_of(settings), controller_of()
    announced = False

    def includes(at):
        return (at // 60 - begin) % 1440 < length

    for n, (arm, value) in enumerate(readings):
        at = 3000.0 * (n + 1)
        reading = Reading(NAMES[arm], value, at, at)
        events = alerts(controller.handle(reading))
        twin.handle(reading)
        state = twin.alert(at)
        assert controller.alert(at) == state
        active = state is not None and state.active
        is_quiet = includes(at)
        expected = ["alert" if active else "alert-over"] if active is not announced else []
        assert events == ([] if is_quiet else expected)
        announced = announced if is_quiet else active
        for later in (at + 3600.0 * hour for hour in range(24)):
            is_overdue = active is not announced and not includes(later)
            assert controller.alert_notice_is_overdue(later) is is_overdue
        snapshot = controller.snapshot()
        controller = started(settings)
        controller.restore(snapshot)


def test_a_delayed_event_is_reported_once_after_the_quiet_hours():
    controller = controller_of(replace(ALERT, quiet=(60, 120)))
    assert read(controller, "b", 25.0, 4000.0) == []
    assert alerts(controller.handle(QuietHoursEnded(7200.0))) == ["alert"]
    assert not controller.alert_notice_is_overdue(7201.0)
    assert controller.handle(QuietHoursEnded(7202.0)) == []


def test_quiet_hours_do_not_depend_on_the_time_zone_of_this_machine(machine_zone):
    machine_zone("MST7")  # seven hours behind UTC
    controller = controller_of(replace(ALERT, quiet=(60, 120)))
    assert read(controller, "b", 25.0, 4000.0) == []  # 01:07 in UTC
    assert read(controller, "b", 25.0, 7300.0) == ["alert"]


@pytest.mark.parametrize("resets", [False, True])
def test_an_event_that_quiet_hours_delay_survives_a_reset_of_the_model(resets):
    controller = controller_of(replace(ALERT, quiet=(60, 120)), max_age=1e6)
    assert read(controller, "b", 25.0, 1800.0) == ["alert"]
    assert read(controller, "b", 20.0, 4000.0) == []
    if resets:
        controller.handle(ResetRequested(5000.0))
    expected = [] if resets else ["alert-over"]  # without an estimate, nothing can be described
    assert alerts(controller.handle(IntervalElapsed(8000.0))) == expected
    assert read(controller, "b", 20.0, 8100.0) == ["alert-over"][len(expected) :]


def test_threshold_that_a_command_sets_counts_at_once_and_survives_a_restart():
    controller = controller_of()
    read(controller, "b", 22.5, 1.0)
    assert alerts(controller.handle(ThresholdRequested(22.0, 2.0))) == ["alert"]
    assert controller.handle(ThresholdRequested(22.0, 3.0)) == []
    other = controller_of()
    other.restore(controller.snapshot())
    assert (other.alert(4.0).threshold, other.alert(4.0).release) == (22.0, 21.0)
    assert read(other, "b", 16.0, 5.0) == ["alert-over"]
    changed = controller_of(AlertSettings(threshold=25.0))
    changed.restore(controller.snapshot())
    assert changed.alert(4.0).threshold == 25.0


@pytest.mark.parametrize("restore", [Controller.restore, Controller.restore_partial])
@pytest.mark.parametrize(
    ("set_by_command", "changes"),
    [
        (28.0, {"plausible": (0.0, 27.0)}),
        (15.5, {"plausible": (4.0, 36.0), "alert": replace(ALERT, hysteresis=12.0)}),
    ],
    ids=["never begins", "never ends"],
)
def test_threshold_that_the_configuration_makes_impossible_is_not_kept(
    restore, set_by_command, changes
):
    """The daemon would reject a command that sets this threshold."""
    before = controller_of()
    before.handle(ThresholdRequested(set_by_command, 1.0))
    read(before, "b", 25.0, 2.0)
    after = started(**changes)
    restore(after, before.snapshot())
    after.handle(LinkRestored(3.0))
    assert (after.alert(3.0).threshold, after.alert(3.0).active) == (ALERT.threshold, True)


def test_reading_that_is_not_used_causes_no_alert_by_another_threshold():
    """The reading fits °F, so the sensor may be faulty; the detector needs eight sensors."""
    names, noise = tuple("abcdefgh"), np.random.default_rng(0)
    field = SensorField(names, np.eye(8) + 1.0, 0.01, unit="°C", center=20.0, scale=2.0)
    controller = controller_of(AlertSettings(threshold=80.0), "auto", field, plausible=50.0)
    for n in range(300):
        value = 20.0 + float(noise.standard_normal()) / 5
        controller.handle(Reading(names[n % 8], value, 1.0 + n, 1.0 + n))
    (rejected,) = controller.handle(Reading("b", 68.3, 400.0, 400.0))
    assert rejected.reason == "doubtful"

    (notice,) = controller.handle(ThresholdRequested(60.0625, 401.0))

    assert notice.notice.text == "A command set the threshold of the alert to 60.0625 °C"
    assert not controller.alert(402.0).active
    lower = controller_of(AlertSettings(threshold=60.0), "auto", field, plausible=50.0)
    lower.restore(controller.snapshot())
    assert read(lower, "a", 20.0, 403.0) == []


def test_threshold_that_the_configuration_changes_counts_at_once():
    controller = controller_of()
    read(controller, "b", 24.2, 1.0)
    assert controller.alert(2.0).active
    higher = controller_of(AlertSettings(threshold=28.0, hysteresis=1.0))
    higher.restore(controller.snapshot())
    assert read(higher, "a", 20.0, 3.0) == ["alert-over"]
    lower = controller_of(AlertSettings(threshold=24.1, hysteresis=1.0))
    lower.restore(higher.snapshot())
    assert read(lower, "a", 20.0, 4.0) == ["alert"]


def test_an_alert_that_the_configuration_adds_counts_the_last_readings():
    """The estimate is less certain than the reading: its probability is too low for an alert."""
    before = controller_of(alert=None)
    read(before, "b", 24.1, 1.0)
    after = controller_of()
    after.restore(before.snapshot())
    assert after.alert(2.0).probability < ALERT.probability
    assert alerts(after.handle(LinkRestored(2.0))) == ["alert"]
    assert after.alert(3.0).readings == {"b": 24.1}


@pytest.mark.parametrize("restore", [Controller.restore, Controller.restore_partial])
@pytest.mark.parametrize("is_active", [True, False])
def test_an_active_alert_that_is_removed_from_the_configuration_is_over(restore, is_active):
    """A lamp that follows the events would stay on."""
    before, after = controller_of(), started(alert=None)
    if is_active:
        assert read(before, "a", 25.0, 1.0) == ["alert"]
    restore(after, before.snapshot())
    over = after.handle(LinkRestored(2.0))
    assert alerts(over) == (["alert-over"] if is_active else [])
    assert all("removed from the configuration" in each.notice.text for each in over)
    assert alerts(after.handle(LinkRestored(3.0))) == []


@pytest.mark.parametrize("restore", [Controller.restore, Controller.restore_partial])
def test_a_second_restart_before_the_connection_keeps_the_end_of_a_removed_alert(restore):
    before, after = controller_of(), started(alert=None)
    assert read(before, "a", 25.0, 1.0) == ["alert"]
    restore(after, before.snapshot())
    removed, returned = started(alert=None), started()
    for each in (removed, returned):
        restore(each, after.snapshot())
    assert alerts(removed.handle(LinkRestored(2.0))) == ["alert-over"]
    assert alerts(returned.handle(LinkRestored(2.0))) == []
    assert returned.alert(2.0).active
    third = started(alert=None)
    restore(third, removed.snapshot())
    assert alerts(third.handle(LinkRestored(3.0))) == []


def test_a_removed_alert_that_quiet_hours_have_hidden_is_not_over():
    before = controller_of(alert=replace(ALERT, quiet=(0, 600)))
    after = started(alert=None)
    assert read(before, "a", 25.0, 1.0) == []
    after.restore(before.snapshot())
    assert alerts(after.handle(LinkRestored(2.0))) == []


def test_a_hysteresis_that_the_configuration_changes_counts_at_once():
    """The last reading and the estimate are between the two release levels."""
    wide = controller_of(AlertSettings(threshold=24.0, hysteresis=3.0))
    assert read(wide, "b", 24.5, 1.0) == ["alert"]
    assert [read(wide, "b", 21.5, 2.0 + n / 10) for n in range(3)] == [[], [], []]
    narrow = controller_of(AlertSettings(threshold=24.0, hysteresis=1.0))
    narrow.restore(wide.snapshot())
    assert alerts(narrow.handle(LinkRestored(3.0))) == ["alert-over"]


def test_a_restart_finds_no_cause_that_the_alert_did_not_have():
    """A sensor that is used again causes an alert only by its next reading."""
    controller = controller_of()
    read(controller, "b", 24.1, 1.0)
    for ignored in (True, False):
        controller.handle(IgnoreRequested("b", ignored, 2.0))
    restarted = controller_of()
    restarted.restore(controller.snapshot())
    for each in (controller, restarted):
        each.handle(LinkRestored(3.0))
        assert each.alert(4.0).readings == {}


def test_after_a_change_of_the_objective_other_readings_cause_the_alert():
    before = controller_of()
    assert read(before, "a", 24.5, 1.0) == ["alert"]
    after = controller_of(field=field_of("min"))
    after.restore_partial(before.snapshot())
    assert read(after, "b", 26.0, 2.0) == ["alert-over"]
    read(after, "c", 19.0, 3.0)
    again = controller_of(field=field_of("min"))
    again.restore(after.snapshot())
    for controller in (after, again):
        assert controller.alert(4.0).readings == {"c": 19.0}


def test_a_stored_alert_has_only_the_keys_that_earlier_versions_read():
    """An earlier version that is installed again rejects the whole field for any other key."""
    controller = controller_of(field=field_of("min"))
    assert read(controller, "a", 23.5, 1.0) == ["alert"]
    state = decode_snapshot("controller", None, controller.snapshot())
    known = {"estimated", "active", "since", "announced", "threshold", "configured"}
    assert msgspec.msgpack.decode(state["alert"]).keys() <= known


def test_the_objective_in_an_alert_that_an_earlier_version_stored_is_read():
    controller = controller_of()
    assert read(controller, "a", 24.5, 1.0) == ["alert"]
    state = controller._state.alerts.monitor.snapshot()
    held = msgspec.msgpack.decode(state["alert"]) | {"objective": state.pop("alert_objective")}
    monitor = AlertMonitor(field_of("min"), ALERT)
    monitor.restore({**state, "alert": msgspec.msgpack.encode(held)})
    assert monitor.arms_beyond() == [0]
    monitor.apply_settings([24.5, 19.0, 26.0], (0.0, 40.0))
    assert monitor.arms_beyond() == [1]


def test_alert_that_never_began_has_no_time_after_a_step_of_the_clock():
    controller = controller_of()
    read(controller, "b", 21.0, 1.0)
    controller.handle(ClockStepped(1.8e9, 1.8e9))
    assert controller.alert(1.8e9).since is None


@pytest.mark.parametrize("threshold", [9.0, 12.0, 40.5])  # 12: the release level is 7
def test_threshold_of_an_alert_that_never_begins_or_ends_is_rejected(threshold):
    controller = controller_of(AlertSettings(threshold=30.0, hysteresis=5.0), plausible=(10, 40))
    controller.check_threshold(20.0)
    with pytest.raises(ConfigError, match="plausible range of 10 to 40"):
        controller.check_threshold(threshold)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(15, 25)), max_size=20),
    st.sampled_from(["tv-gp-ucb", "auto"]),
)
def test_raised_threshold_is_as_if_it_had_been_configured(readings, policy):
    """Each sensor's last reading decides; none is between release level and threshold."""
    low = controller_of(AlertSettings(threshold=20.5, hysteresis=0.0), policy)
    high = controller_of(AlertSettings(threshold=23.0, hysteresis=0.0), policy)
    for n, (arm, value) in enumerate(readings):
        for controller in (low, high):
            read(controller, NAMES[arm], value, 3.0 * (n + 1))
    low.handle(ThresholdRequested(23.0, 100.0))
    known, set_later = high.alert(101.0), low.alert(101.0)
    assert (known is None) == (set_later is None)
    if known is not None:
        assert (known.readings, known.probability) == (set_later.readings, set_later.probability)


def test_without_an_alert_no_threshold_can_be_set():
    controller = controller_of(alert=None)
    assert controller.handle(ThresholdRequested(22.0, 2.0)) == [Reject("no-alert", "22")]


def test_alert_of_a_silent_sensor_stays_until_it_is_ignored():
    controller = controller_of()
    assert read(controller, "b", 29.0, 1.0) == ["alert"]
    for n in range(1, 200):
        assert alerts(controller.handle(IntervalElapsed(n * STEP))) == []
        assert read(controller, "a", 20.0, n * STEP + 1) == []
        assert read(controller, "c", 20.0, n * STEP + 2) == []
    assert alerts(controller.handle(IgnoreRequested("b", True, 2e4))) == ["alert-over"]


@pytest.mark.parametrize("repeats", range(2, 9))
def test_alert_names_a_sensor_that_repeated_its_reading_before_it_fell_silent(repeats):
    """Whether the sensor is stuck is still unknown, but its reading has begun the alert."""
    names = tuple("abcdef")
    field = SensorField(names, np.eye(6) / 2 + 0.5, 0.01, unit="°C", center=20.0, scale=2.0)
    controller = controller_of(field=field)
    for n in range(1, 60):
        controller.handle(IntervalElapsed(n * STEP))
        for arm, name in enumerate(names):
            value = 20.0 + (7 * n + 5 * arm) % 23 / 50  # no sensor repeats a reading
            if name == "b" and n >= 30:
                value = 24.5
            if name != "b" or n < 30 + repeats:
                read(controller, name, value, n * STEP + 1 + arm)
        state = controller.alert(n * STEP + 10)
        if n < 30 or "b" in controller.health().faulty:
            assert not state.active
        else:
            assert state.readings == {"b": 24.5}
            assert state.text == "Alert for values above 24 °C, until 23 °C: b sent 24.5 °C"


def test_alert_with_a_new_threshold_does_not_name_an_ignored_sensor_after_a_reload():
    before = controller_of(AlertSettings(threshold=30.0))
    read(before, "a", 31.0, 1.0)
    read(before, "b", 25.0, 2.0)
    before.handle(IgnoreRequested("b", True, 3.0))
    after = controller_of(AlertSettings(threshold=24.0))
    after.restore(before.snapshot())
    assert "a sent 31 °C" in after.health().alert
    assert "b sent" not in after.health().alert
    assert after.alert(4.0).readings == {"a": 31.0}


def test_rejected_reading_raises_no_alert():
    controller = controller_of(plausible=(-40.0, 60.0))
    assert read(controller, "b", 85.0, 1.0) == []
    assert controller.alert(1.0) is None


def test_time_of_the_alert_follows_the_clock():
    controller = controller_of()
    read(controller, "b", 25.0, 1.0)
    controller.handle(ClockStepped(3600.0, 3601.0))
    assert controller.alert(3602.0).since == "1970-01-01T01:00:01Z"


def test_default_hysteresis_is_that_of_the_noise_of_readings():
    settings = AlertSettings(threshold=24.0)
    assert release_level(field_of(noise=0.01), settings) == pytest.approx(24.0 - 2 * 0.1 * 2.0)
    assert release_level(field_of("min", noise=0.01), settings) == pytest.approx(24.4)


def test_old_snapshots_have_no_alert_and_invalid_ones_are_rejected():
    old = controller_of(alert=None)
    read(old, "b", 25.0, 1.0)
    controller = controller_of()
    read(controller, "b", 25.0, 1.0)
    blob = controller.snapshot()
    controller.restore(old.snapshot())
    assert not controller.alert(2.0).active
    old.restore(blob)  # the setting was removed
    assert old.alert(2.0) is None

    monitor = AlertMonitor(field_of(), ALERT)
    state = monitor.snapshot()
    monitor.check({key: each for key, each in state.items() if key != "alert_release"})
    for changed in (
        {"alert": b"no"},
        {"alert_beyond": np.full(3, 2)},
        {"alert_beyond": None},
        {"alert_objective": 1},
        {"alert_release": "low"},
    ):
        with pytest.raises(SnapshotError):
            monitor.check(state | changed)
