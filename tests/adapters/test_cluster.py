"""Dask cluster: the same bytes as one process, even if workers die; errors have one line.

Scheduler and workers are Dask's own programs on loopback, started as a user would start them, but
the nannies fork their workers.
"""

import json
import os
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from edge_tvbo_adapters import cluster, datasets
from support import chores, tiny_experiment
from support.paths import TESTS
from support.tiny_experiment import TinyExperiment

from edge_tvbo.cli import main
from edge_tvbo.errors import ClusterError, Code, MissingExtra
from edge_tvbo.research.executors import SerialExecutor
from edge_tvbo.research.experiments import experiment_report, runner
from edge_tvbo.simulation.dataset_lookup import DataSource

pytestmark = pytest.mark.skipif(not find_spec("distributed"), reason="there is no Dask here")
connect = cluster.connect
TIMEOUT_S = 120.0


@contextmanager
def program(name, *arguments, path=()):
    """Run one of Dask's programs, with the modules of the tests on its path."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *arguments]
    module_path = os.pathsep.join(map(str, [*path, TESTS]))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    settings = {
        "PYTHONPATH": module_path,
        # A job may move to the second worker just before a test kills that one too.
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "2",
        # A worker that replaces one that died need not import everything again.
        "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver",
    }
    with subprocess.Popen(command, env=os.environ | settings, **quiet) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def workers(address, name, *options, number=1, path=()):
    """Run workers, which are connected when the context begins."""
    words = ("--name", name, "--nthreads", "1", "--nworkers", str(number), "--no-dashboard")
    with client_of(address) as client, program("worker", address, *words, *options, path=path):
        wait_until(lambda: sum(each.startswith(name) for each in worker_names(client)) == number)
        yield


def client_of(address):
    from distributed import Client  # its import takes half a second

    return Client(address, set_as_default=False)


def worker_names(client):
    return [str(each["name"]) for each in client.scheduler_info()["workers"].values()]


class Scheduler(NamedTuple):
    """A scheduler in a process of its own."""

    process: subprocess.Popen
    address: str


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    file = tmp_path_factory.mktemp("scheduler") / "scheduler.json"
    words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    with program("scheduler", *words) as process:
        wait_until(lambda: file.exists() and file.read_text())
        yield Scheduler(process, json.loads(file.read_text())["address"])


@pytest.fixture(scope="module")
def address(scheduler, fixtures_with_library):
    """The address of a scheduler that has two workers."""
    with workers(scheduler.address, "good", number=2):
        yield scheduler.address


def wait_until(condition):
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


# --- same results -------------------------------------------------------------------------------


def tiny_experiment_files(directory, executor, monkeypatch, progress=lambda done, total: None):
    """Run the tiny experiment twelve times, and return the bytes of its files."""
    monkeypatch.setattr(runner, "load", tiny_experiment.load)
    monkeypatch.setattr(runner, "measure_runs", tiny_experiment.measure_slowly)
    rows = runner.run_experiment(
        "tiny",
        directory,
        runs=12,
        seed=3,
        executor=executor,
        data=DataSource(datasets.find),
        progress=progress,
    )
    experiment_report.write_report(TinyExperiment(), rows, directory)
    return [(directory / name).read_bytes() for name in ("runs.csv", "summary.json")]


def test_experiment_writes_the_same_bytes_though_all_workers_die(address, tmp_path, monkeypatch):
    """The function that all jobs need is sent again too, after its worker died."""
    here = tiny_experiment_files(tmp_path / "here", SerialExecutor(), monkeypatch)

    with connect(address, 1) as executor, client_of(address) as client:

        def kill(done, total):
            if done == 1:
                for worker in client.run(os.getpid).values():
                    os.kill(worker, signal.SIGKILL)

        there = tiny_experiment_files(tmp_path / "there", executor, monkeypatch, kill)
    assert there == here


def edge_tvbo(*arguments):
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def readings(tmp_path_factory):
    """A CSV file of six days at three sensors, each the warmest at another hour."""
    hours = np.arange(6 * 24)
    noise = np.random.default_rng(1).normal(size=(len(hours), 3))
    warmth = 20 + np.sin(2 * np.pi * (hours[:, None] - [3, 9, 15]) / 24) + 0.1 * noise
    rows = [
        f"{1.6e9 + 3600 * hour:.0f},{a},{b},{c}"
        for hour, (a, b, c) in zip(hours, warmth, strict=True)
    ]
    path = tmp_path_factory.mktemp("readings") / "readings.csv"
    path.write_text("\n".join(["time,hall,attic,kitchen", *rows]))
    return path


@pytest.fixture(scope="module")
def compare(readings):
    """Arguments of a command with ninety replays: `kalman-ucb` is always replayed, too."""
    words = ("--policies", "et-gp-ucb,random", "--seeds", "30")
    return ("compare", "--dataset", "csv", "--data-dir", str(readings), *words)


@pytest.fixture(scope="module")
def compared(tmp_path_factory, compare):
    """Files that `compare` writes in one process."""
    directory = tmp_path_factory.mktemp("compared")
    edge_tvbo(*compare, "--out", directory)
    return contents(directory)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_compare_writes_the_bytes_of_one_process(address, compare, compared, tmp_path):
    edge_tvbo(*compare, "--out", tmp_path, "--cluster", address)

    assert contents(tmp_path) == compared


# --- interruptions ------------------------------------------------------------------------------


@contextmanager
def killed(process):
    """Kill the processes of a session that does not end by itself."""
    try:
        yield
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def waits_for_a_reader(pid):
    """Return whether the main thread blocks in opening a pipe; None if the kernel hides that."""
    where = Path(f"/proc/{pid}/wchan").read_text()
    return None if where in ("0", "") else where == "wait_for_partner"


def test_an_ignored_exception_that_is_not_ctrl_c_is_reported_as_usual(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: reported.append(each.exc_type))

    class Failing:
        def __del__(self):
            raise ValueError

    with cluster._repeated_interrupts():
        Failing()
    assert reported == [ValueError]


def test_same_command_continues_after_ctrl_c_with_local_workers(compare, compared, tmp_path):
    """A terminal sends SIGINT to all processes; finished replays are kept and not repeated.

    The first command cannot store the result of one replay, and fails. The second command cannot
    finish, because the temporary file of this result is a pipe without a reader.
    """
    kept = tmp_path / "unfinished" / "parts"
    unstored = kept / "random-000029.new"
    unstored.mkdir(parents=True)
    failed = CliRunner().invoke(main, [*compare, "--out", str(tmp_path), "--jobs", "1"])
    assert "Is a directory" in failed.output
    unstored.rmdir()
    finished = sorted(kept.glob("*.json"))
    for each in finished[20:]:
        each.unlink()
    os.mkfifo(unstored)

    def is_blocked():
        blocked = waits_for_a_reader(process.pid)
        return len([*kept.glob("*.json")]) > 20 if blocked is None else blocked

    command = [sys.executable, "-m", "edge_tvbo", *compare, "--out", str(tmp_path)]
    command += ["--cluster", "local", "--jobs", "1"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **quiet) as process, killed(process):
        wait_until(is_blocked)
        os.killpg(process.pid, signal.SIGINT)
        errors = process.communicate(timeout=TIMEOUT_S)[1]
    unstored.unlink()
    assert process.returncode == 130
    assert "Aborted" not in errors
    assert "Traceback" not in errors
    before = {path: path.stat().st_mtime_ns for path in kept.glob("*.json")}
    assert 20 <= len(before) < 90

    # One of them is marked: a repeated replay would overwrite the mark.
    marked = next(iter(before))
    marked.write_text(marked.read_text().replace('"missed":0', '"missed":7'))
    edge_tvbo(*compare, "--out", tmp_path)

    assert not kept.exists()
    assert contents(tmp_path).keys() == compared.keys()
    assert (tmp_path / "results.csv").read_bytes() != compared["results.csv"]
    assert (tmp_path / "picks.csv").read_bytes() == compared["picks.csv"]


class Interrupted:
    """An object during whose deletion SIGINT arrives, like one of Dask's futures."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_during_the_deletion_of_an_object_is_not_lost(address):
    with pytest.raises(KeyboardInterrupt), connect(address, 1):
        Interrupted()
        time.sleep(TIMEOUT_S)


