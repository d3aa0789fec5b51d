"""ESPHome payloads: ``<node>/sensor/<object>/state`` carries ``21.3``, or ``nan``.

The text ``nan`` means that the sensor has no value. The ``topic_prefix`` of a node may have two
levels, such as ``house/hall``.

https://esphome.io/components/mqtt
"""

from collections.abc import Mapping

from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import check_settings, decode_text, parse_number
from edge_tvbo_adapters.payloads.presets import DevicePreset, expect_number


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the ESPHome codec; the format has no settings.

    >>> codec({})(b"21.3")
    (21.3, None)
    """
    check_settings(settings, (), "esphome")
    return lambda payload: (parse_number(decode_text(payload)), None)


# The topics of Home Assistant's MQTT Statestream look like the topics of a node.
HOME_ASSISTANT = frozenset({"homeassistant"})
preset = DevicePreset(
    "{sensor}/sensor/{object}/state",
    expect_number,
    alternative=DevicePreset(
        "{prefix}/{sensor}/sensor/{object}/state", expect_number, reserved=HOME_ASSISTANT
    ),
    reserved=HOME_ASSISTANT,
)
