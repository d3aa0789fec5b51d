"""Recorded networks: sums by hand on a tiny one, the papers' figures on the Intel lab's."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.paths import SHARED

from edge_tvbo import plugins
from edge_tvbo.control.controller import Controller
from edge_tvbo.control.decision_text import DecisionBuilder, Silent
from edge_tvbo.errors import DataError
from edge_tvbo.messages.commands import Activate, PublishState, Record
from edge_tvbo.messages.documents import Reason
from edge_tvbo.messages.events import Reading
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy, needing_positions, policies
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.replay import (
    RowRange,
    SimulatedSensors,
    Tally,
    days,
    mean_and_sd,
    replay,
    rules,
    split,
    training_rows,
)

MIDNIGHT = datetime(2004, 3, 1, tzinfo=UTC).timestamp()

# --- by hand ------------------------------------------------------------------------------------


@dataclass
class Tiny:
    """Three sensors; round-robin from the first meets 10, a gap, 14, 9, 30."""

    objective: str = "max"
    name: str = "tiny"
    unit: str = "°C"
    sensors: tuple = ("a", "b", "c")
    start: float = MIDNIGHT
    interval: float = 600.0
    values: np.ndarray = field(
        default_factory=lambda: np.array(
            [
                [10.0, 12.0, 15.0],
                [11.0, 40.0, 13.0],  # b is filled in: nobody saw 40
                [9.0, 16.0, 14.0],
                [9.0, 16.0, 99.0],  # c likewise
                [20.0, 30.0, 25.0],
            ]
        )
    )
    gaps: tuple = ((1, 1), (3, 2))
    positions: None = None
    source: str = "made up"

    def __post_init__(self):
        self.observed = np.ones(self.values.shape, np.bool_)
        for gap in self.gaps:
            self.observed[gap] = False


def run(recording, name="round-robin", span=None, watch=lambda _: None, **more):
    scale = SensorField(
        recording.sensors,
        np.eye(len(recording.sensors)),
        0.01,
        center=15.0,
        scale=5.0,
        objective=recording.objective,
    )
    controller = Controller(make_policy(name, scale, **more), rules(recording))
    return replay(recording, span or RowRange(0, len(recording.values)), controller, watch)


def test_regret_is_what_the_hottest_observed_sensor_showed_above_the_chosen_one():
    """Row 1: b has a gap and counts as its filled 40, above the hottest seen: no regret."""
    tally = run(Tiny())
    assert tally.picks.tolist() == [0, 1, 2, 0, 1]
    assert tally.regret.tolist() == [5.0, 0.0, 2.0, 7.0, 0.0]
    assert (tally.activations, tally.missed, tally.resets) == (5, 1, 0)


@pytest.mark.parametrize("name", ["tv-gp-ucb", "et-gp-ucb", "round-robin"])
def test_without_words_the_same_is_decided(name):
    recording, told = Tiny(), {}
    field = SensorField(recording.sensors, np.eye(3), 0.01, center=15.0, scale=5.0)
    digests = set()
    for narrator in (DecisionBuilder, Silent):
        said = told[narrator] = []
        controller = Controller(make_policy(name, field), rules(recording), narrator)
        digests.add(replay(recording, RowRange(0, 5), controller, said.append).digest())
    assert len(digests) == 1
    decisions = [
        [each.decision for each in said if isinstance(each, PublishState)] for said in told.values()
    ]
    assert len(decisions[0]) == 5
    assert all(each.text for each in decisions[0])
    assert decisions[1] == [replace(each, factors=[], text="") for each in decisions[0]]


@pytest.mark.parametrize("change", [{"sensor": "b"}, {"mean": 9.0}, {"reason": Reason.PROBE}])
def test_the_hash_is_of_what_was_decided_and_not_of_how_it_is_told(change):
    recording, said = Tiny(), []
    run(recording, watch=said.append)
    (decision,) = [each.decision for each in said if isinstance(each, PublishState)][:1]

    def digest(decision):
        tally = Tally(recording, RowRange(0, 5))
        tally.take(PublishState(decision))
        return tally.digest()

    assert digest(replace(decision, text="otherwise", factors=["told"])) == digest(decision)
    assert digest(replace(decision, **change)) != digest(decision)


def test_for_the_coldest_regret_is_measured_from_below():
    tally = run(Tiny(objective="min"))
    assert tally.picks.tolist() == [0, 1, 2, 0, 1]
    assert tally.regret.tolist() == [0.0, 29.0, 5.0, 0.0, 10.0]


def test_a_span_is_replayed_alone_and_counted_from_0():
    tally = run(Tiny(), span=RowRange(2, 4))
    assert tally.picks.tolist() == [0, 1]
    assert tally.regret.tolist() == [7.0, 0.0]


def test_a_row_without_any_observation_is_measured_by_what_was_filled_in():
    recording = Tiny()
    recording.observed[0] = False
    assert run(recording).regret[0] == 5.0


def test_each_command_is_watched_and_the_clock_is_the_recordings():
    seen = []
    run(Tiny(), span=RowRange(1, 3), watch=seen.append)
    asked = [command for command in seen if isinstance(command, Activate)]
    assert [(a.sensor, a.at - MIDNIGHT) for a in asked] == [("a", 600.0), ("b", 1200.0)]
    assert [a.expires_at - a.at for a in asked] == [120.0, 120.0]
    values = [command.value for command in seen if isinstance(command, Record)]
    assert values == [11.0, 16.0]


def test_a_recorded_sensor_answers_with_what_it_measured_then():
    sensors = SimulatedSensors(Tiny())
    at = MIDNIGHT + 2 * 600.0
    assert sensors.answer(Activate("b", 0, at, at + 120)) == Reading("b", 16.0, at=at, received=at)


def test_a_gap_answers_with_the_deadline():
    at = MIDNIGHT + 600.0
    event = SimulatedSensors(Tiny()).answer(Activate("b", 7, at, at + 120))
    assert (event.interval, event.at) == (7, at + 120)


@given(st.integers(0, 2**31), st.sampled_from(["max", "min"]))
@settings(max_examples=40)
def test_regret_is_never_negative_and_misses_are_the_gaps_that_were_hit(seed, objective):
    recording = Tiny(objective=objective)
    tally = run(recording, "random", seed=seed)
    assert (tally.regret >= 0).all()
    gaps = ~recording.observed[np.arange(len(tally.picks)), tally.picks]
    assert tally.missed == gaps.sum()
    assert tally.activations == len(recording.values)


def test_mean_and_sd_of_a_few_and_of_one():
    assert mean_and_sd([1.0, 2.0, 3.0]) == (2.0, 1.0)
    assert mean_and_sd([4.0]) == (4.0, 0.0)


# --- days ---------------------------------------------------------------------------------------


@pytest.fixture
def week():
    """Two sensors, an hour a row, 2004-03-01 to 2004-03-04."""
    return Tiny(sensors=("a", "b"), interval=3600.0, values=np.zeros((96, 2)), gaps=())


def test_a_span_of_days_holds_both_ends(week):
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
def test_what_is_no_span_of_days_is_refused_with_one_that_is(week, text):
    with pytest.raises(DataError, match="write  2004-03-01:2004-03-06"):
        days(week, text)


@pytest.mark.parametrize(
    "text",
    [
        "2004-02-29:2004-03-01",
        "2004-03-04:2004-03-05",
        "2004-03-03:2004-03-01",
        "1999-01-01",
        "2004-03-03:2004-03-02",
    ],
)
def test_days_that_the_recording_does_not_hold_are_refused_with_those_it_does(week, text):
    with pytest.raises(DataError, match="holds the days 2004-03-01:2004-03-04"):
        days(week, text)


def test_the_last_day_there_is_is_refused_like_any_other(week):
    with pytest.raises(DataError):
        days(week, "2004-03-01:9999-12-31")


def test_a_share_splits_the_intervals(week):
    assert split(week, 0.75) == (RowRange(0, 72), RowRange(72, 96))


# --- the Intel lab ------------------------------------------------------------------------------

needs_the_lab = pytest.mark.skipif(
    not (SHARED / "intel_lab_10min.csv.gz").is_file(), reason=f"no intel-lab dataset in {SHARED}"
)
# Test days, what random and R-GP-UCB with N = 15 come to on them; all days before them train.
SPLITS = [
    ("2004-03-07:2004-03-08", "2004-03-01:2004-03-06", 0.968, 0.340),
    ("2004-03-05:2004-03-06", "2004-03-01:2004-03-04", 0.717, 0.246),
    ("2004-03-03:2004-03-04", "2004-03-01:2004-03-02", 1.242, 0.249),
]


@pytest.fixture(scope="module")
def lab():
    return plugins.load("datasets", "intel-lab").load([str(SHARED)])


def backtest_of(lab, test=SPLITS[0][0], training=SPLITS[0][1]):
    return Backtest(lab, days(lab, training), days(lab, test))


@needs_the_lab
@pytest.mark.parametrize(("test", "training", "random", "periodic"), SPLITS)
def test_the_lab_gives_the_regrets_that_were_measured_independently(
    lab, test, training, random, periodic
):
    """The figures are of a first try by other code, R_T/T in training standard deviations."""
    backtest = backtest_of(lab, test, training)
    blind = backtest.run("random", {}, seeds=12).regret.mean()
    assert blind == pytest.approx(random, abs=0.03)
    reset = backtest.run("r-gp-ucb", {"period": 15}, seeds=6).regret.mean()
    assert reset == pytest.approx(periodic, abs=0.01)


@needs_the_lab
@pytest.mark.parametrize("name", [name for name in policies() if name not in needing_positions()])
def test_in_the_lab_a_seed_decides_everything_and_the_counts_add_up(lab, name):
    backtest = backtest_of(lab, "2004-03-03:2004-03-04")  # the days with most gaps
    first, again = backtest.run(name, {}, seeds=2), backtest.run(name, {}, seeds=2)
    assert first.digests == again.digests
    if name not in (
        "sw-gp-ucb",
        "igp-ucb",
        "br-gp-ucb",
        "w-gp-ucb",
        "auto",
        "static",
    ):  # their width is above 0 from the start, so nothing ties
        assert len(set(first.digests)) == 2
    assert np.array_equal(first.picks, again.picks)
    assert (first.regret >= 0).all()
    assert first.regret.shape == (2, 288)
    assert first.activations == [288, 288]
    observed = lab.observed[288:576]
    gaps = [int((~observed[np.arange(288), picks]).sum()) for picks in first.picks]
    assert first.missed == gaps


@needs_the_lab
def test_in_the_lab_some_gap_is_hit(lab):
    """Else the test above compares zeros."""
    assert sum(backtest_of(lab, "2004-03-03:2004-03-04").run("random", {}, seeds=3).missed) > 0


@needs_the_lab
def test_whoever_sees_everything_has_no_regret(lab):
    oracle = backtest_of(lab).oracle().document()
    assert oracle["regret_per_interval"]["mean"] == 0.0
    assert oracle["activations"] == 288


@needs_the_lab
def test_a_result_is_told_as_a_document(lab):
    told = []
    result = backtest_of(lab).run("r-gp-ucb", {"period": 36}, 2, progress=told.append)
    document = result.document()
    assert told == [1, 2]
    assert document["policy"] == "r-gp-ucb"
    assert document["resets"] == 7.0  # after 36, 72, ... 252 of 288 intervals
    assert document["regret_per_interval"]["seeds"] == pytest.approx(result.regret.mean(axis=1))
    assert document["regret_per_interval"]["mean"] == pytest.approx(result.regret.mean())


@needs_the_lab
def test_the_labs_days_are_named_where_others_are_asked_for(lab):
    with pytest.raises(DataError, match="intel-lab holds the days 2004-03-01:2004-03-08"):
        days(lab, "2004-03-07:2004-03-09")
