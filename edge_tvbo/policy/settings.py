"""Policy settings: one frozen struct per policy, with its parameters, their ranges and defaults.

These structs are the only definition of a policy's parameters. `make_policy`, the configuration
file, `edge-tvbo config explain`, the JSON schema and docs/configuration.md all read them. A value
is checked once: when the configuration is decoded, or when the value is passed to `make_policy`.
The maker, which is the function that builds the policy, does not check the struct again. This
module does not import numpy, so that a configuration is checked quickly.

A new policy needs a module with a maker. It also needs a struct in this module and a line in
`BUILT_IN`. A policy of another package has its struct in that package, and needs an entry point in
the group ``edge_tvbo.policies`` that refers to the struct.

Papers: [B16] Bogunovic, Scarlett & Cevher 2016; [ET] Brunzema et al., event-triggered time-varying
Bayesian optimization; [LB] Ziomek, Adachi & Osborne 2024; [M24] Mandl 2024; [ZS21] Zhou & Shroff
2021. Full titles are in docs/references.md.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta

from edge_tvbo.errors import hint
from edge_tvbo.models.beta import DEFAULT_BETA, LogBeta

HYPERPRIOR = (3.0, 6.0)  # shape and rate: the defaults of BoTorch ([LB] section 5)
FITTED = "fitted"

Positive = Annotated[float, Meta(gt=0)]
Probability = Annotated[float, Meta(gt=0, lt=1)]
Count = Annotated[int, Meta(ge=1)]
WindowLength = Annotated[int, Meta(ge=1, le=4096)]
Share = Annotated[float, Meta(ge=0, le=1)]
Exponent = Annotated[float, Meta(ge=0, le=2)]
PositivePair = tuple[Positive, Positive]

if TYPE_CHECKING:  # in Python, the parameter `beta` may also be any schedule object
    from edge_tvbo.models.beta import BetaSchedule

    BetaValue = float | BetaSchedule
else:
    BetaValue = Positive | LogBeta

_BETA_HELP = (
    "Exploration weight: a constant, or c1 · ln(c2 · t) in interval t, with c1 and c2 above 0. "
    "A larger weight explores more."
)
Beta = Annotated[BetaValue, Meta(description=_BETA_HELP)]
BetaOrAgnostic = Annotated[
    BetaValue | None,
    Meta(
        description=f"{_BETA_HELP} If it is not set, the width is the agnostic one, "
        "1 + σ √(2(γ + 1 + ln 10)), with the standard deviation σ of the noise and the "
        "information gain γ."
    ),
]
Window = Annotated[
    WindowLength | None,
    Meta(
        description="Number of newest readings that the model keeps. If it is not set, the model "
        "keeps all readings, or 256 on a `BoxField`."
    ),
]
FitWindow = Annotated[
    WindowLength | None,
    Meta(
        description="Number of newest readings that the model keeps. If it is not set, the model "
        "keeps all readings, or 200 if a parameter is fitted, or 256 on a `BoxField`."
    ),
]
KeptReadings = Annotated[
    WindowLength, Meta(description="Number of newest readings that the model keeps.")
]


class Conflict(NamedTuple):
    """Two parameters whose values are allowed separately, but not together."""

    parameter: str  # parameter for which the error is reported
    problem: str  # such as "is 9; allowed: at most n_upper, 8"


class PolicySettings(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="name", forbid_unknown_fields=True
):
    """Parameters of one policy; the tag of the struct is the registered name of the policy.

    Attributes
    ----------
    maker : str
        Name of the function that builds the policy, ``"package.module:function"``. It is called
        with the settings and the field, and returns a `Policy`.
    needs_positions : bool
        Whether the policy needs sensor positions, to learn how fast the field changes in space.
    """

    maker: ClassVar[str]
    needs_positions: ClassVar[bool] = False

    seed: Annotated[
        int,
        Meta(
            ge=0,
            le=2**63 - 1,
            description="Seed of the random draws, such as those that break ties.",
        ),
    ] = 0

    @property
    def name(self) -> str:
        """The registered name of the policy."""
        return str(self.__struct_config__.tag)

    def conflicts(self) -> Iterator[Conflict]:
        """Yield each pair of the policy's parameters whose values contradict each other."""
        yield from ()

    def field_conflicts(self, sensors: Collection[str], has_positions: bool) -> Iterator[Conflict]:
        """Yield each parameter that is impossible in a field with these `sensors`."""
        if self.needs_positions and not has_positions:
            yield Conflict(
                "name",
                f'is "{self.name}", which learns how the field changes in space; add'
                " positions = { id = [x, y], ... }, or choose another policy, such as auto",
            )


