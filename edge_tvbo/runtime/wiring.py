"""From settings to how each field meets the wire; needs no numpy, so that `check` can ask."""

from edge_tvbo.config import FieldSettings, Settings
from edge_tvbo.config import Tls as TlsSettings
from edge_tvbo.errors import ConfigError
from edge_tvbo.plugins import load
from edge_tvbo.ports import Broker, Tls, Wiring


def wirings(settings: Settings) -> dict[str, Wiring]:
    """Give how each field meets the wire; raises `ConfigError`."""
    return {name: _wiring(name, each) for name, each in settings.fields.items()}


def intervals(settings: Settings) -> dict[str, float | None]:
    """Give the seconds of each field's interval, None where intervals follow the readings."""
    return {
        name: None if each.interval == "on-reading" else each.interval
        for name, each in settings.fields.items()
    }


def broker(settings: Settings) -> Broker:
    """Give where the broker is and who we are to it."""
    mqtt = settings.mqtt
    return Broker(
        instance=settings.instance,
        host=mqtt.host,
        port=mqtt.port,
        username=mqtt.username,
        password=mqtt.password.reveal() if mqtt.password else None,
        client_id=mqtt.client_id,
        keepalive=mqtt.keepalive,
        reconnect_min=mqtt.reconnect.min,
        reconnect_max=mqtt.reconnect.max,
        tls=None if mqtt.tls is None else _tls(mqtt.tls),
        silence=mqtt.silence,
    )


def _tls(settings: TlsSettings) -> Tls:
    files = (settings.ca, settings.certificate, settings.key)
    ca, certificate, key = (None if each is None else str(each) for each in files)
    return Tls(ca, certificate, key, settings.minimum_version, settings.server_name)


def _wiring(name: str, settings: FieldSettings) -> Wiring:
    activate = settings.activate
    try:
        codec = load("payloads", settings.reading.payload)(settings.reading.settings)
    except ConfigError as error:
        raise ConfigError(f"fields.{name}.reading: {error}") from error
    return Wiring(
        sensors=settings.sensors,
        reading_topic=settings.reading.topic,
        codec=codec,
        activate_topic=activate.topic if activate.mode == "live" else None,
        activate_payload=activate.payload,
        max_payload=settings.max_payload,
        max_rate=settings.max_rate,
    )
