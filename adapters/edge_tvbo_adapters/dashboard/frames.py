"""Frames: the dashboard's data of one interval, and the parts of a frame that pages show."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import nan
from typing import Literal

import msgspec

from edge_tvbo.messages.documents import Decision, Notice, Reason
from edge_tvbo.messages.formatting import decimals, may_be_same_unit
from edge_tvbo.messages.history import HistoryEntry, QuantizedArray

MIN_DECIMALS, MAX_DECIMALS = 3, 15  # number of decimals of values from the history

Ending = Literal["answered", "missed", "undelivered"]
Objective = Literal["max", "min"]


class DashboardField(msgspec.Struct, frozen=True):
    """One field as the dashboard shows it: its sensors with their names and positions."""

    sensors: tuple[str, ...]
    unit: str
    objective: Objective
    interval: float | None  # s; None if each reading ends an interval
    positions: tuple[tuple[float, float], ...] | None  # m, in the order of `sensors`
    names: Mapping[str, str] = {}  # names of sensors, if they differ from the ids
    threshold: float | None = None  # threshold of the alerts; None without alerts
    log1p_scale: float | None = None  # s of the log scale, in `unit`; None without log scale
    is_published: bool = True  # whether the daemon publishes the estimates of the sensors
    decimals: int = 2  # the daemon rounds values in `unit` to this number of decimals
    has_model: bool = True  # whether the policy estimates the sensors


class Frame(msgspec.Struct, frozen=True):
    """One interval of a field: its decision, the posterior before the reply, and the readings."""

    decision: Decision
    ending: Ending | None = None  # None if it is unknown, or if the interval has not ended
    value: float | None = None  # the reply
    mean: list[float] | None = None  # in the order of the field's sensors, if published
    std: list[float] | None = None  # standard deviations, in the same order
    hotspot: str | None = None  # the sensor with the highest mean (lowest for "min"), if known
    readings: dict[str, float] = {}  # the last accepted reading of each sensor in the interval
    begin: str | None = None  # start of the interval; None if equal to the time of the decision


class Selection(msgspec.Struct, frozen=True):
    """The values of a frame that appear in the dashboard's timeline."""

    interval: int
    at: str
    sensor: str
    activated: bool  # False if the sensor was not activated, in order to save energy
    resets: int  # number of resets of the model, so far
    ending: Ending | None
    value: float | None
    earlier: list[str]  # sensors that were activated earlier in the same interval
    begin: str  # start of the interval; earlier than `at` if `earlier` is not empty


class Estimate(msgspec.Struct, frozen=True, array_like=True):
    """One sensor in one interval: the estimate before the reply, and the accepted reading."""

    mean: float | None
    std: float | None
    reading: float | None


class CoursePoint(msgspec.Struct, frozen=True, array_like=True):
    """One interval in the chart that shows a field over time."""

    at: str
    interval: int
    hotspot: str | None
    hottest: Estimate | None  # of the hot spot
    chosen: Estimate | None  # of the sensor that the user has chosen; None if none is chosen
    sensor: str  # the selected sensor
    value: float | None  # reply of the selected sensor
    begin: str  # start of the interval


def frames_of(entries: Iterable[HistoryEntry], field: DashboardField) -> Iterator[Frame]:
    """Yield a frame for each history entry whose unit and selected sensor belong to `field`.

    The entries must be ordered by time, because the notices in the entries determine which sensors
    can be the hot spot of a frame. After a notice that a sensor is ignored or faulty, this sensor
    is not the hot spot until a later notice says that the sensor is used again.
    """
    hidden: set[str] = set()
    for entry in entries:
        decision = entry.decision
        if decision.sensor in field.sensors and may_be_same_unit(decision.unit, field.unit):
            yield _frame(entry, field, hidden)
        for notice in entry.notices:
            _update_hidden(hidden, notice)