def test_job_that_kills_every_worker_is_given_up(address):
    with pytest.raises(ClusterError, match="Several workers died"), connect(address, 1) as executor:
        list(executor.map(chores.die, [1]))


# --- errors -------------------------------------------------------------------------------------


@pytest.fixture
def short_timeout(monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_TIMEOUT_S", 0.5)


def cluster_in_this_process(**keywords):
    """Return a cluster of threads, for tests in which no worker dies."""
    from distributed import LocalCluster

    return LocalCluster(
        processes=False,
        protocol="tcp",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        **keywords,
    )


def error_of(address, code=Code.CLUSTER):
    with pytest.raises(ClusterError) as raised, connect(address, 1):
        pass
    assert raised.value.code is code
    return str(raised.value)


@pytest.mark.usefixtures("short_timeout")
@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:9", "no reply; is `dask scheduler` running there"),
        ("gateway", "missing port number in address 'gateway'"),
        ("http://127.0.0.1:80", "unknown address scheme 'http'"),
        ("tls://127.0.0.1:9", "TLS needs certificates"),
    ],
)
def test_missing_scheduler_gives_a_one_line_error_with_the_fix(address, expected):
    error = error_of(address)

    assert error.startswith(f"scheduler {address}: {expected}")
    assert error.endswith("Or use workers on this machine:  --cluster local")
    assert "\n" not in error


@pytest.mark.usefixtures("short_timeout")
def test_silent_server_is_reported_as_no_reply():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert "no reply" in error_of(f"127.0.0.1:{silent.getsockname()[1]}")


def test_local_workers_keep_freed_memory_for_the_next_array():
    with connect("local", 1) as executor:
        assert executor.submit(os.getenv, "MALLOC_TRIM_THRESHOLD_").result(TIMEOUT_S) is None


