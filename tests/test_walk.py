"""The walk of one reading: every call of the product from the socket to the kernel and back."""

import selectors
import sys
import time

import numpy as np
from support.controllers import controller_settings
from support.link import ACCEPTED, FakeBroker
from support.mqtt_bytes import publish

from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.clock import LiveClock
from edge_tvbo.daemon.loop import Loop
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.messages.events import IntervalElapsed
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors import state_space
from edge_tvbo.policy import make_policy

SUBACK = b"\x90\x03\x00\x01\x01"
MAX_CALLS = 12
INWARDS = [  # the only calls that pass the reading on, from the socket to the kernel
    "MqttLink.service",
    "Session.service",
    "Session._read",  # calls paho's `loop_read`
    "Session._on_message",
    "MessageRouter.events",
    "Route.event",
    "codec.<locals>.decode",
    "Loop._handle",
    "Controller.handle",
    "ReadingHandler.handle",
    "UpperConfidence.observe",
    "StateSpacePosterior.observe",  # calls the kernel `condition`
]
LEVELS = [  # a function calls functions of its own level and of those after it
    ("daemon.loop",),
    ("daemon.", "mqtt.link", "control."),
    ("mqtt.", "policy."),
    ("payloads.", "models."),
    ("numerics.", "messages.", "config.", "errors"),
]


class Calls:
    """Records the calls of the product's functions as (callers, module, name).

    The callers of a function are all open calls around it, as names.
    """

    def __init__(self):
        self.calls, self.upwards, self._levels, self._names = [], [], [], []

    @property
    def callers(self):
        return tuple(self._names)

    def __call__(self, frame, event, argument):
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in ("edge_tvbo", "edge_tvbo_adapters"):
            return
        if event == "call":
            name = frame.f_code.co_qualname
            self.calls.append((self.callers, module, name))
            self._names.append(name)
            self._levels.append(level(module))
            if self._levels[-1] < max(self._levels):
                self.upwards.append(name)
        elif event == "return" and self._names:
            self._names.pop()
            self._levels.pop()


def level(module):
    """Return the index of a module in `LEVELS`."""
    name = module.partition(".")[2]
    return next(i for i, names in enumerate(LEVELS) if name.startswith(names))


def turn_with_a_reading(loop, fake_broker, value, age):
    """Send a reading to the link, and run the turn of the loop that handles it."""
    measured = int(time.time()) - age
    fake_broker.send(publish("lab/a/reading", b'{"t": %g, "ts": %d}' % (value, measured)))
    with selectors.DefaultSelector() as selector:
        selector.register(*fake_broker.link.interest())
        assert selector.select(20)
    loop.turn(selectors.EVENT_READ)


def test_a_reading_takes_only_the_listed_calls_to_the_kernel_and_none_upwards(monkeypatch):
    field = SensorField(("a", "b"), np.eye(2) + 0.5, 0.01)
    controller = Controller(make_policy("et-gp-ucb", field), controller_settings())
    controller.handle(IntervalElapsed(time.time()))
    clock, calls, kernel = LiveClock(), Calls(), []
    condition = state_space.state_space.condition

    def observed_condition(*arguments):
        kernel.append((len(calls.calls), calls.callers))
        condition(*arguments)

    monkeypatch.setattr(state_space.state_space, "condition", observed_condition)
    with FakeBroker() as fake_broker:
        fake_broker.send(ACCEPTED + SUBACK)
        fake_broker.until(lambda: fake_broker.link.online)
        scheduler = Scheduler({"lab": 600.0}, clock, first=600.0)
        loop = Loop(fake_broker.link, {"lab": controller}, scheduler, clock)
        turn_with_a_reading(loop, fake_broker, 20.5, age=10)  # the first of a topic is looked up
        sys.setprofile(calls)
        try:
            turn_with_a_reading(loop, fake_broker, 20.6, age=0)
        finally:
            sys.setprofile(None)

    count, around_kernel = kernel[1]
    for number, (callers, module, name) in enumerate(calls.calls):
        place = "  -> kernel condition" if number == count - 1 else ""
        print(f"{'  ' * len(callers)}{module.partition('.')[2]}: {name}{place}")
    assert controller.policy.observations == 2
    inwards = [(callers, name) for callers, _, name in calls.calls[:count] if name in INWARDS]
    assert [name for _, name in inwards] == INWARDS
    assert len(INWARDS) <= MAX_CALLS
    callers = {name for around, _ in inwards for name in around} | {*around_kernel}
    assert callers - {*INWARDS} == {"Loop.turn"}
    assert not calls.upwards
