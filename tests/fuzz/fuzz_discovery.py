"""Fuzzing of `init --listen`: for any messages, `init` writes a valid file or finds no sensor.

The input is a sequence of messages, ``topic, newline, payload``, each ended by a zero byte.
"""

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

from click.testing import CliRunner
from edge_tvbo_adapters.payloads.formats import all_presets, make_codec
from fuzz.fuzzing import main
from fuzz.trees import changed

from edge_tvbo.cli import init_fields
from edge_tvbo.cli import main as edge_tvbo
from edge_tvbo.setup.sensor_discovery import SensorDiscovery

SEEDS = (
    b'zigbee2mqtt/hall\n{"temperature": 21.5, "humidity": 40, "battery": 90}',
    b"tele/attic/SENSOR\n"
    b'{"Time": "2024-03-01T00:00:00", "AM2301": {"Temperature": 20.1}, "TempUnit": "C"}',
    b"hall/sensor/temperature/state\n20.1",
    b"homie/hall/thermo/temperature\n20.1",
    b"homie/5/hall/thermo/temperature\n20.1",
    b"shellies/shellyht-1/sensor/temperature\n20.5",
    b"shellyplusht-1/events/rpc\n"
    b'{"method": "NotifyFullStatus", "params": {"temperature:0": {"id": 0, "tC": 20.5}}}',
    b"application/1/device/70b3d57ed0000001/event/up\n"
    b'{"deviceInfo": {"devEui": "70b3d57ed0000001"}, "object": {"temperature": 20.5}}',
    b"home/hall/temperature\n20.1",
    b'home/hall\n{"t": 20.1, "co2": 800}',
)
LEVELS = (
    "",
    "+",
    "#",
    "{sensor}",
    "sensor",
    "temperature",
    "state",
    "\u3000",
    "Küche",
    "a b",
    "x" * 70,
    '"',
    "\\",
    "\t",
)


def seeds() -> list[bytes]:
    """Return a message of each integration, and all of them."""
    return [*(each + b"\0" for each in SEEDS), b"\0".join(SEEDS)]


def check(data: bytes) -> None:
    """Run `init` after the messages; it has to end as the command line ends."""
    discovery = SensorDiscovery(all_presets(), make_codec)
    for message in data.split(b"\0"):
        topic, _, payload = message.partition(b"\n")
        if topic:
            discovery.add_message(
                topic.decode(errors="replace"), payload, retained=payload[:1] == b"2"
            )
    with TemporaryDirectory() as directory:
        path = Path(directory) / "my.toml"
        with patch.object(init_fields, "discover", lambda *_: (discovery, 60.0)):
            result = CliRunner().invoke(edge_tvbo, ["init", str(path), "--listen", "60s"])
        if path.exists():
            assert result.exit_code == 0, result.output
        else:
            assert result.exit_code == 1, result.output  # no sensor was found
            assert not discovery.groups() or "a reading" in result.output, result.output


def mutate(data: bytes, random: Random) -> bytes:
    """Change one level of a topic or one value of a payload, or repeat a message."""
    messages = data.split(b"\0")
    at = random.randrange(len(messages))
    topic, _, payload = messages[at].partition(b"\n")
    levels = topic.decode(errors="replace").split("/")
    match random.randrange(3):
        case 0:
            levels[random.randrange(len(levels))] = random.choice(LEVELS)
        case 1:
            messages.append(random.choice(SEEDS))
        case _:
            try:
                payload = json.dumps(changed(json.loads(payload), random)).encode()
            except (ValueError, TypeError, RecursionError):
                return b""
    messages[at] = "/".join(levels).encode() + b"\n" + payload
    return b"\0".join(messages)


if __name__ == "__main__":
    main("fuzz_discovery")
