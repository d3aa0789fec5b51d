"""Payload formats: finds a format by its name, with its codec and its preset.

Each format is one module and one line in `FORMATS`. The module has a function `codec`, which
returns the codec for given settings. If the integration has default topics, the module also has a
`preset`.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import islice

from edge_tvbo.errors import Code, ConfigError, Mistake
from edge_tvbo.messages.payloads import Activation, PayloadCodec, Preset
from edge_tvbo.plugins import Registry

log = logging.getLogger(__name__)
MAX_MISTAKES = 10  # reported mistakes in the settings of one format
MAX_SEARCHED = 50  # settings of one format among which an invalid one is looked for
_HERE = __package__


class PayloadFormats(Registry):
    """Registry of the payload formats, which checks their settings for the configuration."""

    def mistakes(self, payload: str, settings: Mapping[str, str]) -> Iterator[Mistake]:
        """Yield the mistakes in the settings of the format `payload`; a path is () or ``(key,)``.

        To find an invalid setting, the settings are removed one at a time. If the removal of
        exactly one setting changes or removes the error, the error is reported for this setting.
        The remaining settings, except ``unit``, are then checked again.
        """
        rest = dict(settings)
        while len(settings) - len(rest) < MAX_MISTAKES and (text := _problem(payload, rest)):
            searched = islice(rest, MAX_SEARCHED)
            wrong = [key for key in searched if _problem(payload, _without(rest, key)) != text]
            path = tuple(wrong) if len(wrong) == 1 else ()
            if path or rest == settings:
                yield Mistake(path, f"is invalid: {text}", Code.WRONG_VALUE)
            if not path:
                return
            rest = _without(rest, wrong[0], "unit")  # which units are valid depends on the others

    def has_downlink(self, payload: str) -> bool:
        """Return whether the format `payload` has a default downlink message.

        The result is also True for a format that cannot be loaded. `mistakes` reports the fault of
        such a format; a missing downlink message would be a second mistake with the same cause.
        """
        try:
            preset = preset_of(payload)
        except ConfigError:
            return True
        return preset is not None and downlink(preset) is not None


FORMATS = PayloadFormats(
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


def _problem(payload: str, settings: Mapping[str, str]) -> str | None:
    """Return why the format `payload` rejects the settings; None if it accepts them."""
    try:
        make_codec(payload, settings)
    except ConfigError as error:
        return str(error)
    return None


def _without(settings: Mapping[str, str], *keys: str) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name not in keys}


def downlink(preset: Preset) -> Activation | None:
    """Return the command of a preset if it is a LoRaWAN downlink; otherwise None."""
    usual = preset.activate
    return usual if usual is not None and usual.mode == "lorawan" else None


def preset_of(name: str) -> Preset | None:
    """Return the preset of the payload format `name`; None for a format without default topics."""
    return getattr(import_module(_maker(name).__module__), "preset", None)


def convertible_units(name: str, value: str | None) -> Mapping[str, float]:
    """Return the units for which the payload format `name` needs the setting ``unit``.

    `value` is the setting ``value`` of the format. The result maps each unit to its number in one
    usual unit of the quantity. For °F, this number is 1.8, because a difference of 1 °C is a
    difference of 1.8 °F. The result is empty for a format that converts nothing. Raises
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
