"""Decision text: decisions in the field's unit, with their reasons in words."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.control.checked_policy import checked
from edge_tvbo.control.fact_text import energy_text, fact_text, ineligible_text, turn_text
from edge_tvbo.control.facts import INELIGIBILITY, EnergyFact, Ineligible
from edge_tvbo.control.history_text import WITHOUT_MODEL
from edge_tvbo.control.hotspots import HotspotFinder
from edge_tvbo.control.quantities import Figures, Quantities
from edge_tvbo.messages.documents import Decision, ModelState, Reason
from edge_tvbo.messages.formatting import counted, rfc3339
from edge_tvbo.numerics.acquisition import runner_up
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.policy.base import Choice, Policy
from edge_tvbo.policy.model_free import ModelFreePolicy

MAX_INELIGIBLE = 50  # ineligible sensors in a decision; a response contains a decision per field
MAX_EXPLAINED = 5  # ineligible sensors that texts name; further sensors are counted
COMPARED = (Reason.EXPLOIT, Reason.EXPLORE)  # reasons for which the sensors' bounds were compared
OF_MODELS = (*COMPARED, Reason.WARMUP)  # reasons that texts state only for policies with a model
LOG_SCALE = "the model works on a log scale, so estimates are medians"
WIDTH_DECIMALS = 4  # decimals of `width` in a decision; the bounds have fewer decimals


class RunnerUp(NamedTuple):
    """The sensor that has the second-highest bound in a decision, and this bound."""

    arm: int
    ucb: float


class DecisionBuilder:
    """Builder of decisions: turns each choice of a policy into a `Decision` with reasons in words.

    Parameters
    ----------
    policy : Policy
        The policy that makes the choices.
    hotspots : HotspotFinder
        Finds the sensor with the highest estimate, which texts mention.
    with_text : bool
        Whether decisions contain factors, a text, a runner-up and the ineligible sensors. Replays
        need none of these.
    recommends : bool
        Whether the selected sensors are only recommended, and not activated.
    names : mapping
        Names of sensors in texts, if they differ from the ids.
    """

    def __init__(
        self,
        policy: Policy,
        hotspots: HotspotFinder,
        *,
        with_text: bool,
        recommends: bool,
        names: Mapping[str, str],
    ) -> None:
        self._policy = policy
        self._checked_policy = checked(policy)
        self._hotspots = hotspots
        self._with_text = with_text
        self._recommends = recommends
        self._activated = "recommended" if recommends else "activated"
        self._date = rfc3339 if with_text else _cached_rfc3339
        self._has_model = not isinstance(policy, ModelFreePolicy)
        self._field = policy.field
        self._all_sensors = np.ones(len(policy.field), np.bool_)
        self._names = [names.get(sensor, sensor) for sensor in policy.field.sensors]
        self._quantities = Quantities(policy.field)
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
        ineligible_reasons: Callable[[Sequence[int]], Mapping[int, Ineligible]],
        energy: EnergyFact | None = None,
        earlier: Sequence[int] = (),
    ) -> Decision:
        """Return the decision about one activation of an interval, with its reasons.

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
        ineligible_reasons : callable
            Returns, for a list of sensors, a mapping from each sensor to the reason why it is not
            eligible. The mapping has the order of the list.
        energy : EnergyFact, optional
            The energy that is left; None if the field has no energy budget.
        earlier : sequence of int
            The sensors that were activated earlier in the same interval.
        """
        mean, std = self._checked_policy.posterior()
        highest = _highest(mean)
        reason = because or self._reason(choice, highest, mean, eligible)
        figures = self._quantities.figures(choice.mean, choice.std)
        bound = self._quantities.value(choice.ucb)
        stated = self._stated(reason)
        factors: list[str] = []
        second: RunnerUp | None = None
        ineligible: Mapping[int, Ineligible] = {}
        if self._with_text:
            second = self._runner_up(choice, mean, std, eligible, stated)
            factors += self._factors(choice, figures, bound, mean, second, stated)
            if eligible is not None and because in (None, Reason.SAVED):
                arms = _by_bound(np.flatnonzero(~eligible), choice, mean, std)
                ineligible = ineligible_reasons(arms[:MAX_INELIGIBLE])
                factors += self._ineligible_texts(ineligible, len(arms))
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
            ucb=bound,
            unit=self._field.unit,
            reason=reason,
            factors=factors,
            text=self._text(choice, figures, bound, highest, stated) if self._with_text else "",
            model=model,
            recommended=self._recommends,
            earlier=[self._field.sensors[arm] for arm in earlier] if earlier else [],
            width=round(choice.width, WIDTH_DECIMALS) if second else None,
            runner_up=self._field.sensors[second.arm] if second else None,
            runner_up_ucb=second.ucb if second else None,
            in_turn=stated in COMPARED and choice.turn is not None,
            ineligible={
                self._field.sensors[arm]: INELIGIBILITY[type(fact)]
                for arm, fact in ineligible.items()
            },
        )

    def model_facts(self) -> list[str]:
        """Return texts that state facts about the model, for the text of a decision."""
        facts = [fact_text(fact) for fact in self._policy.facts()]
        return facts if self._field.log1p_scale is None else [*facts, LOG_SCALE]

    def _reason(
        self,
        choice: Choice,
        highest: float,
        mean: Array,
        eligible: Mask | None,
    ) -> Reason:
        if not self._policy.uses_readings:
            return Reason.SCHEDULED
        if self._policy.observations == 0:
            return Reason.WARMUP
        if eligible is not None:
            highest = _highest(mean[eligible])
        return Reason.EXPLOIT if choice.mean >= highest else Reason.EXPLORE

    def _stated(self, reason: Reason) -> Reason:
        """Return the reason that the text of the decision states.

        If the policy has no model, each reason in `OF_MODELS` is replaced by `Reason.SCHEDULED`.
        """
        return reason if self._has_model or reason not in OF_MODELS else Reason.SCHEDULED

    def _runner_up(
        self, choice: Choice, mean: Array, std: Array, eligible: Mask | None, reason: Reason
    ) -> RunnerUp | None:
        """Return the runner-up of a decision; None if the decision did not compare the bounds.

        Bounds are compared only if the bound of every sensor is the sensor's mean plus the same
        number of standard deviations.
        """
        if reason not in COMPARED or choice.turn or choice.unread or not choice.same_width:
            return None
        others = self._all_sensors if eligible is None else eligible
        arm = runner_up(mean, std, choice.width, others, choice.arm)
        if arm < 0:
            return None
        highest = mean.item(arm) + choice.width * std.item(arm)
        if highest > choice.ucb:
            return None
        return RunnerUp(arm, self._quantities.value(highest))

    def _factors(
        self,
        choice: Choice,
        figures: Figures,
        bound: float,
        mean: Array,
        second: RunnerUp | None,
        reason: Reason,
    ) -> list[str]:
        if reason not in COMPARED or len(mean) == 1:
            return []
        quantities = self._quantities
        if choice.turn:
            factors = [turn_text(choice.turn)]
        else:
            factors = self._bounds(choice, figures, bound, second)
        if reason is Reason.EXPLORE:
            best = self._hotspots.highest(mean)
            estimate = quantities.text(quantities.value(mean.item(best)))
            sensor = self._names[best]
            if best != choice.arm:  # equal if only faulty sensors have higher estimates
                factors.append(f"{sensor} has the {self._extreme}est estimate, {estimate}")
        return factors + self.model_facts()

    def _bounds(
        self, choice: Choice, figures: Figures, bound: float, second: RunnerUp | None
    ) -> list[str]:
        """Return texts for a decision: the selected sensor's bound and the second-highest bound."""
        factors = [f"its bound is {self._quantities.bound(bound, figures)}"]
        if choice.unread:
            factors.append("it was never read, so its bound is wider")
        elif second:
            next_bound = self._quantities.bound(second.ucb, figures)
            factors.append(f"next is {self._names[second.arm]} with {next_bound}")
        return factors

    def _ineligible_texts(self, ineligible: Mapping[int, Ineligible], count: int) -> list[str]:
        """Return texts for a decision that say why sensors are ineligible.

        `count` sensors are ineligible, and `ineligible` contains at least the first `MAX_EXPLAINED`
        of them. Each of these first sensors has its own text. One more text counts the others.
        """
        texts = [
            ineligible_text(self._names[arm], fact)
            for arm, fact in islice(ineligible.items(), MAX_EXPLAINED)
        ]
        more = count - len(texts)
        if more:
            texts.append(f"{counted(more, 'other sensor')} cannot be {self._activated} now")
        return texts

    def _text(
        self, choice: Choice, figures: Figures, bound: float, highest: float, reason: Reason
    ) -> str:
        estimate = self._quantities.estimate(figures)
        best = f"the {self._extreme}est estimate"
        if choice.mean < highest:
            best += f" of the sensors that can be {self._activated}"
        match reason:
            case Reason.EXPLOIT | Reason.EXPLORE if choice.turn:
                why = f"{estimate}; selected in turn, not by its bound"
            case Reason.EXPLOIT:
                why = f"{estimate}; {best}"
            case Reason.EXPLORE:
                upper = self._quantities.bound(bound, figures)
                why = f"{estimate}; its bound is {upper}"
            case Reason.WARMUP:
                why = (
                    "there was no reading since the start or a reset; the sensor was drawn from "
                    "those with the highest bound"
                )
            case Reason.SCHEDULED:
                why = WITHOUT_MODEL
            case Reason.PROBE:
                why = f"no sensor responds; each is {self._activated} in turn"
            case Reason.ASKED:
                why = "requested by command"
                why = f"{estimate}; {why}" if self._has_model else why
            case Reason.SAVED:
                why = f"not {self._activated}, to save energy"
                why = f"{estimate}; {best}; {why}" if self._has_model else why
        return f"{self._names[choice.arm]}: {why}"


_cached_rfc3339 = lru_cache(4096)(rfc3339)  # replays of one recording have the same times


def _by_bound(arms: NDArray[np.intp], choice: Choice, mean: Array, std: Array) -> list[int]:
    """Return the sensors `arms` of a decision, sorted so that the highest bound comes first."""
    bounds = mean[arms] + choice.width * std[arms]
    return list(map(int, arms[np.argsort(-bounds, kind="stable")]))


def _highest(means: Array) -> float:
    """Return the highest of the estimates `means` for a decision text; `means` is not empty."""
    return means.item(means.argmax())  # twice as fast as max()
