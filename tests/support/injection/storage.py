"""Every system call of the state and history code fails in turn; what must hold is checked.

    LD_PRELOAD=faults.so python -m support.injection.storage SCENARIO EVERY

A scenario acts on files while one call fails. Then its directory is copied, which is what a kill at
that moment leaves, the call works again, and both the copy and the directory are checked. EVERY is
1 for each call, 7 for each seventh. One line of JSON is printed.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from functools import cache
from pathlib import Path

from edge_tvbo_adapters.storage import batch_db
from edge_tvbo_adapters.storage.history_db import HistoryDatabase
from edge_tvbo_adapters.storage.history_reader import HistoryReader
from edge_tvbo_adapters.storage.reading_db import ReadingDatabase, read_readings
from edge_tvbo_adapters.storage.state_files import FileStore
from edge_tvbo_adapters.storage.state_lock import StateLock
from support.history import history_entry
from support.injection.shim import MODES, NEVER, Faults
from support.lives import Life, Time

from edge_tvbo.daemon.checkpoint_document import decode
from edge_tvbo.errors import DataError, StateInUse
from edge_tvbo.messages.commands import Activate
from edge_tvbo.messages.events import Reading
from edge_tvbo.messages.readings import RecordedReading

INTERVAL = 600.0  # s


class NotedStore(FileStore):
    """A store of files that notes which documents it was given, and which it stored."""

    def __init__(self, directory):
        super().__init__(directory, "k")
        self.noted = []  # (document, whether it was stored)

    def save(self, document):
        stored = super().save(document)
        self.noted.append((document, stored))
        return stored

    def readable(self):
        """Return the documents that the next process may read."""
        last = max((n for n, (_, stored) in enumerate(self.noted) if stored), default=0)
        return [document for document, _ in self.noted[last:]]


class Daemon(Life):
    """A daemon without broker, each of whose intervals ends with a checkpoint."""

    def run(self, intervals):
        """Run for some intervals; return the numbers of those that activated a sensor."""
        numbers = []
        for _ in range(intervals):
            for _, event in self.schedule.due():
                for command in self.controller.handle(event):
                    if isinstance(command, Activate):
                        numbers.append(command.interval)
                        at = self.clock.wall(self.clock.elapsed())
                        self.controller.handle(Reading(command.sensor, 1.0, at, at, stamped=False))
            self.checkpoints.save()
            self.clock.move(INTERVAL)
        return numbers


# --- scenarios ----------------------------------------------------------------------------------


class Scenario:
    """Work on files in `directory`; `logged` holds the lines of the log since its start."""

    def __init__(self, directory):
        self.directory = directory
        self.logged = []

    def prepare(self):
        """Do what happens before any call fails."""

    def act(self):
        """Do what one call fails in."""

    def recover(self):
        """Continue after the call works again; yield what is wrong."""
        yield from ()

    def check(self, directory):
        """Yield what is wrong with the files in `directory`, which may be a copy."""
        yield from ()

    def close(self):
        """Close all files."""


def content_of(path):
    """Return the name and content of a file, and when it was modified if it is a mark of a time.

    A mark is an empty file; see `FileStore.mark_unsaved`.
    """
    content = path.read_bytes()
    return path.name, content, None if content else path.stat().st_mtime_ns


@cache  # many faults leave the same files
def next_numbers(files, now):
    """Return the numbers of the intervals that the next process begins, which finds `files`."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        directory = Path(name).resolve()
        for path, content, modified in files:
            (directory / path).write_bytes(content)
            if modified is not None:
                os.utime(directory / path, ns=(modified, modified))
        return frozenset(Daemon(Time(now), NotedStore(directory)).run(2))


