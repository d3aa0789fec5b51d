"""Settings: the frozen structs of the whole configuration, with units, ranges and defaults.

A setting is declared once: the loader, `edge-tvbo config explain`, the JSON Schema and
docs/configuration.md all read these structs. Keys of `Meta(extra=...)`:

- parse: a function that converts the TOML value to the setting's value, or raises ValueError(hint)
- expected: the allowed values in words
- default: the description of a default that depends on other settings
- to_text: a function that converts the setting's value to its TOML text, if the two differ
- unique: if true, each item of the array is allowed only once
- secret: if true, the value is never shown
- extra_keys: if true, the setting collects the keys of its table that are not settings themselves
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from edge_tvbo.config import field_types
from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.config.field_types import (
    HOST,
    SECRET_FILE,
    SECRET_TEXT,
    Secret,
    duration,
    size,
    size_or_off,
)
from edge_tvbo.config.mqtt_settings import Mqtt

_ID = r"^[a-z0-9_-]{1,64}\Z"
PLAIN_TOPIC = r"^(?!edge_tvbo(/|\Z))[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,64}){0,8}\Z"
_URL = r"^https?://[^\s]{1,500}\Z"
_URL_WORDS = {"expected": "an address that begins with http:// or https://"}
_TOPIC_LEVELS = {
    "expected": "1 to 9 topic levels of A-Z a-z 0-9 _ . - that are separated by /; the first level"
    " is not edge_tvbo"
}
_ID_CHARACTERS = {"expected": "1 to 64 of the characters a-z 0-9 _ -"}

HostName = Annotated[str, Meta(extra=HOST)]


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the HTTP server for `/metrics` and `/healthz`."""

    host: Annotated[
        str,
        Meta(
            description="The address to listen on. Any address except a loopback address makes"
            " the endpoint reachable from the network.",
            extra={"parse": field_types.host, "expected": "an IP address, or localhost"},
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int | None,
        Meta(
            ge=1,
            le=65535,
            description="The TCP port, usually 9464. Without a port, there is no endpoint.",
        ),
    ] = None
    allow_hosts: Annotated[
        tuple[HostName, ...],
        Meta(
            description="Further names of this machine that clients may use in requests. A request"
            " to localhost is always accepted. If `host` is not a loopback address, requests to IP"
            " addresses are accepted too. Requests to any other name are refused.",
            extra={"expected": "an array of host names"},
        ),
    ] = ()
    token: Annotated[
        Secret | None,
        Meta(
            description="The bearer token that requests have to contain. Use `token_file` instead"
            " to keep the token out of the configuration.",
            extra=SECRET_TEXT,
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        Meta(
            description="A file that contains only the token, or the name of a systemd credential.",
            extra=SECRET_FILE,
        ),
    ] = None


class HomeAssistant(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of MQTT discovery for Home Assistant; an empty [homeassistant] enables discovery."""

    prefix: Annotated[
        str,
        Meta(
            pattern=PLAIN_TOPIC,
            description="The prefix of Home Assistant's discovery topics.",
            extra=_TOPIC_LEVELS,
        ),
    ] = "homeassistant"
    birth: Annotated[
        str,
        Meta(
            pattern=PLAIN_TOPIC,
            description="The topic on which Home Assistant announces its start.",
            extra=_TOPIC_LEVELS,
        ),
    ] = "homeassistant/status"
    oldest_version: Annotated[
        Literal["2025.10", "2025.11"],
        Meta(
            description="The oldest version of Home Assistant that must understand the discovery"
            " message. The message contains only device classes that this version knows. For"
            " example, the uncertainty of a temperature has no device class before 2025.11.",
        ),
    ] = "2025.11"
    dashboard_url: Annotated[
        str | None,
        Meta(
            pattern=_URL,
            description="Address of the page to which the device in Home Assistant links: the"
            " address of `edge-tvbo dashboard`, or of another page about this daemon.",
            extra=_URL_WORDS,
        ),
    ] = None
    support_url: Annotated[
        str | None,
        Meta(
            pattern=_URL,
            description="The address of a page for the maintainers of this daemon. Home Assistant"
            " shows a link to this page.",
            extra=_URL_WORDS,
        ),
    ] = None
    device_classes: Annotated[
        dict[str, str],
        Meta(
            description="Home Assistant's device classes of fields, if they do not follow from the"
            ' name and the unit: { attic = "humidity" }. An empty text: no device class.',
            extra={
                "parse": field_types.device_classes,
                "expected": 'a table { field = "humidity", ... }',
            },
        ),
    ] = {}


class StateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the daemon's state, which is stored on disk and survives a restart."""

    dir: Annotated[
        str,
        Meta(
            description="The directory of stored state. Empty: nothing is stored. Under systemd,"
            " use the path in $STATE_DIRECTORY: /var/lib/edge-tvbo.",
            extra={
                "parse": field_types.directory,
                "expected": "the name of a directory, relative to the directory of the"
                " configuration, or empty",
            },
        ),
    ] = ""
    checkpoint: Annotated[
        float,
        Meta(
            description="How often the state is stored. The state is also stored when the daemon"
            " stops, a few times after a start, and when the replies of a field with interval"
            ' "on-reading" become much faster. After a kill or a power cut, the models lack the'
            " readings that arrived after the state was last stored. If the state has more than"
            " 256 KiB before compression, only the new readings and other events are stored this"
            " often. The whole state is then stored less often: a state of n · 256 KiB is stored"
            " after 6 · n times this duration, but usually at least once a day. If there are very"
            " many events, it is stored after n times this duration. The log states both times."
            " For example, the whole state of 46 sensors with the policy `auto` is stored every 6"
            " hours, so 3 MiB are written in a day, and 5 MiB if each sensor reports every 31 s."
            " With the default, at most 48 MiB are written in a day.",
            extra=duration("1s", "1d"),
        ),
    ] = 900.0
    history: Annotated[
        int | None,
        Meta(
            description="Maximum size of the decision history in `dir`, for `edge-tvbo why`; the"
            " oldest decisions are removed first. Without a size, no history is stored. 64MiB is"
            " enough for years of 10-minute intervals.",
            extra=size("16MiB", "100GiB"),
        ),
    ] = None
    readings: Annotated[
        int | None,
        Meta(
            description="Maximum size of the record of accepted readings in `dir`, for `edge-tvbo"
            " export`, `fit`, `compare` and `replay`; the oldest readings are removed first. off:"
            " no readings are recorded. 64MiB is enough for more than a year if 46 sensors are"
            " read every 10 minutes. At most a million readings are recorded in a day.",
            extra=size_or_off("16MiB", "100GiB"),
        ),
    ] = 2**26


Level = Literal["debug", "info", "warning", "error"]
_COMMON = {"default": "the setting `level`"}


class LogLevels(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the daemon's log: the lowest level of logged messages, by area."""

    level: Annotated[
        Level,
        Meta(
            description="The log level of every area for which no level is set. With"
            " `run --verbose`, the level is debug, whatever this setting is. The replies to SIGHUP"
            " and SIGUSR1 are logged at every level."
        ),
    ] = "info"
    mqtt: Annotated[
        Level | None,
        Meta(
            description="The connection to the broker. debug: also each attempt to connect, and"
            " the topic and size of each message that is received or published.",
            extra=_COMMON,
        ),
    ] = None
    decisions: Annotated[
        Level | None,
        Meta(
            description="Decisions, and notices about sensors and models. info: each change of the"
            " selected sensor. debug: each decision, each activation and its end.",
            extra=_COMMON,
        ),
    ] = None
    rejections: Annotated[
        Level | None,
        Meta(description="The first rejected message for each reason.", extra=_COMMON),
    ] = None
    state: Annotated[
        Level | None,
        Meta(
            description="The stored state, and the databases of decisions and readings.",
            extra=_COMMON,
        ),
    ] = None
    homeassistant: Annotated[
        Level | None,
        Meta(description="The discovery message for Home Assistant.", extra=_COMMON),
    ] = None
    monitoring: Annotated[
        Level | None,
        Meta(
            description="The HTTP endpoint of /metrics and /healthz, and systemd's watchdog.",
            extra=_COMMON,
        ),
    ] = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of the configuration file."""

    instance: Annotated[
        str,
        Meta(
            pattern=_ID,
            description="The name of this daemon in MQTT topics. Two daemons on "
            "one broker need different names.",
            extra=_ID_CHARACTERS,
        ),
    ] = "edge"
    health: Annotated[
        float,
        Meta(
            description="How often the daemon publishes its health"
            " if it makes no decision in the meantime.",
            extra=duration("1s", "1d"),
        ),
    ] = 60.0
    commands: Annotated[
        bool,
        Meta(
            description="Whether commands on cmd/<verb> are executed. The broker's ACL decides who"
            " may send them."
        ),
    ] = True
    mqtt: Annotated[Mqtt, Meta(description="The broker: address, login and connection.")] = Mqtt()
    metrics: Annotated[Metrics, Meta(description="HTTP endpoint of /metrics and /healthz.")] = (
        Metrics()
    )
    homeassistant: Annotated[
        HomeAssistant | None,
        Meta(
            description="MQTT discovery for Home Assistant. Without this table, nothing is"
            " published for Home Assistant."
        ),
    ] = None
    state: Annotated[StateSettings, Meta(description="Stored state, which survives a restart.")] = (
        StateSettings()
    )
    log: Annotated[
        LogLevels, Meta(description="Levels of the daemon's log: of all areas, or of one area.")
    ] = LogLevels()
    fields: Annotated[
        dict[Annotated[str, Meta(pattern=_ID, extra=_ID_CHARACTERS)], FieldSettings],
        Meta(description="Fields: one table [fields.<name>] for each measured quantity."),
    ]

    @property
    def intervals(self) -> dict[str, float | None]:
        """The setting `interval` of each field, in s; None if a reply begins the next interval."""
        return {name: field.interval_s for name, field in self.fields.items()}
