"""Fuzzing of the state files: any state with a valid checksum is rejected or can be continued.

The input is the document without its header; the header is computed, so that the code behind it
is reached. It holds one field for each policy, and is read as the daemon reads it at its start.
"""

import logging
import struct
import zlib
from functools import cache
from hashlib import sha256
from math import isfinite
from random import Random
from typing import Any

import msgspec
import numpy as np
from fuzz.fuzzing import main
from fuzz.trees import changed
from support.controllers import controller_settings, energy_settings
from support.lives import BOOT, Memory, Time

from edge_tvbo.control.controller import Controller
from edge_tvbo.control.energy_budget import BudgetSettings
from edge_tvbo.daemon.checkpoint_document import (
    FORMAT,
    MAGIC,
    Anchor,
    Document,
    FieldCheckpoint,
    decode,
)
from edge_tvbo.daemon.checkpoints import Checkpoints
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.commands import Activate, PublishState
from edge_tvbo.messages.events import DeadlineElapsed, IntervalElapsed, Reading
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.policy import make_policy, policies

K = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.5], [0.2, 0.5, 1.0]])
WINDOW = {"window": 4}
TUNED: dict[str, dict[str, Any]] = {
    "sw-gp-ucb": WINDOW,
    "w-gp-ucb": WINDOW,
    "w-dbo": WINDOW,
    "a-gp-ucb": WINDOW,
    "lb-gp-ucb": WINDOW,
    "lnb-gp-ucb": WINDOW,
    "mle-gp-ucb": WINDOW,
    "mcmc-gp-ucb": {**WINDOW, "samples": 4},
}
STEP = 100.0  # s, an interval


def seeds() -> list[bytes]:
    """Return a document for each policy after some intervals."""
    return [
        msgspec.msgpack.encode(Document(BOOT, False, {name: _kept(_first_intervals(name))}))
        for name in controllers()
    ]


def check(data: bytes) -> None:
    """Read `data` as a state; continue from it if it is accepted."""
    logging.disable()
    sealed = seal(data)
    try:
        document = decode(sealed)
    except SnapshotError:
        return
    known = {name: each for name, each in controllers().items() if name in document.fields}
    if known:
        _restart(sealed, known)
    for name, controller in known.items():
        _resume(name, controller, document.fields[name].controller)


def seal(body: bytes) -> bytes:
    """Return `body` with the header of the present format."""
    packed = zlib.compress(body, 1)
    number = FORMAT.to_bytes(4, "big")
    return struct.pack(">16s4s32s", MAGIC, number, sha256(number + packed).digest()) + packed


def mutate(data: bytes, random: Random) -> bytes:
    """Change one value, however deep in snapshots within snapshots."""
    try:
        return msgspec.msgpack.encode(_closed(changed(_open(msgspec.msgpack.decode(data)), random)))
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, OverflowError):
        return b""


# --- a restart ----------------------------------------------------------------------------------


def _restart(sealed: bytes, controllers: dict[str, Controller]) -> None:
    """Restore every field from checkpoints; check that the next interval is in the future."""
    clock = Time(Anchor(BOOT.wall + 30.0, BOOT.monotonic + 30.0, BOOT.boot))
    schedule = Scheduler(dict.fromkeys(controllers, STEP), clock, first=clock.elapsed())
    store = Memory([sealed])
    try:
        anchor, is_stepped = lambda: clock.now, clock.is_stepped
        make = controllers.__getitem__  # not called, because there is no journal
        Checkpoints(store, 900.0, controllers, schedule, anchor, is_stepped, make).restore()
        assert clock.elapsed() <= schedule.next_due() <= clock.elapsed() + STEP
        assert all(each.interval <= 2**54 for each in controllers.values())
    finally:
        for name in controllers:
            restarted(name)


def _resume(name: str, controller: Controller, snapshot: bytes) -> None:
    before = controller.snapshot()
    try:
        controller.restore(snapshot)
    except SnapshotError:
        assert controller.snapshot() == before, "a snapshot that is refused changes nothing"
        return
    try:
        controller.restore(controller.snapshot())
        _go_on(controller)
    finally:
        restarted(name)


