"""A gateway for the tests: a configuration, replying sensors, and one daemon after another."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from support.mosquitto import TIMEOUT_S
from support.paths import ROOT

from edge_tvbo.daemon.checkpoint_document import decode
from edge_tvbo.daemon.journal import document_id, read
from edge_tvbo.errors import SnapshotError

INTERVAL, PERIOD = 0.2, 1.0  # s
CONFIG = """
instance = "{name}"
[mqtt]
port = {port}
reconnect = {{ min = "100ms", max = "300ms" }}
[state]
dir = "{dir}"
checkpoint = "1s"
[fields.lab]
interval = "{interval}"
reply_timeout = "{reply_timeout}"
policy = {{ name = "{policy}" }}
kernel = {{ name = "se", length_scale = 6.0, variance = 4.0, noise_variance = 0.04, mean = 20 }}
sensors = ["a", "b", "c"]
reading = {{ topic = "{name}/{{sensor}}/t" }}
activate = {{ mode = "live", topic = "{name}/{{sensor}}/go", payload = '[{{interval}}, {{at}}]' }}
[fields.lab.positions]
a = [0, 0]
b = [5, 0]
c = [9, 9]
"""

DEFAULTS = {
    "dir": "state",
    "interval": "200ms",
    "reply_timeout": "100ms",
    "policy": "tv-gp-ucb",
}

# A program that runs the daemon, which fails at the 41st event.
CRASHING = """
import sys
from edge_tvbo.control.controller import Controller
from edge_tvbo.cli import main

handle, left = Controller.handle, [40]

def broken(self, event):
    left[0] -= 1
    if left[0] < 0:
        raise ZeroDivisionError("bob.smith divided by zero at 127.0.0.1")
    return handle(self, event)

Controller.handle = broken
main()
"""

# A program that runs the daemon, for which every state is large, and therefore has a journal.
WITH_JOURNAL = """
from edge_tvbo.cli import main
from edge_tvbo.daemon import checkpoints

checkpoints.LARGE_DOCUMENT_BYTES = 1000
main()
"""


def program(*words):
    """Run a command of `edge-tvbo`."""
    command = [sys.executable, "-m", "edge_tvbo", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=4 * TIMEOUT_S)


class Daemon:
    """One daemon after another, with the same configuration, log and directory."""

    def __init__(self, directory):
        self.config = directory / "edge.toml"
        self.log = directory / "log"
        self.process = None

    program = (sys.executable, "-m", "edge_tvbo")

    def start(self, *, by=None, **options):
        """Start a daemon by the command `by`."""
        by = by or self.program
        with self.log.open("ab") as log:
            command = [*by, "run", str(self.config)]
            self._from = log.tell()
            self.process = subprocess.Popen(command, stderr=log, cwd=ROOT, **options)

    def start_with_small_files(self, size):
        """Start a daemon that cannot write more than `size` bytes to a file, as on a full disk.

        It compiles no modules: Python would store them incomplete, and never read them again
        (https://github.com/python/cpython/issues/126606).
        """
        self.start(
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        )

    def log_text(self):
        """Return the log of the present daemon as text."""
        return self.log.read_bytes()[self._from :].decode()

    def wait(self, condition, within=TIMEOUT_S):
        deadline = time.monotonic() + within
        while not condition():
            assert self.process.poll() is None, self.log_text()
            assert time.monotonic() < deadline, self.log_text()
            time.sleep(0.02)

    def wait_for_log(self, *words, within=TIMEOUT_S):
        """Wait until the log contains all of `words`."""
        self.wait(lambda: all(each in self.log_text() for each in words), within)

    def kill(self):
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def stop(self):
        self.process.terminate()
        assert self.process.wait(TIMEOUT_S) == 0, self.log_text()

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()

    # --- resources ------------------------------------------------------------------------------

    def descriptors(self):
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def threads(self):
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def processor_time(self):
        """Return the processor time that the daemon has used, s."""
        used = Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]
        return int(used) / 1e9

    def resident(self):
        """Return the resident memory of the daemon in bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    def may_open(self, number):
        """Limit the running daemon to `number` descriptors."""
        _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (number, hard))


