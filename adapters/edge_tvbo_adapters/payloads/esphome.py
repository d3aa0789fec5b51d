"""ESPHome: ``<node>/sensor/<object>/state`` says ``21.3``, or ``nan`` where nothing is measured.

https://esphome.io/components/mqtt
"""

from collections.abc import Mapping

from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import decoded_text, known_settings, number_in
from edge_tvbo_adapters.payloads.presets import DevicePreset, one_number


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Give the codec; it has no settings.

    >>> codec({})(b"21.3")
    (21.3, None)
    """
    known_settings(settings, (), "esphome")
    return lambda payload: (number_in(decoded_text(payload)), None)


preset = DevicePreset("{sensor}/sensor/{object}/state", one_number)
