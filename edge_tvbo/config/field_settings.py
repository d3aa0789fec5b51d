"""Settings of one field: its sensors, its topics, its intervals; see `settings`."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from edge_tvbo.config import field_types
from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.config.kernel_settings import Kernel
from edge_tvbo.policy.settings import DEFAULT_POLICY, PolicySettings

Position = tuple[float, float]  # m
_FILE = {"reads": field_types.file_name, "can": "the name of a file, from this file's directory"}


class ReadingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where readings arrive and how they are written."""

    topic: Annotated[
        str,
        Meta(
            description="The MQTT topic of the readings.",
            extra={
                "reads": field_types.reading_topic,
                "can": "a topic with {sensor} in one of its levels",
            },
        ),
    ]
    payload: Annotated[
        str, Meta(description="The format of the readings.", extra={"can": "the name of a format"})
    ] = "number"
    scale: Annotated[
        float, Meta(description="What a value is multiplied by, before anything else.")
    ] = 1.0
    offset: Annotated[
        float, Meta(description="What is added then; scale 0.5556 and -17.78 make °F to °C.")
    ] = 0.0
    settings: Annotated[
        dict[str, str],
        Meta(
            description="Further keys are for the format: "
            "json takes `value`, `time` and `timezone`, for one.",
            extra={"rest": str, "can": "a text"},
        ),
    ] = {}


class ActivateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a sensor is activated."""

    mode: Annotated[
        Literal["advise", "live", "sleepy", "lorawan"],
        Meta(
            description="Whether to say only which sensor is next, or to activate it too: at once"
            " (live), when it wakes up (sleepy), or by a downlink after its next uplink (lorawan)."
            " Give one that sleeps a reply_timeout longer than its sleep.",
        ),
    ] = "advise"
    topic: Annotated[
        str | None,
        Meta(
            description="The MQTT topic that activates a sensor; every mode but advise needs it."
            " Where sensors sleep, a command stays on it until it is answered or too late.",
            extra={"reads": field_types.activate_topic, "can": "a topic with {sensor} in it"},
        ),
    ] = None
    payload: Annotated[
        str,
        Meta(
            description="What is published there.",
            extra={
                "reads": field_types.activate_payload,
                "can": "a text; {sensor} {interval} {at} {expires_at} are filled in",
                "default": '"1"; sleepy: \'{"seq": {interval}, "expires_at": {expires_at}}\';'
                " lorawan: the downlink of the reading's format, a byte 1 to port 1",
            },
        ),
    ] = "1"


SensorId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_.-]{1,64}\Z",
        extra={"can": "1 to 64 of the characters A-Z a-z 0-9 _ . -"},
    ),
]


class FieldSettings(ControllerSettings, frozen=True, kw_only=True):
    """One quantity that a number of sensors measure."""

    unit: Annotated[str, Meta(max_length=32, description="The unit of the readings.")] = ""
    objective: Annotated[
        Literal["max", "min"], Meta(description="Which end of the scale is followed.")
    ] = "max"
    policy: Annotated[
        PolicySettings,
        Meta(description="The policy that selects the next sensor, and its parameters."),
    ] = DEFAULT_POLICY
    model: Annotated[
        Path | None,
        Meta(description="What `edge-tvbo fit` wrote; instead of kernel.", extra=_FILE),
    ] = None
    kernel: Annotated[
        Kernel | None,
        Meta(description="Prior covariance of the sensors; instead of model."),
    ] = None
    positions: Annotated[
        dict[str, Position] | None,
        Meta(
            description="Where the sensors are, in m; a file has a line `id x y` for each.",
            extra={
                "reads": field_types.text_or_table,
                "can": "the name of a file, or a table { id = [x, y], ... }",
            },
        ),
    ] = None
    names: Annotated[
        dict[str, str],
        Meta(
            description="What topics call a sensor that has no name fit for an id.",
            extra={
                "reads": field_types.topic_names,
                "can": 'a table { id = "Living room", ... } of names without / + #',
            },
        ),
    ] = msgspec.field(default_factory=dict)
    sensors: Annotated[
        tuple[SensorId, ...],
        Meta(
            min_length=1,
            max_length=2000,
            description="The ids of the sensors, as they stand in the topics.",
            extra={"can": "an array of 1 to 2000 ids"},
        ),
    ]
    reading: Annotated[
        ReadingSettings, Meta(description="Where readings arrive and how they are written.")
    ]
    activate: Annotated[ActivateSettings, Meta(description="How a sensor is activated.")] = (
        ActivateSettings()
    )
    max_payload: Annotated[
        int,
        Meta(ge=1, le=1048576, description="A message longer than this, in bytes, is not used."),
    ] = 65536
    max_rate: Annotated[
        float,
        Meta(
            gt=0,
            description="Messages a second of one sensor; it may save up ten seconds' worth, and"
            " what is beyond is not used.",
        ),
    ] = 100.0
    publish_posterior: Annotated[
        int,
        Meta(
            ge=0,
            le=2000,
            description="Up to how many sensors of the field what is believed of each of them is"
            " published, for the dashboard; 0 publishes it never.",
        ),
    ] = 100

    @property
    def commands_wait(self) -> bool:
        """Whether a command waits at the broker for a sleeping sensor, or for the broker itself."""
        return self.activate.mode == "sleepy"
