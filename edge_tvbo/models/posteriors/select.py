"""Which engine carries a model: the fastest exact one there is for the field and its kernel.

The exact posterior of `CROSSING` sensors takes a tenth of a millisecond an interval, which nobody
notices; its cost grows with their square and, beyond the processor's cache, faster. Of more sensors
that few components make up, those carry the posterior of a prior that does not grow:
`LowRankPosterior` says how close it is.

An engine is imported when it is chosen: the kernels of the others need not be loaded, or compiled.
"""

from typing import TYPE_CHECKING

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.state_space import StateSpacePosterior
from edge_tvbo.models.temporal_models import (
    FittableKernel,
    MomentumKernel,
    SigmoidKernel,
    StaticKernel,
    TemporalKernel,
    TimeVaryingKernel,
    WienerKernel,
)
from edge_tvbo.models.transitions import Static, TimeVarying, Transition, UncertaintyInjection

if TYPE_CHECKING:
    from edge_tvbo.models.domain import Field
    from edge_tvbo.models.posteriors.low_rank import LowRankPosterior
    from edge_tvbo.models.posteriors.state_space import Posterior

CROSSING = 500  # sensors up to which the posterior is exact in any case
FIT_WINDOW = 200  # readings that a fit learns from, likewise
WINDOW = 256  # readings held in a box, where nobody says how many


def engine(field: "Field", temporal: TemporalKernel, window: int | None = None) -> "Posterior":
    """Give the posterior of `field` under `temporal`, of the last `window` readings.

    Among sensors and without `window` all readings count, for ever, exactly or, of very many
    sensors, as `LowRankPosterior` says. With it, the approximation is the one of [M24] section
    11.1: covariances beyond a band of `window` readings are taken for 0.
    """
    if not isinstance(field, SensorField):
        return _by_regression(field, temporal, WINDOW if window is None else window)
    transition = _transition(temporal)
    if window is None:
        return _of_all_readings(field, transition) if transition else _of_pairs(field, temporal)
    if transition is None:
        return _by_regression(field, temporal, window)
    from edge_tvbo.models.posteriors.window import WindowPosterior

    return WindowPosterior(field, transition, window)


def fitted_engine(
    field: "Field", temporal: FittableKernel, window: int | None, seed: int
) -> "Posterior":
    """Give the posterior of the last `window` readings, `temporal` being fitted to them."""
    from edge_tvbo.models.posteriors.regression_posterior import FittedPosterior

    held = FIT_WINDOW if window is None else window
    return FittedPosterior(field, temporal, held, seed=seed)


def weighted_engine(field: "Field", window: int, gamma: float) -> "Posterior":
    """Give the posterior of a still field to which old readings count for less, by `gamma`."""
    if not isinstance(field, SensorField):
        from edge_tvbo.models.posteriors.regression_posterior import KernelPosterior

        return KernelPosterior(field, StaticKernel(), window, gamma=gamma)
    from edge_tvbo.models.posteriors.weighted import WeightedPosterior

    return WeightedPosterior(field, window, gamma)


def pruned_engine(
    field: "Field", temporal: TimeVaryingKernel, window: int, alpha: float
) -> "Posterior":
    """Give the posterior of the readings that the future would miss, `window` at most."""
    from edge_tvbo.models.posteriors.pruned import PrunedPosterior, PrunedWindowPosterior

    if not isinstance(field, SensorField):
        return PrunedPosterior(field, temporal, window, alpha=alpha)
    return PrunedWindowPosterior(field, temporal.epsilon, window, alpha=alpha)


def _by_regression(field: "Field", temporal: TemporalKernel, window: int) -> "Posterior":
    from edge_tvbo.models.posteriors.regression_posterior import KernelPosterior

    return KernelPosterior(field, temporal, window)


def _of_all_readings(
    field: SensorField, transition: Transition
) -> "StateSpacePosterior | LowRankPosterior":
    retain, inject = transition
    bounded = retain + inject <= 1.0  # else what components leave out grows with the prior
    if not bounded or len(field) <= CROSSING:
        return StateSpacePosterior(field, transition)
    from edge_tvbo.models.posteriors.low_rank import Components, LowRankPosterior

    components = Components.of(field)
    if components is None:
        return StateSpacePosterior(field, transition)
    return LowRankPosterior(field, transition, components)


def _of_pairs(field: SensorField, temporal: TemporalKernel) -> "Posterior":
    from edge_tvbo.models.posteriors.two_component import Momentum, Sigmoid, TwoComponentPosterior

    match temporal:
        case MomentumKernel(epsilon, alpha):
            return TwoComponentPosterior(field, Momentum(epsilon, alpha))
        case SigmoidKernel(tau, rho):
            return TwoComponentPosterior(field, Sigmoid(tau, rho))
    raise TypeError(f"{temporal} moves by no transition, of one component or two")


def _transition(temporal: TemporalKernel) -> Transition | None:
    match temporal:
        case StaticKernel():
            return Static()
        case TimeVaryingKernel(epsilon):
            return TimeVarying(epsilon)
        case WienerKernel(sigma_w2):
            return UncertaintyInjection(sigma_w2)
        case _:
            return None
