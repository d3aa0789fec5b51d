"""Why this sensor? A choice in the field's unit and in words."""

from datetime import UTC, datetime
from math import floor, log10

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.messages import Decision, Model, Reason
from edge_tvbo.model.field import SensorField
from edge_tvbo.policies.policy import Choice, Policy


def rfc3339(at: float) -> str:
    """Give a time as text in UTC, with milliseconds only where there are any.

    >>> rfc3339(1078646400), rfc3339(0.25)
    ('2004-03-07T08:00:00Z', '1970-01-01T00:00:00.250Z')
    """
    moment = datetime.fromtimestamp(at, UTC)
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


class Narrator:
    """Turns the choices of one policy into decisions that a person can follow."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._field: SensorField = policy.field
        self._digits = decimals(policy.field)
        self._extreme = "high" if policy.field.objective == "max" else "low"

    def decision(
        self,
        choice: Choice,
        eligible: NDArray[np.bool_] | None,
        *,
        probing: bool,
        interval: int,
        at: float,
        expires_at: float,
        model: Model,
    ) -> Decision:
        """Give the decision for `interval`, which was to choose `choice` among the eligible."""
        mean, std = self._policy.posterior()
        reason = self._reason(choice, mean, eligible, probing)
        return Decision(
            interval=interval,
            at=rfc3339(at),
            expires_at=rfc3339(expires_at),
            sensor=choice.sensor,
            policy=self._policy.name,
            mean=self._value(choice.mean),
            std=round(choice.std * self._field.scale, self._digits),
            ucb=self._value(choice.ucb),
            unit=self._field.unit,
            reason=reason,
            factors=self._factors(choice, mean, std, eligible, reason),
            text=self._text(choice, reason),
            model=model,
        )

    def _reason(
        self,
        choice: Choice,
        mean: NDArray[np.float64],
        eligible: NDArray[np.bool_] | None,
        probing: bool,
    ) -> Reason:
        if probing:
            return Reason.PROBE
        if not self._policy.learns:
            return Reason.SCHEDULED
        if self._policy.observations == 0:
            return Reason.WARMUP
        candidates = mean if eligible is None else mean[eligible]
        return Reason.EXPLOIT if choice.mean >= candidates.max() else Reason.EXPLORE

    def _factors(
        self,
        choice: Choice,
        mean: NDArray[np.float64],
        std: NDArray[np.float64],
        eligible: NDArray[np.bool_] | None,
        reason: Reason,
    ) -> list[str]:
        if reason not in (Reason.EXPLOIT, Reason.EXPLORE) or len(mean) == 1:
            return []
        width = (choice.ucb - choice.mean) / choice.std if choice.std else 0.0
        bound = mean + width * std
        bound[choice.arm] = -np.inf
        if eligible is not None:
            bound[~eligible] = -np.inf
        factors = [f"its bound is {self._words(choice.ucb)}"]
        runner_up = int(bound.argmax())
        if np.isfinite(bound[runner_up]):
            words = self._words(float(bound[runner_up]))
            factors.append(f"next is {self._field.sensors[runner_up]} with {words}")
        if reason is Reason.EXPLORE:
            likeliest = int(mean.argmax())
            words = self._words(float(mean[likeliest]))
            factors.append(f"{self._field.sensors[likeliest]} is believed at {words}")
        return [*factors, *self._policy.account()]

    def _text(self, choice: Choice, reason: Reason) -> str:
        spread = self._said(choice.std * self._field.scale)
        mean = self._said(self._value(choice.mean))
        believed = f"{mean} ± {spread}{self._unit()}"
        match reason:
            case Reason.EXPLOIT:
                why = f"{believed}; believed to be the {self._extreme}est"
            case Reason.EXPLORE:
                bound = self._words(choice.ucb)
                why = f"{believed}; it could be as {self._extreme} as {bound}"
            case Reason.WARMUP:
                why = "nothing is known yet, so it was drawn"
            case Reason.SCHEDULED:
                why = "its turn"
            case Reason.PROBE:
                why = "no sensor answers, so each is asked in turn"
        return f"{choice.sensor}: {why}"

    def _value(self, value: float) -> float:
        return round(self._field.to_unit(value), self._digits) + 0.0  # no minus zero

    def _said(self, value: float) -> str:
        text = f"{value:.{self._digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text

    def _words(self, value: float) -> str:
        return f"{self._said(self._value(value))}{self._unit()}"

    def _unit(self) -> str:
        return f" {self._field.unit}" if self._field.unit else ""


def decimals(field: SensorField) -> int:
    """Give how many decimals tell a hundredth of a standard deviation, in the field's unit."""
    return max(0, 2 - floor(log10(field.scale)))
