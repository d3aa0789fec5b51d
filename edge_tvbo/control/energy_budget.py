"""Energy budget: which sensors can be activated, and whether an activation is worth its energy.

An activation must be affordable. The spending in every window of one period must stay within the
budget, no matter in which interval the window begins. Therefore time is divided into slots of 1/24
of the period, and the spending in each slot is summed. Consider the window that ends now: an
activation is affordable if its cost, together with the spending in all slots that overlap this
window, is within the budget. Thus spending never exceeds the budget, but may stay below it by up to
1/24 of the budget. Windows are counted in whole intervals, but a command can be sent late in its
interval. So the limit is certain only in windows that are one interval shorter than a period.

An activation must also be worth its energy. Each budget has a price, in model units. The price
rises with each activation and falls in each interval, so that spending settles at the rate that the
budget allows. The price of an activation is p + (c / mean c) f, where p is the price of the
sensor's budget, f is the price of the field's budget, c is the cost of the sensor's activation, and
mean c is the mean cost over all sensors. A sensor is activated if its posterior standard deviation
is at least the price that the activation had when the interval began. This method is dual descent
for online knapsack problems (Balseiro, Lu & Mirrokni 2023, algorithm 1, with the standard deviation
as the reward). docs/findings.md compares it with other ways to spend a budget.

In the mode "advise", no activation is charged, and spent energy does not limit the recommendations.
If the mode of a field is changed to "advise", the energy that was spent before remains recorded, in
case the mode is changed back.

The energy budget uses no clock; it counts time in intervals.
"""

from collections.abc import Sequence
from math import ceil, inf
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.config.energy_settings import SensorEnergy
from edge_tvbo.control.facts import (
    EnergyFact,
    EnergyShortage,
    FieldEnergyLeft,
    FieldOutOfEnergy,
    LowBattery,
    OutOfEnergy,
    SensorsWithEnergy,
)
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.documents import EnergyState
from edge_tvbo.messages.formatting import may_be_same_unit
from edge_tvbo.models.snapshot import (
    MAX_COUNT,
    MAX_NUMBER,
    check_arrays,
    copy_arrays,
    read_count,
    read_names,
)
from edge_tvbo.numerics.types import Array, Mask

SLOTS_PER_PERIOD = 24  # number of slots in a period
RECOVERY_PERCENT = 2.0  # %; a low battery is reported again after a charge this far above the limit
PRICE_STEP = 0.2  # model units; increase of a price by one activation
ROUNDING = 1e-9  # relative to the budget: the largest rounding error of a sum of costs


def intervals_in(period: float, interval: float) -> int:
    """Return how many intervals begin in a period of an energy budget.

    The first interval begins at the start of the period. An interval that begins at the end of the
    period is not counted. Both lengths are in s.

    >>> intervals_in(86400.0, 600.0), intervals_in(90.0, 60.0)
    (144, 2)
    """
    return max(1, ceil(period / interval - ROUNDING))


class BudgetSettings(msgspec.Struct, frozen=True):
    """Costs and budgets of M sensors, in the user's unit of energy."""

    costs: tuple[float, ...]  # cost of one activation, for each sensor
    each: tuple[float, ...]  # budget of each sensor in a period; inf for no limit
    period: int  # number of intervals in a period, 1 or more
    field: float = inf  # budget of all sensors together in a period
    unit: str = "J"
    least_battery: float = 0.0  # %; a sensor with a lower charge is not activated
    battery_age: int = 0  # intervals after which a reported charge is ignored
    per_interval: int = 1  # the highest number of activated sensors in an interval
    charges: bool = True  # False in the mode "advise", in which spent energy limits nothing


