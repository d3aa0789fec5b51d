"""Start of the daemon: the time until it is ready, and its memory at that time.

Run with ``make bench``. The daemon is compared with a process that imports paho and msgspec, loads
the same kernels from the same place and does nothing else. The two start in alternating rounds, and
both send READY to systemd's socket. Files are in the page cache, and kernels are in numba's cache
or in a library compiled ahead of time.
"""

import os
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from benchmarks.rounds import ratios, spread

ROUNDS = 9
COLD_ROUNDS = 3
TIMEOUT_S = 120.0  # the first start may compile
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BARE = (sys.executable, str(HERE / "bare_start.py"))
CONFIG = """
instance = "start"
mqtt.port = 9  # no broker listens there; the daemon is ready without one
[fields.lab]
interval = "10min"
policy = { name = "et-gp-ucb" }
kernel = { name = "exchangeable", variance = 9, noise_variance = 0.1, mean = 20 }
sensors = ["a", "b", "c"]
reading = { topic = "lab/{sensor}/t" }
"""


class Started:
    """One start after another, in seconds to READY and MiB of memory then."""

    def __init__(self, command, kernels, directory):
        self.seconds, self.mebibytes = [], []
        self._command = command
        self._address = str(directory / f"notify-{len(command)}")
        self._environment = {
            **os.environ,
            "NOTIFY_SOCKET": self._address,
            "EDGE_TVBO_KERNELS": kernels,
        }

    def again(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            notified.bind(self._address)
            notified.settimeout(TIMEOUT_S)
            began = time.perf_counter()
            process = subprocess.Popen(
                self._command, env=self._environment, cwd=ROOT, stderr=subprocess.DEVNULL
            )
            try:
                while b"READY=1" not in notified.recv(4096):
                    pass
                self.seconds.append(time.perf_counter() - began)
                self.mebibytes.append(resident(process.pid))
            finally:
                process.kill()
                process.wait(TIMEOUT_S)
                Path(self._address).unlink()

    def forget(self):
        self.seconds.clear()
        self.mebibytes.clear()


class StartedCold(Started):
    """The same with nothing in numba's cache, as on a machine where nothing was warmed."""

    def again(self):
        with TemporaryDirectory() as cache:
            self._environment["NUMBA_CACHE_DIR"] = cache
            super().again()


def resident(pid):
    """Return the resident memory of a process in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (size,) = [line.split()[1] for line in lines if line.startswith("VmRSS")]
    return int(size) / 1024


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Return the folder of the kernels compiled ahead of time."""
    directory = tmp_path_factory.mktemp("kernels")
    command = [sys.executable, "-m", "edge_tvbo.numerics.compile", str(directory)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"the kernels cannot be compiled ahead of time here: {built.stderr[-300:]}")
    return str(directory)


@pytest.fixture(params=["just in time", "ahead of time"])
def pair(request, tmp_path):
    """Return how kernels are compiled, and the daemon and the bare process started in turns."""
    (tmp_path / "edge.toml").write_text(CONFIG)
    jit = request.param == "just in time"
    kernels = "jit" if jit else request.getfixturevalue("library")
    command = (sys.executable, "-m", "edge_tvbo", "run", str(tmp_path / "edge.toml"))
    both = [Started(each, kernels, tmp_path) for each in (command, BARE)]
    for each in both:
        each.again()
        each.forget()  # that one filled the caches
    for _ in range(ROUNDS):
        for each in both:
            each.again()
    return request.param, *both


def test_ready_as_soon_as_little_more_than_its_imports_take(bench, pair):
    kind, daemon, bare = pair
    times = f"{spread(daemon.seconds)} s, it {spread(bare.seconds)} s"
    memory = f"{spread(daemon.mebibytes)} MiB, it {spread(bare.mebibytes)} MiB"
    bare_imports = f"imports of paho, msgspec and kernels, {kind}"
    held = ratios(daemon.mebibytes, bare.mebibytes)
    taken = ratios(daemon.seconds, bare.seconds)
    jit = kind == "just in time"  # ahead of time the goals are figures
    bench("memory when ready", bare_imports, held, most=1.1 if jit else None, detail=memory)
    bench("warm start to READY", bare_imports, taken, most=1.3 if jit else None, detail=times)
    if not jit:
        bench("memory when ready", "45 MiB", [each / 45 for each in daemon.mebibytes], most=1.0)
        bench("warm start to READY", "0.2 s", [each / 0.2 for each in daemon.seconds], most=1.0)


@pytest.mark.timeout(600)
def test_cold_it_compiles_what_it_imports_and_no_more(bench, tmp_path):
    (tmp_path / "edge.toml").write_text(CONFIG)
    command = (sys.executable, "-m", "edge_tvbo", "run", str(tmp_path / "edge.toml"))
    daemon, bare = (StartedCold(each, "jit", tmp_path) for each in (command, BARE))
    for _ in range(COLD_ROUNDS):
        daemon.again()
        bare.again()
    taken = ratios(daemon.seconds, bare.seconds)
    detail = f"{spread(daemon.seconds)} s, it {spread(bare.seconds)} s"
    bench("cold start to READY", "imports of paho, msgspec and kernels", taken, detail=detail)


@pytest.mark.parametrize(
    ("what", "arguments"),
    [("--help", ["--help"]), ("check of a faulty file", ["check", "faulty.toml"])],
    ids=["help", "check"],
)
def test_what_a_person_waits_for_takes_no_time(bench, what, arguments, tmp_path):
    """Measure processor time, so that the other load of the machine does not count.

    For a file without errors, `check` also builds the daemon, and so takes longer.
    """
    (tmp_path / "faulty.toml").write_text("hots = 1\n" + CONFIG)
    command = [sys.executable, "-m", "edge_tvbo", *arguments]
    run = {"cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command, **run)
    seconds = [of_the_processor(command, run) for _ in range(ROUNDS)]
    goal = f"{0.15} s of the processor"
    bench(what, goal, [each / 0.15 for each in seconds], most=1.0, detail=spread(seconds))


def of_the_processor(command, run):
    """Return the processor time of a command in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, **run)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
