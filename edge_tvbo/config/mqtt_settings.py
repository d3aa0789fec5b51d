"""Settings of the connection to the broker; see `settings` for how they are declared."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from edge_tvbo.config import field_types
from edge_tvbo.config.field_types import Secret, duration

_SECRET_FILE = {
    "reads": field_types.file_name,
    "can": "the name of a file, in $CREDENTIALS_DIRECTORY or from this file's directory",
}


class Reconnect(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait before the broker is tried again."""

    min: Annotated[
        float,
        Meta(
            description="The longest that the first wait after a lost connection can be; that"
            " doubles with each attempt. Each wait is drawn anew, from 0 on.",
            extra=duration("100ms", "1d"),
        ),
    ] = 1.0
    max: Annotated[float, Meta(description="The longest wait.", extra=duration("100ms", "1d"))] = (
        60.0
    )


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """How the connection is encrypted; the table alone, [mqtt.tls], is enough for most brokers."""

    ca: Annotated[
        Path | None,
        Meta(
            description="The certificate of the CA that signed the broker's, in PEM form; without"
            " it, the CAs that this system knows.",
            extra=_SECRET_FILE,
        ),
    ] = None
    certificate: Annotated[
        Path | None,
        Meta(description="Our own certificate, where the broker wants one.", extra=_SECRET_FILE),
    ] = None
    key: Annotated[
        Path | None,
        Meta(
            description="The key of our certificate, not encrypted; without it, the same file.",
            extra=_SECRET_FILE,
        ),
    ] = None
    minimum_version: Annotated[
        Literal["1.2", "1.3"], Meta(description="The oldest TLS that will do.")
    ] = "1.2"
    server_name: Annotated[
        str | None,
        Meta(
            description="The name that the broker's certificate must have; without it, `host`.",
            extra={"reads": field_types.host, "can": "a host name or an IP address"},
        ),
    ] = None


Password = Annotated[
    Secret | None,
    Meta(
        description="What logs in; `password_file` keeps it out of this file.",
        extra={"reads": field_types.secret, "can": "a text", "secret": True},
    ),
]


class ReadonlyLogin(msgspec.Struct, frozen=True, kw_only=True):
    """Login of `status`, `why` and the dashboard; without this table they use the daemon's.

    A broker that takes the login for the client id ends the daemon's session when they do so.
    """

    username: Annotated[str, Meta(min_length=1, max_length=4096, description="Who logs in.")]
    password: Password = None
    password_file: Annotated[
        Path | None,
        Meta(description="A file that holds the password alone.", extra=_SECRET_FILE),
    ] = None


class Mqtt(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker is and who we are to it."""

    host: Annotated[
        str,
        Meta(
            description="The broker's host.",
            extra={"reads": field_types.host, "can": "a host name or an IP address"},
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535, description="The broker's TCP port.")] = 1883
    version: Annotated[
        Literal["3.1.1", "5"],
        Meta(
            description="The version of MQTT. With 5 the broker drops packets above our maximum"
            " size instead of sending them; a reading costs more CPU."
        ),
    ] = "3.1.1"
    username: Annotated[
        str | None, Meta(min_length=1, max_length=4096, description="Who logs in.")
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
            description="How the broker tells clients apart; empty makes one from the instance.",
        ),
    ] = ""
    keepalive: Annotated[
        int,
        Meta(
            description="After this long without traffic the broker is asked whether it is there.",
            extra={
                "reads": field_types.keepalive,
                "can": "whole seconds, 5 to 3600, or a duration",
                "text": field_types.duration_text,
            },
        ),
    ] = 30
    reconnect: Annotated[
        Reconnect, Meta(description="How long to wait before the broker is tried again.")
    ] = Reconnect()
    silence: Annotated[
        float | None,
        Meta(
            description="When no sensor has been heard for this long, the connection is made anew.",
            extra=duration(
                "1s", default="3 of the longest intervals where a field is live; else never"
            ),
        ),
    ] = None
    tls: Annotated[
        Tls | None,
        Meta(description="How the connection is encrypted; without this table it is not."),
    ] = None
    readonly: Annotated[
        ReadonlyLogin | None,
        Meta(
            description="Login of `status`, `why` and the dashboard; needed where the broker takes"
            " the login for the client id."
        ),
    ] = None

    def login(self) -> tuple[str | None, str | None]:
        """Return the user name and the password in clear, for the broker alone."""
        return self.username, self.password.reveal() if self.password else None

    def for_readers(self) -> "Mqtt":
        """Return the settings of a client that only reads: with the login of [mqtt.readonly]."""
        if self.readonly is None:
            return self
        return replace(self, username=self.readonly.username, password=self.readonly.password)
