"""MQTT settings: the broker, logins, TLS and reconnecting."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from edge_tvbo.config import field_types
from edge_tvbo.config.field_types import Secret, duration

_SECRET_FILE = {
    "parse": field_types.file_name,
    "expected": "the name of a file, in $CREDENTIALS_DIRECTORY or from this file's directory",
}


class Reconnect(msgspec.Struct, frozen=True, kw_only=True):
    """Waits between attempts to connect."""

    min: Annotated[
        float,
        Meta(
            description="Upper limit of the wait before the first attempt; it doubles with each"
            " attempt. Each wait is drawn at random between 0 and its limit.",
            extra=duration("100ms", "1d"),
        ),
    ] = 1.0
    max: Annotated[
        float, Meta(description="Upper limit of every wait.", extra=duration("100ms", "1d"))
    ] = 60.0


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """TLS of the connection; an empty table [mqtt.tls] is enough for most brokers."""

    ca: Annotated[
        Path | None,
        Meta(
            description="A file with the certificate of the CA that signed the broker's, in PEM"
            " format. Without it, the CAs of this system are trusted.",
            extra=_SECRET_FILE,
        ),
    ] = None
    certificate: Annotated[
        Path | None,
        Meta(
            description="The client certificate, for brokers that require one.", extra=_SECRET_FILE
        ),
    ] = None
    key: Annotated[
        Path | None,
        Meta(
            description="The key of the client certificate, unencrypted. Default: the same file.",
            extra=_SECRET_FILE,
        ),
    ] = None
    minimum_version: Annotated[
        Literal["1.2", "1.3"], Meta(description="The oldest TLS version accepted.")
    ] = "1.2"
    server_name: Annotated[
        str | None,
        Meta(
            description="The name that the broker's certificate must have. Default: `host`.",
            extra={"parse": field_types.host, "expected": "a host name or an IP address"},
        ),
    ] = None


Password = Annotated[
    Secret | None,
    Meta(
        description="The password for the broker; `password_file` keeps it out of this file.",
        extra={"parse": field_types.secret, "expected": "a text", "secret": True},
    ),
]


class ReadonlyLogin(msgspec.Struct, frozen=True, kw_only=True):
    """Read-only login for `status`, `why` and the dashboard; without it they use the daemon's.

    A broker that uses the login as the client id ends the daemon's session when they do so.
    """

    username: Annotated[
        str, Meta(min_length=1, max_length=4096, description="The user name for the broker.")
    ]
    password: Password = None
    password_file: Annotated[
        Path | None,
        Meta(description="A file that holds the password alone.", extra=_SECRET_FILE),
    ] = None


class Mqtt(msgspec.Struct, frozen=True, kw_only=True):
    """Address of the broker, login and connection."""

    host: Annotated[
        str,
        Meta(
            description="The host of the broker.",
            extra={"parse": field_types.host, "expected": "a host name or an IP address"},
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535, description="The TCP port of the broker.")] = 1883
    version: Annotated[
        Literal["3.1.1", "5"],
        Meta(
            description="The version of MQTT. With 5 the broker drops packets that are larger"
            " than the daemon accepts, instead of sending them; a reading costs more CPU."
        ),
    ] = "3.1.1"
    username: Annotated[
        str | None, Meta(min_length=1, max_length=4096, description="The user name for the broker.")
    ] = None
    password: Password = None
    password_file: Annotated[
        Path | None,
        Meta(
            description="A file that holds the password alone, or the name of a credential.",
            extra=_SECRET_FILE,
        ),
    ] = None
    client_id: Annotated[
        str,
        Meta(
            max_length=256,
            description="The MQTT client id. Empty: one made from the instance.",
        ),
    ] = ""
    keepalive: Annotated[
        int,
        Meta(
            description="After so long without traffic, a ping is sent to the broker.",
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
            description="After so long without a reading of any sensor, the daemon reconnects.",
            extra=duration(
                "1s", default="with mode live, 3 times the longest interval; otherwise never"
            ),
        ),
    ] = None
    tls: Annotated[
        Tls | None,
        Meta(description="TLS of the connection; without this table it is not encrypted."),
    ] = None
    readonly: Annotated[
        ReadonlyLogin | None,
        Meta(
            description="A read-only login for `status`, `why` and the dashboard; needed if the"
            " broker uses the login as the client id."
        ),
    ] = None

    def login(self) -> tuple[str | None, str | None]:
        """Return the user name and the password as plain text, for connecting to the broker."""
        return self.username, self.password.reveal() if self.password else None

    def for_readers(self) -> "Mqtt":
        """Return the settings of a client that only reads: with the login of [mqtt.readonly]."""
        if self.readonly is None:
            return self
        return replace(self, username=self.readonly.username, password=self.readonly.password)
