"""Field settings: sensors, topics, policy and prior of one field."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from edge_tvbo.config import field_types
from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.config.kernel_settings import Kernel
from edge_tvbo.policy.settings import DEFAULT_POLICY, PolicySettings

Position = tuple[float, float]  # m
_FILE = {
    "parse": field_types.file_name,
    "expected": "the name of a file, from this file's directory",
}


class ReadingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Topic and format of the readings."""

    topic: Annotated[
        str,
        Meta(
            description="The MQTT topic of the readings.",
            extra={
                "parse": field_types.reading_topic,
                "expected": "a topic with {sensor} in one of its levels",
            },
        ),
    ]
    payload: Annotated[
        str,
        Meta(description="The format of the readings.", extra={"expected": "the name of a format"}),
    ] = "number"
    scale: Annotated[float, Meta(description="Factor on each value that is read.")] = 1.0
    offset: Annotated[
        float,
        Meta(description="Added after scaling; scale 0.5556 and offset -17.78 turn °F into °C."),
    ] = 0.0
    settings: Annotated[
        dict[str, str],
        Meta(
            description="Other keys are options of the format:"
            " `value`, `time` and `timezone` for json.",
            extra={"extra_keys": True, "expected": "a text"},
        ),
    ] = {}


class ActivateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a sensor is activated."""

    mode: Annotated[
        Literal["advise", "live", "sleepy", "lorawan"],
        Meta(
            description="What activates a sensor. advise: nothing, the daemon only publishes which"
            " sensor is next. live: a command at once. sleepy: a command that is retained until it"
            " wakes up. lorawan: a downlink after its next uplink. For sensors that sleep,"
            " reply_timeout must be longer than their sleep.",
        ),
    ] = "advise"
    topic: Annotated[
        str | None,
        Meta(
            description="The MQTT topic of commands to a sensor; every mode but advise needs it."
            " With mode sleepy, a command is retained until the sensor replies or times out.",
            extra={"parse": field_types.activate_topic, "expected": "a topic with {sensor} in it"},
        ),
    ] = None
    payload: Annotated[
        str,
        Meta(
            description="The payload of a command.",
            extra={
                "parse": field_types.activate_payload,
                "expected": "a text, in which {sensor} {interval} {at} {expires_at} are filled in",
                "default": '"1"; sleepy: \'{"seq": {interval}, "expires_at": {expires_at}}\';'
                " lorawan: the downlink of the reading's format, byte 1 to port 1",
            },
        ),
    ] = "1"


SensorId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_.-]{1,64}\Z",
        extra={"expected": "1 to 64 of the characters A-Z a-z 0-9 _ . -"},
    ),
]


class FieldSettings(ControllerSettings, frozen=True, kw_only=True):
    """One quantity that a number of sensors measure."""

    unit: Annotated[str, Meta(max_length=32, description="The unit of the readings.")] = ""
    objective: Annotated[
        Literal["max", "min"],
        Meta(description="Whether the highest or the lowest value is followed."),
    ] = "max"
    policy: Annotated[
        PolicySettings,
        Meta(description="The policy that selects the next sensor, and its parameters."),
    ] = DEFAULT_POLICY
    model: Annotated[
        Path | None,
        Meta(
            description="A model file that `edge-tvbo fit` wrote; instead of kernel.", extra=_FILE
        ),
    ] = None
    kernel: Annotated[
        Kernel | None,
        Meta(description="Prior covariance of the sensors; instead of model."),
    ] = None
    positions: Annotated[
        dict[str, Position] | None,
        Meta(
            description="Coordinates of the sensors, in m; a file has a line `id x y` for each.",
            extra={
                "parse": field_types.text_or_table,
                "expected": "the name of a file, or a table { id = [x, y], ... }",
            },
        ),
    ] = None
    names: Annotated[
        dict[str, str],
        Meta(
            description="Names of sensors in topics, where they differ from the ids.",
            extra={
                "parse": field_types.topic_names,
                "expected": 'a table { id = "Living room", ... } of names without / + #',
            },
        ),
    ] = msgspec.field(default_factory=dict)
    sensors: Annotated[
        tuple[SensorId, ...],
        Meta(
            min_length=1,
            max_length=2000,
            description="The ids of the sensors, as in the topics.",
            extra={"expected": "an array of 1 to 2000 ids"},
        ),
    ]
    reading: Annotated[ReadingSettings, Meta(description="Topic and format of the readings.")]
    activate: Annotated[ActivateSettings, Meta(description="How a sensor is activated.")] = (
        ActivateSettings()
    )
    max_payload: Annotated[
        int,
        Meta(ge=1, le=1048576, description="A message longer than this, in bytes, is rejected."),
    ] = 65536
    max_rate: Annotated[
        float,
        Meta(
            gt=0,
            description="Messages per second of one sensor, averaged over ten seconds; more are"
            " rejected.",
        ),
    ] = 100.0
    publish_posterior: Annotated[
        int,
        Meta(
            ge=0,
            le=2000,
            description="A field of at most so many sensors publishes the estimate of each, for the"
            " dashboard; 0: never.",
        ),
    ] = 100

    @property
    def commands_wait(self) -> bool:
        """Whether a command waits at the broker for a sleeping sensor, or for the broker itself."""
        return self.activate.mode == "sleepy"
