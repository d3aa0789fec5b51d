"""The central broker of many gateways: the messages of one bridge, and the load of many bridges.

docs/fleet.md models the processor time of the central broker as the sum of a cost for each
connection and a cost for each document. The costs are measured with few gateways. The prediction
for a larger number of gateways has to agree with a run. The costs are the broker's processor time,
because other processes share the machine.
"""

import json
import re
import resource
import shutil
import socket
import subprocess
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from statistics import median
from threading import Thread
from typing import NamedTuple

import pytest
from edge_tvbo_adapters.simulation import local_broker
from support import certificates
from support.bridges import Bridges, packet, text
from support.gateway import Daemon
from support.mosquitto import Peer
from support.paths import DEPLOY
from support.ports import free_port

pytestmark = pytest.mark.broker

SENSORS = [f"mote-{n}" for n in range(1, 47)]
LEVELS = ("status", "health", "temperature/selected", "temperature/hotspot")
CONFIG = """
instance = "lab"
[mqtt]
port = {port}
[fields.temperature]
unit = "°C"
interval = "500ms"
reply_timeout = "300ms"
kernel = {{ name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20 }}
sensors = {sensors}
reading = {{ topic = "lab/{{sensor}}/temperature" }}
activate = {{ mode = "live", topic = "lab/{{sensor}}/activate", payload = "1" }}
"""


class Central:
    """A central broker with the files of deploy/fleet, for more gateways, with or without TLS."""

    def __init__(self, directory, gateways, *, tls):
        self.port = free_port()
        self.ca = directory / "ca.pem" if tls else None
        self._log = directory / "log"
        names = [f"g-{i}" for i in range(gateways)] + ["watcher"]
        passwords = directory / "passwords"
        passwords.write_text("".join(f"{each}:{each}\n" for each in names))
        subprocess.run(["mosquitto_passwd", "-U", passwords], check=True)
        shutil.copy(DEPLOY / "fleet" / "central.acl", directory / "central.acl")
        settings = (DEPLOY / "fleet" / "central.conf").read_text()
        settings = re.sub(r"^listener .*", f"listener {self.port} 127.0.0.1", settings, flags=re.M)
        settings = re.sub(r"^max_connections .*", "max_connections -1", settings, flags=re.M)
        settings = re.sub(r"^memory_limit .*", "memory_limit 0", settings, flags=re.M)
        settings = settings.replace("connection_messages true", "connection_messages false")
        if tls:
            certificates.server(directory)
            for path, made in (
                ("tls/ca.crt", "ca.pem"),
                ("tls/broker.crt", "server.pem"),
                ("tls/broker.key", "server.key"),
            ):
                settings = settings.replace(f"/etc/mosquitto/{path}", str(directory / made))
        else:
            settings = re.sub(
                r"^(cafile|certfile|keyfile|tls_version) .*\n", "", settings, flags=re.M
            )
        settings = settings.replace("/etc/mosquitto", str(directory))
        (directory / "mosquitto.conf").write_text(settings + "user root\n")
        self._command = [
            shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin"),
            *("-c", directory / "mosquitto.conf"),
        ]
        self._process = None

    def start(self):
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        local_broker.wait_for(self._process, self.port, self._log)

    def processor_time(self):
        """Return the processor time that the broker has used, s."""
        return self._schedstat()[0]

    def waited(self):
        """Return how long the broker has waited for a processor that another process used, s."""
        return self._schedstat()[1]

    def _schedstat(self):
        both = Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[:2]
        return [int(each) / 1e9 for each in both]

    def memory(self):
        """Return the resident memory of the broker, bytes."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    def close(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None


class Watcher:
    """A client of the central broker that receives everything, and reads none of it."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        login = text("watcher") * 3  # client id, user and password
        self._socket.sendall(packet(0x10, text("MQTT") + b"\x04\xc2\x0e\x10" + login))
        assert self._socket.recv(4) == b"\x20\x02\x00\x00"
        self._socket.sendall(packet(0x82, b"\0\1" + text("edge_tvbo/#") + b"\0"))
        assert self._socket.recv(5)[:2] == b"\x90\x03"
        self._thread = Thread(target=self._drain)
        self._thread.start()

    def _drain(self):
        with suppress(OSError):
            while self._socket.recv(2**20):
                pass

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


class Costs(NamedTuple):
    """Costs of one run to the broker."""

    gateways: int
    connecting: float  # s of processor time for all connections
    documents: int  # that were published after the connections were made
    publishing: float  # s of processor time for these documents
    memory: float  # bytes, more than without a gateway


@pytest.fixture(scope="module")
def documents(broker_directory, fixtures_with_library, tmp_path_factory):
    """Return the documents of a real daemon with 46 sensors that cross a bridge."""
    directory = tmp_path_factory.mktemp("daemon")
    with local_broker.start(free_port()) as broker:
        watcher = Peer(broker.port, [f"edge_tvbo/lab/{each}" for each in LEVELS])
        sensors = Peer(broker.port, ["lab/+/activate"])
        sensors.client.on_message = lambda client, userdata, message: client.publish(
            message.topic.replace("activate", "temperature"), "21.5"
        )
        daemon = Daemon(directory)
        daemon.config.write_text(CONFIG.format(port=broker.port, sensors=json.dumps(SENSORS)))
        try:
            daemon.start()
            watcher.wait(lambda: len(watcher.on("edge_tvbo/lab/temperature/selected")) > 10)
            watcher.wait(lambda: len(watcher.on("edge_tvbo/lab/health")) > 1)
        finally:
            daemon.close()
            watcher.close()
            sensors.close()
    return [(each, watcher.on(f"edge_tvbo/lab/{each}")[-1]) for each in LEVELS]


