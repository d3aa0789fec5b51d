"""Homie payloads: ``homie/5/<device>/<node>/<property>`` carries ``21.5``.

Before Homie 5, the topics were ``homie/<device>/<node>/<property>``. The broker retains the values,
so the first value after a connection is rejected as ``retained``. The unit is in the device's
``$description``, or in the property's ``$unit``. The codec reads neither of these two. Therefore
the user has to configure the same unit for the field.

https://homieiot.github.io/specification/
"""

from collections.abc import Mapping

from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import check_settings, decode_text, parse_number
from edge_tvbo_adapters.payloads.presets import DevicePreset, expect_number


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the Homie codec for integer and float properties; the format has no settings.

    >>> codec({})(b"21.5")
    (21.5, None)
    """
    check_settings(settings, (), "homie")
    return lambda payload: (parse_number(decode_text(payload)), None)


preset = DevicePreset(
    "homie/5/{sensor}/{node}/{property}",
    expect_number,
    alternative=DevicePreset(
        "homie/{sensor}/{node}/{property}", expect_number, reserved=frozenset({"5"})
    ),
)
