"""Settings of ``auto`` and ``kalman-ucb``, which use training days if there are any."""

from collections.abc import Collection, Iterator
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from edge_tvbo.policy.settings import (
    BETA_HELP,
    BetaValue,
    Conflict,
    PolicySettings,
    Probability,
    UnusedParameter,
)


class AutoSettings(PolicySettings, frozen=True, kw_only=True, tag="auto"):
    """Learns the level and the season of each sensor, and how much the field varies.

    The glossary explains level and season. The policy needs neither a rate of change nor reset
    times. If there are recorded training days, the policy first learns the course of each sensor,
    the correlations and the rates of change from these days. With more than 500 sensors, the model
    is a low-rank approximation. For a field without a structural model, the policy uses a mixture
    of static and changing models.
    """

    maker: ClassVar[str] = "edge_tvbo.policy.auto:make_auto"

    delta_b: Annotated[
        Probability,
        Meta(
            description="Probability that the event trigger resets a static model although the "
            "field did not change. In a configuration, `delta_b` has an effect only with "
            'length_scale = "learned".'
        ),
    ] = 0.1
    length_scale: Annotated[
        Literal["learned"] | None,
        Meta(
            description='Set "learned" if the policy has to learn the length scale from the '
            "readings. The policy then needs sensor positions, and accepts at most 500 sensors. "
            "The policy uses the variance of a trained model, but not its kernel and its course."
        ),
    ] = None
    beta: Annotated[
        BetaValue | None,
        Meta(
            description=f"{BETA_HELP} If `beta` is not set, the bound becomes narrower while the "
            "policy learns: its width decreases from 3.5 to 0.5 standard deviations."
        ),
    ] = None

    @property
    def learns_length_scale(self) -> bool:
        """Whether `auto` learns the length scale.

        An `auto` that learns the length scale uses only the variance of the kernel.
        """
        return self.length_scale is not None

    def unused(self) -> Iterator[UnusedParameter]:
        """Yield `delta_b` as unused if `auto` does not learn the length scale.

        The model is then structural, and has no event trigger.
        """
        if self.length_scale is None:
            yield UnusedParameter("delta_b", 'length_scale is not "learned"')

    def field_conflicts(self, sensors: Collection[str], has_positions: bool) -> Iterator[Conflict]:
        """Yield a conflict if `auto` has to learn the length scale without sensor positions."""
        if self.length_scale is not None and not has_positions:
            yield Conflict(
                "length_scale",
                f'is "{self.length_scale}", which needs positions = {{ id = [x, y], ... }}',
            )


class KalmanUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="kalman-ucb"):
    """The textbook baseline: each sensor's mean by time of day, plus a Kalman filter.

    The Kalman filter estimates how far the values deviate from the means. Without training days,
    each mean is constant.
    """

    maker: ClassVar[str] = "edge_tvbo.policy.kalman_ucb:make_kalman_ucb"

    width: Annotated[
        float,
        Meta(
            ge=0,
            le=100,
            description="Width of the confidence bound in standard deviations. `compare` and "
            "`replay` choose the width that has the least regret in the last quarter of the "
            "training days.",
        ),
    ] = 0.5


TRAINED = (
    AutoSettings,
    KalmanUcbSettings,
)
