"""Experiment COLD, small."""

import numpy as np
import pytest
from support.recordings import data_source

from edge_tvbo.research.experiments import cold_start, split_experiment
from edge_tvbo.research.experiments.cold_start import FIRST_YEAR, ROOM_STARTS, WHOLE, ColdStart
from edge_tvbo.research.experiments.result_table import Row, case_labels
from edge_tvbo.research.experiments.split_experiment import FIELDS, TrainTestSplit
from edge_tvbo.research.experiments.statistics import summarise

HOUR = 3600.0


def small(days=8):
    """Return a field of five sensors with a day, of which the last two days are for the test."""
    hours = np.arange(days * 24)
    phases = np.arange(5)[:, None]
    values = np.sin(2 * np.pi * (hours / 24 + phases / 5)).T + np.array([0, 0, 1, 0, 2.0])
    values += 0.1 * np.random.default_rng(3).standard_normal(values.shape)
    places = np.arange(10.0).reshape(5, 2)
    return TrainTestSplit(values[:-48], values[-48:], HOUR, 0.0, places)


@pytest.mark.parametrize("start", ROOM_STARTS)
def test_each_start_yields_the_regret_and_the_coverage_of_each_interval(start):
    regret, covered = ROOM_STARTS[start](small(), 0)
    assert len(regret) == len(covered) == 8 * 24 - (12 if start == "from noon" else 0)
    readings = 2 if start.startswith("two") else 4 if start.startswith("survey") else 1
    assert set(covered) <= {hit / readings for hit in range(readings + 1)}
    assert 0.8 < covered.mean() < 1.0
    assert (regret >= 0).all()
    first = ROOM_STARTS["one reading"](small(), 0).regret if start.startswith("survey") else regret
    assert regret[-24:].mean() < 0.6 * first[:24].mean()


def test_two_readings_and_reports_reduce_the_regret():
    one, two, reports = (
        ROOM_STARTS[start](small(), 0).regret[48:].mean()
        for start in ("one reading", "two, after-reply", "reports every 1 h")
    )
    assert two < one
    assert reports < one


def test_survey_reads_four_different_sensors_in_each_interval_of_the_first_day(monkeypatch):
    arms, read = [], cold_start._read
    monkeypatch.setattr(
        cold_start, "_read", lambda policy, arm, y: arms.append(arm) or read(policy, arm, y)
    )

    regret, _ = ROOM_STARTS["survey on day 1"](small(), 0)

    assert len(arms) == 24 * 4 + 7 * 24
    assert all(len({*arms[k : k + 4]}) == 4 for k in range(0, 24 * 4, 4))
    assert regret[:24].mean() < ROOM_STARTS["one reading"](small(), 0).regret[:24].mean()


def test_rows_in_which_no_sensor_was_read_are_not_scored_but_their_time_passes(monkeypatch):
    split, days = small(), []
    hours = np.arange(len(split.training))
    split.training[hours % 3 == 0] = np.nan
    monkeypatch.setattr(
        cold_start.AutoPolicy,
        "set_time",
        lambda _, at, own=cold_start.AutoPolicy.set_time: days.append(at),
    )

    cold = cold_start._cold(split, 0)

    assert days == [HOUR * t for t in range(8 * 24)]
    for each in cold:
        assert np.isnan(each[:144]).tolist() == (hours % 3 == 0).tolist()
        assert np.isfinite(each[144:]).all()
    assert all(
        np.isfinite([*row.numbers.values()]).all()
        for row in cold_start._rows(0, "shares", "one reading", cold, split)
    )


@pytest.mark.parametrize(("days", "first_year"), [(1, 365), (7, 52)])
def test_first_year_of_daily_or_weekly_rows_has_a_row(days, first_year):
    values = np.zeros((400, 2))
    split = TrainTestSplit(values[:300], values[300:], days * cold_start.DAY, 0.0, None)
    run = cold_start.ColdRun(np.repeat([1.0, 0.0], [first_year, 400 - first_year]), np.ones(400))
    rows = list(cold_start._rows(0, "soil", "one reading", run, split))
    regrets = {row.case["part"]: row.numbers["R_T/T"] for row in rows}
    assert regrets[FIRST_YEAR] == 1.0
    assert regrets[WHOLE] == first_year / 400


