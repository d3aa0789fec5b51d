"""Checkpoints: contents of a document, and when a restored field continues."""

import gc
import logging
from math import ceil, inf

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from support.controllers import energy_settings
from support.examples import max_examples
from support.lives import BOOT, NOW, Life, Memory, Time

from edge_tvbo.config.alert_settings import AlertSettings
from edge_tvbo.config.energy_settings import BatterySettings, EnergySettings
from edge_tvbo.control.energy_budget import BudgetSettings
from edge_tvbo.daemon import checkpoints
from edge_tvbo.daemon.checkpoint_document import Anchor, Document, decode
from edge_tvbo.daemon.number_reservation import RESERVED_NUMBERS
from edge_tvbo.daemon.restoration import KILLS_PER_BACKOFF
from edge_tvbo.messages.commands import Activate
from edge_tvbo.messages.documents import LastReading
from edge_tvbo.messages.events import (
    BatteryReported,
    ClockStepped,
    ClockUnset,
    DeadlineElapsed,
    IntervalElapsed,
    Reading,
    ThresholdRequested,
)
from edge_tvbo.models import snapshot
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.policy import make_policy


@pytest.fixture(params=[False, True], ids=["", "journal"])
def timed(request, monkeypatch):
    """Return a clock that the checkpoints use, too; the checkpoints have a journal or not."""
    clock = Time()
    if request.param:
        monkeypatch.setattr(checkpoints, "LARGE_DOCUMENT_BYTES", 300)
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: clock.now.monotonic)
    return clock


# --- one process after another --------------------------------------------------------------------


def test_after_a_kill_numbers_continue_above_all_that_can_have_been_used(timed):
    stored = []
    first = Life(timed, stored).live(2000.0)
    timed.move(700.0)
    second = Life(timed, stored).live(2000.0)
    assert [number for number, _ in first] == [0, 1, 2, 3]
    assert second[0][0] > first[-1][0]
    assert {round((at - NOW) % 600.0) for _, at in second} == {0}  # they begin at the same times


def test_the_log_counts_the_readings_of_a_field_with_changed_sensors(timed, caplog):
    caplog.set_level(logging.INFO)
    kept = []

    def life(*sensors):
        kernel = np.eye(len(sensors)) + 0.5
        field = SensorField(sensors, kernel, 0.01, structure=prior_structure(kernel, 600.0))
        return Life(timed, kept, policy=make_policy("auto", field))

    first = life("a", "b", "c")
    for reading in (0.5, 0.3):
        first.controller.policy.observe(0, reading)
    first.checkpoints.save()
    life("a", "c", "d")
    said = [record.getMessage() for record in caplog.records if "KiB" not in record.getMessage()]
    assert said[-2] == "state: the field lab keeps what it learned about 2 sensors"
    assert said[-1].endswith("1 field, 2 readings in their models")


@pytest.mark.parametrize("highest", [27.0, 28.5])
def test_the_log_says_that_the_threshold_of_a_command_is_not_kept(timed, caplog, highest):
    """A user who set the threshold would otherwise wait for an alert that cannot begin."""
    kept, alert = [], AlertSettings(threshold=24.0, hysteresis=1.0)
    first = Life(timed, kept, alert=alert, plausible=(0.0, 40.0))
    first.controller.handle(ThresholdRequested(28.0, NOW))
    first.checkpoints.save()
    for _ in range(2):  # only the first start replaces the threshold
        Life(timed, kept, alert=alert, plausible=(0.0, highest)).checkpoints.save()
    logged = [each for each in caplog.messages if "threshold" in each]
    assert logged == [
        "state: the field lab uses the configured threshold of the alert, not the threshold that "
        "a command has set: threshold is 28, which is not within the plausible range of 0 to 27; "
        "every accepted reading would be on the same side of this level. Set a level within this "
        "range, or set another range with `plausible`."
    ] * (highest == 27.0)


def test_after_a_stop_numbers_continue_with_the_next_at_once(timed):
    stored = []
    life = Life(timed, stored)
    first = life.live(1000.0)
    life.checkpoints.close()
    timed.move(650.0)
    second = Life(timed, stored).live(600.0)
    assert [number for number, _ in first] == [0, 1]
    assert second[0] == (2, timed.now.wall - 650.0)


def test_running_interval_continues_after_a_restart(timed):
    stored = []
    life = Life(timed, stored)
    (_, began), *_ = life.live(200.0)
    life.checkpoints.close()
    other = Life(timed, stored)
    assert other.controller.health().selected == life.controller.health().selected
    ((number, at), *_) = other.live(400.0)
    assert (number, at) == (1, began + 600.0)


@pytest.mark.parametrize("wall", [30.0, NOW - 1e6, NOW + 1e4])
def test_no_number_is_used_twice_after_a_boot_with_any_clock(timed, wall):
    stored, numbers = [], []
    for _ in range(4):
        numbers += [number for number, _ in Life(timed, stored).live(1600.0)]
        timed.reboot(300.0, wall)
    assert numbers == sorted(set(numbers))


