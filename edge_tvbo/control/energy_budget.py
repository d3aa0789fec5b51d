"""What activations cost, what may be spent, and when one is worth it. No clock: intervals go by.

A budget holds in every stretch of one period, wherever it begins. So what was spent is kept in
slots of a 24th of the period, and an activation has to fit in beside all slots that one period can
reach into: never more than the budget, and up to a 24th of it less.

Each budget has a price, in model units: it falls while nothing is spent and rises with each
activation, so that the rate of spending settles at the budget's. A sensor is asked when what is
unknown of it, its standard deviation, is worth the price. That is the dual descent of online
knapsacks (Balseiro, Lu & Mirrokni 2023, algorithm 1, with the posterior's deviation for a reward);
docs/findings.md has what it is worth beside spending first, or evenly, or at random.
"""

from collections.abc import Sequence
from math import ceil, inf
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.config.energy_settings import SensorEnergy
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.documents import EnergyState
from edge_tvbo.models.snapshot import MAX_NUMBER, check_arrays, copy_arrays, read_count
from edge_tvbo.numerics.types import Array, Mask

SLOTS = 24  # of a period
RECOVERY = 2.0  # %; that much above the least, a battery is no longer low
STEP = 0.2  # model units; what one activation adds to a price
ROUNDING = 1e-9  # of a budget: what sums of costs may be off by


def intervals_in(period: float, interval: float) -> int:
    """Give how many intervals can begin in a stretch of `period` (s), its end not included.

    >>> intervals_in(86400.0, 600.0), intervals_in(90.0, 60.0)
    (144, 2)
    """
    return max(1, ceil(period / interval - ROUNDING))


class Budgets(msgspec.Struct, frozen=True):
    """Costs and budgets of M sensors, in the unit of energy that the operator chose."""

    costs: tuple[float, ...]  # of one activation, by sensor
    each: tuple[float, ...]  # in a period, by sensor; inf for no limit
    period: int  # intervals, 1 or more
    field: float = inf  # of all sensors together, in a period
    unit: str = "J"
    least_battery: float = 0.0  # %; a sensor with less is not asked
    battery_age: int = 0  # intervals after which a battery's charge is no longer believed


