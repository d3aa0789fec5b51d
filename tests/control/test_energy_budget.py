"""Energy budget: activations never cost more than the budget, and only if they are worth it."""

import json
from collections import defaultdict
from contextlib import suppress
from functools import cache
from math import inf

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.controllers import INTERVAL, controller_settings, energy_settings
from support.examples import max_examples

from edge_tvbo.control.controller import Controller
from edge_tvbo.control.energy_budget import (
    SLOTS_PER_PERIOD,
    BudgetSettings,
    EnergyBudget,
    intervals_in,
)
from edge_tvbo.control.facts import FieldOutOfEnergy, LowBattery, OutOfEnergy, SensorsWithEnergy
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.commands import Activate, Notify, PublishState, Record, Reject
from edge_tvbo.messages.documents import Ineligibility, Reason
from edge_tvbo.messages.events import (
    ActivationRequested,
    ActivationUndelivered,
    BatteryReported,
    ClockStepped,
    DeadlineElapsed,
    IgnoreRequested,
    IntervalElapsed,
    PauseRequested,
    Reading,
    ResumeRequested,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.fingerprint import Fingerprint
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot
from edge_tvbo.policy import make_policy

NAMES = ("a", "b", "c")
STEP = 100.0  # s, an interval
PLENTY = BudgetSettings(costs=(1.0,) * 3, each=(inf,) * 3, period=24)


def can_afford(controller, sensor):
    return controller.energy_shortage(sensor) is None


def controller_of(budgets, policy="et-gp-ucb", **changes):
    field = SensorField(NAMES, np.eye(3) + 0.5, 0.01, unit="°C", center=20.0, scale=2.0)
    limits = controller_settings(
        reply_timeout=20.0,
        max_age=1e9,
        max_future=1e9,
        max_backoff=4,
        energy=energy_settings(budgets, NAMES),
        **changes,
    )
    return Controller(make_policy(policy, field), limits)


def budgets_of(**changes):
    return msgspec.structs.replace(PLENTY, **changes)


def of(kind, commands):
    return [command for command in commands if isinstance(command, kind)]


def begin(controller, n, intervals=1):
    """Begin interval `n`; return the activated sensor, None if none is, and the decision."""
    commands = controller.handle(IntervalElapsed(n * STEP, intervals))
    activated = of(Activate, commands)
    return activated[0].sensor if activated else None, of(PublishState, commands)[0].decision


def run(controller, intervals, first=0, value=20.0):
    """Run intervals in which each activated sensor replies; return these sensors."""
    activated = []
    for n in range(first, first + intervals):
        sensor, _ = begin(controller, n)
        activated.append(sensor)
        if sensor:
            controller.handle(Reading(sensor, value, n * STEP + 1, n * STEP + 1))
    return activated


# --- at most the budget ---------------------------------------------------------------------------

BUDGETS = st.builds(
    BudgetSettings,
    costs=st.tuples(*[st.sampled_from([1.0, 2.0, 0.1, 3.5])] * 3),
    each=st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 4.0, inf])] * 3),
    period=st.sampled_from([1, 2, 5, 24, 30, 49]),
    field=st.sampled_from([0.3, 2.0, 5.0, 20.0, inf]),
    least_battery=st.just(10.0),
    battery_age=st.just(40),
)
SENSORS = st.sampled_from(NAMES)
EVENTS = st.one_of(
    st.tuples(st.just("intervals"), st.sampled_from([1, 1, 1, 1, 2, 7, 60])),
    st.tuples(st.just("reply"), st.floats(10.0, 30.0)),
    st.just(("time_out",)),
    st.tuples(st.just("unsolicited"), SENSORS),
    st.tuples(st.just("command"), SENSORS),
    st.tuples(st.just("battery"), SENSORS, st.sampled_from([3.0, 50.0, 200.0])),
    st.tuples(st.just("clock"), st.sampled_from([-1e6, -3600.0, 10_800.0, 1e6])),
    st.just(("checkpoint",)),
    st.just(("restart",)),
    st.tuples(st.just("kill"), st.integers(1, 5)),
)


