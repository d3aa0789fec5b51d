"""What the inside needs from the outside, as Protocols; adapters provide it by entry point."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from edge_tvbo.messages.payloads import PayloadCodec, PollMode


class Wiring(msgspec.Struct, frozen=True):
    """How one field meets the wire."""

    sensors: tuple[str, ...]
    reading_topic: str  # "lab/{sensor}/temperature": {sensor} is within one level
    codec: PayloadCodec
    activate_topic: str | None = None  # None: advise only, command nobody
    activate_payload: str = "1"  # {sensor} {interval} {at} {expires_at} are filled in
    activate_mode: PollMode = "live"
    withdraw_payload: str | None = None  # lorawan: what empties the queue; None where nothing does
    names: Mapping[str, str] = {}  # what topics and payloads call a sensor, where not by its id
    scale: float = 1.0  # a reading is scale * what the payload says + offset
    offset: float = 0.0
    max_payload: int = 65_536  # bytes; a longer message is refused
    max_rate: float = 100.0  # messages a second of one sensor; what is beyond is refused
    batteries: "Batteries | None" = None


class Batteries(msgspec.Struct, frozen=True):
    """Where the sensors of one field say how full their batteries are."""

    topic: str  # as `Wiring.reading_topic`, and maybe the same
    codec: PayloadCodec  # of percentages


class Tls(msgspec.Struct, frozen=True):
    """How the connection is encrypted; the files are in PEM form."""

    ca: str | None = None  # whose signature we believe; None for those this system knows
    certificate: str | None = None  # who we are
    key: str | None = None  # of the certificate; None where that file has both
    minimum_version: Literal["1.2", "1.3"] = "1.2"
    server_name: str | None = None  # what the broker's certificate must be for; None for the host


class Broker(msgspec.Struct, frozen=True):
    """Where the broker is and who we are to it."""

    instance: str
    host: str = "127.0.0.1"
    port: int = 1883
    username: str | None = None
    password: str | None = None
    client_id: str = ""  # "" makes one from the instance and the machine
    keepalive: int = 30  # s
    reconnect_min: float = 1.0  # s; the first wait after a lost connection
    reconnect_max: float = 60.0  # s; the longest
    tls: Tls | None = None  # None for a connection in clear
    silence: float | None = None  # s without a message until the connection is made anew


class Shown(msgspec.Struct, frozen=True):
    """One field, as Home Assistant shows it."""

    sensors: tuple[str, ...]
    unit: str
    decimals: int  # of values in `unit`
    interval: float | None  # s; None where intervals follow the readings


class HomeAssistant(msgspec.Struct, frozen=True):
    """What Home Assistant is told of a daemon, and where."""

    prefix: str  # of discovery topics
    birth: str  # the topic on which it says that it has started
    version: str  # ours
    fields: dict[str, Shown]


class Trial(msgspec.Struct, frozen=True):
    """One thing that was tried with a broker, and what came of it."""

    good: bool
    text: str  # where it is not good, with what would help
    code: str | None = None  # in docs/errors.md, where it is not good
