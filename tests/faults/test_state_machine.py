"""The daemon against a simple reference, while broker, clock, disk and process fail at any step."""

from collections import Counter
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.twin_daemon import INTERVAL, REPLY_TIMEOUT, Disk, Process, WorldClock

from edge_tvbo.daemon import checkpoints
from edge_tvbo.daemon.clock import RELEASED_AT
from edge_tvbo.messages.events import Reading

STEPS_OF_RUN = 50
MAX_QUEUED = 200  # messages in the outbox
TIMES = (1.0, 30.0, REPLY_TIMEOUT, REPLY_TIMEOUT + 5, INTERVAL / 2, INTERVAL, 3.5 * INTERVAL)
ENDINGS = "stop", "kill", "reboot", "reboot, unset", "damage", "tear"
DENIED = st.sampled_from(["", "a", "b", "c"])
VALUES = (-1.0, -0.25, 0.0, 0.5, 1.25)


class Faults(RuleBasedStateMachine):
    """Steps of the daemon and of all that may fail around it; invariants hold after each."""

    tried: ClassVar[Counter[str]] = Counter()  # by all instances

    @initialize(denied=DENIED)
    def start(self, denied):
        self.denied = denied  # the sensor whose activations the broker refuses
        self.clock, self.disk = WorldClock(), Disk()
        self.process = Process(self.clock, self.disk)
        self.left = Counter()  # by number: activations that left, of all processes
        self.delivered = set()  # (interval, sensor), of all processes
        self.paid = 0  # activations that left, of this process
        self.awaited = []  # sensors that received a command and have not replied
        self.used = -1  # highest number of an activation
        self.unset_by = 0.0  # s by which the wall clock is late after a reboot
        self.clock_doubtful = False  # whether the wall clock was set since the last checkpoint
        self.written, self.stored_in = 0, ""  # bytes of checkpoints, and the boot of the last
        self.note_checkpoint()
        self.connect()

    # --- what happens in any case -----------------------------------------------------------------

    @rule(seconds=st.sampled_from(TIMES))
    def wait(self, seconds):
        self.clock.move(seconds)
        self.turn()

    @rule(reply=st.none() | st.sampled_from(VALUES))
    def wait_for_timer(self, reply):
        """Wait until an interval begins or a reply is overdue; the activated sensor may reply."""
        self.clock.move(max(0.0, self.process.schedule.next_due() - self.clock.elapsed()))
        self.turn()
        if reply is not None and self.awaited and self.process.network.online:
            self.receive(self.awaited.pop(), reply, stamped=True)
            self.turn()

    def turn(self):
        known = len(self.process.activated)
        self.process.turn()
        self.note(known)

    @precondition(lambda self: self.awaited and self.process.network.online)
    @rule(data=st.data(), value=st.sampled_from(VALUES), twice=st.booleans(), stamped=st.booleans())
    def reply(self, data, value, twice, stamped):
        sensor = data.draw(st.sampled_from(self.awaited))
        self.awaited.remove(sensor)
        for _ in range(1 + twice):
            self.receive(sensor, value, stamped=stamped)
        self.turn()

    @precondition(lambda self: self.process.network.online)
    @rule(sensor=st.sampled_from("abc"), value=st.sampled_from(VALUES))
    def report(self, sensor, value):
        self.receive(sensor, value, stamped=False)
        self.turn()

    @rule()
    def checkpoint(self):
        self.process.checkpoints.save()
        self.note_checkpoint()

    @rule()
    def write(self):
        """Let the next write be due: an entry of the journal, or a checkpoint without a journal."""
        self.process.checkpoints.service(self.process.checkpoints.wake_at())
        self.note_checkpoint()

    # --- what fails -------------------------------------------------------------------------------

    @precondition(lambda self: not self.process.network.online)
    @rule()
    def connect(self):
        self.process.network.denied = self.denied
        self.process.network.connect()
        self.turn()

    @precondition(lambda self: self.process.network.online)
    @rule(seen=st.booleans())
    def disconnect(self, seen):
        self.process.network.disconnect()
        self.awaited.clear()
        if seen:
            self.turn()

    @rule(acknowledges=st.booleans())
    def swallow_acknowledgements(self, acknowledges):
        self.process.network.acknowledges = acknowledges
        self.turn()

    @rule(denied=DENIED)
    def change_rules(self, denied):
        self.denied = self.process.network.denied = denied
        self.turn()

    @rule(slow=st.booleans())
    def slow(self, slow):
        self.process.network.is_slow = slow
        self.turn()

    @rule(full=st.booleans())
    def fill_disk(self, full):
        self.disk.full = full

    @rule(by=st.sampled_from([-7200.0, -45.0, 1.5, 60.0, 3600.0]), seen=st.booleans())
    def set_clock(self, by, seen):
        self.clock.set(by)
        self.clock_doubtful = True
        if seen:
            self.turn()

    @precondition(lambda self: self.unset_by)
    @rule()
    def synchronize_clock(self):
        self.set_clock(self.unset_by, seen=True)
        self.unset_by = 0.0

    @precondition(lambda self: self.knows_numbers)
    @rule(how=st.sampled_from(ENDINGS), data=st.data())
    def restart(self, how, data):
        """End the process, and start another one; nothing happens if no number could be known."""
        away = data.draw(st.sampled_from(TIMES))
        match how:
            case "stop":
                self.process.checkpoints.close()
            case "reboot" if self.is_stored or not self.clock_doubtful:
                self.clock.reboot(away)
            case "reboot, unset" if self.is_stored:
                self.unset_by += self.clock.now.wall + away - RELEASED_AT / 2
                self.clock.reboot(away, wall=RELEASED_AT / 2)
                self.clock_doubtful = True
            case "damage" if self.is_stored and self.disk.has_previous:
                self.disk.damage()
            case "tear" if self.is_stored:
                self.disk.tear(data.draw(st.sampled_from([0.0, 0.5])))
        self.clock.move(away)
        self.awaited.clear()
        self.paid = 0
        self.tried["refused"] += self.process.network.refused
        self.process = Process(self.clock, self.disk)
        self.note_checkpoint()
        self.connect()

    @property
    def is_stored(self):
        return not self.process.checkpoints.failing

    @property
    def knows_numbers(self):
        """Whether the next process of this boot can know which numbers were used.

        If the last checkpoints could not be written, a clock has to show how many intervals began:
        the monotonic clock after no reboot, or the wall clock if it was not set in the meantime.
        """
        same_boot = self.clock.now.boot == self.stored_in
        return self.is_stored or same_boot or not self.clock_doubtful

    # --- the reference ----------------------------------------------------------------------------

    def receive(self, sensor, value, *, stamped):
        at = self.clock.wall(self.clock.elapsed())
        self.process.network.received.append(Reading(sensor, value, at, at, stamped=stamped))

    def note_checkpoint(self):
        """Note whether a checkpoint with the present clock was stored since the last look."""
        if self.disk.written > self.written:
            self.written, self.stored_in = self.disk.written, self.clock.now.boot
            self.clock_doubtful = not self.clock.is_set

    def note(self, known):
        """Check the activations after the first `known` ones, and note those that left."""
        self.note_checkpoint()
        for number, _ in self.process.activated[known:]:
            assert number > self.used, f"number {number} is used again after {self.used}"
            self.used = number
        for number, sensor, refused in self.process.network.sent:
            self.left[number] += 1
            self.paid += 1
            if not refused:
                self.delivered.add((number, sensor))
                self.awaited.append(sensor)
        self.process.network.sent.clear()

    @invariant()
    def a_number_activates_at_most_once(self):
        assert not self.left or max(self.left.values()) == 1

    @invariant()
    def only_commands_that_left_are_blamed_and_charged(self):
        assert set(self.process.blamed) <= self.delivered
        charged = self.process.spent - self.process.spent_before
        paid = self.paid - self.process.network.refused
        assert charged <= paid + 1  # one command may not have left yet, or its refund is due

    @invariant()
    def the_posterior_is_that_of_the_twin(self):
        ours = np.array(self.process.controller.policy.posterior())
        twins = self.disk.twin.posterior()
        assert np.all(np.abs(ours - twins) <= 1e-9 + 1e-9 * np.abs(twins))

    @invariant()
    def the_outbox_is_bounded(self):
        assert self.process.network.queued <= MAX_QUEUED

    def check_invariants(self, *arguments, **options):
        self.tried["steps"] += 1
        super().check_invariants(*arguments, **options)

    def teardown(self):
        self.tried["activations"] += len(self.left)
        self.tried["blamed"] += len(self.process.blamed)
        self.tried["entries"] += self.disk.entries
        self.tried["refused"] += self.process.network.refused


def compare(runs, *, journal=False):
    """Compare the daemon with the reference in so many runs; return counts of what was tried.

    With a `journal`, the state counts as large.
    """
    tried = Faults.tried = Counter()
    options = {"deadline": None, "suppress_health_check": list(HealthCheck)}
    with pytest.MonkeyPatch.context() as patch:
        if journal:
            patch.setattr(checkpoints, "LARGE_DOCUMENT_BYTES", 300)
        run_state_machine_as_test(
            Faults,
            settings=settings(max_examples=runs, stateful_step_count=STEPS_OF_RUN, **options),
        )
    return tried


def test_a_daemon_does_what_the_reference_does():
    assert compare(150)["activations"] > 50


def test_a_daemon_with_a_journal_does_what_the_reference_does():
    tried = compare(150, journal=True)
    assert tried["activations"] > 50
    assert tried["entries"] > 50


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_a_million_steps_of_the_daemon_and_the_reference(record_property):
    tried = compare(500_000 // STEPS_OF_RUN) + compare(500_000 // STEPS_OF_RUN, journal=True)
    record_property("measured", ", ".join(f"{tried[each]} {each}" for each in sorted(tried)))
    assert tried["blamed"] > 0
    assert tried["refused"] > 0
