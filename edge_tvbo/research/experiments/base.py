"""Base of all experiments: runs that give rows, a summary of them, and what the paper published."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.base import Policy
from edge_tvbo.simulation.dataset_lookup import DataSource

Labels = dict[str, str]


def case_labels(**values: object) -> Labels:
    """Return the labels of a case as text.

    >>> case_labels(policy="gp-ucb", epsilon=0.01)
    {'policy': 'gp-ucb', 'epsilon': '0.01'}
    """
    return {name: str(value) for name, value in values.items()}


class Row(msgspec.Struct, frozen=True):
    """The numbers of one case in one run."""

    run: int
    case: Labels  # such as {"policy": "et-gp-ucb", "epsilon": "0.01"}
    numbers: dict[str, float]
    curves: dict[str, list[float]] = {}  # by interval: for figures, not for the CSV file


class PolicyCase(NamedTuple):
    """A policy with settings, and the label of its rows."""

    label: str
    policy: str
    settings: Mapping[str, Any] = {}

    def make(self, field: SensorField, **common: Any) -> Policy:
        """Return a new policy on `field`; the settings of the case replace the `common` ones."""
        return make_policy(self.policy, field, **{**common, **self.settings})


class PublishedValue(NamedTuple):
    """A number in a table of a paper."""

    case: Labels
    number: str
    mean: float
    sd: float | None  # of a run; None if the paper does not state it
    runs: int


class Expectation(NamedTuple):
    """Expected property of the results, and whether they do."""

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
        """Standard error of the mean."""
        return float(self.sd / self.runs**0.5)


class ResultTable:
    """The cells of an experiment, found by number and case."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = tuple(cells)
        self._found = {(cell.number, *sorted(cell.case.items())): cell for cell in cells}

    def cell(self, number: str, case: Labels) -> Cell:
        """Return one cell; raises `KeyError`."""
        return self._found[(number, *sorted(case.items()))]

    def mean(self, number: str, **case: object) -> float:
        """Return the mean of the cell of these labels."""
        return self.cell(number, case_labels(**case)).mean

    def values_of(self, label: str) -> list[str]:
        """Return the different values of a label, in the order of the cells."""
        return list(dict.fromkeys(cell.case[label] for cell in self.cells if label in cell.case))


class Experiment(ABC):
    """One experiment of a paper.

    Parameters
    ----------
    data : DataSource, optional
        Recordings, for the experiments that use some.
    """

    name: str
    title: str
    source: str  # the paper, and its table or figure
    runs: int  # as in the paper
    block = 1  # runs in one job

    def __init__(self, data: DataSource | None = None) -> None:
        self._data = data

    @property
    def data(self) -> DataSource:
        """Recordings; raises `ValueError` if the experiment was created without."""
        if self._data is None:
            raise ValueError(f"{self.name} needs a DataSource.")
        return self._data

    def measure(self, runs: range, seed: int) -> list[Row]:
        """Return the rows of some runs: the same for the same arguments, in every process."""
        return [row for run in runs for row in self._run(run, seed)]

    def published(self) -> list[PublishedValue]:
        """Return the numbers of the paper; none where it has figures only."""
        return []

    @abstractmethod
    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Return the findings of the paper, and whether the results show them."""

    @abstractmethod
    def draw(self, figure: Any, rows: Sequence[Row], results: ResultTable) -> None:
        """Draw the figure of the paper into a matplotlib `Figure`."""

    @abstractmethod
    def _run(self, run: int, seed: int) -> Iterator[Row]:
        """Yield the rows of one run."""

    def _generator(self, seed: int, run: int) -> np.random.Generator:
        """Return the random generator of a run: independent of which other runs are measured."""
        return run_generator(self.name, seed, run)


def run_generator(experiment: str, seed: int, run: int) -> np.random.Generator:
    """Return the random generator of a run of the experiment named "E1", "E2", ..."""
    return np.random.default_rng([seed, int(experiment[1:]), run])
