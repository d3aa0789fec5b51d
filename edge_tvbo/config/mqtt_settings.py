"""MQTT settings: the broker, logins, TLS and reconnecting."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from edge_tvbo.config import field_types
from edge_tvbo.config.field_types import HOST, SECRET_FILE, SECRET_TEXT, Secret, duration


class Reconnect(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths of the pauses between attempts to connect to the broker."""

    min: Annotated[
        float,
        Meta(
            description="Upper limit of the wait before the first attempt. The limit doubles with"
            " each attempt, up to `max`. Each wait is drawn at random between 0 and its limit.",
            extra=duration("100ms", "1d"),
        ),
    ] = 1.0
    max: Annotated[
        float,
        Meta(
            description="Upper limit of every wait between attempts to connect.",
            extra=duration("100ms", "1d"),
        ),
    ] = 60.0


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """TLS settings of the connection to the broker; an empty table [mqtt.tls] is usually enough."""

    ca: Annotated[
        Path | None,
        Meta(
            description="A file with the certificate of the CA that signed the broker's"
            " certificate, in PEM format. Without this file, the CAs of this system are trusted.",
            extra=SECRET_FILE,
        ),
    ] = None
    certificate: Annotated[
        Path | None,
        Meta(
            description="A file with the client certificate, for brokers that require one.",
            extra=SECRET_FILE,
        ),
    ] = None
    key: Annotated[
        Path | None,
        Meta(
            description="A file with the unencrypted key of the client certificate. Default: the"
            " file of the setting `certificate`.",
            extra=SECRET_FILE,
        ),
    ] = None
    minimum_version: Annotated[
        Literal["1.2", "1.3"], Meta(description="The oldest TLS version that is accepted.")
    ] = "1.2"
    server_name: Annotated[
        str | None,
        Meta(
            description="The name that the broker's certificate must have. Default: the setting"
            " `host`.",
            extra=HOST,
        ),
    ] = None


USERNAME = Meta(min_length=1, max_length=4096, description="The user name for the broker.")
Password = Annotated[
    Secret | None,
    Meta(
        description="The password for the broker. Use `password_file` instead to keep the password"
        " out of the configuration.",
        extra=SECRET_TEXT,
    ),
]


class ReadonlyLogin(msgspec.Struct, frozen=True, kw_only=True):
    """Read-only login to the broker for the commands `status`, `why` and `dashboard`.

    Without this table, these commands use the daemon's login. If the broker also uses
    logins as client ids, each of these commands ends the daemon's session. With this table, the
    command `check --connect` tries the daemon's login only if the daemon is not online.
    """

    username: Annotated[str, USERNAME]
    password: Password = None
    password_file: Annotated[
        Path | None,
        Meta(description="A file that contains only the password.", extra=SECRET_FILE),
    ] = None


class Mqtt(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the broker: its address, the login and the connection."""

    host: Annotated[
        str,
        Meta(
            description="The host of the broker.",
            extra=HOST,
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        Meta(ge=1, le=65535, description="The TCP port of the broker; with TLS, often 8883."),
    ] = 1883
    version: Annotated[
        Literal["3.1.1", "5"],
        Meta(
            description="The version of MQTT. With 5, the broker deletes expired commands, reports"
            " why it refuses something, and does not send packets that are larger than the daemon"
            " accepts. If the broker does not support MQTT 5, the daemon uses 3.1.1."
        ),
    ] = "3.1.1"
    username: Annotated[str | None, USERNAME] = None
    password: Password = None
    password_file: Annotated[
        Path | None,
        Meta(
            description="A file that contains only the password, or the name of a systemd "
            "credential.",
            extra=SECRET_FILE,
        ),
    ] = None
    client_id: Annotated[
        str,
        Meta(
            max_length=256,
            description="The MQTT client id. Empty: the id is made from the name of the instance.",
        ),
    ] = ""
    keepalive: Annotated[
        int,
        Meta(
            description="The time without traffic after which a ping is sent to the broker.",
            extra={
                "parse": field_types.keepalive,
                "expected": "whole seconds, 5 to 3600, or a duration",
                "to_text": field_types.duration_text,
            },
        ),
    ] = 30
    reconnect: Annotated[Reconnect, Meta(description="Waits between attempts to connect.")] = (
        Reconnect()
    )
    silence: Annotated[
        float | None,
        Meta(
            description="The daemon reconnects to the broker after this time without a message from"
            " any sensor. The time does not count while no field can activate a sensor: every field"
            " is paused, or its energy budgets or batteries allow no activation.",
            extra=duration(
                "1s",
                default="3 times the longest interval, at least 1min. Only fields with the mode"
                ' "live", a fixed interval and no energy budget count; without such a field, there'
                " is no limit",
            ),
        ),
    ] = None
    tls: Annotated[
        Tls | None,
        Meta(description="TLS settings. Without this table, the connection is not encrypted."),
    ] = None
    readonly: Annotated[
        ReadonlyLogin | None,
        Meta(
            description="A read-only login for `status`, `why` and the dashboard; needed if the"
            " broker uses the login as the client id."
        ),
    ] = None

    @property
    def address(self) -> str:
        """The host and the port of the broker as one text; an IPv6 address is in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def login(self) -> tuple[str | None, str | None]:
        """Return the user name and the password for the broker as plain text."""
        return self.username, self.password.reveal() if self.password else None

    @property
    def login_table(self) -> str:
        """The table of the configuration in which the user name and the password are set."""
        readonly = self.readonly
        if readonly and (self.username, self.password) == (readonly.username, readonly.password):
            return "mqtt.readonly"
        return "mqtt"

    @property
    def shares_login(self) -> bool:
        """Whether read-only clients use the daemon's login, because there is no other login."""
        return self.username is not None and self.readonly is None

    def for_readers(self) -> "Mqtt":
        """Return the MQTT settings for read-only clients, with the login [mqtt.readonly] if set."""
        if self.readonly is None:
            return self
        return replace(self, username=self.readonly.username, password=self.readonly.password)
