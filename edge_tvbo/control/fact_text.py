"""Fact text: texts that state facts about a model, its sensors and their energy."""

from edge_tvbo.control.facts import (
    BackedOff,
    Compared,
    EnergyFact,
    Excluded,
    FieldEnergyLeft,
    FieldOutOfEnergy,
    Ignored,
    Ineligible,
    LowBattery,
    OutOfEnergy,
    Refused,
    SensorsWithEnergy,
    WasActivated,
)
from edge_tvbo.messages.formatting import counted, duration, season_text, significant
from edge_tvbo.models.facts import (
    Fact,
    FactorApproximation,
    LearnedVariation,
    LeastKnown,
    LikeliestModel,
    LowRankApproximation,
    PolledInTurn,
    RateOfChange,
    SeasonAndRates,
    Turn,
)


def fact_text(fact: Fact) -> str:
    """Return a text that states a fact about the model.

    >>> fact_text(LikeliestModel(0.41, 0.03, None, None))
    'the likeliest model (time-varying with ε = 0.03) has weight 41 %'
    >>> fact_text(FactorApproximation(9, 600, 0.0123)).partition("; ")[2]
    'the correlation of two sensors has an error of at most 0.01'
    >>> fact_text(SeasonAndRates(86400.0, 7854.0, 86400.0, 0)).partition("; ")[0]
    'not fitted: the season is a day'
    >>> fact_text(SeasonAndRates(0.0, 7854.0, 86400.0, 636))
    'after a fit to 636 intervals: fast changes take 2.2 h, slow changes take 24 h'
    >>> fact_text(LearnedVariation(288, 1.31, 0))
    'after 288 readings: the field varies 1.3 times as much as was assumed'
    """
    match fact:
        case LowRankApproximation(components, sensors, noise_share):
            return (
                f"{components} components represent the {sensors} sensors; the variance that they "
                f"leave out is at most {_percent(noise_share)} of a reading's noise variance"
            )
        case FactorApproximation(factors, sensors, error):
            return (
                f"the model of the {sensors} sensors has low rank (factors: {factors}); "
                f"the correlation of two sensors has an error of at most {significant(error, 1)}"
            )
        case LikeliestModel():
            return f"the likeliest model ({_model_text(fact)}) has weight {fact.weight * 100:.0f} %"
        case SeasonAndRates(period, shorter, longer, rows):
            fit = f"after a fit to {counted(rows, 'interval')}"
            source = fit if rows else "not fitted"
            season = f"the season is {season_text(period)}; " if period else ""
            changes = f"fast changes take {duration(shorter)}, slow changes take {duration(longer)}"
            return f"{source}: {season}{changes}"
        case LearnedVariation(readings, factor, rows, hours):
            times = significant(factor, 2)
            much = "as much as" if times == "1" else f"{times} times as much as"
            than = "in the recorded days" if rows else "was assumed"
            when = f"; it varies {_hours_text(*hours)}" if hours else ""
            return f"after {counted(readings, 'reading')}: the field varies {much} {than}{when}"
        case RateOfChange(epsilon):
            return f"about {_percent(epsilon)} of the variance is new each interval"


def turn_text(turn: Turn) -> str:
    """Return a text that says why a sensor was selected in turn.

    >>> turn_text(LeastKnown())
    'at the start, the sensors are read in turn: next is the sensor about which least is known'
    """
    match turn:
        case PolledInTurn(every):
            return f"to detect changes, each sensor is selected once in {every} intervals"
        case LeastKnown():
            return (
                "at the start, the sensors are read in turn: next is the sensor about which "
                "least is known"
            )


def ineligible_text(sensor: str, reason: Ineligible) -> str:
    """Return a text that says why `sensor` is ineligible now.

    >>> ineligible_text("attic", BackedOff(until=41, silence=1080.0))
    'attic is backed off until interval 41: its last reading is 18 min old'
    """
    match reason:
        case BackedOff(until, None):
            return f"{sensor} is backed off until interval {until}: it has sent no reading yet"
        case BackedOff(until, silence):
            age = duration(silence or 0.0)
            return f"{sensor} is backed off until interval {until}: its last reading is {age} old"
        case Excluded(until, fault):
            return f"{sensor} is excluded until interval {until}: it is faulty ({fault.kind})"
        case Compared():
            return (
                f"{sensor} repeats its reading; for comparison, another sensor is activated first"
            )
        case LowBattery(percent):
            return f"{sensor} has {significant(percent)} % battery left"
        case OutOfEnergy(left, unit):
            return f"{sensor} has {significant(left)} {unit} left"
        case FieldOutOfEnergy(cost, left, unit):
            return (
                f"an activation of {sensor} costs {significant(cost)} {unit}, and the field has "
                f"{significant(left)} {unit} left"
            )
        case Refused(until):
            return (
                f"{sensor} is not activated before interval {until}: the broker refuses its "
                "activations; `edge-tvbo status` says what to allow in the broker's ACL"
            )
        case Ignored():
            return (
                f"{sensor} is ignored by command; "
                "to use it again, send the command ignore with ignored = false"
            )
        case WasActivated():
            return f"{sensor} was already activated in this interval"


def energy_text(fact: EnergyFact) -> str:
    """Return a text about the energy that is left for activations.

    >>> energy_text(FieldEnergyLeft(31.25, 500.0, "J"))
    '31.2 of 500 J left'
    >>> energy_text(SensorsWithEnergy(2, 3))
    '2 of 3 sensors have energy for an activation'
    """
    match fact:
        case FieldEnergyLeft(left, budget, unit):
            return f"{significant(left)} of {budget:.12g} {unit} left"
        case SensorsWithEnergy(sensors, M):
            return f"{sensors} of {M} sensors have energy for an activation"


def _model_text(model: LikeliestModel) -> str:
    if model.momentum is not None:
        change = "momentum with ε = {:g}, α = {:g}".format(*model.momentum)
    elif model.epsilon:
        change = f"time-varying with ε = {model.epsilon:g}"
    else:
        change = "static, reset by its event trigger"
    scale = "" if model.length_scale is None else f", length scale {model.length_scale:.3g}"
    return f"{change}{scale}"


def _hours_text(most: int, least: int) -> str:
    """Return a text that says in which hours (UTC) a field varies most and least.

    >>> _hours_text(23, 4)
    'most from 23:00 to 24:00 and least from 04:00 to 05:00, UTC'
    """
    hours = [f"from {hour:02}:00 to {hour + 1:02}:00" for hour in (most, least)]
    return "most {} and least {}, UTC".format(*hours)


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %"
