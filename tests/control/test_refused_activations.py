"""Refused activations: the sensor is avoided for a while, but not blamed."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack
from support.controllers import controller_settings, energy_settings
from support.examples import max_examples

from edge_tvbo.config.controller_settings import SurveySettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.control.controller_state import SNAPSHOT_KIND
from edge_tvbo.control.energy_budget import BudgetSettings
from edge_tvbo.control.ignored_sensors import IgnoredSensors
from edge_tvbo.control.refused_activations import MAX_REFUSALS, RefusedActivations
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.commands import Activate, Notify, PublishState
from edge_tvbo.messages.events import (
    ActivationRequested,
    ActivationUndelivered,
    DeadlineElapsed,
    Event,
    IgnoreRequested,
    IntervalElapsed,
    LinkLost,
    LinkRestored,
    PauseRequested,
    Reading,
    ResumeRequested,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot
from edge_tvbo.policy import make_policy

NAMES = ("a", "b", "c")
STEP = 60.0  # s, an interval
KEYS = {"refusals", "refusals_retry"}


def controller_of(policy="static", names=NAMES, **changes):
    field = SensorField(names, np.eye(len(names)) + 0.5, 0.01, unit="°C", center=20.0, scale=2.0)
    return Controller(
        make_policy(policy, field, seed=0), controller_settings(**{"max_backoff": 64} | changes)
    )


class Broker:
    """A broker that refuses the activations of some sensors, and sensors that reply."""

    def __init__(self, controller, denied=("a",), silent=()):
        self.controller, self.denied, self.silent = controller, set(denied), set(silent)
        self.tried = {}  # by sensor: the intervals in which it was activated
        self.notices = []
        self.decision = None
        self.at = STEP * (controller.used + 1)

    def run(self, intervals):
        """Run some intervals, each to the deadline of its last activation."""
        for _ in range(intervals):
            self.take(IntervalElapsed(self.at))
            while awaited := self.awaited:
                before = len(self.controller._state.activations.arms)
                for sensor in awaited:
                    if sensor not in self.denied and sensor not in self.silent:
                        self.take(Reading(sensor, 20.0, self.at + 5.0, self.at + 5.0))
                self.finish()
                if len(self.controller._state.activations.arms) == before:
                    break
            self.at += STEP

    @property
    def awaited(self):
        state = self.controller._state
        return [state.sensors[arm] for arm in state.activations.awaited]

    def finish(self):
        """Let the deadline of the replies elapse, as the loop does."""
        interval = self.controller.interval
        for sensor in self.awaited:
            if sensor in self.denied:
                self.take(ActivationUndelivered(sensor, interval, left=False, refused=True))
        self.take(DeadlineElapsed(interval, self.at + 20.0))

    def take(self, event):
        commands = self.controller.handle(event)
        for each in commands:
            match each:
                case Activate(sensor=sensor, interval=interval):
                    self.tried.setdefault(sensor, []).append(interval)
                case Notify(notice=notice):
                    self.notices.append(notice.event)
                case PublishState(decision=decision):
                    self.decision = decision
        return commands


# --- the object, and its slow twin ----------------------------------------------------------------


class PlainRefusals:
    """The slow twin: a dict of the refused sensors, and the eligibility by its definition."""

    def __init__(self, sensors, max_backoff):
        self.sensors, self.max_backoff = sensors, max_backoff
        self.ignored = set()
        self.refused = {}  # arm: (refusals in a row, first interval in which it is eligible)

    def activate(self, arm, interval):
        if arm in self.refused:
            number, retry = self.refused[arm]
            self.refused[arm] = number, min(retry, interval)

    def refuse(self, arm, interval):
        number, _ = self.refused.get(arm, (0, 0))
        pauses = [1]
        while len(pauses) <= number:
            pauses.append(2 * pauses[-1])
        self.refused[arm] = number + 1, interval + 1 + min(pauses[number], self.max_backoff)

    def accept(self, arms, undelivered):
        if not self.refused.keys() & arms:
            return
        every = len(self.refused) == self.sensors - len(self.ignored)
        for arm in list(self.refused):
            if arm in arms or (every and arm not in undelivered):
                del self.refused[arm]

    def eligible(self, interval):
        return [self.refused.get(arm, (0, 0))[1] <= interval for arm in range(self.sensors)]


STEPS = st.tuples(
    st.sampled_from(["activate", "refuse", "accept", "fail", "ignore", "restore"]),
    st.integers(0, 2),
)


@given(st.lists(STEPS | st.tuples(st.just("refuse"), st.just(0)), max_size=80), st.integers(1, 9))
@max_examples(200)
def test_eligible_sensors_are_those_of_the_plain_reference(steps, max_backoff):
    """An ignored sensor is neither activated nor refused, as the controller ensures."""
    ignored = IgnoredSensors(NAMES)
    ours, twin = RefusedActivations(ignored, max_backoff), PlainRefusals(3, max_backoff)
    for interval, (step, arm) in enumerate(steps):
        match step:
            case "activate" if arm not in twin.ignored:
                ours.mark_activated(arm, interval)
                twin.activate(arm, interval)
            case "refuse" if arm not in twin.ignored:
                ours.mark_refused(arm, interval)
                twin.refuse(arm, interval)
            case "accept":
                ours.mark_accepted({arm}, ())
                twin.accept({arm}, ())
            case "fail":  # another sensor of the interval is accepted
                ours.mark_accepted({(arm + 1) % 3}, [arm])
                twin.accept({(arm + 1) % 3}, [arm])
            case "ignore":
                ignored.set(arm, ignored=arm not in twin.ignored)
                twin.ignored ^= {arm}
                ours.forget(arm)
                twin.refused.pop(arm, None)
            case "restore":
                state = ours.snapshot()
                assert bool(state) is bool(twin.refused)
                state = {name: np.copy(array) for name, array in state.items()}
                ours = RefusedActivations(ignored, max_backoff)
                ours.check(state)
                ours.restore(state)
                ours.continue_backoff(interval, interval, 1.0)
        for later in range(interval, interval + max_backoff + 3):
            assert ours.eligible(later).tolist() == twin.eligible(later)
        assert ours.count == len(twin.refused)


def test_back_offs_double_up_to_the_maximum_for_any_number_of_refusals():
    refusals = RefusedActivations(IgnoredSensors(NAMES), max_backoff=65536)
    pauses = []
    for _ in range(2 * MAX_REFUSALS):
        refusals.mark_refused(1, interval=9)
        pauses.append(refusals.retry_interval(1) - 10)
    assert pauses == [min(2**number, 65536) for number in range(2 * MAX_REFUSALS)]
    refusals.check(refusals.snapshot())


@pytest.mark.parametrize(
    "invalid",
    [
        {"refusals": np.array([-1, 0, 0])},
        {"refusals": np.array([MAX_REFUSALS + 1, 0, 0])},
        {"refusals": np.array([0, 0, 0])},  # a back-off without a refusal
        {"refusals": np.array([1.0, 0.0, 0.0])},
        {"refusals": np.array([1, 0])},
        {"refusals": "three"},
        {"refusals_retry": np.array([-1, 0, 0])},
        {"refusals_retry": np.array([2**60, 0, 0])},
        {"refusals_retry": None},
    ],
)
def test_an_invalid_snapshot_changes_nothing(invalid):
    one, other = controller_of(), controller_of()
    Broker(one).run(1)
    state = decode_snapshot(SNAPSHOT_KIND, None, one.snapshot()) | invalid
    before = other.snapshot()
    with pytest.raises(SnapshotError):
        other.restore(encode_snapshot(SNAPSHOT_KIND, one.policy.field.fingerprint(), state))
    assert other.snapshot() == before
    with pytest.raises(SnapshotError):
        RefusedActivations(IgnoredSensors(NAMES), 64).check({"refusals": np.array([1, 0, 0])})


# --- the controller -------------------------------------------------------------------------------


def test_a_denied_sensor_is_tried_after_1_2_4_intervals_and_never_blamed():
    controller = controller_of(max_backoff=8)
    broker = Broker(controller)
    broker.run(50)
    assert broker.tried["a"] == [0, 2, 5, 10, 19, 28, 37, 46]
    health = controller.health()
    assert (health.answered, health.undelivered, health.missed) == (42, 8, 0)
    assert (health.suspects, broker.notices) == ([], [])
    state = controller._state.health.snapshot()
    assert not state["misses"][0] and not state["timeouts"][0] and not state["losses"][0]

    broker.denied.clear()
    broker.run(10)
    assert broker.tried["a"][8:] == [55, 56, 57, 58, 59]
    assert not KEYS & decode_snapshot(SNAPSHOT_KIND, None, controller.snapshot()).keys()


def test_a_decision_names_the_refused_sensor_and_the_reason():
    broker = Broker(controller_of())
    broker.run(2)
    assert broker.decision.ineligible == {"a": "refused"}
    text = "a is not activated before interval 2: the broker refuses its activations"
    assert any(each.startswith(text) for each in broker.decision.factors)
    assert broker.controller.health().refused_activations == ["a"]
    broker.run(1)
    assert (broker.decision.sensor, broker.decision.ineligible) == ("a", {})


@pytest.mark.parametrize("left", [False, True])
def test_an_activation_that_was_not_refused_only_undelivered_is_tried_again_at_once(left):
    controller = controller_of()
    for interval in range(3):
        (activated, _) = controller.handle(IntervalElapsed(STEP * interval))
        assert activated.sensor == "a"
        controller.handle(ActivationUndelivered("a", interval, left))
        controller.handle(DeadlineElapsed(interval, STEP * interval + 20.0))


def test_unsolicited_readings_end_no_back_off():
    controller = controller_of()
    broker = Broker(controller)
    broker.run(3)  # refused in intervals 0 and 2
    for _ in range(2):
        broker.take(Reading("a", 21.0, broker.at - 9.0, broker.at - 9.0))
        broker.run(1)
    assert broker.tried["a"] == [0, 2]
    broker.run(1)
    assert broker.tried["a"] == [0, 2, 5]


def test_a_reading_that_seems_to_be_the_reply_to_a_refused_activation_ends_no_back_off():
    """The sensor reports by itself, before the controller receives the refusal."""
    broker = Broker(controller_of())
    for _ in range(12):
        broker.take(IntervalElapsed(broker.at))
        (sensor,) = broker.awaited
        broker.take(Reading(sensor, 20.0, broker.at + 5.0, broker.at + 5.0))
        if sensor == "a":
            interval = broker.controller.interval
            broker.take(ActivationUndelivered("a", interval, left=False, refused=True))
        broker.at += STEP
    assert broker.tried["a"] == [0, 2, 5, 10]


@pytest.mark.parametrize("silent", [(), ("a",)])
def test_an_accepted_activation_ends_the_refusals_with_or_without_a_reply(silent):
    controller = controller_of()
    broker = Broker(controller)
    broker.run(5)  # refused in intervals 0 and 2
    broker.denied, broker.silent = set(), set(silent)
    broker.run(2)
    assert broker.tried["a"] == [0, 2, 5, 6]
    broker.denied = {"a"}
    broker.run(4)
    assert broker.tried["a"] == [0, 2, 5, 6, 7, 9]


def test_a_lost_connection_neither_counts_as_a_refusal_nor_ends_the_refusals():
    broker = Broker(controller_of())
    broker.run(5)  # refused in intervals 0 and 2
    broker.take(IntervalElapsed(broker.at))
    broker.take(LinkLost())
    broker.take(ActivationUndelivered("a", 5, left=True))
    broker.take(LinkRestored(broker.at + 30.0))
    broker.at += STEP
    broker.run(6)
    assert broker.tried["a"] == [0, 2, 5, 6, 11]


def test_after_a_kill_the_activation_may_have_been_refused():
    """The process ended before it could know; so the back-off is not shortened."""
    before = Broker(controller_of())
    before.run(5)
    before.take(IntervalElapsed(before.at))
    controller = controller_of()
    controller.restore(before.controller.snapshot())
    controller.reserve_numbers(before.controller.used)
    controller.handle(DeadlineElapsed(5, before.at + 20.0))
    after = Broker(controller)
    after.run(6)
    assert after.tried["a"] == [6, 11]


def test_only_refusals_in_the_running_interval_count():
    """With on-reading, the sensor may report by itself before the loop recalls the refusals."""
    controller = controller_of(on_reading=True)
    controller.handle(IntervalElapsed(0.0))
    for number in range(10):
        at = 5.0 + number
        controller.handle(Reading("a", 20.0 + number, at, at))
    for interval in range(11):
        controller.handle(ActivationUndelivered("a", interval, left=False, refused=True))
    assert controller._state.refusals.retry_interval(0) == 12


def test_with_on_reading_a_reading_is_no_reply_to_a_refused_activation():
    """The sensor reports by itself, after the controller has received the refusal."""
    broker = Broker(controller_of(on_reading=True, max_backoff=4))
    broker.take(IntervalElapsed(0.0))
    while (interval := broker.controller.interval) < 16:
        (sensor,) = broker.awaited
        broker.at += 5.0
        if sensor == "a":
            broker.take(ActivationUndelivered("a", interval, left=False, refused=True))
            broker.take(Reading("a", 20.0, broker.at, broker.at))
            assert broker.awaited == ["a"]
            broker.take(DeadlineElapsed(interval, broker.at + 20.0))
        else:
            broker.take(Reading(sensor, 20.0, broker.at, broker.at))
    assert broker.tried["a"] == [0, 2, 5, 10, 15]
    health = broker.controller.health()
    assert (health.answered, health.undelivered) == (11, 5)


def test_a_refusal_in_the_interval_in_which_the_broker_accepts_another_sensor_is_not_forgotten():
    """All sensors were refused; now, the rules allow only one of them."""
    settings = {"per_interval": 2, "next_activation": "at-once", "faults": "off"}
    broker = Broker(controller_of(names=("a", "b"), **settings), denied=("a", "b"))
    broker.run(1)
    broker.denied = {"b"}
    broker.take(IntervalElapsed(broker.at, intervals=2))  # both are due in interval 2
    broker.take(Reading("a", 20.0, broker.at + 5.0, broker.at + 5.0))
    broker.finish()
    broker.at += STEP
    broker.run(8)
    assert broker.tried == {"a": [0, *range(2, 11)], "b": [0, 2, 5, 10]}


def test_a_late_refusal_counts_and_its_energy_is_refunded():
    """The broker confirms the activation only after the deadline of the reply."""
    budget = energy_settings(BudgetSettings((1.0,) * 3, (9.0,) * 3, period=10), NAMES)
    broker = Broker(controller_of(energy=budget), denied=())
    broker.take(IntervalElapsed(0.0))
    broker.take(ActivationUndelivered("a", 0, left=True))
    broker.take(DeadlineElapsed(0, 20.0))
    broker.take(PauseRequested(30.0))
    broker.take(IntervalElapsed(STEP))
    assert broker.controller.health().energy.spent == 1.0
    broker.take(ActivationUndelivered("a", 0, left=False, refused=True))
    assert broker.controller.health().energy.spent == 0.0
    broker.take(ResumeRequested(STEP + 30.0))
    broker.at, broker.denied = 2 * STEP, {"a"}
    broker.run(6)
    assert broker.tried["a"] == [0, 3, 6]
    assert broker.controller.health().energy.spent == 4.0


def test_a_late_refusal_does_not_count_if_the_sensor_was_activated_again():
    """Otherwise, the reply to the second activation would not count, and the sensor be blamed."""
    broker = Broker(controller_of(), denied=())
    broker.take(IntervalElapsed(0.0))
    broker.take(ActivationUndelivered("a", 0, left=True))
    broker.take(DeadlineElapsed(0, 20.0))
    broker.take(IntervalElapsed(STEP))
    broker.take(ActivationUndelivered("a", 0, left=False, refused=True))
    broker.take(Reading("a", 20.0, STEP + 5.0, STEP + 5.0))
    assert broker.tried["a"] == [0, 1]
    assert (broker.awaited, broker.controller.health().answered) == ([], 1)


def test_whether_the_broker_accepted_an_activation_is_unknown_until_it_confirms_it():
    """The sensor reports by itself, and the broker acknowledges too late."""
    broker = Broker(controller_of())
    broker.run(5)  # refused in intervals 0 and 2
    broker.take(IntervalElapsed(broker.at))
    broker.take(Reading("a", 20.0, broker.at + 5.0, broker.at + 5.0))
    broker.take(ActivationUndelivered("a", 5, left=True))
    broker.at += STEP
    broker.run(6)
    assert broker.tried["a"] == [0, 2, 5, 6, 11]


def test_a_restart_after_the_deadline_does_not_make_an_undelivered_activation_accepted():
    before = Broker(controller_of())
    before.run(5)  # refused in intervals 0 and 2
    before.take(IntervalElapsed(before.at))
    before.take(ActivationUndelivered("a", 5, left=True))
    before.take(DeadlineElapsed(5, before.at + 20.0))
    controller = controller_of()
    controller.restore(before.controller.snapshot())
    controller.reserve_numbers(before.controller.used)
    after = Broker(controller)
    after.run(6)
    assert after.tried["a"] == [6, 11]


@pytest.mark.parametrize("policy", ["static", "round-robin", "tv-gp-ucb", "random"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"per_interval": 2},
        {"per_interval": 3, "next_activation": "at-once"},
        {"survey": SurveySettings(per_interval=2, length=20 * STEP)},
    ],
    ids=["one", "after-reply", "at-once", "survey"],
)
def test_if_all_are_refused_each_interval_tries_one_sensor_and_those_that_are_due(policy, settings):
    broker = Broker(controller_of(policy, **settings), denied=NAMES)
    broker.run(40)
    tried = sorted(interval for each in broker.tried.values() for interval in each)
    assert sorted(set(tried)) == list(range(40))
    assert len(tried) < 60  # of up to 120

    broker.denied.clear()
    broker.run(3)
    assert broker.controller._state.refusals.count == 0


def test_another_sensor_of_the_interval_is_no_reason_to_try_a_refused_one():
    """Only the first activation of an interval needs a choice in any case."""
    broker = Broker(controller_of(per_interval=3, faults="off"), denied=("b", "c"))
    broker.run(20)
    assert broker.tried["a"] == list(range(20))
    assert broker.tried["b"] == broker.tried["c"] == [0, 2, 5, 10, 19]


def test_a_sensor_that_may_be_stuck_is_activated_if_the_others_are_refused():
    """Otherwise, no interval would have a reading: the other sensors cannot be read either."""
    broker = Broker(controller_of(), denied=("b", "c"))  # a repeats its value
    broker.run(40)
    assert broker.controller.health().answered >= 28


def test_unresponsive_sensors_are_probed_in_turn_without_the_refused_one():
    broker = Broker(controller_of("round-robin", max_backoff=4), denied=(), silent=NAMES)
    broker.run(30)
    assert broker.controller.health().suspects == list(NAMES)
    broker.denied, broker.tried = {"b"}, {}
    broker.run(30)
    assert len(broker.tried["b"]) <= 7
    assert len(broker.tried["a"]) >= 11 and len(broker.tried["c"]) >= 11


def test_refused_activations_cost_no_energy():
    budget = energy_settings(BudgetSettings((1.0,) * 3, (9.0,) * 3, period=100), NAMES)
    broker = Broker(controller_of(energy=budget))
    broker.run(12)
    assert len(broker.tried["a"]) == 4
    assert broker.controller.health().energy.spent == 8.0


def test_a_refused_sensor_is_tried_in_each_interval_if_no_other_sensor_has_energy():
    budgets = BudgetSettings((1.0, 1.0), (inf, 3.0), period=1000)
    energy = energy_settings(budgets, ("a", "b"))
    broker = Broker(controller_of(names=("a", "b"), energy=energy))
    broker.run(8)
    assert broker.tried == {"a": [0, 2, 5, 6, 7], "b": [1, 3, 4]}


def test_a_users_request_tries_a_refused_sensor_at_once():
    broker = Broker(controller_of())
    broker.run(6)  # refused in intervals 0, 2 and 5
    broker.denied.clear()
    broker.take(IntervalElapsed(broker.at))
    broker.take(ActivationRequested("a", broker.at + 1.0))
    broker.finish()
    broker.at += STEP
    broker.run(2)
    assert broker.tried["a"] == [0, 2, 5, 6, 7, 8]


def test_a_sensor_that_was_ignored_meanwhile_is_tried_at_once():
    broker = Broker(controller_of())
    broker.run(6)
    for ignored in (True, False):
        broker.take(IgnoreRequested("a", ignored, broker.at))
    broker.run(2)
    assert broker.tried["a"] == [0, 2, 5, 6]


def test_the_refusal_of_a_sensor_that_was_ignored_in_the_interval_is_not_counted():
    broker = Broker(controller_of())
    broker.take(IntervalElapsed(0.0))
    broker.take(IgnoreRequested("a", True, 1.0))
    broker.finish()
    assert broker.controller._state.refusals.count == 0


# --- snapshots and journals -----------------------------------------------------------------------


def test_an_event_in_an_old_journal_was_not_refused():
    old = msgpack.encode(["ActivationUndelivered", "a", 7, False])
    assert msgpack.decode(old, type=Event) == ActivationUndelivered("a", 7, False, refused=False)
    new = ActivationUndelivered("a", 7, left=False, refused=True)
    assert msgpack.decode(msgpack.encode(new), type=Event) == new


@pytest.mark.parametrize("restore", [Controller.restore, Controller.restore_partial])
@pytest.mark.parametrize(
    ("before", "after", "skipped", "expected"),
    [
        (60.0, 60.0, 0, 5),
        (60.0, 60.0, 100, 5),
        (600.0, 60.0, 0, 41),
        (600.0, 6.0, 0, 65),  # limited by max_backoff
        (60.0, 600.0, 0, 2),
    ],
)
def test_a_back_off_lasts_as_long_after_a_restart(restore, before, after, skipped, expected):
    stopped, controller = (controller_of(interval=each) for each in (before, after))
    one = Broker(stopped)
    one.run(6)
    assert one.tried["a"] == [0, 2, 5]  # so a is ineligible in 4 intervals
    restore(controller, stopped.snapshot())
    first = stopped.used + skipped + 1
    controller.reserve_numbers(first - 1)
    other = Broker(controller)
    other.run(expected)
    assert other.tried["a"] == [first + expected - 1]


def test_refusals_follow_the_sensors_when_they_are_added_removed_and_reordered():
    before = controller_of(names=("a", "b", "c", "d"))
    Broker(before, denied=("a", "b")).run(3)
    after = controller_of(names=("new", "c", "b"))
    after.restore_partial(before.snapshot())
    own = {
        sensor: before._state.refusals.retry_interval(before._state.arms[sensor]) for sensor in "bc"
    }
    assert own["b"] > 0
    got = [after._state.refusals.retry_interval(arm) for arm in range(3)]
    assert got == [0, own["c"], own["b"]]
    assert after._state.refusals.count == 1


def test_in_advise_mode_no_refusal_is_restored():
    """No command is sent, so the broker can refuse none."""
    before, after = controller_of(), controller_of(recommends=True)
    Broker(before).run(1)
    after.restore(before.snapshot())
    after.reserve_numbers(before.used)
    assert after._state.refusals.count == 0
