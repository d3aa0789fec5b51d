"""A field with changed sensors: what is known of each sensor that remains is carried over."""

from collections import Counter
from contextlib import suppress
from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.controllers import INTERVAL, controller_settings
from support.examples import max_examples

from edge_tvbo.config.alert_settings import AlertSettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.control.controller_state import SNAPSHOT_KIND, counters
from edge_tvbo.daemon.restoration import restore_controller
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.commands import Activate, Notify, Recommend
from edge_tvbo.messages.events import (
    ActivationUndelivered,
    ClockStepped,
    IgnoreRequested,
    IntervalElapsed,
    PauseRequested,
    Reading,
    ResetRequested,
    ThresholdRequested,
    Unreadable,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.fingerprint import Fingerprint
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.policy import make_policy

ANOTHER = Fingerprint("another")  # of another field
NAMES = ("a", "b", "c", "d", "e")
SENSORS = st.lists(st.sampled_from([*NAMES, "new", "other"]), min_size=1, max_size=7, unique=True)
COUNTERS = ("answered", "missed", "undelivered", "refused", "paused")


def controller_of(names=NAMES, policy="tv-gp-ucb", center=20.0, period=None, **changes):
    kernel = np.eye(len(names)) + 0.5
    structure = prior_structure(kernel, INTERVAL, period) if policy == "auto" else None
    scale = {"unit": "°C", "center": center, "scale": 2.0}
    field = SensorField(tuple(names), kernel, 0.01, **scale, structure=structure)
    alert = AlertSettings(threshold=26.0)
    limits = controller_settings(
        **{"reply_timeout": 20.0, "max_age": 1e9, "max_backoff": 64, "alert": alert, **changes}
    )
    return Controller(make_policy(policy, field, seed=1), limits)


def live(
    controller,
    intervals,
    seed=1,
    begin=0,
    silent=("b",),
    stuck=("c",),
    implausible=("d",),
    denied=("a",),
):
    """Run intervals in which each sensor reports, but some are silent or report nonsense.

    The broker refuses the activations of the sensors `denied`.
    """
    generator = np.random.default_rng(seed)
    events = Counter()
    for n in range(begin, begin + intervals):
        at = n * INTERVAL
        commands = controller.handle(IntervalElapsed(at))
        for number, sensor in enumerate(controller.policy.field.sensors):
            activated = any(isinstance(c, Activate) and c.sensor == sensor for c in commands)
            if sensor in silent or (not activated and generator.random() < 0.5):
                continue
            if activated and sensor in denied:
                controller.handle(ActivationUndelivered(sensor, n, left=False, refused=True))
                continue
            value = 20.0 + number + round(float(generator.normal()), 1)
            value = 21.5 if sensor in stuck else value
            value = 900.0 if sensor in implausible and n % 3 else value
            received = at + 1.0 + number
            commands += controller.handle(Reading(sensor, value, received, received))
        events.update(c.notice.event for c in commands if isinstance(c, Notify))
    return events


def records(controller):
    """Return all that is known of each sensor except by the model, by the ids of the sensors."""
    state = controller._state
    readings = state.filter
    last = (readings.measured, readings.received, readings.values)
    return {
        sensor: (
            state.health._sensors[arm],
            state.health._turn == arm,
            (state.refusals._refusals[arm], state.refusals._retry[arm]),
            [repr(column[arm]) for column in last],
            (state.implausible._sensors[arm], readings.late._sensors[arm]),
            (state.reports._sensors[arm].own, state.reports._sensors[arm].recommended),
            (state.faults._evidence[arm], state.faults._faults[arm], arm in state.faults._faulty),
            state.faults._newest == arm,
            state.alerts.monitor._beyond[arm],
            state.ignored.mask[arm],
        )
        for sensor, arm in state.arms.items()
    }


def with_sensors(blob, names=NAMES, **changes):
    """Return a controller with other sensors that is restored from a snapshot."""
    controller = controller_of(names, **changes)
    controller.restore_partial(blob)
    return controller


def test_no_interval_is_the_current_one_until_the_next_begins():
    before = controller_of()
    live(before, 3, 0, silent=())
    after = with_sensors(before.snapshot(), ("a", "b"))
    after.reserve_numbers(before.used)
    assert (before.health().interval, after.health().interval) == (2, None)
    assert counters(after.snapshot()).interval is None
    after.handle(IntervalElapsed(3 * INTERVAL))
    assert after.health().interval == 3


@given(SENSORS | st.just(list(NAMES)), st.integers(0, 2**32), st.integers(0, 40), st.booleans())
@max_examples(60)
def test_a_second_reload_in_the_interval_changes_nothing(names, seed, intervals, recommends):
    def reloaded(before):
        controller = controller_of(names, recommends=recommends)
        restore_controller("reload", "lab", controller, before.snapshot())
        controller.reserve_numbers(before.used)
        return controller

    before = controller_of(recommends=recommends)
    live(before, intervals, seed)
    once = reloaded(before)
    twice = reloaded(once)
    assert (twice.health(), twice.snapshot()) == (once.health(), once.snapshot())
    for controller in (once, twice):
        live(controller, 3, seed, begin=intervals)
    assert twice.snapshot() == once.snapshot()


@given(SENSORS, st.integers(0, 2**32), st.integers(0, 40), st.booleans())
@max_examples(60)
def test_each_sensor_that_remains_keeps_its_record(names, seed, intervals, recommends):
    before, same = controller_of(recommends=recommends), controller_of(recommends=recommends)
    live(before, intervals, seed, silent=())
    live(before, intervals, seed, begin=intervals)
    before.handle(IgnoreRequested("e", True, 2 * intervals * INTERVAL))
    same.restore(before.snapshot())
    kept = with_sensors(before.snapshot(), names, recommends=recommends)
    known, new = records(same), records(controller_of(names, recommends=recommends))
    if names == ["e"]:  # one sensor of each field is always in use
        known["e"] = (*known["e"][:-1], False)
    assert records(kept) == {name: known.get(name, new[name]) for name in names}
    for counter in COUNTERS:
        assert getattr(kept.health(), counter) == getattr(before.health(), counter)
    remaining = set(names)
    assert set(kept.health().suspects) == set(before.health().suspects) & remaining
    assert set(kept.health().faulty) == set(before.health().faulty) & remaining
    assert set(kept.health().implausible) == set(before.health().implausible) & remaining
    assert set(kept.last_readings()) == set(before.last_readings()) & remaining
    live(kept, 5)
    kept.restore(kept.snapshot())


@given(SENSORS, st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 64))
@max_examples(60)
def test_two_changes_in_one_interval_keep_what_one_keeps(names, seed, intervals, max_backoff):
    """No interval begins between the changes, so the second snapshot is of no interval."""
    before = controller_of()
    live(before, 2 * intervals, seed)
    blob, kept = before.snapshot(), []
    for changes in ([names], [[*names, "third"], names], [NAMES[::-1], names, names]):
        after = blob
        for each in changes:
            controller = with_sensors(after, each, max_backoff=max_backoff)
            controller.reserve_numbers(before.used)
            after = controller.snapshot()
        kept.append(controller)
    assert records(kept[1]) == records(kept[0])
    if set(NAMES) >= set(names):
        assert records(kept[2]) == records(kept[0])


