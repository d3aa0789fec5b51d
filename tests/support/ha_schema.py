"""Home Assistant schema: checks of device discovery messages, by the rules of 2026.11 and 2025.10.

Written from `homeassistant/components/mqtt/schemas.py` and the platforms beside it, in the wheel
homeassistant-2026.11.0; that version needs Python 3.14 and cannot be imported here, but
`make test-homeassistant` runs it. Home Assistant drops unknown keys (`REMOVE_EXTRA`); these checks
reject them.
"""

import json
import re

ENTITY_ID = re.compile(r"^(?!.+__)(?!_)[\da-z_]+(?<!_)\.(?!_)[\da-z_]+(?<!_)$")  # core.py
TOPIC = re.compile(r"^[^+#\0\x01-\x1f\x7f-\x9f]{1,1000}$")  # util.py, valid_publish_topic
COMPONENT = re.compile(r"^[a-zA-Z0-9_-]+$")  # discovery.py, TOPIC_MATCHER
ROOT = {  # schemas.py, DEVICE_DISCOVERY_SCHEMA
    *("device", "origin", "components", "availability", "availability_topic", "qos", "encoding"),
    *("state_topic", "command_topic", "payload_available", "payload_not_available"),
}
DEVICE = {  # schemas.py, _MQTT_DEVICE_INFO_SCHEMA_BASE
    *("identifiers", "connections", "manufacturer", "model", "model_id", "name", "hw_version"),
    *("serial_number", "sw_version", "via_device", "suggested_area", "configuration_url"),
}
ORIGIN = {"name", "sw_version", "support_url"}
COMMON = {  # schemas.py, MQTT_ENTITY_COMMON_SCHEMA; no object_id, it is gone since 2026.4
    *("platform", "unique_id", "default_entity_id", "name", "icon", "entity_category"),
    *("json_attributes_topic", "json_attributes_template", "device_class"),
    *("availability", "availability_mode", "enabled_by_default"),
}
STATE = {"state_topic", "value_template"}
PLATFORMS = {  # beyond COMMON; sensor.py, binary_sensor.py, event.py, switch.py, button.py
    "sensor": STATE
    | {"expire_after", "options", "suggested_display_precision", "state_class"}
    | {"unit_of_measurement"},
    "binary_sensor": STATE | {"expire_after", "payload_on", "payload_off"},
    "event": STATE | {"event_types"},
    "switch": STATE
    | {"state_on", "state_off", "command_topic", "payload_on", "payload_off", "retain"}
    | {"command_template"},
    "button": {"command_topic", "payload_press", "retain"},
    "select": STATE | {"command_topic", "command_template", "options", "retain"},
    "number": STATE
    | {"command_topic", "command_template", "min", "max", "step", "mode", "retain"}
    | {"unit_of_measurement"},
    "text": STATE
    | {"command_topic", "command_template", "min", "max", "mode", "pattern", "retain"},
}
REQUIRED = {
    "sensor": {"state_topic"},
    "binary_sensor": {"state_topic"},
    "event": {"state_topic", "event_types"},
    "switch": {"command_topic"},
    "button": {"command_topic"},
    "select": {"command_topic", "options"},
    "number": {"command_topic"},
    "text": {"command_topic"},
}
STATE_CLASSES = {"measurement", "total", "total_increasing"}
_GASES = {"ppb", "ppm", "μg/m³"}
_PRESSURE = {"mPa", "Pa", "hPa", "kPa", "bar", "cbar", "mbar", "mmHg", "inHg", "psi", "atm"}
_SPEED = {"ft/s", "in/s", "m/min", "m/s", "km/h", "kn", "mph", "mm/s", "Beaufort"}
UNITS = {  # sensor/const.py, DEVICE_CLASS_UNITS, with const.py's units
    "absolute_humidity": {"g/m³", "mg/m³"},
    "aqi": {None},
    "atmospheric_pressure": _PRESSURE,
    "battery": {"%"},
    "carbon_dioxide": {"ppm"},
    "carbon_monoxide": _GASES | {"mg/m³"},
    "conductivity": {"S/cm", "mS/cm", "μS/cm"},
    "current": {"μA", "mA", "A"},
    "distance": {"mm", "cm", "m", "km", "in", "ft", "yd", "mi", "nmi"},
    "energy_storage": {"J", "kJ", "MJ", "GJ", "mWh", "Wh", "kWh", "MWh", "cal", "kcal"},
    "frequency": {"mHz", "Hz", "kHz", "MHz", "GHz"},
    "humidity": {"%"},
    "illuminance": {"lx"},
    "irradiance": {"W/m²", "BTU/(h⋅ft²)"},
    "moisture": {"%"},
    "nitrogen_dioxide": _GASES,
    "nitrogen_monoxide": {"ppb", "μg/m³"},
    "nitrous_oxide": {"μg/m³"},
    "ozone": _GASES,
    "ph": {None},
    "pm1": {"μg/m³"},
    "pm10": {"μg/m³"},
    "pm25": {"μg/m³"},
    "power": {"mW", "W", "kW", "MW", "GW", "TW"},
    "power_factor": {"%", None},
    "precipitation_intensity": {"in/d", "in/h", "mm/d", "mm/h"},
    "pressure": _PRESSURE,
    "radon": {"Bq/m³", "pCi/L"},
    "signal_strength": {"dB", "dBm"},
    "sound_pressure": {"dB", "dBA"},
    "speed": _SPEED | {"in/d", "in/h", "mm/d", "mm/h"},
    "sulphur_dioxide": {"ppb", "μg/m³"},
    "temperature": {"°C", "°F", "K"},
    "temperature_delta": {"°C", "°F", "K"},  # since 2025.11
    "volatile_organic_compounds": {"μg/m³", "mg/m³"},
    "volatile_organic_compounds_parts": {"ppb", "ppm"},
    "voltage": {"μV", "mV", "V", "kV", "MV"},
    "volume_flow_rate": {"m³/h", "m³/min", "m³/s", "L/min", "L/h", "L/s", "gal/min", "ft³/min"},
    "weight": {"g", "kg", "mg", "μg", "oz", "lb", "st"},
    "wind_speed": _SPEED,
}