def test_previous_document_reserves_numbers_for_two_documents(timed):
    stored = []
    first = Life(timed, stored).live(5000.0)
    stored[0] = stored[0][:-1]
    timed.reboot(0.0, wall=30.0)
    second = Life(timed, stored).live(600.0)
    assert second[0][0] > first[-1][0]


def test_kills_with_a_full_disk_in_between_use_different_numbers(timed):
    store = Memory([])
    numbers = [number for number, _ in Life(timed, store).live(700.0)]
    store.full = True
    for _ in range(3):
        numbers += [number for number, _ in Life(timed, store).live(700.0)]
    assert len(numbers) > 4
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("lived", [100.0, 700.0])
@pytest.mark.parametrize("away", [0.0, 50.0, 650.0])
def test_kills_with_a_full_disk_after_a_stop_use_different_numbers(timed, lived, away):
    store = Memory([])
    life = Life(timed, store)
    numbers = [number for number, _ in life.live(700.0)]
    life.checkpoints.close()
    store.full = True
    for _ in range(3):
        numbers += [number for number, _ in Life(timed, store).live(lived)]
        timed.move(away)
    store.full = False
    numbers += [number for number, _ in Life(timed, store).live(700.0)]
    assert numbers == sorted(set(numbers))


def test_after_a_failure_two_documents_reserve_numbers(timed):
    store = Memory([])
    Life(timed, store).live(700.0)
    store.full = True
    timed.reboot(0.0, wall=30.0)  # no clock tells which numbers were used
    life = Life(timed, store)
    numbers = [number for number, _ in life.live(2000.0)]
    store.full = False
    life.checkpoints.save()
    store.kept[0] = store.kept[0][:-1]
    assert Life(timed, store).live(700.0)[0][0] > numbers[-1]


def test_field_that_starts_without_readings_reuses_no_number(timed):
    stored = []
    first = Life(timed, stored).live(2000.0)
    life = Life(timed, stored, unit=2.0)
    assert life.controller.health().selected is None
    assert life.live(700.0)[0][0] > first[-1][0]


@pytest.mark.parametrize("unit", [1.0, 2.0])
def test_stored_times_are_shifted_with_the_clock_even_if_the_model_does_not_fit(timed, unit):
    stored = []
    life = Life(timed, stored)
    life.controller.handle(Reading("b", 0.5, NOW, NOW))
    life.checkpoints.close()
    timed.now = Anchor(NOW + 3600.0, timed.now.monotonic, timed.now.boot)
    last = Life(timed, stored, unit=unit).controller.last_readings()
    assert last == {"b": LastReading(0.5, NOW + 3600.0)}


def test_document_is_written_before_the_reserved_numbers_run_out(timed):
    life = Life(timed, [], every=None)
    life.controller.handle(IntervalElapsed(NOW))
    before = life.store.written
    life.controller.reserve_numbers(RESERVED_NUMBERS - 1500)
    life.checkpoints.service(timed.elapsed())
    assert life.store.written == before
    life.controller.reserve_numbers(RESERVED_NUMBERS - 500)
    life.checkpoints.service(timed.elapsed())
    assert life.store.written > before


@max_examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([0.1, 3.0, 30.0, 100.0]), min_size=1, max_size=3), st.booleans())
def test_documents_are_as_rare_as_usual_however_fast_the_replies_are(timed, rates, disk_fills):
    """Each rate, in intervals a second, lasts three times as long as a document is valid."""
    life = Life(timed, [], every=None, checkpoint=900.0)
    life.controller.handle(IntervalElapsed(timed.now.wall))
    before = life.store.written
    for rate in rates:
        end, step = timed.elapsed() + 2700.0, min(900.0 / rate, 60.0)
        while timed.elapsed() < end:
            timed.move(step)
            life.store.full = disk_fills and 1000.0 < end - timed.elapsed() < 1300.0
            life.controller.reserve_numbers(life.controller.used + ceil(rate * step))
            life.checkpoints.service(timed.elapsed())
            if not life.checkpoints.failing:
                reserved = [decode(each).fields["lab"].reserved for each in life.store.kept]
                assert min(reserved) >= life.controller.used
    assert life.store.written - before <= (3 + 6) * len(rates) * len(life.store.kept[0])


def test_shorter_interval_does_not_wait_for_the_end_of_the_longer_one(timed):
    stored = []
    Life(timed, stored, every=3600.0).live(100.0)
    life = Life(timed, stored, every=60.0)
    assert life.schedule.next_interval("lab")[1] == 30.0  # the third multiple of the shorter one


