"""Payloads of one field: makes the codecs and the activation from the field's settings.

This module does not import numpy, because `edge-tvbo check` uses this module and must be fast.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.errors import Code, ConfigError, Mistake, SettingErrors
from edge_tvbo.messages.payloads import Activation, PayloadCodec
from edge_tvbo_adapters.payloads import make_codec, preset_of


def check_payloads(fields: Mapping[str, FieldSettings]) -> None:
    """Check the payload settings of all fields by making the codecs; raises `SettingErrors`."""
    if mistakes := list(_mistakes(fields)):
        raise SettingErrors(mistakes)


def _mistakes(fields: Mapping[str, FieldSettings]) -> Iterator[Mistake]:
    for name, field in fields.items():
        makers: list[Callable[[], object]] = [partial(battery_codec, name, field)]
        for source in range(len(field.sources)):
            makers += [partial(reading_codec, name, field, source)]
            makers += [partial(activation, name, field, source)]
        for make in makers:
            try:
                make()
            except SettingErrors as error:
                yield from error.mistakes


def reading_codec(name: str, field: FieldSettings, source: int = 0) -> PayloadCodec:
    """Return the codec of the readings from one source of the field `name`.

    `source` is the index of the source. Raises `SettingErrors` if the settings of the
    payload are invalid.
    """
    reading = field.sources[source]
    inside = ("reading",) if field.reading else ("readings", source)
    return _codec(("fields", name, *inside), reading.payload, reading.settings)


def battery_codec(name: str, field: FieldSettings) -> PayloadCodec | None:
    """Return the codec of the battery charges of the field `name`.

    Returns None if the field has no topic for battery charges. Raises `SettingErrors` if the
    settings of the payload are invalid.
    """
    battery = field.energy.battery if field.energy else None
    if battery is None:
        return None
    return _codec(("fields", name, "energy", "battery"), battery.payload, battery.settings)


def activation(name: str, field: FieldSettings, source: int = 0) -> Activation | None:
    """Return the activation of a field's source: the mode, the topic and the payload.

    Return None if no sensor of the source is activated. If `activate.payload` is not set for a
    LoRaWAN downlink, the payload of the preset is used. Raises `SettingErrors` if the preset has no
    payload either.
    """
    mode, activate = field.activate.mode, field.sources[source].activate
    if mode == "advise" or activate.topic is None:
        return None
    if mode != "lorawan":
        return Activation(mode, activate.topic, activate.payload)
    preset = preset_of(field.sources[source].payload)
    usual = preset.activate if preset else None
    if usual is not None and usual.mode != "lorawan":
        usual = None
    payload = activate.payload or (usual.payload if usual else "")
    if not payload:
        problem = (
            'is missing; only "the-things-stack" and "chirpstack" have a default. Set it to a'
            " downlink message of your network server."
        )
        inside = ("activate",) if field.reading else ("readings", source, "activate")
        path = ("fields", name, *inside, "payload")
        raise SettingErrors([Mistake(path, problem, Code.MISSING)])
    return Activation(mode, activate.topic, payload, usual.withdrawal if usual else None)


def _codec(path: tuple[str | int, ...], payload: str, settings: Mapping[str, str]) -> PayloadCodec:
    """Return a field's codec of the format `payload`.

    Raises `SettingErrors` if a setting is invalid. To find this setting, the settings are removed
    one at a time. If the removal of exactly one setting changes or removes the error, the
    error is reported for this setting. Otherwise, the error is reported for `path`.
    """
    try:
        return make_codec(payload, settings)
    except ConfigError as error:
        text = str(error)
        wrong = [key for key in settings if _problem(payload, _without(settings, key)) != text]
        key = wrong if len(wrong) == 1 else []
        mistake = Mistake((*path, *key), f"is invalid: {text}", Code.WRONG_VALUE)
        raise SettingErrors([mistake]) from error


def _problem(payload: str, settings: Mapping[str, str]) -> str | None:
    """Return why the format `payload` rejects a field's settings; None if it accepts them."""
    try:
        make_codec(payload, settings)
    except ConfigError as error:
        return str(error)
    return None


def _without(settings: Mapping[str, str], key: str) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name != key}
