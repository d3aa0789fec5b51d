"""Field settings: sensors, topics, policy and prior of one field.

A field is one quantity that several sensors measure.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from edge_tvbo.config import field_types
from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.config.kernel_settings import Kernel
from edge_tvbo.config.topic_types import (
    ACTIVATE_PAYLOAD,
    ACTIVATE_TOPIC,
    READING_TOPIC,
    topic_names,
)
from edge_tvbo.policy.built_in import DEFAULT_POLICY
from edge_tvbo.policy.settings import PolicySettings

PUBLISHED_SENSORS = 100  # if a field has more sensors, its estimates are not published by default
Position = tuple[float, float]  # m
_FILE = {
    "parse": field_types.file_name,
    "expected": "the name of a file, relative to the directory of the configuration",
}

DEFAULT_VALUES = {  # the setting `value` of a payload format, if a configuration leaves it out
    "chirpstack": "temperature",
    "shelly": "temperature:0.tC",
    "tasmota": "Temperature",
    "the-things-stack": "temperature",
    "thingsboard": "temperature",
    "zigbee2mqtt": "temperature",
}

TIMES = ("time", "timezone")  # settings of formats that say where the time of a reading is


class ReadingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Topic and format of the readings of one field."""

    topic: Annotated[
        str,
        Meta(
            description="The MQTT topic of the readings.",
            extra=READING_TOPIC,
        ),
    ]
    payload: Annotated[
        str,
        Meta(description="The format of the readings.", extra={"expected": "the name of a format"}),
    ] = "number"
    scale: Annotated[float, Meta(description="Factor that multiplies each value.")] = 1.0
    offset: Annotated[
        float,
        Meta(
            description="Number that is added to each value after scaling. For example, scale"
            " 0.5556 and offset -17.78 convert °F to °C."
        ),
    ] = 0.0
    settings: Annotated[
        dict[str, str],
        Meta(
            description="Other keys are options of the format:"
            ' `value`, `time` and `timezone` for "json".',
            extra={"extra_keys": True, "expected": "a text"},
        ),
    ] = {}

    @property
    def quantity(self) -> tuple[object, ...]:
        """The settings that select the value in a message: the format and its options.

        The options for the time are left out. If two sources have the same topic and the same
        `quantity`, their readings are the same values.
        """
        settings = {"value": DEFAULT_VALUES.get(self.payload), **self.settings}
        return self.payload, *(each for each in sorted(settings.items()) if each[0] not in TIMES)


class ActivateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the commands that activate the sensors of one field."""

    mode: Annotated[
        Literal["advise", "live", "sleepy", "lorawan"],
        Meta(
            description="How a sensor is activated. advise: the daemon sends no command and only"
            " recommends a sensor. live: the daemon sends a command that the sensor receives"
            " immediately. sleepy: the broker retains the command until the sensor wakes up."
            " lorawan: the network server sends a downlink after the sensor's next uplink. For"
            " sensors that sleep, reply_timeout must be longer than the time for which they sleep.",
        ),
    ] = "advise"
    topic: Annotated[
        str | None,
        Meta(
            description='The MQTT topic of commands to a sensor; every mode except "advise" needs'
            ' it. With mode "sleepy", a command is retained until the sensor replies or times out.',
            extra=ACTIVATE_TOPIC,
        ),
    ] = None
    payload: Annotated[
        str,
        Meta(
            description="The payload of a command.",
            extra=ACTIVATE_PAYLOAD
            | {
                "default": '"1"; with mode "sleepy": \'{"seq": {interval}, "expires_at": '
                '{expires_at}}\'; with mode "lorawan": a downlink message that sends the byte'
                " 1 to port 1, for the network server from which the readings come",
            },
        ),
    ] = "1"


SensorId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_.-]{1,64}\Z",
        extra={
            "expected": "1 to 64 of the characters A-Z a-z 0-9 _ . -; a name with other characters,"
            " except / + #, belongs in `names`"
        },
    ),
]


class SourceCommandSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Command to the sensors of one source, if it differs from the command of the field."""

    topic: Annotated[
        str | None,
        Meta(
            description="The MQTT topic on which this source's sensors receive commands.",
            extra=ACTIVATE_TOPIC | {"default": "activate.topic of the field"},
        ),
    ] = None
    payload: Annotated[
        str,
        Meta(
            description="The payload of commands to the sensors of this source.",
            extra=ACTIVATE_PAYLOAD | {"default": "activate.payload of the field"},
        ),
    ] = "1"


