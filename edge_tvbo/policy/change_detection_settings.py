"""Settings of the policies that detect changes of the field with statistical tests."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import Meta

from edge_tvbo.models.beta import DEFAULT_BETA
from edge_tvbo.policy.settings import (
    Beta,
    PolicySettings,
    Positive,
    Probability,
    UnusedParameter,
    Window,
    WindowLength,
)


class GlrGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="glr-gp-ucb"):
    """GLR-GP-UCB: GP-UCB that resets when the mean of a sensor changes (Besson et al. 2022)."""

    maker: ClassVar[str] = "edge_tvbo.policy.change_detection:ChangeDetecting"

    delta: Annotated[
        Probability,
        Meta(
            description="Approximate probability that a sensor causes a wrong reset: the model is "
            "reset although the sensor's value did not change. The probability refers to the first "
            "`test_window` readings of the sensor after a reset. With more readings, wrong resets "
            "accumulate: in a simulation with the default values, 5 % of the sensors had a wrong "
            "reset within 10,000 readings, and 25 % within 52,560 readings. The paper keeps all "
            "readings, and uses the probability 1/√T for T intervals."
        ),
    ] = 0.01
    exploration: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Share of the intervals in which the sensors are polled in turn, so that "
            "changes of every sensor are detected.",
        ),
    ] = 0.05
    test_window: Annotated[
        WindowLength,
        Meta(
            description="Number of newest readings of each sensor that the test compares. With 1, "
            "no change is detected."
        ),
    ] = 128
    window: Window = None
    beta: Beta = DEFAULT_BETA

    def unused(self) -> Iterator[UnusedParameter]:
        """Yield `delta` as unused if `test_window` is 1: GLR-GP-UCB then never detects a change."""
        if self.test_window == 1:
            yield UnusedParameter(
                "delta", "no change is detected if test_window is 1; the test needs 2 readings"
            )


class AdaOpkbSettings(PolicySettings, frozen=True, kw_only=True, tag="ada-opkb"):
    """ADA-OPKB: draws sensors with optimal probabilities (designs), and replays old designs.

    The replays show whether the field has changed.

    Source: Hong, Li & Tewari 2023.
    """

    maker: ClassVar[str] = "edge_tvbo.policy.opkb:make_ada_opkb"
    has_model: ClassVar[bool] = False

    horizon: Annotated[
        int,
        Meta(
            ge=2,
            le=10**7,
            description="Number of intervals for which the policy is tuned. The policy resets "
            "after 1 to 2 times this number of intervals.",
        ),
    ] = 10_000
    detect_changes: Annotated[
        bool,
        Meta(
            description="Whether the policy replays earlier designs to detect changes. With "
            "false, the policy is OPKB, which assumes that the field is constant."
        ),
    ] = True


class MasterGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="master-gp-ucb"):
    """MASTER over GP-UCB: runs GP-UCB instances of several durations (Wei & Luo 2021, alg. 3)."""

    maker: ClassVar[str] = "edge_tvbo.policy.master:make_master_gp_ucb"

    horizon: Annotated[
        int,
        Meta(
            ge=2,
            le=10**7,
            description="Number of intervals for which the policy is tuned; no instance of GP-UCB "
            "lasts longer.",
        ),
    ] = 10_000
    threshold_scale: Annotated[
        Positive,
        Meta(
            description="Factor that multiplies the thresholds of both tests for changes. With 1, "
            "as in the paper, no change can be detected in fewer than about 400 million intervals."
        ),
    ] = 1.0
    window: Window = None
    beta: Beta = DEFAULT_BETA


CHANGE_DETECTION = (GlrGpUcbSettings, AdaOpkbSettings, MasterGpUcbSettings)