def test_time_of_the_model_passes_in_a_pause_after_a_sensor_was_added():
    before = controller_of()
    before.handle(IntervalElapsed(0.0))
    before.handle(PauseRequested(1.0))
    paused = with_sensors(before.snapshot(), (*NAMES, "new"))
    for n in range(1, 201):
        paused.handle(IntervalElapsed(n * INTERVAL))
        value = 20.0 if n <= 190 else 26.0
        paused.handle(Reading("a", value, n * INTERVAL + 1, n * INTERVAL + 1))
    assert paused.hotspot(200 * INTERVAL).value == pytest.approx(26.0, abs=0.2)


def test_time_of_day_passes_in_a_pause_after_a_sensor_was_added():
    """The daemon was stopped for six hours, while the field was paused."""
    hour = 3600.0 / INTERVAL
    before = controller_of(policy="auto")
    for n in range(0, int(30 * hour), 5):
        before.handle(IntervalElapsed(n * INTERVAL, 5 if n else 1))
        for arm, sensor in enumerate(NAMES):
            value = 20.0 + arm + float(3.0 * np.sin(2.0 * np.pi * n / (24.0 * hour)))
            before.handle(Reading(sensor, value, n * INTERVAL + 1.0, n * INTERVAL + 1.0))
    blob = before.snapshot()
    paused, running = (with_sensors(blob, (*NAMES, "new"), policy="auto") for _ in range(2))
    paused.handle(PauseRequested(30 * 3600.0))
    for n in range(int(36 * hour), int(36 * hour) + 3):
        for each in (paused, running):
            each.handle(IntervalElapsed(n * INTERVAL))
        for one, other in zip(paused.policy.posterior(), running.policy.posterior(), strict=True):
            assert one == pytest.approx(other)


