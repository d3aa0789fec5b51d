"""From settings to how each field meets the wire; needs no numpy, so that `check` can ask."""

from edge_tvbo_adapters.payloads import make_codec, preset_of
from msgspec.structs import replace

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.config.mqtt_settings import Tls as TlsSettings
from edge_tvbo.config.settings import Settings
from edge_tvbo.errors import ConfigError
from edge_tvbo.messages.payloads import Activation
from edge_tvbo.ports import Batteries, Broker, Tls, Wiring


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


def visitor(settings: Settings) -> Broker:
    """Give where the broker is and who looks on."""
    ours, login = broker(settings), settings.mqtt.visitor
    if login is None:
        return ours
    password = login.password.reveal() if login.password else None
    return replace(ours, username=login.username, password=password)


def _tls(settings: TlsSettings) -> Tls:
    files = (settings.ca, settings.certificate, settings.key)
    ca, certificate, key = (None if each is None else str(each) for each in files)
    return Tls(ca, certificate, key, settings.minimum_version, settings.server_name)


def _wiring(name: str, settings: FieldSettings) -> Wiring:
    activate, reading = settings.activate, settings.reading
    try:
        codec = make_codec(reading.payload, reading.settings)
    except ConfigError as error:
        raise ConfigError(f"fields.{name}.reading: {error}") from error
    wiring = Wiring(
        sensors=settings.sensors,
        reading_topic=reading.topic,
        codec=codec,
        names=settings.names,
        scale=reading.scale,
        offset=reading.offset,
        max_payload=settings.max_payload,
        max_rate=settings.max_rate,
        batteries=_batteries(name, settings),
    )
    if activate.mode == "advise":
        return wiring
    usual = _usual(reading.payload) if activate.mode == "lorawan" else None
    payload = activate.payload or (usual.payload if usual else "")
    if activate.mode == "lorawan" and not payload:
        raise ConfigError(
            f"fields.{name}.activate.payload is missing; only the-things-stack and chirpstack"
            " have a downlink of their own. It can be what your network server takes."
        )
    return replace(
        wiring,
        activate_topic=activate.topic,
        activate_payload=payload,
        activate_mode=activate.mode,
        withdraw_payload=usual.withdrawal if usual else None,
    )


def _batteries(name: str, settings: FieldSettings) -> Batteries | None:
    battery = settings.energy.battery if settings.energy else None
    if battery is None:
        return None
    try:
        return Batteries(battery.topic, make_codec(battery.payload, battery.settings))
    except ConfigError as error:
        raise ConfigError(f"fields.{name}.energy.battery: {error}") from error


def _usual(payload: str) -> Activation | None:
    """Give how the make with this payload format is asked, if it is."""
    preset = preset_of(payload)
    return preset.activate if preset else None
