"""Posterior selection: the fastest implementation for a field and a temporal model.

The exact posterior of `MAX_EXACT_SENSORS` sensors takes a tenth of a millisecond per interval. The
cost grows with the square of the number of sensors, and faster once the processor's cache is full.
With more than `MAX_EXACT_SENSORS` sensors, `LowRankPosterior` is used if few components explain the
sensors' covariance; the docstring of that class states the error.

Only the selected implementation is imported, so that the numba functions of the other
implementations are neither loaded nor compiled.
"""

from typing import TYPE_CHECKING

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.regression import require_scipy
from edge_tvbo.models.temporal_models import Static, TwoComponentTransition

if TYPE_CHECKING:
    from edge_tvbo.models.arm_space import Field
    from edge_tvbo.models.posteriors.base import Posterior, SkippingPosterior
    from edge_tvbo.models.temporal_models import (
        FittableModel,
        TemporalModel,
        TimeVarying,
        Transition,
    )

MAX_EXACT_SENSORS = 500  # up to 500 sensors, the posterior is always exact
DEFAULT_FIT_WINDOW = 200  # number of readings that a fit uses
DEFAULT_BOX_WINDOW = 256  # number of readings held for a box
PRIOR_SHAPE, PRIOR_RATE = 3.0, 6.0  # Gamma prior of length scale / side of the box, as in BoTorch
UNITS_PER_SIDE = 12.0  # a fitted length scale is 1/24 to 1 times the side of the box


def make_posterior(
    field: "Field", temporal: "TemporalModel", window: int | None = None
) -> "SkippingPosterior":
    """Return the fastest posterior of `field` under a temporal model.

    The posterior is exact for the readings that it holds, with one exception: if a sensor field has
    more than `MAX_EXACT_SENSORS` sensors, the posterior can be a `LowRankPosterior`.

    Parameters
    ----------
    field : SensorField or BoxField
        Arms, spatial prior and noise variance.
    temporal : TemporalModel
        How the field changes.
    window : int or None
        Largest number of readings held; older readings are dropped ([M24] section 11.1). None means
        256 readings for a box, and all readings for a sensor field.

    Raises
    ------
    ConfigError
        If `window` is below 1; or if the length scales of a box are to be fitted, but its kernel is
        not a squared exponential.
    """
    if not isinstance(field, SensorField):
        return _by_regression(field, temporal, DEFAULT_BOX_WINDOW if window is None else window)
    transition = temporal.transition()
    if isinstance(transition, TwoComponentTransition):
        if window is not None:
            return _by_regression(field, temporal, window)
        from edge_tvbo.models.posteriors.two_component import TwoComponentPosterior

        return TwoComponentPosterior(field, transition)
    if window is None:
        return _of_all_readings(field, transition)
    from edge_tvbo.models.posteriors.window import WindowPosterior

    return WindowPosterior(field, transition, window)


def make_fitted_posterior(
    field: "Field", temporal: "FittableModel", window: int | None, seed: int
) -> "SkippingPosterior":
    """Return the posterior that fits the temporal model to the last `window` readings.

    The first fit starts from `temporal`. A `window` of None means 200 readings. `seed` is the seed
    of the random starts.
    """
    from edge_tvbo.models.posteriors.regression_posterior import FittedPosterior

    require_scipy()  # if scipy is missing, raises now, and not at the first fit
    held = DEFAULT_FIT_WINDOW if window is None else window
    _check_given(field, "A policy that estimates the rate of change")
    return FittedPosterior(field, temporal, held, seed=seed)


def make_weighted_posterior(field: "Field", window: int, gamma: float) -> "SkippingPosterior":
    """Return the posterior of a static field in which readings lose weight with age.

    Each interval multiplies the weight of a reading by `gamma`; at most `window` readings are held.
    """
    if not isinstance(field, SensorField):
        from edge_tvbo.models.posteriors.regression_posterior import RegressionPosterior

        _check_given(field, "A policy that weighs readings by their age")
        return RegressionPosterior(field, Static(), window, gamma=gamma)
    from edge_tvbo.models.posteriors.weighted import WeightedPosterior

    return WeightedPosterior(field, window, gamma)


def make_pruned_posterior(
    field: "Field", temporal: "TimeVarying", window: int, alpha: float
) -> "Posterior":
    """Return the posterior that removes the readings which matter least for the predictions.

    `alpha` limits the change that the removals may cause in the predictions. At most `window`
    readings are held. If the length scales of a box are to be fitted, the rate of change, the
    variance and the noise are fitted, too.
    """
    from edge_tvbo.models.posteriors.pruned import PrunedPosterior, PrunedWindowPosterior

    if not isinstance(field, SensorField):
        if field.length_scales == "given":
            return PrunedPosterior(field, temporal, window, alpha=alpha)
        from edge_tvbo.models.posteriors.fitted_pruned import FittedPrunedPosterior

        require_scipy()  # if scipy is missing, raises now, and not at the first fit
        return FittedPrunedPosterior(field, temporal, window, alpha=alpha)
    return PrunedWindowPosterior(field, temporal, window, alpha=alpha)


def _by_regression(field: "Field", temporal: "TemporalModel", window: int) -> "SkippingPosterior":
    from edge_tvbo.models.posteriors.regression_posterior import RegressionPosterior

    require_scipy()  # if scipy is missing, raises now, and not at the first prediction
    if isinstance(field, SensorField) or field.length_scales == "given":
        return RegressionPosterior(field, temporal, window)
    from edge_tvbo.models.posteriors.fitted_length_scales import ArdMapPosterior

    return ArdMapPosterior(
        field,
        temporal,
        window,
        units=((field.upper - field.lower) / UNITS_PER_SIDE).tolist(),
        shape=PRIOR_SHAPE,
        rate=PRIOR_RATE / UNITS_PER_SIDE,
    )


def _check_given(field: "Field", policy: str) -> None:
    """Raise `ConfigError` if `field` is a box whose length scales are to be fitted.

    A policy that cannot fit length scales needs this check. A sentence of the message begins with
    `policy`.
    """
    if not isinstance(field, SensorField) and field.length_scales == "fitted":
        raise ConfigError(
            f'length_scales is "fitted". {policy} cannot fit the length scales of a box. Pass '
            'length_scales="given", or choose gp-ucb, tv-gp-ucb with a number as epsilon, ui-tvbo, '
            "et-gp-ucb, r-gp-ucb, mtv-gp-ucb or w-dbo."
        )


def _of_all_readings(field: SensorField, transition: "Transition") -> "SkippingPosterior":
    from edge_tvbo.models.posteriors.state_space import StateSpacePosterior

    retain, inject = transition
    bounded = retain + inject <= 1.0  # a growing prior would increase the low-rank error
    if not bounded or len(field) <= MAX_EXACT_SENSORS:
        return StateSpacePosterior(field, transition)
    from edge_tvbo.models.posteriors.low_rank import KernelComponents, LowRankPosterior

    components = KernelComponents.of_field(field)
    if components is None:
        return StateSpacePosterior(field, transition)
    return LowRankPosterior(field, transition, components)