@pytest.mark.parametrize("recommends", [False, True])
def test_unchanged_sensors_are_restored_as_from_a_snapshot_of_the_same_field(recommends):
    """Only the model and the running interval differ, because the center of the field differs."""
    before, same = controller_of(recommends=recommends), controller_of(recommends=recommends)
    events = live(before, 20, silent=()) + live(before, 60, begin=20)
    assert events["sensor-lost"] and events["sensor-faulty"] and events["sensor-implausible"]
    assert before._state.health.any_unresponsive
    before.handle(ResetRequested(80 * INTERVAL))
    blob = before.snapshot()
    same.restore(blob)
    kept = with_sensors(blob, center=21.0, recommends=recommends)
    assert records(kept) == records(same)
    first, second = (decode_snapshot(SNAPSHOT_KIND, None, each.snapshot()) for each in (same, kept))
    running = {"policy", "progress", "activations", "recalled"}  # of the running interval
    assert set(first) - running == set(second) - running
    for name in set(first) - running:
        assert np.array_equal(first[name], second[name]), name
    assert kept._state.activations.begun == same._state.activations.begun
    assert (kept.policy.resets, kept._state.last_reset) == (1, same._state.last_reset)


def test_a_lost_sensor_is_still_listed_after_another_sensor_is_removed():
    before = controller_of()
    live(before, 30)
    assert before.health().suspects == ["b"]
    health = before._state.health
    kept = with_sensors(before.snapshot(), ("e", "b", "c"))
    assert kept.health().suspects == ["b"]
    kept.reserve_numbers(before.used)
    eligible = [kept._state.health.eligible(n)[1] for n in range(before.used, before.used + 70)]
    assert [*eligible] == [health.eligible(n)[1] for n in range(before.used, before.used + 70)]
    (back,) = [
        each.notice.event
        for each in kept.handle(Reading("b", 20.5, 3000.0, 3000.0))
        if isinstance(each, Notify)
    ]
    assert (back, kept.health().suspects) == ("sensor-back", [])


def test_a_sensor_that_stopped_before_the_change_is_found_to_be_silent_after_it():
    """Its usual report time is known, so the time without a reading is measured from now on."""
    before = controller_of(recommends=True)
    live(before, 40, silent=(), stuck=(), implausible=())
    kept = with_sensors(before.snapshot(), ("new", "c", "b"), recommends=True)
    assert kept.health().suspects == []
    lost = []
    for n in range(40, 80):
        commands = kept.handle(IntervalElapsed(n * INTERVAL))
        assert any(isinstance(each, Recommend) for each in commands)
        for sensor in ("new", "c"):
            kept.handle(Reading(sensor, 20.0 + n % 3, n * INTERVAL + 1.0, n * INTERVAL + 1.0))
        lost += [each.notice.sensor for each in commands if isinstance(each, Notify)]
    assert (lost, kept.health().suspects) == (["b"], ["b"])


