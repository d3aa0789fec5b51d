"""Settings of who chooses, and of what is believed of the field; see `settings`."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from edge_tvbo.config import field_types


class Beta(msgspec.Struct, frozen=True, kw_only=True):
    """An exploration weight that grows with time: c1 · ln(c2 · t)."""

    c1: Annotated[float, Meta(gt=0, description="The factor before the logarithm.")]
    c2: Annotated[float, Meta(gt=0, description="The factor inside it.")]


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters that policies take; each policy takes some of them and has its own defaults."""

    epsilon: Annotated[
        float | str | None,
        Meta(
            description="The share of the field that is new each interval; mtv-gp-ucb: left.",
            extra={
                "reads": field_types.share_or_fitted,
                "can": 'a number from 0 to 1, or "fitted"',
            },
        ),
    ] = None
    sigma_w2: Annotated[
        float | None, Meta(ge=0, description="Variance that the field gains in each interval.")
    ] = None
    alpha: Annotated[
        float | None,
        Meta(
            ge=0,
            lt=1,
            description="How much momentum is left each interval; w-dbo: by what share forgetting"
            " may change the future, each length of time that epsilon means.",
        ),
    ] = None
    tau: Annotated[
        float | str | None,
        Meta(
            description="The interval in the middle of a transition.",
            extra={"reads": field_types.interval_or_fitted, "can": 'a number, or "fitted"'},
        ),
    ] = None
    rho: Annotated[
        float | None, Meta(gt=0, description="How long a transition takes, in intervals.")
    ] = None
    window: Annotated[
        int | None, Meta(ge=1, le=4096, description="How many readings the model remembers.")
    ] = None
    period: Annotated[
        int | None, Meta(ge=1, description="Intervals between two planned resets.")
    ] = None
    delta_b: Annotated[
        float | None,
        Meta(
            gt=0,
            lt=1,
            description="How probably a static field may be taken for a changed one.",
        ),
    ] = None
    n_lower: Annotated[
        int | None, Meta(ge=1, description="No reset after fewer answers than this.")
    ] = None
    n_upper: Annotated[
        int | None, Meta(ge=1, description="Always a reset after this many answers.")
    ] = None
    trigger: Annotated[
        Literal["error-bound", "likelihood-ratio"] | None,
        Meta(description="The test that says the model is stale."),
    ] = None
    gamma: Annotated[
        float | None,
        Meta(
            gt=0,
            le=1,
            description="What a reading's weight is multiplied by each interval; rexp3: draws at"
            " random, as a share.",
        ),
    ] = None
    xi: Annotated[float | None, Meta(gt=0, description="How much uncertainty attracts d-ucb.")] = (
        None
    )
    length_scale: Annotated[
        float | str | None,
        Meta(
            description="The longest distance that may make a difference, in m.",
            extra={
                "reads": field_types.length_or_learned,
                "can": 'a number above 0; for auto "learned", from the sensors\' positions',
            },
        ),
    ] = None
    nu: Annotated[
        float | None, Meta(gt=0, description="Smoothness of the Matérn kernel that is scaled.")
    ] = None
    bound: Annotated[
        float | None, Meta(gt=0, description="The field's norm at most, in model units.")
    ] = None
    delta: Annotated[
        float | None, Meta(gt=0, lt=1, description="The probability of being wrong.")
    ] = None
    growth: Annotated[
        float | None, Meta(gt=0, le=1, description="How fast shorter length scales are tried.")
    ] = None
    samples: Annotated[
        int | None, Meta(ge=1, le=1000, description="Length scales drawn each interval.")
    ] = None
    keep_last: Annotated[
        bool | None,
        Meta(description="Whether the answer that fired outlives the reset."),
    ] = None
    noise_cap: Annotated[
        int | None, Meta(ge=1, description="Answers after which the noise margin grows no further.")
    ] = None
    beta: Annotated[
        float | str | Beta | None,
        Meta(
            description="How much uncertainty attracts: a constant, or one that grows with time.",
            extra={
                "reads": field_types.number_or_least_bound,
                "can": "a number above 0, a table { c1 = ..., c2 = ... }, or, for tv-gp-ucb, "
                '"least-bound"',
            },
        ),
    ] = None
    sensor: Annotated[
        str | None, Meta(description="The one that is always asked; static alone takes it.")
    ] = None
    seed: Annotated[
        int | None, Meta(ge=0, le=2**63 - 1, description="Starts the generator that breaks ties.")
    ] = None


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Who chooses the next sensor."""

    name: Annotated[
        str, Meta(description="A registered policy.", extra={"can": "the name of a policy"})
    ] = "auto"
    parameters: Annotated[dict[str, Any], Meta(extra={"rest": Parameters})] = {}  # by keyword


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """How alike the readings of two sensors are: by their distance, or all the same."""

    name: Annotated[
        Literal["se", "matern-1/2", "matern-3/2", "matern-5/2", "linear", "exchangeable"],
        Meta(
            description="The shape of the covariance; exchangeable needs no positions: any two"
            " sensors are equally alike.",
        ),
    ]
    length_scale: Annotated[
        float | None,
        Meta(
            gt=0,
            description="The distance that makes a difference, in m; every shape needs it but"
            " exchangeable.",
        ),
    ] = None
    correlation: Annotated[
        float,
        Meta(ge=0, lt=1, description="How alike any two sensors are; for exchangeable alone."),
    ] = 0.5
    variance: Annotated[float, Meta(gt=0, description="Prior variance of the field, in unit².")]
    noise_variance: Annotated[
        float, Meta(gt=0, description="Variance of a sensor's noise, in unit².")
    ]
    mean: Annotated[
        float, Meta(description="The value the field is expected to have on average, in unit.")
    ]
