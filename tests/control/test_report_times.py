"""Report times: each sensor's usual time is learned; a far longer time makes it silent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.control.report_times import (
    MIN_TIMES,
    OVERDUE_FACTOR,
    REMEMBERED_TIMES,
    SILENT_FACTOR,
    UNANSWERED_INTERVALS,
    USUAL_DEVIATIONS,
    ReportTimes,
)
from edge_tvbo.control.sensor_rows import SensorRows
from edge_tvbo.errors import SnapshotError

TIMES = st.lists(st.floats(0.1, 1e5), min_size=MIN_TIMES, max_size=60)


def reported(times, *, shortest=0.0):
    """Return report times after readings that are `times` apart, and the time of the last one."""
    reports = ReportTimes(1, shortest)
    reports.listen(0.0)
    now = 0.0
    reports.observe(0, now, prompt=False)
    for each in times:
        reports.observe(0, now + each, prompt=False)
        now += each
    return reports, now


def naive_limit(times):
    mean, deviation = times[0], times[0] / 2
    for n, each in enumerate(times[1:], 2):
        error = min(each, SILENT_FACTOR * (mean + USUAL_DEVIATIONS * deviation)) - mean
        share = 1 / min(n, REMEMBERED_TIMES)
        mean, deviation = (
            (1 - share) * mean + share * (mean + error),
            (1 - share) * deviation + share * abs(error),
        )
    return SILENT_FACTOR * (mean + USUAL_DEVIATIONS * deviation)


@given(TIMES)
def test_sensor_is_silent_after_several_usual_times(times):
    reports, now = reported(times)
    limit = naive_limit(times)
    assert reports.silent(now + 0.999 * limit) == []
    assert reports.silent(now + 1.001 * limit) == [0]


@pytest.mark.parametrize("period", [1.0, 8.0, 3600.0])
def test_regular_sensor_is_silent_after_three_missing_reports(period):
    reports, now = reported([period] * 40)
    assert reports.silence(0, now + 1.0).usual == pytest.approx(period)
    assert reports.silent(now + 2.9 * period) == []
    assert reports.silent(now + 4.0 * period) == [0]


def test_lost_and_irregular_reports_are_hardly_ever_silences():
    """Reports that are lost at random, or that come at random times: a false alarm in months."""
    generator = np.random.default_rng(3)
    lossy = 300.0 * generator.geometric(0.8, 100_000)  # one of five is lost: about a year
    random = generator.exponential(300.0, 100_000)
    for times in (lossy, random):
        alarms, now = 0, 0.0
        reports = ReportTimes(1, shortest=600.0)
        reports.listen(0.0)
        reports.observe(0, 0.0, prompt=False)
        for each in times:
            alarms += bool(reports.silent(now + each))
            reports.observe(0, now + each, prompt=False)
            now += each
        assert alarms <= 4


def test_time_between_few_readings_is_not_usual():
    reports, now = reported([8.0] * (MIN_TIMES - 1))
    assert reports.silent(now + 1e6) == []
    assert ReportTimes(1, 1.0).silent(1e9) == []


def house(periods, until, *, reported_until=0.0, interval=10.0, recommended=()):
    """Return report times of sensors that report every `periods` s; 0 for one that is silent.

    Sensor 0 reports up to the time `reported_until` only. The sensors `recommended` are recommended
    all the time.
    """
    reports = ReportTimes(len(periods), interval)
    reports.listen(0.0)
    reports.recommend(recommended, 0.0)
    events = sorted(
        (n * period, arm)
        for arm, period in enumerate(periods)
        for n in range(1, 1 + int((until if arm else reported_until) // period) if period else 0)
    )
    for at, arm in events:
        reports.observe(arm, at, prompt=False)
    reports.recommend(recommended, until)
    return reports


def test_sensor_that_never_reported_is_silent_once_reports_of_the_others_show_it():
    for limit, period in ((30.0 * OVERDUE_FACTOR, 30), (10.0 * UNANSWERED_INTERVALS, 1)):
        for at, silent in ((limit - 0.5, []), (limit + 0.5, [0])):
            assert house([0, period, period], at, recommended=[0]).silent(at) == silent


def test_sensor_that_reports_a_tenth_as_often_as_the_others_is_not_silent():
    for at in range(301, 3000, 7):
        slow = {"reported_until": float(at), "recommended": [0]}
        assert house([300, 30, 30], float(at), **slow).silent(float(at)) == []


def test_one_sensor_that_reports_rarely_does_not_hide_sensors_that_never_reported():
    assert house([0, 30, 30, 9000], 50_000.0, recommended=[0]).silent(50_000.0) == [0]


def test_sensor_that_was_hardly_recommended_is_not_blamed_for_never_reporting():
    assert house([0, 30, 30], 1e4).silent(1e4) == []


def test_first_times_of_a_slow_sensor_show_that_it_is_slow():
    slow = {"reported_until": 2500.0, "recommended": [0]}
    assert house([1000, 30, 30], 2900.0, **slow).silent(2900.0) == []
    assert house([1000, 30, 30], 12_000.0, **slow).silent(12_000.0) == [0]


def test_others_of_which_too_little_is_known_show_nothing():
    assert house([0, 30, 30], 149.0, recommended=[0]).silent(1e6) == []


def test_silence_of_a_sensor_that_never_reported_is_compared_with_the_others():
    silence = house([0, 30, 30, 60], 1000.0, recommended=[0]).silence(0, 1000.0)
    assert (silence.time, silence.usual) == (1000.0, pytest.approx(30.0))
    assert (silence.of_others, silence.has_reported, silence.while_recommended) == (
        True,
        False,
        False,
    )


def test_sensor_that_reported_in_the_last_interval_is_not_silent():
    reports, now = reported([1.0] * 20, shortest=600.0)
    assert reports.silent(now + 599.0) == []
    assert reports.silent(now + 601.0) == [0]


def test_time_without_a_connection_is_no_silence_and_is_not_learned():
    reports, now = reported([8.0] * 20)
    reports.stop_listening()
    assert reports.silent(now + 1e6) == []
    reports.listen(now + 1e6)
    reports.observe(0, now + 1e6 + 1.0, prompt=False)
    assert reports.silence(0, now).usual == 8.0
    assert reports.silent(now + 1e6 + 20.0) == []
    assert reports.silent(now + 1e6 + 40.0) == [0]


def test_sensor_that_reports_less_often_from_now_on_is_silent_only_for_a_while():
    reports, now = reported([8.0] * 100)
    silences = 0
    for _ in range(40):
        silences += bool(reports.silent(now + 80.0))
        reports.observe(0, now + 80.0, prompt=False)
        now += 80.0
    assert 1 <= silences <= 5


@given(TIMES, TIMES)
def test_restored_times_continue_as_the_original(before, after):
    one, now = reported(before)
    other = ReportTimes(1, 0.0)
    state = {name: np.copy(value) for name, value in one.snapshot().items()}
    other.check(state)
    other.restore(state)
    other.listen(now)
    for each in after:
        one.observe(0, now + each, prompt=False)
        other.observe(0, now + each, prompt=False)
        now += each
    for name, value in one.snapshot().items():
        np.testing.assert_array_equal(value, other.snapshot()[name])


def restored(reports):
    """Return the report times of the next process of the daemon."""
    other = ReportTimes(len(reports._sensors), reports._shortest)
    other.restore(reports.snapshot())
    return other


def test_silence_is_counted_over_restarts_without_the_time_in_which_no_daemon_was_running():
    reports, now = reported([8.0] * 20)
    for _ in range(4):
        reports.recommend([], now + 5.0)
        reports = restored(reports)
        now += 1005.0
        reports.listen(now)
        assert reports.silent(now) == []
    assert reports.silence(0, now).time == 20.0
    assert reports.silent(now + 20.0) == [0]


def test_sensor_that_never_reported_is_found_in_spite_of_restarts():
    reports = house([0, 30, 30], 0.0, recommended=[0])
    now, silent = 0.0, []
    while now < 1000.0 and not silent:
        for at in range(10, 51, 10):  # a restart every 50 s, before `UNANSWERED_INTERVALS`
            reports.recommend([0], now + at)
            for arm in (1, 2) if at == 30 else ():
                reports.observe(arm, now + at, prompt=False)
        now += 50.0
        silent = reports.silent(now)
        reports = restored(reports)
        reports.listen(now + 1.0)
        now += 1.0
    assert silent == [0] and now > 50.0 * OVERDUE_FACTOR
    silence = reports.silence(0, now)
    assert (silence.has_reported, silence.time) == (False, pytest.approx(now, abs=20.0))


def test_time_between_reports_is_learned_over_a_short_restart_but_not_over_a_long_one():
    """A sensor that reports once a day, on a gateway that restarts once a day."""
    for away, known in ((60.0, True), (4.0 * 3600.0, False)):
        reports, day = ReportTimes(1, 600.0), 86_400.0
        reports.listen(0.0)
        for n in range(MIN_TIMES + 1):
            reports.observe(0, n * day + 3600.0, prompt=False)
            reports.recommend([], n * day + 7200.0)
            reports = restored(reports)
            reports.listen(n * day + 7200.0 + away)
        assert (reports.silence(0, (MIN_TIMES + 1) * day).usual > 0.0) == known


def test_new_sensor_is_silent_from_the_restart_on():
    reports = house([0, 30], 1000.0)
    state = SensorRows(("a", "b"), ("b", "new")).pick({"turn": 0, **reports.snapshot()})
    other = ReportTimes(2, 10.0)
    other.check(state)
    other.restore(state)
    other.listen(1010.0)
    assert other.silence(0, 1010.0).time == pytest.approx(1000.0 % 30)
    assert other.silence(1, 1010.0).time == 0.0


@pytest.mark.parametrize("name", ["own_count", "own_mean", "recommended_mean", "silence"])
def test_invalid_state_is_rejected(name):
    reports, _ = reported([8.0] * 5)
    state = reports.snapshot()
    with pytest.raises(SnapshotError):
        reports.check({**state, name: -state[name] - 1})
    with pytest.raises(SnapshotError):
        reports.check({**state, name: np.zeros(2)})