def test_a_faulty_sensor_is_not_selected_after_another_sensor_is_removed():
    before = controller_of(policy="round-robin")
    live(before, 60, silent=(), implausible=())
    assert list(before.health().faulty) == ["c"]
    retry = before._state.faults.retry_interval(2)
    kept = with_sensors(before.snapshot(), ("c", "b", "a"), policy="round-robin")
    kept.reserve_numbers(before.used)
    assert kept.health().faulty == before.health().faulty
    assert kept._state.faults.excluded.tolist() == [True, False, False]
    while kept.interval < retry - 1:
        live(kept, 1, silent=("a", "b", "c"))
        assert kept.health().selected != "c"


@pytest.mark.parametrize("sensor", ["b", "c"])
def test_a_replaced_sensor_is_used_at_once_after_it_was_ignored_for_a_moment(sensor):
    """`b` is unresponsive, and `c` is faulty."""
    controller = controller_of(policy="round-robin")
    live(controller, 60, implausible=())
    assert controller.health().suspects == ["b"] and list(controller.health().faulty) == ["c"]
    for ignored in (True, False):
        controller.handle(IgnoreRequested(sensor, ignored, 60 * INTERVAL))
    activated = []
    for n in range(60, 65):
        commands = controller.handle(IntervalElapsed(n * INTERVAL))
        activated += [each.sensor for each in commands if isinstance(each, Activate)]
    assert sensor in activated
    assert sensor not in {*controller.health().suspects, *controller.health().faulty}


def test_evidence_and_the_counts_of_all_sensors_that_it_is_compared_with_are_carried_together():
    """`changes_before` of a sensor refers to `changes` of the field: both or neither."""
    before = controller_of()
    live(before, 12, silent=(), implausible=())
    kept = with_sensors(before.snapshot(), ("c", "a"))
    faults, carried = before._state.faults, kept._state.faults
    assert carried._usual.array().tolist() == faults._usual.array().tolist()
    assert carried._evidence[0].repeats > 0
    assert carried._evidence[0].changes_before <= carried._usual.changes


def test_the_alert_of_a_removed_sensor_ends_and_that_of_another_continues():
    before = controller_of()
    before.handle(ThresholdRequested(25.0, 0.0))
    before.handle(IntervalElapsed(0.0))
    before.handle(Reading("b", 25.5, 1.0, 1.0))
    before.handle(IntervalElapsed(INTERVAL))
    assert before._state.alerts.monitor.active
    blob = before.snapshot()
    for names, arms in ((("c", "b"), [1]), (("c", "a"), [])):
        monitor = with_sensors(blob, names)._state.alerts.monitor
        assert (monitor.threshold, monitor.arms_beyond()) == (25.0, arms)


def test_the_reason_is_logged_why_more_than_500_sensors_start_without_readings(caplog):
    names = [f"s{number}" for number in range(501)]
    before, after = controller_of(names[:500], "auto"), controller_of(names, "auto")
    restore_controller("state", "attic", after, before.snapshot())
    (text,) = caplog.messages
    assert text == (
        "state: the field attic starts without readings: The snapshot is of 500 sensors, and the "
        "field has 501 now; fields with more than 500 sensors have another model than smaller "
        "fields."
    )


def test_the_reason_is_logged_why_a_field_with_another_season_starts_without_readings(caplog):
    before, after = controller_of(policy="auto"), controller_of(policy="auto", period=0.0)
    restore_controller("reload", "attic", after, before.snapshot())
    (text,) = caplog.messages
    assert text == (
        "reload: the field attic starts without readings: The season in the snapshot is a day, and "
        "the season of the field is none now."
    )


def test_it_is_logged_that_a_field_starts_from_a_model_that_was_fitted_since(caplog):
    before = controller_of(policy="auto")
    field = before.policy.field
    fitted = replace(field.structure, rows=288)
    after = Controller(
        make_policy("auto", SensorField(NAMES, field.kernel, 0.01, structure=fitted), seed=1),
        before.settings,
    )
    restore_controller("reload", "attic", after, before.snapshot())
    (text,) = caplog.messages
    assert text == (
        "reload: the field attic starts from its fitted model, without the readings after the fit: "
        "The snapshot is of a field with other sensors or positions, or with another kernel, model "
        "or objective."
    )


