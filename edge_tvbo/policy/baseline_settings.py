"""Settings of the baselines, which have no model of the field."""

from collections.abc import Collection, Iterator
from typing import Annotated, ClassVar

from msgspec import Meta

from edge_tvbo.errors import hint
from edge_tvbo.policy.settings import Conflict, Count, PolicySettings, Positive


class RExp3Settings(PolicySettings, frozen=True, kw_only=True, tag="rexp3"):
    """RExp3: exponential weights, without a model (Besbes, Gur & Zeevi 2014, algorithm 1)."""

    maker: ClassVar[str] = "edge_tvbo.policy.baselines:RExp3"
    has_model: ClassVar[bool] = False

    period: Annotated[
        Count, Meta(description="Number of intervals after which all weights are made equal.")
    ] = 100
    gamma: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(
            description="Share of the draws that are uniform. If no share is set, "
            "min(1, √(M ln M / ((e - 1) period))) is used for M sensors (theorem 2 of the paper)."
        ),
    ] = None


class DUcbSettings(PolicySettings, frozen=True, kw_only=True, tag="d-ucb"):
    """D-UCB: bounds on discounted means, without a model (Garivier & Moulines 2011, alg. 1)."""

    maker: ClassVar[str] = "edge_tvbo.policy.baselines:DiscountedUCB"
    has_model: ClassVar[bool] = False

    gamma: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Factor by which the weight of each reading is multiplied per interval.",
        ),
    ] = 0.99
    xi: Annotated[
        Positive,
        Meta(description="Exploration weight. The theory requires a value above 1/2."),
    ] = 0.5


class OracleSettings(PolicySettings, frozen=True, kw_only=True, tag="oracle"):
    """Selects the sensor with the highest last reading.

    The regret is 0 if all sensors are read in each interval before the policy selects.
    """

    maker: ClassVar[str] = "edge_tvbo.policy.baselines:Oracle"
    has_model: ClassVar[bool] = False


class RandomSettings(PolicySettings, frozen=True, kw_only=True, tag="random"):
    """Draws a sensor at random in each interval, with equal probabilities."""

    maker: ClassVar[str] = "edge_tvbo.policy.baselines:make_random"
    has_model: ClassVar[bool] = False


class RoundRobinSettings(PolicySettings, frozen=True, kw_only=True, tag="round-robin"):
    """Selects the sensors in turn; the first has the number `seed` modulo the number of sensors.

    If several sensors are activated in an interval, the next interval continues after the last of
    these sensors.
    """

    maker: ClassVar[str] = "edge_tvbo.policy.baselines:RoundRobin"
    has_model: ClassVar[bool] = False


class StaticSettings(PolicySettings, frozen=True, kw_only=True, tag="static"):
    """Selects one fixed sensor. If this sensor is ineligible, selects the next eligible sensor."""

    maker: ClassVar[str] = "edge_tvbo.policy.baselines:make_static"
    has_model: ClassVar[bool] = False

    sensor: Annotated[
        str | None,
        Meta(
            description="Id of the sensor. If no id is set, the sensor has the number `seed` "
            "modulo the number of sensors."
        ),
    ] = None

    def field_conflicts(self, sensors: Collection[str], has_positions: bool) -> Iterator[Conflict]:
        """Yield a conflict if `sensor` of the baseline `static` is not a sensor of the field."""
        if self.sensor is not None and self.sensor not in sensors:
            yield Conflict(
                "sensor",
                f'is "{self.sensor}"; allowed: one of the sensors of the field.'
                f"{hint(self.sensor, sensors)}",
            )


BASELINES = (
    RExp3Settings,
    DUcbSettings,
    OracleSettings,
    RandomSettings,
    RoundRobinSettings,
    StaticSettings,
)
