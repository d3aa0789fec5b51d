"""A stuck sensor at a running daemon: named in a notice, left out, and taken back when repaired."""

import numpy as np
from support.gateway import Gateway

STUCK_AT = 25.5  # °C


class StuckGateway(Gateway):
    """A gateway whose hottest sensor, `a`, is stuck on request; the others always change."""

    def __init__(self, directory, port, peer):
        self.is_stuck = False
        self.generator = np.random.default_rng(0)
        self.answers = []  # (sensor, value)
        super().__init__(directory, port, peer, "stuck")
        self.world = peer(port, "edge_tvbo/stuck/#")

    def configure(self):
        super().configure(policy="tv-gp-ucb")
        text = self.config.read_text().replace('timeout = "100ms"', 'timeout = "180ms"')
        text = text.replace("[fields.lab]\n", "[fields.lab]\nmax_backoff = 8\n", 1)
        self.config.write_text('health = "1s"\n' + text)

    def _answer(self, client, userdata, message):
        sensor = message.topic.split("/")[1]
        mean = {"a": 24.0, "b": 22.0, "c": 20.0}[sensor]
        stuck = self.is_stuck and sensor == "a"
        value = STUCK_AT if stuck else mean + 0.2 * float(self.generator.standard_normal())
        self.answers.append((sensor, value))
        client.publish(message.topic.replace("/go", "/t"), str(value))

    def on(self, topic):
        return self.world.documents(f"edge_tvbo/stuck/{topic}")

    def notices(self, kind):
        return [each for each in self.on("lab/event") if each["event"] == kind]

    def health(self):
        return self.on("health")[-1]


def test_a_daemon_leaves_a_stuck_sensor_out_until_it_is_repaired(broker, peer, tmp_path):
    gateway = StuckGateway(tmp_path, broker.port, peer)
    gateway.start()
    try:
        gateway.wait(lambda: [sensor for sensor, _ in gateway.answers].count("a") >= 5)
        gateway.is_stuck = True
        gateway.wait(lambda: gateway.notices("sensor-faulty"))
        (notice,) = gateway.notices("sensor-faulty")
        assert notice["sensor"] == "a"
        assert "25.5" in notice["text"]
        assert "in a row" in notice["text"]
        gateway.wait(lambda: "a" in gateway.health()["fields"]["lab"]["faulty"])
        assert "a in lab seems to be faulty" in gateway.health()["problem"]
        gateway.wait(lambda: gateway.on("lab/hotspot")[-1]["sensor"] != "a")

        gateway.wait_for_checkpoint()
        gateway.kill()
        known = gateway.health()["uptime_s"]
        gateway.start()
        gateway.wait(lambda: gateway.health()["uptime_s"] < known)
        assert list(gateway.health()["fields"]["lab"]["faulty"]) == ["a"]

        gateway.is_stuck = False
        gateway.wait(lambda: gateway.notices("sensor-agrees"))
        gateway.wait(lambda: gateway.health()["fields"]["lab"]["faulty"] == {})
        assert gateway.health()["fields"]["lab"]["refused"]["faulty"] >= 1
        gateway.stop()
    finally:
        gateway.close()