def test_after_a_stop_within_a_longer_interval_the_next_one_begins_within_the_shorter_length(timed):
    stored = []
    life = Life(timed, stored, every=3600.0)
    life.live(100.0)
    life.checkpoints.close()
    life = Life(timed, stored, every=60.0)
    assert life.schedule.next_interval("lab")[1] == 60.0


def tries(life, seconds):
    """Advance the clock; return when the sensor a, which never replies, is activated."""
    tried = []
    for _ in range(int(seconds / 20.0)):
        commands = [each for _, event in life.schedule.due() for each in life.commands(event)]
        at = life.clock.now.wall
        if any(isinstance(each, Activate) and each.sensor == "b" for each in commands):
            life.commands(Reading("b", 0.5, at, at))
        tried += [at for each in commands if isinstance(each, Activate) and each.sensor == "a"]
        life.clock.move(20.0)
    return tried


@pytest.mark.parametrize("every", [60.0, 3600.0])
@pytest.mark.parametrize("away", [300.0, 5000.0])
def test_a_back_off_ends_at_the_same_time_after_a_stop_that_changes_the_interval(
    timed, every, away
):
    """The end is at most one interval of the former or the present length too early or too late."""
    field, ends = SensorField(("a", "b"), np.eye(2), 0.01), []
    for present in (600.0, every):
        timed.now, stored = BOOT, []
        for length in (600.0, present):
            policy = make_policy("static", field, sensor="a")
            life = Life(timed, stored, every=length, policy=policy, interval=length, max_backoff=99)
            tried = tries(life, 18_000.0)
            life.checkpoints.close()
            timed.move(away)
        ends.append(tried[0])
    assert abs(ends[1] - ends[0]) <= max(600.0, every)


@pytest.mark.parametrize(("every", "intervals"), [(60.0, 121), (600.0, 13), (3600.0, 3)])
def test_intervals_that_elapsed_before_a_start_have_the_present_length(timed, every, intervals):
    """Otherwise the readings of the model would age too fast or too slowly."""
    stored = []
    life = Life(timed, stored)
    life.live(550.0)
    life.checkpoints.close()
    timed.move(7200.0)
    later = Life(timed, stored, every=every)
    (number, at), *_ = later.live(0.0)
    assert (number, at) == (intervals, timed.now.wall - 50.0)


def test_intervals_of_a_downtime_have_the_length_of_the_start_that_ends_it(timed):
    stored = []
    life = Life(timed, stored)
    life.live(550.0)
    life.checkpoints.close()
    timed.move(7200.0)
    Life(timed, stored).checkpoints.close()
    later = Life(timed, stored, every=3600.0)
    assert later.live(0.0)[0][0] == 13


# --- readings before the first interval -----------------------------------------------------------

COUPLED = np.array([[1.0, 0.5], [0.5, 1.0]])
HALF_A_DAY = 43_200.0


def learner(name, every):
    """Return a policy that learns; `auto` has the model of a field without recorded days."""
    if name == "auto":
        structure = prior_structure(COUPLED, every or 0.0)
        return make_policy(name, SensorField(("a", "b"), COUPLED, 0.01, structure=structure))
    return make_policy(name, SensorField(("a", "b"), COUPLED, 0.01), epsilon=0.1)


def hot_field(clock, kept, name, every, **limits):
    """Return a run of a daemon whose sensors have sent 2.0."""
    life = Life(clock, kept, every=every, policy=learner(name, every), **limits)
    for _, event in life.schedule.due():
        life.commands(event)
    for sensor in ("a", "b"):
        life.commands(Reading(sensor, 2.0, clock.now.wall, clock.now.wall))
    return life


@pytest.mark.parametrize(
    ("name", "every", "end", "began", "intervals"),
    [
        ("tv-gp-ucb", 600.0, "kill", HALF_A_DAY, 72),
        ("tv-gp-ucb", 600.0, "stop", HALF_A_DAY - 300.0, 71),  # the 72nd begins at once
        ("auto", 600.0, "kill", HALF_A_DAY, 72),
        ("auto", 600.0, "stop", HALF_A_DAY - 300.0, 71),
        ("auto", None, "kill", HALF_A_DAY + 300.0, 1),
        ("auto", None, "stop", HALF_A_DAY + 300.0, 1),
    ],
)
def test_a_reading_before_the_first_interval_updates_the_model_after_the_downtime(
    timed, name, every, end, began, intervals
):
    """It moved the estimates of the time of the state file, which then counted as read 12 h ago."""
    kept, options = [], {"on_reading": every is None}
    life = hot_field(timed, kept, name, every, **options)
    life.checkpoints.close() if end == "stop" else life.checkpoints.save()
    twin = Life(timed, [], every=every, policy=learner(name, every), **options).controller
    twin.restore(life.controller.snapshot())
    timed.reboot(HALF_A_DAY + 300.0)

    later = Life(timed, kept, every=every, policy=learner(name, every), **options)
    twin.handle(IntervalElapsed(NOW + began, intervals))
    np.testing.assert_allclose(later.controller.policy.posterior(), twin.policy.posterior())
    at = timed.now.wall
    for controller in (later.controller, twin):
        controller.handle(Reading("a", 0.0, at, at))
    np.testing.assert_allclose(later.controller.policy.posterior(), twin.policy.posterior())


