"""What policies came to: means with their intervals, what it cost, and what is to be seen."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edge_tvbo import __version__
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.numerics.types import Array
from edge_tvbo.simulation.backtest import ORACLE, STATIC, UNIT, Backtest, Result
from edge_tvbo.simulation.replay import RowRange, hottest

SIMPLE = ("random", "round-robin", STATIC)  # what anyone would try first

# Student's t, 97.5 %, with 1, 2, ... 30 degrees of freedom; from there on the last, a little wide.
T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def percent(share: float, digits: int = 0) -> str:
    """Write a share of 1.

    >>> percent(0.0217, 1)
    '2.2 %'
    """
    return f"{100 * share:.{digits}f} %"


def half_width(samples: Array) -> Array:
    """Give how far the 95 % interval of the mean over the first axis reaches to either side.

    NaN for a single sample, which says nothing of others.

    >>> half_width(np.array([1.0, 2.0, 3.0])).round(3).item()
    2.484
    """
    n = len(samples)
    if n == 1:
        return np.full(samples.shape[1:], np.nan)
    t = T_975[min(n - 1, len(T_975)) - 1]
    return np.asarray(t * samples.std(axis=0, ddof=1) / n**0.5)


@dataclass(frozen=True)
class Row:
    """One policy in the table."""

    result: Result
    name: str  # with the sensor, where it is always the same
    mean: float  # regret per interval, training standard deviations
    half: float  # of its 95 % interval; NaN for one seed
    asked: float  # readings asked for
    share: float  # of the readings that always-on takes
    missed: float
    resets: float

    @property
    def simple(self) -> bool:
        """Whether it is what anyone would try first."""
        return self.result.policy in SIMPLE

    @property
    def interval(self) -> str:
        """The 95 % interval of the mean, as text."""
        if np.isnan(self.half):
            return "one seed"
        return f"{max(0.0, self.mean - self.half):.3f} to {self.mean + self.half:.3f}"


@dataclass(frozen=True)
class Summary:
    """Everything a report says, whatever it is written in."""

    backtest: Backtest
    results: list[Result]
    command: str = ""  # what a person types to get the same again

    @cached_property
    def rows(self) -> list[Row]:
        """The policies, the least regret first; the oracle is always-on and stands apart."""
        rows = [self._row(each) for each in self.results if each.policy != ORACLE]
        return sorted(rows, key=lambda row: row.mean)

    @property
    def span(self) -> RowRange:
        """The rows of the recording that policies were tried on."""
        return self.backtest.test_span

    @cached_property
    def values(self) -> Array:
        """What the sensors measured on the days tried (T, M), in the recording's unit."""
        return np.asarray(self.backtest.recording.values[self.span.first : self.span.last])

    @cached_property
    def best(self) -> NDArray[np.intp]:
        """The sensor to follow in each interval, (T,) arms."""
        return hottest(self.backtest.recording, self.span)

    @cached_property
    def behind(self) -> Array:
        """How far each sensor is from the one to follow (T, M), in the recording's unit."""
        best = np.take_along_axis(self.values, self.best[:, None], axis=1)
        sign = 1.0 if self.backtest.field.objective == "max" else -1.0
        return np.asarray(np.maximum(sign * (best - self.values), 0.0))

    @cached_property
    def times(self) -> list[float]:
        """Begin of each interval, s since 1970."""
        recording = self.backtest.recording
        rows = range(self.span.first, self.span.last)
        return [recording.start + row * recording.interval for row in rows]

    @property
    def always_on(self) -> int:
        """Readings that asking every sensor in every interval takes."""
        return int(self.values.size)

    @property
    def extreme(self) -> str:
        """What the sensor to follow is."""
        return "hottest" if self.backtest.field.objective == "max" else "coldest"

    @property
    def title(self) -> str:
        """What was done, in a line."""
        names = [row.result.policy for row in self.rows]
        what = names[0] if len(names) == 1 else f"{len(names)} policies"
        return f"{what} on {self.backtest.recording.name}, {self._days(self.span)}"

    def facts(self) -> dict[str, str]:
        """Give where the numbers come from, by name."""
        recording, field = self.backtest.recording, self.backtest.field
        seeds = max(len(row.result.regret) for row in self.rows)
        unit = f" {recording.unit}" if recording.unit else ""
        return {
            "Data": f"{recording.name}: {len(recording.sensors)} sensors, {len(self.values)} "
            f"intervals of {recording.interval:g} s",
            "Source": recording.source,
            "Learned from": self._days(self.backtest.train_span),
            "Tried on": self._days(self.span),
            "Regret": f"what the {self.extreme} sensor showed beyond the one that was asked, in "
            f"standard deviations of the training days; one is {field.scale:.3g}{unit}",
            "Seeds": "0" if seeds == 1 else f"0 to {seeds - 1}",
            "Made by": f"edge_tvbo {__version__}",
            "Again": self.command,
        }

    def sentences(self) -> list[str]:
        """Give what is to be seen, in words, the weightiest first."""
        first = self.rows[0]
        said = [*self._verdict(), *self._laggards()] if len(self.rows) > 1 else [self._alone(first)]
        return [*said, *self._energy()]

    def _verdict(self) -> list[str]:
        first = self.rows[0]
        simple = next((row for row in self.rows if row.simple), None)
        others = [row for row in self.rows if not row.simple]
        if simple is None or not others:
            return [f"{first.name} missed least: {self._amount(first)}."]
        if first.simple:
            return [
                f"A simple baseline wins: {first.name} comes to {self._amount(first)}, less than "
                f"{_every(others)}; the best of those is {others[0].name} with "
                f"{others[0].mean:.3f}{_overlap(first, others[0])}."
            ]
        less = 1.0 - first.mean / simple.mean
        return [
            f"{first.name} missed least: {self._amount(first)}, {percent(less)} less than the best "
            f"simple baseline, {simple.name} with {simple.mean:.3f}{_overlap(first, simple)}."
        ]

    def _laggards(self) -> list[str]:
        simple = next((row for row in self.rows if row.simple), None)
        if simple is None or self.rows[0].simple:
            return []
        worse = [
            f"{row.name} ({row.mean:.3f})"
            for row in self.rows
            if not row.simple and row.mean > simple.mean
        ]
        if not worse:
            return []
        return [f"That simple baseline beats {', '.join(worse)}."]

    def _alone(self, row: Row) -> str:
        return f"{row.name} missed {self._amount(row)}."

    def _energy(self) -> list[str]:
        asked = {round(row.asked) for row in self.rows}
        if len(asked) != 1:
            return []  # the table says it
        readings, intervals = asked.pop(), len(self.values)
        turns = (
            "as many as" if readings == intervals else f"{percent(readings / intervals)} of what"
        )
        return [
            f"{'Each' if len(self.rows) > 1 else 'It'} asked for {readings} readings: "
            f"{percent(self.rows[0].share, 1)} of the {self.always_on} that always-on takes, and "
            f"{turns} asking in turn does."
        ]

    def _amount(self, row: Row) -> str:
        field = self.backtest.field
        size = f" ({row.mean * field.scale:.2f} {field.unit})" if field.unit else ""
        return f"{row.mean:.3f} {UNIT}{size} per interval"

    def _row(self, result: Result) -> Row:
        regret = result.regret.mean(axis=1)
        asked = float(np.mean(result.activations))
        sensor = result.settings.get("sensor")
        return Row(
            result,
            f"{result.policy} ({sensor})" if sensor else result.policy,
            float(regret.mean()),
            float(half_width(regret)),
            asked,
            asked / self.always_on,
            float(np.mean(result.missed)),
            float(np.mean(result.resets)),
        )

    def _days(self, span: RowRange) -> str:
        recording = self.backtest.recording
        first, last = (
            rfc3339(recording.start + row * recording.interval)[:10]
            for row in (span.first, span.last - 1)
        )
        return first if first == last else f"{first} to {last}"


def _every(rows: list[Row]) -> str:
    return f"every one of {len(rows)} others" if len(rows) > 1 else "the other"


def _overlap(one: Row, other: Row) -> str:
    apart = abs(one.mean - other.mean)
    return ", which these seeds do not tell apart" if apart <= one.half + other.half else ""
