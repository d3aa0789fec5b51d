"""Replay of a recording through a controller, to measure the regret of its decisions.

The daemon runs the same controller. Only the sensors are simulated: an activated sensor replies
immediately with the value that it measured in the interval. In a gap of the recording, the sensor
does not reply. In an interval in which no sensor was observed, no sensor is activated, but the time
of the model advances.
"""

from collections.abc import Callable, Iterable
from hashlib import sha256
from math import nan
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.config.energy_settings import EnergySettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.commands import Activate, Command, Ending, Notify, PublishState, Record
from edge_tvbo.messages.documents import Decision, Reason
from edge_tvbo.messages.events import DeadlineElapsed, Event, IntervalElapsed, Reading
from edge_tvbo.policy.base import Policy
from edge_tvbo.simulation.calibration import field_of, reading_predictor
from edge_tvbo.simulation.recording import Recording
from edge_tvbo.simulation.row_range import (
    DAY,
    RowRange,
    best_arm,
    recorded_rows,
)

REPLY_SHARE = 0.2  # largest reply timeout, as a share of the interval; less with many activations
STEP_DTYPE = np.dtype(  # one interval; values in the recording's unit, NaN for no value
    [
        ("pick", np.int64),  # the arm that was activated; -1 if none was
        ("regret", np.float64),
        ("reply", np.float64),
        ("mean", np.float64),  # posterior of the pick before it replied
        ("std", np.float64),
        ("error", np.float64),  # |reply - mean|
        ("threshold", np.float64),  # threshold of the event trigger for `error`
        ("reset", np.bool_),  # whether the model was reset, by the trigger or before the selection
        ("z", np.float64),  # error of the reply in sds of its predictive distribution
    ]
)
ENDING_COLUMNS = ("reply", "error", "threshold", "z")
NAN_COLUMNS = (*ENDING_COLUMNS, "mean", "std")


class Run(msgspec.Struct, frozen=True):
    """The results of one replay, encodable as JSON."""

    rows: bytes  # the bytes of `steps`
    resets: int
    activations: int
    missed: int
    digest: str  # see `ReplayRecorder.digest`
    faulty: tuple[str, ...] = ()  # sensors excluded as faulty, in the order of exclusion

    @property
    def steps(self) -> NDArray[np.void]:
        """The replay's results of all recorded intervals, of shape (T,) and dtype `STEP_DTYPE`."""
        return np.frombuffer(self.rows, STEP_DTYPE)


class ReplayRecorder:
    """Recorder of a replay: regret, activations, timeouts, resets, faults, and a hash of decisions.

    The regret of an interval is the difference between two values: that of the best sensor, and
    that of the selected sensor. Regret is in the recording's unit, and at least 0. Intervals in
    which no sensor was observed are left out. The following rules apply:

    - The best sensor is the hottest sensor that was observed in the interval, or the coldest one if
      the objective is "min".
    - If the selected sensor was not observed, its value is unknown, and the mean of the observed
      sensors is used instead: the decision is scored like a random decision.
    - If several sensors are selected in an interval, the results of the interval are the results of
      the best of these sensors.

    `policy` is the policy that is replayed, and predicts each reply before the reply arrives.
    """

    def __init__(self, recording: Recording, span: RowRange, policy: Policy) -> None:
        sign = 1.0 if recording.objective == "max" else -1.0
        rows = recorded_rows(recording, span)
        values = sign * recording.values[rows]
        observed = recording.observed[rows]
        means = (values * observed).sum(axis=1) / observed.sum(axis=1)
        self._arms = {sensor: arm for arm, sensor in enumerate(recording.sensors)}
        self._steps = {interval: step for step, interval in enumerate((rows - span.first).tolist())}
        self._values = np.where(observed, values, means[:, None])
        self._best = values[np.arange(len(values)), best_arm(recording, rows)]
        self._hash = sha256()
        self.steps = empty_steps(len(values))
        self._columns = {name: self.steps[name] for name in STEP_DTYPE.fields or ()}
        self.regret = self._columns["regret"]
        self.picks = self._columns["pick"]
        self.resets = 0
        self.activations = 0
        self.missed = 0
        self.faulty: dict[str, None] = {}  # sensors in the order in which they were excluded
        self._best_selected = ""  # the best of the sensors that were selected in the interval
        self._field, self._predict = field_of(policy), reading_predictor(policy)
        self._predicted = (nan, nan)  # predicted mean and sd of its reply, in model units

    def record(self, command: Command) -> None:
        """Record the content of one command of the replay's controller."""
        match command:
            case Activate(interval=interval):
                self.activations += interval in self._steps
            case PublishState(decision=decision):
                self._record_decision(decision)
            case Record():
                self._record_end(command)
            case Notify(notice=notice):
                if notice.event == "sensor-faulty" and notice.sensor is not None:
                    self.faulty.setdefault(notice.sensor)

    def _record_decision(self, decision: Decision) -> None:
        arm, columns = self._arms[decision.sensor], self._columns
        if (step := self._steps.get(decision.interval)) is not None:
            regret = max(0.0, self._best[step] - self._values[step, arm])
            if not decision.earlier or regret < self.regret[step]:
                self._best_selected = decision.sensor
                self._predicted = self._predict(arm)
                self.picks[step] = -1 if decision.reason is Reason.SAVED else arm
                self.regret[step] = regret
                columns["mean"][step], columns["std"][step] = decision.mean, decision.std
                if decision.earlier:
                    for name in ENDING_COLUMNS:
                        columns[name][step] = nan
            columns["reset"][step] |= decision.model.resets > self.resets
        self.resets = decision.model.resets
        self._hash.update(msgspec.json.encode(_facts(decision)) + b"\n")

    def _record_end(self, record: Record) -> None:
        columns = self._columns
        if (step := self._steps.get(record.interval)) is not None:
            if record.sensor == self._best_selected:
                columns["reply"][step] = _or_nan(record.value)
                columns["error"][step] = _or_nan(record.abs_error)
                columns["threshold"][step] = _or_nan(record.threshold)
                columns["z"][step] = self._standardised(record.value)
            columns["reset"][step] |= record.reset
            self.missed += record.ending is Ending.MISSED
        self.resets += record.reset
        self._hash.update(msgspec.json.encode(record) + b"\n")

    def _standardised(self, value: float | None) -> float:
        """Return (reply - predicted mean) / predicted standard deviation in the replay.

        `value` is the reply. If it is None, the result is NaN.
        """
        if value is None:
            return nan
        mean, std = self._predicted
        return (self._field.to_model(value) - mean) / std

    def digest(self) -> str:
        """Return a hash of all decisions of the replay, and of how each activation ended.

        The hash is the SHA-256 in hexadecimal. The texts of the decisions are left out.
        """
        return self._hash.hexdigest()

    def run(self) -> Run:
        """Return the results of the replay, from all commands that were recorded so far."""
        rows = self.steps.tobytes()
        counts = self.resets, self.activations, self.missed
        return Run(rows, *counts, self.digest(), tuple(self.faulty))