class CheckpointScenario(Scenario):
    """A daemon stores its first checkpoints; a kill leaves the last or the one being written."""

    def act(self):
        self.clock, self.store = Time(), NotedStore(self.directory)
        self.life = Daemon(self.clock, self.store)
        self.numbers = self.life.run(5)

    def check(self, directory):
        generations = [content for _, content in FileStore(directory, "k").generations()]
        expected = self.store.readable()
        stored = any(stored for _, stored in self.store.noted)
        if stored and generations[:1] not in [[each] for each in expected]:
            yield "the newest checkpoint is neither the last stored nor one tried after it"
        for content in generations:
            decode(content)
        files = frozenset(map(content_of, directory.iterdir()))
        if next_numbers(files, self.clock.now) & set(self.numbers) and stored:
            yield "an interval number is used twice"

    def recover(self):
        failed = not all(stored for _, stored in self.store.noted)
        if self.life.checkpoints.failing == self.store.noted[-1][1]:
            yield "the health does not say whether the last checkpoint was stored"
        self.numbers += self.life.run(1)
        if not self.store.noted[-1][1]:
            yield "no checkpoint is stored after the fault"
        said = [line for line in self.logged if "cannot be stored" in line]
        if failed != bool(said) or failed != any("again" in line for line in self.logged):
            yield f"failed: {failed}, log: {self.logged}"


