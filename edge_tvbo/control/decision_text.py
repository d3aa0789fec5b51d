"""Why this sensor? A choice in the field's unit and in words."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import floor, inf, log10
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.messages.documents import Decision, Hotspot, ModelState, Reason
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.models.facts import Fact, LikeliestModel, LowRankApproximation, RateOfChange
from edge_tvbo.models.field import SensorField
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.policy.base import Choice, Policy

MOST_PASSED_OVER = 5  # sensors of whom it is said why they are not asked
JUDGED = (Reason.EXPLOIT, Reason.EXPLORE)  # by what is believed of others too


class DecisionBuilder:
    """Turns the choices of one policy into decisions that a person can follow."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._field: SensorField = policy.field
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
        ineligible_reason: Callable[[int], str],
        also: Sequence[str] = (),
    ) -> Decision:
        """Give the decision for `interval`, which was to choose `choice` among the eligible.

        `because` is the reason, where the policy did not decide; `ineligible_reason` returns why a
        sensor is not eligible; `also` are further factors.
        """
        mean, std = self._policy.posterior()
        reason = because or self._reason(choice, mean, eligible)
        figures = self._figures(choice)
        factors = self._factors(choice, figures, mean, std, eligible, reason)
        if eligible is not None and because is None:
            factors += self._passed_over(choice, mean, std, eligible, ineligible_reason)
        factors += also
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
            text=self._text(choice, figures, reason),
            model=model,
        )

    def argmax_mean(self, before: int) -> Choice:
        """Give the sensor that is believed to be the hottest; `before` where it is as likely."""
        mean, std = self._policy.posterior()
        arm = int(mean.argmax())
        if before >= 0 and mean[before] >= mean[arm]:
            arm = before
        believed = float(mean[arm])
        return Choice(arm, self._field.sensors[arm], believed, float(std[arm]), believed)

    def hotspot(self, at: float, last: Sequence[float]) -> Hotspot | None:
        """Give where the field is highest by now; None while nothing is believed of it.

        `last` is when a reading of each sensor was last received, -inf for never.
        """
        mean, std = self._policy.posterior()
        arm = int(mean.argmax())
        highest = float(mean[arm])
        if highest == 0.0 and not mean.any():
            return None
        return Hotspot(
            at=rfc3339(at),
            sensor=self._field.sensors[arm],
            value=self._value(highest),
            std=self._spread(float(std[arm])),
            unit=self._field.unit,
            age_s=max(0, round(at - last[arm])) if last[arm] > -inf else None,
        )

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
        argmax_mean = candidates[candidates.argmax()]  # half the time of max(), which is Python's
        return Reason.EXPLOIT if choice.mean >= argmax_mean else Reason.EXPLORE

    def _figures(self, choice: Choice) -> "_Figures":
        mean, bound = self._value(choice.mean), self._value(choice.ucb)
        return _Figures(mean, self._spread(choice.std), bound)

    def _factors(
        self,
        choice: Choice,
        figures: "_Figures",
        mean: Array,
        std: Array,
        eligible: Mask | None,
        reason: Reason,
    ) -> list[str]:
        if reason not in JUDGED or len(mean) == 1:
            return []
        bound = _bounds(choice, mean, std)
        bound[choice.arm] = -inf
        if eligible is not None:
            bound[~eligible] = -inf
        factors = [f"its bound is {self._words(figures.bound)}"]
        runner_up = bound.argmax()
        if (highest := float(bound[runner_up])) > -inf:
            words = self._words(self._value(highest))
            factors.append(f"next is {self._field.sensors[runner_up]} with {words}")
        if reason is Reason.EXPLORE:
            argmax_mean = mean.argmax()
            words = self._words(self._value(float(mean[argmax_mean])))
            factors.append(f"{self._field.sensors[argmax_mean]} is believed at {words}")
        factors += [fact_text(fact) for fact in self._policy.facts()]
        return factors

    def _passed_over(
        self,
        choice: Choice,
        mean: Array,
        std: Array,
        eligible: Mask,
        ineligible_reason: Callable[[int], str],
    ) -> list[str]:
        """Say why sensors cannot be asked, of those first that promise most."""
        arms = np.flatnonzero(~eligible)
        arms = arms[np.argsort(-_bounds(choice, mean, std)[arms], kind="stable")]
        said = [ineligible_reason(int(arm)) for arm in arms[:MOST_PASSED_OVER]]
        more = len(arms) - len(said)
        return [*said, f"{more} more cannot be asked now"] if more else said

    def _text(self, choice: Choice, figures: "_Figures", reason: Reason) -> str:
        believed = f"{self._said(figures.mean)} ± {self._words(figures.std)}"
        match reason:
            case Reason.EXPLOIT:
                why = f"{believed}; believed to be the {self._extreme}est"
            case Reason.EXPLORE:
                bound = self._words(figures.bound)
                why = f"{believed}; it could be as {self._extreme} as {bound}"
            case Reason.WARMUP:
                why = "nothing is known yet, so it was drawn"
            case Reason.SCHEDULED:
                why = "its turn"
            case Reason.PROBE:
                why = "no sensor answers, so each is asked in turn"
            case Reason.ASKED:
                why = f"{believed}; somebody asked for it"
            case Reason.SAVED:
                why = f"{believed}; believed to be the {self._extreme}est, and not asked"
        return f"{choice.sensor}: {why}"

    def _date(self, at: float) -> str:
        return rfc3339(at)

    def _value(self, value: float) -> float:
        return round(self._field.to_unit(value), self._digits) + 0.0  # no minus zero

    def _spread(self, value: float) -> float:
        return round(value * self._field.scale, self._digits)

    def _said(self, value: float) -> str:
        text = self._format % value
        return text.rstrip("0").rstrip(".") if self._digits else text

    def _words(self, value: float) -> str:
        return self._said(value) + self._unit


