"""Several activations in an interval: any sequence of events, and each rule on its own."""

from collections import defaultdict
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import INTERVAL, controller_settings, energy_settings
from support.examples import max_examples

from edge_tvbo.config.controller_settings import SurveySettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.control.energy_budget import BudgetSettings
from edge_tvbo.messages.commands import Activate, Ending, Notify, PublishState, Record
from edge_tvbo.messages.documents import Reason
from edge_tvbo.messages.events import (
    ActivationRequested,
    ClockStepped,
    DeadlineElapsed,
    DowntimeElapsed,
    IntervalElapsed,
    LinkLost,
    LinkRestored,
    PauseRequested,
    Reading,
    ResetRequested,
    ResumeRequested,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

NAMES = ("a", "b", "c", "d", "e")
TIMEOUT = 10.0  # s
PERIOD = 12  # intervals of an energy budget
ORDERS = ("after-reply", "at-once")


def controller_of(name="et-gp-ucb", per_interval=2, budgets=None, **changes):
    field = SensorField(NAMES, np.eye(5) + 0.5, 0.01, center=20.0, scale=2.0)
    limits = {"reply_timeout": TIMEOUT, "max_age": 150.0, "per_interval": per_interval, **changes}
    energy = energy_settings(budgets, NAMES)
    return Controller(make_policy(name, field), controller_settings(**limits, energy=energy))


def of(kind, commands):
    return [each for each in commands if isinstance(each, kind)]


def sensors(commands):
    """Return the sensors that `commands` activate."""
    return [each.sensor for each in of(Activate, commands)]


def reply(controller, sensor, at, value=21.0):
    return controller.handle(Reading(sensor, value, at, at))


class World:
    """Sensors, broker and clock of one controller, which checks what the controller does."""

    def __init__(self, controller):
        self.controller = controller
        self.now = 0.0
        self.awaited = []
        self.activated = defaultdict(list)  # by interval
        self.ended = []
        self.events, self.commands = [], []
        policy = controller.policy
        self._select, self._select_many = policy.select, policy.select_many
        policy.select, policy.select_many = self.select, self.select_many

    def select(self, eligible=None):
        choice = self._select(eligible)
        self.check(eligible, [choice])
        return choice

    def select_many(self, k, eligible=None):
        choices = self._select_many(k, eligible)
        self.check(eligible, choices)
        return choices

    def check(self, eligible, choices):
        """Check that the controller lets the policy choose only from eligible sensors."""
        controller = self.controller
        allowed = controller._state.health.eligible(controller.interval)
        if controller._state.energy:
            allowed &= controller._state.energy.affordable()
        mask = np.ones(len(NAMES), np.bool_) if eligible is None else eligible
        assert not (mask & ~allowed).any()
        for choice in choices:
            assert mask[choice.arm]
            assert choice.sensor not in self.activated[controller.interval]

    def handle(self, event):
        commands = self.controller.handle(event)
        self.events.append(event)
        self.commands.append(commands)
        for command in commands:
            match command:
                case Activate(sensor=sensor, interval=interval):
                    self.awaited.append((interval, sensor))
                    self.activated[interval].append(sensor)
                case Record(sensor=sensor, interval=interval):
                    self.awaited.remove((interval, sensor))  # fails if it ends twice
                    self.ended.append((interval, sensor))
                case PublishState(decision=decision) if decision.reason is not Reason.SAVED:
                    before = self.activated[decision.interval]
                    assert [*decision.earlier, decision.sensor] == before
                case PublishState(decision=decision):  # `DecisionLog` relies on this
                    assert not decision.earlier
                    assert not self.activated.get(decision.interval)
        return commands

    def step(self, kind, number):
        self.now += (0.0, 0.5, 4.0)[number % 3]
        match kind:
            case "interval":
                self.now = (self.now // INTERVAL + 1) * INTERVAL
                self.handle(IntervalElapsed(self.now, 1 + (number == 7)))
            case "reply" if self.awaited:
                _, sensor = self.awaited[number % len(self.awaited)]
                self.handle(Reading(sensor, 18.0 + number, self.now, self.now))
            case "reading":
                self.handle(Reading(NAMES[number % 5], 15.0 + number, self.now, self.now))
            case "deadline":
                self.now += TIMEOUT
                self.handle(DeadlineElapsed(self.controller.interval, self.now))
            case "event":
                kinds = (LinkRestored, PauseRequested, ResumeRequested, ResetRequested)
                self.handle(LinkLost() if number % 5 == 4 else kinds[number % 5](self.now))


KINDS = ["interval", "interval", "reply", "reply", "reply", "deadline", "reading", "event"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 7)), max_size=60)
POLICY = st.sampled_from(["et-gp-ucb", "tv-gp-ucb", "round-robin", "random", "rexp3"])
BUDGETS = st.none() | st.builds(
    BudgetSettings,
    costs=st.tuples(*[st.sampled_from([1.0, 2.0])] * 5),
    each=st.just((6.0,) * 5),
    period=st.just(PERIOD),
    field=st.sampled_from([5.0, 9.0]),
)


