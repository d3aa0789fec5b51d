"""What is known of every field: whatever comes, it is folded or counted, and never too much."""

import json

import msgspec
import pytest
from edge_tvbo_adapters.dashboard.day import MOST, MOST_CELLS, tape
from edge_tvbo_adapters.dashboard.state import (
    MOST_NOTICES,
    MOST_PICKS,
    DashboardField,
    DashboardState,
)
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.errors import DataError
from edge_tvbo.messages.commands import Ending, Record
from edge_tvbo.messages.documents import Decision, Model, Posterior, Reason
from edge_tvbo.messages.history import HistoryEntry, PosteriorSnapshot, QuantizedArray

SENSORS = ("a", "b", "c")
BASE = "edge_tvbo/lab"
KINDS = ("selected", "posterior", "hotspot", "event")


def board():
    return DashboardState("lab", {"heat": DashboardField(SENSORS, "°C", "max", 1.0, None)})


def decision(interval, sensor="a", *, resets=0, day=1):
    at = f"2026-11-{day:02}T00:{interval // 60:02}:{interval % 60:02}Z"
    return Decision(
        interval, at, at, sensor, "et-gp-ucb", 20.0, 1.0, 22.0, "°C", Reason.EXPLORE, [], "text",
        Model(1, resets),
    )  # fmt: skip


def posterior(interval, ending=None, value=None):
    return Posterior(
        interval, "2026-11-01T00:00:00Z", ending, "°C", SENSORS,
        mean=[20.0, 21.0, 22.0], std=[1.0] * 3, last=[value, None, None], age_s=[0.0, None, None],
    )  # fmt: skip


def given_to(board, kind, document):
    return board.take(f"{BASE}/heat/{kind}", msgspec.json.encode(document))


topics = st.sampled_from(
    [f"{BASE}/{each}" for each in ("status", "health", "event", "", "x/y/z", "cold/selected")]
    + [f"{BASE}/heat/{kind}" for kind in KINDS]
)
documents = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
).map(lambda each: json.dumps(each).encode())


@given(st.lists(st.tuples(topics, st.binary() | documents), max_size=8))
def test_whatever_comes_is_folded_or_counted_and_can_be_told(messages):
    made = board()
    for topic, payload in messages:
        for _, document in made.take(topic, payload):
            msgspec.json.encode(document)
    msgspec.json.encode(made.view())


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, "answered", "missed"]))))
def test_a_posterior_touches_the_interval_it_speaks_of_and_no_other(told):
    made = board()
    given_to(made, "selected", decision(1))
    given_to(made, "selected", decision(2, "b"))
    for interval, ending in told:
        given_to(made, "posterior", posterior(interval, ending, 20.5))
    first, second = made.view().fields["heat"].picks
    about = [ending for interval, ending in told if interval == 2]
    assert first.ending is None
    assert second.ending == (about[-1] if about else None)


def test_an_answer_is_known_with_its_value():
    made = board()
    given_to(made, "selected", decision(1))
    ((_, change),) = given_to(made, "posterior", posterior(1, "answered", 20.5))
    assert (change["pick"].ending, change["pick"].value) == ("answered", 20.5)
    given_to(made, "selected", decision(1))  # retained, told again after a reconnect
    assert made.view().fields["heat"].picks[-1].value == 20.5


def test_a_choice_is_explained_by_what_was_believed_before_its_answer():
    made = board()
    given_to(made, "selected", decision(1))
    given_to(made, "posterior", posterior(1))
    after = msgspec.structs.replace(posterior(1, "answered", 20.5), mean=[20.5, 20.5, 20.5])
    given_to(made, "posterior", after)
    assert made.fields["heat"].frames[-1].mean == [20.0, 21.0, 22.0]
    view = made.view().fields["heat"]
    assert (view.chosen_by.ending, view.posterior.ending) == (None, "answered")


def test_what_is_retained_may_come_in_any_order():
    there, back = board(), board()
    told = [("selected", decision(7)), ("posterior", posterior(7, "answered", 20.5))]
    for kind, document in told:
        given_to(there, kind, document)
    for kind, document in reversed(told):
        given_to(back, kind, document)
    assert there.view().fields == back.view().fields


