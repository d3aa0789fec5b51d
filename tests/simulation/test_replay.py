"""Replay: regret computed by hand on a small recording, published regrets on the Intel lab."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.examples import max_examples
from support.recordings import MIDNIGHT, data_source, small_recording

from edge_tvbo.control.controller import Controller
from edge_tvbo.errors import DataError
from edge_tvbo.messages.commands import Activate, PublishState, Record
from edge_tvbo.messages.documents import Reason
from edge_tvbo.messages.events import Reading
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy, needing_positions, policies
from edge_tvbo.simulation.backtest import Backtest, ReplayJob, faulty_text, results_table
from edge_tvbo.simulation.replay import (
    Pace,
    ReplayRecorder,
    SimulatedSensors,
    controller_settings,
    mean_and_sd,
    replay,
)
from edge_tvbo.simulation.row_range import RowRange, days, split
from edge_tvbo.simulation.training_rows import training_rows

# --- by hand --------------------------------------------------------------------------------------


def run(recording, name="round-robin", span=None, watch=lambda _: None, **more):
    scale = SensorField(
        recording.sensors,
        np.eye(len(recording.sensors)),
        0.01,
        center=15.0,
        scale=5.0,
        objective=recording.objective,
    )
    controller = Controller(make_policy(name, scale, **more), controller_settings(recording))
    return replay(recording, span or RowRange(0, len(recording.values)), controller, watch)


def test_regret_is_the_difference_to_the_hottest_observed_sensor():
    """In row 1 the gap of b is filled by 40; b counts as the mean of 11 and 13."""
    recorder = run(small_recording())
    assert recorder.picks.tolist() == [0, 1, 2, 0, 1]
    assert recorder.regret.tolist() == [5.0, 1.0, 2.0, 7.0, 0.0]
    assert (recorder.activations, recorder.missed, recorder.resets) == (5, 1, 0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e20, -1e20, 1.797e308])
def test_a_test_reading_of_an_impossible_size_is_named(value):
    """It counted as the best value, so the regret of each policy had dozens of digits."""
    values = small_recording().values.copy()
    values[4, 1] = value
    spans = RowRange(0, 4), RowRange(4, 5)
    with pytest.raises(DataError, match=re.escape(f"small: b has the reading {value:.4g} on the")):
        Backtest(small_recording(values=values), *spans)
    observed = small_recording().observed.copy()
    observed[4, 1] = False
    Backtest(small_recording(values=values, observed=observed), *spans)


@pytest.mark.parametrize(("center", "difference", "later"), [(0.0, 1e-3, 1e5), (20.0, 1e-9, 22.0)])
def test_training_readings_may_be_nearly_constant(center, difference, later):
    """The first case is the light at night, in lux; the test readings are at noon."""
    values = np.full((5, 3), later)
    values[:4] = center + difference * np.eye(4, 3)
    Backtest(small_recording(values=values), RowRange(0, 4), RowRange(4, 5))


def test_a_reply_that_fills_a_gap_is_not_scored_as_the_truth():
    small = small_recording()
    recorder = run(small_recording(replies=np.ones(small.values.shape, np.bool_)))
    assert recorder.picks.tolist() == [0, 1, 2, 0, 1]
    assert recorder.regret.tolist() == [5.0, 1.0, 2.0, 7.0, 0.0]
    assert recorder.missed == 0


def test_a_sensor_that_died_hot_is_no_better_than_a_random_one():
    """As on the raw Intel lab, where --gaps filled gave a regret of 0.000 for `static`."""
    rng = np.random.default_rng(0)
    values = 20.0 + rng.normal(size=(100, 4)).cumsum(axis=0) / 10
    observed = np.ones(values.shape, np.bool_)
    values[40:, 0], observed[50:, 0] = 122.0, False  # its last readings fill the rest
    changes = {"sensors": ("a", "b", "c", "d"), "values": values, "observed": observed}
    recording = small_recording(**changes, replies=np.ones(values.shape, np.bool_))
    backtest = Backtest(recording, RowRange(0, 60), RowRange(60, 100))
    static, drawn = (backtest.run(each, {}, 8).regret.mean() for each in ("static", "random"))
    assert backtest.run("static", {}, 1).settings == {"sensor": "a"}
    assert static == pytest.approx(drawn, rel=0.25)


def test_table_names_the_sensors_that_the_controller_excluded_as_faulty():
    """The regret of such a replay is high: in one recording, 0.380 instead of 0.015."""
    rng = np.random.default_rng(0)
    values = 20.0 + rng.normal(size=(300, 4)).cumsum(axis=0) / 10
    values[:, 1] = values.max()
    observed = np.ones(values.shape, np.bool_)
    recording = small_recording(sensors=("a", "b", "c", "d"), values=values, observed=observed)
    backtest = Backtest(recording, RowRange(0, 200), RowRange(200, 300))
    constant = backtest.run("kalman-ucb", {}, 3)
    working = dataclasses.replace(constant, faulty=((), (), ()))

    assert constant.faulty == (("b",), ("b",), ("b",))
    assert faulty_text([constant, working, backtest.oracle()]) == "b (in 3 of 6 replays)"
    assert "excluded as faulty: b (in 3 of 3 replays)" in results_table([constant])
    assert "faulty" not in results_table([working])


def test_faulty_sensors_have_their_readable_names_and_the_most_frequent_is_first():
    recording = small_recording(names={"a": "Attic"})
    backtest = Backtest(recording, RowRange(0, 3), RowRange(3, 5))
    run = backtest.run_job(ReplayJob("random", 0))
    runs = [replace(run, faulty=faulty) for faulty in (("c", "a"), ("a",))]
    result = backtest.result("random", {}, runs)
    assert faulty_text([result]) == "Attic (in 2 of 2 replays), c (in 1 of 2 replays)"


@pytest.mark.parametrize("name", ["tv-gp-ucb", "et-gp-ucb", "round-robin"])
def test_decisions_without_texts_are_the_same(name):
    recording, commands = small_recording(), {}
    field = SensorField(recording.sensors, np.eye(3), 0.01, center=15.0, scale=5.0)
    digests = set()
    for with_text in (True, False):
        seen = commands[with_text] = []
        controller = Controller(
            make_policy(name, field), controller_settings(recording), with_text=with_text
        )
        digests.add(replay(recording, RowRange(0, 5), controller, seen.append).digest())
    assert len(digests) == 1
    decisions = [
        [each.decision for each in seen if isinstance(each, PublishState)]
        for seen in commands.values()
    ]
    assert len(decisions[0]) == 5
    assert all(each.text for each in decisions[0])
    nothing = {"factors": [], "text": "", "width": None, "runner_up": None, "runner_up_ucb": None}
    assert decisions[1] == [replace(each, **nothing) for each in decisions[0]]


@pytest.mark.parametrize("change", [{"sensor": "b"}, {"mean": 9.0}, {"reason": Reason.PROBE}])
def test_digest_depends_on_decisions_but_not_on_their_texts(change):
    recording, commands = small_recording(), []
    run(recording, watch=commands.append)
    (decision,) = [each.decision for each in commands if isinstance(each, PublishState)][:1]

    field = SensorField(recording.sensors, np.eye(len(recording.sensors)), 0.01)

    def digest(decision):
        recorder = ReplayRecorder(recording, RowRange(0, 5), make_policy("round-robin", field))
        recorder.record(PublishState(decision))
        return recorder.digest()

    other = {"text": "other", "factors": ["words"], "width": 2.0, "runner_up": "b"}
    assert digest(replace(decision, **other)) == digest(decision)
    assert digest(replace(decision, **change)) != digest(decision)


def test_regret_for_the_objective_min_is_the_difference_to_the_coldest():
    recorder = run(small_recording(objective="min"))
    assert recorder.picks.tolist() == [0, 1, 2, 0, 1]
    assert recorder.regret.tolist() == [0.0, 1.0, 5.0, 0.0, 10.0]


def test_replay_of_a_range_counts_intervals_from_0():
    recorder = run(small_recording(), span=RowRange(2, 4))
    assert recorder.picks.tolist() == [0, 1]
    assert recorder.regret.tolist() == [7.0, 0.0]


def test_rows_without_observations_are_left_out():
    """Intervals keep their numbers and times, and each policy advances over the gap."""
    recording, seen = small_recording(), []
    recording.observed[[0, 2, 3]] = False
    recorder = run(recording, watch=seen.append)
    assert recorder.regret.tolist() == [2.0, 10.0]
    assert [c.decision.interval for c in seen if isinstance(c, PublishState)] == [1, 4]
    times = [(c.at - MIDNIGHT) / 600.0 for c in seen if isinstance(c, Activate)]
    assert times == [1.0, 4.0]


@pytest.mark.parametrize("name", ["tv-gp-ucb", "auto"])
def test_a_policy_advances_over_rows_without_observations(name):
    """The standard deviation grows as if the interval had passed without a reply."""
    stds = []
    for gap in (1, 30):
        observed = np.ones((40, 1), bool)
        observed[1 : 1 + gap] = False
        values = np.full(observed.shape, 10.0)
        recording = small_recording(sensors=("a",), values=values, observed=observed)
        stds.append(run(recording, name).steps["std"][1])
    assert stds[1] > stds[0]


def test_a_replay_does_not_limit_the_intervals_of_a_gap():
    """A limit would change the decisions after the gap, and with them `decisions_sha256`."""
    values = np.full((10_010, 3), 10.0)
    observed = np.ones(values.shape, np.bool_)
    observed[2:10_003] = False
    recording = small_recording(sensors=("a", "b", "c"), values=values, observed=observed)
    picks = run(recording).picks
    assert picks[2:].tolist() == [row % 3 for row in range(10_003, 10_010)]


def test_rows_without_observations_are_not_trained_on():
    recording = small_recording()
    recording.observed[1] = False
    rows = training_rows(recording, RowRange(0, 3))
    assert np.isnan(rows[1]).all()
    np.testing.assert_array_equal(rows[[0, 2]], recording.values[[0, 2]])


def test_watch_sees_all_commands_with_the_times_of_the_recording():
    seen = []
    run(small_recording(), span=RowRange(1, 3), watch=seen.append)
    activations = [command for command in seen if isinstance(command, Activate)]
    assert [(a.sensor, a.at - MIDNIGHT) for a in activations] == [("a", 600.0), ("b", 1200.0)]
    assert [a.expires_at - a.at for a in activations] == [120.0, 120.0]
    values = [command.value for command in seen if isinstance(command, Record)]
    assert values == [11.0, 16.0]


@pytest.mark.parametrize("start", [MIDNIGHT, MIDNIGHT + 0.3])
@pytest.mark.parametrize("interval", [0.7, 86.4, 600.0])
def test_a_missing_reply_delays_no_interval_of_a_replay(start, interval):
    """The last deadline of an interval and the start of the next one are rounded differently."""
    rng = np.random.default_rng(0)
    sensors = tuple("abcdefgh")
    recording = small_recording(
        sensors=sensors,
        start=start,
        interval=interval,
        values=rng.normal(size=(100, 8)),
        observed=rng.random((100, 8)) < 0.5,
    )
    policy = make_policy("round-robin", SensorField(sensors, np.eye(8), 0.01))
    controller = Controller(policy, controller_settings(recording, Pace(per_interval=6)))
    began = {}
    replay(
        recording,
        RowRange(0, 100),
        controller,
        lambda each: isinstance(each, Activate) and began.setdefault(each.interval, each.at),
    )
    assert began == {row: start + row * interval for row in range(100)}


def test_simulated_sensor_replies_with_its_recorded_reading():
    sensors = SimulatedSensors(small_recording())
    at = MIDNIGHT + 2 * 600.0
    assert sensors.reply(Activate("b", 0, at, at + 120)) == Reading("b", 16.0, at=at, received=at)


@pytest.mark.parametrize("interval", [0.001, 0.01, 0.07, 1.0, 600.0])
def test_simulated_sensors_reply_with_the_reading_of_the_row_at_any_interval(interval):
    of_rows = 15.0 + np.arange(1000) % 7
    values = np.column_stack([of_rows, of_rows, of_rows])
    recording = small_recording(interval=interval, values=values, observed=values > 0.0)
    recorder = run(recording)
    assert recorder.steps["reply"].tolist() == of_rows.tolist()


def test_gap_gives_an_elapsed_deadline():
    at = MIDNIGHT + 600.0
    event = SimulatedSensors(small_recording()).reply(Activate("b", 7, at, at + 120))
    assert (event.interval, event.at) == (7, at + 120)


@given(st.integers(0, 2**31), st.sampled_from(["max", "min"]))
@max_examples(40)
def test_regret_is_never_negative_and_timeouts_are_the_gaps(seed, objective):
    recording = small_recording(objective=objective)
    recorder = run(recording, "random", seed=seed)
    assert (recorder.regret >= 0).all()
    gaps = ~recording.observed[np.arange(len(recorder.picks)), recorder.picks]
    assert recorder.missed == gaps.sum()
    assert recorder.activations == len(recording.values)


def test_mean_and_sd_of_several_values_and_of_one():
    assert mean_and_sd([1.0, 2.0, 3.0]) == (2.0, 1.0)
    assert mean_and_sd([4.0]) == (4.0, 0.0)


# --- days -----------------------------------------------------------------------------------------


@pytest.fixture
def week():
    """Two sensors, an hour a row, 2004-03-01 to 2004-03-04."""
    zeros = np.zeros((96, 2))
    return small_recording(sensors=("a", "b"), interval=3600.0, values=zeros, observed=zeros == 0.0)


def test_range_of_days_includes_both_ends(week):
    assert days(week, "2004-03-01:2004-03-04") == RowRange(0, 96)
    assert days(week, "2004-03-02:2004-03-03") == RowRange(24, 72)
    assert days(week, "2004-03-03") == RowRange(48, 72)
    assert len(training_rows(week, RowRange(24, 72))) == 48


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "yesterday",
        "2004-03-01:",
        "2004-03-01:x",
        "2004-02-30",
        "2004-3-1",
        "2004-03-01:2004-03-02:2004-03-03",
    ],
)
def test_invalid_range_of_days_is_rejected_with_an_example(week, text):
    with pytest.raises(DataError, match="such as 2004-03-01:2004-03-06"):
        days(week, text)


@pytest.mark.parametrize(
    "text",
    [
        "2004-02-29:2004-03-01",
        "2004-03-04:2004-03-05",
        "1999-01-01",
    ],
)
def test_days_outside_the_recording_are_rejected_with_its_days(week, text):
    with pytest.raises(DataError, match="contains only the days 2004-03-01:2004-03-04"):
        days(week, text)


@pytest.mark.parametrize("text", ["2004-03-03:2004-03-01", "2004-03-03:2004-03-02"])
def test_days_in_the_reverse_order_are_rejected_with_the_right_order(week, text):
    first, last = text.split(":")
    with pytest.raises(DataError, match=f"later than the last; write  {last}:{first}"):
        days(week, text)


def test_days_of_a_recording_that_begins_and_ends_within_a_day(week):
    six_hours = 6 * 3600.0
    later = replace(week, start=week.start + six_hours)  # to 6 h on day 5
    assert days(later, "2004-03-01:2004-03-04") == RowRange(0, 90)
    assert days(later, "2004-03-02:2004-03-05") == RowRange(18, 96)
    assert days(later, "2004-03-01") == RowRange(0, 18)


def test_last_day_of_the_calendar_is_rejected(week):
    with pytest.raises(DataError):
        days(week, "2004-03-01:9999-12-31")


def test_split_divides_the_intervals_by_a_share(week):
    assert split(week) == (RowRange(0, 72), RowRange(72, 96))


def test_the_table_prints_all_digits_of_large_counts():
    result = Backtest(small_recording(), RowRange(0, 4), RowRange(4, 5)).run("random", {}, seeds=1)
    row = results_table([dataclasses.replace(result, activations=[172_800])]).splitlines()[1]
    assert row.split()[:4] == ["random", f"{result.regret.mean():.3f}", "-", "172800"]


# --- the Intel lab --------------------------------------------------------------------------------

# Test days, training days, and the regrets of random and of R-GP-UCB with N = 15.
SPLITS = [
    ("2004-03-07:2004-03-08", "2004-03-01:2004-03-06", 0.968, 0.340),
    ("2004-03-05:2004-03-06", "2004-03-01:2004-03-04", 0.717, 0.246),
    ("2004-03-03:2004-03-04", "2004-03-01:2004-03-02", 1.242, 0.249),
]


@pytest.fixture(scope="module")
def lab(recordings):
    return data_source(recordings).load("intel-lab")


@pytest.fixture(scope="module")
def filled_lab(recordings):
    return data_source(recordings).load("intel-lab", "paper")


def backtest_of(lab, test=SPLITS[0][0], training=SPLITS[0][1]):
    return Backtest(lab, days(lab, training), days(lab, test))


@pytest.mark.parametrize(("test", "training", "random", "periodic"), SPLITS)
def test_regrets_on_the_lab_are_those_of_independent_code(
    filled_lab, test, training, random, periodic
):
    """The expected numbers come from other code, without gaps: R_T/T in sd of the training data."""
    backtest = backtest_of(filled_lab, test, training)
    random_regret = backtest.run("random", {}, seeds=12).regret.mean()
    assert random_regret == pytest.approx(random, abs=0.03)
    periodic_regret = backtest.run("r-gp-ucb", {"period": 15}, seeds=6).regret.mean()
    assert periodic_regret == pytest.approx(periodic, abs=0.002)


@pytest.mark.parametrize("name", [name for name in policies() if name not in needing_positions()])
def test_replays_of_the_lab_are_reproducible_and_counts_agree(lab, name):
    backtest = backtest_of(lab, "2004-03-03:2004-03-04")  # the days with the most gaps
    first, again = backtest.run(name, {}, seeds=2), backtest.run(name, {}, seeds=2)
    assert first.digests == again.digests
    if name not in (
        "sw-gp-ucb",
        "igp-ucb",
        "br-gp-ucb",
        "w-gp-ucb",
        "auto",
        "kalman-ucb",
        "static",
    ):  # their bounds differ from the start, so no ties are broken at random
        assert len(set(first.digests)) == 2
    assert np.array_equal(first.picks, again.picks)
    assert (first.regret >= 0).all()
    assert first.regret.shape == (2, 288)
    assert first.activations == [288, 288]
    observed = lab.observed[288:576]
    gaps = [int((~observed[np.arange(288), picks]).sum()) for picks in first.picks]
    assert first.missed == gaps


def test_replay_of_the_lab_hits_gaps(lab):
    """Otherwise the test above would compare zeros."""
    assert sum(backtest_of(lab, "2004-03-03:2004-03-04").run("random", {}, seeds=3).missed) > 0


def test_oracle_has_no_regret(lab):
    oracle = backtest_of(lab).oracle().document()
    assert oracle["regret_per_interval"]["mean"] == 0.0
    assert oracle["activations"] == 288


def test_result_document_agrees_with_the_result(lab):
    progress = []
    result = backtest_of(lab).run("r-gp-ucb", {"period": 36}, 2, progress=progress.append)
    document = result.document()
    assert progress == [1, 2]
    assert document["policy"] == "r-gp-ucb"
    assert document["resets"] == 7.0  # after 36, 72, ... 252 of 288 intervals
    assert document["regret_per_interval"]["seeds"] == pytest.approx(result.regret.mean(axis=1))
    assert document["regret_per_interval"]["mean"] == pytest.approx(result.regret.mean())


def test_days_outside_the_lab_are_rejected_with_its_days(lab):
    with pytest.raises(DataError, match="intel-lab contains only the days 2004-03-01:2004-03-08"):
        days(lab, "2004-03-07:2004-03-09")
