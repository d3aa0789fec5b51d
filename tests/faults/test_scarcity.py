"""A daemon without a broker, a disk, a cache or descriptors: it decides, and logs what is missing.

Each test runs a real process with a real shortage, which then ends.
"""

import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress

import pytest
from support.gateway import CONFIG, DEFAULTS, Daemon, Gateway
from support.ports import free_port

EVERYTHING_READ_ONLY = ("unshare", "-m", "sh", "-c", 'mount -o remount,bind,ro / && exec "$@"', "-")


@pytest.fixture
def gateway(tmp_path, mosquitto, peer):
    broker = mosquitto()
    broker.start()
    gateway = Gateway(tmp_path, broker.port, peer)
    gateway.broker = broker
    yield gateway
    gateway.close()


# --- no broker ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seconds", [5.0, pytest.param(90.0, marks=pytest.mark.soak)], ids=["5 s", "90 s"]
)
@pytest.mark.timeout(300)
def test_without_a_broker_at_the_start_it_waits_quietly_and_connects_later(
    tmp_path, mosquitto, peer, seconds, record_property
):
    broker, daemon = mosquitto(), Daemon(tmp_path)
    text = CONFIG.format(name="k", port=broker.port, **DEFAULTS | {"interval": "31s"})
    daemon.config.write_text("\n".join(each for each in text.splitlines() if "reconn" not in each))
    daemon.start()
    try:
        daemon.wait_for_log("ready:", "broker")
        time.sleep(seconds)
        assert daemon.process.poll() is None
        lines = daemon.log_text().splitlines()
        assert sum("broker" in each for each in lines) == 1
        assert len(lines) <= 8, lines
        broker.start()
        began = time.monotonic()
        watcher = peer(broker.port, "edge_tvbo/k/#")
        watcher.wait(lambda: b"online" in watcher.on("edge_tvbo/k/status"), within=65.0)
        watcher.wait(lambda: watcher.on("edge_tvbo/k/lab/selected"), within=65.0)
        took = time.monotonic() - began
        daemon.stop()
    finally:
        daemon.close()
    assert took <= 65.0
    text = f"{len(lines)} log lines in {seconds:g} s, online and selected {took:.1f} s after"
    record_property("measured", text)
    print(text)


# --- no disk ------------------------------------------------------------------------------------


def test_on_a_full_disk_it_decides_logs_it_once_and_stores_state_when_there_is_room(
    gateway, small_disk
):
    disk = small_disk("mode=700")
    gateway.configure(dir=disk)
    gateway.state = disk / "k.state"
    gateway.start()
    gateway.wait_for_activations()
    with (disk / "filler").open("wb", buffering=0) as filler:

        def wait_on_a_full_disk(condition):
            """Fill the disk again and again: a draft that existed at first leaves room."""

            def is_over():
                with suppress(OSError):
                    while True:
                        filler.write(bytes(1024))
                return condition()

            gateway.wait(is_over)

        wait_on_a_full_disk(lambda: "state: cannot be stored" in gateway.log_text())
        assert "No space left on device" in gateway.log_text()
        before, goal = gateway.stored_state(), len(gateway.activations) + 12
        wait_on_a_full_disk(lambda: len(gateway.activations) >= goal)
        assert gateway.stored_state() == before
    (disk / "filler").unlink()
    gateway.wait_for_log(f"storing in {disk} works again")
    assert gateway.stored_state().anchor.wall > before.anchor.wall
    assert gateway.log_text().count("state: cannot be stored") == 1
    gateway.stop()
    gateway.assert_never_twice()


def test_on_a_disk_that_becomes_read_only_it_decides_and_recovers(gateway, small_disk):
    disk = small_disk("mode=700")
    gateway.configure(dir=disk)
    without_readings = 'checkpoint = "1s"\nreadings = "off"'  # an open file keeps a disk writable
    text = gateway.config.read_text().replace('checkpoint = "1s"', without_readings)
    gateway.config.write_text(text)
    gateway.start()
    gateway.wait_for_activations()
    remount = ["mount", "-o", "remount,ro", disk]
    gateway.wait(lambda: subprocess.run(remount, capture_output=True).returncode == 0)
    gateway.wait_for_log("state: cannot be stored", "Read-only file system")
    gateway.wait_for_activations(12)
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    gateway.wait_for_log(f"storing in {disk} works again")
    assert gateway.log_text().count("state: cannot be stored") == 1
    gateway.stop()
    gateway.assert_never_twice()


