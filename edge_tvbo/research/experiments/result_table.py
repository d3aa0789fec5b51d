"""Result table of an experiment: means over the runs by case, and the rows that they summarise."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from edge_tvbo.numerics.types import Array
from edge_tvbo.research.confidence import errors_to_half_width

Labels = dict[str, str]


def case_labels(**values: object) -> Labels:
    """Return the labels of a case in the result table, with their values as text.

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
        """Standard error of a result's mean over the runs."""
        return float(self.sd / self.runs**0.5)

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval of a result's mean; 0 if there is one run."""
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
    """Return a dict key for the result table's `case`, or for one `number` of the case."""
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
        """Largest number of runs of any case in the result table."""
        return max(cell.runs for cell in self.cells)

    def cell(self, number: str, case: Labels) -> Cell:
        """Return the result table's cell of the `number` in a `case`.

        Raises `KeyError` if there is no such cell.
        """
        return self._found[case_key(case, number)]

    def differences(self, number: str, ours: Labels, theirs: Labels) -> Array:
        """Return the results of `number` in the case `ours` minus those in the case `theirs`.

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
        """Return the value of `number` in each run of a `case` in the result table."""
        return np.array([row.numbers[number] for row in self._rows_of[case_key(case)]])

    def curves(self, curve: str, case: Labels) -> list[list[float]]:
        """Return the curve called `curve` of each run of a `case` in the result table."""
        return [row.curves[curve] for row in self._rows_of[case_key(case)]]

    def mean_curve(self, curve: str, case: Labels) -> Array:
        """Return the mean of the curve called `curve` over the runs of an experiment's `case`."""
        return np.asarray(np.mean(self.curves(curve, case), axis=0))

    def mean(self, number: str, **case: object) -> float:
        """Return the mean of a result `number` over the runs with the labels `case`."""
        return self.cell(number, case_labels(**case)).mean

    def values_of(self, label: str) -> list[str]:
        """Return each value of the label `label` in the result table's cells once.

        The values are in the order of the cells.
        """
        return list(dict.fromkeys(cell.case[label] for cell in self.cells if label in cell.case))


def table_labels(cell: Cell) -> Labels:
    """Return the labels of a result table's cell for a `Table`.

    The result contains the labels of the case, and the label "number": the name of the number.
    """
    return {**cell.case, "number": cell.number}


Drawing = Callable[[Any, ResultTable], None]  # (figure, results)
