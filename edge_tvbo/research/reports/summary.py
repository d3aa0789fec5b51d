"""Summary of a comparison: regrets with confidence intervals, activations, and sentences."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edge_tvbo import __version__
from edge_tvbo.messages.formatting import listed, rfc3339, significant
from edge_tvbo.numerics.types import Array
from edge_tvbo.research.confidence import BLOCKS, block_means, half_width
from edge_tvbo.simulation.backtest import (
    FAULTY_TEXT,
    ORACLE,
    STATIC,
    TEXTBOOK,
    UNIT_TEXT,
    Backtest,
    Result,
    faulty_text,
)
from edge_tvbo.simulation.row_range import RowRange, best_arm, recorded_rows

SIMPLE_BASELINES = ("random", "round-robin", STATIC, TEXTBOOK)


def percent(share: float, digits: int = 0) -> str:
    """Return a `share` in the report's summary as a text in percent, with `digits` decimals.

    >>> percent(0.0217, 1)
    '2.2 %'
    """
    return f"{100 * share:.{digits}f} %"


@dataclass(frozen=True)
class PolicySummary:
    """The results of one policy in a comparison: one row of the report's table."""

    result: Result
    name: str  # of the policy; includes the sensor if the policy always activates it
    mean: float  # regret per interval, in standard deviations of the training data
    half_width: float  # half the width of the 95 % interval; NaN if there is one seed
    activations: float
    share: float  # `activations`, divided by the activations of the baseline always-on
    missed: float  # number of activations that timed out
    resets: float

    @property
    def is_simple(self) -> bool:
        """Whether the policy of this summary is one of the `SIMPLE_BASELINES`."""
        return self.result.policy in SIMPLE_BASELINES

    @property
    def interval(self) -> str:
        """The 95 % confidence interval of the policy's mean regret in the summary, as text."""
        if np.isnan(self.half_width):
            return "one seed"
        return f"{max(0.0, self.mean - self.half_width):.3f} to {self.mean + self.half_width:.3f}"


