"""What an experiment is: runs that measure, print to compare with, claims, and a figure."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

Labels = dict[str, str]


class Row(msgspec.Struct, frozen=True):
    """What one case came to in one run."""

    run: int
    case: Labels  # such as {"policy": "et-gp-ucb", "epsilon": "0.01"}
    numbers: dict[str, float]
    curves: dict[str, list[float]] = {}  # by interval: for figures, not for the CSV


class PublishedValue(NamedTuple):
    """A number of a paper's table."""

    case: Labels
    number: str
    mean: float
    sd: float | None  # of a run, where the paper gives it
    runs: int


class Expectation(NamedTuple):
    """What is expected to be seen, and whether it was."""

    text: str
    holds: bool


class Cell(NamedTuple):
    """One number of one case over all runs."""

    case: Labels
    number: str
    mean: float
    sd: float  # of a run; 0 for a single one
    runs: int

    @property
    def error(self) -> float:
        """Give the standard error of the mean."""
        return float(self.sd / self.runs**0.5)


class Summary:
    """The cells of an experiment, to be looked up by number and case."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = tuple(cells)
        self._found = {(cell.number, *sorted(cell.case.items())): cell for cell in cells}

    def cell(self, number: str, case: Labels) -> Cell:
        """Give the cell; raises KeyError."""
        return self._found[(number, *sorted(case.items()))]

    def mean(self, number: str, **case: str) -> float:
        """Give the mean of a cell."""
        return self.cell(number, case).mean


class Experiment(Protocol):
    """One experiment of a paper."""

    name: str
    title: str
    source: str  # which paper, which table or figure
    runs: int  # as in the paper
    block: int  # runs carried out together: one unit of work

    def measure(self, runs: range, seed: int) -> list[Row]:
        """Carry out some runs. The same arguments give the same rows, in whatever process."""
        ...

    def printed(self) -> list[PublishedValue]:
        """Give the paper's numbers."""
        ...

    def claims(self, summary: Summary) -> list[Expectation]:
        """Say what of the paper's findings is seen."""
        ...

    def draw(self, figure: Any, rows: Sequence[Row], summary: Summary) -> None:
        """Draw the paper's figure into a matplotlib Figure."""
        ...
