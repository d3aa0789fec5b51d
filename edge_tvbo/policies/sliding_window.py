"""Upper confidence bounds on the last readings alone."""

from edge_tvbo.model.exploration import AgnosticBeta, Beta, exploration
from edge_tvbo.model.field import SensorField
from edge_tvbo.model.posterior import WindowPosterior
from edge_tvbo.model.temporal import Static
from edge_tvbo.model.triggers import Never
from edge_tvbo.policies.policy import UpperConfidence


def sliding_window(
    name: str,
    field: SensorField,
    *,
    window: int = 32,
    beta: Beta | None = None,
    seed: int = 0,
) -> UpperConfidence:
    """Give SW-GP-UCB ([ZS21] algorithm 2), which remembers the last `window` readings.

    Without `beta` the width is B + R√(2(γ + 1 + ln 1/δ)), as in `AgnosticBeta.of_noise`.
    """
    width = AgnosticBeta.of_noise(field, window) if beta is None else exploration(beta)
    posterior = WindowPosterior(field, Static(), window)
    return UpperConfidence(name, field, posterior, width, Never(), seed=seed)