@pytest.fixture
def descriptors():
    """Allow this process, and the brokers that it starts, as many descriptors as possible."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def run(directory, documents, gateways, rounds, *, tls=False, watched=False):
    """Connect gateways, publish every document of each `rounds` times; return the costs.

    A `watched` broker has a client that receives all documents.
    """
    directory.mkdir()
    with ExitStack() as stack:
        central = stack.enter_context(closing(Central(directory, gateways, tls=tls)))
        central.start()
        if watched:
            stack.enter_context(closing(Watcher(central.port)))
        empty = central.memory()
        start = central.processor_time()
        with closing(Bridges(central.port, gateways, documents, central.ca)) as bridges:
            connected = central.processor_time()
            count = sum(bridges.publish_all() for _ in range(rounds))
            published = central.processor_time()
            memory = central.memory() - empty
    return Costs(gateways, connected - start, count, published - connected, memory)


def fitted(runs):
    """Return the costs of a connection, a document and its memory: medians over the runs."""
    return (
        median(each.connecting / each.gateways for each in runs),
        median(each.publishing / each.documents for each in runs),
        median(each.memory / each.gateways for each in runs),
    )


def predicted(runs, gateways, count):
    """Return the processor time (s) and memory (bytes) for `gateways` that publish `count`."""
    connection, document, memory = fitted(runs)
    return gateways * connection + count * document, gateways * memory


def compare(tmp_path, documents, sizes, target, rounds):
    """Return the fitted runs and the run with `target` gateways, on which nothing was fitted."""
    runs = [run(tmp_path / str(n), documents, n, rounds) for n in sizes]
    return runs, run(tmp_path / str(target), documents, target, rounds)


def test_the_model_of_the_central_broker_predicts_a_run_with_more_gateways(
    tmp_path, documents, descriptors
):
    runs, more = compare(tmp_path, documents, (50, 100, 150), 400, 3)
    seconds, _ = predicted(runs, more.gateways, more.documents)
    assert 0.5 < (more.connecting + more.publishing) / seconds < 2.0


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_five_thousand_gateways_cost_what_the_model_predicts(
    tmp_path, documents, descriptors, record_property
):
    runs, more = compare(tmp_path, documents, (250, 500, 1000), 5000, 5)
    connection, document, memory = fitted(runs)
    seconds, size = predicted(runs, more.gateways, more.documents)
    used = more.connecting + more.publishing
    record_property(
        "measured",
        f"fitted on 250 to 1000 gateways: {1e6 * connection:.0f} µs a connection, "
        f"{1e6 * document:.0f} µs a document, {memory / 1024:.1f} KiB a gateway; 5000 gateways, "
        f"{more.documents} documents: {used:.2f} s of processor time, predicted {seconds:.2f} s "
        f"(ratio {used / seconds:.2f}); {more.memory / 2**20:.1f} MiB, predicted "
        f"{size / 2**20:.1f} MiB (ratio {more.memory / size:.2f})",
    )
    assert 0.5 < used / seconds < 2.0
    assert 0.5 < more.memory / size < 2.0


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("gateways", [1000, 5000])
def test_the_central_broker_saturates_when_one_core_is_busy(
    tmp_path, documents, descriptors, record_property, gateways
):
    (tmp_path / "central").mkdir()
    lines = []
    with closing(Central(tmp_path / "central", gateways, tls=False)) as central:
        central.start()
        with closing(Bridges(central.port, gateways, documents)) as bridges:
            bridges.publish_all()
            bridges.latencies.clear()
            before = central.processor_time()
            bridges.publish(20_000)
            capacity = 20_000 / (central.processor_time() - before)
            for share in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8):
                lines.append(level(central, bridges, share, capacity))
    record_property("measured", f"{capacity:.0f} documents fill a core; " + "; ".join(lines))
    assert capacity > 1000


def level(central, bridges, share, capacity):
    """Publish at a share of the capacity for some seconds; return what was measured, as text.

    The broker is busy while it computes, and while it waits for a core that others use.
    """
    number = int(max(1000, 2 * share * capacity))
    bridges.latencies.clear()
    used, waited = central.processor_time(), central.waited()
    took = bridges.publish(number, share * capacity)
    used, waited = central.processor_time() - used, central.waited() - waited
    return (
        f"{share:.0%} offered, {number / took / capacity:.0%} reached: busy "
        f"{(used + waited) / took:.0%} of the time, with {used / took:.2f} of a core and "
        f"{1e6 * used / number:.0f} µs a document, acknowledged after "
        f"{1e3 * median(bridges.latencies):.0f} ms"
    )


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_reconnect_storm_over_tls_costs_processor_time_by_the_gateway(
    tmp_path, documents, descriptors, record_property
):
    plain = run(tmp_path / "plain", documents, 500, 1)
    watched = run(tmp_path / "watched", documents, 500, 20, watched=True)
    alone = run(tmp_path / "alone", documents, 500, 20)
    delivery = (watched.publishing - alone.publishing) / alone.documents
    secure = run(tmp_path / "tls", documents, 500, 1, tls=True)
    record_property(
        "measured",
        f"500 gateways reconnect and publish {len(documents)} documents each ("
        f"{', '.join(f'{level} {len(payload)} B' for level, payload in documents)}): "
        f"{1e3 * (plain.connecting + plain.publishing) / 500:.2f} ms of processor time a gateway, "
        f"{1e3 * (secure.connecting + secure.publishing) / 500:.2f} ms with TLS; "
        f"{plain.memory / 500 / 1024:.0f} and {secure.memory / 500 / 1024:.0f} KiB; "
        f"{1e6 * alone.publishing / alone.documents:.0f} µs a document, and "
        f"{1e6 * delivery:.0f} µs for a client that receives it",
    )
    assert secure.connecting > plain.connecting