@given(STEPS, POLICY, st.sampled_from(ORDERS), st.integers(2, 5), BUDGETS)
@max_examples(150)
def test_activations_of_an_interval_are_different_and_each_ends_once(
    steps, name, order, k, budgets
):
    world = World(controller_of(name, k, budgets, next_activation=order))
    for kind, number in steps:
        world.step(kind, number)
        intervals = [interval for interval, _ in world.awaited]
        assert len(world.awaited) <= (1 if order == "after-reply" else k)
        assert set(intervals) <= {world.controller.interval}
    assert sorted([*world.ended, *world.awaited]) == sorted(
        (interval, sensor) for interval, each in world.activated.items() for sensor in each
    )
    for activated in world.activated.values():
        assert len(set(activated)) == len(activated) <= k
    health = world.controller.health()
    assert health.answered + health.missed == len(world.ended)


@given(STEPS, st.sampled_from(ORDERS), st.integers(2, 5), BUDGETS.filter(bool))
@max_examples(100)
def test_energy_is_never_overspent(steps, order, k, budgets):
    """No window of one period costs more than the budget of the field or of a sensor."""
    world = World(controller_of("tv-gp-ucb", k, budgets, next_activation=order))
    spent = defaultdict(lambda: np.zeros(5))  # by interval since the start
    for kind, number in steps:
        world.step(kind, number)
    cost = dict(zip(NAMES, budgets.costs, strict=True))
    for interval, activated in world.activated.items():
        for sensor in activated:
            spent[interval][NAMES.index(sensor)] += cost[sensor]
    for first in list(spent):
        window = sum(spent[each] for each in list(spent) if first <= each < first + PERIOD)
        assert window.sum() <= budgets.field
        assert (window <= 6.0).all()


@given(STEPS, STEPS, st.sampled_from(["et-gp-ucb", "auto", "random"]), st.sampled_from(ORDERS))
@max_examples(60)
def test_controller_restored_within_an_interval_continues_with_the_same_commands(
    before, after, name, order
):
    """Only a time-out differs, because a reply may have been lost: it backs no sensor off."""
    survey = SurveySettings(length=5 * INTERVAL, per_interval=4)
    one, other = (
        controller_of(name, 2, next_activation=order, survey=survey, learn_from="all")
        for _ in range(2)
    )
    world = World(one)
    for kind, number in before:
        world.step(kind, number)
    other.restore(one.snapshot())
    assert other.snapshot() == one.snapshot()
    assert other.health() == one.health()
    other.handle(LinkRestored(world.now))
    one.handle(LinkRestored(world.now))
    one.restore(one.snapshot())  # a restored controller restores the same state again
    for kind, number in after:
        count = len(world.commands)
        world.step(kind, number)
        for event, commands in zip(world.events[count:], world.commands[count:], strict=True):
            assert other.handle(event) == commands


# --- one after the other --------------------------------------------------------------------------


def test_next_sensor_is_selected_after_the_reply_and_has_a_reply_timeout_of_its_own():
    controller = controller_of("tv-gp-ucb", 3)
    (first, _) = controller.handle(IntervalElapsed(0.0))
    record, second, published = reply(controller, first.sensor, 2.0, 15.0)
    assert (record.sensor, record.ending) == (first.sensor, Ending.ANSWERED)
    assert (second.interval, second.at, second.expires_at) == (0, 2.0, 2 * TIMEOUT)
    assert second.replaces  # no other sensor is awaited
    assert second.sensor != first.sensor
    assert published.decision.model.observations == 1
    assert published.decision.earlier == [first.sensor]
    assert published.decision.at == "1970-01-01T00:00:00Z"


