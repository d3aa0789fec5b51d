"""Hundreds of sensors with the same problem, over a mosquitto that limits packets to 64 kB."""

import json
from collections import Counter
from contextlib import closing

from support.gateway import Daemon

from edge_tvbo.daemon.message_size import MAX_HEALTH_BYTES
from edge_tvbo.messages.formatting import MAX_NAMED_SENSORS

SENSORS = [f"building-7-floor-3-room-{number:03d}" for number in range(300)]
FIELDS = ("heat", "damp", "air", "dust")
BROKER = "allow_anonymous true\nmax_packet_size 65536\nmax_queued_messages 2000\n"
HEAD = """
instance = "large"
health = "1s"
[mqtt]
port = {port}
"""
FIELD = """
[fields.{field}]
interval = "1h"
policy = {{ name = "round-robin" }}
kernel = {{ name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20.0 }}
sensors = {sensors}
reading = {{ topic = "{field}/{{sensor}}" }}
activate = {{ mode = "advise" }}
"""


def test_many_implausible_sensors_have_events_of_their_own_but_a_short_health_and_log(
    mosquitto, peer, tmp_path
):
    broker = mosquitto(BROKER)
    broker.start()
    daemon = Daemon(tmp_path)
    fields = [FIELD.format(field=field, sensors=json.dumps(SENSORS)) for field in FIELDS]
    daemon.config.write_text("".join([HEAD.format(port=broker.port), *fields]))
    world = peer(broker.port, "edge_tvbo/large/#")

    def newest(topic):
        found = world.on(f"edge_tvbo/large/{topic}")
        return found[-1] if found else b"{}"

    def events(field):
        return {json.loads(each)["sensor"] for each in world.on(f"edge_tvbo/large/{field}/event")}

    def are_reported():
        fields = json.loads(newest("health")).get("fields", {}).values()
        return sum(each["refused"].get("implausible", 0) for each in fields) == 1200

    with closing(daemon):
        daemon.start()
        daemon.wait(lambda: world.on("edge_tvbo/large/health"))
        for field in FIELDS:
            for sensor in SENSORS:
                world.client.publish(f"{field}/{sensor}", "9876.54321", qos=1)
        daemon.wait(are_reported)
        daemon.wait(lambda: all(len(events(field)) == 300 for field in FIELDS))
        world.publish("edge_tvbo/large/cmd/status", b"{}")
        daemon.wait(lambda: world.on("edge_tvbo/large/response/status"))
        daemon.stop()

    health = newest("health")
    assert len(health) <= MAX_HEALTH_BYTES
    left = sum(300 - len(each["implausible"]) for each in json.loads(health)["fields"].values())
    assert f"it leaves out {left} of `implausible`" in json.loads(health)["problem"]
    assert "connection was lost" not in daemon.log_text()
    hours = Counter(  # the logger counts per hour
        (field, json.loads(each)["at"][:13])
        for field in FIELDS
        for each in world.on(f"edge_tvbo/large/{field}/event")
    )
    lines = sum(min(notices, MAX_NAMED_SENSORS + 1) for notices in hours.values())
    assert daemon.log_text().count("sensor-implausible: ") == lines