@dataclass(frozen=True)
class ComparisonSummary:
    """The content of a comparison report, independent of the file format."""

    backtest: Backtest
    results: list[Result]
    command: str = ""  # the command line that produces the same results

    @cached_property
    def rows(self) -> list[PolicySummary]:
        """The summaries of all policies except the oracle, ordered by regret."""
        return sorted(map(self._row, self.played), key=lambda row: row.mean)

    @property
    def played(self) -> list[Result]:
        """The results of all policies in the report except the oracle."""
        return [each for each in self.results if each.policy != ORACLE]

    @property
    def span(self) -> RowRange:
        """The test days that the comparison summary covers, as a range of the recording's rows."""
        return self.backtest.test_span

    @cached_property
    def replayed(self) -> NDArray[np.intp]:
        """The rows that the summary covers, (T,): test rows in which a sensor was observed."""
        return recorded_rows(self.backtest.recording, self.span)

    @cached_property
    def values(self) -> Array:
        """The readings that the comparison summary covers, (T, M), in the recording's unit."""
        return np.asarray(self.backtest.recording.values[self.replayed])

    @cached_property
    def best(self) -> NDArray[np.intp]:
        """The best sensor's arm in each row that the comparison summary covers, (T,)."""
        return best_arm(self.backtest.recording, self.replayed)

    @cached_property
    def behind(self) -> Array:
        """How far each reading in the summary is from the best reading in its row, (T, M).

        The differences are in the recording's unit, and at least 0.
        """
        best = np.take_along_axis(self.values, self.best[:, None], axis=1)
        sign = 1.0 if self.backtest.field.objective == "max" else -1.0
        return np.asarray(np.maximum(sign * (best - self.values), 0.0))

    @cached_property
    def times(self) -> list[float]:
        """The start of each row's interval, in s since 1970, for the summary."""
        recording = self.backtest.recording
        rows = self.replayed.tolist()
        return [recording.start + row * recording.interval for row in rows]

    @property
    def always_on(self) -> int:
        """The number of activations if a policy activated all sensors in each interval."""
        return int(self.values.size)

    @property
    def extreme(self) -> str:
        """The word for the best sensor in the summary: hottest or coldest."""
        return "hottest" if self.backtest.field.objective == "max" else "coldest"

    @property
    def title(self) -> str:
        """The title of the report, which names policies, recording and days."""
        names = [row.result.policy for row in self.rows]
        what = names[0] if len(names) == 1 else f"{len(names)} policies"
        return f"{what} on {self.backtest.recording.name}, {self._days(self.span)}"

    def origin(self) -> dict[str, str]:
        """Return the origin of the numbers in the report: data, days, seeds, version, command."""
        recording, field = self.backtest.recording, self.backtest.field
        seeds = max(len(row.result.regret) for row in self.rows)
        unit = f" {recording.unit}" if recording.unit else ""
        faulty = faulty_text(self.results)
        return {
            "Data": f"{recording.name}: {len(recording.sensors)} sensors, {len(self.values)} "
            f"intervals of {recording.interval:g} s",
            "Source": recording.source,
            "Training days": self._days(self.backtest.train_span),
            "Test days": self._days(self.span),
            "Regret": f"difference between the {self.extreme} sensor and the activated one, in "
            f"{UNIT_TEXT}; one standard deviation is {significant(field.scale)}{unit}",
            **({"Excluded as faulty": f"{faulty}. {FAULTY_TEXT}"} if faulty else {}),
            "Seeds": "0" if seeds == 1 else f"0 to {seeds - 1}",
            "Version": f"edge_tvbo {__version__}",
            "Command": self.command,
        }

    def sentences(self) -> list[str]:
        """Return the summary of the comparison as sentences, with the most important first."""
        if len(self.rows) > 1:
            regrets = [*self._best_policy(), *self._worse_than_baseline()]
        else:
            regrets = [f"{self.rows[0].name} has a regret of {self._amount(self.rows[0])}."]
        return [*regrets, *self._activations()]

    def _best_policy(self) -> list[str]:
        first = self.rows[0]
        simple = next((row for row in self.rows if row.is_simple), None)
        others = [row for row in self.rows if not row.is_simple]
        if simple is None or not others:
            return [
                f"{first.name} has the least regret: {self._amount(first)}."
                f"{self._equals()}{_chance(first, self.rows[1])}"
            ]
        if first.mean == simple.mean == others[0].mean:
            return [f"{first.name} has the least regret: {self._amount(first)}.{self._equals()}"]
        if first.is_simple:
            return [
                f"A simple baseline is the best: {first.name} has a regret of "
                f"{self._amount(first)}. Every policy that is not a simple baseline has more "
                f"regret. The best of those policies is {others[0].name} with "
                f"{others[0].mean:.3f}.{_chance(first, others[0])}"
            ]
        second = self.rows[1]
        return [
            f"{first.name} has the least regret: {self._amount(first)}, "
            f"{_less(first.mean, simple.mean)} the best simple baseline, {simple.name} with "
            f"{simple.mean:.3f}.{self._equals()}"
            f"{'' if second is simple else _chance(first, second)}{_chance(first, simple)}"
        ]

    def _equals(self) -> str:
        """Return a sentence that lists the policies with the same regret as the best policy.

        The sentence begins with a space. The result is "" if there is no such policy.
        """
        first, *others = self.rows
        names = [row.name for row in others if row.mean == first.mean]
        if not names:
            return ""
        return f" {listed(names)} {'has' if len(names) == 1 else 'have'} the same regret."

    def _worse_than_baseline(self) -> list[str]:
        simple = next((row for row in self.rows if row.is_simple), None)
        others = [row for row in self.rows if not row.is_simple]
        if simple is None or not others or simple.mean < others[0].mean:
            return []
        worse = [f"{row.name} ({row.mean:.3f})" for row in others if row.mean > simple.mean]
        if not worse:
            return []
        return [
            f"{simple.name}, the best simple baseline, has less regret than {', '.join(worse)}."
        ]

    def _activations(self) -> list[str]:
        """Return a list with the summary's sentence on the number of activations.

        The list is empty if the policies have different numbers of activations.
        """
        subject = "Each policy" if len(self.rows) > 1 else "It"
        numbers = {round(row.activations) for row in self.rows}
        if len(numbers) != 1:
            return []
        activations = numbers.pop()
        times = "once" if activations == 1 else f"{activations} times"
        full = len(self.values) * self.backtest.pace.per_interval
        turns = (
            "as often as round-robin"
            if activations == full
            else f"{percent(activations / full, 1)} of the activations of round-robin"
        )
        if self.backtest.pace.budget is not None:
            turns += " without a budget"
        return [
            f"{subject} activated a sensor {times}: {turns}, and "
            f"{percent(self.rows[0].share, 1)} of the {self.always_on} activations of always-on, "
            "which activates all sensors."
        ]

    def _amount(self, row: PolicySummary) -> str:
        field = self.backtest.field
        size = f" ({significant(row.mean * field.scale, 2)} {field.unit})" if field.unit else ""
        return f"{row.mean:.3f} {UNIT_TEXT}{size} per interval"

    def _row(self, result: Result) -> PolicySummary:
        regret = result.regret.mean(axis=1)
        activations = float(np.mean(result.activations))
        sensor, names = result.settings.get("sensor"), self.backtest.recording.names
        return PolicySummary(
            result,
            f"{result.policy} ({names.get(sensor, sensor)})" if sensor else result.policy,
            float(regret.mean()),
            float(half_width(regret)),
            activations,
            activations / self.always_on,
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


def _less(mean: float, other: float) -> str:
    share = 1.0 - mean / other
    if 0.0 < share < 0.001:
        return "less than 0.1 % less than"
    if 0.999 < share < 1.0:
        return "more than 99.9 % less than"
    return f"{percent(share, 0 if 0.01 <= share <= 0.99 or share == 1.0 else 1)} less than"


def _chance(best: PolicySummary, other: PolicySummary) -> str:
    """Return a sentence of the summary which says that the lead of `best` may be due to chance.

    The sentence begins with a space. The result is "" if the 95 % interval of the difference does
    not contain 0, or if both policies have the same regret. The interval is computed over blocks of
    the test time and not over seeds, because the question is whether other test days would give
    another result.
    """
    lead = other.result.regret.mean(axis=0) - best.result.regret.mean(axis=0)
    if best.mean == other.mean or not len(lead):
        return ""
    size = f"{lead.mean():.3f}"
    if len(lead) >= BLOCKS:
        half = float(half_width(block_means(lead)))
        if lead.mean() > half:
            return ""
        size += f" ± {half:.3f} (95 %, over {BLOCKS} blocks of the test time)"
    return (
        f" The lead of {best.name} over {other.name}, {size}, may be due to chance: on other "
        f"days, {other.name} may be better."
    )