class World:
    """A daemon with restarts, and all its activations by the true number of the interval."""

    def __init__(self, budgets, policy):
        self.budgets, self.policy = budgets, policy
        self.controller = controller_of(budgets, policy)
        self.now = 0  # intervals
        self.ahead = 0.0  # s, of the wall clock
        self.spent = []  # (interval, arm)
        self.checkpoint()

    def handle(self, event):
        commands = self.controller.handle(event)
        self.spent += [(self.now, NAMES.index(each.sensor)) for each in of(Activate, commands)]
        return commands

    def at(self):
        return self.now * STEP + self.ahead + 1e8

    def intervals(self, number):
        self.now += number
        self.handle(IntervalElapsed(self.at(), number))

    def reply(self, value):
        self.reading(self.controller.health().selected or "a", value)

    def time_out(self):
        self.handle(DeadlineElapsed(self.controller.interval, self.at() + 20))

    def unsolicited(self, sensor):
        self.reading(sensor, 21.0)

    def reading(self, sensor, value):
        commands = self.handle(Reading(sensor, value, self.at(), self.at(), stamped=False))
        assert not of(Activate, commands)

    def command(self, sensor):
        if self.controller.interval >= 0:
            self.handle(ActivationRequested(sensor, self.at()))
            self.checkpoint()  # activations by command are not charged after a kill

    def battery(self, sensor, percent):
        self.handle(BatteryReported(sensor, percent, self.at()))

    def clock(self, by):
        self.ahead += by
        self.handle(ClockStepped(by, self.at()))

    def checkpoint(self):
        self.stored = (self.controller.snapshot(), self.now)

    def restart(self):
        self.checkpoint()
        self.kill(1)

    def kill(self, pause):
        """Continue from the last checkpoint, as `Checkpoints` does."""
        snapshot, when = self.stored
        self.controller = controller_of(self.budgets, self.policy)
        self.controller.restore(snapshot)
        forgotten = self.now - when
        self.controller.reserve_numbers(self.controller.interval + forgotten, forgotten)
        self.checkpoint_again(when)
        self.now += pause
        self.handle(IntervalElapsed(self.at(), self.now - when))

    def checkpoint_again(self, when):
        """Store the continued state first, so that unknown intervals stay charged."""
        self.stored = (self.controller.snapshot(), when)


@pytest.mark.acceptance(18)
@given(BUDGETS, st.lists(EVENTS, max_size=80), st.sampled_from(["et-gp-ucb", "round-robin"]))
@max_examples(300)
def test_no_window_of_one_period_costs_more_than_the_budget_after_any_events(
    budgets, steps, policy
):
    world = World(budgets, policy)
    for name, *arguments in steps:
        getattr(world, name)(*arguments)
    for first, _ in world.spent:
        sums = defaultdict(float)
        for when, arm in world.spent:
            if first <= when < first + budgets.period:
                sums[arm] += budgets.costs[arm]
                sums["field"] += budgets.costs[arm]
        assert sums["field"] <= budgets.field * (1 + 1e-6)
        assert all(sums[arm] <= budgets.each[arm] * (1 + 1e-6) for arm in range(3))


@given(st.lists(EVENTS, max_size=40), BUDGETS)
def test_restored_controller_activates_the_same_sensors(steps, budgets):
    world = World(budgets, "et-gp-ucb")
    for name, *arguments in steps:
        getattr(world, name)(*arguments)
    world.time_out()  # a sensor awaited during a restart is not backed off
    other = controller_of(budgets)
    other.restore(world.controller.snapshot())
    assert other.health() == world.controller.health()
    for _ in range(30):
        world.now += 1
        event = IntervalElapsed(world.at())
        assert of(Activate, other.handle(event)) == of(Activate, world.handle(event))