def _frame(entry: HistoryEntry, field: DashboardField, hidden: set[str]) -> Frame:
    record, posterior = entry.record, entry.posterior
    mean = std = None
    std_shown = entry.decision.std if posterior is None else posterior.std.high
    digits = max(MIN_DECIMALS, decimals(std_shown)) if std_shown > 0.0 else MAX_DECIMALS
    if posterior is not None:
        mean = _column(posterior.sensors, posterior.mean, field.sensors, digits)
        std = _column(posterior.sensors, posterior.std, field.sensors, digits)
    records = [*(each.record for each in entry.earlier), record]
    return Frame(
        entry.decision,
        None if record is None else record.ending.value,
        None if record is None or record.value is None else round(record.value, digits),
        mean,
        std,
        _hotspot(entry.decision, field, mean, hidden),
        {
            each.sensor: round(each.value, digits)
            for each in records
            if each is not None and each.value is not None
        },
        begin=entry.earlier[0].decision.at if entry.earlier else None,
    )


def _hotspot(
    decision: Decision, field: DashboardField, mean: Sequence[float] | None, hidden: set[str]
) -> str | None:
    """Return the hot spot of a dashboard frame, without the sensors in `hidden`.

    Returns None if there are no estimates, or if the model has no readings and its estimates of all
    sensors are equal.
    """
    if mean is None:
        return None
    sign = -1.0 if field.objective == "min" else 1.0
    estimates = zip(field.sensors, mean, strict=True)
    known = [(sign * value, sensor) for sensor, value in estimates if value == value]
    if decision.model.observations == 0 and len({value for value, _ in known}) == 1:
        return None
    possible = [each for each in known if each[1] not in hidden]
    return max(possible)[1] if possible else None


def _update_hidden(hidden: set[str], notice: Notice) -> None:
    if notice.sensor is not None:
        if notice.event in ("sensor-ignored", "sensor-faulty"):
            hidden.add(notice.sensor)
        elif notice.event in ("sensor-used", "sensor-agrees"):
            hidden.discard(notice.sensor)


def _column(
    stored: Sequence[str], array: QuantizedArray, sensors: Sequence[str], digits: int
) -> list[float]:
    """Return the numbers of an array from the history, in the order of a frame's `sensors`.

    `stored` contains the sensors in the order of `array`. For a sensor that is not in `stored`, the
    number is NaN. Each number is rounded to this number of `digits` after the decimal point.
    """
    by_sensor = dict(zip(stored, array.values(), strict=False))
    return [round(by_sensor.get(sensor, nan), digits) for sensor in sensors]


def is_of_interval(decision: Decision, last: Decision) -> bool:
    """Return whether two decisions on the dashboard belong to the same interval.

    `decision` was received after `last`. Equal interval numbers are necessary, but not enough,
    because a restarted daemon can repeat a number. In addition, one of the following must be true:

    - the two decisions have the same time;
    - the sensor of `last` is in `decision.earlier`, the sensors activated earlier in the interval;
    - `decision` was requested by a command.
    """
    return decision.interval == last.interval and (
        decision.at == last.at or last.sensor in decision.earlier or decision.reason is Reason.ASKED
    )


def selection_of(frame: Frame) -> Selection:
    """Return the values of a frame that appear in the dashboard's timeline."""
    decision = frame.decision
    return Selection(
        decision.interval,
        decision.at,
        decision.sensor,
        decision.reason is not Reason.SAVED,
        decision.model.resets,
        frame.ending,
        frame.value,
        decision.earlier,
        frame.begin or decision.at,
    )


def course_point(frame: Frame, order: Mapping[str, int], chosen: str | None) -> CoursePoint:
    """Return the values of a frame that appear in the chart over time.

    `order` maps the sensors to their indices. `chosen` is the sensor that the user has chosen; None
    if the user has chosen no sensor.
    """
    decision = frame.decision
    return CoursePoint(
        decision.at,
        decision.interval,
        frame.hotspot,
        None if frame.hotspot is None else _estimate(frame, order, frame.hotspot),
        None if chosen is None else _estimate(frame, order, chosen),
        decision.sensor,
        frame.value,
        frame.begin or decision.at,
    )


def _estimate(frame: Frame, order: Mapping[str, int], sensor: str) -> Estimate:
    mean = std = None
    if frame.mean is not None and frame.std is not None:
        mean, std = frame.mean[order[sensor]], frame.std[order[sensor]]
    return Estimate(mean, std, frame.readings.get(sensor))