def test_the_first_interval_after_a_downtime_is_one_interval_later(timed):
    kept = []
    life = hot_field(timed, kept, "tv-gp-ucb", 600.0)
    life.checkpoints.close()
    timed.move(HALF_A_DAY)
    later = Life(timed, kept, policy=learner("tv-gp-ucb", 600.0))
    mean, _ = later.controller.policy.posterior()
    assert later.live(0.0)[0][0] == 72
    np.testing.assert_allclose(later.controller.policy.posterior()[0], 0.9**0.5 * mean)


@pytest.mark.parametrize("end", ["kill", "stop"])
@pytest.mark.parametrize("every", [600.0, None])
def test_a_downtime_does_not_pass_twice_if_the_process_ends_before_its_first_interval(
    timed, every, end
):
    kept, options = [], {"on_reading": every is None}
    first = hot_field(timed, kept, "auto", every, **options)
    first.checkpoints.close() if end == "stop" else first.checkpoints.save()
    timed.reboot(HALF_A_DAY + 300.0)
    second = Life(timed, kept, every=every, policy=learner("auto", every), **options)
    second.checkpoints.close() if end == "stop" else second.checkpoints.save()
    third = Life(timed, kept, every=every, policy=learner("auto", every), **options)
    posteriors = [each.controller.policy.posterior() for each in (second, third)]
    np.testing.assert_allclose(*posteriors)
    assert third.controller.policy.observations == 2


@pytest.mark.parametrize("every", [600.0, None])
def test_no_time_passes_for_the_model_if_the_clock_is_not_set_after_a_boot(timed, every):
    """The time of the model would be 1970, and half a century would pass when the clock is set."""
    kept, options = [], {"on_reading": every is None}
    life = hot_field(timed, kept, "auto", every, **options)
    life.checkpoints.close()
    twin = Life(timed, [], every=every, policy=learner("auto", every), **options).controller
    twin.restore(life.controller.snapshot())
    twin.handle(ClockUnset())
    timed.reboot(HALF_A_DAY, wall=30.0)
    later = Life(timed, kept, every=every, policy=learner("auto", every), **options).controller
    np.testing.assert_allclose(later.policy.posterior(), twin.policy.posterior())
    for controller in (twin, later):
        controller.handle(ClockStepped(NOW + HALF_A_DAY - 30.0, NOW + HALF_A_DAY))
        controller.handle(IntervalElapsed(NOW + HALF_A_DAY))
    np.testing.assert_allclose(later.policy.posterior(), twin.policy.posterior())


@pytest.mark.parametrize("wall", [30.0, NOW])  # not set, or the time of the last shutdown
@pytest.mark.parametrize("every", [600.0, None])
def test_if_the_clock_is_set_before_the_first_interval_auto_ages_before_the_next_reading(
    timed, wall, every
):
    """On a gateway without a real-time clock, the length of the downtime is not known before."""
    kept, options = [], {"on_reading": every is None}
    hot_field(timed, kept, "auto", every, **options).checkpoints.save()
    at, lives = NOW + HALF_A_DAY, []
    for clock in (at, wall):
        timed.now = BOOT
        timed.reboot(HALF_A_DAY, clock)
        lives.append(Life(timed, list(kept), every=every, policy=learner("auto", every), **options))
    twin, later = (each.controller for each in lives)
    later.handle(ClockStepped(at - wall, at))
    for controller in (twin, later):
        controller.handle(Reading("a", 0.0, at, at))
    np.testing.assert_allclose(
        later.policy.posterior(), twin.policy.posterior(), rtol=1e-6, atol=1e-9
    )


def test_a_downtime_that_ended_before_a_reload_passes_before_the_next_reading(timed):
    """The clock was set after the restart, and the reload replaced the controller."""
    at, wall = NOW + HALF_A_DAY, 30.0
    kept = []
    hot_field(timed, kept, "auto", 600.0).checkpoints.save()
    timed.reboot(HALF_A_DAY, wall)
    twin = Life(timed, kept, every=600.0, policy=learner("auto", 600.0)).controller
    twin.handle(ClockStepped(at - wall, at))
    reloaded = Life(timed, [], every=600.0, policy=learner("auto", 600.0)).controller
    reloaded.restore(twin.snapshot())
    for controller in (twin, reloaded):
        controller.handle(Reading("a", 0.0, at, at))
    np.testing.assert_array_equal(twin.policy.posterior(), reloaded.policy.posterior())