class SourceSettings(ReadingSettings, frozen=True, kw_only=True):
    """One of several sources of a field's readings, such as Zigbee2MQTT or Tasmota."""

    sensors: Annotated[
        tuple[SensorId, ...],
        Meta(
            min_length=1,
            max_length=2000,
            description="The ids of the field's sensors whose readings come from this source.",
            extra={
                "expected": "an array of 1 to 2000 ids of the field's sensors",
                "default": "all sensors that are in no other source",
            },
        ),
    ] = ()
    activate: Annotated[
        SourceCommandSettings,
        Meta(
            description="How the sensors of this source are activated, if their command differs"
            " from the command of the field. The mode is always that of the field."
        ),
    ] = SourceCommandSettings()


class FieldSettings(ControllerSettings, frozen=True, kw_only=True):
    """Settings of one field, which is a quantity that several sensors measure."""

    unit: Annotated[
        str,
        Meta(
            max_length=32,
            description="The unit of the readings. A model must have been fitted to readings in"
            " the same unit.",
        ),
    ] = ""
    objective: Annotated[
        Literal["max", "min"],
        Meta(
            description="What the policy searches for. max: the sensor with the highest value."
            " min: the sensor with the lowest value."
        ),
    ] = "max"
    period: Annotated[
        float | Literal["auto"],
        Meta(
            description="The season: the time after which the field repeats itself."
            ' "auto": the season of the model; without a model, a day, or a year if the interval is'
            ' longer than six hours. "week": for a field that differs between the days of'
            " the week. Only a model contains these differences, because they are learned from"
            ' recorded days. Without a model, "week" has the effect of "day" if the interval is at'
            " most six hours. A model must have been fitted with the same period.",
            extra={
                "parse": field_types.period,
                "expected": '"auto", "day", "week", "year", "none" or a duration, 1s to 366d',
            },
        ),
    ] = "auto"
    transform: Annotated[
        Literal["auto", "none", "log1p"],
        Meta(
            description='The scale on which the model works. "none": the unit of the readings.'
            ' "log1p": a log scale, for readings that are never negative and sometimes very high,'
            " such as particulates or counts. Estimates are then medians, and the plausible range"
            ' is computed on the log scale. "auto": the scale of the model file; without a model'
            ' file, the same as "none". A model must have been fitted with the same transform.'
        ),
    ] = "auto"
    policy: Annotated[
        PolicySettings,
        Meta(description="The policy that selects the next sensor, and its parameters."),
    ] = DEFAULT_POLICY
    model: Annotated[
        Path | None,
        Meta(
            description="A model file that `edge-tvbo fit` wrote. Set either `model` or `kernel`.",
            extra=_FILE,
        ),
    ] = None
    kernel: Annotated[
        Kernel | None,
        Meta(description="Prior covariance of the sensors. Set either `kernel` or `model`."),
    ] = None
    positions: Annotated[
        dict[str, Position] | None,
        Meta(
            description="Coordinates of the sensors, in m. A file has a line `id x y` for each"
            " sensor; the dashboard can write the file. Instead of an id, you can write the number"
            " at the end of the id, such as `1` for `mote-1`. This number must not be the id"
            " of another sensor, or the number at the end of another id. The coordinates in this"
            " setting replace those in a model, but do not change the correlations in the model.",
            extra={
                "parse": field_types.text_or_table,
                "expected": "the name of a file, or a table { id = [x, y], ... }",
            },
        ),
    ] = None
    names: Annotated[
        dict[str, str],
        Meta(
            description="Names of sensors in topics and in texts, if they differ from the ids.",
            extra={
                "parse": topic_names,
                "expected": 'a table of names without / + #, such as { mote-1 = "Living room" }',
            },
        ),
    ] = msgspec.field(default_factory=dict)
    sensors: Annotated[
        tuple[SensorId, ...],
        Meta(
            min_length=1,
            max_length=2000,
            description="The ids of the sensors, as they appear in the topics.",
            extra={"expected": "an array of 1 to 2000 ids", "unique": True},
        ),
    ]
    reading: Annotated[
        ReadingSettings | None,
        Meta(
            description="Topic and format of the readings. Every field needs either `reading` or"
            " `readings`.",
            extra={"expected": "a table; several sources are tables [[fields.<name>.readings]]"},
        ),
    ] = None
    readings: Annotated[
        tuple[SourceSettings, ...],
        Meta(
            description="Sources of the readings: one table [[fields.<name>.readings]] per source."
            " Set these tables instead of `reading` if the sensors of a field have different topics"
            " or formats.",
            extra={
                "expected": "tables [[fields.<name>.readings]]; a single source is a table"
                " [fields.<name>.reading]"
            },
        ),
    ] = ()
    activate: Annotated[ActivateSettings, Meta(description="How a sensor is activated.")] = (
        ActivateSettings()
    )
    max_payload: Annotated[
        int,
        Meta(
            ge=1,
            le=1048576,
            description="Maximum length of a message, in bytes. A longer message is rejected.",
        ),
    ] = 65536
    max_rate: Annotated[
        float,
        Meta(
            gt=0,
            description="Maximum number of messages that one sensor may send per second, averaged"
            " over ten seconds. Messages above the limit are rejected.",
        ),
    ] = 100.0
    publish_posterior: Annotated[
        int,
        Meta(
            ge=0,
            le=2000,
            description="The estimates of all sensors are published for the dashboard if the field"
            " has at most this number of sensors. With 0, they are never published.",
        ),
    ] = PUBLISHED_SENSORS

    @property
    def sources(self) -> tuple[SourceSettings, ...]:
        """The sources of the field's readings.

        They are the tables `readings`, or, without these tables, the single table `reading`.
        """
        if self.reading is None:
            return self.readings
        command = SourceCommandSettings(topic=self.activate.topic, payload=self.activate.payload)
        reading = msgspec.structs.asdict(self.reading)
        return (SourceSettings(**reading, sensors=self.sensors, activate=command),)

    @property
    def sends_commands(self) -> bool:
        """Whether the field's sensors are activated; the mode "advise" only recommends them."""
        return self.activate.mode != "advise"

    @property
    def publishes_posterior(self) -> bool:
        """Whether the posterior of the field is published.

        It is published if the field has at most `publish_posterior` sensors.
        """
        return len(self.sensors) <= self.publish_posterior

    @property
    def activation_interval_s(self) -> float | None:
        """Time between two activations of the field, in s; None if it is unknown.

        It is unknown if the mode is not "live", if the interval is "on-reading", or if an energy
        budget can leave an interval without an activation.
        """
        if self.activate.mode != "live" or (self.energy and self.energy.limits_activations):
            return None
        return self.interval_s

    @property
    def log1p_scale(self) -> float | None:
        """The scale s of the transform log(1 + reading / s), as set by the field's `kernel`.

        The scale is the square root of the kernel's prior variance. None if the field has no
        `kernel` or no log scale.
        """
        if self.kernel is None or self.transform != "log1p":
            return None
        return float(self.kernel.variance**0.5)

    @property
    def restart_withdraws(self) -> bool:
        """Whether a restart or reload withdraws the field's activations.

        Only retained activations are withdrawn: those of the mode "sleepy".
        """
        return self.activate.mode == "sleepy"

    @property
    def sensor_names(self) -> Mapping[str, str]:
        """Mapping from the field's sensor ids to display names, for sensors with a name.

        A name that several sensors have is left out, because it would not distinguish them.
        """
        shown = Counter(self.names.get(sensor, sensor) for sensor in self.sensors)
        return {sensor: name for sensor, name in self.names.items() if shown[name] == 1}