def test_a_reading_that_is_repeated_after_the_change_is_a_duplicate():
    before = controller_of()
    reading = Reading("b", 21.0, 5.0, 5.0)
    before.handle(reading)
    kept = with_sensors(before.snapshot(), ("c", "b"))
    kept.handle(reading)
    assert kept.health().refused == {"duplicate": 1}


def test_sensors_are_probed_in_turn_from_the_one_that_was_probed_last():
    before = controller_of()
    before._state.health.mark_probed(1)
    for names, following in ((("d", "b", "e"), 2), (("e", "b"), 0), (("d", "e", "c"), 0)):
        health = with_sensors(before.snapshot(), names)._state.health
        assert health.next_in_turn(np.ones(len(names), np.bool_)) == following


def test_a_snapshot_without_the_ids_of_its_sensors_keeps_the_counters_of_the_field():
    before = controller_of()
    live(before, 30)
    before.handle(IgnoreRequested("e", True, 1.0))
    before.handle(Unreadable("no-number", "lab/a", "x"))
    state = decode_snapshot(SNAPSHOT_KIND, None, before.snapshot())
    del state["sensors"]  # as in an old version
    kept = with_sensors(encode_snapshot(SNAPSHOT_KIND, ANOTHER, state), ("a", "b", "e"))
    assert kept.health().ignored == ["e"]
    assert kept.health().suspects == []
    assert [getattr(kept.health(), each) for each in COUNTERS] == [
        getattr(before.health(), each) for each in COUNTERS
    ]


WRONG = st.sampled_from(
    [None, 3, -1, 99, "x", [], ["a"], np.ones(3), np.ones((5, 1)), np.full(5, -1), np.full(5, 9e99)]
)


@cache
def advised_state():
    """Return the state of a controller in the mode advise after 20 intervals."""
    controller = controller_of(recommends=True)
    live(controller, 20)
    return decode_snapshot(SNAPSHOT_KIND, None, controller.snapshot())


@given(st.data())
@max_examples(200)
def test_an_invalid_snapshot_of_other_sensors_changes_nothing_or_is_valid(data):
    state, after = advised_state(), controller_of(("c", "a"), recommends=True)
    name = data.draw(st.sampled_from(sorted(state)))
    blob = encode_snapshot(SNAPSHOT_KIND, ANOTHER, state | {name: data.draw(WRONG)})
    kept = after.snapshot()
    with suppress(SnapshotError):
        after.restore_partial(blob)
        after.restore(after.snapshot())
        msgspec.json.encode(after.health())
        return
    assert after.snapshot() == kept


def test_last_readings_of_another_number_of_sensors_are_invalid():
    before = controller_of()
    live(before, 5)
    state = decode_snapshot(SNAPSHOT_KIND, None, before.snapshot())
    blob = encode_snapshot(SNAPSHOT_KIND, ANOTHER, state | {"sensors": [*NAMES, "x"]})
    with pytest.raises(SnapshotError):
        controller_of(("a", "b")).restore_partial(blob)


def test_carried_times_are_shifted_with_the_clock():
    before = controller_of()
    live(before, 5)
    kept = with_sensors(before.snapshot(), ("b", "a"))
    received = kept.last_readings()["a"].received
    kept.handle(ClockStepped(7.0, 1000.0))
    assert kept.last_readings()["a"].received == received + 7.0


def test_the_count_of_resets_survives_a_change_to_a_policy_without_a_model_and_a_restart():
    before = controller_of(alert=None)
    before.handle(ResetRequested(0.0))
    changed, restarted = (controller_of(policy="round-robin", alert=None) for _ in range(2))
    changed.restore_partial(before.snapshot())
    restarted.restore(changed.snapshot())
    assert counters(restarted.snapshot()).resets == 1
    restarted.restore_live(changed.live())
    assert restarted.digest() == changed.digest()  # otherwise, no event journal would be used
