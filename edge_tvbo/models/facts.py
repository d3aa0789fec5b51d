"""Facts about a model that explain its predictions, as data; `control.decision_text` words them."""

import msgspec


class LowRankApproximation(msgspec.Struct, frozen=True):
    """The posterior represents many sensors by few components, and so is approximate."""

    components: int
    sensors: int
    noise_share: float  # of a reading's noise variance: the largest variance left out of a sensor


class LikeliestModel(msgspec.Struct, frozen=True):
    """The model with the largest weight in a mixture of models."""

    weight: float  # 0 to 1
    daily: bool  # it uses the field's daily profile
    epsilon: float | None  # ε of TV; 0 for the static model; None with momentum
    momentum: tuple[float, float] | None  # ε and α of MTV
    length_scale: float | None  # in the unit of the positions; None for the field's own kernel


class RateOfChange(msgspec.Struct, frozen=True):
    """The estimated share of the field's variance that is new each interval: ε of [B16]."""

    epsilon: float


Fact = LowRankApproximation | LikeliestModel | RateOfChange