def _go_on(controller: Controller) -> None:
    """End the interval and run two more: one with a reply, one without."""
    for sensor in ("a", "b", "c"):
        controller.handle(Reading(sensor, 55.0, BOOT.wall - 2.0, BOOT.wall - 2.0))
    for at in (BOOT.wall, BOOT.wall + STEP):
        commands = controller.handle(IntervalElapsed(at))
        decisions = [each.decision for each in commands if isinstance(each, PublishState)]
        assert decisions or controller.health().paused
        for decision in decisions:
            assert all(map(isfinite, (decision.mean, decision.std, decision.ucb)))
        activated = [each.sensor for each in commands if isinstance(each, Activate)]
        for sensor in activated if at == BOOT.wall else ():
            commands += controller.handle(Reading(sensor, 21.0, at + 1.0, at + 1.0))
        commands += controller.handle(Reading("b", 20.0, at + 2.0, at + 2.0))
        commands += controller.handle(DeadlineElapsed(controller.interval, at + 20.0))
        assert msgspec.json.encode([commands, controller.health(), controller.last_readings()])
    mean, std = controller.policy.posterior()
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


def restarted(name: str) -> Controller:
    """Return a controller as it is after its first intervals, whatever was done with it since."""
    first = _first_intervals(name)
    controller = controllers()[name]
    if controller.snapshot() != first:
        controller.restore(first)
    return controller


@cache
def controllers() -> dict[str, Controller]:
    rules = controller_settings(reply_timeout=20.0, max_age=150.0, max_backoff=4)
    budgets = BudgetSettings(costs=(1.0, 1.0, 2.0), each=(9.0, 9.0, 9.0), period=30)
    field = SensorField(("a", "b", "c"), K, 0.01, center=20.0, scale=2.0, positions=np.eye(3, 2))
    structure = prior_structure(K, STEP)
    learning = SensorField(("a", "b", "c"), K, 0.01, center=20.0, scale=2.0, structure=structure)
    made = {name: make_policy(name, field, **TUNED.get(name, {})) for name in policies()}
    made["windowed"] = make_policy("et-gp-ucb", field, **WINDOW)
    made["two components"] = make_policy("mtv-gp-ucb", field, **WINDOW)
    made["fitted"] = make_policy("tv-gp-ucb", field, epsilon="fitted", **WINDOW)
    made["structural"] = make_policy("auto", learning)
    made["learned"] = make_policy("auto", field, length_scale="learned")
    running = {name: Controller(policy, rules) for name, policy in made.items()}
    frugal = msgspec.structs.replace(rules, energy=energy_settings(budgets, field.sensors))
    return {**running, "frugal": Controller(make_policy("tv-gp-ucb", field), frugal)}


@cache
def _first_intervals(name: str) -> bytes:
    """Return a snapshot after some intervals, with an unresponsive sensor and a rejection."""
    controller = controllers()[name]
    for number in range(6):
        at = BOOT.wall - (9 - number) * STEP
        controller.handle(IntervalElapsed(at))
        if number % 3 != 1:
            activated = str(controller.health().selected)
            controller.handle(Reading(activated, 20.0 + number, at + 1.0, at + 1.0))
        controller.handle(Reading("x", 20.0, at + 2.0, at + 2.0))
        controller.handle(DeadlineElapsed(controller.interval, at + 20.0))
    return controller.snapshot()


def _kept(snapshot: bytes) -> FieldCheckpoint:
    return FieldCheckpoint(snapshot, 5, 9, STEP, 70.0)


# --- snapshots within snapshots -----------------------------------------------------------------


def _open(value: Any) -> Any:
    match value:
        case dict():
            return {key: _open(each) for key, each in value.items()}
        case list():
            return [_open(each) for each in value]
        case bytes():
            try:
                inside = msgspec.msgpack.decode(value)
            except (msgspec.MsgspecError, ValueError):
                return value
            return {"inside": _open(inside)} if isinstance(inside, dict | list) else value
    return value


def _closed(value: Any) -> Any:
    match value:
        case {"inside": inside}:
            return msgspec.msgpack.encode(_closed(inside))
        case dict():
            return {key: _closed(each) for key, each in value.items()}
        case list():
            return [_closed(each) for each in value]
    return value


if __name__ == "__main__":
    main("fuzz_snapshot")