# --- no cache -----------------------------------------------------------------------------------


@pytest.fixture
def without_a_cache():
    """Return the command prefix of a process that can write nowhere."""
    if (
        shutil.which("unshare") is None
        or subprocess.run([*EVERYTHING_READ_ONLY, "true"], capture_output=True).returncode
    ):
        pytest.skip("a private file system needs more rights")
    return EVERYTHING_READ_ONLY


@pytest.mark.timeout(600)
def test_without_a_writable_cache_it_compiles_at_the_start_logs_it_and_decides(
    gateway, without_a_cache, monkeypatch
):
    """As under systemd's ProtectSystem=strict, without the CacheDirectory= of our unit."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("EDGE_TVBO_KERNELS", raising=False)
    gateway.configure(dir="state")
    began = time.monotonic()
    gateway.start(by=(*without_a_cache, sys.executable, "-m", "edge_tvbo"))
    gateway.wait(lambda: "ready:" in gateway.log_text(), within=300.0)
    print(f"ready after {time.monotonic() - began:.1f} s")
    gateway.wait_for_activations(12)
    (line,) = [each for each in gateway.log_text().splitlines() if "NUMBA_CACHE_DIR" in each]
    print(line)
    assert gateway.log_text().count("state: cannot be stored") == 1
    said = gateway.log_text()
    assert said.index("NUMBA_CACHE_DIR") < said.index("ready:")
    gateway.stop()


# --- no descriptors -----------------------------------------------------------------------------

RECORD_DESCRIPTORS = 3  # of the reading database: the file, its WAL and the WAL's index
NONE = 3  # descriptors that may be open: those of any process; what is open already stays


@pytest.fixture
def watched(gateway):
    """Return a running gateway that serves metrics."""
    pytest.importorskip("prometheus_client")
    gateway.metrics = free_port()
    gateway.configure(extra=f"[metrics]\nport = {gateway.metrics}\n")
    gateway.start()
    gateway.wait_for_activations()
    gateway.before = gateway.descriptors()
    return gateway


def healthy(gateway):
    """Return whether `/healthz` reports that all is well."""
    url = f"http://127.0.0.1:{gateway.metrics}/healthz"
    with suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
        return answer.status == 200
    return False


def test_without_free_descriptors_it_decides_and_logs_what_fails(watched):
    watched.may_open(NONE)
    watched.wait_for_log("state: cannot be stored", "Too many open files")
    assert not healthy(watched)
    watched.wait_for_log("metrics: cannot accept a connection")
    watched.process.send_signal(signal.SIGHUP)
    watched.wait_for_log("reload: nothing is changed")
    watched.wait_for_activations(15)
    assert watched.log_text().count("state: cannot be stored") == 1
    assert "Traceback" not in watched.log_text()
    watched.may_open(1024)
    watched.wait_for_log("state: storing in", "works again")
    watched.wait(lambda: healthy(watched))
    watched.process.send_signal(signal.SIGHUP)
    watched.wait_for_log("reload: done")
    watched.wait_for_activations()
    watched.wait(lambda: watched.descriptors() <= watched.before + RECORD_DESCRIPTORS + 1)
    watched.stop()
    watched.assert_never_twice()


def test_a_broker_lost_without_free_descriptors_is_found_later(watched):
    watched.may_open(NONE)
    watched.broker.kill()
    watched.broker.start()
    watched.wait_for_log("Too many open files", "broker 127.0.0.1")
    time.sleep(2.0)
    assert watched.process.poll() is None
    watched.may_open(1024)
    watched.wait_for_activations(5)
    watched.wait(lambda: watched.descriptors() <= watched.before + RECORD_DESCRIPTORS + 1)
    watched.stop()
    watched.assert_never_twice()


def test_many_http_clients_cost_no_descriptors_and_no_decision(watched):
    with ExitStack() as stack:
        for _ in range(200):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.connect(("127.0.0.1", watched.metrics))
        watched.wait_for_activations(10)
        watched.wait(lambda: watched.descriptors() <= watched.before + RECORD_DESCRIPTORS + 10)
    watched.wait(lambda: healthy(watched))
    watched.wait_for_activations()
    watched.stop()
    watched.assert_never_twice()
