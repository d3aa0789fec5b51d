"""Settings of the policies that learn the length scale of the field."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import Meta

from edge_tvbo.policy.settings import (
    BETA_HELP,
    BetaValue,
    KeptReadings,
    PolicySettings,
    Positive,
    Probability,
    UnusedParameter,
)

HYPERPRIOR = (3.0, 6.0)  # shape and rate: the defaults of BoTorch ([LB] section 5)
Exponent = Annotated[float, Meta(ge=0, le=2)]
PositivePair = tuple[Positive, Positive]

LengthScale = Annotated[
    Positive | None,
    Meta(
        description="The longest length scale considered, in the unit of the positions. If no "
        "length scale is set, the longest side of the field's area is used."
    ),
]
FirstLengthScale = Annotated[
    Positive | None,
    Meta(
        description="Length scale from which the first fit starts, in the unit of the positions. "
        "If no length scale is set, the longest side of the field's area is used."
    ),
]
Smoothness = Annotated[
    Positive,
    Meta(
        description="Smoothness ν of the Matérn kernel. Above 100 the kernel is the squared "
        "exponential.",
        extra={"infinity": True},
    ),
]
NormBound = Annotated[
    Positive,
    Meta(
        description="Bound on the norm of the field for the longest length scale, in units of "
        "the prior standard deviation."
    ),
]
FailureProbability = Annotated[
    Probability, Meta(description="Probability that a confidence bound is wrong.")
]
GrowthExponent = Annotated[
    Exponent,
    Meta(
        description="Exponent a in g(t) = max(t0, t^a). In interval t, the shortest length scale "
        "considered is the longest one divided by g(t). The constant t0 is chosen so that there "
        "are five candidate length scales at the start."
    ),
]
NormGrowth = Annotated[
    Exponent,
    Meta(
        description="Exponent c: in interval t, the parameter `bound` is multiplied by t^c. So "
        "if c is above 0, larger norms are considered in later intervals."
    ),
]
Ratio = Annotated[
    Annotated[float, Meta(gt=1, le=100)] | None,
    Meta(
        description="Ratio of each candidate length scale to the next shorter candidate. If no "
        "ratio is set, e^(1/d) is used in d dimensions ([LB] definition 3.1)."
    ),
]
HYPERPRIOR_HELP = (
    "Shape and rate of the Gamma prior of r, where r is the length scale divided by the longest "
    "side of the field's area."
)
HyperPrior = Annotated[PositivePair | None, Meta(description=HYPERPRIOR_HELP)]
OptionalHyperPrior = Annotated[
    PositivePair | None,
    Meta(description=f"{HYPERPRIOR_HELP} If the pair is not set, there is no prior."),
]
RegressionBeta = Annotated[
    BetaValue | None,
    Meta(
        description=f"{BETA_HELP} If `beta` is not set, the width is B + σ √(2(γ + 1 + ln 1/δ)), "
        "with the bound B on the norm, the standard deviation σ of the noise, the information gain "
        "γ of the readings, and δ = `delta` ([LB] theorem 2.1). This width is called the agnostic "
        "width."
    ),
]


def _of_agnostic_width(beta: BetaValue | None, *more: str) -> Iterator[UnusedParameter]:
    """If `beta` is set, yield the parameters that only the agnostic width uses, as unused.

    A policy with a `beta` does not use the agnostic width. Then `bound`, `delta` and the parameters
    named in `more` have no effect.
    """
    for parameter in ("bound", "delta", *more) if beta is not None else ():
        yield UnusedParameter(parameter, "beta is set, which replaces the agnostic width")


class LengthScaleSettings(PolicySettings, frozen=True, kw_only=True):
    """The common parameters of the policies that learn the length scale."""

    needs_positions: ClassVar[bool] = True

    length_scale: LengthScale = None
    nu: Smoothness = 2.5
    bound: NormBound = 1.0
    delta: FailureProbability = 0.1
    beta: RegressionBeta = None
    window: KeptReadings = 256


class CandidateSettings(LengthScaleSettings, frozen=True, kw_only=True):
    """The common parameters of the policies whose length scales become shorter with time."""

    growth: GrowthExponent = 0.5
    ratio: Ratio = None


class FitSettings(LengthScaleSettings, frozen=True, kw_only=True):
    """The common parameters of the policies that fit the length scale to the readings."""

    length_scale: FirstLengthScale = None

    def unused(self) -> Iterator[UnusedParameter]:
        """Yield the fit's unused parameters, `bound` and `delta`, if `beta` is set."""
        yield from _of_agnostic_width(self.beta)


class AGpUcbSettings(CandidateSettings, frozen=True, kw_only=True, tag="a-gp-ucb"):
    """A-GP-UCB: the length scale shrinks on a schedule (Berkenkamp, Schoellig & Krause 2019).

    In interval t, the length scale is θ_t = θ0 / g(t), and the bound on the norm is B_t = b(t)
    g(t)^d B0 for positions of d dimensions. θ0 is the parameter `length_scale`, and B0 is the
    parameter `bound`. The parameters `growth` and `norm_growth` determine g(t) and b(t).
    """

    maker: ClassVar[str] = "edge_tvbo.policy.unknown_length_scale.policies:make_a_gp_ucb"

    norm_growth: NormGrowth = 0.0

    def unused(self) -> Iterator[UnusedParameter]:
        """Yield `bound`, `delta` and `norm_growth`, which A-GP-UCB ignores if `beta` is set."""
        yield from _of_agnostic_width(self.beta, "norm_growth")


class LbGpUcbSettings(CandidateSettings, frozen=True, kw_only=True, tag="lb-gp-ucb"):
    """LB-GP-UCB: chooses among length scales by regret balancing ([LB] algorithm 1)."""

    maker: ClassVar[str] = "edge_tvbo.policy.unknown_length_scale.policies:make_lb_gp_ucb"


class LnbGpUcbSettings(CandidateSettings, frozen=True, kw_only=True, tag="lnb-gp-ucb"):
    """LNB-GP-UCB: chooses among length scales and norms by regret balancing ([LB] algorithm 3)."""

    maker: ClassVar[str] = "edge_tvbo.policy.unknown_length_scale.policies:make_lnb_gp_ucb"

    norm_growth: NormGrowth = 0.5


class MleGpUcbSettings(FitSettings, frozen=True, kw_only=True, tag="mle-gp-ucb"):
    """GP-UCB with a length scale fitted to the readings by maximum likelihood ([LB] section 5)."""

    maker: ClassVar[str] = "edge_tvbo.policy.unknown_length_scale.policies:make_mle_gp_ucb"

    prior: OptionalHyperPrior = None


class McmcGpUcbSettings(FitSettings, frozen=True, kw_only=True, tag="mcmc-gp-ucb"):
    """GP-UCB with bounds averaged over sampled length scales ([LB] section 5)."""

    maker: ClassVar[str] = "edge_tvbo.policy.unknown_length_scale.policies:make_mcmc_gp_ucb"

    prior: HyperPrior = HYPERPRIOR
    samples: Annotated[
        int,
        Meta(ge=1, le=1024, description="Number of length scales that each fit draws."),
    ] = 8


LEARNED_LENGTH_SCALE = (
    AGpUcbSettings,
    LbGpUcbSettings,
    LnbGpUcbSettings,
    MleGpUcbSettings,
    McmcGpUcbSettings,
)