def test_a_reading_is_compared_with_the_interval_of_before():
    class Policy:
        interval = 0.0, 1.0

        def prediction_interval(self, arm, share):
            assert (arm, share) == (1, 0.9)
            return self.interval

        def observe(self, arm, y):
            assert (arm, y) == (1, 2.0)
            self.interval = 1.0, 3.0

    policy = Policy()
    covered = [cold_start._read(policy, 1, np.array([5.0, 2.0])).covered for _ in range(2)]
    assert covered == [False, True]


@pytest.mark.parametrize(("share", "holds"), [(0.84, False), (0.9, True), (0.96, False)])
def test_coverage_while_learning_has_a_goal(share, holds):
    case = case_labels(place="humidity", start="one reading", part=WHOLE)
    rows = [Row(run, case, {"covered": share}) for run in range(2)]
    goal = cold_start._coverage_goal(summarise(rows), "humidity", "one reading")
    assert f"{share:.1%}" in goal.text
    assert goal.holds is holds


def test_seed_reaches_the_runs_on_a_recording_and_seed_0_is_the_run(monkeypatch):
    drawn = []

    def start(split, seed):
        drawn.append(seed)
        return ROOM_STARTS["reports every 1 h"](small(), seed)

    monkeypatch.setattr(cold_start, "ROOM_STARTS", {"start": start})
    monkeypatch.setattr(cold_start, "YEARS", ())
    monkeypatch.setattr(cold_start, "TRAINED_PLACES", ())
    monkeypatch.setattr(ColdStart, "_rooms", {cold_start.ROOM: small()})
    monkeypatch.setattr(ColdStart, "_fields", {"humidity": small()})
    monkeypatch.setattr(ColdStart, "_drawn_streets", lambda *_: {})
    first, second = (list(ColdStart(data_source())._run(3, seed)) for seed in (0, 1))
    assert drawn[0] == 3
    assert drawn[1] != 3
    assert [row.numbers for row in first] != [row.numbers for row in second]


def test_each_run_draws_when_the_sensors_report():
    first, second = (cold_start._report_waits(5, run) for run in range(2))
    for waits in (first, second):
        assert np.diff(np.sort(waits)) == pytest.approx(0.2)
        assert waits.min() >= 0
        assert waits.max() < 1
    assert first.argsort().tolist() != second.argsort().tolist()
    assert first.min() != second.min()


def test_run_has_a_row_for_each_start_and_number_of_days(recordings, monkeypatch):
    monkeypatch.setattr(cold_start, "ROOM_STARTS", {"one reading": ROOM_STARTS["from noon"]})
    monkeypatch.setattr(cold_start, "YEARS", ("wind 1964",))
    monkeypatch.setattr(cold_start, "TRAINED_PLACES", ("humidity",))
    fields = {place: FIELDS[place] for place in ("humidity", "wind 1964", "shares")}
    monkeypatch.setattr(split_experiment, "FIELDS", fields)
    experiment = ColdStart(data_source(recordings))
    rows = experiment.measure(range(1), 0)
    cases = [tuple(row.case.values()) for row in rows]
    assert ("humidity", "6 days", "test days") in cases
    assert ("wind 1964", "trained", "test days") in cases
    assert len(set(cases)) == len(cases)
    assert all(("covered" in row.numbers) == (row.case["start"] == "one reading") for row in rows)
    figure = pytest.importorskip("matplotlib.figure").Figure()
    experiment.draw(figure, summarise(rows))
    assert "COLD" in figure.get_suptitle()
    assert ("humidity", "one reading", WHOLE) in cases
    assert ("shares", "one reading", FIRST_YEAR) in cases
    assert all(np.isfinite([*row.numbers.values()]).all() for row in rows)
    goal = cold_start._days_goal(summarise(rows), "humidity")
    assert "1: 0." in goal.text
