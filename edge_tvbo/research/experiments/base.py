"""Base of all experiments: rows of runs, cells over all runs, and the numbers of the papers."""

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
    """Return the labels of one case of an experiment, with their values as text.

    >>> case_labels(policy="gp-ucb", epsilon=0.01)
    {'policy': 'gp-ucb', 'epsilon': '0.01'}
    """
    return {name: str(value) for name, value in values.items()}


class Row(msgspec.Struct, frozen=True):
    """The numbers of one case in one run of an experiment."""

    run: int
    case: Labels  # such as {"policy": "et-gp-ucb", "epsilon": "0.01"}
    numbers: dict[str, float]
    curves: dict[str, list[float]] = {}  # a value per interval; for figures, not for the CSV file


class PolicyCase(NamedTuple):
    """A policy with settings in an experiment, and the label of its rows."""

    label: str
    policy: str
    settings: Mapping[str, Any] = {}

    def make(self, field: SensorField, **common: Any) -> Policy:
        """Return a new policy on `field`; settings of this case override the `common` ones."""
        return make_policy(self.policy, field, **{**common, **self.settings})


class PublishedValue(NamedTuple):
    """A number in a table of a paper."""

    case: Labels
    number: str
    mean: float
    sd: float | None  # standard deviation of a run; None if it is not published
    runs: int


class Expectation(NamedTuple):
    """An expected property of an experiment's results, and whether the results have it."""

    text: str
    holds: bool


class Cell(NamedTuple):
    """One number of one case of an experiment, averaged over all runs."""

    case: Labels
    number: str
    mean: float
    sd: float  # standard deviation of a run; 0 if there is one run
    runs: int

    @property
    def error(self) -> float:
        """Standard error of the mean over the runs."""
        return float(self.sd / self.runs**0.5)


class ResultTable:
    """The results of an experiment: its cells, which are found by number and case."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = tuple(cells)
        self._found = {(cell.number, *sorted(cell.case.items())): cell for cell in cells}

    def cell(self, number: str, case: Labels) -> Cell:
        """Return the cell of a number and a case; raise `KeyError` if there is none."""
        return self._found[(number, *sorted(case.items()))]

    def mean(self, number: str, **case: object) -> float:
        """Return the mean of a number, over the runs of the case with these labels."""
        return self.cell(number, case_labels(**case)).mean

    def values_of(self, label: str) -> list[str]:
        """Return the different values of a label of the cases, in the order of the cells."""
        return list(dict.fromkeys(cell.case[label] for cell in self.cells if label in cell.case))


class Experiment(ABC):
    """Base class of the experiments, each of which repeats one experiment of a paper.

    Parameters
    ----------
    data : DataSource, optional
        Source of recordings, for the experiments that need one.
    """

    name: str
    title: str
    source: str  # the paper, and its table or figure
    runs: int  # number of runs, as in the paper
    block = 1  # number of runs in one job

    def __init__(self, data: DataSource | None = None) -> None:
        self._data = data

    @property
    def data(self) -> DataSource:
        """Source of recordings; raises `ValueError` if the experiment was created without one."""
        if self._data is None:
            raise ValueError(f"{self.name} needs a DataSource.")
        return self._data

    def measure(self, runs: range, seed: int) -> list[Row]:
        """Return the rows of some runs of the experiment.

        They are the same for the same arguments in every process.
        """
        return [row for run in runs for row in self._run(run, seed)]

    def published(self) -> list[PublishedValue]:
        """Return the numbers that the paper published; none if it has only figures."""
        return []

    @abstractmethod
    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Return the findings of the paper, each with whether the results agree."""

    @abstractmethod
    def draw(self, figure: Any, rows: Sequence[Row], results: ResultTable) -> None:
        """Draw the experiment's figure, like that of the paper, into a matplotlib `Figure`."""

    @abstractmethod
    def _run(self, run: int, seed: int) -> Iterator[Row]:
        """Yield the rows of one run of the experiment."""

    def _generator(self, seed: int, run: int) -> np.random.Generator:
        """Return the random generator of a run, which does not depend on the other runs."""
        return run_generator(self.name, seed, run)


def run_generator(experiment: str, seed: int, run: int) -> np.random.Generator:
    """Return the random generator of a run of the experiment with the name "E1", "E2", ..."""
    return np.random.default_rng([seed, int(experiment[1:]), run])
