"""Tables of findings.md that show which part of a trained model a cold start lacks.

    python docs/cold_parts.py --data-dir DIRECTORY [--runs 16] [recording ...]

A cold start receives some parts of the model that is trained on the training rows. Rows in which
no sensor was read, such as days without trade, are left out, but the model advances over them. The
first table shows the regret of cold starts that receive a single part, the second the regret of
cold starts that receive all parts except one. A regret is bold if its difference from the first row
of its table is significant: the 95 % interval, by a bootstrap over the runs and over ten blocks of
time, does not contain 0. The script takes about 8 minutes on one core. It replaces private
attributes of the posterior; this is acceptable only for research.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from edge_tvbo_adapters import datasets
from msgspec.structs import replace

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.component_covariance import DenseCovariance
from edge_tvbo.models.posteriors.structural import StructuralPosterior
from edge_tvbo.models.spatial_kernels import exchangeable
from edge_tvbo.models.structural_model import (
    DAY,
    ComponentTable,
    StructuralModel,
    component_table,
    harmonics_for,
    prior_structure,
)
from edge_tvbo.numerics.jit import kernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy.auto import AutoPolicy, LearningWidth
from edge_tvbo.policy.auto_settings import AutoSettings
from edge_tvbo.policy.base import Policy
from edge_tvbo.research.confidence import block_means
from edge_tvbo.research.experiments.cold_start import (
    GUESS_FACTOR,
    GUESS_OFFSET,
    GUESSED_CORRELATION,
    ColdStart,
)
from edge_tvbo.research.experiments.split_experiment import TrainTestSplit
from edge_tvbo.simulation.dataset_lookup import DataSource
from edge_tvbo.training.covariance import train, with_structure
from edge_tvbo.training.structural_fit import rows_without_nan

PARTS = {
    "S": "the season",
    "L": "the levels",
    "C": "the correlations",
    "D": "the liveliness",
    "E": "the rates",
    "F": "the exploration",
    "G": "mean, spread and σ²",
}
ALL = frozenset(PARTS)
COURSE = frozenset("SL")
GIVEN = {
    "nothing (cold)": frozenset[str](),
    **{f"only {text}": frozenset(part) for part, text in PARTS.items()},
    "only season and levels": COURSE,
    "only correlations, liveliness and rates": frozenset("CDE"),
}
MISSING = {
    "all parts": ALL,
    **{f"all parts but {text}": ALL - {part} for part, text in PARTS.items()},
    "all parts but season and levels": ALL - COURSE,
}
RUNS = {"METR-LA": 8, "PM10 2004": 12, "PM10 2008": 12}  # largest number of runs; they take long
PLACES = [
    "Intel",
    "METR-LA",
    "Guangzhou",
    "humidity",
    "wind 1964",
    "wind 1973",
    "PM10 2004",
    "PM10 2008",
]
GUESSES = [(o, f) for f in (GUESS_FACTOR, 1 / GUESS_FACTOR) for o in (GUESS_OFFSET, -GUESS_OFFSET)]
SHIFT_DAYS = 30  # days between one start and the next, if an interval is a day
OWNERS = ["L", "E", "E", "L"]  # parts with the first variance of a component; else "S"
DRAWS = 4000  # number of bootstrap draws


@kernel("void(f8[::1], f8[:, ::1], f8[::1], f8[:, :, ::1])")
def _evolve(m: Array, P: Array, retain: Array, Q: Array) -> None:
    """Advance the state as `structural.evolve` does; `Q` (n, M, M) is the added noise."""
    n, M, _ = Q.shape
    for a in range(n):
        for i in range(M):
            row = a * M + i
            m[row] *= retain[a]
            for b in range(n):
                both = retain[a] * retain[b]
                for j in range(M):
                    P[row, b * M + j] *= both
            for j in range(M):
                P[row, a * M + j] += Q[a, i, j]


class PartsCovariance(DenseCovariance):
    """Covariance of a state whose first covariance differs from the stationary one.

    Both covariances have the shape (n, M, M).
    """

    def __init__(
        self, model: StructuralModel, table: ComponentTable, first: Array, stationary: Array
    ) -> None:
        self._first, self._stationary = first, stationary
        super().__init__(model, table)

    def reset(self) -> None:
        """Reset the covariance to its first value."""
        self._P[:] = 0.0
        for a, block in enumerate(self._first):
            rows = slice(a * self._M, (a + 1) * self._M)
            self._P[rows, rows] = block

    def evolve(self, m: Array, retain: Array) -> None:
        """Advance by one interval, which moves the covariance towards the stationary one."""
        _evolve(m, self._P, retain, self._stationary * (1.0 - retain**2)[:, None, None])


class PartsAuto(AutoPolicy):
    """The policy `auto`; if `is_free` is set, it explores like a trained `auto`."""

    is_free = False

    def _takes_turns(self) -> bool:
        half = self._posterior._seen < min(self._posterior._model.season_period, DAY) / 2
        return not self.is_free and half and self.observations < 3 * len(self._all_arms)


class Place:
    """A recording, standardised by its training rows, with a trained model and a cold model."""

    def __init__(self, split: TrainTestSplit) -> None:
        varies = np.nanstd(split.training, axis=0) > 0
        training, test = split.training[:, varies], split.test[:, varies]
        self.names = tuple(f"s{arm}" for arm in range(training.shape[1]))
        readings = np.concatenate((training, test))
        self.values = (readings - np.nanmean(training)) / np.nanstd(training)
        self.is_read = rows_without_nan(readings)
        self.interval, self.start, self.rows = split.interval, split.start, len(training)
        self.day = round(DAY / split.interval)
        known = self.values[: self.rows]
        field = with_structure(
            train(known, self.names), known, self.interval, self.start, transform="none"
        )
        assert field.structure is not None
        self.trained = replace(field.structure, state=None)
        self.kernel = exchangeable(len(self.names), GUESSED_CORRELATION)
        cold = prior_structure(self.kernel, self.interval)
        assert cold is not None
        self.cold = cold

    def policy(self, given: frozenset[str], guess: tuple[float, float], seed: int) -> Policy:
        """Return a cold `auto` that receives the parts in `given` from the trained model.

        `guess` is the guessed mean, and the factor by which the guessed spread is wrong.
        """
        mean, unit = (0.0, 1.0) if "G" in given else guess
        cold, fit, M = self.cold, self.trained, len(self.names)
        harmonics = harmonics_for(M) or 0
        guessed = component_table(cold.components, harmonics)
        learned = component_table(fit.components, harmonics)
        overall = float(np.sqrt((fit.spread**2).mean()))
        square = (overall / unit) ** 2  # converts trained variances to units of the cold model
        own = [
            common + (1.0 - common) * self.kernel for common in guessed.common
        ]  # guessed correlations of the components
        correlations = [fit.correlation] * len(own) if "C" in given else own
        variances = learned.variance * square if "E" in given else guessed.variance
        first = []
        for a, owner in enumerate(OWNERS + ["S"] * (2 * harmonics)):
            if owner in given:
                first.append(learned.variance[a] * square * correlations[a])
            else:
                first.append(guessed.variance[a] * (correlations if owner == "E" else own)[a])
        stationary = np.array([v * C for v, C in zip(variances, correlations, strict=True)])
        levels = fit.course.mean(axis=0)
        course = (levels if "L" in given else np.full(M, mean))[None, :]
        if "S" in given:
            course = course + (fit.course - levels)
        model = replace(
            cold,
            course=course,
            spread=unit * (fit.spread / overall if "D" in given else np.ones(M)),
            liveliness=fit.liveliness if "D" in given and fit.period else cold.liveliness,
            correlation=fit.correlation if "C" in given else cold.correlation,
            rows=fit.rows if "G" in given else 0,
        )
        field = SensorField(self.names, np.eye(M), 0.01, structure=model)
        posterior = StructuralPosterior(field)
        noise = fit.components.noise_variance * square
        posterior._noise = noise if "E" in given else cold.components.noise_variance
        posterior._table = guessed._replace(
            variance=np.maximum([np.diag(block).mean() for block in first], 1e-12),
            time=learned.time if "E" in given else guessed.time,
        )
        posterior._retain = posterior._table.retain(self.interval)
        posterior._covariance = PartsCovariance(
            model, posterior._table, np.array(first), stationary
        )
        posterior.reset()
        is_free = "F" in given
        width = LearningWidth(M, fit.rows if is_free else 0)
        policy = PartsAuto(AutoSettings(seed=seed), field, posterior, width)
        policy.is_free, policy._explores, policy._read[:] = is_free, not is_free, is_free
        return policy

    def regret(self, given: frozenset[str], run: int) -> Array:
        """Return the mean regret in each of ten blocks of time.

        The blocks cover the time from day 3 on or, if an interval is a day, the test year.
        """
        is_daily = self.day > 1
        shift = (run + run // 4) % 4  # 16 runs have 16 different pairs of start and guess
        begin = round(shift * (self.day / 4 if is_daily else SHIFT_DAYS))
        policy = self.policy(given, GUESSES[run % 4], run)
        regret = np.zeros(len(self.values))
        for t in range(begin, len(regret)):
            policy.set_time(self.start + t * self.interval)
            if self.is_read[t]:
                arm = policy.select().arm
                policy.observe(arm, float(self.values[t, arm]))
                regret[t] = self.values[t].max() - self.values[t, arm]
            policy.advance()
        scored = slice(2 * self.day if is_daily else self.rows, None)
        return block_means(regret[scored][self.is_read[scored]])


class Cell(NamedTuple):
    """A mean regret, and whether its difference from the first row of its table is significant."""

    mean: float
    is_significant: bool

    def __str__(self) -> str:
        return f"**{self.mean:.3f}**" if self.is_significant else f"{self.mean:.3f}"


def _places(experiment: ColdStart, name: str, runs: int) -> Iterator[Place]:
    """Yield the recording of each run; the sensors of a street network are drawn for each run."""
    if name in experiment._streets:
        for run in range(runs):
            yield Place(experiment._drawn_streets(np.random.default_rng([0, 104, run]))[name])
    else:
        splits = {"Intel": experiment._rooms["Intel 7-8"]} if name == "Intel" else None
        place = Place((splits or experiment._fields)[name])
        yield from [place] * runs


def _cells(regrets: dict[str, Array], rng: np.random.Generator) -> dict[str, Cell]:
    """Return the cell of each table row for one recording.

    The arrays in `regrets` have the shape (runs, blocks).
    """
    reference = next(iter(regrets.values()))
    cells = {}
    for row, each in regrets.items():
        behind, drawn = each - reference, np.empty(DRAWS)
        for draw in range(DRAWS):
            runs, blocks = (rng.integers(0, n, n) for n in each.shape)
            drawn[draw] = behind[np.ix_(runs, blocks)].mean()
        low, high = np.quantile(drawn, (0.025, 0.975))
        cells[row] = Cell(float(each.mean()), bool(low > 0.0 or high < 0.0))
    return cells


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", nargs="*", default=PLACES)
    parser.add_argument("--data-dir", action="append", default=[])
    parser.add_argument("--runs", type=int, default=16)
    options = parser.parse_args()
    directories = tuple(str(Path(each).resolve()) for each in options.data_dir)
    experiment = ColdStart(DataSource(datasets.find, directories))
    rng = np.random.default_rng(0)
    columns: list[dict[str, Cell]] = []
    for name in options.recordings:
        runs = min(options.runs, RUNS.get(name, options.runs))
        places = list(_places(experiment, name, runs))
        columns.append({})
        for table in (GIVEN, MISSING):
            regrets = {
                row: np.array([place.regret(given, run) for run, place in enumerate(places)])
                for row, given in table.items()
            }
            columns[-1] |= _cells(regrets, rng)
    for table in (GIVEN, MISSING):
        print("| given |", " | ".join(options.recordings), "|")
        print("| --- |" + " --- |" * len(columns))
        for row in table:
            print(f"| {row} |", " | ".join(str(column[row]) for column in columns), "|")
        print()


if __name__ == "__main__":
    main()