@pytest.mark.usefixtures("first_timeout_counts")
def test_next_sensor_is_activated_after_a_time_out_too():
    controller = controller_of(per_interval=2)
    (first, _) = controller.handle(IntervalElapsed(0.0))
    commands = controller.handle(DeadlineElapsed(0, TIMEOUT))
    (second,) = of(Activate, commands)
    assert [type(each) for each in commands] == [Record, Notify, Activate, PublishState]
    assert (second.at, second.expires_at) == (TIMEOUT, 2 * TIMEOUT)
    commands = controller.handle(DeadlineElapsed(0, 2 * TIMEOUT))
    assert not of(Activate, commands)
    assert controller.health().suspects == sorted([first.sensor, second.sensor])


def test_all_activations_of_an_interval_expire_before_its_end():
    controller = controller_of(per_interval=5, reply_timeout=INTERVAL / 5)
    commands = controller.handle(IntervalElapsed(0.0))
    deadlines = []
    while activated := of(Activate, commands):
        deadlines.append(activated[0].expires_at)
        commands = controller.handle(DeadlineElapsed(0, activated[0].expires_at + 0.01))
    assert deadlines == pytest.approx([12.0, 24.0, 36.0, 48.0, 60.0])


def test_no_sensor_is_activated_with_too_little_time_to_reply():
    controller = controller_of(per_interval=2)
    (first, _) = controller.handle(IntervalElapsed(0.0))
    assert [type(each) for each in reply(controller, first.sensor, 1.6 * TIMEOUT)] == [Record]


def test_decision_says_which_sensors_were_already_activated():
    controller = controller_of("tv-gp-ucb", 3)
    reply(controller, "a", -5.0, 25.0)
    (first, _) = controller.handle(IntervalElapsed(0.0))
    (*_, published) = reply(controller, first.sensor, 1.0, 25.0)
    assert f"{first.sensor} was already activated in this interval" in published.decision.factors
    assert published.decision.ineligible == {first.sensor: "activated"}


def test_paused_field_activates_no_further_sensor():
    controller = controller_of(per_interval=2)
    (first, _) = controller.handle(IntervalElapsed(0.0))
    controller.handle(PauseRequested(1.0))
    assert not sensors(reply(controller, first.sensor, 2.0))
    controller.handle(ResumeRequested(3.0))
    assert len(sensors(controller.handle(IntervalElapsed(INTERVAL)))) == 1


def test_activation_by_command_is_the_last_one_of_its_interval():
    controller = controller_of(per_interval=3)
    (first, _) = controller.handle(IntervalElapsed(0.0))
    reply(controller, first.sensor, 1.0)
    requested = next(each for each in NAMES if each != controller.health().selected)
    activated, published = controller.handle(ActivationRequested(requested, 2.0))
    assert activated.replaces
    assert first.sensor in published.decision.earlier or requested == first.sensor
    assert [type(each) for each in reply(controller, requested, 3.0)] == [Record]


@pytest.mark.usefixtures("first_timeout_counts")
def test_all_unresponsive_sensors_are_probed_in_turn():
    controller = controller_of("round-robin", 2, max_backoff=1)
    probed = []
    for n in range(8):
        commands = controller.handle(IntervalElapsed(n * INTERVAL))
        while activated := of(Activate, commands):
            if of(PublishState, commands)[0].decision.reason is Reason.PROBE:
                probed.append(activated[0].sensor)
            commands = controller.handle(DeadlineElapsed(n, activated[0].expires_at))
    assert len(probed) >= 6
    following = dict(zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True))
    assert [following[each] for each in probed[:-1]] == probed[1:]


def test_restored_interval_continues_after_a_stop_but_not_after_a_kill():
    one, stopped, killed = (controller_of(per_interval=2) for _ in range(3))
    (first, _) = one.handle(IntervalElapsed(0.0))
    for other in (stopped, killed):
        other.restore(one.snapshot())
    killed.reserve_numbers(9)
    assert reply(stopped, first.sensor, 1.0) == reply(one, first.sensor, 1.0)
    assert [type(each) for each in reply(killed, first.sensor, 1.0)] == [Record]


