"""Alert settings: the threshold of the hot spot of one field."""

from typing import Annotated

import msgspec
from msgspec import Meta

from edge_tvbo.config import field_types


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a field's alert, which begins when the hot spot passes a threshold."""

    threshold: Annotated[
        float,
        Meta(
            description="The threshold, in the unit of the readings. There is an alert if a reading"
            " is above it, or if the hot spot is probably above it. With the objective"
            ' "min", there is an alert below the threshold.'
        ),
    ]
    hysteresis: Annotated[
        float | None,
        Meta(
            ge=0,
            description="The alert is over when the readings and the estimate of the hot spot are"
            " below the threshold by more than this amount, in the unit of the readings. With the"
            ' objective "min", they must be above the threshold by this amount.',
            extra={"default": "twice the standard deviation of the noise of a reading"},
        ),
    ] = None
    probability: Annotated[
        float,
        Meta(
            ge=0.5,
            lt=1,
            description="There is also an alert if the hot spot is above the threshold with at"
            " least this probability, even if no reading is above the threshold.",
        ),
    ] = 0.9
    quiet: Annotated[
        tuple[int, int] | None,
        Meta(
            description="Hours of the day in which the beginning and the end of an alert are not"
            " reported. When the hours are over, the beginning or the end of the alert is reported."
            " An alert that has both begun and ended in these hours is not reported.",
            extra={
                "parse": field_types.quiet_hours,
                "expected": 'two times of the day, such as "22:00-06:30"',
            },
        ),
    ] = None
    timezone: Annotated[
        str | None,
        Meta(
            description="The time zone of the quiet hours.",
            extra={
                "parse": field_types.timezone,
                "expected": 'a name such as "Europe/Berlin"',
                "default": "the time zone of this machine",
            },
        ),
    ] = None