class EnergyBudget:
    """The energy spent by the sensors of one field, and the prices of their activations.

    >>> energy = EnergyBudget(BudgetSettings(costs=(1.0, 2.0), each=(2.0, 2.0), period=24))
    >>> energy.advance(1)
    >>> energy.charge(1)
    >>> energy.affordable().tolist()
    [True, False]
    >>> energy.advance(24)
    >>> energy.affordable().tolist()
    [True, True]
    """

    def __init__(self, budgets: BudgetSettings) -> None:
        M = len(budgets.costs)
        costs = np.array(budgets.costs)
        self._budgets = budgets
        self._costs = costs
        self._limits = np.array([*budgets.each, budgets.field])  # the field's budget is last
        self._share = costs / costs.mean()  # for each sensor, a factor on the field's price
        affordable = self._limits / np.append(costs, costs.mean())  # activations in a period
        self._fall = PRICE_STEP * affordable / budgets.period  # price decrease per interval, or inf
        self._slot = ceil(budgets.period / SLOTS_PER_PERIOD)  # length of a slot, in intervals
        reach = ceil((budgets.period - 1) / self._slot)  # earlier slots that a window can overlap
        self._spent = np.zeros((reach + 1, M + 1))
        self._prices = np.zeros(M + 1)  # prices when the interval began, in model units
        self._rises = np.zeros(M + 1)  # price increases by the activations of the interval
        self._charge = np.full(M, 100.0)  # % of the battery
        self._charge_at = np.zeros(M, np.int64)  # interval in which the charge was reported
        self._reported_low = np.zeros(M, np.int64)  # 1: a notice has reported the low charge
        self._now = 0  # intervals so far
        self._saved = 0  # intervals without an activation
        self._unknown = 0  # intervals still to be charged; see `add_unknown_spending`

    @classmethod
    def from_settings(
        cls, settings: ControllerSettings, sensors: Sequence[str]
    ) -> "EnergyBudget | None":
        """Return the energy budget of a field; None if the field has no energy settings."""
        energy, interval = settings.energy, settings.interval
        if energy is None:
            return None
        assert interval != "on-reading"  # `config.cross_checks` excludes it
        own = [energy.sensors.get(sensor, SensorEnergy()) for sensor in sensors]
        each = [energy.budget if one.budget is None else one.budget for one in own]
        battery = energy.battery
        return cls(
            BudgetSettings(
                costs=tuple(one.cost or energy.cost for one in own),
                each=tuple(inf if budget is None else budget for budget in each),
                period=intervals_in(energy.period, interval),
                field=inf if energy.field_budget is None else energy.field_budget,
                unit=energy.unit,
                least_battery=battery.least if battery else 0.0,
                battery_age=ceil(battery.max_age / interval) if battery else 0,
                per_interval=settings.max_per_interval,
                charges=settings.sends_commands,
            )
        )

    def advance(self, intervals: int) -> None:
        """Advance the energy budget by `intervals`: remove old spending, and lower the prices."""
        before = self._now // self._slot
        self._now += intervals
        slot = self._now // self._slot
        rows = len(self._spent)
        for number in range(max(before, slot - rows) + 1, slot + 1):
            self._spent[number % rows] = 0.0
        risen = self._prices + self._rises
        np.maximum(risen - intervals * self._fall, 0.0, out=self._prices)
        self._rises[:] = 0.0
        self._charge_unknown()

    def affordable(self) -> Mask:
        """Return a mask, (M,), of the sensors whose budget and battery allow an activation."""
        left = self._spendable()
        affordable: Mask = self._costs <= np.minimum(left[:-1], left[-1])
        return affordable & ~self._low()

    def is_worth_activating(self, arm: int, std: float) -> bool:
        """Return whether `std` is at least the energy price of activating `arm`.

        `std` is the posterior standard deviation of `arm`, in model units. The other activations of
        the interval do not change the price. A recommendation in the mode "advise" costs nothing.
        """
        if not self._budgets.charges:
            return True
        return std >= float(self._prices[arm] + self._share[arm] * self._prices[-1])

    def charge(self, arm: int) -> None:
        """Charge the energy of an activation of `arm`, and raise the prices of later intervals."""
        row = self._current_slot()
        row[arm] += self._costs[arm]
        row[-1] += self._costs[arm]
        self._rises[arm] += PRICE_STEP
        self._rises[-1] += PRICE_STEP * self._share[arm]

    def refund(self, arm: int, age: int = 0) -> None:
        """Refund an activation of `arm`, because the activation was not delivered.

        The sensor was activated `age` intervals ago.
        """
        slot, rows = (self._now - age) // self._slot, len(self._spent)
        if self._now // self._slot - slot < rows:
            row = self._spent[slot % rows]
            row[arm] = max(0.0, row[arm] - self._costs[arm])
            row[-1] = max(0.0, row[-1] - self._costs[arm])
        prices = self._prices if age else self._rises
        prices[arm] = max(0.0, prices[arm] - PRICE_STEP)
        prices[-1] = max(0.0, prices[-1] - PRICE_STEP * self._share[arm])

    def skip_interval(self) -> None:
        """Count an interval in which no sensor is activated because energy is saved."""
        self._saved += 1

    def add_unknown_spending(self, intervals: int) -> None:
        """With the next `advance`, charge the energy that a killed process may have spent.

        `intervals` is the number of intervals that the process may have begun after its last
        snapshot. It is unknown which sensors were activated. So for each of these intervals, the
        budget of every sensor is charged with one activation, and the field's budget with the most
        expensive activations that one interval can have. Activations by command are not charged.
        """
        self._unknown += intervals

    def update_battery(self, arm: int, percent: float) -> bool:
        """Store the battery charge of `arm`; return whether to report that the charge is low.

        A low charge is reported once. It is reported again only if in the meantime the charge was
        at least `RECOVERY_PERCENT` above the limit.
        """
        self._charge[arm], self._charge_at[arm] = percent, self._now
        reported, low = bool(self._reported_low[arm]), bool(self._low()[arm])
        recovered = percent >= self._budgets.least_battery + RECOVERY_PERCENT
        self._reported_low[arm] = low or (reported and not recovered)
        return low and not reported

    def status(self, sensors: tuple[str, ...]) -> EnergyState:
        """Return the spent and the remaining energy of the field, for the health document."""
        left = max(0.0, self._left().item(-1))
        spent = self._spent.sum(axis=0)
        return EnergyState(
            unit=self._budgets.unit,
            spent=round(float(spent[-1]), 6),
            left=round(left, 6) if left < inf and self._budgets.charges else None,
            saved=self._saved,
            exhausted=int(np.count_nonzero(self._costs > self._spendable()[:-1])),
            low_battery=[sensors[arm] for arm in np.flatnonzero(self._low())],
        )

    def shortages(self, arms: Sequence[int]) -> dict[int, EnergyShortage]:
        """Return a dict with the reason for each sensor in `arms` that is not `affordable`.

        The reason is a low battery, or too little energy left in a budget.
        """
        unit, low, spendable = self._budgets.unit, self._low(), self._spendable()
        left = np.maximum(self._left(), 0.0)
        shortages: dict[int, EnergyShortage] = {}
        for arm in arms:
            cost = self._costs.item(arm)
            if low[arm]:
                shortages[arm] = LowBattery(self._charge.item(arm))
            elif cost > spendable[arm]:
                shortages[arm] = OutOfEnergy(left.item(arm), unit)
            elif cost > spendable[-1]:
                shortages[arm] = FieldOutOfEnergy(cost, left.item(-1), unit)
        return shortages

    def fact(self) -> EnergyFact | None:
        """Return the remaining energy, for the texts on decisions; None in the mode "advise".

        If the field has a budget, return the energy that is left of this budget. Otherwise, return
        the number of sensors whose budget and battery allow an activation.
        """
        if not self._budgets.charges:
            return None
        left = np.maximum(self._left(), 0.0)
        if left[-1] < inf:
            return FieldEnergyLeft(float(left[-1]), float(self._limits[-1]), self._budgets.unit)
        return SensorsWithEnergy(int(np.count_nonzero(self.affordable())), len(self._costs))

    # --- snapshots ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the energy budget for a snapshot."""
        return {
            "energy": self._now,
            "slot": self._slot,
            "saved": self._saved,
            "forgotten": self._unknown,
            "energy_unit": self._budgets.unit,
            "costs": self._costs,
            "spent": self._spent,
            "rises": self._rises,
            "reported_low": self._reported_low,
            **self._arrays(),
        }

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` unless `state` is a valid state of an energy budget."""
        for name in ("energy", "slot", "saved", "forgotten"):
            read_count(state, name)
        check_arrays(self._arrays(), state)
        for name, array in (("reported_low", self._reported_low), ("rises", self._rises)):
            if name in state:
                check_arrays({name: array}, state)
        spent = state.get("spent")
        columns = self._spent.shape[1:]
        if not isinstance(spent, np.ndarray) or spent.ndim != 2 or spent.shape[1:] != columns:
            raise SnapshotError(
                "The snapshot's 'spent' has another number of sensors than the field."
            )
        self._unit_ratio(state)
        sums = (spent, state["prices"], state["charge"], state.get("rises", self._rises))
        if not all((each >= 0).all() and (each < inf).all() for each in sums):
            raise SnapshotError("The snapshot's energy is invalid.")

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the energy budget from a `state` that `check` accepts.

        A snapshot of an old version does not say which low battery charges were reported. In this
        case, every low charge counts as reported. The prices in such a snapshot include the
        activations of the running interval.

        If the budget had another period when the state was stored, the stored slots do not match
        the present slots. In this case, all stored spending is charged to the current slot. If the
        unit of the energy has changed, the stored spending is converted; see `_unit_ratio`.
        """
        copy_arrays(self._arrays(), state)
        self._now, self._saved = int(state["energy"]), int(state["saved"])
        self._rises[:] = state.get("rises", 0.0)
        self._reported_low[:] = state.get("reported_low", self._low())
        self._unknown = int(state["forgotten"])
        spent: Array = np.minimum(state["spent"] * self._unit_ratio(state), MAX_NUMBER)
        if spent.shape == self._spent.shape and state["slot"] == self._slot:
            self._spent[:] = spent
        else:
            self._charge_now(spent)

    def restore_partial(self, state: dict[str, Any], sensors: tuple[str, ...]) -> None:
        """Restore the energy of the present `sensors` from a snapshot that may have other sensors.

        The spending and the battery charge of each sensor are restored, but not the prices. All
        stored spending is charged to the current slot, in the present unit of the energy. The
        spending of removed sensors counts only for the field's budget. Raises `SnapshotError` for
        an invalid state.
        """
        names = read_names(state, "sensors")
        spent, charge, charge_at = (state.get(name) for name in ("spent", "charge", "heard"))
        reported_low = state.get("reported_low")  # None in the snapshot of an old version
        now, unknown = read_count(state, "energy"), read_count(state, "forgotten")
        saved = read_count(state, "saved")
        if not (
            isinstance(spent, np.ndarray)
            and isinstance(charge, np.ndarray)
            and isinstance(charge_at, np.ndarray)
            and charge_at.dtype == np.int64
            and spent.shape[1:] == (len(names) + 1,)
            and charge.shape == charge_at.shape == (len(names),)
            and all((each >= 0).all() and (each <= MAX_NUMBER).all() for each in (spent, charge))
        ):
            raise SnapshotError("The snapshot's energy is invalid.")
        if reported_low is not None:
            check_arrays({"reported_low": np.zeros(len(names), np.int64)}, state)
        rows = {arm: names.index(each) for arm, each in enumerate(sensors) if each in names}
        spent = np.minimum(spent * self._unit_ratio(state, rows), MAX_NUMBER)
        row = self._current_slot()
        row[-1] = spent[:, -1].sum()
        self._saved = saved
        self._unknown += unknown
        for arm, before in rows.items():
            row[arm], self._charge[arm] = spent[:, before].sum(), charge[before]
            age = max(0, now - int(charge_at[before]))
            self._charge_at[arm] = self._now - min(age, MAX_COUNT)
            known = self._low()[arm] if reported_low is None else reported_low[before]
            self._reported_low[arm] = known

    def scale_ages(self, ratio: float) -> None:
        """Adapt the energy budget to a changed length of an interval.

        One former interval lasts `ratio` present intervals. So the age of each battery charge, in
        intervals, is multiplied by `ratio`. All stored spending is charged to the current slot,
        because stored slots and present slots last different times, even if both consist of the
        same number of intervals.
        """
        self._charge_now(self._spent)
        ages = np.clip((self._now - self._charge_at) * ratio, 0.0, MAX_COUNT)
        self._charge_at[:] = self._now - ages.round().astype(np.int64)

    def _unit_ratio(self, state: dict[str, Any], rows: dict[int, int] | None = None) -> float:
        """Return how many present units of energy are equal to one unit in `state`.

        If the unit has not changed, or `state` is of an old version, the result is 1. Otherwise the
        result is the present mean cost of an activation divided by the mean cost in `state`: a user
        who changes the unit also converts the costs. Raises `SnapshotError` for an invalid state.

        `rows` contains the sensors that are also in `state`: it maps each arm to a row of `state`.
        The costs of these sensors are averaged. If `rows` is None or empty, the costs of all
        sensors are averaged.
        """
        unit = state.get("energy_unit", self._budgets.unit)
        if not isinstance(unit, str):
            raise SnapshotError("The snapshot's 'energy_unit' is not a text.")
        if may_be_same_unit(unit, self._budgets.unit):
            return 1.0
        check_arrays({"costs": np.zeros(len(state["charge"]))}, state)
        present, stored = self._costs, state["costs"]
        if not (stored > 0.0).all():
            raise SnapshotError("The snapshot's 'costs' are not positive.")
        if rows:
            present, stored = present[list(rows)], stored[list(rows.values())]
        return min(float(present.mean()) / float(stored.mean()), MAX_NUMBER)

    def _charge_now(self, spent: Array) -> None:
        """Charge all energy in `spent`, the stored slots, to the current slot."""
        total = spent.sum(axis=0)
        self._spent[:] = 0.0
        self._current_slot()[:] = total

    def _charge_unknown(self) -> None:
        """Charge the current slot with the most energy that a killed process may have spent.

        At most the intervals of one period are charged, because no window has more intervals.
        """
        if not self._unknown:
            return
        row = self._current_slot()
        intervals = min(self._unknown, self._budgets.period)
        row[:-1] += intervals * self._costs
        most = np.sort(self._costs)[-self._budgets.per_interval :].sum()
        row[-1] += intervals * most
        self._unknown = 0

    def _current_slot(self) -> Array:
        """Return a view of the energy spent in the current slot: by each sensor, then in total."""
        slot: Array = self._spent[self._now // self._slot % len(self._spent)]
        return slot

    def _left(self) -> Array:
        left: Array = self._limits - self._spent.sum(axis=0)
        return left

    def _spendable(self) -> Array:
        """Return what is left of each energy budget, plus an allowance for rounding errors.

        In the mode "advise", the result is the whole budget, plus this allowance.
        """
        left = self._left() if self._budgets.charges else self._limits
        spendable: Array = left + ROUNDING * self._limits
        return spendable

    def _low(self) -> Mask:
        fresh = self._now - self._charge_at <= self._budgets.battery_age
        return (self._charge < self._budgets.least_battery) & fresh

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"prices": self._prices, "charge": self._charge, "heard": self._charge_at}
