"""Settings of one field and of the connection to a broker, short enough for tests."""

import os

from edge_tvbo.config.field_settings import ActivateSettings, FieldSettings, ReadingSettings
from edge_tvbo.config.field_types import Secret
from edge_tvbo.config.mqtt_settings import Mqtt, Reconnect

NO_ACTIVATION = ActivateSettings()
VERSION = "EDGE_TVBO__MQTT__VERSION"  # the variable that `--mqtt-version` sets, and daemons read


def field_settings(
    sensors, topic, payload="json", *, scale=1.0, offset=0.0, activate=NO_ACTIVATION, **others
):
    """Return the settings of a field that reads its sensors on `topic`.

    `payload` is the name of a format, or that and its settings: ``("json", {"value": "t"})``.
    """
    name, settings = (payload, {}) if isinstance(payload, str) else payload
    return FieldSettings(
        sensors=tuple(sensors),
        reading=ReadingSettings(
            topic=topic, payload=name, settings=settings, scale=scale, offset=offset
        ),
        activate=activate,
        **{"interval": 600.0, "reply_timeout": 120.0, "max_age": 600.0, **others},
    )


def mqtt_settings(port, *, reconnect_min=1.0, reconnect_max=60.0, password=None, **others):
    """Return the settings of a connection to `port` on this machine."""
    return Mqtt(
        port=port,
        version=others.pop("version", os.environ.get(VERSION, Mqtt().version)),
        reconnect=Reconnect(min=reconnect_min, max=reconnect_max),
        password=None if password is None else Secret(password),
        **others,
    )


class AnyFormats(tuple):
    """Names of payload formats that accept all settings."""

    def mistakes(self, payload, settings):
        return ()

    def has_downlink(self, payload):
        return True
