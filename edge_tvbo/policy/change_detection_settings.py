"""Settings of the policies that detect changes of the field with statistical tests."""

from typing import Annotated, ClassVar

from msgspec import Meta

from edge_tvbo.models.beta import DEFAULT_BETA
from edge_tvbo.policy.settings import Beta, PolicySettings, Probability, Window, WindowLength


class GlrGpUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="glr-gp-ucb"):
    """GLR-GP-UCB: GP-UCB that resets when a sensor's readings have changed (Besson et al. 2022)."""

    maker: ClassVar[str] = "edge_tvbo.policy.change_detection:make_glr_gp_ucb"

    delta: Annotated[
        Probability,
        Meta(
            description="Probability, for each sensor, that the model is reset although the "
            "sensor's value did not change. The paper uses 1/√T for T intervals."
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
        Meta(description="Number of newest readings of each sensor that the test compares."),
    ] = 128
    window: Window = None
    beta: Beta = DEFAULT_BETA


CHANGE_DETECTION = (GlrGpUcbSettings,)
