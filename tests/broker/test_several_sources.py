"""One field of eight Zigbee2MQTT-like and three Tasmota-like sensors, on a real mosquitto."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager

from click.testing import CliRunner
from edge_tvbo_adapters.payloads.formats import FORMATS
from support.link import link_to
from support.mosquitto import TIMEOUT_S

from edge_tvbo.cli import main
from edge_tvbo.config import loader
from edge_tvbo.messages.events import BatteryReported, Reading, Unreadable

ZIGBEE = {f"room-{index}": 20.0 + 0.1 * index for index in range(7)} | {"hall": 19.0}  # °C
TASMOTA = {"hall": 86.0, "cellar": 59.0, "attic": 71.6}  # °F; its hall is another device
CONFIG = """
[mqtt]
port = {port}

[fields.temperature]
unit = "°C"
interval = "250ms"
policy = {{ name = "round-robin" }}
sensors = {sensors}
names = {{ hall-plug = "hall" }}
activate = {{ mode = "live" }}
kernel = {{ name = "exchangeable", variance = 9, noise_variance = 0.01, mean = 20 }}

[[fields.temperature.readings]]
topic = "zigbee2mqtt/{{sensor}}"
payload = "zigbee2mqtt"
value = "temperature"
[fields.temperature.readings.activate]
topic = "zigbee2mqtt/{{sensor}}/get"
payload = '{{"temperature": ""}}'

[[fields.temperature.readings]]
topic = "tele/{{sensor}}/SENSOR"
payload = "tasmota"
value = "AM2301.Temperature"
sensors = ["hall-plug", "cellar", "attic"]
activate = {{ topic = "cmnd/{{sensor}}/TelePeriod", payload = "" }}

