"""Simulated runs of a daemon with one field, with a manual clock and without broker and disk."""

from copy import deepcopy
from functools import partial
from typing import ClassVar

import numpy as np
from support.controllers import controller_settings

from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.checkpoint_document import Anchor
from edge_tvbo.daemon.checkpoints import Checkpoints
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.messages.commands import Activate
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

NOW = 1.8e9
BOOT = Anchor(NOW, 5000.0, "this boot")


class Time:
    """A clock that stands still until it is moved; `now` is its anchor."""

    speed = 1.0
    min_reply_time = 0.0

    def __init__(self, anchor=BOOT):
        self.now = anchor

    def elapsed(self):
        return self.now.monotonic

    def wall(self, elapsed):
        return self.now.wall + elapsed - self.now.monotonic

    def catch_up(self, due, interval):
        return 1 + max(0, int((self.now.monotonic - due) // interval))

    def is_stepped(self):
        return False

    def move(self, seconds):
        self.now = Anchor(self.now.wall + seconds, self.now.monotonic + seconds, self.now.boot)

    def reboot(self, seconds, wall=None):
        wall = self.now.wall + seconds if wall is None else wall
        self.now = Anchor(wall, 10.0, self.now.boot + "'")


class Memory:
    """An in-memory store of checkpoints, whose generations are in a list that restarts share."""

    newest = "0"

    entries: ClassVar[dict[bytes, list[bytes]]] = {}  # by checkpoint: its journal

    def __init__(self, kept):
        self.kept = kept
        self.written = 0
        self.full = False
        self.until = None  # see `unsaved_until`

    def generations(self):
        yield from ((str(n), document) for n, document in enumerate(self.kept) if document)

    def why_empty(self):
        return ""

    def set_aside(self, generation, why):
        self.kept[int(generation)] = b""
        return f"{generation} is {why}"

    def demote_newest(self):
        self.kept[:] = [b"", self.kept[0]]

    def save(self, document):
        if not self.full:
            self.kept[:] = [document, *filter(None, self.kept)][:2]
            self.entries[document] = []
            self.written += len(document)
            self.until = None
        return not self.full

    def mark_unsaved(self, until):
        self.until = until

    def unsaved_until(self):
        return self.until

    def append(self, entry):
        if not self.full:
            self.entries[self.kept[0]].append(entry)
            self.written += len(entry)
        return not self.full

    def journals(self):
        for document in self.kept:
            yield b"".join(self.entries.get(document, []))

    def count_replay(self):
        return 1

    def end_replay(self):
        pass


class Life:
    """One run of the daemon: a controller of one field, its schedule, and its checkpoints."""

    def __init__(
        self, clock, store, *, every=600.0, checkpoint=900.0, unit=1.0, policy=None, **limits
    ):
        self.clock = clock
        field = SensorField(("a", "b"), np.eye(2), 0.01, scale=unit)
        rules = controller_settings(**{"reply_timeout": 1.0, "max_age": 1e9} | limits)
        if policy:
            fresh = partial(deepcopy, deepcopy(policy))
        else:
            fresh = partial(make_policy, "tv-gp-ucb", field, epsilon=0.1)
        self.controller = Controller(policy or fresh(), rules)
        self.schedule = Scheduler({"lab": every}, clock, first=clock.elapsed())
        self.store = Memory(store) if isinstance(store, list) else store
        fields = {"lab": self.controller}
        self.checkpoints = Checkpoints(
            self.store,
            checkpoint,
            fields,
            self.schedule,
            lambda: clock.now,
            clock.is_stepped,
            make_controller=lambda _: Controller(fresh(), rules),
        )
        self.checkpoints.restore()
        self.checkpoints.save()

    def live(self, seconds, step=50.0):
        """Advance the clock in steps; return the activations, as (interval, at)."""
        began = []
        for _ in range(int(seconds / step) + 1):
            for _, event in self.schedule.due():
                began += self.handle(event)
            self.checkpoints.service(self.clock.elapsed())
            self.clock.move(step)
        return began

    def handle(self, event):
        """Handle an event; return the activations, as (interval, at)."""
        commands = self.commands(event)
        return [(each.interval, each.at) for each in commands if isinstance(each, Activate)]

    def commands(self, event):
        """Handle an event; return the commands."""
        commands = self.controller.handle(event)
        self.checkpoints.note("lab", event, 0.0)
        for command in commands:
            self.schedule.note("lab", command)
        return commands
