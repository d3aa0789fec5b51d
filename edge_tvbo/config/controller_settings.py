"""Controller settings: intervals, timeouts and limits of one field."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from edge_tvbo.config import field_types
from edge_tvbo.config.energy_settings import EnergySettings
from edge_tvbo.config.field_types import duration

Interval = float | Literal["on-reading"]  # s


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals, timeouts and limits of one field: the settings that its controller needs."""

    interval: Annotated[
        Interval,
        Meta(
            description="How often a sensor is chosen; on-reading: at once after each answer.",
            extra={
                "reads": field_types.interval,
                "can": 'a duration, 10ms to 366d, or "on-reading"',
            },
        ),
    ]
    reply_timeout: Annotated[
        float,
        Meta(
            description="How long a sensor may take to answer; no longer than the interval.",
            extra=duration("1ms", default="1/5 of the interval; 2min with on-reading"),
        ),
    ]
    learn_from: Annotated[
        Literal["all", "activated"],
        Meta(description="Whether readings that nobody asked for are learnt from too."),
    ] = "all"
    max_age: Annotated[
        float,
        Meta(
            description="A reading measured longer ago than this is not used.",
            extra=duration("10ms", default="the interval; 10min with on-reading"),
        ),
    ]
    max_future: Annotated[
        float,
        Meta(
            description="A reading stamped further ahead of our clock than this is not used.",
            extra=duration("0s"),
        ),
    ] = 60.0
    max_backoff: Annotated[
        int,
        Meta(
            ge=1,
            le=65536,
            description="The longest that a silent sensor is left alone, in intervals.",
        ),
    ] = 64
    plausible: Annotated[
        float,
        Meta(
            gt=0,
            description="How far off the mean a reading may be, in standard deviations of what is"
            " expected of the field; what is farther is not used, and its sensor is left alone.",
        ),
    ] = 20.0
    energy: Annotated[
        EnergySettings | None,
        Meta(description="What activations cost and what may be spent; without it, nothing is."),
    ] = None

    @property
    def follows_readings(self) -> bool:
        """Whether the next interval begins with the reply to this one."""
        return self.interval == "on-reading"

    @property
    def interval_s(self) -> float | None:
        """Length of an interval in s; None where intervals follow the readings."""
        return None if self.interval == "on-reading" else self.interval

    @property
    def commands_wait(self) -> bool:
        """Whether a command waits at the broker for a sleeping sensor, or for the broker itself."""
        return False
