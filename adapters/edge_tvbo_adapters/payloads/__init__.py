"""Payload formats: how each integration encodes a reading.

Each format is one module and one line in `FORMATS`. The module has a function `codec`, which
returns the codec for given settings. If the integration has default topics, the module also has a
`preset`.
"""

from collections.abc import Mapping
from importlib import import_module

from edge_tvbo.messages.payloads import PayloadCodec, Preset
from edge_tvbo.plugins import Registry

_HERE = __name__
FORMATS = Registry(
    "payloads",
    {
        "number": f"{_HERE}.number:codec",
        "json": f"{_HERE}.json:codec",
        "jmespath": f"{_HERE}.jmespath:codec",
        "senml": f"{_HERE}.senml:codec",
        "thingsboard": f"{_HERE}.thingsboard:codec",
        "zigbee2mqtt": f"{_HERE}.zigbee2mqtt:codec",
        "tasmota": f"{_HERE}.tasmota:codec",
        "esphome": f"{_HERE}.esphome:codec",
        "shelly": f"{_HERE}.shelly:codec",
        "homie": f"{_HERE}.homie:codec",
        "the-things-stack": f"{_HERE}.the_things_stack:codec",
        "chirpstack": f"{_HERE}.chirpstack:codec",
    },
)


def make_codec(name: str, settings: Mapping[str, str]) -> PayloadCodec:
    """Return the codec of the payload format `name`.

    Raises `ConfigError` if there is no such format, or if a setting is invalid.
    """
    codec: PayloadCodec = FORMATS.load(name)(settings)
    return codec


def preset_of(name: str) -> Preset | None:
    """Return the preset of the payload format `name`; None for a format without default topics."""
    return getattr(import_module(FORMATS.load(name).__module__), "preset", None)


def convertible_units(name: str, value: str | None) -> Mapping[str, float]:
    """Return the units for which the payload format `name` needs the setting ``unit``.

    `value` is the setting ``value``. Each unit is mapped to the factor from the usual unit of the
    quantity to this unit: 1.8 for °F, because a difference of 1 °C is a difference of 1.8 °F. The
    result is empty for a format that converts nothing. Raises `ConfigError` if there is no such
    format, or if `value` is invalid.
    """
    units = getattr(preset_of(name), "units", None)
    found: Mapping[str, float] = units(value) if units else {}
    return found


def all_presets() -> dict[str, Preset]:
    """Return a dict that maps the names of payload formats to their presets."""
    found = {name: preset_of(name) for name in FORMATS}
    return {name: preset for name, preset in found.items() if preset is not None}
