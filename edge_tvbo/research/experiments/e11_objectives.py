"""Objectives of E11: functions on a box, and the materials data of a file.

The materials data of the paper are used if a data directory contains their files:
``Crossed barrel_dataset.csv`` (Gongora et al. 2020; 4 inputs; the objective is toughness) and
``AgNP_dataset.csv`` (Mekki-Berrada et al. 2021; 5 inputs; the objective is a loss). Both files are
in the directory ``datasets`` of github.com/PV-Lab/Benchmarking (Liang et al. 2021, Benchmarking the
performance of Bayesian optimization across multiple experimental materials science domains). A file
needs a header, and the objective in the last column.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edge_tvbo.errors import DataError
from edge_tvbo.models.arm_space import Arm, Field
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.research.experiments.benchmark_functions import Landscape

NU = 2.5
NOISE_VARIANCE = 1e-4  # noise variance of the model; readings have no noise
SOURCE = "github.com/PV-Lab/Benchmarking"


class MaterialsFile(NamedTuple):
    """The file names of a materials dataset, the sign of its objective, and its number of runs."""

    names: tuple[str, ...]
    sign: float  # -1 if the objective is to be minimised
    runs: int

    def find(self, directories: tuple[str, ...]) -> Path | None:
        """Return the path of the materials file for experiment E11; None if no directory has it."""
        paths = (Path(each).expanduser() / name for each in directories for name in self.names)
        return next((path for path in paths if path.is_file()), None)


FILES = {
    "CrossedBarrel": MaterialsFile(("Crossed barrel_dataset.csv", "crossed_barrel.csv"), 1.0, 10),
    "AGNP": MaterialsFile(("AgNP_dataset.csv", "agnp.csv"), -1.0, 20),
}


class ObjectiveFunction(NamedTuple):
    """A function of experiment E11 that is to be maximised."""

    name: str
    field: Field  # the unit box, or finitely many arms within it
    value: Callable[[Arm], float]
    initial_points: Callable[[np.random.Generator], list[Arm]]
    maximum: float
    runs: int
    growths: tuple[float, ...]


def landscape_objective(
    name: str, landscape: Landscape, initial: int, runs: int, growths: tuple[float, ...]
) -> ObjectiveFunction:
    """Return the objective of a benchmark function; a run begins at `initial` random points."""
    d, sides = len(landscape.lower), landscape.upper - landscape.lower
    candidates = 128 if d == 1 else 256
    return ObjectiveFunction(
        name,
        BoxField([0.0] * d, [1.0] * d, SpatialKernel(NU), NOISE_VARIANCE, candidates=candidates),
        lambda arm: float(landscape.evaluate(landscape.lower + np.array(arm) * sides)),
        lambda generator: [tuple(place) for place in generator.random((initial, d)).tolist()],
        landscape.maximum,
        runs,
        growths,
    )


def materials_objective(
    name: str, path: Path, sign: float, runs: int, growths: tuple[float, ...]
) -> ObjectiveFunction:
    """Return the objective in the last column of a file of materials data.

    The other columns are the inputs. The last column is multiplied by `sign`. Rows with the same
    inputs are one arm; the value of the arm is the mean of the distinct values in these rows, as in
    the public code of [LB].
    """
    places, values = _table(path)
    values = sign * values
    spans = np.ptp(places, axis=0)
    field = SensorField(
        [f"arm {i}" for i in range(len(places))],
        np.eye(len(places)),  # only the variance is used
        NOISE_VARIANCE,
        positions=(places - places.min(axis=0)) / np.where(spans > 0, spans, 1.0),
    )
    return ObjectiveFunction(
        name,
        field,
        lambda arm: float(values[arm]),
        lambda generator: generator.choice(len(places), 10, replace=False).tolist(),
        float(values.max()),
        runs,
        growths,
    )


def _table(path: Path) -> tuple[Array, Array]:
    values: dict[tuple[float, ...], set[float]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        try:
            for line in list(csv.reader(file))[1:]:
                *inputs, value = map(float, line)
                values.setdefault(tuple(inputs), set()).add(value)
            places = np.array(list(values))
        except ValueError as error:
            raise DataError(f"{path}: {error}; inputs and objective must be numbers.") from None
    if places.ndim != 2 or len(places) < 10:
        raise DataError(
            f"{path} has {len(places)} different inputs. The file needs a header and at least 10 "
            "different inputs."
        )
    return places, np.array([sum(sorted(each)) / len(each) for each in values.values()])
