"""Writer of the add-on's configuration, which uses its options and the Supervisor's broker.

The script prints the path of the configuration file. If the option `config_file` names a file of
the user, the script prints the path of that file and writes nothing.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from edge_tvbo.messages.sensor_ids import ids

OPTIONS = Path(os.environ.get("OPTIONS", "/data/options.json"))
SENSOR_IDS = OPTIONS.with_name("sensor-ids.json")  # names of all sensors ever listed, by id
OWN = Path("/config")  # the folder of the add-on in addon_configs
WRITTEN = Path(os.environ.get("TMPDIR", "/tmp")) / "edge-tvbo"


def main() -> None:
    options = json.loads(OPTIONS.read_text(encoding="utf-8"))
    if options.get("config_file"):
        print(OWN / options["config_file"])
        return
    if not options["sensors"]:
        sys.exit("There are no sensors; list them on the Configuration tab of the add-on.")
    WRITTEN.mkdir(mode=0o700, exist_ok=True)
    broker = mqtt_service()
    (WRITTEN / "mqtt.password").write_text(broker.get("password") or "", encoding="utf-8")
    path = WRITTEN / "config.toml"
    path.write_text("\n".join(lines(options, broker)) + "\n", encoding="utf-8")
    print(path)


def mqtt_service() -> dict[str, Any]:
    """Return the broker's address and the add-on's login, from the Supervisor."""
    url = os.environ.get("SUPERVISOR", "http://supervisor") + "/services/mqtt"
    token = os.environ["SUPERVISOR_TOKEN"]
    with urlopen(Request(url, headers={"Authorization": f"Bearer {token}"}), timeout=10) as reply:
        data: dict[str, Any] = json.load(reply)["data"]
    return data


def lines(options: Mapping[str, Any], broker: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the add-on's configuration; values are in JSON that is also valid TOML."""
    yield f"instance = {toml(options['instance'])}"
    yield "[mqtt]"
    yield f"host = {toml(broker['host'])}"
    yield f"port = {toml(broker['port'])}"
    if broker.get("username"):
        yield f"username = {toml(broker['username'])}"
        yield 'password_file = "mqtt.password"'
    if broker.get("ssl"):
        yield "[mqtt.tls]"
    yield "[state]"
    yield 'dir = "/data"'
    yield "[metrics]"
    yield 'host = "0.0.0.0"'
    yield "port = 9464"
    yield "[homeassistant]"
    yield f"[fields.{options['field']}]"
    for name in ("unit", "objective", "interval"):
        yield f"{name} = {toml(options[name])}"
    yield f"kernel = {kernel(options)}"
    yield from sensor_lines(options["sensors"])
    format = {key: options[key] for key in ("topic", "payload", "value") if options.get(key)}
    yield f"reading = {table(format)}"


def sensor_lines(sensors: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the add-on's sensors: their ids, and their names and positions by id.

    The option `id` of a sensor is its name in the topic. If two names are equal, their ids are
    equal, too, and the daemon rejects the configuration.
    """
    id_of = stored_ids(dict.fromkeys(each["id"] for each in sensors))
    yield f"sensors = {toml([id_of[each['id']] for each in sensors])}"
    if others := {id: name for name, id in id_of.items() if id != name}:
        yield f"names = {table(others)}"
    if placed(sensors):
        positions = {id_of[each["id"]]: [each["x"], each["y"]] for each in sensors}
        yield f"positions = {table(positions)}"


def stored_ids(names: Iterable[str]) -> dict[str, str]:
    """Return the id of each of the add-on's sensors, by the name of the sensor; store the ids.

    Each name keeps its id, whatever other names are listed later, because the daemon finds the
    state of a sensor by its id.
    """
    listed = list(names)
    known = json.loads(SENSOR_IDS.read_text(encoding="utf-8")) if SENSOR_IDS.exists() else {}
    known |= ids([name for name in listed if name not in known.values()], taken=known)
    written = SENSOR_IDS.with_suffix(".new")
    written.write_text(json.dumps(known), encoding="utf-8")
    written.replace(SENSOR_IDS)
    id_of = {name: id for id, name in known.items()}
    return {name: id_of[name] for name in listed}


def kernel(options: Mapping[str, Any]) -> str:
    """Return the add-on's `kernel`: by distance if all positions are known, else exchangeable."""
    variance = options["spread"] ** 2
    shape = (
        f'name = "matern-5/2", length_scale = {toml(options["length_scale"])}'
        if placed(options["sensors"])
        else 'name = "exchangeable"'
    )
    noise = f"noise_variance = {toml(variance / 100)}"
    return f"{{ {shape}, variance = {toml(variance)}, {noise}, mean = {toml(options['mean'])} }}"


def placed(sensors: list[Mapping[str, Any]]) -> bool:
    """Return whether every sensor in the add-on's options has a position."""
    return all("x" in each and "y" in each for each in sensors)


def table(items: Mapping[str, Any]) -> str:
    """Return an inline table of the add-on's configuration."""
    return f"{{ {', '.join(f'{toml(key)} = {toml(value)}' for key, value in items.items())} }}"


def toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
