"""The command handler says in its response why it rejects a command."""

import msgspec
import numpy as np
import pytest
from support.controllers import controller_settings

from edge_tvbo import SensorField, make_policy
from edge_tvbo.config.energy_settings import BatterySettings, EnergySettings, SensorEnergy
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.command_handler import CommandHandler
from edge_tvbo.daemon.restoration import restore_controller
from edge_tvbo.messages.commands import Activate
from edge_tvbo.messages.documents import (
    Decision,
    FieldHealth,
    Health,
    Ineligibility,
    ModelState,
    Reason,
    Request,
)
from edge_tvbo.messages.events import ActivationRequested, BatteryReported, IntervalElapsed

SPENT = EnergySettings(sensors={"a": SensorEnergy(budget=0.0)})
FIELD_SPENT = EnergySettings(cost=4.0, field_budget=2.0)
BATTERY = EnergySettings(battery=BatterySettings(topic="{sensor}"))


def handler_of(controller, begins_in=600.0, interval=600.0):
    """Return a handler of one field, whose next interval begins `begins_in` seconds from now."""
    return CommandHandler({"heat": controller}, lambda: None, dict, lambda _: (interval, begins_in))


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
    handler = handler_of(controller)

    response = handler.process("activate", Request(sensor="a"), 2.0, lambda field, event: None)

    assert response.status == "error"
    assert response.error == f"{left}, so it cannot be activated now."
    assert handler.rejected == {"no-energy": 1}


@pytest.mark.parametrize("sensors", [("b", "a"), ("new", "b"), ("a", "new", "b")])
def test_a_command_after_a_reload_with_other_sensors_is_for_the_sensor_of_its_id(sensors):
    def controller_of(sensors):
        field = SensorField(sensors, np.eye(len(sensors)), noise_variance=0.01)
        return Controller(make_policy("gp-ucb", field), controller_settings())

    before, after = controller_of(("a", "b", "c")), controller_of(sensors)
    before.handle(IntervalElapsed(0.0))
    before.handle(ActivationRequested("c", 1.0))
    restore_controller("reload", "heat", after, before.snapshot())
    after.reserve_numbers(before.used)
    after.handle(IntervalElapsed(600.0))
    commands = []

    def activated(sensor):
        response = handler_of(after).process(
            "activate",
            Request(sensor=sensor),
            601.0,
            lambda _, event: commands.extend(after.handle(event)),
        )
        return response.error, [each.sensor for each in commands if isinstance(each, Activate)]

    error, none = activated("c")
    assert error.startswith("There is no sensor of this id in heat") and none == []
    assert activated("b") == (None, ["b"])


@pytest.mark.parametrize(
    ("interval", "begins_in", "at"),
    [
        (600.0, 100.2, ", at 1970-01-01T00:05:01Z"),
        (600.0, -3.0, ", at 1970-01-01T00:03:20Z"),
        (None, 0.0, ""),  # with interval = "on-reading", a reply begins the interval
    ],
)
def test_a_command_between_two_intervals_is_answered_with_the_start_of_the_next_one(
    interval, begins_in, at
):
    field = SensorField(("a", "b"), np.eye(2), noise_variance=0.01)
    controller = Controller(make_policy("gp-ucb", field), controller_settings())
    controller.handle(IntervalElapsed(0.0))
    controller.reserve_numbers(5)  # as after a reload with other sensors
    handler = handler_of(controller, begins_in, interval)

    response = handler.process("activate", Request(sensor="a"), 200.0, lambda field, event: None)

    assert response.status == "error"
    assert response.error == (
        "No interval of heat is running yet; send the command again after the next interval "
        f"begins{at}."
    )
    assert handler.rejected == {"too-early": 1}


def status_handler(number):
    """Return a handler of so many fields, with decisions of the usual length."""
    fields = [f"floor-{each}" for each in range(number)]
    field = FieldHealth(7, "hall", answered=9, missed=0, suspects=[], refused={})
    health = Health("2026-11-28T08:00:00Z", 60, "0.2.0", dict.fromkeys(fields, field))
    at, ids = health.at, [f"office-{each:02d}" for each in range(50)]
    decision = Decision(
        *(7, at, at, "hall", "auto", 21.5, 0.4, 22.3, "°C", Reason.EXPLOIT),
        factors=["x" * 60] * 3,
        text="y" * 200,
        model=ModelState(100, 1),
        ineligible=dict.fromkeys(ids, Ineligibility.BACKED_OFF),
    )
    decisions = dict.fromkeys(fields, decision)
    next_interval = (600.0, 600.0, 1)
    controllers = dict.fromkeys(fields)
    return CommandHandler(controllers, lambda: health, lambda: decisions, lambda _: next_interval)


@pytest.mark.parametrize("number", [1, 5, 30, 50, 200, 400])
def test_the_response_to_status_fits_in_one_message(number):
    handler = status_handler(number)
    response = handler.process("status", Request(transaction="x" * 64), 0.0, None)
    assert len(msgspec.json.encode(response)) < 65_000
    if number < 100:
        fields = {f"floor-{each}" for each in range(number)}
        assert response.data.selected.keys() == response.data.health.fields.keys() == fields
        decision = response.data.selected["floor-0"]
        assert bool(decision.ineligible) is bool(decision.factors) is (number < 30)
    else:
        assert response.error.endswith(
            'kB, which is too large for one message; request one field: {"field": "<name>"}.'
        )
        assert handler.rejected == {"too-many-fields": 1}


@pytest.mark.parametrize("number", [2, 400])
def test_the_response_to_status_of_a_field_contains_only_this_field(number):
    response = status_handler(number).process("status", Request(field="floor-1"), 0.0, None)
    assert list(response.data.selected) == list(response.data.health.fields) == ["floor-1"]
    assert response.data.selected["floor-1"].ineligible
