"""Payloads of one field: makes the codecs and the activation from the field's settings."""

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.messages.payloads import Activation, PayloadCodec
from edge_tvbo_adapters.payloads.formats import downlink, make_codec, preset_of


def reading_codec(field: FieldSettings, source: int = 0) -> PayloadCodec:
    """Return the codec of the readings from one source of a field; `source` is its index."""
    reading = field.sources[source]
    return make_codec(reading.payload, reading.settings)


def battery_codec(field: FieldSettings) -> PayloadCodec | None:
    """Return the codec of a field's battery charges; None if the field has no topic for them."""
    battery = field.energy.battery if field.energy else None
    return make_codec(battery.payload, battery.settings) if battery else None


def activation(field: FieldSettings, source: int = 0) -> Activation | None:
    """Return the activation of a field's source: the mode, the topic and the payload.

    Return None if no sensor of the source is activated. If `activate.payload` is not set for a
    LoRaWAN downlink, the payload of the preset is used.
    """
    mode, activate = field.activate.mode, field.sources[source].activate
    if mode == "advise" or activate.topic is None:
        return None
    if mode != "lorawan":
        return Activation(mode, activate.topic, activate.payload)
    preset = preset_of(field.sources[source].payload)
    usual = downlink(preset) if preset else None
    payload = activate.payload or (usual.payload if usual else "")
    return Activation(mode, activate.topic, payload, usual.withdrawal if usual else None)