class AutoSettings(PolicySettings, frozen=True, kw_only=True, tag="auto"):
    """Learns level, course, season and rates of change of each sensor from the readings.

    It needs no rate of change and no reset times. Recorded training days, if there are any, are
    what it has heard first. With more than 500 sensors, its model has low rank. In a field without
    a structural model, it is a mixture of static and changing models.
    """

    maker: ClassVar[str] = "edge_tvbo.policy.auto:make_auto"

    delta_b: Annotated[
        Probability,
        Meta(
            description="Probability that the event trigger resets the static model although the "
            "field did not change."
        ),
    ] = 0.1
    length_scale: Annotated[
        Literal["learned"] | None,
        Meta(
            description="Whether the length scale is learned too; this needs sensor positions. "
            "If it is learned, only the variance of the trained model is used, not its kernel "
            "or course."
        ),
    ] = None
    beta: Annotated[
        BetaValue | None,
        Meta(
            description=f"{_BETA_HELP} If it is not set, the bound becomes narrower while the "
            "policy learns: from 1 to 0.5 standard deviations."
        ),
    ] = None

    def field_conflicts(self, sensors: Collection[str], has_positions: bool) -> Iterator[Conflict]:
        """Yield a conflict if the length scale is to be learned without positions."""
        if self.length_scale is not None and not has_positions:
            yield Conflict(
                "length_scale",
                f'is "{self.length_scale}", which needs positions = {{ id = [x, y], ... }}',
            )


class KalmanUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="kalman-ucb"):
    """The textbook baseline: the mean by time of day, and a Kalman filter around it.

    Without training days, the mean is constant.
    """

    maker: ClassVar[str] = "edge_tvbo.policy.kalman_ucb:make_kalman_ucb"

    width: Annotated[
        float,
        Meta(
            ge=0,
            le=100,
            description="Width of the confidence bound in standard deviations. `compare` and "
            "`replay` choose it on the last quarter of the training days.",
        ),
    ] = 0.5


class GpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="gp-ucb"):
    """GP-UCB: assumes that the field is constant (Srinivas et al. 2010; [M24] algorithm 1)."""

    maker: ClassVar[str] = "edge_tvbo.policy.gp_ucb:make_gp_ucb"

    window: Window = None
    beta: Beta = DEFAULT_BETA


class TvGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="tv-gp-ucb"):
    """TV-GP-UCB: a share of the field is new in each interval ([B16] algorithm 2)."""

    maker: ClassVar[str] = "edge_tvbo.policy.gp_ucb:make_tv_gp_ucb"

    epsilon: Annotated[
        Share | Literal["fitted"],
        Meta(
            description='Share of the field that is new in each interval. With "fitted" it is the '
            "maximum-likelihood estimate from the readings ([B16] appendix B)."
        ),
    ] = 0.03
    window: FitWindow = None
    beta: Annotated[
        BetaValue | Literal["least-bound"],
        Meta(
            description=f'{_BETA_HELP} With "least-bound" it is the constant for which '
            "[M24] theorem 4.1 proves the smallest regret bound."
        ),
    ] = DEFAULT_BETA

    def conflicts(self) -> Iterator[Conflict]:
        """Yield a conflict if `beta` is "least-bound" and `epsilon` is "fitted"."""
        if self.beta == "least-bound" and self.epsilon == "fitted":
            yield Conflict("beta", 'is "least-bound"; epsilon must then be a number, not "fitted"')