def test_another_decision_of_the_same_interval_takes_its_place():
    made = board()
    for each in ("a", "c"):
        given_to(made, "selected", decision(1, each))
    assert [each.sensor for each in made.view().fields["heat"].picks] == ["c"]


def test_nothing_grows_with_time():
    made = board()
    for interval in range(3000):
        given_to(made, "selected", decision(interval))
        notice = {"event": "reload", "at": "2026-11-01T00:00:00Z", "text": "t"}
        given_to(made, "event", notice)
    view = made.view().fields["heat"]
    assert len(view.picks) == MOST_PICKS and len(view.notices) == MOST_NOTICES
    assert len(made.fields["heat"].frames) <= 1500


@pytest.mark.parametrize(
    "kind, payload",
    [
        ("selected", b'"' + b"x" * 2**15 + b'"'),
        ("selected", msgspec.json.encode(decision(1, "stranger"))),
        ("posterior", msgspec.json.encode(posterior(1)).replace(b"[1.0,1.0,1.0]", b"[1.0]")),
        ("event", b"\xff"),
    ],
)
def test_what_is_too_large_or_does_not_fit_is_counted(kind, payload):
    made = board()
    assert made.take(f"{BASE}/heat/{kind}", payload) == []
    assert made.unreadable == 1 and made.view().fields["heat"].picks == []


def test_the_broker_is_lost_once_and_from_when_it_was():
    made = board()
    made.linked()
    (_, first), (_, second) = made.linked(why="gone")[0], made.linked(why="refused")[0]
    assert not first.broker.online
    assert (second.broker.since, second.broker.why) == (first.broker.since, "gone")


# --- a recorded day -------------------------------------------------------------------------------


class Kept:
    """A past in memory."""

    def __init__(self, entries):
        self.entries = entries

    def newest(self, field, count):
        return self.entries[::-1][:count]

    def close(self):
        pass


def entry(interval, day=1):
    record = Record(interval, 0.0, "a", Ending.ANSWERED, 20.25, 0.5, None, False)
    levels = QuantizedArray(20.0, 22.0, bytes([0, 128, 255]))
    made = decision(interval, day=day)
    return HistoryEntry("heat", made, record, (), PosteriorSnapshot(SENSORS, levels, levels))


def test_a_day_is_put_together_of_the_history_and_what_was_heard_since():
    made = board()
    for interval in (2, 3):
        given_to(made, "selected", decision(interval, "b", day=2))
    past = Kept([entry(0), entry(1, day=2), entry(2, day=2)])
    day = tape("heat", SENSORS, None, lambda: past, made.fields["heat"].frames, [])
    assert (day.days, day.day) == (["2026-11-01", "2026-11-02"], "2026-11-02")
    assert [each.decision.interval for each in day.frames] == [1, 2, 3]
    assert day.frames[0].mean == [20.0, 21.004, 22.0] and day.frames[0].value == 20.25
    assert (
        tape("heat", SENSORS, "2026-11-01", lambda: past, [], []).frames[0].decision.interval == 0
    )
    assert tape("heat", SENSORS, "1999-01-01", None, [], []).frames == []


def test_a_day_of_other_sensors_is_fitted_to_those_of_today():
    past = Kept([entry(0), msgspec.structs.replace(entry(1), decision=decision(1, "gone"))])
    (frame,) = tape("heat", ("c", "new", "a"), None, lambda: past, [], []).frames
    assert msgspec.json.encode(frame.mean) == b"[22.0,null,20.0]"


@given(st.integers(1, 10_000))
def test_of_many_sensors_fewer_intervals_are_looked_through(count):
    class Asked(Kept):
        """A past that notes how much of it is read at once."""

        def newest(self, field, most):
            assert 1 <= most <= MOST and most * count <= max(MOST_CELLS, count)
            return super().newest(field, most)

    past = Asked([entry(each) for each in range(3)])
    made = tape("heat", [str(each) for each in range(count)], None, lambda: past, [], [])
    assert made.complete


def test_a_history_that_cannot_be_read_is_said_to_be_so_and_the_log_says_where(caplog):
    def broken():
        raise DataError("/var/lib/lab.db: there is no history")

    made = tape("heat", SENSORS, None, broken, [], [])
    assert not made.complete and b"/var" not in msgspec.json.encode(made)
    assert "/var/lib/lab.db" in caplog.text