@given(st.integers(1, 200), st.floats(1.0, 200.0))
def test_most_of_a_limiting_budget_is_spent(period, budget):
    """Slots cost at most a 24th of the budget, and one activation."""
    energy = EnergyBudget(BudgetSettings((1.0,), (budget,), period))
    activated = 0
    for _ in range(10 * period):
        energy.advance(1)
        if energy.affordable()[0]:
            energy.charge(0)
            activated += 1
    rows = -(-(period - 1) // -(-period // SLOTS_PER_PERIOD)) + 1  # slots that a period touches
    reach = rows * -(-period // SLOTS_PER_PERIOD)  # intervals in these
    assert activated >= min(10 * period, int(budget) * (10 * period // reach))


def test_rounding_errors_of_sums_do_not_reduce_the_activations():
    energy = EnergyBudget(BudgetSettings((0.1,), (0.3,), 100))
    energy.advance(1)
    for _ in range(3):
        assert energy.affordable().all()
        assert energy.status(("a",)).exhausted == 0
        assert energy.fact() == SensorsWithEnergy(1, 1)
        energy.charge(0)
    assert not energy.affordable().any()
    assert energy.status(("a",)).exhausted == 1
    assert energy.fact() == SensorsWithEnergy(0, 1)


def test_period_contains_the_intervals_that_begin_in_it():
    assert [intervals_in(period, 60.0) for period in (30.0, 60.0, 61.0, 3600.0)] == [1, 1, 2, 60]


# --- intervals without an activation --------------------------------------------------------------


def test_saved_interval_names_the_highest_estimate_and_activates_no_sensor():
    controller = controller_of(budgets_of(each=(inf, 0.0, 0.0), field=1.0, period=100))
    assert begin(controller, 0)[0] == "a"
    controller.handle(Reading("a", 18.0, 1.0, 1.0))
    controller.handle(Reading("b", 24.0, 2.0, 2.0))
    activated, decision = begin(controller, 1)
    assert (activated, decision.sensor, decision.reason) == (None, "b", Reason.SAVED)
    assert decision.mean == decision.ucb > 22.0
    assert "the highest estimate; not activated, to save energy" in decision.text
    assert decision.factors == [
        "b has 0 J left",
        "c has 0 J left",
        "an activation of a costs 1 J, and the field has 0 J left",
        "0 of 1 J left",
    ]
    assert json.loads(msgspec.json.encode(decision))["reason"] == "saved"


def test_saved_interval_names_the_low_batteries():
    """The decision said that all sensors have energy for an activation."""
    controller = controller_of(budgets_of(least_battery=10.0, battery_age=100))
    for name in NAMES:
        controller.handle(BatteryReported(name, 5.0, 0.0))
    activated, decision = begin(controller, 1)
    assert activated is None
    assert decision.ineligible == dict.fromkeys(NAMES, Ineligibility.LOW_BATTERY)
    assert decision.factors == [
        *(f"{name} has 5 % battery left" for name in NAMES),
        "0 of 3 sensors have energy for an activation",
    ]


def test_saved_interval_names_the_low_batteries_although_all_sensors_are_unresponsive(
    first_timeout_counts,
):
    controller = controller_of(budgets_of(least_battery=10.0, battery_age=100))
    for n in range(8):
        begin(controller, n)
        controller.handle(DeadlineElapsed(n, n * STEP + 20.0))
    assert len(controller.health().suspects) == 3
    for name in NAMES:
        controller.handle(BatteryReported(name, 5.0, 8 * STEP))
    activated, decision = begin(controller, 8)
    assert activated is None
    assert decision.ineligible == dict.fromkeys(NAMES, Ineligibility.LOW_BATTERY)


@pytest.mark.parametrize("recommends", [False, True])
def test_readings_are_expected_while_a_battery_allows_an_activation(recommends):
    """Otherwise the link reconnected again and again, because no sensor sent a message."""
    budgets = budgets_of(least_battery=10.0, battery_age=100)
    controller = controller_of(budgets, recommends=recommends)
    for name in NAMES:
        assert controller.expects_readings
        controller.handle(BatteryReported(name, 5.0, 0.0))
    assert controller.expects_readings is recommends
    controller.handle(BatteryReported("b", 50.0, 1.0))
    assert controller.expects_readings
    controller.handle(IgnoreRequested("b", True, 1.0))
    assert controller.expects_readings is recommends
    controller.handle(IgnoreRequested("b", False, 1.0))
    assert controller.expects_readings
    controller.handle(PauseRequested(2.0))
    assert not controller.expects_readings


def test_energy_that_was_spent_before_a_change_to_advise_withholds_no_recommendation():
    """In the mode advise nothing is charged; the spending counts again after a change back."""
    budgets = budgets_of(each=(2.0,) * 3, field=4.0)
    before = controller_of(budgets)
    begin(before, 0)
    for name in NAMES:
        before.handle(ActivationRequested(name, 1.0))
    assert not can_afford(before, "a")
    spent = before.health().energy.spent
    advises = controller_of(budgets, recommends=True)
    advises.restore(before.snapshot())
    reasons = [begin(advises, n)[1].reason for n in range(1, 9)]
    assert Reason.SAVED not in reasons
    assert advises.energy_shortage("a") is None
    assert advises.health().energy.left is None  # nothing is charged, so no budget runs out
    assert not any("J left" in each or "energy" in each for each in begin(advises, 9)[1].factors)
    after = controller_of(budgets)
    after.restore(advises.snapshot())
    assert after.health().energy.spent == spent
    assert begin(after, 10)[1].reason is Reason.SAVED


@pytest.mark.parametrize("recommends", [False, True])
def test_a_sensor_whose_budget_is_zero_is_never_selected(recommends):
    controller = controller_of(budgets_of(each=(0.0, inf, 0.0)), recommends=recommends)
    assert {begin(controller, n)[1].sensor for n in range(10)} == {"b"}


def test_saved_interval_counts_neither_as_answered_nor_as_missed():
    controller = controller_of(budgets_of(field=0.0))
    commands = controller.handle(IntervalElapsed(0.0))
    commands += controller.handle(DeadlineElapsed(0, 20.0))
    commands += controller.handle(Reading("a", 21.0, 30.0, 30.0))
    commands += controller.handle(IntervalElapsed(STEP))
    assert not of(Record, commands) + of(Notify, commands) + of(Activate, commands)
    health = controller.health()
    assert (health.answered, health.missed, health.suspects, health.energy.saved) == (0, 0, [], 2)


def test_unsolicited_readings_cost_nothing_and_update_the_model():
    controller = controller_of(budgets_of(field=1.0))
    run(controller, 1)
    for n in range(50):
        controller.handle(Reading("b", 20.0 + n / 9, 2.0 + n, 2.0 + n))
    assert controller.health().energy.spent == 1.0
    assert controller.policy.observations == 51


def test_spending_is_spread_over_the_period():
    activated = run(controller_of(budgets_of(period=240, field=24.0)), 960)
    spent = np.reshape([sensor is not None for sensor in activated], (-1, 40)).sum(axis=1)
    assert spent[6:].max() <= 8  # of 4 on average
    assert spent[6:].min() >= 1
    assert spent.sum() >= 80


def test_without_a_limit_no_price_prevents_an_activation():
    free, counted = controller_of(None), controller_of(PLENTY)
    assert run(counted, 50) == run(free, 50)


def test_sensor_without_energy_is_not_selected_and_the_decision_has_the_reason():
    controller = controller_of(budgets_of(each=(0.0, inf, inf)), "round-robin")
    activated, decision = begin(controller, 0)
    assert activated == "b"
    assert "a has 0 J left" in decision.factors


@pytest.mark.parametrize("percent", [5.0, 50.0])
def test_exactly_the_sensors_that_are_not_affordable_have_a_shortage(percent):
    limits = {"costs": (1.0, 2.0, 3.0), "each": (inf, 1.0, inf), "field": 2.5}
    energy = EnergyBudget(budgets_of(**limits, least_battery=10.0, battery_age=9))
    energy.update_battery(0, percent)
    shortages = energy.shortages(range(3))
    assert list(shortages) == np.flatnonzero(~energy.affordable()).tolist()
    assert shortages.get(0) == (LowBattery(5.0) if percent == 5.0 else None)
    assert (shortages[1], shortages[2]) == (OutOfEnergy(1.0, "J"), FieldOutOfEnergy(3.0, 2.5, "J"))


def test_command_can_activate_as_often_as_the_budget_allows():
    controller = controller_of(budgets_of(each=(2.0, 0.0, 0.0), period=1000), "round-robin")
    begin(controller, 0)
    assert can_afford(controller, "a")
    assert of(Activate, controller.handle(ActivationRequested("a", 1.0)))
    assert not can_afford(controller, "a")
    assert controller.handle(ActivationRequested("a", 2.0)) == [Reject("no-energy", "a")]
    assert controller.health().refused == {"no-energy": 1}


@given(st.lists(st.sampled_from(["delivered", "left", "unsent"]), max_size=60))
def test_only_activations_that_left_are_charged(deliveries):
    controller = controller_of(budgets_of(field=30.0))
    spent = []
    for interval, delivery in enumerate(deliveries):
        sensor, _ = begin(controller, interval)
        if sensor is not None and delivery != "delivered":
            left = delivery == "left"
            controller.handle(ActivationUndelivered(sensor, interval, left))
        spent.append(float(sensor is not None and delivery != "unsent"))
    assert controller.health().energy.spent == sum(spent[-budgets_of().period :])


def test_refund_restores_budget_and_price():
    one, other = (EnergyBudget(budgets_of(each=(2.0, 5.0, 9.0), field=9.0)) for _ in range(2))
    for budget in (one, other):
        budget.advance(1)
        budget.charge(1)
    one.charge(2)
    one.refund(2)
    refunded, expected = one.snapshot(), other.snapshot()
    assert refunded.pop("energy_unit") == expected.pop("energy_unit")
    for name, value in expected.items():
        np.testing.assert_allclose(refunded[name], value)


def test_battery_that_fluctuates_about_the_limit_has_one_notice_until_it_recovers():
    controller = controller_of(budgets_of(least_battery=10.0, battery_age=40))
    events = [
        [each.notice.event for each in of(Notify, controller.handle(report))]
        for report in (
            BatteryReported("a", percent, 1.0) for percent in (9.8, 10.1, 9.9, 11.9, 9.0, 12.0, 9.9)
        )
    ]
    assert events == [["battery-low"], [], [], [], [], [], ["battery-low"]]


@pytest.mark.parametrize("restore", [Controller.restore, Controller.restore_partial])
def test_a_low_battery_has_one_notice_also_after_a_restart(restore):
    budgets = budgets_of(least_battery=10.0, battery_age=40)
    before, after = controller_of(budgets), controller_of(budgets)

    def notices(controller, percent):
        commands = controller.handle(BatteryReported("a", percent, 1.0))
        return [each.notice.event for each in of(Notify, commands)]

    assert [notices(before, percent) for percent in (9.5, 10.5)] == [["battery-low"], []]
    restore(after, before.snapshot())
    assert [notices(after, percent) for percent in (9.5, 12.0, 9.5)] == [[], [], ["battery-low"]]


@pytest.mark.parametrize("restore", [Controller.restore, Controller.restore_partial])
def test_a_low_battery_in_an_old_snapshot_has_been_announced(restore):
    budgets = budgets_of(least_battery=10.0, battery_age=40)
    before, after = controller_of(budgets), controller_of(budgets)
    before.handle(BatteryReported("a", 9.5, 1.0))
    state = decode_snapshot("controller", None, before.snapshot())
    del state["reported_low"]
    fingerprint = before.policy.field.fingerprint()
    restore(after, encode_snapshot("controller", fingerprint, state))
    assert after.handle(BatteryReported("a", 9.4, 2.0)) == []


@given(st.permutations(NAMES), st.lists(SENSORS, max_size=9), SENSORS)
def test_energy_spent_by_remaining_sensors_counts_after_a_change_of_sensors(names, activated, gone):
    before = controller_of(budgets_of(each=(5.0,) * 3, field=7.0), "round-robin")
    begin(before, 0)
    for sensor in activated:
        before.handle(ActivationRequested(sensor, 1.0))
    names = tuple(name for name in names if name != gone)
    field = SensorField(names, np.eye(2), 0.01, unit="°C", center=20.0, scale=2.0)
    budgets = BudgetSettings(costs=(1.0,) * 2, each=(5.0,) * 2, period=24, field=7.0)
    after = Controller(
        make_policy("round-robin", field),
        controller_settings(20.0, 1e9, energy=energy_settings(budgets, names)),
    )
    blob = before.snapshot()
    with pytest.raises(SnapshotError):
        after.restore(blob)
    after.restore_partial(blob)
    assert after.health().energy.spent == before.health().energy.spent
    assert [can_afford(after, name) for name in names] == [
        can_afford(before, name) for name in names
    ]


def test_battery_charge_keeps_its_age_after_a_change_of_sensors():
    budgets = budgets_of(least_battery=10.0, battery_age=3)
    before, after = controller_of(budgets), controller_of(budgets)
    begin(before, 0)
    before.handle(BatteryReported("a", 5.0, 1.0))
    begin(before, 1)
    after.restore_partial(before.snapshot())
    assert not can_afford(after, "a")
    begin(after, 2, intervals=2)
    assert not can_afford(after, "a")
    begin(after, 3)
    assert can_afford(after, "a")


@pytest.mark.parametrize("restore", [Controller.restore, Controller.restore_partial])
def test_battery_charge_keeps_its_age_after_a_change_of_the_interval(restore):
    budgets = budgets_of(least_battery=10.0, battery_age=40)
    before, after = controller_of(budgets), controller_of(budgets, interval=10 * INTERVAL)
    begin(before, 0)
    before.handle(BatteryReported("a", 5.0, 1.0))
    begin(before, 30, intervals=30)
    restore(after, before.snapshot())
    assert not can_afford(after, "a")
    begin(after, 31)
    assert not can_afford(after, "a")
    begin(after, 32)
    assert can_afford(after, "a")


def test_reading_of_the_sensor_that_a_saved_decision_names_is_not_late():
    controller = controller_of(budgets_of(field=0.0), learn_from="activated")
    sensor, decision = begin(controller, 0)
    assert (sensor, decision.reason) == (None, Reason.SAVED)
    controller.handle(Reading(decision.sensor, 20.0, 1.0, 1.0))
    assert controller.health().refused == {"unsolicited": 1}


def test_saved_intervals_are_still_counted_after_a_change_of_sensors():
    before, after = EnergyBudget(PLENTY), EnergyBudget(PLENTY)
    before.skip_interval()
    after.restore_partial({**before.snapshot(), "sensors": list(NAMES)}, ("b", "new", "a"))
    assert after.status(NAMES).saved == 1


def test_unknown_spending_counts_after_a_change_of_sensors():
    budgets = budgets_of(each=(2.0,) * 3)
    before, after = controller_of(budgets), controller_of(budgets)
    begin(before, 0)
    before.reserve_numbers(5, unknown=2)
    after.restore_partial(before.snapshot())
    begin(after, 6)
    assert not any(can_afford(after, name) for name in NAMES)


def test_pause_continues_after_a_change_of_the_field():
    before, after = controller_of(PLENTY), controller_of(None, "gp-ucb")
    before.handle(PauseRequested(1.0))
    after.restore_partial(before.snapshot())
    assert after.health().paused


@cache
def stored(budgets, intervals):
    """Return the snapshot of a controller after some intervals."""
    controller = controller_of(budgets)
    run(controller, intervals)
    return controller.snapshot()


@given(
    st.dictionaries(
        st.sampled_from(
            [
                *("spent", "charge", "heard", "reported_low", "energy", "forgotten", "saved"),
                *("sensors", "energy_unit", "costs"),
            ]
        ),
        st.sampled_from(
            [None, 3, "x", [], ["a"], np.ones(3), np.full((2, 4), np.nan), np.full((2, 4), -1.0)]
        ),
        min_size=1,
    )
)
@example({"spent": np.full((2, 4), -1.0)})
@example({"charge": np.full(3, -1.0)})
@example({"energy_unit": "mWh", "costs": np.zeros(3)})
@example({"energy_unit": "mWh", "costs": np.ones(2)})
def test_invalid_state_of_other_sensors_changes_nothing(broken):
    after = controller_of(PLENTY)
    state = decode_snapshot("controller", None, stored(PLENTY, 3))
    blob = encode_snapshot("controller", Fingerprint("another"), state | broken)
    kept = after.snapshot()
    with suppress(SnapshotError):
        after.restore_partial(blob)
        after.restore(after.snapshot())
        return
    assert after.snapshot() == kept


@pytest.mark.acceptance(18)
def test_unresponsive_sensors_are_probed_in_turn_within_their_budgets():
    controller = controller_of(budgets_of(each=(5.0, 6.0, 60.0), period=1000), "tv-gp-ucb")
    activated, reasons = [], []
    for n in range(60):
        sensor, decision = begin(controller, n)
        activated.append(sensor)
        reasons.append(decision.reason)
        controller.handle(DeadlineElapsed(n, n * STEP + 20))
    assert set(NAMES) == set(controller.health().suspects)
    probed = [sensor for sensor, why in zip(activated, reasons, strict=True) if why is Reason.PROBE]
    assert probed[:3] in (["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"])
    assert (activated.count("a"), activated.count("b")) == (5, 6)
    controller.handle(Reading("c", 21.0, 6001.0, 6001.0))
    assert controller.health().suspects == ["a", "b"]
    later = [begin(controller, n)[0] for n in range(70, 72)]
    assert set(later) <= {"c", None}


# --- batteries ------------------------------------------------------------------------------------


def test_sensor_with_a_low_battery_is_not_activated_and_has_one_notice():
    controller = controller_of(budgets_of(least_battery=10.0, battery_age=50), "round-robin")
    events = []
    for percent in (12.0, 9.0, 8.0):
        events += of(Notify, controller.handle(BatteryReported("a", percent, 5.0)))
    assert [(each.notice.event, each.notice.sensor) for each in events] == [("battery-low", "a")]
    assert "a" not in run(controller, 9)
    assert controller.health().energy.low_battery == ["a"]
    controller.handle(BatteryReported("a", 90.0, 5.0))
    assert "a" in run(controller, 3, first=9)


def test_battery_charge_that_is_old_or_unknown_does_not_prevent_an_activation():
    controller = controller_of(budgets_of(least_battery=10.0, battery_age=5), "round-robin")
    assert run(controller, 3) == ["a", "b", "c"]
    controller.handle(BatteryReported("a", 1.0, 5.0))
    assert "a" not in run(controller, 5, first=3)
    assert "a" in run(controller, 3, first=8)


@pytest.mark.parametrize(
    ("sensor", "percent", "reason"),
    [("x", 50.0, "unknown-sensor"), ("a", 255.0, "implausible"), ("a", np.nan, "implausible")],
)
def test_invalid_battery_charge_is_rejected(sensor, percent, reason):
    controller = controller_of(budgets_of(least_battery=10.0, battery_age=5))
    (rejected,) = controller.handle(BatteryReported(sensor, percent, 5.0))
    assert (rejected.reason, rejected.source) == (reason, sensor)
    assert controller.health().refused == {reason: 1}


def test_battery_charge_leaves_the_model_unchanged():
    controller = controller_of(budgets_of(least_battery=10.0, battery_age=5))
    before = controller.policy.snapshot()
    controller.handle(BatteryReported("a", 50.0, 5.0))
    assert controller.policy.snapshot() == before


# --- snapshots ------------------------------------------------------------------------------------


def test_snapshot_without_energy_is_restored():
    one, other = controller_of(None), controller_of(budgets_of(field=5.0))
    run(one, 5)
    other.restore(one.snapshot())
    assert other.health().energy.spent == 0.0
    one.restore(other.snapshot())


def test_all_spending_counts_as_spent_now_after_a_change_of_the_period():
    one, other = controller_of(budgets_of(period=48)), controller_of(budgets_of(period=100))
    run(one, 20)
    other.restore(one.snapshot())
    assert other.health().energy.spent == one.health().energy.spent == 20.0
    run(other, 99, first=20)
    assert other.health().energy.spent == 119.0


def test_spending_stays_counted_for_a_period_if_interval_and_period_change_by_one_factor():
    """The period has as many intervals as before, so the slots seem to be the same."""
    budgets = budgets_of(period=48)
    one = controller_of(budgets)
    energy = energy_settings(budgets, NAMES)
    longer = msgspec.structs.replace(energy, period=2 * energy.period)
    limits = controller_settings(20.0, 1e9, interval=2 * INTERVAL, energy=longer)
    other = Controller(make_policy("et-gp-ucb", one.policy.field), limits)
    run(one, 20)
    other.restore(one.snapshot())
    run(other, 37, first=20)  # the first activation was 94 of the former intervals ago
    assert other.health().energy.spent == 57.0


@pytest.mark.parametrize("restore", [Controller.restore, Controller.restore_partial])
def test_spent_energy_is_converted_after_a_change_of_its_unit(restore):
    joules = budgets_of(costs=(36.0, 72.0, 36.0), each=(180.0,) * 3, field=720.0)
    others = budgets_of(costs=(10.0, 20.0, 10.0), each=(50.0,) * 3, field=200.0, unit="mWh")
    before, after = controller_of(joules), controller_of(others)
    run(before, 4)
    before.handle(ActivationRequested("b", 4 * INTERVAL))
    spent = before.health().energy

    restore(after, before.snapshot())

    energy = after.health().energy
    assert (energy.unit, energy.spent) == ("mWh", pytest.approx(spent.spent / 3.6))
    assert energy.left == pytest.approx(spent.left / 3.6)
    assert [can_afford(after, name) for name in NAMES] == [
        can_afford(before, name) for name in NAMES
    ]
    again = controller_of(joules)
    restore(again, after.snapshot())
    assert again.health().energy == spent


@pytest.mark.parametrize(
    ("names", "costs", "ratio"),
    [
        (("a", "b", "c", "camera"), (10.0, 20.0, 10.0, 1000.0), 1 / 3.6),
        (("camera", "b"), (1000.0, 20.0), 1 / 3.6),
        (("d", "e"), (10.0, 20.0), 15 / 48),  # no sensor has remained: the means are compared
    ],
)
def test_sensors_that_change_with_the_unit_of_the_energy_do_not_change_the_ratio(
    names, costs, ratio
):
    before = controller_of(budgets_of(costs=(36.0, 72.0, 36.0), field=720.0))
    run(before, 4)
    budgets = budgets_of(costs=costs, each=(50.0,) * len(costs), field=2000.0, unit="mWh")
    after = Controller(
        make_policy("round-robin", SensorField(names, np.eye(len(names)), 0.01, unit="°C")),
        controller_settings(20.0, 1e9, energy=energy_settings(budgets, names)),
    )

    after.restore_partial(before.snapshot())

    spent = before.health().energy.spent
    assert after.health().energy.spent == pytest.approx(ratio * spent)


@pytest.mark.parametrize("units", [("J", "J"), ("J", ""), ("µWh", "\N{GREEK SMALL LETTER MU}Wh")])
def test_spent_energy_is_not_converted_if_only_the_costs_change(units):
    one, other = (
        controller_of(budgets_of(costs=(cost,) * 3, unit=unit))
        for cost, unit in zip((1.0, 2.0), units, strict=True)
    )
    run(one, 5)
    other.restore(one.snapshot())
    assert other.health().energy.spent == 5.0


@given(st.data())
@max_examples(200)
def test_damaged_snapshot_changes_nothing_or_is_valid(data):
    budgets = budgets_of(field=5.0, period=30)
    other, blob = controller_of(budgets), bytearray(stored(budgets, 4))
    blob[data.draw(st.integers(0, len(blob) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    before = other.snapshot()
    try:
        other.restore(bytes(blob))
    except SnapshotError:
        assert other.snapshot() == before
    msgspec.json.encode(other.health())
    other.handle(ResumeRequested(0.0))  # a bit may have paused it
    run(other, 2)