class UiTvboSettings(PolicySettings, frozen=True, kw_only=True, tag="ui-tvbo"):
    """UI-TVBO: the prior variance grows in each interval ([ET] section 6)."""

    maker: ClassVar[str] = "edge_tvbo.policy.gp_ucb:make_ui_tvbo"

    sigma_w2: Annotated[
        float,
        Meta(ge=0, description="Variance added in each interval, in units of the prior variance."),
    ] = 0.03
    window: Window = None
    beta: Beta = DEFAULT_BETA


class RGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="r-gp-ucb"):
    """R-GP-UCB: GP-UCB that resets every `period` intervals ([B16] algorithm 1)."""

    maker: ClassVar[str] = "edge_tvbo.policy.resetting:make_r_gp_ucb"

    period: Annotated[Count, Meta(description="Number of intervals between two resets.")] = 15
    window: Window = None
    beta: Beta = DEFAULT_BETA


class EtGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="et-gp-ucb"):
    """ET-GP-UCB: GP-UCB that resets when a reply contradicts the model ([ET] algorithm 1)."""

    maker: ClassVar[str] = "edge_tvbo.policy.resetting:make_et_gp_ucb"

    delta_b: Annotated[
        Probability,
        Meta(description="Probability that the model is reset although the field did not change."),
    ] = 0.1
    n_lower: Annotated[
        Count, Meta(description="Smallest number of replies between two resets.")
    ] = 1
    n_upper: Annotated[
        Count | None,
        Meta(
            description="Number of replies after which the model is reset in any case. If it is "
            "not set, there is no such reset."
        ),
    ] = None
    noise_cap: Annotated[
        Count | None,
        Meta(
            description='Number of replies after which the noise margin of the "error-bound" '
            "trigger stops growing ([ET] section 7). If it is not set, it never stops growing."
        ),
    ] = None
    trigger: Annotated[
        Literal["error-bound", "likelihood-ratio"],
        Meta(
            description="Test of a reply: by its distance from the predicted mean ([ET] lemma 3), "
            "or by the ratio of its likelihoods under the prior and under the model."
        ),
    ] = "error-bound"
    keep_last: Annotated[
        bool,
        Meta(
            description="Whether the model keeps the reply that caused a reset, as in [ET] "
            "algorithm 1. The numbers of [ET] table 1 are reproduced if it is false."
        ),
    ] = True
    window: Window = None
    beta: Beta = DEFAULT_BETA

    def conflicts(self) -> Iterator[Conflict]:
        """Yield a conflict if `n_lower` > `n_upper`, or if the trigger cannot use `noise_cap`."""
        if self.n_upper is not None and self.n_lower > self.n_upper:
            yield Conflict(
                "n_lower", f"is {self.n_lower}; allowed: at most n_upper, {self.n_upper}"
            )
        if self.noise_cap is not None and self.trigger != "error-bound":
            yield Conflict(
                "noise_cap",
                f'is {self.noise_cap}; only the trigger "error-bound" has this parameter',
            )


class SwGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="sw-gp-ucb"):
    """SW-GP-UCB: GP-UCB on the newest `window` readings ([ZS21] algorithm 2)."""

    maker: ClassVar[str] = "edge_tvbo.policy.sliding_window:make_sw_gp_ucb"

    window: KeptReadings = 32
    beta: BetaOrAgnostic = None


class IgpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="igp-ucb"):
    """IGP-UCB: GP-UCB with the agnostic width (Chowdhury & Gopalan 2017; [ET] appendix B)."""

    maker: ClassVar[str] = "edge_tvbo.policy.gp_ucb:make_igp_ucb"

    window: Window = None
    beta: BetaOrAgnostic = None


class BrGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="br-gp-ucb"):
    """BR-GP-UCB: GP-UCB with periodic resets and the agnostic width ([ZS21] algorithm 1)."""

    maker: ClassVar[str] = "edge_tvbo.policy.resetting:make_br_gp_ucb"

    period: Annotated[Count, Meta(description="Number of intervals between two resets.")] = 15
    window: Window = None
    beta: BetaOrAgnostic = None


class MtvGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="mtv-gp-ucb"):
    """MTV-GP-UCB: changes of the field continue for a while ([M24] section 8.2)."""

    maker: ClassVar[str] = "edge_tvbo.policy.momentum:make_mtv_gp_ucb"

    epsilon: Annotated[
        Annotated[float, Meta(ge=0, lt=1)] | Literal["fitted"],
        Meta(
            description='Share of the field that an interval keeps. With "fitted", epsilon and '
            "alpha are maximum-likelihood estimates ([M24] algorithm 3)."
        ),
    ] = 0.95
    alpha: Annotated[
        float,
        Meta(
            ge=0, lt=1, description="Share of the momentum that an interval keeps, at most epsilon."
        ),
    ] = 0.9
    window: FitWindow = None
    beta: Beta = DEFAULT_BETA

    def conflicts(self) -> Iterator[Conflict]:
        """Yield a conflict if `alpha` exceeds `epsilon`."""
        if isinstance(self.epsilon, float | int) and self.alpha > self.epsilon:
            yield Conflict("alpha", f"is {self.alpha}; allowed: at most epsilon, {self.epsilon}")


class TtvGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="ttv-gp-ucb"):
    """TTV-GP-UCB: one field turns into another around interval `tau` ([M24] section 9.2)."""

    maker: ClassVar[str] = "edge_tvbo.policy.momentum:make_ttv_gp_ucb"

    tau: Annotated[
        float | Literal["fitted"],
        Meta(
            description='The interval in the middle of the transition. With "fitted", tau and rho '
            "are maximum-likelihood estimates ([M24] algorithm 3)."
        ),
    ] = 100.0
    rho: Annotated[Positive, Meta(description="Duration of the transition, in intervals.")] = 20.0
    window: FitWindow = None
    beta: Beta = DEFAULT_BETA


class WGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="w-gp-ucb"):
    """W-GP-UCB: older readings have a smaller weight (Deng et al. 2022; [ET] appendix B)."""

    maker: ClassVar[str] = "edge_tvbo.policy.sliding_window:make_w_gp_ucb"

    gamma: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Factor that multiplies the weight of each reading in each interval.",
        ),
    ] = 0.95
    window: KeptReadings = 128
    beta: BetaOrAgnostic = None


LengthScale = Annotated[
    Positive | None,
    Meta(
        description="The longest length scale considered, in the unit of the positions. If it is "
        "not set, it is the longest side of the area."
    ),
]
FirstLengthScale = Annotated[
    Positive | None,
    Meta(
        description="Length scale from which the search starts, in the unit of the positions. If "
        "it is not set, it is the longest side of the area."
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
        description="Bound on the norm of the field under the longest length scale, in units of "
        "the prior standard deviation."
    ),
]
FailureProbability = Annotated[
    Probability, Meta(description="Probability that a confidence bound is wrong.")
]
Growth = Annotated[
    Exponent,
    Meta(
        description="Exponent a in g(t) = max(t0, t^a). The shortest length scale considered in "
        "interval t is the longest one divided by g(t). t0 admits five candidates at the start."
    ),
]
NormGrowth = Annotated[
    Exponent,
    Meta(description="Exponent c in t^c, the factor by which the largest norm considered grows."),
]
Ratio = Annotated[
    Annotated[float, Meta(gt=1, le=100)] | None,
    Meta(
        description="Ratio of one candidate length scale to the next. If it is not set, it is "
        "e^(1/d) in d dimensions ([LB] definition 3.1)."
    ),
]
HyperPrior = Annotated[
    PositivePair | None,
    Meta(
        description="Shape and rate of a Gamma prior on the length scale, which is a share of the "
        "longest side of the area. If it is not set, there is no such prior."
    ),
]
RegressionBeta = Annotated[
    BetaValue | None,
    Meta(
        description=f"{_BETA_HELP} If it is not set, the width is the agnostic one, "
        "B + σ √(2(γ + 1 + ln 1/δ)) ([LB] theorem 2.1)."
    ),
]


class AGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="a-gp-ucb"):
    """A-GP-UCB: the length scale shrinks on a schedule (Berkenkamp, Schoellig & Krause 2019).

    The length scale is θ_t = θ0 / g(t) and the bound on the norm is B_t = b(t) g(t)^d B0, with θ0
    the parameter `length_scale` and B0 the parameter `bound`.
    """

    maker: ClassVar[str] = "edge_tvbo.policy.unknown_length_scale.policies:make_a_gp_ucb"
    needs_positions: ClassVar[bool] = True

    length_scale: LengthScale = None
    nu: Smoothness = 2.5
    bound: NormBound = 1.0
    delta: FailureProbability = 0.1
    growth: Growth = 0.5
    norm_growth: NormGrowth = 0.0
    ratio: Ratio = None
    beta: RegressionBeta = None
    window: KeptReadings = 256


class LbGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="lb-gp-ucb"):
    """LB-GP-UCB: regret balancing over length scales ([LB] algorithm 1)."""

    maker: ClassVar[str] = "edge_tvbo.policy.unknown_length_scale.policies:make_lb_gp_ucb"
    needs_positions: ClassVar[bool] = True

    length_scale: LengthScale = None
    nu: Smoothness = 2.5
    bound: NormBound = 1.0
    delta: FailureProbability = 0.1
    growth: Growth = 0.5
    ratio: Ratio = None
    beta: RegressionBeta = None
    window: KeptReadings = 256


class LnbGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="lnb-gp-ucb"):
    """LNB-GP-UCB: regret balancing over length scales and norms ([LB] algorithm 3)."""

    maker: ClassVar[str] = "edge_tvbo.policy.unknown_length_scale.policies:make_lnb_gp_ucb"
    needs_positions: ClassVar[bool] = True

    length_scale: LengthScale = None
    nu: Smoothness = 2.5
    bound: NormBound = 1.0
    delta: FailureProbability = 0.1
    growth: Growth = 0.5
    norm_growth: NormGrowth = 0.5
    ratio: Ratio = None
    beta: RegressionBeta = None
    window: KeptReadings = 256


class MleGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="mle-gp-ucb"):
    """GP-UCB whose length scale is fitted by maximum likelihood each interval ([LB] section 5)."""

    maker: ClassVar[str] = "edge_tvbo.policy.unknown_length_scale.policies:make_mle_gp_ucb"
    needs_positions: ClassVar[bool] = True

    length_scale: FirstLengthScale = None
    nu: Smoothness = 2.5
    bound: NormBound = 1.0
    delta: FailureProbability = 0.1
    prior: HyperPrior = None
    beta: RegressionBeta = None
    window: KeptReadings = 256


class McmcGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="mcmc-gp-ucb"):
    """GP-UCB with bounds averaged over sampled length scales ([LB] section 5)."""

    maker: ClassVar[str] = "edge_tvbo.policy.unknown_length_scale.policies:make_mcmc_gp_ucb"
    needs_positions: ClassVar[bool] = True

    length_scale: FirstLengthScale = None
    nu: Smoothness = 2.5
    bound: NormBound = 1.0
    delta: FailureProbability = 0.1
    prior: HyperPrior = HYPERPRIOR
    samples: Annotated[
        int,
        Meta(ge=1, le=1024, description="Number of length scales that are drawn in each interval."),
    ] = 8
    beta: RegressionBeta = None
    window: KeptReadings = 256


class WDboSettings(PolicySettings, frozen=True, kw_only=True, tag="w-dbo"):
    """W-DBO: TV-GP-UCB that removes stale readings (Bardou, Thiran & Ranieri 2024)."""

    maker: ClassVar[str] = "edge_tvbo.policy.wdbo:make_w_dbo"

    epsilon: Annotated[
        float, Meta(ge=0, lt=1, description="Share of the field that is new in each interval.")
    ] = 0.03
    alpha: Annotated[
        float,
        Meta(
            ge=0,
            description="Largest relative change of the predictions that removed readings may "
            "cause during one correlation time. The correlation time follows from epsilon.",
        ),
    ] = 0.25
    window: Annotated[
        WindowLength, Meta(description="Largest number of readings that the model keeps.")
    ] = 128
    beta: Beta = DEFAULT_BETA


