"""Controller settings: the interval, the timeouts and the limits for one field.

A field is one quantity that several sensors measure.
"""

from collections.abc import Mapping
from math import ceil
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from edge_tvbo.config import field_types
from edge_tvbo.config.alert_settings import AlertSettings
from edge_tvbo.config.energy_settings import EnergySettings
from edge_tvbo.config.field_types import duration

Interval = float | Literal["on-reading"]  # s
MAX_PER_INTERVAL = 16
ROUNDING = 1e-9  # intervals; the rounding error of a quotient of two durations


class SurveySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a survey: in the first days of a field, more sensors are activated."""

    length: Annotated[
        float,
        Meta(
            description="Length of the survey, which begins with the first interval of the field.",
            extra=duration("1min"),
        ),
    ] = msgspec.field(default=86400.0, name="for")
    per_interval: Annotated[
        int,
        Meta(
            ge=2,
            le=MAX_PER_INTERVAL,
            description="How many sensors are activated in each interval of the survey. If the"
            " field has fewer sensors, all are activated.",
        ),
    ] = 4


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that the controller of one field needs: the interval, timeouts and limits."""

    interval: Annotated[
        Interval,
        Meta(
            description='How often a sensor is selected. With "on-reading", the next sensor is'
            " selected as soon as the activated sensor has replied or timed out.",
            extra={
                "parse": field_types.interval,
                "expected": 'a duration, 10ms to 366d, or "on-reading"',
            },
        ),
    ]
    reply_timeout: Annotated[
        float,
        Meta(
            description="How long an activated sensor may take to reply; at most the interval.",
            extra=duration(
                "1ms",
                default="1/5 of the interval, or less if more than 5 sensors are activated in it;"
                ' "2min" if interval is "on-reading"',
            ),
        ),
    ]
    per_interval: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_PER_INTERVAL,
            description="How many different sensors are activated in each interval.",
        ),
    ] = 1
    next_activation: Annotated[
        Literal["after-reply", "at-once"],
        Meta(
            description="The time at which the second and further sensors of an interval are"
            ' activated. With "after-reply", each sensor is selected after the previous sensor has'
            " replied or timed out, so that the selection uses the previous reading. With"
            ' "at-once", all sensors are selected and activated when the interval begins.'
        ),
    ] = "after-reply"
    survey: Annotated[
        SurveySettings | None,
        Meta(
            description="During a survey, in the first days of the field, more sensors are"
            " activated in each interval than later, as far as the energy budget allows."
        ),
    ] = None
    learn_from: Annotated[
        Literal["all", "activated"],
        Meta(
            description="Which readings the model uses: all, or only replies of activated sensors."
        ),
    ] = "all"
    max_age: Annotated[
        float,
        Meta(
            description="Maximum age of a reading. An older reading is rejected.",
            extra=duration("10ms", default='the interval; "10min" if interval is "on-reading"'),
        ),
    ]
    max_future: Annotated[
        float,
        Meta(
            description="Maximum time by which a reading may be dated in the future. A reading"
            " with a later date is rejected. Exception: before systemd-timesyncd has synchronised"
            " the clock, such a reading is not rejected. The exception ends an hour after the start"
            " of the daemon at the latest.",
            extra=duration("0s"),
        ),
    ] = 60.0
    max_backoff: Annotated[
        int,
        Meta(
            ge=1,
            le=65536,
            description="Maximum number of intervals for which a sensor is not activated because it"
            " is unresponsive, or because the broker refuses its activations.",
        ),
    ] = 64
    plausible: Annotated[
        float | tuple[float, float],
        Meta(
            description="The plausible range of a reading. Two numbers, such as [-40, 60], are the"
            " ends of the range, in the unit of the readings. One number is half the width of the"
            " range, in standard deviations of the field; the range is then centred on the mean of"
            " the field. A reading outside the range is rejected, and a notice reports it. If the"
            " sensor was activated, it is backed off, unless it sends a plausible reading before"
            " reply_timeout.",
            extra={
                "parse": field_types.plausible,
                "expected": "a number above 0, or an array [lowest, highest]",
            },
        ),
    ] = 20.0
    faults: Annotated[
        Literal["exclude", "report", "off"],
        Meta(
            description="What happens to a faulty sensor, whose value is stuck, drifts, has"
            " spikes, or is in another unit. exclude: a notice reports the fault, the readings of"
            " the sensor are not used, and the sensor is tried again, at the latest after"
            " max_backoff intervals. report: a notice reports the fault, and the readings are used."
            " off: readings are not tested."
        ),
    ] = "exclude"
    alert: Annotated[
        AlertSettings | None,
        Meta(
            description="There is an alert if the hot spot is above a threshold, or probably above"
            " it. An event and the topic `<field>/alert` report the alert."
        ),
    ] = None
    energy: Annotated[
        EnergySettings | None,
        Meta(
            description="Costs and budgets of activations. Without this table, activations cost"
            " nothing."
        ),
    ] = None

    @property
    def follows_readings(self) -> bool:
        """Whether the controller begins the next interval when the activated sensor replies."""
        return self.interval == "on-reading"

    @property
    def interval_s(self) -> float | None:
        """Length of the controller's interval in s; None if a reply begins the next interval."""
        return None if self.interval == "on-reading" else self.interval

    @property
    def sends_commands(self) -> bool:
        """Whether the controller activates sensors; otherwise it only recommends them."""
        return True

    @property
    def restart_withdraws(self) -> bool:
        """Whether a restart or reload withdraws the controller's activations that await a reply."""
        return False

    @property
    def sensor_names(self) -> Mapping[str, str]:
        """Mapping from the controller's sensor ids to display names, for sensors with a name."""
        return {}

    @property
    def max_per_interval(self) -> int:
        """Maximum number of sensors that the controller activates in any interval.

        The intervals of a survey count too.
        """
        return max(self.per_interval, self.survey.per_interval if self.survey else 1)

    @property
    def survey_intervals(self) -> int:
        """Number of the controller's intervals that begin in the survey; 0 without a survey."""
        if self.survey is None or self.interval == "on-reading":
            return 0
        return ceil(self.survey.length / self.interval - ROUNDING)
