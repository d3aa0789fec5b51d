"""Settings of the policies that use a Gaussian process with a given length scale."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from edge_tvbo.models.beta import DEFAULT_BETA
from edge_tvbo.policy.settings import (
    BETA_HELP,
    Beta,
    BetaOrAgnostic,
    BetaValue,
    Conflict,
    Count,
    FitWindow,
    KeptReadings,
    PolicySettings,
    Positive,
    Probability,
    Share,
    UnusedParameter,
    Window,
    WindowLength,
)


class GpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="gp-ucb"):
    """GP-UCB: assumes that the field is constant (Srinivas et al. 2010; [M24] algorithm 1)."""

    maker: ClassVar[str] = "edge_tvbo.policy.gp_ucb:make_gp_ucb"

    window: Window = None
    beta: Beta = DEFAULT_BETA


class TvGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="tv-gp-ucb"):
    """TV-GP-UCB: a share of the field is replaced in each interval ([B16] algorithm 2)."""

    maker: ClassVar[str] = "edge_tvbo.policy.gp_ucb:make_tv_gp_ucb"

    epsilon: Annotated[
        Share | Literal["fitted"],
        Meta(
            description='Share of the field that is replaced in each interval. With "fitted", the '
            "share is the maximum-likelihood estimate from the readings ([B16] appendix B)."
        ),
    ] = 0.03
    window: FitWindow = None
    beta: Annotated[
        BetaValue | Literal["least-bound"],
        Meta(
            description=f'{BETA_HELP} "least-bound" is the constant for which '
            "[M24] theorem 4.1 proves the smallest regret bound."
        ),
    ] = DEFAULT_BETA

    def conflicts(self) -> Iterator[Conflict]:
        """Yield a conflict if TV-GP-UCB has `beta` "least-bound" and `epsilon` "fitted"."""
        if self.beta == "least-bound" and self.epsilon == "fitted":
            yield Conflict("beta", 'is "least-bound"; epsilon must then be a number, not "fitted"')


class UiTvboSettings(PolicySettings, frozen=True, kw_only=True, tag="ui-tvbo"):
    """UI-TVBO: the prior variance grows in each interval (Brunzema, von Rohr & Trimpe 2022)."""

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
        Meta(
            description="Upper bound on the probability that the event trigger resets the model "
            "although the field does not change ([ET] lemma 3)."
        ),
    ] = 0.1
    n_lower: Annotated[
        Count, Meta(description="Smallest number of replies between two resets.")
    ] = 1
    n_upper: Annotated[
        Count | None,
        Meta(
            description="Number of replies after which the model is reset even if the event "
            "trigger has not fired. If no number is set, only the event trigger resets the model."
        ),
    ] = None
    noise_cap: Annotated[
        Count | None,
        Meta(
            description='Number of replies after which the noise margin of the "error-bound" '
            "trigger stops growing ([ET] section 7). If no number is set, the margin never stops "
            "growing."
        ),
    ] = None
    trigger: Annotated[
        Literal["error-bound", "likelihood-ratio"],
        Meta(
            description='Test of a reply: "error-bound" tests the distance of the reply from the '
            'predicted mean ([ET] lemma 3); "likelihood-ratio" tests the likelihood of the reply '
            "under the prior, divided by its likelihood under the model."
        ),
    ] = "error-bound"
    keep_last: Annotated[
        bool,
        Meta(
            description="Whether the model keeps the reply that caused a reset. Algorithm 1 of "
            "[ET] keeps the reply, but the policy reproduces table 1 of [ET] only with "
            "`keep_last = false`."
        ),
    ] = True
    window: Window = None
    beta: Beta = DEFAULT_BETA

    def conflicts(self) -> Iterator[Conflict]:
        """Yield a conflict of ET-GP-UCB: `n_lower` > `n_upper`, or a `noise_cap` without effect."""
        if self.n_upper is not None and self.n_lower > self.n_upper:
            yield Conflict(
                "n_lower", f"is {self.n_lower}; allowed: at most n_upper ({self.n_upper})"
            )
        if self.noise_cap is not None and self.trigger != "error-bound":
            yield Conflict(
                "noise_cap",
                f'is {self.noise_cap}; only the trigger "error-bound" has this parameter',
            )

    def unused(self) -> Iterator[UnusedParameter]:
        """Yield `noise_cap` as unused if ET-GP-UCB is reset after `noise_cap` replies or fewer."""
        cap, last = self.noise_cap, self.n_upper
        if cap is not None and last is not None and cap >= last:
            yield UnusedParameter("noise_cap", f"the model is reset after n_upper ({last}) replies")


class SwGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="sw-gp-ucb"):
    """SW-GP-UCB: GP-UCB on the newest `window` readings ([ZS21] algorithm 2)."""

    maker: ClassVar[str] = "edge_tvbo.policy.sliding_window:make_sw_gp_ucb"

    window: KeptReadings = 32
    beta: BetaOrAgnostic = None


class IgpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="igp-ucb"):
    """IGP-UCB: GP-UCB with the agnostic width (Chowdhury & Gopalan 2017; [ET] appendix B).

    If `beta` is not set, the width stays the same after 1024 readings. In the paper, the width
    grows further, because the information gain γ grows.
    """

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
    """MTV-GP-UCB: changes of the field have momentum ([M24] section 8.2).

    A change of the field therefore continues for a while.
    """

    maker: ClassVar[str] = "edge_tvbo.policy.momentum:make_mtv_gp_ucb"

    epsilon: Annotated[
        Annotated[float, Meta(ge=0, lt=1)] | Literal["fitted"],
        Meta(
            description="Share of the field that remains in the next interval. With "
            '"fitted", epsilon and alpha are maximum-likelihood estimates ([M24] algorithm 3).'
        ),
    ] = 0.95
    alpha: Annotated[
        float,
        Meta(
            ge=0,
            lt=1,
            description="Share of the momentum that remains in the next interval; not greater than "
            "`epsilon`.",
        ),
    ] = 0.9
    window: FitWindow = None
    beta: Beta = DEFAULT_BETA

    def conflicts(self) -> Iterator[Conflict]:
        """Yield a conflict if the setting `alpha` of MTV-GP-UCB exceeds `epsilon`."""
        if isinstance(self.epsilon, float | int) and self.alpha > self.epsilon:
            yield Conflict("alpha", f"is {self.alpha}; allowed: at most epsilon ({self.epsilon})")

    def unused(self) -> Iterator[UnusedParameter]:
        """Yield `alpha` as unused if MTV-GP-UCB fits `epsilon` and `alpha` to the readings."""
        if self.epsilon == "fitted":
            yield UnusedParameter("alpha", 'epsilon is "fitted", so alpha is fitted too')


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
    rho: Annotated[
        Positive,
        Meta(
            description="Time scale of the transition, in intervals. In 4 · rho intervals, the "
            "share of the new field grows from 12 % to 88 %."
        ),
    ] = 20.0
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
            description="Factor by which the weight of each reading is multiplied per interval.",
        ),
    ] = 0.95
    window: KeptReadings = 128
    beta: BetaOrAgnostic = None


class WDboSettings(PolicySettings, frozen=True, kw_only=True, tag="w-dbo"):
    """W-DBO: TV-GP-UCB that removes stale readings (Bardou, Thiran & Ranieri 2024)."""

    maker: ClassVar[str] = "edge_tvbo.policy.sliding_window:make_w_dbo"

    epsilon: Annotated[
        float, Meta(ge=0, lt=1, description="Share of the field that is replaced in each interval.")
    ] = 0.03
    alpha: Annotated[
        float,
        Meta(
            ge=0,
            description="Largest relative change of the predictions that the removal of readings "
            "may cause in one correlation time. The correlation time follows from epsilon.",
        ),
    ] = 0.25
    window: Annotated[
        WindowLength, Meta(description="Largest number of readings that the model keeps.")
    ] = 128
    beta: Beta = DEFAULT_BETA

    def unused(self) -> Iterator[UnusedParameter]:
        """Yield W-DBO's `alpha` as unused if `epsilon` is 0.

        The field is then assumed to be constant, so that no reading becomes stale.
        """
        if self.epsilon == 0:
            yield UnusedParameter("alpha", "no reading becomes stale if epsilon is 0")


GIVEN_LENGTH_SCALE = (
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
)