def test_activations_that_a_killed_process_may_have_made_are_charged():
    budgets = BudgetSettings((1.0,) * 5, (6.0,) * 5, period=PERIOD, field=5.0)
    one, stopped, killed = (controller_of("random", 3, budgets) for _ in range(3))
    one.handle(IntervalElapsed(0.0))
    for other, used in ((stopped, 0), (killed, 9)):
        other.restore(one.snapshot())
        other.reserve_numbers(used)
        other.handle(PauseRequested(1.0))
        other.handle(IntervalElapsed(INTERVAL))
    assert stopped.health().energy.spent == 1.0
    assert killed.health().energy.spent == 1.0 + 3.0  # two sensors at most, which are unknown


def test_snapshot_with_one_activation_per_interval_can_be_restored():
    before, after = controller_of(per_interval=1), controller_of(per_interval=2)
    (first, _) = before.handle(IntervalElapsed(0.0))
    after.restore(before.snapshot())
    assert [type(each) for each in reply(after, first.sensor, 1.0)] == [Record]
    commands = after.handle(IntervalElapsed(INTERVAL))
    assert len(sensors(reply(after, sensors(commands)[0], INTERVAL + 1.0))) == 1


def test_stepped_clock_shifts_the_deadlines_of_the_interval():
    controller = controller_of(per_interval=2)
    (first, _) = controller.handle(IntervalElapsed(0.0))
    controller.handle(ClockStepped(1e6, 1e6 + 1.0))
    (_, second, _) = reply(controller, first.sensor, 1e6 + 2.0)
    assert second.expires_at == 1e6 + 2 * TIMEOUT


# --- at once --------------------------------------------------------------------------------------


def test_sensors_of_select_many_are_activated_at_once():
    controller = controller_of("tv-gp-ucb", 3, next_activation="at-once")
    reply(controller, "b", -5.0, 25.0)
    expected = [each.sensor for each in controller.policy.select_many(3)]
    commands = controller.handle(IntervalElapsed(0.0))
    activated = of(Activate, commands)
    assert [each.sensor for each in activated] == expected
    assert [each.replaces for each in activated] == [True, False, False]
    assert {(each.at, each.expires_at) for each in activated} == {(0.0, TIMEOUT)}
    decisions = [each.decision for each in of(PublishState, commands)]
    assert [each.earlier for each in decisions] == [[], expected[:1], expected[:2]]
    for n, sensor in enumerate(reversed(expected)):
        assert [type(each) for each in reply(controller, sensor, 1.0 + n)] == [Record]


@pytest.mark.usefixtures("first_timeout_counts")
def test_all_awaited_sensors_time_out_together():
    controller = controller_of(per_interval=3, next_activation="at-once")
    activated = sensors(controller.handle(IntervalElapsed(0.0)))
    reply(controller, activated[1], 1.0)
    records = of(Record, controller.handle(DeadlineElapsed(0, TIMEOUT)))
    assert [each.sensor for each in records] == [activated[0], activated[2]]
    assert controller.health().suspects == sorted([activated[0], activated[2]])
    assert controller.health().missed == 2


def test_field_budget_for_one_activation_allows_only_one_at_once():
    budgets = BudgetSettings((1.0,) * 5, (6.0,) * 5, period=PERIOD, field=1.0)
    controller = controller_of(per_interval=3, budgets=budgets, next_activation="at-once")
    assert len(sensors(controller.handle(IntervalElapsed(0.0)))) == 1
    (saved,) = of(PublishState, controller.handle(IntervalElapsed(INTERVAL)))
    assert saved.decision.reason is Reason.SAVED


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("budget", [inf, 10.0 * PERIOD])
@pytest.mark.parametrize("restores", [False, True])
def test_energy_for_all_planned_activations_allows_all_of_them(order, budget, restores):
    budgets = BudgetSettings((1.0,) * 5, (budget,) * 5, period=PERIOD, field=budget)

    def controller_with_energy():
        return controller_of("tv-gp-ucb", 3, budgets, next_activation=order)

    controller = controller_with_energy()
    for n in range(60):
        waiting = controller.handle(IntervalElapsed(n * INTERVAL))
        count = 0
        while activated := sensors(waiting):
            count += len(activated)
            if restores:
                snapshot, controller = controller.snapshot(), controller_with_energy()
                controller.restore(snapshot)
            waiting = []
            for sensor in activated:
                waiting += reply(controller, sensor, n * INTERVAL + count)
        assert count == 3