@pytest.mark.parametrize("sensors", [("a", "b"), ("b", "c")])
def test_the_last_interval_stays_known_until_another_begins(timed, sensors):
    """Otherwise its decision would not be published again after a second restart."""
    kept = []
    first = Life(timed, kept)
    first.live(550.0)
    first.checkpoints.close()
    for _ in range(2):
        timed.move(7200.0)
        policy = make_policy("tv-gp-ucb", SensorField(sensors, np.eye(2), 0.01), epsilon=0.1)
        later = Life(timed, kept, policy=policy)
        assert later.controller.newest == 0
        assert not later.controller.begun
        later.checkpoints.close()
    assert later.controller.used == 24


def test_after_a_downtime_and_a_kill_the_newest_interval_may_be_of_the_killed_process(timed):
    """Its later decisions may be unknown, so an earlier decision is not published again."""
    kept = []
    first = Life(timed, kept)
    first.live(550.0)
    first.checkpoints.close()
    timed.move(4500.0)
    killed = Life(timed, kept)
    killed.live(700.0)  # two intervals, and no further checkpoint
    later = Life(timed, kept)
    assert later.controller.newest >= killed.controller.interval


def test_restarts_before_the_first_interval_charge_no_energy(timed):
    """The interval before the downtime had an activation left, which none of them has made."""
    kept, energy = [], EnergySettings(cost=1.0, field_budget=20.0, period=86_400.0)
    limits = {"per_interval": 2, "interval": 600.0, "reply_timeout": 100.0, "energy": energy}
    first = Life(timed, kept, **limits)
    for _, event in first.schedule.due():
        first.commands(event)
    first.checkpoints.close()
    for _ in range(3):
        timed.move(3600.0)
        later = Life(timed, kept, **limits)
        assert later.controller.health().energy.left == 19.0
        later.checkpoints.close()


def test_a_battery_charge_before_the_first_interval_is_not_as_old_as_the_state(timed):
    """It counted as reported 12 h ago, so the empty battery was ignored."""
    kept = []
    battery = BatterySettings(topic="{sensor}", least=20.0, max_age=HALF_A_DAY / 2)
    energy = EnergySettings(cost=1.0, battery=battery)
    Life(timed, kept, energy=energy, interval=600.0).live(100.0)
    timed.reboot(HALF_A_DAY)
    later = Life(timed, kept, energy=energy, interval=600.0)
    for sensor in ("a", "b"):
        later.commands(BatteryReported(sensor, 5.0, timed.now.wall))
    assert later.live(600.0) == []


def test_a_budget_is_available_again_after_a_downtime_of_any_number_of_intervals(timed):
    """A downtime of a day and a half counted as 10 000 intervals: 3 hours with this interval."""
    kept, energy = [], EnergySettings(cost=1.0, field_budget=2.0, period=86_400.0)
    options = {"every": 1.0, "interval": 1.0, "energy": energy}
    life = Life(timed, kept, **options)
    life.live(100.0, step=1.0)
    life.checkpoints.close()
    assert life.controller.health().energy.left == 0.0
    timed.reboot(1.5 * 86_400.0)
    later = Life(timed, kept, **options)
    assert later.live(0.0)[0][0] == 101 + 129_600
    assert later.controller.health().energy.left == 1.0


def test_after_a_stop_the_number_of_the_last_decision_is_known_despite_a_downtime(timed):
    """The daemon publishes this decision again."""
    kept = []
    life = Life(timed, kept)
    life.live(700.0)
    life.checkpoints.close()
    timed.move(HALF_A_DAY)
    later = Life(timed, kept).controller
    assert (later.newest, later.used, later.begun) == (1, 72, False)
    killed = Life(timed, kept).controller
    assert killed.newest > 1


@pytest.mark.parametrize("away", [50_000.0, 1e7])  # 1e7 s are more than MAX_CATCH_UP intervals
@pytest.mark.parametrize("others", [60.0, 600.0, 3600.0])
def test_kills_with_a_full_disk_use_different_numbers_after_any_time(timed, others, away):
    store = Memory([])
    numbers = [number for number, _ in Life(timed, store).live(700.0)]
    store.full = True
    for every in (600.0, others):
        timed.move(away)
        numbers += [number for number, _ in Life(timed, store, every=every).live(7000.0)]
    assert numbers == sorted(set(numbers))


def test_a_longer_interval_after_a_stop_refills_no_budget(timed):
    """A stop of 25 minutes counted as 25 hours, in which the spent energy was available again."""
    stored, spent = [], []
    for every in (60.0, 3600.0):
        energy = EnergySettings(cost=1.0, field_budget=5.0, period=86400.0)
        life = Life(timed, stored, every=every, interval=every, energy=energy)
        spent.append(len(life.live(3000.0)))
        life.checkpoints.close()
        timed.move(1500.0)
    assert spent == [5, 0]