def empty_steps(rows: int) -> NDArray[np.void]:
    """Return replay results, of dtype `STEP_DTYPE`, for `rows` intervals without an activation."""
    steps = np.zeros(rows, STEP_DTYPE)
    steps["pick"] = -1
    for name in NAN_COLUMNS:
        steps[name] = np.nan
    return steps


def replay(
    recording: Recording,
    span: RowRange,
    controller: Controller,
    watch: Callable[[Command], None] = lambda _: None,
) -> ReplayRecorder:
    """Replay the rows `span` of the recording through `controller`, as fast as possible.

    `watch` is called with every command of the controller.
    """
    recorder = ReplayRecorder(recording, span, controller.policy)
    sensors = SimulatedSensors(recording)
    start, interval = recording.start, recording.interval
    before = span.first - 1
    for row in recorded_rows(recording, span).tolist():
        pending: list[Event] = [IntervalElapsed(start + row * interval, row - before)]
        before = row
        gaps: list[Event] = []  # missed deadlines, which are handled after the replies
        while pending:
            for command in controller.handle(pending.pop(0)):
                recorder.record(command)
                watch(command)
                if isinstance(command, Activate):
                    reply = sensors.reply(command)
                    (pending if isinstance(reply, Reading) else gaps).append(reply)
            if not pending and gaps:
                pending, gaps = gaps, pending
    return recorder


class SimulatedSensors:
    """Simulated sensors: an activated sensor replies with its reading in the recording."""

    def __init__(self, recording: Recording) -> None:
        self._arms = {sensor: arm for arm, sensor in enumerate(recording.sensors)}
        self._start, self._interval = recording.start, recording.interval
        self._rounding = recording.rounding
        self._replies, self._values = recording.replies_in, recording.values

    def reply(self, activate: Activate) -> Event:
        """Return the recorded reply of a sensor; `DeadlineElapsed` if the sensor does not reply."""
        row = int((activate.at - self._start) / self._interval + self._rounding)
        arm = self._arms[activate.sensor]
        if not self._replies(row, arm):
            return DeadlineElapsed(activate.interval, activate.expires_at)
        value = float(self._values[row, arm])
        return Reading(activate.sensor, value, at=activate.at, received=activate.at)


class Pace(msgspec.Struct, frozen=True):
    """Limits on the number of sensors that a replay activates."""

    budget: float | None = None  # activations per day; None for no limit
    per_interval: int = 1
    next_activation: Literal["after-reply", "at-once"] = "after-reply"


ONE_PER_INTERVAL = Pace()


def controller_settings(recording: Recording, pace: Pace = ONE_PER_INTERVAL) -> ControllerSettings:
    """Return the settings of a replay's controller."""
    each_costs_1 = EnergySettings(
        unit="activations", cost=1.0, field_budget=pace.budget or 0.0, period=DAY
    )
    return ControllerSettings(
        interval=recording.interval,
        reply_timeout=recording.interval * min(REPLY_SHARE, 1.0 / pace.per_interval),
        max_age=recording.interval,
        learn_from="activated",
        energy=None if pace.budget is None else each_costs_1,
        per_interval=pace.per_interval,
        next_activation=pace.next_activation,
    )


def mean_and_sd(values: Iterable[float]) -> tuple[float, float]:
    """Return the mean and the sample standard deviation of `values`, one value per replay.

    The standard deviation of a single value is 0.
    """
    array = np.fromiter(values, np.float64)
    return float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else 0.0


def _facts(decision: Decision) -> tuple[object, ...]:
    """Return the content of a decision without its texts, for the hash of a replay."""
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