def test_local_cluster_requires_its_own_certificate_on_loopback():
    foreign_context = ssl.create_default_context()
    foreign_context.check_hostname, foreign_context.verify_mode = False, ssl.CERT_NONE
    with cluster._local_cluster(0) as local:
        host, port = local.scheduler_address.removeprefix("tls://").split(":")
        with (
            socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as plain,
            foreign_context.wrap_socket(plain) as connected,
            pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"),
        ):
            connected.recv(1)

    assert host == "127.0.0.1"


def test_address_of_a_worker_is_rejected(address):
    with client_of(address) as client:
        client.wait_for_workers(1, timeout=TIMEOUT_S)  # the tests above kill workers
        worker = next(iter(client.scheduler_info()["workers"]))

    assert error_of(worker) == f"{worker} is a worker; give the address of its scheduler."


def test_scheduler_without_workers_is_rejected_with_the_command(monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_TIMEOUT_S", 5.0)  # the scheduler has to reply in time
    with cluster_in_this_process(n_workers=0) as empty:
        address = empty.scheduler_address
        error = error_of(address, Code.WORKERS)

    assert error.endswith(f"start some:  dask worker {address} --nthreads 1 --nworkers -1")


def test_the_command_that_starts_workers_is_printed_as_a_shell_reads_it():
    """zsh reads the brackets as a pattern."""
    assert shlex.split(cluster.worker_command("tcp://[::1]:8786"))[2] == "tcp://[::1]:8786"
    assert "'tcp://[::1]:8786'" in cluster.worker_command("tcp://[::1]:8786")


def test_workers_of_another_version_are_rejected_even_if_they_join_late(address, tmp_path):
    old = tmp_path / "edge_tvbo-0.0.9.dist-info" / "METADATA"
    old.parent.mkdir()
    old.write_text("Metadata-Version: 2.1\nName: edge-tvbo\nVersion: 0.0.9\n")
    text = r"edge_tvbo 0\.0\.9 \(this machine: .*pip install edge-tvbo=="

    with connect(address, 1) as executor, workers(address, "old", "--no-nanny", path=[tmp_path]):
        with pytest.raises(ClusterError, match=text) as raised:
            list(executor.map(chores.square_after_a_while, range(100)))
        assert raised.value.code is Code.WORKERS
        with pytest.raises(ClusterError, match=text), connect(address, 1):
            pass


class WorkerNews:
    """Makes a Dask scheduler send another message together with its first reply to a client."""

    def __init__(self, clients):
        self.left = clients  # number of clients that receive the other message

    def add_client(self, scheduler, client):
        def send():
            scheduler.client_comms[client].send({"op": "worker-joined"})

        if self.left:
            self.left -= 1
            scheduler.loop.add_callback(send)


def scheduler_with_news(news):
    from distributed import SchedulerPlugin

    running = cluster_in_this_process(n_workers=1, threads_per_worker=1)
    plugin = type("Plugin", (WorkerNews, SchedulerPlugin), {"name": "news"})(news)
    running.scheduler.add_plugin(plugin)
    return running, plugin


def test_a_client_connects_while_workers_join():
    running, plugin = scheduler_with_news(2)
    with running, connect(running.scheduler_address, 1) as executor:
        assert list(executor.map(chores.square, [3])) == [9]
    assert plugin.left == 0


def test_a_client_that_cannot_connect_because_workers_join_says_so():
    running, _ = scheduler_with_news(1000)
    with running:
        error = error_of(running.scheduler_address)
    assert "workers joined or left" in error and "Run the same command again" in error


def test_workers_with_several_threads_are_rejected():
    with (
        cluster_in_this_process(n_workers=1, threads_per_worker=2) as busy,
        connect(busy.scheduler_address, 1) as executor,
        pytest.raises(ClusterError, match=r"several threads; start it with: .* --nthreads 1"),
    ):
        list(executor.map(chores.square, [1]))


def test_data_missing_on_a_worker_are_named_with_the_option(address):
    with (
        connect(address, 1) as executor,
        pytest.raises(ClusterError, match=r"/data: there is no such(.|\n)*--data-dir"),
    ):
        list(executor.map(chores.data_are_missing, [1]))


def test_missing_package_is_named_with_the_pip_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)

    with pytest.raises(MissingExtra, match=r"edge-tvbo\[cluster\]"), connect("local", 1):
        pass


def test_jobs_option_is_rejected_for_a_remote_cluster():
    result = CliRunner().invoke(main, ["experiment", "E6", "--jobs", "2", "--cluster", "lan:8786"])

    assert result.exit_code == 2
    assert "--jobs is for this machine" in result.stderr


def test_lost_scheduler_gives_a_one_line_error(scheduler, address, caplog):
    """The last test: it kills the scheduler."""
    with (
        pytest.raises(ClusterError, match="the connection was lost"),
        connect(address, 1) as executor,
    ):
        for _ in executor.map(chores.square_after_a_while, range(100)):
            scheduler.process.kill()
    assert caplog.records == []
