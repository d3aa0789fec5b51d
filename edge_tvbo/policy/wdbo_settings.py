"""Settings of the policy ``w-dbo``."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import Meta

from edge_tvbo.models.beta import DEFAULT_BETA
from edge_tvbo.policy.settings import Beta, PolicySettings, UnusedParameter, WindowLength


class WDboSettings(PolicySettings, frozen=True, kw_only=True, tag="w-dbo"):
    """W-DBO: TV-GP-UCB that removes stale readings (Bardou, Thiran & Ranieri 2024)."""

    maker: ClassVar[str] = "edge_tvbo.policy.wdbo:make_w_dbo"

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
        """Yield `alpha` if `epsilon` is 0, because `alpha` then has no effect.

        In this case, W-DBO assumes a constant field, in which no reading becomes stale.
        """
        if self.epsilon == 0:
            yield UnusedParameter("alpha", "no reading becomes stale if epsilon is 0")
