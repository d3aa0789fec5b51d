"""The settings, frozen: what each one is, its unit, its range and its default.

`load` reads a file by these structs and `explain` prints them, so a setting is written once.
In `Meta(extra=...)`, `reads` turns what TOML gave into the value, `can` says what would do,
`default` says a default that depends on other settings, and `rest` takes a table's other keys.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from edge_tvbo.config import field_types
from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.config.field_types import duration, size
from edge_tvbo.config.mqtt_settings import Mqtt

_ID = r"^[a-z0-9_-]{1,64}\Z"
_TOPIC = r"^(?!edge_tvbo/)[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,64}){0,8}\Z"
_TOPIC_CAN = {"can": "levels of the characters A-Z a-z 0-9 _ . - with / in between"}
_ID_CAN = {"can": "1 to 64 of the characters a-z 0-9 _ -"}


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Where `/metrics` and `/healthz` are read."""

    host: Annotated[
        str,
        Meta(
            description="The address listened on; any but loopback is open to the network.",
            extra={"reads": field_types.host, "can": "an IP address, or localhost"},
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int | None,
        Meta(
            ge=1, le=65535, description="The TCP port; without it nothing listens. 9464 is usual."
        ),
    ] = None


class HomeAssistant(msgspec.Struct, frozen=True, kw_only=True):
    """How Home Assistant gets to know of us; the table alone is enough."""

    prefix: Annotated[
        str,
        Meta(
            pattern=_TOPIC,
            description="What its discovery topics begin with.",
            extra=_TOPIC_CAN,
        ),
    ] = "homeassistant"
    birth: Annotated[
        str,
        Meta(
            pattern=_TOPIC,
            description="Where it says that it has started.",
            extra=_TOPIC_CAN,
        ),
    ] = "homeassistant/status"


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept over a restart."""

    dir: Annotated[
        str,
        Meta(
            description="Where the models are kept over a restart; empty never writes. Under"
            " systemd, the path in $STATE_DIRECTORY: /var/lib/edge-tvbo.",
            extra={
                "reads": field_types.directory,
                "can": "the name of a directory, from this file's directory, or empty",
            },
        ),
    ] = ""
    checkpoint: Annotated[
        float,
        Meta(
            description="How often they are written, beside on exit; above 256 KiB more rarely.",
            extra=duration("1s", "1d"),
        ),
    ] = 900.0
    history: Annotated[
        int | None,
        Meta(
            description="How large the history of decisions may grow in `dir`, for `edge-tvbo why`;"
            " the oldest give way. Without it none is kept. 64MiB are years of 10min intervals.",
            extra=size("16MiB", "100GiB"),
        ),
    ] = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration file."""

    instance: Annotated[
        str,
        Meta(
            pattern=_ID,
            description="The name of this daemon in the topics it publishes.",
            extra=_ID_CAN,
        ),
    ] = "edge"
    health: Annotated[
        float,
        Meta(description="How often the daemon says how it is.", extra=duration("1s", "1d")),
    ] = 60.0
    commands: Annotated[
        bool,
        Meta(
            description="Whether what comes on cmd/<verb> is carried out; who may say so is up to"
            " the broker's ACL."
        ),
    ] = True
    mqtt: Annotated[Mqtt, Meta(description="Where the broker is and who we are to it.")] = Mqtt()
    metrics: Annotated[Metrics, Meta(description="Where /metrics and /healthz are read.")] = (
        Metrics()
    )
    homeassistant: Annotated[
        HomeAssistant | None,
        Meta(
            description="Has Home Assistant show us as a device; without this table it is not told"
            " of us."
        ),
    ] = None
    state: Annotated[State, Meta(description="What is kept over a restart.")] = State()
    fields: Annotated[
        dict[Annotated[str, Meta(pattern=_ID, extra=_ID_CAN)], FieldSettings],
        Meta(description="The quantities that are followed, each under its name."),
    ]

    @property
    def intervals(self) -> dict[str, float | None]:
        """Length of each field's interval in s; None where intervals follow the readings."""
        return {name: field.interval_s for name, field in self.fields.items()}
