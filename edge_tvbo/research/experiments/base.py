"""Base class of all experiments, the policies of a case, and the seeds of the runs."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.base import Policy
from edge_tvbo.research.experiments.result_table import (
    Cell,
    Drawing,
    Expectation,
    PublishedValue,
    ResultTable,
    Row,
    Table,
)
from edge_tvbo.simulation.dataset_lookup import DataSource


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