class RExp3Settings(PolicySettings, frozen=True, kw_only=True, tag="rexp3"):
    """RExp3: exponential weights, without a model (Besbes, Gur & Zeevi 2014, algorithm 1)."""

    maker: ClassVar[str] = "edge_tvbo.policy.baselines:make_rexp3"

    period: Annotated[
        Count, Meta(description="Number of intervals after which all weights are made equal.")
    ] = 100
    gamma: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(
            description="Share of the draws that are uniform. If it is not set, it is "
            "min(1, √(M ln M / ((e - 1) period))) for M sensors (theorem 2)."
        ),
    ] = None


class DUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="d-ucb"):
    """D-UCB: bounds on discounted means, without a model (Garivier & Moulines 2011, alg. 1)."""

    maker: ClassVar[str] = "edge_tvbo.policy.baselines:make_d_ucb"

    gamma: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Factor that multiplies the weight of each reading in each interval.",
        ),
    ] = 0.99
    xi: Annotated[
        Positive,
        Meta(description="Exploration weight. The theory requires a value above 1/2."),
    ] = 0.5


class OracleSettings(PolicySettings, frozen=True, kw_only=True, tag="oracle"):
    """The sensor with the highest last reading; there is no regret if all sensors are read."""

    maker: ClassVar[str] = "edge_tvbo.policy.baselines:make_oracle"


class RandomSettings(PolicySettings, frozen=True, kw_only=True, tag="random"):
    """A sensor that is drawn at random in each interval, with equal probabilities."""

    maker: ClassVar[str] = "edge_tvbo.policy.baselines:make_random"


class RoundRobinSettings(PolicySettings, frozen=True, kw_only=True, tag="round-robin"):
    """The sensors in turn; the first is number `seed` modulo the number of sensors."""

    maker: ClassVar[str] = "edge_tvbo.policy.baselines:make_round_robin"


class StaticSettings(PolicySettings, frozen=True, kw_only=True, tag="static"):
    """The same sensor in all intervals; if it is not eligible, the next eligible sensor."""

    maker: ClassVar[str] = "edge_tvbo.policy.baselines:make_static"

    sensor: Annotated[
        str | None,
        Meta(
            description="Id of the sensor. If it is not set, the sensor is number `seed` modulo "
            "the number of sensors."
        ),
    ] = None

    def field_conflicts(self, sensors: Collection[str], has_positions: bool) -> Iterator[Conflict]:
        """Yield a conflict if the field does not have the sensor."""
        if self.sensor is not None and self.sensor not in sensors:
            yield Conflict(
                "sensor",
                f'is "{self.sensor}"; allowed: one of the sensors of the field.'
                f"{hint(self.sensor, sensors)}",
            )


BUILT_IN: tuple[type[PolicySettings], ...] = (
    AutoSettings,
    KalmanUcbSettings,
    GpUcbSettings,
    TvGpUcbSettings,
    UiTvboSettings,
    RGpUcbSettings,
    EtGpUcbSettings,
    SwGpUcbSettings,
    IgpUcbSettings,
    BrGpUcbSettings,
    MtvGpUcbSettings,
    TtvGpUcbSettings,
    WGpUcbSettings,
    AGpUcbSettings,
    LbGpUcbSettings,
    LnbGpUcbSettings,
    MleGpUcbSettings,
    McmcGpUcbSettings,
    WDboSettings,
    RExp3Settings,
    DUcbSettings,
    OracleSettings,
    RandomSettings,
    RoundRobinSettings,
    StaticSettings,
)
DEFAULT_POLICY = AutoSettings()  # used if a configuration names no policy
