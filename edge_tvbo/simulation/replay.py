"""A recorded network drives the controller: what it would have picked, and what that cost.

The controller is the daemon's own. Only the sensors are simulated: the activated one answers at
once with what it measured in that interval, or not at all where the recording has a gap.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from hashlib import sha256
from math import inf, nan

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_tvbo.control.controller import Controller, ControllerSettings
from edge_tvbo.control.energy_budget import BudgetSettings, intervals_in
from edge_tvbo.errors import DataError
from edge_tvbo.messages.commands import Activate, Command, Ending, Notify, PublishState, Record
from edge_tvbo.messages.documents import Decision, Reason
from edge_tvbo.messages.events import DeadlineElapsed, Event, IntervalElapsed, Reading
from edge_tvbo.numerics.types import Array
from edge_tvbo.ports import Recording

DAY = 86_400.0  # s
REPLY_SHARE = 0.2  # of the interval: how long a sensor has to answer
STEP = np.dtype(  # what became of one interval; in the recording's unit, NaN where there is none
    [
        ("pick", np.int64),  # an arm; -1 where nobody was asked
        ("regret", np.float64),
        ("answer", np.float64),
        ("mean", np.float64),  # of what was believed of the pick before it answered
        ("std", np.float64),
        ("surprise", np.float64),  # |answer - mean|
        ("threshold", np.float64),  # what an event trigger allowed
        ("reset", np.bool_),  # the model began anew: by evidence, or before this choice by schedule
    ]
)
UNKNOWN = ("answer", "mean", "std", "surprise", "threshold")


@dataclass(frozen=True)
class RowRange:
    """A stretch of a recording: the rows from `first` to before `last`."""

    first: int
    last: int


class Run(msgspec.Struct, frozen=True):
    """What a run came to in the end, fit to be kept and sent."""

    rows: bytes  # the memory of `steps`
    resets: int
    activations: int
    missed: int
    digest: str  # of every decision, but for its words, and record: SHA-256, in hexadecimal

    @property
    def steps(self) -> NDArray[np.void]:
        """What became of each interval (T,), of `STEP`."""
        return np.frombuffer(self.rows, STEP)


class Tally:
    """What a run came to: regret, activations, misses, resets, and a hash of every decision.

    Regret of an interval is what the hottest sensor that was observed in it showed above the
    one that the decision names, in the recording's unit; never below 0. The coldest, for the
    objective "min".
    """

    def __init__(self, recording: Recording, span: RowRange) -> None:
        sign = 1.0 if recording.objective == "max" else -1.0
        values = sign * recording.values[span.first : span.last]
        self._arms = {sensor: arm for arm, sensor in enumerate(recording.sensors)}
        self._values = values
        self._hottest = values[np.arange(len(values)), hottest(recording, span)]
        self._hash = sha256()
        self.steps = nothing(len(values))
        self._columns = {name: self.steps[name] for name in STEP.fields or ()}
        self.regret = self._columns["regret"]
        self.picks = self._columns["pick"]
        self.resets = 0
        self.activations = 0
        self.missed = 0

    def take(self, command: Command) -> None:
        """Count one command of the controller."""
        match command:
            case Activate():
                self.activations += 1
            case PublishState(decision=decision):
                self._decided(decision)
            case Record():
                self.missed += command.ending is Ending.MISSED
                self._ended(command)
            case Notify():
                pass

    def _decided(self, decision: Decision) -> None:
        row, arm, columns = decision.interval, self._arms[decision.sensor], self._columns
        self.picks[row] = -1 if decision.reason is Reason.SAVED else arm
        self.regret[row] = max(0.0, self._hottest[row] - self._values[row, arm])
        columns["mean"][row], columns["std"][row] = decision.mean, decision.std
        columns["reset"][row] = decision.model.resets > self.resets
        self.resets = decision.model.resets
        self._hash.update(msgspec.json.encode(_facts(decision)) + b"\n")

    def _ended(self, record: Record) -> None:
        row, columns = record.interval, self._columns
        columns["answer"][row] = _or_nan(record.value)
        columns["surprise"][row] = _or_nan(record.surprise)
        columns["threshold"][row] = _or_nan(record.threshold)
        if record.reset:
            columns["reset"][row] = True
            self.resets += 1
        self._hash.update(msgspec.json.encode(record) + b"\n")

    def digest(self) -> str:
        """Give the SHA-256 of every decision, but for its words, and record, in hexadecimal."""
        return self._hash.hexdigest()

    def run(self) -> Run:
        """Give what is counted so far."""
        rows = self.steps.tobytes()
        return Run(rows, self.resets, self.activations, self.missed, self.digest())


def nothing(rows: int) -> NDArray[np.void]:
    """Give so many `STEP`s in which nobody was asked yet."""
    steps = np.zeros(rows, STEP)
    steps["pick"] = -1
    for name in UNKNOWN:
        steps[name] = np.nan
    return steps


def hottest(recording: Recording, span: RowRange) -> NDArray[np.intp]:
    """Give the arm (T,) that was best to ask in each interval, among those that were observed.

    Where none was, among what was filled in; the coldest, for the objective "min".
    """
    sign = 1.0 if recording.objective == "max" else -1.0
    values = sign * recording.values[span.first : span.last]
    observed = recording.observed[span.first : span.last]
    counted = observed | ~observed.any(axis=1, keepdims=True)
    return np.asarray(np.where(counted, values, -np.inf).argmax(axis=1))


def replay(
    recording: Recording,
    span: RowRange,
    controller: Controller,
    watch: Callable[[Command], None] = lambda _: None,
) -> Tally:
    """Drive `controller` through `span` of the recording, as fast as it goes.

    `watch` sees every command as it is given.
    """
    tally = Tally(recording, span)
    sensors = SimulatedSensors(recording)
    start, interval = recording.start, recording.interval
    for row in range(span.first, span.last):
        pending: list[Event] = [IntervalElapsed(start + row * interval)]
        for event in pending:
            for command in controller.handle(event):
                tally.take(command)
                watch(command)
                if isinstance(command, Activate):
                    pending.append(sensors.answer(command))
    return tally


class SimulatedSensors:
    """The recorded sensors, answering when they are asked."""

    def __init__(self, recording: Recording) -> None:
        self._arms = {sensor: arm for arm, sensor in enumerate(recording.sensors)}
        self._start, self._interval = recording.start, recording.interval
        self._observed, self._values = recording.observed, recording.values

    def answer(self, activate: Activate) -> Event:
        """Give the reading of the activated sensor, or the deadline where it has none."""
        row = round((activate.at - self._start) / self._interval)
        arm = self._arms[activate.sensor]
        if not self._observed[row, arm]:
            return DeadlineElapsed(activate.interval, activate.expires_at)
        value = float(self._values[row, arm])
        return Reading(activate.sensor, value, at=activate.at, received=activate.at)


def rules(recording: Recording, budget: float | None = None) -> ControllerSettings:
    """Give the rules a recorded network is replayed by; `budget` is of activations a day."""
    interval, M = recording.interval, len(recording.sensors)
    each_costs_1 = BudgetSettings(
        costs=(1.0,) * M,
        each=(inf,) * M,
        period=intervals_in(DAY, interval),
        field=budget or 0.0,
        unit="activations",
    )
    return ControllerSettings(
        reply_timeout=interval * REPLY_SHARE,
        max_age=interval,
        learn_from="activated",
        energy=None if budget is None else each_costs_1,
    )


def days(recording: Recording, text: str) -> RowRange:
    """Give the rows of the days ``first:last``, both included, written as 2004-03-01:2004-03-06.

    Raises
    ------
    DataError
        Where the text is something else, or the recording does not hold those days.
    """
    parts = text.split(":")
    try:
        first, last = (date.fromisoformat(part) for part in (parts[0], parts[-1]))
    except ValueError:
        parts = []
    if len(parts) not in (1, 2):
        raise DataError(f"{text!r} is no span of days; write  2004-03-01:2004-03-06")
    begin = _row(recording, first)
    end = _row(recording, last) + round(DAY / recording.interval)
    if not 0 <= begin < end <= len(recording.values):
        raise DataError(f"{text}: {recording.name} holds {_extent(recording)}.")
    return RowRange(begin, end)


def split(recording: Recording, share: float) -> tuple[RowRange, RowRange]:
    """Give the first `share` of the intervals, and the rest."""
    border = int(len(recording.values) * share)
    return RowRange(0, border), RowRange(border, len(recording.values))


def training_rows(recording: Recording, span: RowRange) -> Array:
    """Give the readings of `span`, (T, M), gaps filled."""
    return np.asarray(recording.values[span.first : span.last])


def mean_and_sd(values: Iterable[float]) -> tuple[float, float]:
    """Give the mean and the sample standard deviation (0 for a single value)."""
    array = np.fromiter(values, np.float64)
    return float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else 0.0


def _facts(decision: Decision) -> tuple[object, ...]:
    """Give what was decided, without the words it is told in."""
    return (
        decision.interval,
        decision.at,
        decision.expires_at,
        decision.sensor,
        decision.policy,
        decision.mean,
        decision.std,
        decision.ucb,
        decision.unit,
        decision.reason,
        decision.model,
    )


def _or_nan(value: float | None) -> float:
    return nan if value is None else value


def _row(recording: Recording, day: date) -> int:
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
    return round((midnight - recording.start) / recording.interval)


def _extent(recording: Recording) -> str:
    last = recording.start + (len(recording.values) - 1) * recording.interval
    begin, end = (datetime.fromtimestamp(at, UTC).date() for at in (recording.start, last))
    return f"the days {begin}:{end}"
