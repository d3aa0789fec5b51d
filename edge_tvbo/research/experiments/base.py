"""Base class of all experiments, and the types of results and of published numbers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from edge_tvbo.models.field import SensorField
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.base import Policy
from edge_tvbo.research.confidence import errors_to_half_width
from edge_tvbo.simulation.dataset_lookup import DataSource

Labels = dict[str, str]


def case_labels(**values: object) -> Labels:
    """Return the labels that identify a case of an experiment, with their values as text.

    >>> case_labels(policy="gp-ucb", epsilon=0.01)
    {'policy': 'gp-ucb', 'epsilon': '0.01'}
    """
    return {name: str(value) for name, value in values.items()}


class Row(msgspec.Struct, frozen=True):
    """The numbers of one case, such as one policy at one rate of change, in one run."""

    run: int
    case: Labels  # such as {"policy": "et-gp-ucb", "epsilon": "0.01"}
    numbers: dict[str, float]
    curves: dict[str, list[float]] = {}  # a value per interval; for figures, not for the CSV file


class PolicyCase(NamedTuple):
    """A policy of an experiment: its label in the rows, its name, and its settings."""

    label: str
    policy: str
    settings: Mapping[str, Any] = {}

    def make(self, field: SensorField, **common: Any) -> Policy:
        """Return a new policy for this case of an experiment.

        The settings of this case override the settings in `common`.
        """
        return make_policy(self.policy, field, **{**common, **self.settings})


class PublishedValue(NamedTuple):
    """A number in a table of a paper."""

    case: Labels
    number: str
    mean: float
    sd: float | None  # standard deviation of a run; None if it is not published
    runs: int

    @property
    def error(self) -> float | None:
        """Standard error of the published mean; None if no standard deviation is published."""
        return None if self.sd is None else float(self.sd / self.runs**0.5)


class Expectation(NamedTuple):
    """An expected property of an experiment's results, and whether the results have it."""

    text: str
    holds: bool | None  # None if the results cannot decide
    runs_needed: int = 30  # runs needed for a verdict; the experiment's default is always enough
    test: str = ""  # test statistic on which `holds` is based, or why `holds` is None


class Cell(NamedTuple):
    """The mean of one number, such as the regret R_T/T, over all runs with the same labels."""

    case: Labels
    number: str
    mean: float
    sd: float  # standard deviation of a run; 0 if there is one run
    runs: int

    @property
    def error(self) -> float:
        """Standard error of an experiment's mean over the runs."""
        return float(self.sd / self.runs**0.5)

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval of an experiment's mean; 0 if there is one run."""
        return 0.0 if self.runs == 1 else errors_to_half_width(self.runs) * self.error

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.half_width:.3f}"


class Table(NamedTuple):
    """A table on the page of results; its rows and its columns are the values of two labels.

    `rows` and `columns` are the names of the two labels. If all cells show the same quantity,
    `number` is the name of this quantity, such as "R_T/T". If the cells show several quantities,
    `number` is empty. Then `rows` or `columns` is "number", a label whose values are the names of
    the quantities.
    """

    number: str
    rows: str  # label whose values are the rows
    columns: str  # label whose values are the columns
    where: Mapping[str, Sequence[str]] = {}  # allowed values of labels; other cells are left out


def case_key(case: Labels, *number: str) -> tuple[Any, ...]:
    """Return a dict key for an experiment's `case`, or for one `number` of the case."""
    return (*number, *sorted(case.items()))


