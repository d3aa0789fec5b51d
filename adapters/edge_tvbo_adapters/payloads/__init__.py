"""Payload formats: how each integration encodes a reading.

Each format is one module and one line in `FORMATS`. The module has a function `codec`, which
returns the codec for given settings. If the integration has default topics, the module also has a
`preset`.
"""

import logging
from collections.abc import Callable, Mapping
from importlib import import_module

from edge_tvbo.errors import ConfigError
from edge_tvbo.messages.payloads import PayloadCodec, Preset
from edge_tvbo.plugins import Registry

log = logging.getLogger(__name__)
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

    Raises `ConfigError` if there is no such format, if a setting is invalid, or if the format of
    another package cannot be used.
    """
    make = _maker(name)
    try:
        codec = make(settings)
    except ConfigError:
        raise
    except Exception as error:  # a package's function can raise any exception
        raise ConfigError(
            f"the payload format {name!r} cannot be used: {type(error).__name__}: {error}"
        ) from error
    return codec


def preset_of(name: str) -> Preset | None:
    """Return the preset of the payload format `name`; None for a format without default topics."""
    return getattr(import_module(_maker(name).__module__), "preset", None)


def convertible_units(name: str, value: str | None) -> Mapping[str, float]:
    """Return the units for which the payload format `name` needs the setting ``unit``.

    `value` is the setting ``value`` of the format. The result maps each unit to the number of these
    units in one usual unit of the quantity. For °F, this number is 1.8, because a difference of
    1 °C is a difference of 1.8 °F. The result is empty for a format that converts nothing. Raises
    `ConfigError` if there is no such format, or if `value` is invalid.
    """
    units = getattr(preset_of(name), "units", None)
    found: Mapping[str, float] = units(value) if units else {}
    return found


def all_presets() -> dict[str, Preset]:
    """Return a dict that maps the names of payload formats to their presets.

    A format of another package that cannot be loaded is left out, with a warning in the log.
    """
    found = FORMATS.load_each(preset_of, log.warning)
    return {name: preset for name, preset in found.items() if preset is not None}


def _maker(name: str) -> Callable[[Mapping[str, str]], PayloadCodec]:
    """Return the function that makes the codecs of the payload format `name`."""
    maker: Callable[[Mapping[str, str]], PayloadCodec] = FORMATS.load(name)
    if not callable(maker):
        raise ConfigError(
            f"the payload format {name!r} cannot be used: {maker!r} is not a function."
        )
    return maker