class Gateway(Daemon):
    """A daemon and three sensors that reply, at a broker that other tests may share."""

    def __init__(self, directory, port, peer, name="k"):
        super().__init__(directory)
        self.name = name
        self.state = directory / "state" / f"{name}.state"
        self.port = port
        self.configure()
        self._barrier = f"{name}/barrier"  # of `wait_for_sensors`
        self.sensors = peer(port, f"{name}/+/go", self._barrier)
        self.sensors.client.on_message = self._receive
        self._barriers = 0  # that the sensors have received
        self.activations = []  # [interval, at], in the order of arrival at the sensors
        self._starts = []  # number of activations at each start of a daemon

    def start(self, **options):
        """Start a daemon on the gateway."""
        self._starts.append(len(self.activations))
        super().start(**options)

    def configure(self, *, extra="", **changes):
        """Write the configuration, with `extra` tables at its end."""
        chosen = DEFAULTS | changes
        text = CONFIG.format(name=self.name, port=self.port, **chosen)
        self.config.write_text(text + extra)

    def _receive(self, client, userdata, message):
        if message.topic == self._barrier:
            self._barriers += 1
        else:
            self._answer(client, userdata, message)

    def wait_for_sensors(self):
        """Wait until the sensors have received all activations that the broker has by now."""
        goal = self._barriers + 1
        self.sensors.publish(self._barrier, b"")
        self.sensors.wait(lambda: self._barriers >= goal)

    def _answer(self, client, userdata, message):
        self.activations.append(json.loads(message.payload))
        client.publish(message.topic.replace("/go", "/t"), str(20 + len(self.activations) % 7))

    def wait_for_activations(self, times=3):
        """Wait for `times` more activations."""
        goal = len(self.activations) + times
        self.wait(lambda: len(self.activations) >= goal)

    def stored_state(self):
        """Return the newest valid checkpoint, or None."""
        for path in (self.state, Path(f"{self.state}.previous")):
            with suppress(OSError, SnapshotError):
                return decode(path.read_bytes())
        return None

    def stored_until(self):
        """Return the time of the newest stored event, s; None if nothing is stored."""
        document = self.stored_state()
        if document is None:
            return None
        return max([document.anchor.wall, *(each.anchor.wall for each in self._journal())])

    def _journal(self):
        """Return the entries of the journal of the newest checkpoint."""
        with suppress(FileNotFoundError):
            identity = document_id(self.state.read_bytes())
            return read([Path(f"{self.state}.journal").read_bytes()], identity).entries
        return []

    def kill_with_journal(self):
        """Kill the daemon at a moment at which its newest checkpoint has a journal."""
        self.wait(self._halts_with_journal)
        self.kill()

    def _halts_with_journal(self):
        """Return whether the newest checkpoint has a journal; if so, the daemon is halted."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        found = bool(self._journal())
        if not found:
            self.process.send_signal(signal.SIGCONT)
        return found

    def wait_for_checkpoint(self):
        """Wait until two more checkpoints have been written, with what was done before."""
        for _ in range(2):
            before = self.stored_state()
            self.wait(lambda before=before: self.stored_state() != before)

    def assert_never_twice(self):
        """Check that no interval was used twice, and that no activation was due too early.

        An activation says when it was due. If the activations of one process show its schedule,
        each of them is compared with the schedule.
        """
        numbers, due = zip(*self.activations, strict=True)
        assert list(numbers) == sorted(set(numbers))
        for n in range(1, len(due)):
            start = max(each for each in self._starts if each <= n)
            if (schedule := _schedule(due[start:n])) is not None:
                passed = [int((each - schedule) / INTERVAL + 0.005) for each in due[n - 1 : n + 1]]
                assert passed[0] < passed[1], (due[n], due)
            else:
                assert _is_no_faster(due, n), (due[n], due)


def _schedule(due):
    """Return a time of the schedule that most activations of a process show; None if none does.

    The times of a schedule are an interval apart. An activation is due at such a time, or later if
    the daemon still waited for a reply. Two activations that are whole intervals apart, to 0.3 ms,
    show the schedule; two late ones are hardly ever late by so equal times.
    """
    shown = [sum(_are_whole_apart(each, other) for other in due) for each in due]
    return due[shown.index(max(shown))] if max(shown, default=0) > 1 else None


def _are_whole_apart(at, other):
    return abs(at - other - round((at - other) / INTERVAL) * INTERVAL) < 0.0003


def _is_no_faster(due, n):
    """Return whether activation n comes an interval after the one before, or soon after a late one.

    The activation before is late if, with some earlier activation, it is less than an interval
    behind; together, they then took as long as their intervals.
    """
    return any(
        due[n - 1] - due[n - k] < k * INTERVAL and due[n] - due[n - k] > k * INTERVAL - 0.05
        for k in range(1, n + 1)
    )