[fields.temperature.energy]
battery = {{ topic = "zigbee2mqtt/{{sensor}}", payload = "zigbee2mqtt", value = "battery" }}
"""
SENSORS = [*ZIGBEE, "hall-plug", "cellar", "attic"]
CELSIUS = ZIGBEE | {"hall-plug": 30.0, "cellar": 15.0, "attic": 22.0}


def configured(directory, port, by=()):
    text = CONFIG.format(port=port, sensors=json.dumps(SENSORS))
    for before, after in by:
        assert before in text
        text = text.replace(before, after)
    path = directory / "my.toml"
    path.write_text(text)
    return path


def reports():
    """Return the messages in which each sensor reports its temperature, by their topic."""
    zigbee = {
        f"zigbee2mqtt/{name}": {"temperature": value, "battery": 80, "linkquality": 99}
        for name, value in ZIGBEE.items()
    }
    tasmota = {
        f"tele/{name}/SENSOR": {"AM2301": {"Temperature": value}, "TempUnit": "F"}
        for name, value in TASMOTA.items()
    }
    return {topic: json.dumps(each) for topic, each in (zigbee | tasmota).items()}


def replying(peer):
    """Reply to commands as Zigbee2MQTT and Tasmota do; return the list of the commands."""
    commands, messages = [], reports()

    def reply(client, _, message):
        commands.append((message.topic, message.payload))
        _, name, verb = message.topic.split("/")
        topic = f"zigbee2mqtt/{name}" if verb == "get" else f"tele/{name}/SENSOR"
        client.publish(topic, messages[topic])

    peer.client.on_message = reply
    return commands


@contextmanager
def daemon(path):
    command = [sys.executable, "-m", "edge_tvbo", "run", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        log = []
        try:
            yield log
        finally:
            process.send_signal(signal.SIGTERM)
            log.append(process.communicate(timeout=TIMEOUT_S)[1])
    assert process.returncode == 0, log


def test_eleven_sensors_of_two_integrations_are_activated_and_read(broker, peer, tmp_path):
    path = configured(tmp_path, broker.port)
    watching = peer(broker.port, "edge_tvbo/edge/temperature/posterior")
    commands = replying(peer(broker.port, "zigbee2mqtt/+/get", "cmnd/+/TelePeriod"))

    def last():
        posteriors = [json.loads(payload) for _, payload, _ in watching.received[-1:]]
        return dict(zip(SENSORS, posteriors[0]["last"], strict=True)) if posteriors else {}

    with daemon(path) as log:
        watching.wait(lambda: last() == CELSIUS)

    assert set(commands) == {
        *((f"zigbee2mqtt/{name}/get", b'{"temperature": ""}') for name in ZIGBEE),
        *((f"cmnd/{name}/TelePeriod", b"") for name in TASMOTA),
    }
    assert "ready: 11 sensors" in log[0] and "reject" not in log[0]


def test_the_connection_check_tells_the_sources_apart(broker, peer, tmp_path):
    path = configured(tmp_path, broker.port)
    sender = peer(broker.port)
    messages = reports()
    messages["tele/cellar/SENSOR"] = '{"SI7021": {"Temperature": 12.0}}'
    del messages["zigbee2mqtt/room-3"]
    unknown = {"zigbee2mqtt/attic": '{"temperature": 1}', "zigbee2mqtt/plug": '{"power": 3}'}
    for topic, payload in (messages | unknown).items():
        sender.publish(topic, payload, retain=True)

    made = CliRunner().invoke(main, ["check", "--connect", "--listen", "1s", str(path)])
    for topic in [*messages, *unknown]:
        sender.publish(topic, "", retain=True)

    assert made.exit_code == 0, made.output
    assert "subscribed to zigbee2mqtt/+" in made.stdout
    assert "subscribed to tele/+/SENSOR" in made.stdout
    assert (
        "none  temperature, zigbee2mqtt/{sensor}: 0 of 8 sensors sent a reading within 1 s; "
        "sensors with only a retained message (the daemon ignores retained messages): room-0, "
        "room-1, room-2, room-4, room-5, room-6, hall; sensors without a reading: room-3; messages "
        "of sensors that are not configured: 2; if the sensors report rarely, listen for longer, "
        "such as --listen 10min\n" in made.stdout
    )
    assert (
        "temperature, tele/{sensor}/SENSOR: 0 of 3 sensors sent a reading within 1 s; sensors with "
        "only a retained message (the daemon ignores retained messages): hall-plug, attic; sensors "
        "without a reading: cellar; rejected: 1 missing-value" in made.stdout
    )


def received(broker, drive, peer, field, messages):
    """Return the events of messages, which one sensor or several publish."""
    driver = drive(link_to(broker.port, field=field))
    driver.online()
    sender = peer(broker.port)
    for topic, payload in messages:
        sender.publish(topic, payload)
    driver.until(lambda: len(found(driver)) >= len(messages))
    return found(driver)


def found(driver):
    kinds = Reading | BatteryReported | Unreadable
    return [event for _, event in driver.events if isinstance(event, kinds)]


def test_a_message_is_never_taken_for_a_sensor_of_another_source(broker, drive, peer, tmp_path):
    """The id of one sensor is the name of another, and the batteries have the Zigbee names."""
    field = loader.load(configured(tmp_path, broker.port), FORMATS).fields["temperature"]
    message = '{"temperature": 1.0, "battery": 55}'

    events = received(
        broker,
        drive,
        peer,
        field,
        [
            ("zigbee2mqtt/attic", message),
            ("tele/hall-plug/SENSOR", '{"AM2301": {"Temperature": 1.0}}'),
            ("zigbee2mqtt/unlisted", message),
            ("zigbee2mqtt/hall", message),
            ("tele/hall/SENSOR", '{"AM2301": {"Temperature": 2.0}}'),
        ],
    )

    readings = [(each.sensor, each.value) for each in events if isinstance(each, Reading)]
    assert readings == [("unlisted", 1.0), ("hall", 1.0), ("hall-plug", 2.0)]
    rejected = [(each.reason, each.topic) for each in events if isinstance(each, Unreadable)]
    assert rejected == [
        ("unknown-sensor", "zigbee2mqtt/attic"),
        ("unknown-sensor", "tele/hall-plug/SENSOR"),
    ]
    batteries = [each.sensor for each in events if isinstance(each, BatteryReported)]
    assert batteries == ["hall"]


def test_sources_with_one_topic_read_each_sensor_once(broker, drive, peer, tmp_path):
    changes = [
        ('"tele/{sensor}/SENSOR"', '"zigbee2mqtt/{sensor}"'),
        ('payload = "tasmota"', 'payload = "zigbee2mqtt"'),
        ("AM2301.Temperature", "device_temperature"),
        ('names = { hall-plug = "hall" }\n', ""),
    ]
    path = configured(tmp_path, broker.port, changes)
    field = loader.load(path, FORMATS).fields["temperature"]
    message = '{"temperature": 1.0, "device_temperature": 2.0}'

    events = received(
        broker, drive, peer, field, [("zigbee2mqtt/hall", message), ("zigbee2mqtt/attic", message)]
    )

    assert [(each.sensor, each.value) for each in events] == [("hall", 1.0), ("attic", 2.0)]


def test_two_sensors_of_one_device_are_read_from_one_message(broker, drive, peer, tmp_path):
    changes = [
        ('names = { hall-plug = "hall" }', 'names = { attic = "esp", cellar = "esp" }'),
        (
            'sensors = ["hall-plug", "cellar", "attic"]',
            'sensors = ["attic", "hall-plug"]\nactivate = { topic = "cmnd/{sensor}/go" }\n'
            "[[fields.temperature.readings]]\n"
            'topic = "tele/{sensor}/SENSOR"\npayload = "tasmota"\nsensors = ["cellar"]\n'
            'value = "DS18B20.Temperature"',
        ),
    ]
    field = loader.load(configured(tmp_path, broker.port, changes), FORMATS).fields["temperature"]
    message = '{"AM2301": {"Temperature": 1.0}, "DS18B20": {"Temperature": 2.0}}'
    driver = drive(link_to(broker.port, field=field))
    driver.online()

    peer(broker.port).publish("tele/esp/SENSOR", message)
    driver.until(lambda: len(found(driver)) == 2)

    assert [(each.sensor, each.value) for each in found(driver)] == [
        ("attic", 1.0),
        ("cellar", 2.0),
    ]
