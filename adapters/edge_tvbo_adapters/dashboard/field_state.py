"""Field state: a bounded number of the newest decisions, estimates and events of one field."""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from math import nan
from typing import Any

import msgspec
from msgspec.structs import replace

from edge_tvbo.messages.documents import (
    Alert,
    Decision,
    Hotspot,
    Notice,
    PublishedPosterior,
)
from edge_tvbo.messages.formatting import may_be_same_unit
from edge_tvbo.messages.history import DecisionHistory
from edge_tvbo_adapters.dashboard.frames import (
    CoursePoint,
    DashboardField,
    Frame,
    Selection,
    course_point,
    frames_of,
    is_of_interval,
    selection_of,
)
from edge_tvbo_adapters.dashboard.reading_times import ReadingTimes
from edge_tvbo_adapters.dashboard.times import seconds

MAX_FRAMES = 1500  # intervals stored for each field
MAX_CELLS = 150_000  # intervals times sensors stored for each field
MAX_SELECTIONS = 400  # intervals of the timeline that are sent to a page
MAX_NOTICES = 200  # stored for each field, and for the daemon


class UnknownSensor(ValueError):
    """Error for a message about a sensor that the dashboard's configuration does not have."""


class OtherUnit(ValueError):
    """Error for a message whose unit is not the field's unit in the dashboard's configuration."""


class FieldView(msgspec.Struct, frozen=True):
    """The state of one field that a newly opened page receives."""

    selections: list[Selection]
    decision: Decision | None
    posterior: PublishedPosterior | None
    prediction: PublishedPosterior | None  # the posterior before the reply of the interval
    hotspot: Hotspot | None
    alert: Alert | None
    notices: list[Notice]


