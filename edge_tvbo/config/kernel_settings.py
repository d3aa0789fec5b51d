"""Kernel settings: the prior covariance of a field without a learned model."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

WITHOUT_LENGTH_SCALE = ("linear", "exchangeable")  # kernels


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """Prior covariance of two sensors: it depends on their positions, or is equal for all pairs."""

    name: Annotated[
        Literal["se", "matern-1/2", "matern-3/2", "matern-5/2", "linear", "exchangeable"],
        Meta(
            description='The shape of the covariance. "exchangeable": any two sensors have the same'
            " correlation, and no positions are needed.",
        ),
    ]
    length_scale: Annotated[
        float | None,
        Meta(
            gt=0,
            description="Distance over which the correlation falls, in m; every shape except"
            ' "linear" and "exchangeable" needs it.',
        ),
    ] = None
    correlation: Annotated[
        float,
        Meta(ge=0, lt=1, description='Correlation of any two sensors; only for "exchangeable".'),
    ] = 0.5
    variance: Annotated[
        float, Meta(gt=0, description="Prior variance of the field, in the square of its unit.")
    ]
    noise_variance: Annotated[
        float,
        Meta(
            gt=0,
            description="Variance of a sensor's noise, in the square of the unit. Most policies"
            " compute with a noise variance of at least 1e-10 times the largest prior variance,"
            " because less noise would amplify rounding errors.",
        ),
    ]
    mean: Annotated[
        float,
        Meta(description="The value that the field is expected to have on average, in its unit."),
    ]
