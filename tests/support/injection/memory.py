"""Every allocation of memory fails in turn while a daemon restores its state.

    LD_PRELOAD=faults.so PYTHONMALLOC=malloc python -m support.injection.memory POLICY EVERY

Either the state is restored, or the process ends, by an exception or, in an extension that does not
check its allocations, by a signal. Then the next start restores the state, to the last bit, and
lets the interval pass in which no process ran. One line of JSON is printed.
"""

import json
import os
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
from edge_tvbo_adapters.storage.state_files import FileStore
from support.injection.shim import NEVER, Faults
from support.injection.storage import Daemon
from support.lives import Time

from edge_tvbo.daemon.checkpoint_document import decode
from edge_tvbo.daemon.checkpoints import Checkpoints
from edge_tvbo.messages.events import DowntimeElapsed
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

FIELD = SensorField(("a", "b"), np.array([[1.0, 0.3], [0.3, 1.0]]), 0.01, scale=1.0)
PARAMETERS = {"tv-gp-ucb": {"epsilon": 0.1}, "auto": {}}
INTERVALS = 6
RESTORED, ERROR, UNAWARE = range(3)  # exit codes
NAMES = {RESTORED: "restored", ERROR: "error", UNAWARE: "unaware"}


class Start:
    """A start of the daemon, up to where it restores its state."""

    def __init__(self, directory, policy, clock):
        made = make_policy(policy, FIELD, **PARAMETERS[policy])
        self.life = Daemon(Time(clock.now), [], policy=made)
        self.checkpoints = Checkpoints(
            FileStore(directory, "k"),
            900.0,
            {"lab": self.life.controller},
            self.life.schedule,
            lambda: clock.now,
            clock.is_stepped,
            lambda _: self.life.controller,  # not called, because there is no journal
        )

    def continues(self, expected, used):
        """Return whether the field is as `expected`, and uses no number up to `used`."""
        controller = self.life.controller
        return controller.used >= used and controller.snapshot() in expected(controller.used)


def after_downtime(document, policy, clock, used):
    """Return two snapshots of the field in `document` after the downtime, of one interval.

    All numbers up to `used` are reserved. The second snapshot is that of a start after another
    process has ended that may have begun an interval.
    """
    made = make_policy(policy, FIELD, **PARAMETERS[policy])
    controller = Daemon(Time(clock.now), [], policy=made).controller
    controller.restore(document.fields["lab"].controller)
    controller.handle(DowntimeElapsed(clock.now.wall, intervals=1))
    controller.reserve_numbers(used)
    first = controller.snapshot()
    controller.reserve_numbers(used, unknown=1)
    return first, controller.snapshot()


def write(directory, files):
    """Let `directory` contain `files`, a mapping of names to bytes, and nothing else."""
    for path in directory.iterdir():
        path.unlink()
    for name, content in files.items():
        (directory / name).write_bytes(content)


def ending(faults, start, number):
    """Return how a process ends that restores while one allocation fails."""
    child = os.fork()
    if not child:
        faults.arm_allocations(number)
        try:
            start.checkpoints.restore()
        except Exception:  # of any kind: Python and its extensions do not agree on one
            os._exit(ERROR)
        faults.disarm()
        os._exit(RESTORED if start.life.controller.policy.observations else UNAWARE)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def tried(policy, every):
    """Let each allocation of a start fail; return the report."""
    faults, clock, violations, endings = Faults(), Time(), [], Counter()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        directory = Path(name).resolve()
        made = make_policy(policy, FIELD, **PARAMETERS[policy])
        Daemon(clock, FileStore(directory, "k"), policy=made).run(INTERVALS)
        files = {each.name: each.read_bytes() for each in directory.iterdir()}
        start = Start(directory, policy, clock)
        start.checkpoints.restore()  # compiles and imports
        document, used = decode(files["k.state"]), start.life.controller.used
        write(directory, files)
        faults.arm_allocations(NEVER)
        Start(directory, policy, clock).checkpoints.restore()
        counted = faults.disarm()

        @cache  # nearly all starts reserve the same numbers
        def expected(reserved):
            return after_downtime(document, policy, clock, reserved)

        for number in range(1, counted + 1, every):
            write(directory, files)
            how = ending(faults, Start(directory, policy, clock), number)
            endings[NAMES.get(how, f"signal {-how}")] += 1
            if how == UNAWARE:
                violations.append(f"allocation {number}: the state is taken for damaged")
            following = Start(directory, policy, clock)
            following.checkpoints.restore()
            if not following.continues(expected, used):
                violations.append(f"allocation {number}: the next start does not restore the state")
    return {"allocations": counted, "endings": endings, "violations": violations}


if __name__ == "__main__":
    print(json.dumps(tried(sys.argv[1], int(sys.argv[2]))))
