"""The fields, policies and readings of the old state files in ``tests/data``."""

import math

import numpy as np
from support.controllers import controller_settings, energy_settings

from edge_tvbo.control.controller import Controller
from edge_tvbo.control.energy_budget import BudgetSettings
from edge_tvbo.messages.events import DeadlineElapsed, IntervalElapsed, Reading
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.policy import make_policy

START, INTERVAL = 1.8e9, 600.0  # s since 1970, s
SENSORS = ("a", "b", "c", "d")
PLACES = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 0.9], [2.0, 1.0]])
K = np.array([
    [1.0, 0.5, 0.25, 0.125],
    [0.5, 1.0, 0.5, 0.25],
    [0.25, 0.5, 1.0, 0.5],
    [0.125, 0.25, 0.5, 1.0],
])  # fmt: skip
WINDOW = {"window": 5}
POLICIES = {  # of each field in the state file: policy, its settings, and the kind of field
    "gp-ucb": ("gp-ucb", {}, "plain"),
    "tv-gp-ucb": ("tv-gp-ucb", {"epsilon": 0.05}, "plain"),
    "ui-tvbo": ("ui-tvbo", {}, "plain"),
    "et-gp-ucb": ("et-gp-ucb", {"n_upper": 12}, "plain"),
    "r-gp-ucb": ("r-gp-ucb", {"period": 7}, "plain"),
    "tv-window": ("tv-gp-ucb", WINDOW, "plain"),
    "mtv-gp-ucb": ("mtv-gp-ucb", {}, "plain"),
    "ttv-gp-ucb": ("ttv-gp-ucb", {"tau": 25.0, "rho": 5.0}, "plain"),
    "mtv-window": ("mtv-gp-ucb", WINDOW, "plain"),
    "fitted": ("tv-gp-ucb", {"epsilon": "fitted", "window": 12}, "plain"),
    "sw-gp-ucb": ("sw-gp-ucb", WINDOW, "plain"),
    "w-gp-ucb": ("w-gp-ucb", {"window": 6}, "plain"),
    "w-dbo": ("w-dbo", {"window": 8, "epsilon": 0.2}, "plain"),
    "auto": ("auto", {}, "plain"),
    "auto-learned": ("auto", {"length_scale": "learned"}, "plain"),
    "lb-gp-ucb": ("lb-gp-ucb", {"window": 8}, "plain"),
    "a-gp-ucb": ("a-gp-ucb", {"window": 8}, "plain"),
    "mle-gp-ucb": ("mle-gp-ucb", {"window": 8}, "plain"),
    "mcmc-gp-ucb": ("mcmc-gp-ucb", {"window": 8, "samples": 3}, "plain"),
    "rexp3": ("rexp3", {"period": 9}, "plain"),
    "d-ucb": ("d-ucb", {}, "plain"),
    "oracle": ("oracle", {}, "plain"),
    "round-robin": ("round-robin", {}, "plain"),
    "low-rank": ("tv-gp-ucb", {"epsilon": 0.05}, "many"),
    "paused": ("gp-ucb", {}, "plain"),
    "energy": ("tv-gp-ucb", {"epsilon": 0.05}, "plain"),
}
BOX_POLICIES = {
    "gp-ucb": {},
    "tv-gp-ucb": {"epsilon": 0.1, "window": 6},
    "w-gp-ucb": {"window": 6},
    "w-dbo": {"window": 8, "epsilon": 0.3},
    "lb-gp-ucb": {"window": 6},
}


def fields():
    """Return a plain field, and one of 520 sensors."""
    shared = {"center": 20.0, "scale": 2.0}
    plain = {**shared, "unit": "°C", "positions": PLACES}
    line = np.linspace(0.0, 1.0, 520)[:, None]
    smooth = SpatialKernel(length_scale=0.5)(line, line)
    return {
        "plain": SensorField(SENSORS, K, 0.0625, **plain),
        "many": SensorField([f"s{i}" for i in range(520)], smooth, 0.0625, **shared),
    }


def controllers():
    """Return a controller for each field of the state file, without any reading."""
    made, known = {}, fields()
    budgets = BudgetSettings(costs=(1.0, 1.0, 2.0, 1.0), each=(9.0, 9.0, 9.0, 30.0), period=30)
    for name, (policy, parameters, kind) in POLICIES.items():
        energy = energy_settings(budgets if name == "energy" else None, SENSORS)
        settings = controller_settings(20.0, 150.0, max_backoff=4, energy=energy)
        made[name] = Controller(make_policy(policy, known[kind], seed=3, **parameters), settings)
    return made


def large_controller():
    """Return the controller of ``state-before-planes/hall.state``, without any reading.

    The policy is `auto`, with a covariance of 130 by 130 numbers. The sensors are correlated alike,
    so many of these numbers are equal, and the file is small.
    """
    names = [f"s{i}" for i in range(13)]
    kernel = np.full((13, 13), 0.5) + 0.5 * np.eye(13)
    structure = prior_structure(kernel, INTERVAL)
    field = SensorField(names, kernel, 0.0625, center=20.0, scale=2.0, structure=structure)
    return Controller(make_policy("auto", field, seed=3), controller_settings(20.0, 150.0))


def box_policies():
    """Return the policies of ``box-policies.msgpack``, without any reading."""
    spatial = SpatialKernel(math.inf, (0.5, 2.0))
    box = BoxField([-1.0, 0.0], [1.0, 9.0], spatial, 0.0625, candidates=16)
    return {name: make_policy(name, box, seed=3, **each) for name, each in BOX_POLICIES.items()}


def reading(number):
    """Return a value in °C by integer arithmetic, which is the same on every machine."""
    return 20.0 + (number * 37 % 64 - 32) / 16


def posterior_sums(policy):
    mean, std = policy.posterior()
    return [math.fsum(mean).hex(), math.fsum(std).hex()]


def run_controller(controller, first, last):
    """Run intervals `first` to `last`; return sensor and posterior sums of each."""
    decided = []
    sensors = controller.policy.field.sensors
    for number in range(first, last):
        at = START + number * INTERVAL
        controller.handle(IntervalElapsed(at))
        sensor = controller.health().selected
        if sensor is not None and number % 5 != 4:
            controller.handle(Reading(sensor, reading(number), at + 1.0, at + 1.0))
        other = sensors[number % len(sensors)]
        controller.handle(Reading(other, reading(number + 7), at + 2.0, at + 2.0))
        controller.handle(DeadlineElapsed(controller.interval, at + 20.0))
        decided.append([sensor, *posterior_sums(controller.policy)])
    return decided


def run_policy(policy, first, last):
    """Run intervals `first` to `last`; return arm and posterior sums of each."""
    decided = []
    for number in range(first, last):
        choice = policy.select()
        policy.observe(choice.arm, (reading(number) - 20.0) / 2.0)
        policy.advance()
        decided.append([policy.field.name(choice.arm), *posterior_sums(policy)])
    return decided
