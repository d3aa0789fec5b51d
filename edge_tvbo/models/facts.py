"""Facts that explain a model's predictions; `control.fact_text` turns facts into sentences."""

import msgspec


class LowRankApproximation(msgspec.Struct, frozen=True):
    """A fact for explanations: the posterior of many sensors is a low-rank approximation."""

    components: int
    sensors: int
    noise_share: float  # largest omitted variance of a sensor, as a share of the noise variance


class FactorApproximation(msgspec.Struct, frozen=True):
    """A fact for explanations: few factors approximate the correlations of very many sensors."""

    factors: int
    sensors: int
    error: float  # largest error of the correlation of two sensors


class LikeliestModel(msgspec.Struct, frozen=True):
    """A fact for explanations: the model with the largest weight in a mixture of models."""

    weight: float  # 0 to 1
    epsilon: float | None  # ε of TV; 0 for the static model; None with momentum
    momentum: tuple[float, float] | None  # ε and α of MTV
    length_scale: float | None  # in the unit of the positions; None for the field's own kernel


class SeasonAndRates(msgspec.Struct, frozen=True):
    """The season and rates of change of a structural model: fitted to training rows, or assumed."""

    period: float  # length of the season in s; 0 for no season
    shorter: float  # time constant of the fastest changes, in s
    longer: float  # time constant of the slower changes, in s
    rows: int  # number of training rows to which the model was fitted; 0 if all is assumed


class LearnedVariation(msgspec.Struct, frozen=True):
    """The variation of a field, as a structural model has learned it from the readings."""

    readings: int  # number of readings since the start or a reset
    factor: float  # standard deviation of the field, divided by its fitted or assumed value
    rows: int  # number of training rows; 0 if the standard deviation was assumed
    hours: tuple[int, int] | None = None  # hours of most and of least variation, UTC


class RateOfChange(msgspec.Struct, frozen=True):
    """A fact for explanations: the estimated rate of change of a field.

    The rate of change is ε of [B16]: the share of the field's variance that is replaced by new
    variance in each interval.
    """

    epsilon: float


Fact = (
    LowRankApproximation
    | FactorApproximation
    | LikeliestModel
    | SeasonAndRates
    | LearnedVariation
    | RateOfChange
)


class PolledInTurn(msgspec.Struct, frozen=True):
    """The reason for a selection: to detect changes, all sensors are selected in turn."""

    every: int  # number of intervals in which each sensor is selected once


class LeastKnown(msgspec.Struct, frozen=True):
    """The reason for a selection at the start: of all sensors, least is known about this one."""


Turn = PolledInTurn | LeastKnown  # why a sensor was selected in turn, and not by its bound