# --- the survey -----------------------------------------------------------------------------------


def number_of_activations(controller, n):
    """Run the interval at n · INTERVAL, in which every sensor replies; return its activations."""
    commands, count = controller.handle(IntervalElapsed(n * INTERVAL)), 0
    while activated := sensors(commands):
        count += len(activated)
        commands = reply(controller, activated[0], n * INTERVAL + count)
    return count


@pytest.mark.parametrize("restart_after", [None, 0, 2, 4])
def test_survey_ends_after_its_time_even_with_a_restart(restart_after):
    settings_ = {"survey": SurveySettings(length=3.5 * INTERVAL, per_interval=4)}
    controller = controller_of("random", 1, **settings_)
    counts, left = [], []
    for n in range(6):
        counts.append(number_of_activations(controller, n))
        left.append(controller.health().survey)
        if n == restart_after:
            snapshot = controller.snapshot()
            controller = controller_of("random", 1, **settings_)
            controller.restore(snapshot)
            controller.reserve_numbers(1000 + n)
    assert counts == [4, 4, 4, 4, 1, 1]
    assert left == [3, 2, 1, 0, 0, 0]


def test_survey_is_not_repeated_if_another_policy_restores_the_state():
    settings_ = {"survey": SurveySettings(length=2 * INTERVAL, per_interval=3)}
    one, other = controller_of("random", 1, **settings_), controller_of("tv-gp-ucb", 1, **settings_)
    assert [number_of_activations(one, n) for n in range(3)] == [3, 3, 1]
    other.restore_partial(one.snapshot())
    assert number_of_activations(other, 3) == 1


@pytest.mark.parametrize("method", ["restore", "restore_partial"])
@pytest.mark.parametrize(
    ("interval", "left"), [(INTERVAL / 3, 9), (2 * INTERVAL, 2), (6 * INTERVAL, 1)]
)
def test_survey_ends_at_about_the_same_time_after_a_change_of_the_interval(method, interval, left):
    survey = SurveySettings(length=5 * INTERVAL, per_interval=3)
    before, after = controller_of(survey=survey), controller_of(survey=survey, interval=interval)
    for n in range(2):
        before.handle(IntervalElapsed(n * INTERVAL))
    assert before.health().survey == 3
    getattr(after, method)(before.snapshot())
    assert after.health().survey == left


@pytest.mark.parametrize("kind", [IntervalElapsed, DowntimeElapsed])
def test_intervals_without_the_daemon_count_for_the_survey(kind):
    controller = controller_of(survey=SurveySettings(length=10 * INTERVAL, per_interval=3))
    controller.handle(IntervalElapsed(0.0))
    controller.handle(kind(20 * INTERVAL, 20))
    assert controller.health().survey == 0
    assert controller.used == 20


def test_survey_stays_within_the_energy_budget():
    budgets = BudgetSettings((1.0,) * 5, (6.0,) * 5, period=PERIOD, field=7.0)
    survey = SurveySettings(length=PERIOD * INTERVAL, per_interval=5)
    controller = controller_of("random", 1, budgets, survey=survey)
    counts = [number_of_activations(controller, n) for n in range(PERIOD)]
    assert counts[0] > 1
    assert sum(counts) <= 7


@pytest.mark.parametrize("order", ORDERS)
def test_one_activation_per_interval_does_not_depend_on_the_order(order):
    one, other = controller_of(per_interval=1), controller_of(per_interval=1, next_activation=order)
    for n in range(10):
        begun = [each.handle(IntervalElapsed(n * INTERVAL)) for each in (one, other)]
        assert begun[0] == begun[1]
        (sensor,) = sensors(begun[0])
        ended = [reply(each, sensor, n * INTERVAL + 1.0, 20.0 + n % 3) for each in (one, other)]
        assert ended[0] == ended[1]
    assert one.snapshot() == other.snapshot()