def decode_strictly(text):
    """Return a JSON document without NaN, infinity and duplicate keys."""

    def pairs(items):
        assert len({key for key, _ in items}) == len(items), "a key occurs twice"
        return dict(items)

    def constant(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=constant, object_pairs_hook=pairs)


def check_message(payload):
    """Return the message in `payload`; fail unless it describes a device."""
    message = decode_strictly(payload)
    assert message.keys() <= ROOT
    assert {"device", "origin", "components"} <= message.keys()
    device, origin = message["device"], message["origin"]
    assert device.keys() <= DEVICE and origin.keys() <= ORIGIN
    assert device.get("identifiers") or device.get("connections")
    assert all(isinstance(each, str) for each in device["identifiers"])
    assert isinstance(origin["name"], str)
    assert message["qos"] in (0, 1, 2)
    check_availability(message)
    components = message["components"]
    for key, component in components.items():
        assert COMPONENT.match(key), key
        check_component(component, device["name"])
    ids = [each["unique_id"] for each in components.values() if len(each) > 1]
    assert len(ids) == len(set(ids))
    return message


def check_availability(options):
    """Fail unless `options` have the availability in one of its two forms."""
    assert not {"availability", "availability_topic"} <= options.keys()  # Exclusive
    for each in options["availability"]:
        assert each.keys() <= {"topic", "value_template"} and TOPIC.match(each["topic"])
    assert options.get("availability_mode", "latest") in ("all", "any", "latest")


def check_component(component, device_name):
    """Fail unless `component` is an entity or the removal of one."""
    platform = component["platform"]
    assert platform in PLATFORMS
    if len(component) == 1:
        return  # discovery.py: a platform alone removes the entity
    assert component.keys() <= COMMON | PLATFORMS[platform], component.keys()
    assert {"unique_id", *REQUIRED[platform]} <= component.keys()
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", component["unique_id"])
    if "default_entity_id" in component:
        domain, _ = component["default_entity_id"].split(".")
        assert domain == platform and ENTITY_ID.match(component["default_entity_id"])
    assert device_name.lower() not in component["name"].lower()  # Home Assistant prepends it
    for key in ("state_topic", "command_topic", "json_attributes_topic"):
        assert key not in component or TOPIC.match(component[key])
    if "availability" in component:
        check_availability(component)
    is_settable = platform in (
        "switch",
        "button",
        "select",
        "number",
        "text",
    )  # sensor.py: `config` is for these
    categories = {"diagnostic", "config"} if is_settable else {"diagnostic"}
    assert component.get("entity_category", "diagnostic") in categories
    if platform == "event":
        types = component["event_types"]
        assert types and len(types) == len(set(types)) and all(isinstance(e, str) for e in types)
    if platform == "select":
        assert component["options"] and len(set(component["options"])) == len(component["options"])
    if platform == "number":  # number.py, validate_config
        assert component["min"] < component["max"] and component["step"] >= 1e-3
        assert component["mode"] in ("auto", "box", "slider")
    if platform == "sensor":
        check_sensor(component)


def check_sensor(sensor):
    """Fail unless validate_sensor_state_and_device_class_config in sensor.py accepts `sensor`."""
    unit, kind = sensor.get("unit_of_measurement"), sensor.get("device_class")
    assert ("options" in sensor) == (kind == "enum")
    if kind == "enum":
        assert sensor["options"] and not sensor.get("state_class") and unit is None
        assert len(sensor["options"]) == len(set(sensor["options"]))
        assert all(isinstance(each, str) and 0 < len(each) <= 255 for each in sensor["options"])
    if kind in ("enum", "timestamp"):
        assert "state_class" not in sensor and "suggested_display_precision" not in sensor
    elif kind is not None:
        # The micro sign is replaced: sensor/const.py, AMBIGUOUS_UNITS.
        assert (unit and unit.replace("µ", "μ")) in UNITS[kind], (kind, unit)
    assert sensor.get("state_class", "measurement") in STATE_CLASSES
    assert unit is None or unit.strip()
    for key in ("expire_after", "suggested_display_precision"):  # cv.positive_int
        assert isinstance(sensor.get(key, 0), int) and sensor.get(key, 0) >= 0
