"""Homie 5: ``homie/5/<device>/<node>/<property>`` says ``21.5``.

Values are retained, so that the first one after a connection is refused as such. The unit is in
the device's ``$description``, which is not read here: take care that it is the field's.

https://homieiot.github.io/specification/
"""

from collections.abc import Mapping

from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import decoded_text, known_settings, number_in
from edge_tvbo_adapters.payloads.presets import DevicePreset, one_number


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Give the codec, for integers and floats; it has no settings.

    >>> codec({})(b"21.5")
    (21.5, None)
    """
    known_settings(settings, (), "homie")
    return lambda payload: (number_in(decoded_text(payload)), None)


preset = DevicePreset("homie/5/{sensor}/{node}/{property}", one_number)