class Silent(DecisionBuilder):
    """Gives the same decisions without words: for replays, in which nobody would read them."""

    def _factors(self, *_: Any) -> list[str]:
        return []

    def _passed_over(self, *_: Any) -> list[str]:
        return []

    def _text(self, *_: Any) -> str:
        return ""

    def _date(self, at: float) -> str:
        return _remembered(at)


_remembered = lru_cache(4096)(rfc3339)  # the replays of one recording have the same intervals


class _Figures(NamedTuple):
    """What a decision says of its sensor, rounded, in the field's unit."""

    mean: float
    std: float
    bound: float


def _bounds(choice: Choice, mean: Array, std: Array) -> Array:
    """Return the upper confidence bound of every sensor, (M,), with the width of `choice`."""
    return mean + choice.width * std


def fact_text(fact: Fact) -> str:
    """Return a fact about the model in words.

    >>> fact_text(LikeliestModel(0.41, True, 0.03, None, None))
    'the likeliest model (daily profile, time-varying with ε = 0.03) has weight 41 %'
    >>> fact_text(RateOfChange(0.0312))
    'about 3.1 % of the variance is new each interval'
    """
    match fact:
        case LowRankApproximation(components, sensors, noise_share):
            return (
                f"{components} components represent the {sensors} sensors; the variance they leave "
                f"out is at most {_percent(noise_share)} of a reading's noise variance"
            )
        case LikeliestModel():
            return f"the likeliest model ({_model_text(fact)}) has weight {fact.weight * 100:.0f} %"
        case RateOfChange(epsilon):
            return f"about {_percent(epsilon)} of the variance is new each interval"


def _model_text(model: LikeliestModel) -> str:
    if model.momentum is not None:
        change = "momentum with ε = {:g}, α = {:g}".format(*model.momentum)
    elif model.epsilon:
        change = f"time-varying with ε = {model.epsilon:g}"
    else:
        change = "static, reset by its event trigger"
    scale = "" if model.length_scale is None else f", length scale {model.length_scale:.3g}"
    return f"{'daily profile, ' if model.daily else ''}{change}{scale}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %"


def decimals(field: SensorField) -> int:
    """Give how many decimals tell a hundredth of a standard deviation, in the field's unit."""
    return max(0, 2 - floor(log10(field.scale)))