class DashboardFieldState:
    """State of one field on the dashboard."""

    def __init__(self, field: DashboardField) -> None:
        self._field = field
        self._order = {sensor: index for index, sensor in enumerate(field.sensors)}
        self._reading_times = ReadingTimes()
        count = max(1, min(MAX_FRAMES, MAX_CELLS // max(1, len(field.sensors))))
        self.frames: deque[Frame] = deque(maxlen=count)
        self.notices: deque[Notice] = deque(maxlen=MAX_NOTICES)
        self.posterior: PublishedPosterior | None = None
        self.prediction: PublishedPosterior | None = None
        self.hotspot: Hotspot | None = None
        self.alert: Alert | None = None

    def load_history(self, history: DecisionHistory, name: str) -> None:
        """Add the newest entries of the decision history to the state of this field.

        `name` is the name of the field in the history.

        Raises `DataError` if the history cannot be read.
        """
        entries = history.newest(name, self.frames.maxlen or 0)[::-1]
        self.frames.extend(frames_of(entries, self._field))
        self.notices.extend(notice for entry in entries for notice in entry.notices)

    def add_decision(self, decision: Decision) -> None:
        """Add a frame with `decision` to the field's frames in the state of the dashboard.

        There are two exceptions:

        - If the last frame belongs to the same interval, the decision of the last frame is
          replaced.
        - If a frame already contains the decision, the decision is ignored, because it is the copy
          that the broker retains.

        A daemon that restarts without stored state counts its intervals from 0 again. So two frames
        with the same interval number can belong to different intervals; see `is_of_interval`.

        Raises `ValueError` if the time of the decision is invalid, `UnknownSensor` if its sensor
        does not belong to the field, and `OtherUnit` if the decision is in another unit.
        """
        seconds(decision.at)  # check the time now; readings are compared with it later
        self._check_known([decision.sensor])
        self._check_unit(decision.unit)
        last = self.frames[-1] if self.frames else None
        if last and is_of_interval(decision, last.decision):
            if last.decision == decision:
                return
            begin = last.begin or last.decision.at
            self.frames[-1] = replace(last, decision=decision, begin=begin, ending=None, value=None)
        elif any(
            (each.decision.interval, each.decision.at) == (decision.interval, decision.at)
            for each in self.frames
        ):
            return
        else:
            if last and last.decision.interval == decision.interval:
                self._forget_posterior_before(decision)
            self.frames.append(Frame(decision))
        self._update_frame()

    def add_posterior(self, posterior: PublishedPosterior) -> None:
        """Store `posterior` as the field's present posterior in the state of the dashboard.

        Raises `ValueError` if the columns of the posterior differ in length, or if its time is
        invalid. Raises `UnknownSensor` if one of its sensors does not belong to the field, and
        `OtherUnit` if its unit is not the unit of the field.
        """
        self._check_known(posterior.sensors)
        self._check_unit(posterior.unit)
        columns = (posterior.mean, posterior.std, posterior.last, posterior.age_s)
        if any(len(each) != len(posterior.sensors) for each in columns):
            raise ValueError("the columns of the posterior differ in length")
        seconds(posterior.at)  # check the time now; the times of readings are computed from it
        if self.posterior:
            self._reading_times.follow_clock(self.posterior, posterior)
        self.posterior = posterior
        if posterior.ending is None:
            self.prediction = posterior
        self._update_frame()

    def add_hotspot(self, hotspot: Hotspot) -> None:
        """Store the field's hot spot in the state of the dashboard.

        If the last frame has no hot spot, the hot spot is also added to the last frame. Raises
        `OtherUnit` if the unit of the hot spot is not the unit of the field.
        """
        self._check_unit(hotspot.unit)
        self.hotspot = hotspot
        if self.frames and self.frames[-1].hotspot is None and hotspot.sensor in self._order:
            self.frames[-1] = replace(self.frames[-1], hotspot=hotspot.sensor)

    def add_alert(self, alert: Alert) -> None:
        """Store the state of the field's alert; raise `OtherUnit` if the alert has another unit."""
        self._check_unit(alert.unit)
        self.alert = alert

    def clear(self, level: str) -> None:
        """Remove the document of a cleared topic from the dashboard's state.

        `level` is the last level of the topic. The decisions stay, because they are history.
        """
        match level:
            case "posterior":
                self.posterior = self.prediction = None
            case "hotspot":
                self.hotspot = None
            case "alert":
                self.alert = None

    def view(self) -> FieldView:
        """Return the state of the field, for a newly opened page."""
        skipped = max(0, len(self.frames) - MAX_SELECTIONS)
        return FieldView(
            selections=[selection_of(each) for each in islice(self.frames, skipped, None)],
            decision=self.frames[-1].decision if self.frames else None,
            posterior=self.posterior,
            prediction=self.prediction,
            hotspot=self.hotspot,
            alert=self.alert,
            notices=list(self.notices),
        )

    def changed_by(self, level: str) -> dict[str, Any]:
        """Return a dict of the parts of a dashboard field that a message can change.

        `level` is the last level of the message's topic.
        """
        last = self.frames[-1] if self.frames else None
        frame = last
        if level == "posterior" and (index := self._frame_of_posterior()) is not None:
            frame = self.frames[index]
        changed: dict[str, Any] = {"selection": selection_of(frame) if frame else None}
        if frame:
            changed["course"] = {"hotspot": frame.hotspot, "readings": frame.readings}
        match level:
            case "selected":
                forgotten = {} if self.posterior else {"posterior": None}
                return {**changed, **forgotten, "decision": last and last.decision}
            case "posterior":
                return {**changed, "posterior": self.posterior}
            case "alert":
                return {**changed, "alert": self.alert}
            case _:
                return {**changed, "hotspot": self.hotspot}

    def course(self, sensor: str | None) -> list[CoursePoint]:
        """Return the points of the dashboard's chart, one point for each interval.

        `sensor` is the sensor that the user has chosen; None if the user has chosen no sensor.
        Raises `LookupError` if `sensor` does not belong to the field.
        """
        if sensor is not None and sensor not in self._order:
            raise LookupError(sensor)
        return [course_point(frame, self._order, sensor) for frame in self.frames]

    def _check_known(self, sensors: Iterable[str]) -> None:
        """Raise `UnknownSensor` for a sensor that the dashboard's configuration does not have."""
        for sensor in sensors:
            if sensor not in self._order:
                raise UnknownSensor(f"{sensor} is not a sensor of the field")

    def _check_unit(self, unit: str) -> None:
        """Raise `OtherUnit` if `unit` is not the unit in the dashboard's configuration."""
        if not may_be_same_unit(unit, self._field.unit):
            ours = self._field.unit
            raise OtherUnit(f"the message is in {unit}, and the unit of the field is {ours}")

    def _forget_posterior_before(self, decision: Decision) -> None:
        """Remove the dashboard's present posterior if it is older than `decision`.

        An older posterior was published before a restart of the daemon. The interval of this
        posterior can have the same number as the interval of `decision`, but is another interval.
        """
        if self.posterior and seconds(self.posterior.at) < seconds(decision.at):
            self.posterior = self.prediction = None

    def _update_frame(self) -> None:
        """Copy the present posterior to the dashboard's frame of the same interval."""
        index, posterior = self._frame_of_posterior(), self.posterior
        if index is None or posterior is None:
            return
        before = self.prediction
        if before is None or before.interval != posterior.interval:
            before = posterior
        self.frames[index] = self._with_posterior(self.frames[index], before, posterior)

    def _frame_of_posterior(self) -> int | None:
        """Return the index of the dashboard's frame for the interval of the present posterior.

        The index is -1 for the last frame and -2 for the frame before it. If a reply has begun a
        new interval, the index is -2, because the decision of the new interval arrives before the
        posterior of the old interval. Returns None if neither of the two frames has the interval.
        """
        for index in range(-1, -1 - min(2, len(self.frames)), -1):
            if self.posterior and self.frames[index].decision.interval == self.posterior.interval:
                return index
        return None

    def _with_posterior(
        self, frame: Frame, before: PublishedPosterior, posterior: PublishedPosterior
    ) -> Frame:
        """Return a copy of the dashboard's `frame`, with the two posteriors of its interval.

        `before` is the posterior before the reply, from which the estimates are taken. `posterior`
        is the posterior after the reply, from which the readings are taken.
        """
        last = dict(zip(posterior.sensors, posterior.last, strict=True))
        sensor = frame.decision.sensor
        return replace(
            frame,
            ending=posterior.ending,
            value=last.get(sensor) if posterior.ending == "answered" else None,
            mean=self._in_field_order(before, before.mean),
            std=self._in_field_order(before, before.std),
            readings=frame.readings | self._reading_times.new_in(posterior, frame.decision),
        )

    def _in_field_order(self, posterior: PublishedPosterior, values: list[float]) -> list[float]:
        by_sensor = dict(zip(posterior.sensors, values, strict=True))
        return [by_sensor.get(sensor, nan) for sensor in self._order]
