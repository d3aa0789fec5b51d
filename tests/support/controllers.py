"""Settings of controllers, short enough for tests."""

from math import inf

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.config.energy_settings import BatterySettings, EnergySettings, SensorEnergy
from edge_tvbo.control.energy_budget import BudgetSettings

INTERVAL = 60.0  # s


class AdviseSettings(ControllerSettings, frozen=True, kw_only=True):
    """Settings of a field in the mode advise, which sends no commands."""

    @property
    def sends_commands(self):
        return False


def controller_settings(
    reply_timeout=20.0,
    max_age=1e9,
    *,
    interval=INTERVAL,
    on_reading=False,
    recommends=False,
    kind=ControllerSettings,
    **others,
):
    """Return settings with an interval of a minute, or one that follows the readings."""
    kind = AdviseSettings if recommends else kind
    interval = "on-reading" if on_reading else interval
    return kind(interval=interval, reply_timeout=reply_timeout, max_age=max_age, **others)


def energy_settings(budgets: BudgetSettings | None, sensors):
    """Return the settings that `EnergyBudget.from_settings` turns into `budgets`."""
    if budgets is None:
        return None
    each = zip(sensors, budgets.costs, budgets.each, strict=True)
    battery = BatterySettings(
        topic="{sensor}", least=budgets.least_battery, max_age=budgets.battery_age * INTERVAL
    )
    return EnergySettings(
        unit=budgets.unit,
        field_budget=None if budgets.field == inf else budgets.field,
        period=budgets.period * INTERVAL,
        sensors={
            sensor: SensorEnergy(cost=cost, budget=None if budget == inf else budget)
            for sensor, cost, budget in each
        },
        battery=battery if budgets.battery_age else None,
    )
