"""Which engine carries a model: the fastest exact one there is for the field and its kernel.

The exact posterior of `CROSSING` sensors takes a tenth of a millisecond an interval, which nobody
notices; its cost grows with their square and, beyond the processor's cache, faster. Of more sensors
that few components make up, those carry the posterior of a prior that does not grow:
`LowRankPosterior` says how close it is.
"""

from edge_tvbo.model.box import BoxField
from edge_tvbo.model.domain import Field
from edge_tvbo.model.field import SensorField
from edge_tvbo.model.kernel_posterior import FittedPosterior, KernelPosterior
from edge_tvbo.model.low_rank_posterior import Components, LowRankPosterior
from edge_tvbo.model.pair import Momentum, PairPosterior, Sigmoid
from edge_tvbo.model.posterior import Posterior, StateSpacePosterior, WindowPosterior
from edge_tvbo.model.relevance import PrunedPosterior, PrunedWindow
from edge_tvbo.model.temporal import Static, TimeVarying, Transition, UncertaintyInjection
from edge_tvbo.model.temporal_kernels import (
    FittableKernel,
    MomentumKernel,
    SigmoidKernel,
    StaticKernel,
    TemporalKernel,
    TimeVaryingKernel,
    WienerKernel,
)
from edge_tvbo.model.weighted_posterior import WeightedPosterior

CROSSING = 500  # sensors up to which the posterior is exact in any case
FIT_WINDOW = 200  # readings that a fit learns from, likewise
WINDOW = 256  # readings held in a box, where nobody says how many


def engine(field: Field, temporal: TemporalKernel, window: int | None = None) -> Posterior:
    """Give the posterior of `field` under `temporal`, of the last `window` readings.

    Among sensors and without `window` all readings count, for ever, exactly or, of very many
    sensors, as `LowRankPosterior` says. With it, the approximation is the one of [M24] section
    11.1: covariances beyond a band of `window` readings are taken for 0.
    """
    if isinstance(field, BoxField):
        return KernelPosterior(field, temporal, WINDOW if window is None else window)
    match temporal:
        case MomentumKernel(epsilon, alpha) if window is None:
            return PairPosterior(field, Momentum(epsilon, alpha))
        case SigmoidKernel(tau, rho) if window is None:
            return PairPosterior(field, Sigmoid(tau, rho))
    transition = _transition(temporal)
    if transition is None:
        assert window is not None
        return KernelPosterior(field, temporal, window)
    if window is None:
        return _of_all_readings(field, transition)
    return WindowPosterior(field, transition, window)


def fitted_engine(
    field: Field, temporal: FittableKernel, window: int | None, seed: int
) -> Posterior:
    """Give the posterior of the last `window` readings, `temporal` being fitted to them."""
    held = FIT_WINDOW if window is None else window
    return FittedPosterior(field, temporal, held, seed=seed)


def weighted_engine(field: Field, window: int, gamma: float) -> Posterior:
    """Give the posterior of a still field to which old readings count for less, by `gamma`."""
    if isinstance(field, BoxField):
        return KernelPosterior(field, StaticKernel(), window, gamma=gamma)
    return WeightedPosterior(field, window, gamma)


def pruned_engine(
    field: Field, temporal: TimeVaryingKernel, window: int, alpha: float
) -> Posterior:
    """Give the posterior of the readings that the future would miss, `window` at most."""
    if isinstance(field, BoxField):
        return PrunedPosterior(field, temporal, window, alpha=alpha)
    return PrunedWindow(field, temporal.epsilon, window, alpha=alpha)


def _of_all_readings(
    field: SensorField, transition: Transition
) -> StateSpacePosterior | LowRankPosterior:
    retain, inject = transition
    bounded = retain + inject <= 1.0  # else what components leave out grows with the prior
    components = Components.of(field) if bounded and len(field) > CROSSING else None
    if components is None:
        return StateSpacePosterior(field, transition)
    return LowRankPosterior(field, transition, components)


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
