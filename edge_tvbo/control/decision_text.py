"""Decision text: decisions in the field's unit, their reasons in words, and texts of notices."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import floor, inf, log10
from typing import NamedTuple

import numpy as np

from edge_tvbo.control.alerts import AlertMonitor
from edge_tvbo.control.facts import (
    BackedOff,
    Compared,
    EnergyFact,
    Excluded,
    Fault,
    FieldEnergyLeft,
    Ignored,
    Ineligible,
    LowBattery,
    OutOfEnergy,
    SensorsWithEnergy,
    Silence,
    WasActivated,
)
from edge_tvbo.control.fault_detection import FaultDetector
from edge_tvbo.control.ignored_sensors import IgnoredSensors
from edge_tvbo.messages.documents import Alert, Decision, Hotspot, ModelState, NoticeKind, Reason
from edge_tvbo.messages.formatting import duration, rfc3339, season_text, significant
from edge_tvbo.models.facts import (
    Fact,
    FactorApproximation,
    LearnedStructure,
    LikeliestModel,
    LowRankApproximation,
    RateOfChange,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.policy.base import Choice, Policy

MAX_INELIGIBLE = 5  # sensors that a text names; the others are counted
COMPARED = (Reason.EXPLOIT, Reason.EXPLORE)  # reasons for which the sensors' bounds were compared
NOTICES: dict[NoticeKind, str] = {
    "all-suspect": "No sensor replies; check the sensors and the broker. Until one replies, each is"
    " activated in turn",
    "battery-low": "{sensor} has {percent} % battery left; it is not activated",
    "model-reset": "{sensor} contradicts the model; the model was reset",
    "paused": "Paused by command; no sensor is activated until the field is resumed",
    "resumed": "Resumed by command; the next interval activates a sensor again",
    "sensor-back": "{sensor} responds again",
    "sensor-lost": "{sensor} did not reply in time; it is backed off and activated again later",
    "sensor-agrees": "{sensor} agrees with the other sensors again; its readings are used again",
    "sensor-faulty": "{sensor} seems to be faulty",
    "sensor-ignored": "{sensor} is ignored by command: it is not activated, and its readings are"
    " not used",
    "sensor-used": "{sensor} is used again by command",
    "some-back": "A sensor responds again; the policy selects the sensors again",
}
ADVICE_NOTICES: dict[NoticeKind, str] = {  # in the mode advise, in which no command is sent
    **NOTICES,
    "all-suspect": "No sensor reports; check the sensors and the broker. Until one reports,"
    " each is recommended in turn",
    "battery-low": "{sensor} has {percent} % battery left; it is not recommended",
    "paused": "Paused by command; no sensor is recommended until the field is resumed",
    "resumed": "Resumed by command; the next interval recommends a sensor again",
    "sensor-back": "{sensor} reports again",
    "sensor-ignored": "{sensor} is ignored by command: it is not recommended, and its readings are"
    " not used",
    "some-back": "A sensor reports again; the policy selects the sensors again",
}
NO_NAMES: Mapping[str, str] = {}
LOG_SCALE = "the model works on a log scale, so estimates are medians"
RESET_BY_COMMAND = "The model was reset by command"


def notice_text(
    kind: NoticeKind,
    sensor: str | None = None,
    percent: float = 0.0,
    texts: Mapping[NoticeKind, str] = NOTICES,
) -> str:
    """Return the text of a notice about a field, or about one of its sensors."""
    if kind == "model-reset" and sensor is None:
        return RESET_BY_COMMAND
    return texts[kind].format(sensor=sensor, percent=significant(percent))


def silence_text(sensor: str, silence: Silence) -> str:
    """Return the text of a notice that `sensor` is silent.

    >>> silence_text("attic", Silence(240.0, 60.0, while_recommended=False))
    'attic has sent no usable reading for 4 min; it usually sends one every 60 s'
    """
    time, usual = duration(silence.time), duration(silence.usual)
    if silence.while_recommended:
        return (
            f"{sensor} has sent no usable reading in the {time} for which it was recommended; it "
            f"usually sends one within {usual}"
        )
    return f"{sensor} has sent no usable reading for {time}; it usually sends one every {usual}"


class DecisionBuilder:
    """Builder of decisions from the choices of one policy, with the reasons for the user.

    Parameters
    ----------
    policy : Policy
        The policy that makes the choices.
    faults : FaultDetector, optional
        The fault detector of the field. Excluded sensors are never shown as the highest.
    ignored : IgnoredSensors, optional
        The ignored sensors of the field, which are never shown as the highest either.
    with_text : bool
        Whether decisions contain factors and a text. Replays need neither factors nor texts.
    recommends : bool
        Whether the selected sensors are only recommended, and not activated.
    names : mapping, optional
        Names of sensors in texts, if they differ from the ids.
    """

    def __init__(
        self,
        policy: Policy,
        faults: FaultDetector | None = None,
        ignored: IgnoredSensors | None = None,
        *,
        with_text: bool = True,
        recommends: bool = False,
        names: Mapping[str, str] = NO_NAMES,
    ) -> None:
        self._policy = policy
        self._faults = faults
        self._ignored = ignored or IgnoredSensors(policy.field.sensors)
        self._with_text = with_text
        self._recommends = recommends
        self._activated = "recommended" if recommends else "activated"
        self._date = rfc3339 if with_text else _cached_rfc3339
        self._field: SensorField = policy.field
        self._names = [names.get(sensor, sensor) for sensor in policy.field.sensors]
        self._digits = decimals(policy.field)
        self._format = f"%.{self._digits}f"
        self._unit = f" {policy.field.unit}" if policy.field.unit else ""
        self._extreme = "high" if policy.field.objective == "max" else "low"

    def decision(
        self,
        choice: Choice,
        eligible: Mask | None,
        *,
        because: Reason | None,
        interval: int,
        at: float,
        expires_at: float,
        model: ModelState,
        ineligible_reason: Callable[[int], Ineligible],
        energy: EnergyFact | None = None,
        earlier: Sequence[int] = (),
    ) -> Decision:
        """Return the decision about one activation of an interval.

        Parameters
        ----------
        choice : Choice
            The selected sensor, with its posterior in model units.
        eligible : bool array (M,), optional
            The sensors that could be selected; None for all.
        because : Reason or None
            The reason for the selection if the controller determined the sensor; None if the policy
            selected it.
        interval : int
            Number of the interval.
        at, expires_at : float
            Start of the interval and deadline of the reply, in s since 1970.
        model : ModelState
            The state of the model when the choice was made.
        ineligible_reason : callable
            Returns the reason why a sensor is not eligible.
        energy : EnergyFact, optional
            The energy that is left; None if the field has no energy budget.
        earlier : sequence of int
            The sensors that were activated before in the same interval.
        """
        mean, std = self._policy.posterior()
        reason = because or self._reason(choice, mean, eligible)
        figures = self._figures(choice)
        factors: list[str] = []
        if self._with_text:
            factors += self._factors(choice, figures, mean, std, eligible, reason)
            if eligible is not None and because is None:
                factors += self._ineligible(choice, mean, std, eligible, ineligible_reason)
            if energy is not None:
                factors.append(energy_text(energy))
        return Decision(
            interval=interval,
            at=self._date(at),
            expires_at=self._date(expires_at),
            sensor=choice.sensor,
            policy=self._policy.name,
            mean=figures.mean,
            std=figures.std,
            ucb=figures.bound,
            unit=self._field.unit,
            reason=reason,
            factors=factors,
            text=self._text(choice, figures, mean, reason) if self._with_text else "",
            model=model,
            recommended=self._recommends,
            earlier=[self._field.sensors[arm] for arm in earlier] if earlier else [],
        )

    def argmax_mean(self, before: int) -> Choice:
        """Return the choice of the sensor with the highest estimate; in a tie, prefer `before`."""
        mean, std = self._policy.posterior()
        arm = self._highest(mean)
        if before >= 0 and mean[before] == mean[arm] and not self._ignored.mask[before]:
            arm = before
        highest = float(mean[arm])
        return Choice(arm, self._field.sensors[arm], highest, float(std[arm]), highest)

    def hotspot(self, at: float, last: Sequence[float]) -> Hotspot | None:
        """Return the sensor with the highest estimate at time `at`; None before the first reading.

        `last` contains the arrival time of each sensor's last reading; -inf for a sensor without
        readings.
        """
        mean, std = self._policy.posterior()
        arm = self._highest(mean)
        highest = float(mean[arm])
        if highest == 0.0 and not mean.any():
            return None
        return Hotspot(
            at=rfc3339(at),
            sensor=self._field.sensors[arm],
            value=self._value(highest),
            std=self._spread(highest, float(std[arm])),
            unit=self._field.unit,
            age_s=max(0, round(at - last[arm])) if last[arm] > -inf else None,
        )

    def hottest(self) -> tuple[float, float] | None:
        """Return mean and std of the hot spot in model units; None before the first reading."""
        mean, std = self._policy.posterior()
        arm = self._highest(mean)
        return (float(mean[arm]), float(std[arm])) if mean.any() else None

    def alert(self, monitor: AlertMonitor, at: float, values: Sequence[float]) -> Alert | None:
        """Return the state of the alert at time `at`; None before the first reading.

        `values` contains the last reading of each sensor.
        """
        mean, std = self._policy.posterior()
        arm = self._highest(mean)
        highest, spread = float(mean[arm]), float(std[arm])
        if not mean.any():
            return None
        readings = {n: round(values[n], self._digits) for n in monitor.arms_beyond()}
        figures = _Figures(self._value(highest), self._spread(highest, spread), 0.0)
        probability = monitor.probability(highest, spread)
        return Alert(
            at=rfc3339(at),
            active=monitor.active,
            since=rfc3339(monitor.since) if monitor.since else None,
            threshold=monitor.threshold,
            release=round(monitor.release, self._digits),
            sensor=self._field.sensors[arm],
            value=figures.mean,
            std=figures.std,
            probability=round(probability, 3),
            readings={self._field.sensors[n]: value for n, value in readings.items()},
            unit=self._field.unit,
            text=self._alert_text(monitor, figures, arm, readings, probability),
        )

    def _alert_text(
        self,
        monitor: AlertMonitor,
        figures: "_Figures",
        arm: int,
        readings: Mapping[int, float],
        probability: float,
    ) -> str:
        side = "above" if self._field.objective == "max" else "below"
        values = f"for values {side} {monitor.threshold:g}{self._unit}"
        hotspot = f"{self._names[arm]} is estimated at {self._estimate(figures)}"
        if not monitor.active:
            return f"No alert {values}; {hotspot}"
        until = self._quantity(round(monitor.release, self._digits))
        sent = [f"{self._names[n]} sent {self._quantity(value)}" for n, value in readings.items()]
        if len(sent) > MAX_INELIGIBLE:
            sent = [*sent[:MAX_INELIGIBLE], f"{len(sent) - MAX_INELIGIBLE} more sensors"]
        percent = min(99, floor(100.0 * probability))
        why = ", ".join(sent) or f"{hotspot}, {side} the threshold with {percent} % probability"
        return f"Alert {values}, until {until}: {why}"

    def model_facts(self) -> list[str]:
        """Return the facts about the model in words."""
        facts = [fact_text(fact) for fact in self._policy.facts()]
        return facts if self._field.log1p_scale is None else [*facts, LOG_SCALE]

    def faults(self) -> dict[str, str]:
        """Return a dict that maps each faulty sensor to its fault in words."""
        faults = self._faults.faults() if self._faults else {}
        return {self._field.sensors[arm]: self._fault_text(fault) for arm, fault in faults.items()}

    def fault_notice(self, arm: int) -> str:
        """Return the text of a notice that `arm` is faulty, or that it is no longer faulty."""
        sensor = self._names[arm]
        fault = self._faults.fault(arm) if self._faults else None
        if fault is None or self._faults is None:
            return notice_text("sensor-agrees", sensor)
        until = self._faults.retry_interval(arm)
        measure = (
            f"its readings are not used, and it is tried again from interval {until}"
            if self._faults.excluded[arm]
            else 'its readings are still used, because faults = "report"'
        )
        return f"{sensor} seems to be faulty: {self._fault_text(fault)}; {measure}"

    def implausible_text(self, value: float, plausible: tuple[float, float]) -> str:
        """Return an implausible reading and the plausible range in words."""
        lowest, highest = (self._number(round(each, self._digits)) for each in plausible)
        return f"{value:g}{self._unit}; plausible: {lowest} to {highest}{self._unit}"

    def implausible_notice(self, arm: int, value: float, plausible: tuple[float, float]) -> str:
        """Return the text of a notice that `arm` sent the implausible reading `value`."""
        return (
            f"{self._names[arm]} sent {self.implausible_text(value, plausible)}. The reading is not"
            " used; check the sensor, its unit and the setting plausible"
        )

    def _fault_text(self, fault: Fault) -> str:
        value, expected = (
            self._quantity(round(each, self._digits)) for each in (fault.value, fault.expected)
        )
        match fault.kind:
            case "stuck":
                return f"it has reported {value} {fault.count} times in a row; other sensors change"
            case "drift":
                return (
                    f"{fault.count} readings in a row, up to {value}, drift away from the estimate,"
                    f" now {expected}; no other sensor moves likewise"
                )
            case "spikes":
                return f"{fault.count} readings, now {value}, are far from the estimate, {expected}"
            case "unit":
                return (
                    f"it reports {value}, and {expected} is expected; {fault.count} readings fit"
                    f" a value in {fault.unit}"
                )

    def _highest(self, mean: Array) -> int:
        """Return the arm with the highest estimate among the sensors that may be the highest."""
        hidden = self.hidden()
        if not hidden.any():
            return int(mean.argmax())
        hidden = self._ignored.mask if hidden.all() else hidden
        return int(np.where(hidden, -inf, mean).argmax())

    def hidden(self) -> Mask:
        """Return a mask, of shape (M,), of the sensors that are ignored or excluded."""
        if self._faults is None or not self._faults.affects_selection:
            return self._ignored.mask
        return self._ignored.mask | self._faults.excluded

    def _reason(
        self,
        choice: Choice,
        mean: Array,
        eligible: Mask | None,
    ) -> Reason:
        if not self._policy.uses_readings:
            return Reason.SCHEDULED
        if self._policy.observations == 0:
            return Reason.WARMUP
        candidates = mean if eligible is None else mean[eligible]
        argmax_mean = candidates[candidates.argmax()]  # twice as fast as max()
        return Reason.EXPLOIT if choice.mean >= argmax_mean else Reason.EXPLORE

    def _figures(self, choice: Choice) -> "_Figures":
        mean, bound = self._value(choice.mean), self._value(choice.ucb)
        return _Figures(mean, self._spread(choice.mean, choice.std), bound)

    def _factors(
        self,
        choice: Choice,
        figures: "_Figures",
        mean: Array,
        std: Array,
        eligible: Mask | None,
        reason: Reason,
    ) -> list[str]:
        if reason not in COMPARED or len(mean) == 1:
            return []
        bound = _bounds(choice, mean, std)
        bound[choice.arm] = -inf
        if eligible is not None:
            bound[~eligible] = -inf
        factors = [f"its bound is {self._quantity(figures.bound)}"]
        runner_up = bound.argmax()
        if -inf < (highest := float(bound[runner_up])) <= choice.ucb:
            next_bound = self._quantity(self._value(highest))
            factors.append(f"next is {self._names[runner_up]} with {next_bound}")
        if reason is Reason.EXPLORE:
            best = self._highest(mean)
            estimate = self._quantity(self._value(float(mean[best])))
            sensor = self._names[best]
            factors.append(f"{sensor} has the {self._extreme}est estimate, {estimate}")
        return factors + self.model_facts()

    def _ineligible(
        self,
        choice: Choice,
        mean: Array,
        std: Array,
        eligible: Mask,
        ineligible_reason: Callable[[int], Ineligible],
    ) -> list[str]:
        """Return the reasons why sensors are ineligible, sorted by descending confidence bound."""
        arms = np.flatnonzero(~eligible)
        arms = arms[np.argsort(-_bounds(choice, mean, std)[arms], kind="stable")]
        texts = [
            ineligible_text(self._names[arm], ineligible_reason(int(arm)))
            for arm in arms[:MAX_INELIGIBLE]
        ]
        more = len(arms) - len(texts)
        return [*texts, f"{more} more cannot be {self._activated} now"] if more else texts

    def _text(self, choice: Choice, figures: "_Figures", mean: Array, reason: Reason) -> str:
        estimate = self._estimate(figures)
        best = f"the {self._extreme}est estimate"
        if choice.mean < mean[mean.argmax()]:
            best += f" of the sensors that can be {self._activated}"
        match reason:
            case Reason.EXPLOIT:
                why = f"{estimate}; {best}"
            case Reason.EXPLORE:
                bound = self._quantity(figures.bound)
                why = f"{estimate}; it could be as {self._extreme} as {bound}"
            case Reason.WARMUP:
                why = "the model has no readings; selected at random"
            case Reason.SCHEDULED:
                why = "selected without a model"
            case Reason.PROBE:
                why = f"no sensor responds; each is {self._activated} in turn"
            case Reason.ASKED:
                why = f"{estimate}; requested by command"
            case Reason.SAVED:
                why = f"{estimate}; {best}; not {self._activated}, to save energy"
        return f"{self._names[choice.arm]}: {why}"

    def _estimate(self, figures: "_Figures") -> str:
        """Return mean ± standard deviation, both with the two significant digits of the latter."""
        digits = self._digits
        if figures.std > 0.0:
            digits = max(0, min(digits, 1 - floor(log10(figures.std))))
        return f"{figures.mean:.{digits}f} ± {figures.std:.{digits}f}{self._unit}"

    def _value(self, value: float) -> float:
        return round(self._field.to_unit(value), self._digits) + 0.0  # no minus zero

    def _spread(self, value: float, std: float) -> float:
        return round(self._field.std_to_unit(value, std), self._digits)

    def _number(self, value: float) -> str:
        text = self._format % value
        return text.rstrip("0").rstrip(".") if self._digits else text

    def _quantity(self, value: float) -> str:
        return self._number(value) + self._unit


_cached_rfc3339 = lru_cache(4096)(rfc3339)  # the replays of one recording have the same intervals


class _Figures(NamedTuple):
    """The rounded numbers of a decision, in the field's unit."""

    mean: float
    std: float
    bound: float