class EnergyBudget:
    """The accounts of one field: who can be asked, and whether that is worth it.

    >>> energy = EnergyBudget(Budgets(costs=(1.0, 2.0), each=(2.0, 2.0), period=24))
    >>> energy.advance(1)
    >>> energy.charge(1)
    >>> energy.affordable().tolist()
    [True, False]
    >>> energy.advance(24)
    >>> energy.affordable().tolist()
    [True, True]
    """

    def __init__(self, budgets: Budgets) -> None:
        M = len(budgets.costs)
        costs = np.array(budgets.costs)
        self._budgets = budgets
        self._costs = costs
        self._limits = np.array([*budgets.each, budgets.field])  # the field is the last column
        self._share = costs / costs.mean()  # of the field's price
        affordable = self._limits / np.append(costs, costs.mean())  # activations in a period
        self._fall = STEP * affordable / budgets.period  # inf where there is no limit
        self._slot = ceil(budgets.period / SLOTS)  # intervals
        reach = ceil((budgets.period - 1) / self._slot)  # slots between two that a period touches
        self._spent = np.zeros((reach + 1, M + 1))
        self._prices = np.zeros(M + 1)  # model units
        self._charge = np.full(M, 100.0)  # %
        self._heard = np.zeros(M, np.int64)  # interval in which that was reported
        self._told = np.zeros(M, np.bool_)  # whether it was said that it is low
        self._now = 0  # intervals gone by
        self._saved = 0
        self._forgotten = 0

    @classmethod
    def of(cls, settings: ControllerSettings, sensors: Sequence[str]) -> "EnergyBudget | None":
        """Return the budget of a field with these sensors; None where energy is not counted."""
        energy, interval = settings.energy, settings.interval
        if energy is None:
            return None
        assert interval != "on-reading"  # `config.cross_checks` excludes it
        own = [energy.sensors.get(sensor, SensorEnergy()) for sensor in sensors]
        each = [energy.budget if one.budget is None else one.budget for one in own]
        battery = energy.battery
        return cls(
            Budgets(
                costs=tuple(one.cost or energy.cost for one in own),
                each=tuple(inf if budget is None else budget for budget in each),
                period=intervals_in(energy.period, interval),
                field=inf if energy.field_budget is None else energy.field_budget,
                unit=energy.unit,
                least_battery=battery.least if battery else 0.0,
                battery_age=ceil(battery.max_age / interval) if battery else 0,
            )
        )

    def advance(self, intervals: int) -> None:
        """Let intervals go by: old spending is forgotten, and prices fall."""
        before = self._now // self._slot
        self._now += intervals
        slot = self._now // self._slot
        rows = len(self._spent)
        for number in range(max(before, slot - rows) + 1, slot + 1):
            self._spent[number % rows] = 0.0
        np.maximum(self._prices - intervals * self._fall, 0.0, out=self._prices)
        self._settle(slot % rows)

    def affordable(self) -> Mask:
        """Give which sensors (bool[M]) can pay for an activation, by budget and battery."""
        left = self._left() + ROUNDING * self._limits
        affordable: Mask = self._costs <= np.minimum(left[:-1], left[-1])
        return affordable & ~self._low()

    def is_worth_activating(self, arm: int, std: float) -> bool:
        """Say whether asking `arm`, of whom `std` (model units) is unknown, is worth its price."""
        return std >= float(self._prices[arm] + self._share[arm] * self._prices[-1])

    def charge(self, arm: int) -> None:
        """Note that `arm` is asked."""
        row = self._spent[self._now // self._slot % len(self._spent)]
        row[arm] += self._costs[arm]
        row[-1] += self._costs[arm]
        self._prices[arm] += STEP
        self._prices[-1] += STEP * self._share[arm]

    def skip_interval(self) -> None:
        """Note that nobody is asked in this interval."""
        self._saved += 1

    def add_unknown_spending(self, intervals: int) -> None:
        """Allow for whoever was asked in intervals that a killed process did not live to keep.

        Nobody knows who it was, so each of them is charged to every sensor. What somebody asked
        for by a command meanwhile is forgotten indeed.
        """
        self._forgotten += intervals

    def report(self, arm: int, percent: float) -> bool:
        """Take in how full a battery is; say whether that is news of one too empty to be asked.

        One that wavers about the least is news once, until it has recovered.
        """
        self._charge[arm], self._heard[arm] = percent, self._now
        told, low = bool(self._told[arm]), bool(self._low()[arm])
        recovered = percent >= self._budgets.least_battery + RECOVERY
        self._told[arm] = low or (told and not recovered)
        return low and not told

    def state(self, sensors: tuple[str, ...]) -> EnergyState:
        """Give what was spent and what is left."""
        left = np.maximum(self._left(), 0.0)
        spent = self._spent.sum(axis=0)
        return EnergyState(
            unit=self._budgets.unit,
            spent=round(float(spent[-1]), 6),
            left=None if left[-1] == inf else round(float(left[-1]), 6),
            saved=self._saved,
            exhausted=int(np.count_nonzero(self._costs > left[:-1])),
            low_battery=[sensors[arm] for arm in np.flatnonzero(self._low())],
        )

    def ineligible_reason(self, arm: int) -> str:
        """Say why `arm` cannot be asked."""
        if self._low()[arm]:
            return f"has {self._charge[arm]:g} % of its battery left"
        return f"has {max(self._left()[[arm, -1]].min(), 0.0):.6g} {self._budgets.unit} left"

    def account(self) -> str:
        """Say in words what is left."""
        unit, left = self._budgets.unit, np.maximum(self._left(), 0.0)
        if left[-1] < inf:
            return f"{left[-1]:.6g} {unit} of {self._limits[-1]:.6g} {unit} are left"
        able = np.count_nonzero(self._costs <= left[:-1])
        return f"{able} of {len(self._costs)} sensors have {unit} left"

    # --- over a restart -----------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Give what a snapshot has to hold."""
        return {
            "energy": self._now,
            "slot": self._slot,
            "saved": self._saved,
            "forgotten": self._forgotten,
            "spent": self._spent,
            **self._arrays(),
        }

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` unless `restore` can make sense of `state`."""
        for name in ("energy", "slot", "saved", "forgotten"):
            read_count(state, name)
        check_arrays(self._arrays(), state)
        spent = state.get("spent")
        columns = self._spent.shape[1:]
        if not isinstance(spent, np.ndarray) or spent.ndim != 2 or spent.shape[1:] != columns:
            raise SnapshotError("The snapshot's 'spent' is of other sensors.")
        sums = (spent, state["prices"], state["charge"])
        if not all((each >= 0).all() and (each < inf).all() for each in sums):
            raise SnapshotError("The snapshot's energy cannot be.")

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which was checked; where periods differ, as if all were spent now."""
        copy_arrays(self._arrays(), state)
        self._now, self._saved = int(state["energy"]), int(state["saved"])
        self._told = self._low()
        self._forgotten = int(state["forgotten"])
        spent: Array = state["spent"]
        if spent.shape == self._spent.shape and state["slot"] == self._slot:
            self._spent[:] = spent
        else:
            self._spent[:] = 0.0
            self._spent[self._now // self._slot % len(self._spent)] = spent.sum(axis=0)

    def restore_partial(self, state: dict[str, Any], sensors: tuple[str, ...]) -> None:
        """Take over what `sensors` had spent and their charge, as if all were spent now.

        `state` is of other sensors; of those that are gone, the field's account keeps the
        spending. Raises `SnapshotError`.
        """
        names = _names(state)
        spent, charge, heard = (state.get(name) for name in ("spent", "charge", "heard"))
        now, forgotten = read_count(state, "energy"), read_count(state, "forgotten")
        if not (
            isinstance(spent, np.ndarray)
            and isinstance(charge, np.ndarray)
            and isinstance(heard, np.ndarray)
            and heard.dtype == np.int64
            and spent.shape[1:] == (len(names) + 1,)
            and charge.shape == heard.shape == (len(names),)
            and all((each >= 0).all() and (each <= MAX_NUMBER).all() for each in (spent, charge))
        ):
            raise SnapshotError("The snapshot's energy cannot be.")
        row = self._spent[self._now // self._slot % len(self._spent)]
        row[-1] = spent[:, -1].sum()
        self._forgotten += forgotten
        for arm, sensor in enumerate(sensors):
            if sensor in names:
                before = names.index(sensor)
                row[arm], self._charge[arm] = spent[:, before].sum(), charge[before]
                age = max(0, now - int(heard[before]))
                self._heard[arm] = self._now - min(age, self._budgets.battery_age + 1)

    def _settle(self, row: int) -> None:
        """Charge the forgotten intervals, at the latest that they can have been."""
        self._spent[row, :-1] += self._forgotten * self._costs
        self._spent[row, -1] += self._forgotten * self._costs.max()
        self._forgotten = 0

    def _left(self) -> Array:
        left: Array = self._limits - self._spent.sum(axis=0)
        return left

    def _low(self) -> Mask:
        fresh = self._now - self._heard <= self._budgets.battery_age
        return (self._charge < self._budgets.least_battery) & fresh

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"prices": self._prices, "charge": self._charge, "heard": self._heard}


def _names(state: dict[str, Any]) -> list[str]:
    names = state.get("sensors")
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise SnapshotError("The snapshot's sensors have no names.")
    return names