class ResultTable:
    """The results of an experiment: a `Cell` for each number of each case.

    A case is a combination of labels, such as a policy and a rate of change.

    Parameters
    ----------
    cells : sequence of Cell
        The cells of the table.
    rows : sequence of Row
        The rows that the cells summarise.
    """

    def __init__(self, cells: Sequence[Cell], rows: Sequence[Row]) -> None:
        self.cells = tuple(cells)
        self._found = {case_key(cell.case, cell.number): cell for cell in cells}
        self._rows_of: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            self._rows_of.setdefault(case_key(row.case), []).append(row)

    @property
    def runs(self) -> int:
        """Largest number of runs of any case of the experiment."""
        return max(cell.runs for cell in self.cells)

    def cell(self, number: str, case: Labels) -> Cell:
        """Return the experiment's cell of the `number` in a `case`.

        Raises `KeyError` if there is no such cell.
        """
        return self._found[case_key(case, number)]

    def differences(self, number: str, ours: Labels, theirs: Labels) -> Array:
        """Return an experiment's `number` in the case `ours` minus that in the case `theirs`.

        The result has a value for each run that has both numbers.
        """
        other = {row.run: row.numbers[number] for row in self._rows_of[case_key(theirs)]}
        return np.array(
            [
                row.numbers[number] - other[row.run]
                for row in self._rows_of[case_key(ours)]
                if row.run in other
            ]
        )

    def values(self, number: str, case: Labels) -> Array:
        """Return the value of `number` in each run of an experiment's `case`."""
        return np.array([row.numbers[number] for row in self._rows_of[case_key(case)]])

    def curves(self, curve: str, case: Labels) -> list[list[float]]:
        """Return the curve called `curve` of each run of an experiment's `case`."""
        return [row.curves[curve] for row in self._rows_of[case_key(case)]]

    def mean_curve(self, curve: str, case: Labels) -> Array:
        """Return the mean of the curve called `curve` over the runs of an experiment's `case`."""
        return np.asarray(np.mean(self.curves(curve, case), axis=0))

    def mean(self, number: str, **case: object) -> float:
        """Return the mean of an experiment's `number` over the runs with the labels `case`."""
        return self.cell(number, case_labels(**case)).mean

    def values_of(self, label: str) -> list[str]:
        """Return all values of the label `label` in an experiment's cells, each value once.

        The values are in the order of the cells.
        """
        return list(dict.fromkeys(cell.case[label] for cell in self.cells if label in cell.case))


def table_labels(cell: Cell) -> Labels:
    """Return the labels of an experiment's cell for a `Table`.

    The result contains the labels of the case, and the label "number": the name of the number.
    """
    return {**cell.case, "number": cell.number}


Drawing = Callable[[Any, ResultTable], None]  # (figure, results)


class Experiment(ABC):
    """Base class of the experiments; most experiments repeat one experiment of a paper.

    Parameters
    ----------
    data : DataSource, optional
        Source of recordings, for the experiments that need recordings.
    """

    name: str
    title: str
    source: str  # the paper, and its table or figure
    runs: int  # default number of runs; in most experiments, that of the paper
    block = 1  # number of runs in one job
    revision = 1  # increases when the rows of a run change, so that stored runs are not mixed
    tables: tuple[Table, ...] = ()  # tables of the page of results
    notes = ""  # differences from the paper, for the page of results (Markdown)

    def __init__(self, data: DataSource | None = None) -> None:
        self._data = data

    @property
    def data(self) -> DataSource:
        """Source of the experiment's recordings; raises `ValueError` if no source was given."""
        if self._data is None:
            raise ValueError(f"{self.name} needs recordings: pass a DataSource as `data`.")
        return self._data

    def data_fingerprints(self) -> dict[str, str]:
        """Return a fingerprint of each recording and file that the experiment reads, by name."""
        return {}

    def measure(self, runs: range, seed: int) -> list[Row]:
        """Return the rows of the given runs of the experiment.

        With the same arguments, the rows are the same in every process.
        """
        return [row for run in runs for row in self._run(run, seed)]

    def published(self) -> list[PublishedValue]:
        """Return the numbers in the tables of the experiment's paper; [] without such tables."""
        return []

    @abstractmethod
    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Return the paper's findings, and whether the experiment's `results` agree with them."""

    @abstractmethod
    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw the experiment's figure, like that of the paper, into a matplotlib `Figure`."""

    def pictures(self) -> dict[str, Drawing]:
        """Return a dict from file names to the functions that draw the experiment's pictures."""
        return {"figure": self.draw}

    def error(self, results: ResultTable, cell: Cell) -> float:
        """Return the standard error of the number in an experiment's `cell`."""
        return cell.error

    @abstractmethod
    def _run(self, run: int, seed: int) -> Iterator[Row]:
        """Yield the rows of one run of the experiment."""

    def _generator(self, seed: int, run: int) -> np.random.Generator:
        """Return the random generator of one run of the experiment.

        The state of the generator does not depend on other runs.
        """
        return run_generator(self.name, seed, run)


def policy_seed(seed: int, run: int) -> int:
    """Return the seed of the policies in one run of an experiment on a recording.

    The seed of the experiment can be any whole number; the seed of a policy is below 2^63.

    >>> policy_seed(0, 7), policy_seed(2, 7)
    (7, 2000013)
    """
    return (seed * 1_000_003 + run) % 2**63


def run_generator(experiment: str, seed: int, run: int) -> np.random.Generator:
    """Return the random generator for one run of the experiment with this name, such as "E1"."""
    return np.random.default_rng([seed, int(experiment[1:]), run])
