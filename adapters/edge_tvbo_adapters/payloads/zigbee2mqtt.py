"""Zigbee2MQTT payloads: ``zigbee2mqtt/<friendly name>`` carries ``{"temperature": 27.34}``.

When Zigbee2MQTT starts, it repeats its cached values (``cache_state_send_on_startup``). Only
``last_seen`` distinguishes the cached values from new values, so set ``advanced.last_seen`` to
``ISO_8601``. If friendly names contain a slash, such as ``kitchen/window``, the sensors of each
room form a separate source, with the topic ``zigbee2mqtt/kitchen/{sensor}``. Sensors
are recognised if their friendly names have at most three slashes, as in
``barn/ground floor/kitchen/window``.

https://www.zigbee2mqtt.io/guide/usage/mqtt_topics_and_messages.html
"""

from collections.abc import Mapping

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import Activation, PayloadCodec
from edge_tvbo_adapters.payloads.decode import check_settings
from edge_tvbo_adapters.payloads.json import find, parse_json, parse_path, to_number, to_seconds
from edge_tvbo_adapters.payloads.presets import DevicePreset, numbers_below


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the Zigbee2MQTT codec for the path ``value``; the time is ``last_seen``, if present.

    >>> codec({})(b'{"temperature": 27.34, "last_seen": "2020-02-17T07:49:00+01:00"}')
    (27.34, 1581922140.0)
    """
    check_settings(settings, ("value",), "zigbee2mqtt")
    value_path = parse_path(settings.get("value", "temperature"))

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parse_json(payload)
        if isinstance(document, dict) and document.get("state") in ("online", "offline"):
            text = f"the message only says that the device is {document['state']}"
            raise PayloadError("availability", text)
        value = to_number(find(document, value_path, "missing-value"))
        last_seen = document.get("last_seen") if isinstance(document, dict) else None
        return value, None if last_seen is None else to_seconds(last_seen)

    return decode


OWN_LEVELS = frozenset({"bridge", "get", "set", "availability"})
NAME_LEVELS = ("{building}", "{floor}", "{room}")  # levels of a friendly name above the sensor


def _preset(above: int = 0) -> DevicePreset:
    """Return the preset for friendly names with `above` levels before the sensor's name.

    The levels are the last ones of `NAME_LEVELS`. For example, one level gives ``{room}/{sensor}``.
    The alternatives of the preset are for friendly names with more levels.
    """
    levels = NAME_LEVELS[len(NAME_LEVELS) - above :]
    topic = "/".join(("zigbee2mqtt", *levels, "{sensor}"))
    return DevicePreset(
        topic,
        numbers_below(),
        Activation("live", f"{topic}/get", '{"{value}": ""}'),
        alternative=_preset(above + 1) if above < len(NAME_LEVELS) else None,
        reserved=OWN_LEVELS if above else frozenset(),
    )


preset = _preset()