def _bounds(choice: Choice, mean: Array, std: Array) -> Array:
    """Return mean + `choice.width` * std of every sensor: the upper confidence bounds, (M,)."""
    return mean + choice.width * std


def fact_text(fact: Fact) -> str:
    """Return a fact about the model in words.

    >>> fact_text(LikeliestModel(0.41, 0.03, None, None))
    'the likeliest model (time-varying with ε = 0.03) has weight 41 %'
    >>> fact_text(FactorApproximation(9, 600, 0.0123)).partition("; ")[2]
    'the correlation of two sensors is off by at most 0.01'
    >>> fact_text(LearnedStructure(86400.0, 7854.0, 86400.0, 288))
    'learned from 288 readings: a course of a day, changes within 2 h and 24 h'
    """
    match fact:
        case LowRankApproximation(components, sensors, noise_share):
            return (
                f"{components} components represent the {sensors} sensors; the variance they leave "
                f"out is at most {_percent(noise_share)} of a reading's noise variance"
            )
        case FactorApproximation(factors, sensors, error):
            return (
                f"the model of the {sensors} sensors has low rank (factors: {factors}); "
                f"the correlation of two sensors is off by at most {significant(error, 1)}"
            )
        case LikeliestModel():
            return f"the likeliest model ({_model_text(fact)}) has weight {fact.weight * 100:.0f} %"
        case LearnedStructure(period, shorter, longer, readings):
            course = f"a course of {season_text(period)}, " if period else ""
            changes = f"changes within {duration(shorter)} and {duration(longer)}"
            return f"learned from {readings} readings: {course}{changes}"
        case RateOfChange(epsilon):
            return f"about {_percent(epsilon)} of the variance is new each interval"


def ineligible_text(sensor: str, reason: Ineligible) -> str:
    """Return the reason why `sensor` cannot be activated now, in words.

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
            return f"{sensor} repeats its reading; another sensor is read first, for comparison"
        case LowBattery(percent):
            return f"{sensor} has {significant(percent)} % battery left"
        case OutOfEnergy(left, unit):
            return f"{sensor} has {significant(left)} {unit} left"
        case Ignored():
            return f"{sensor} is ignored by command"
        case WasActivated():
            return f"{sensor} was already activated in this interval"


def energy_text(fact: EnergyFact) -> str:
    """Return the energy that is left for activations, in words.

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


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %"


def decimals(field: SensorField) -> int:
    """Return how many decimals a value needs to show 1/100 of the field's standard deviation."""
    return max(0, 2 - floor(log10(field.scale)))
