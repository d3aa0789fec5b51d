"""Fields that are drawn from a structural model."""

from collections.abc import Iterator

import numpy as np

from edge_tvbo.models.structural_model import StructuralModel, component_table, harmonics_for
from edge_tvbo.numerics.structural import loadings
from edge_tvbo.numerics.types import Array


def draw_values(model: StructuralModel, generator: np.random.Generator) -> Iterator[Array]:
    """Yield the values (M,) of all sensors in each interval, from midnight on, without end.

    The liveliness is 1 at all times, the course is 0 and the spread 1.
    """
    M = len(model.spread)
    table = component_table(model.components, harmonics_for(M))
    correlations = [c + (1.0 - c) * model.correlation for c in table.common]
    roots = np.array([np.linalg.cholesky(each + 1e-12 * np.eye(M)) for each in correlations])
    roots *= np.sqrt(table.variance)[:, None, None]
    retain = table.retain(model.interval)[:, None]
    load = np.zeros(len(retain))
    number = 0

    def draw() -> Array:
        return np.einsum("aij,aj->ai", roots, generator.standard_normal((len(load), M)))

    state = draw()
    while True:
        phase = number * model.interval % model.season_period / model.season_period
        loadings(table.harmonic, table.kind, phase, 1.0, load)
        yield load @ state
        state = retain * state + np.sqrt(1.0 - retain**2) * draw()
        number += 1
