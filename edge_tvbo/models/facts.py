"""Facts about a model that explain its predictions; `control.decision_text` puts them in words."""

import msgspec


class LowRankApproximation(msgspec.Struct, frozen=True):
    """The fact that a posterior is approximate: it represents many sensors by few components."""

    components: int
    sensors: int
    noise_share: float  # largest omitted variance of a sensor, as a share of the noise variance


class LikeliestModel(msgspec.Struct, frozen=True):
    """The fact which model has the largest weight in a mixture of models."""

    weight: float  # 0 to 1
    daily: bool  # whether it uses the field's daily profile
    epsilon: float | None  # ε of TV; 0 for the static model; None with momentum
    momentum: tuple[float, float] | None  # ε and α of MTV
    length_scale: float | None  # in the unit of the positions; None for the field's own kernel


class RateOfChange(msgspec.Struct, frozen=True):
    """The fact how fast a field changes.

    It is the estimated share of the field's variance that is new each interval, ε of [B16].
    """

    epsilon: float


Fact = LowRankApproximation | LikeliestModel | RateOfChange
