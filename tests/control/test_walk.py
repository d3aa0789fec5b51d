"""The walk of one reading: the calls from `Controller.handle` to the kernel."""

import sys

import numpy as np
from support.controllers import controller_settings

from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.events import IntervalElapsed, Reading
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors import state_space
from edge_tvbo.policy import make_policy

MAX_CALLS = 7  # from the event to the kernel


def call_chain():
    """Return the names of the product's functions that are running, the outermost first."""
    frame, names = sys._getframe(1), []
    while frame is not None:
        if frame.f_globals["__name__"].startswith("edge_tvbo."):
            names.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return names[::-1]


def test_few_calls_lead_from_the_reading_to_the_kernel(monkeypatch):
    field = SensorField(("a", "b"), np.eye(2) + 0.5, 0.01)
    controller = Controller(make_policy("et-gp-ucb", field), controller_settings())
    controller.handle(IntervalElapsed(0.0))
    chains, condition = [], state_space.state_space.condition

    def observed_condition(*arguments):
        chains.append(call_chain())
        condition(*arguments)

    monkeypatch.setattr(state_space.state_space, "condition", observed_condition)
    for at, sensor in enumerate("ab", 1):
        controller.handle(Reading(sensor, 1.0, float(at), float(at)))

    assert chains == 2 * [
        [
            "Controller.handle",
            "Controller._handle_reading",
            "UpperConfidence.observe",
            "StateSpacePosterior.observe",
        ]
    ]
    assert len(chains[0]) + 1 <= MAX_CALLS  # with the kernel
    assert controller.policy.observations == 2
