"""Random network faults around a daemon under load: it continues, and its memory is bounded."""

import json
import sys
import time
from collections import Counter
from contextlib import suppress
from random import Random
from statistics import median
from threading import Event, Thread

import pytest
from support.gateway import Gateway
from support.proxy import IN, OUT, Proxy

INTERVAL = 0.2  # s
MAX_JITTER_S = 0.05  # largest deviation of activations from the grid of intervals
LOAD = 200  # readings per second
MAX_UNACKNOWLEDGED = 2 * 20  # readings in flight at the broker, and as many replies
MAX_AGE_S = 3600.0  # of an activation that is not corrupt
WARM_UP = 0.25  # share of the faults after which the memory is compared
MIB = 1024**2
MAX_GROWTH_MIB = 1.0  # over 100 faults and some 160 connections it varied by 0.08 in all
IMPATIENT = """\
from edge_tvbo.cli import main
from edge_tvbo_adapters.mqtt import backoff, session_starter
from msgspec.structs import replace
Session = session_starter.Session

def impatient(mqtt, *args, **named):
    return Session(replace(mqtt, keepalive=1), *args, **named)

session_starter.Session = impatient
backoff.EARLY_END_WAIT_S = 0.3  # many short sessions look like a duplicate client id
main()
"""


class Loaded(Gateway):
    """A gateway behind a proxy, whose sensors also send `LOAD` unsolicited readings per second."""

    def __init__(self, directory, broker, peer, name):
        super().__init__(directory, broker.port, peer, name)
        self.proxy = Proxy(broker.port)
        self.port = self.proxy.port
        self.configure()
        text = self.config.read_text().replace("interval = ", "max_rate = 100000\ninterval = ")
        self.config.write_text('health = "1s"\n' + text)
        self._crowd = peer(broker.port, f"edge_tvbo/{self.name}/lab/selected")
        self._over = Event()
        self._thread = Thread(target=self._load)
        self.sent = 0

    def boot(self):
        self.start(by=(sys.executable, "-c", IMPATIENT))
        self.wait_for_activations()
        self._thread.start()

    def _load(self):
        while not self._over.wait(10 / LOAD):
            for _ in range(10):
                sensor = "abc"[self.sent % 3]
                self._crowd.client.publish(
                    f"{self.name}/{sensor}/t", f"{20 + self.sent % 99 / 50}", 1
                )
                self.sent += 1

    def learned(self):
        """Return the number of readings in the model at the last received decision."""
        for document in reversed(self._crowd.on(f"edge_tvbo/{self.name}/lab/selected")):
            with suppress(ValueError, KeyError):
                return json.loads(document)["model"]["observations"]
        return 0

    def recovers(self):
        """Wait for new decisions, and for readings that were sent after the fault."""
        known = self.learned()
        self.wait_for_activations(2)
        self.wait(lambda: self.learned() > known + MAX_UNACKNOWLEDGED)

    def _answer(self, client, userdata, message):
        with suppress(ValueError):  # an activation may be corrupt, such as 1e5 for 105
            number, at = json.loads(message.payload)
            if isinstance(number, int) and abs(at - time.time()) < MAX_AGE_S:
                super()._answer(client, userdata, message)

    def close(self):
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        super().close()
        self.proxy.close()


# --- faults ---------------------------------------------------------------------------------------


def cut(proxy, way, chance):
    proxy.cut()


def cut_within_a_packet(proxy, way, chance):
    proxy.cut_within(way, chance.randrange(1, 9))


def delay(proxy, way, chance):
    proxy.delay = chance.uniform(0.05, 0.2)
    time.sleep(0.4)
    proxy.delay = 0.0


def stall(proxy, way, chance):
    proxy.frozen = True
    time.sleep(chance.uniform(0.2, 1.0))
    proxy.frozen = False


def half_open(proxy, way, chance):
    proxy.abandon(way)


def leave(proxy, way, chance):
    proxy.abandon(IN, OUT)


def corrupt(proxy, way, chance):
    name = "corrupt" if way == IN else "corrupt_out"
    setattr(proxy, name, chance.randrange(2, 40))
    time.sleep(chance.uniform(0.2, 0.6))
    setattr(proxy, name, 0)
    proxy.cut()  # a session that lost its framing never recovers


def refuse(proxy, way, chance):
    proxy.refusing = True
    proxy.cut()
    time.sleep(chance.uniform(0.1, 0.8))
    proxy.refusing = False


KINDS = [cut, cut_within_a_packet, delay, stall, half_open, leave, corrupt, refuse]


def drawn(times, chance):
    """Return faults in random order, each kind and each direction equally often."""
    both = [(kind, way) for way in (IN, OUT) for kind in chance.sample(KINDS, len(KINDS))]
    faults = (both * (times // len(both) + 1))[:times]
    return chance.sample(faults, times)


# --- resources ------------------------------------------------------------------------------------


def resources(gateway):
    """Return the daemon's threads, its descriptors without temporary files, and its memory."""
    return *min(used(gateway) for _ in range(20) if not time.sleep(0.005)), gateway.resident()


def used(gateway):
    """Return the numbers of the daemon's threads and descriptors."""
    return gateway.threads(), gateway.descriptors()


@pytest.mark.parametrize(
    "times", [12, pytest.param(100, marks=pytest.mark.soak)], ids=["12", "100"]
)
@pytest.mark.timeout(1200)
def test_over_random_faults_of_the_network_a_daemon_decides_on_and_does_not_grow(
    broker, peer, tmp_path, times, record_property
):
    gateway, chance = Loaded(tmp_path, broker, peer, f"rough-{times}"), Random(times)
    faults = drawn(times, chance)
    waits, samples = [], []
    try:
        gateway.boot()
        log = gateway.state.with_suffix(".readings.db-wal")
        gateway.wait(log.exists)  # from then on, the daemon holds the database and its log open
        before = resources(gateway)
        for fault, way in faults:
            fault(gateway.proxy, way, chance)
            began = time.monotonic()
            gateway.recovers()
            waits.append(time.monotonic() - began)
            gateway.wait(lambda: used(gateway) <= before[:2])  # it may be connecting again
            samples.append(resources(gateway))
        time.sleep(0.5)
        gateway.stop()
    finally:
        gateway.close()
    threads, descriptors, resident = zip(*samples, strict=True)
    settled = [each / MIB for each in resident[int(WARM_UP * times) :]]
    grown = median(settled[-len(settled) // 4 :]) - median(settled[: len(settled) // 4 + 1])
    connections, kinds = gateway.proxy.connections, Counter(kind.__name__ for kind, _ in faults)
    off = [at - number * INTERVAL for number, at in gateway.activations]
    measured = (
        f"{times} faults ({', '.join(f'{n} {kind}' for kind, n in kinds.items())}), "
        f"{connections} connections, {gateway.sent} readings sent; well again after "
        f"{median(waits):.1f} s, {max(waits):.1f} s at most; threads {before[0]} and then "
        f"{max(threads)}, descriptors {before[1]} and then {max(descriptors)}; memory "
        f"{before[2] / MIB:.1f} MiB, settled {min(settled):.2f} to {max(settled):.2f}, "
        f"{grown:+.2f} MiB"
    )
    record_property("measured", measured)
    print(measured)
    assert "Traceback" not in gateway.log_text()
    assert connections > times / 2
    assert grown < MAX_GROWTH_MIB
    assert max(off) - min(off) < MAX_JITTER_S