def test_document_that_cannot_be_written_is_retried_within_a_minute(timed):
    life = Life(timed, [], checkpoint=900.0)
    life.store.full = True
    life.checkpoints.save()
    assert life.checkpoints.wake_at() == timed.elapsed() + 60.0
    life.checkpoints.service(timed.elapsed() + 1.0)
    assert life.checkpoints.wake_at() == timed.elapsed() + 60.0
    life.store.full = False
    life.checkpoints.service(timed.elapsed() + 60.0)
    assert life.checkpoints.wake_at() == timed.elapsed() + 900.0


def test_the_longer_period_of_a_large_state_is_logged_once(timed, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    monkeypatch.undo()
    monkeypatch.setattr(checkpoints.time, "monotonic", timed.elapsed)

    def said():
        return [each.getMessage() for each in caplog.records if "KiB" in each.getMessage()]

    life = Life(timed, [], checkpoint=900.0)
    assert said() == []
    quarter = -(-len(life.controller.snapshot()) // 4)
    monkeypatch.setattr(checkpoints, "LARGE_DOCUMENT_BYTES", quarter)
    for _ in range(2):
        life.checkpoints.save()
    (text,) = said()
    assert text.endswith(
        " KiB, so only the readings and other events are stored every 15 min; the whole state is "
        "stored every 6 h, or every 60 min if there are very many events"
    )
    assert life.checkpoints.wake_at() == timed.elapsed() + 900.0


def test_a_document_waits_until_the_loop_knows_that_the_clock_was_stepped(timed):
    stepped = []
    timed.is_stepped = lambda: bool(stepped)
    life = Life(timed, [], checkpoint=900.0)
    written = life.store.written
    stepped.append(-7200.0)
    life.checkpoints.save()
    assert life.store.written == written
    assert life.checkpoints.wake_at() <= timed.elapsed()
    stepped.clear()
    life.checkpoints.service(timed.elapsed())
    twice = life.store.written - written  # both documents reserve new numbers
    life.checkpoints.save()
    assert life.store.written - written == pytest.approx(1.5 * twice, rel=0.01)
    assert life.checkpoints.wake_at() == timed.elapsed() + 900.0


# damage: the newest checkpoint is damaged; tear: its journal is
ENDS = st.sampled_from(["stop", "kill", "damage", "tear"])
LIVES = st.lists(st.tuples(st.integers(0, 80), ENDS, st.integers(0, 80)), max_size=8)


@given(LIVES, st.integers(1, 12), st.booleans())
def test_no_period_costs_more_than_the_budget_after_any_number_of_kills(lives, budget, has_journal):
    """Each process, in steps of 50 s: how long it runs, how it ends, and the pause."""
    budgets = BudgetSettings((1.0, 1.0), (inf, inf), period=10, field=float(budget))
    energy = energy_settings(budgets, ("a", "b"))
    clock, stored, activated = Time(), [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints.time, "monotonic", lambda: clock.now.monotonic)
        if has_journal:
            patch.setattr(checkpoints, "LARGE_DOCUMENT_BYTES", 300)
        for alive, end, dead in lives:
            life = Life(clock, stored, energy=energy)
            activated += [at for _, at in life.live(50.0 * alive)]
            if end == "stop":
                life.checkpoints.close()
            elif end == "damage" and len(stored) > 1:
                stored[0] = stored[0][:-1]
            elif end == "tear" and (entries := Memory.entries[stored[0]]):
                entries[-1] = entries[-1][:-1]
            clock.move(50.0 * dead)
    assert all(sum(at <= each < at + 5999.0 for each in activated) <= budget for at in activated)


STORED_OR_NOT = st.lists(
    st.tuples(st.integers(0, 300), st.booleans(), st.booleans(), st.integers(0, 80)), max_size=6
)


@example([(300, True, True, 0), (160, False, True, 0)], 9, False)
@given(STORED_OR_NOT, st.integers(1, 12), st.booleans())
def test_no_period_costs_more_than_the_budget_even_if_the_disk_is_full(lives, budget, has_journal):
    """Each process: its life in steps of 50 s, whether the disk is full, its end, and the pause."""
    budgets = BudgetSettings((1.0, 1.0), (inf, inf), period=10, field=float(budget))
    energy = energy_settings(budgets, ("a", "b"))
    clock, store, activated = Time(), Memory([]), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints.time, "monotonic", lambda: clock.now.monotonic)
        if has_journal:
            patch.setattr(checkpoints, "LARGE_DOCUMENT_BYTES", 300)
        Life(clock, store, energy=energy)
        for alive, store.full, is_killed, dead in lives:
            life = Life(clock, store, energy=energy)
            activated += [at for _, at in life.live(50.0 * alive)]
            if not is_killed:
                life.checkpoints.close()
            clock.move(50.0 * dead)
    assert all(sum(at <= each < at + 5999.0 for each in activated) <= budget for at in activated)


def test_a_downtime_after_a_full_disk_costs_nothing(timed):
    store, energy = Memory([]), EnergySettings(field_budget=1000.0)
    Life(timed, store, energy=energy)
    store.full = True
    Life(timed, store, energy=energy).live(36_000.0)
    timed.move(360_000.0)
    after = Life(timed, store, energy=energy)
    after.handle(IntervalElapsed(timed.now.wall))
    assert 60 <= after.controller.health().energy.spent <= 65


@pytest.mark.parametrize(("damaged", "charged"), [(False, 4), (True, 8)])
def test_a_power_cut_costs_only_the_intervals_until_a_checkpoint_was_due(
    timed, caplog, damaged, charged
):
    """With twice as many, a field could spend its whole budget without an activation."""
    caplog.set_level(logging.INFO)
    stored, energy = [], EnergySettings(field_budget=24.0)
    Life(timed, stored, energy=energy).checkpoints.save()
    if damaged:
        stored[0] = stored[0][:-1]
    timed.reboot(36_000.0)
    if damaged and decode(stored[1]).fields["lab"].live:
        charged = 61  # the process may have written entries all the time
    after = Life(timed, stored, energy=energy)
    activated = after.live(600.0)
    assert after.controller.health().energy.spent == charged + len(activated)
    assert f"are charged for {charged} intervals" in caplog.text


@pytest.mark.parametrize("former", [None, 600.0])
def test_a_new_energy_budget_is_not_charged_for_intervals_of_a_process_without_a_budget(
    timed, caplog, former
):
    """A field with the interval "on-reading" reserves 10 000 numbers or more."""
    caplog.set_level(logging.INFO)
    stored, energy = [], EnergySettings(field_budget=100.0)
    length = {"on_reading": True} if former is None else {"interval": former}
    Life(timed, stored, every=former, **length).handle(IntervalElapsed(timed.now.wall))
    timed.reboot(36_000.0)
    after = Life(timed, stored, energy=energy, interval=600.0)
    assert len(after.live(86_000.0)) == 100
    assert after.controller.health().energy.spent == 100.0
    assert "are charged" not in caplog.text


@pytest.mark.parametrize("had_energy", [False, True])
def test_a_process_that_charges_but_cannot_write_a_checkpoint_is_charged_after_a_kill(
    timed, had_energy
):
    """Its predecessor charged nothing, and stopped normally; then the disk became full."""
    store, energy = Memory([]), EnergySettings(field_budget=100.0)
    before = {"energy": energy, "recommends": True} if had_energy else {}
    Life(timed, store, interval=600.0, **before).checkpoints.close()
    store.full = True
    killed = Life(timed, store, energy=energy, interval=600.0)
    activated = len(killed.live(2000.0))
    after = Life(timed, store, energy=energy, interval=600.0)
    after.handle(IntervalElapsed(timed.now.wall))
    assert after.controller.health().energy.spent >= activated + 1


@pytest.mark.parametrize("advised_before", [False, True])
def test_a_kill_is_charged_if_the_killed_process_sent_commands(timed, caplog, advised_before):
    caplog.set_level(logging.INFO)
    stored, energy = [], EnergySettings(field_budget=100.0)
    limits = {"energy": energy, "interval": 600.0}
    Life(timed, stored, recommends=advised_before, **limits)
    timed.reboot(36_000.0)
    after = Life(timed, stored, recommends=not advised_before, **limits)
    after.handle(IntervalElapsed(timed.now.wall))
    assert after.controller.health().energy.spent == (1.0 if advised_before else 4.0)
    assert ("are charged" in caplog.text) is not advised_before


# --- back-offs ------------------------------------------------------------------------------------


def tries_of_a_silent_sensor(clock, life, seconds):
    """Run a process for some seconds; return how often it activates b, which never replies."""
    end, tries, commands = clock.elapsed() + seconds, 0, []
    if life.controller.settings.follows_readings:
        commands = life.commands(IntervalElapsed(clock.now.wall))
    while clock.elapsed() < end:
        activated = [each for each in commands if isinstance(each, Activate)]
        clock.move(30.0)
        commands = [each for _, event in life.schedule.due() for each in life.commands(event)]
        for sensor, interval in ((each.sensor, each.interval) for each in activated):
            at = clock.now.wall
            replies = sensor == "a"
            event = Reading("a", 20.0, at, at) if replies else DeadlineElapsed(interval, at)
            commands += life.commands(event)
            tries += not replies
        life.checkpoints.service(clock.elapsed())
    return tries


@pytest.mark.parametrize("every", [None, 600.0])
@pytest.mark.parametrize("clock_is_set", [False, True])
def test_kills_before_each_checkpoint_do_not_exclude_a_sensor_for_ever(timed, every, clock_is_set):
    """With "on-reading" or an unset clock, it is unknown how many intervals the process began."""
    stored = []
    length = {"on_reading": True} if every is None else {"interval": every}
    limits = {"every": every, "reply_timeout": 40.0, "max_backoff": 64, **length}

    def life():
        field = SensorField(("a", "b"), np.eye(2), 0.01)
        return Life(timed, stored, policy=make_policy("round-robin", field), **limits)

    first = life()
    tries_of_a_silent_sensor(timed, first, 90 * (every or 30.0))  # not until a back-off ends
    first.checkpoints.save()
    kills, tries = 0, 0
    while not tries and kills < 100:
        kills += 1
        timed.reboot(5.0, None if clock_is_set else 30.0)
        tries = tries_of_a_silent_sensor(timed, life(), 840.0)
    if every and clock_is_set:
        assert 38 <= kills <= 40  # the back-off lasts 54 more intervals, or 38.3 processes
    else:
        assert 1 < kills <= KILLS_PER_BACKOFF


# --- an awaited reply -----------------------------------------------------------------------------


@pytest.mark.usefixtures("first_timeout_counts")
@pytest.mark.parametrize("away", [0.0, 30.0, 70.0])
def test_the_awaited_reply_times_out_after_a_stop_and_the_next_sensor_is_activated(timed, away):
    stored, settings = [], {"per_interval": 2, "reply_timeout": 100.0}
    life = Life(timed, stored, **settings)
    assert life.live(0.0) == [(0, NOW)]
    life.checkpoints.close()
    timed.move(away)
    later = Life(timed, stored, **settings)
    assert later.live(450.0, step=10.0) == [(0, NOW + max(100.0, 50.0 + away))]
    health = later.controller.health()
    assert (health.missed, health.suspects) == (2, [health.selected])  # not the first one


def test_the_awaited_reply_times_out_after_a_kill_and_no_further_sensor_is_activated(timed):
    stored, settings = [], {"per_interval": 2, "reply_timeout": 100.0}
    life = Life(timed, stored, **settings)
    life.live(0.0)
    life.checkpoints.save()
    later = Life(timed, stored, **settings)
    assert later.live(450.0, step=10.0) == []
    assert later.controller.health().missed == 1


def test_a_reply_after_a_restart_clears_the_deadline(timed):
    stored, settings = [], {"per_interval": 2, "reply_timeout": 100.0}
    life = Life(timed, stored, **settings)
    life.live(0.0)
    life.checkpoints.close()
    later = Life(timed, stored, **settings)
    sensor = later.controller.health().selected
    for command in later.controller.handle(Reading(sensor, 0.5, timed.now.wall, timed.now.wall)):
        later.schedule.note("lab", command)
    assert later.schedule.next_due() == BOOT.monotonic + 200.0  # of the second sensor


def test_after_a_restart_with_a_shorter_interval_the_deadline_is_within_the_interval(timed):
    stored = []
    life = Life(timed, stored, every=3600.0, reply_timeout=1800.0)
    life.live(0.0)
    life.checkpoints.close()
    later = Life(timed, stored, every=60.0)
    assert later.schedule.next_due() == timed.elapsed() + 60.0


def test_a_field_that_continues_without_its_model_awaits_no_reply(timed):
    stored = []
    life = Life(timed, stored, reply_timeout=100.0)
    life.live(0.0)
    life.checkpoints.close()
    later = Life(timed, stored, unit=2.0)
    assert later.schedule.next_due() == BOOT.monotonic + 600.0


def test_a_state_too_large_to_be_read_again_is_not_stored(timed, caplog, monkeypatch):
    """Both generations became unreadable, so that all fields started without readings."""
    stored = []
    life = Life(timed, stored)
    before = list(stored)
    monkeypatch.setattr(snapshot, "MAX_DOCUMENT_SIZE", 100)
    timed.move(1000.0)
    life.checkpoints.service(timed.elapsed())
    assert stored == before
    assert life.checkpoints.failing
    assert life.checkpoints.wake_at() > timed.elapsed() + 60.0  # a retry would fail again
    (record,) = (each for each in caplog.records if each.levelno == logging.ERROR)
    text = record.getMessage()
    assert text.startswith("state: cannot be stored: the content has 0 MB, and at most 0 MB")
    assert "the field lab: set a smaller `window`" in text
    monkeypatch.undo()
    life.checkpoints.close()
    assert not life.checkpoints.failing


class Watched(Memory):
    """A store that counts the documents in memory while a document is stored."""

    in_memory = ()

    def save(self, document):
        found = sum(type(each) is Document for each in gc.get_objects())
        self.in_memory = (*self.in_memory, found)
        return super().save(document)


def test_the_restored_document_is_freed_before_a_new_document_is_made():
    """Both together could need more memory than the daemon may use."""
    clock, stored = Time(), []
    Life(clock, stored).checkpoints.close()
    gc.collect()
    assert set(Life(clock, Watched(stored)).store.in_memory) == {0}
