"""Changed sensors at a running daemon: a lost sensor stays listed, and the counters continue."""

import json
import signal

import pytest
from support.gateway import Gateway

COUNTERS = ("answered", "missed", "undelivered", "refused", "paused")


class SilentGateway(Gateway):
    """A gateway with sensors that reply, except those in `silent`."""

    def __init__(self, directory, port, peer):
        self.silent = {"b"}
        self._requests = 0
        super().__init__(directory, port, peer, "silent")
        self.world = peer(port, "edge_tvbo/silent/#")
        self.write(["a", "b", "c"])

    def write(self, sensors):
        """Write a configuration with these sensors, of which `a` and `b` are known from before."""
        self.configure(policy="round-robin", reply_timeout="180ms")
        text = self.config.read_text().replace('["a", "b", "c"]', json.dumps(sensors))
        (other,) = set(sensors) - {"a", "b"}
        self.config.write_text(text.replace("c = [9, 9]", f"{other} = [9, 9]"))

    def _answer(self, client, userdata, message):
        if message.topic.split("/")[1] in self.silent:
            self.activations.append(json.loads(message.payload))
        else:
            super()._answer(client, userdata, message)

    def on(self, topic):
        return self.world.documents(f"edge_tvbo/silent/{topic}")

    def command(self, verb):
        """Request `verb` until the present daemon responds; return the data of its response."""
        self._requests += 1
        request = {"transaction": str(self._requests)}

        def responses():
            found = self.on(f"response/{verb}")
            return [each for each in found if each["transaction"] == request["transaction"]]

        def responds():
            self.world.publish(f"edge_tvbo/silent/cmd/{verb}", json.dumps(request).encode())
            return responses()

        self.wait(responds)
        return responses()[0]["data"]

    def field(self):
        """Return the health of the field."""
        return self.command("status")["health"]["fields"]["lab"]

    def pause(self):
        """Pause the field; return its health when no reply is awaited any more."""
        self.command("pause")
        self.wait_for_sensors()

        def is_idle():
            field = self.field()
            ended = field["answered"] + field["missed"] + field["undelivered"]
            return ended == len(self.activations)

        self.wait(is_idle)
        return self.field()


@pytest.fixture
def gateway(tmp_path, mosquitto, peer):
    broker = mosquitto()
    broker.start()
    gateway = SilentGateway(tmp_path, broker.port, peer)
    yield gateway
    gateway.close()


def test_a_lost_sensor_stays_listed_when_other_sensors_come_and_go(gateway):
    gateway.start()
    gateway.wait(lambda: "b" in gateway.field()["suspects"])
    before = gateway.pause()
    assert before["answered"] > 0

    gateway.write(["d", "b", "a"])
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait_for_log("reload: done")
    assert_carried(before, gateway.field())

    gateway.kill()
    gateway.write(["b", "e", "a"])
    gateway.start()
    gateway.wait_for_log("state: restored from")
    assert_carried(before, gateway.field())

    gateway.silent = set()
    gateway.command("resume")
    gateway.wait(lambda: "b" not in gateway.field()["suspects"])
    assert ("sensor-back", "b") in [
        (each["event"], each["sensor"]) for each in gateway.on("lab/event")
    ]
    gateway.stop()


def assert_carried(before, after):
    """Check the health of the field after a change of its sensors other than `a` and `b`."""
    assert [after[name] for name in COUNTERS] == [before[name] for name in COUNTERS]
    assert set(after["suspects"]) == set(before["suspects"]) & {"a", "b"}