@cache
def killed_process():
    """Return what a killed process leaves, which is the same for each run of a scenario.

    The result has the content of each file, the last time, the store and the activations.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        clock, store = Time(), NotedStore(Path(name).resolve())
        numbers = Daemon(clock, store).run(4)
        files = {each.name: each.read_bytes() for each in Path(name).iterdir()}
    return files, clock.now, store, numbers


class StartScenario(CheckpointScenario):
    """A daemon is killed, and its next start restores the checkpoint."""

    def prepare(self):
        files, now, self.before, self.earlier = killed_process()
        self.directory.mkdir()
        for name, content in files.items():
            (self.directory / name).write_bytes(content)
        self.clock = Time(now)

    def act(self):
        self.store = NotedStore(self.directory)
        self.life = Daemon(self.clock, self.store)
        self.observations = self.life.controller.policy.observations
        self.numbers = self.life.run(3)

    def check(self, directory):
        files = [each.read_bytes() for each in Path(directory).iterdir() if each.is_file()]
        known = {content for content, _ in self.before.noted}
        if not self.observations and not known & set(files):
            yield "the checkpoints of the killed process were neither restored nor kept"
        was_read = not any("cannot be read" in line for line in self.logged)
        if (was_read or self.observations) and set(self.earlier) & set(self.numbers):
            yield "an interval number of the killed process is used twice"
        yield from super().check(directory)


class HistoryScenario(Scenario):
    """Batches of the history are stored, the WAL is copied, and old batches are deleted."""

    batches = tuple([history_entry(10 * k + n) for n in range(6)] for k in range(9))

    later = (history_entry(990),)  # what is stored after the fault

    def act(self):
        self.database = HistoryDatabase(str(self.directory), "k", MAX_SIZE)
        self.stored = [self.database.store(batch) for batch in self.batches]

    @property
    def failed(self):
        return not all(self.stored)

    def recover(self):
        if not self.database.store(self.later):
            yield "no batch is stored after the fault"
        if self.failed != any("cannot be stored" in line for line in self.logged):
            yield f"failed: {self.failed}, log: {self.logged}"
        if any("the file was renamed" in line for line in self.logged):
            yield f"a sound file is given up: {self.logged}"

    def found(self, directory):
        """Return the entries of each batch that can be read and equal those stored."""
        try:
            reader = HistoryReader(str(directory), "k")
        except DataError:
            return [[] for _ in self.batches]
        try:
            return [
                [each for each in reader.between("lab", 10 * k, 10 * k + 9) if each in batch]
                for k, batch in enumerate(self.batches)
            ]
        finally:
            reader.close()

    def check(self, directory):
        for k, (batch, found) in enumerate(zip(self.batches, self.found(directory), strict=True)):
            if len(found) not in (0, len(batch)):
                yield f"{len(found)} of {len(batch)} entries of batch {k} are stored"
            if found and not self.stored[k]:
                yield f"batch {k} was not stored, and is read"
            if self.stored[k] and not found and k >= len(self.batches) - KEPT:
                yield f"batch {k} was stored, and is lost"

    def close(self):
        self.database.close()


class ReadingScenario(HistoryScenario):
    """Batches of readings are stored, the WAL is copied, and old batches are deleted."""

    batches = tuple(
        [
            RecordedReading("lab", f"s{n % 7}", 1.8e9 + 1e4 * k + n / 8, k * n**1.5)
            for n in range(300)
        ]
        for k in range(9)
    )

    later = (RecordedReading("lab", "s1", 1.9e9, 1.0),)

    def act(self):
        self.database = ReadingDatabase(str(self.directory), "k", MAX_SIZE)
        self.stored = [self.database.store(batch) for batch in self.batches]

    def found(self, directory):
        try:
            found = read_readings(str(directory), "k", "lab")
        except DataError:
            found = []
        known = set(found)
        return [[each for each in batch if each in known] for batch in self.batches]


class LatestScenario(HistoryScenario):
    """A daemon reads its last decision at the start, then stores more."""

    def prepare(self):
        self.database = HistoryDatabase(str(self.directory), "k", MAX_SIZE)
        assert self.database.store(self.batches[0])
        self.database.close()

    def act(self):
        self.database = HistoryDatabase(str(self.directory), "k", MAX_SIZE)
        self.latest = self.database.latest("lab")
        self.stored = [True, *(self.database.store(batch) for batch in self.batches[1:3])]
        self.batches = self.batches[:3]

    @property
    def failed(self):
        return super().failed or self.latest is None

    def check(self, directory):
        yield from super().check(directory)
        if self.latest not in (None, self.batches[0][-1]):
            yield "another decision is restored"


class LockScenario(Scenario):
    """A daemon locks its state; a second one may not use it."""

    def act(self):
        self.lock = StateLock()
        self.lock.hold(str(self.directory), "k")

    def recover(self):
        unlocked = any("cannot be locked" in line for line in self.logged)
        other = StateLock()
        try:
            other.hold(str(self.directory), "k")
        except StateInUse:
            if unlocked:
                yield "the state is locked, and the log says that it is not"
        else:
            other.close()
            if not unlocked:
                yield "two daemons use the same state, and the log does not say that they can"

    def close(self):
        self.lock.close()


SCENARIOS = {
    "checkpoints": CheckpointScenario,
    "start": StartScenario,
    "history": HistoryScenario,
    "readings": ReadingScenario,
    "latest": LatestScenario,
    "lock": LockScenario,
}
MAX_SIZE, KEPT = 2**17, 3  # bytes of a database, and batches at its end that are not deleted


# --- the runs -----------------------------------------------------------------------------------


class LogLines(logging.Handler):
    """The lines of the log."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def run(kind, faults, log, number, mode):
    """Run a scenario whose call `number` fails; return the calls counted and what is wrong."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        place, wrong = Path(name).resolve(), []
        directory, copy = place / "state", place / "copy"
        scenario = kind(directory)
        log.lines = scenario.logged
        scenario.prepare()
        faults.watch(directory)
        faults.arm(number, mode)
        try:
            scenario.act()
        except BaseException:
            faults.disarm()
            return NEVER, [traceback.format_exc(limit=-4)]
        counted = faults.disarm()
        if directory.exists():
            shutil.copytree(directory, copy)
        else:
            copy.mkdir()
        log.lines = []
        try:
            wrong += (f"after a kill: {each}" for each in scenario.check(copy))
            log.lines = scenario.logged
            wrong += scenario.recover()
            scenario.close()
            log.lines = []
            if faults.open_files:
                wrong.append(f"{faults.open_files} files stay open")
            wrong += scenario.check(directory)
        except Exception:
            wrong.append(traceback.format_exc(limit=-4))
    return counted, wrong


def tried(kind, every):
    """Let each call of a scenario fail in each mode; return the report."""
    faults, log = Faults(), LogLines()
    logging.getLogger().addHandler(log)
    logging.getLogger().setLevel(logging.INFO)
    batch_db.MIN_FOLDED_WAL_SIZE, batch_db.MAX_WAL_SIZE = 2**14, 2**16
    batch_db.LOCK_TIMEOUT_S = 0.0
    calls, points, violations = {}, Counter(), []
    for mode in MODES:
        counted, wrong = run(kind, faults, log, NEVER, mode)
        assert not wrong, wrong
        calls[mode.name] = counted
        for number in range(1, counted + 1, every):
            _, wrong = run(kind, faults, log, number, mode)
            points[faults.failed] += 1
            violations += (f"{mode.name} at {number}, {faults.failed}: {each}" for each in wrong)
    return {"calls": calls, "points": points, "violations": violations}


if __name__ == "__main__":
    print(json.dumps(tried(SCENARIOS[sys.argv[1]], int(sys.argv[2]))))
