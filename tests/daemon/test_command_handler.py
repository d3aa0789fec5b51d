"""The command handler says in its response why it rejects a command."""

import numpy as np
import pytest
from support.controllers import controller_settings

from edge_tvbo import SensorField, make_policy
from edge_tvbo.config.energy_settings import BatterySettings, EnergySettings, SensorEnergy
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.command_handler import CommandHandler
from edge_tvbo.messages.documents import Request
from edge_tvbo.messages.events import BatteryReported, IntervalElapsed

SPENT = EnergySettings(sensors={"a": SensorEnergy(budget=0.0)})
FIELD_SPENT = EnergySettings(cost=4.0, field_budget=2.0)
BATTERY = EnergySettings(battery=BatterySettings(topic="{sensor}"))


@pytest.mark.parametrize(
    ("energy", "left"),
    [
        (SPENT, "a has 0 J left"),
        (FIELD_SPENT, "an activation of a costs 4 J, and the field has 2 J left"),
        (BATTERY, "a has 5 % battery left"),
    ],
)
def test_sensor_that_cannot_be_activated_is_answered_with_the_energy_that_it_has_left(energy, left):
    field = SensorField(("a", "b"), np.eye(2), noise_variance=0.01)
    controller = Controller(make_policy("gp-ucb", field), controller_settings(energy=energy))
    controller.handle(IntervalElapsed(0.0))
    controller.handle(BatteryReported("a", 5.0, 1.0))
    handler = CommandHandler({"heat": controller}, lambda: None, dict)

    response = handler.process("activate", Request(sensor="a"), 2.0, lambda field, event: None)

    assert response.status == "error"
    assert response.error == f"{left}, so it cannot be activated now."
    assert handler.rejected == {"no-energy": 1}
