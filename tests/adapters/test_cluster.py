"""Work on a Dask cluster: the bytes of one process, whoever dies; a line where it cannot be.

Scheduler and workers are Dask's own programs on loopback, as a person would start them.
"""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from edge_tvbo_adapters import cluster
from support import chores, tiny_experiment
from support.paths import TESTS
from support.tiny_experiment import Tiny

from edge_tvbo.cli import main
from edge_tvbo.errors import ClusterError, Code, MissingExtra
from edge_tvbo.research.executors import one_by_one
from edge_tvbo.research.experiments import report, runner

distributed = pytest.importorskip("distributed")
connect = cluster.connect
SOON = 60.0  # s


@contextmanager
def program(name, *arguments, path=()):
    """Run one of Dask's programs, which finds our tests' modules, until the context is left."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *arguments]
    places = os.pathsep.join(map(str, [*path, TESTS]))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    settings = {"PYTHONPATH": places, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    with subprocess.Popen(command, env=os.environ | settings, **quiet) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def workers(address, name, *, number=1, path=()):
    """Run workers, which are there when the context begins."""
    words = ("--name", name, "--nthreads", "1", "--nworkers", str(number), "--no-dashboard")
    with (
        distributed.Client(address, set_as_default=False) as client,
        program("worker", address, *words, path=path),
    ):
        until(lambda: sum(each.startswith(name) for each in names(client)) == number)
        yield


def names(client):
    return [str(each["name"]) for each in client.scheduler_info()["workers"].values()]


class Scheduler(NamedTuple):
    """A scheduler, as a program of its own."""

    process: subprocess.Popen
    address: str


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    file = tmp_path_factory.mktemp("scheduler") / "scheduler.json"
    words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    with program("scheduler", *words) as process:
        until(lambda: file.exists() and file.read_text())
        yield Scheduler(process, json.loads(file.read_text())["address"])


@pytest.fixture(scope="module")
def address(scheduler):
    """The address of a scheduler that has two workers."""
    with workers(scheduler.address, "good", number=2):
        yield scheduler.address


def until(there):
    end = time.monotonic() + SOON
    while not there():
        assert time.monotonic() < end
        time.sleep(0.02)


# --- the same, wherever it is done ----------------------------------------------------------------


def carried_out(directory, each, monkeypatch, progress=lambda done, total: None):
    """Carry twelve runs of the tiny experiment out, and give what is written."""
    monkeypatch.setattr(runner, "load", tiny_experiment.load)
    monkeypatch.setattr(runner, "measure", tiny_experiment.measure_slowly)
    rows = runner.carry_out("tiny", directory, runs=12, seed=3, each=each, progress=progress)
    report.write(Tiny(), rows, directory)
    return [(directory / name).read_bytes() for name in ("runs.csv", "summary.json")]


def test_an_experiment_gives_the_bytes_of_one_process_though_all_workers_are_killed(
    address, tmp_path, monkeypatch
):
    """Even what each task needs, and one of them held, is there again."""
    here = carried_out(tmp_path / "here", one_by_one, monkeypatch)

    with connect(address, 1) as each, distributed.Client(address, set_as_default=False) as client:

        def kill(done, total):
            if done == 1:
                for worker in client.run(os.getpid).values():
                    os.kill(worker, signal.SIGKILL)

        assert carried_out(tmp_path / "there", each, monkeypatch, kill) == here


def edge_tvbo(*arguments):
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def readings(tmp_path_factory):
    """Three sensors, each the warmest at an hour of its own, over six days: a file."""
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
    """The words of a command that replays sixty times."""
    words = ("--policies", "et-gp-ucb,random", "--seeds", "30")
    return ("compare", "--dataset", "csv", "--data-dir", str(readings), *words)


@pytest.fixture(scope="module")
def compared(tmp_path_factory, compare):
    """What one process writes into the directory of `compare`."""
    directory = tmp_path_factory.mktemp("compared")
    edge_tvbo(*compare, "--out", directory)
    return contents(directory)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_compare_gives_the_bytes_of_one_process(address, compare, compared, tmp_path):
    edge_tvbo(*compare, "--out", tmp_path, "--cluster", address)

    assert contents(tmp_path) == compared


def test_fit_gives_the_bytes_of_one_process(address, readings, tmp_path):
    there, here = tmp_path / "there.json", tmp_path / "here.json"
    fit = ("fit", "--dataset", "csv", "--data-dir", readings, "-o")

    said = edge_tvbo(*fit, there, "--cluster", address)

    assert said.replace("there", "here") == edge_tvbo(*fit, here)
    assert "each day held out" in said
    assert there.read_bytes() == here.read_bytes()


# --- stopped, and gone on -------------------------------------------------------------------------


def test_local_workers_that_are_stopped_by_ctrl_c_go_on_with_the_same_command(
    compare, compared, tmp_path
):
    """The terminal sends SIGINT to all of them; what was finished is kept and not done again."""
    command = [sys.executable, "-m", "edge_tvbo", *compare, "--out", str(tmp_path)]
    command += ["--cluster", "local"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    kept = tmp_path / "unfinished" / "parts"
    with subprocess.Popen(command, start_new_session=True, **quiet) as process:
        until(lambda: kept.is_dir() and any(kept.glob("*.json")))
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate(timeout=SOON)[1]
    assert process.returncode == 1
    assert said.splitlines()[-1] == "Aborted!"
    assert "Traceback" not in said
    before = {path: path.stat().st_mtime_ns for path in kept.glob("*.json")}
    assert 0 < len(before) < 60

    # One of them is made recognisable: whoever did it again would write what it was.
    marked = next(iter(before))
    marked.write_text(marked.read_text().replace('"missed":0', '"missed":7'))
    edge_tvbo(*compare, "--out", tmp_path)

    assert not kept.exists()
    assert contents(tmp_path).keys() == compared.keys()
    assert (tmp_path / "results.csv").read_bytes() != compared["results.csv"]
    assert (tmp_path / "picks.csv").read_bytes() == compared["picks.csv"]


def test_work_that_kills_every_worker_is_given_up(address):
    with connect(address, 1) as each, pytest.raises(ClusterError, match="died again and again"):
        list(each(chores.die, [1]))


# --- where it cannot be ---------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)


def in_this_process(**keywords):
    """A cluster of threads, where it matters not that its workers could die."""
    return distributed.LocalCluster(
        processes=False,
        protocol="tcp",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        **keywords,
    )


def refused(address, code=Code.CLUSTER):
    with pytest.raises(ClusterError) as raised, connect(address, 1):
        pass
    assert raised.value.code is code
    return str(raised.value)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("127.0.0.1:9", "no answer; is `dask scheduler` running there"),
        ("gateway", "missing port number in address 'gateway'"),
        ("http://127.0.0.1:80", "unknown address scheme 'http'"),
        ("tls://127.0.0.1:9", "TLS wants certificates"),
    ],
)
def test_without_a_scheduler_a_line_says_what_to_type(address, says):
    said = refused(address)

    assert said.startswith(f"scheduler {address}: {says}")
    assert said.endswith("Or work on this machine:  --cluster local")
    assert "\n" not in said


@pytest.mark.usefixtures("impatient")
def test_what_accepts_and_says_nothing_is_no_scheduler():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert "no answer" in refused(f"127.0.0.1:{silent.getsockname()[1]}")


def test_local_workers_listen_to_their_own_certificates_on_loopback_alone():
    stranger = ssl.create_default_context()
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    with cluster._started(0) as local:
        host, port = local.scheduler_address.removeprefix("tls://").split(":")
        with (
            socket.create_connection((host, int(port)), timeout=SOON) as plain,
            stranger.wrap_socket(plain) as connected,
            pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"),
        ):
            connected.recv(1)

    assert host == "127.0.0.1"


def test_a_workers_address_is_no_schedulers(address):
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=SOON)  # which the tests above have killed
        worker = next(iter(client.scheduler_info()["workers"]))

    assert refused(worker) == f"{worker} is a worker; name its scheduler."


@pytest.mark.usefixtures("impatient")
def test_a_scheduler_without_workers_says_how_to_start_some():
    with in_this_process(n_workers=0) as lonely:
        address = lonely.scheduler_address
        said = refused(address, Code.WORKERS)

    assert said.endswith(f"start some:  dask worker {address} --nthreads 1 --nworkers -1")


def test_workers_of_another_version_are_refused_and_when_they_come_late_too(address, tmp_path):
    old = tmp_path / "edge_tvbo-0.0.9.dist-info" / "METADATA"
    old.parent.mkdir()
    old.write_text("Metadata-Version: 2.1\nName: edge-tvbo\nVersion: 0.0.9\n")
    says = r"edge_tvbo 0\.0\.9, here .*pip install edge-tvbo=="

    with connect(address, 1) as each, workers(address, "old", path=[tmp_path]):
        with pytest.raises(ClusterError, match=says) as raised:
            list(each(chores.square_after_a_while, range(100)))
        assert raised.value.code is Code.WORKERS
        with pytest.raises(ClusterError, match=says), connect(address, 1):
            pass


def test_workers_with_several_threads_are_refused():
    with (
        in_this_process(n_workers=1, threads_per_worker=2) as busy,
        connect(busy.scheduler_address, 1) as each,
        pytest.raises(ClusterError, match=r"several threads; start it with: .* --nthreads 1"),
    ):
        list(each(chores.square, [1]))


def test_data_that_a_worker_does_not_see_are_named_with_the_option(address):
    with (
        connect(address, 1) as each,
        pytest.raises(ClusterError, match=r"/data: there is no such(.|\n)*--data-dir"),
    ):
        list(each(chores.data_are_missing, [1]))


def test_a_missing_package_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)

    with pytest.raises(MissingExtra, match=r"edge-tvbo\[cluster\]"), connect("local", 1):
        pass


def test_the_number_of_processes_is_not_for_a_cluster_to_be_told():
    result = CliRunner().invoke(main, ["experiment", "E6", "--jobs", "2", "--cluster", "lan:8786"])

    assert result.exit_code == 2
    assert "--jobs is for this machine" in result.stderr


def test_a_scheduler_that_goes_away_is_said_in_a_line(scheduler, address, caplog):
    """It comes last: there is none afterwards."""
    with connect(address, 1) as each, pytest.raises(ClusterError, match="it is gone"):
        for _ in each(chores.square_after_a_while, range(20)):
            scheduler.process.kill()
    assert caplog.records == []
