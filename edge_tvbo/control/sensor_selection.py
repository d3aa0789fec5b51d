"""Sensor selection: selects the sensor to activate next, and builds the decision document."""

from collections.abc import Sequence
from math import inf

import numpy as np

from edge_tvbo.control.decision_text import DecisionBuilder
from edge_tvbo.control.facts import (
    BackedOff,
    EnergyShortage,
    Ignored,
    Ineligible,
    Refused,
    WasActivated,
)
from edge_tvbo.control.field_state import FieldState
from edge_tvbo.messages.commands import Activate, Command, PublishState, Recommend
from edge_tvbo.messages.documents import Decision, ModelState, Reason
from edge_tvbo.numerics.types import Mask
from edge_tvbo.policy.base import Choice


class SensorSelection:
    """Selects which of the eligible sensors of one field are activated.

    Parameters
    ----------
    state : FieldState
        The state of the field, which the selection updates.
    with_text : bool
        Whether decisions contain factors, a text and a runner-up.
    """

    def __init__(self, state: FieldState, *, with_text: bool) -> None:
        self._state = state
        self._decisions = DecisionBuilder(
            state.policy,
            state.hotspots,
            with_text=with_text,
            recommends=state.recommends,
            names=state.settings.sensor_names,
        )

    def model_facts(self) -> list[str]:
        """Return texts that state facts about the model of the policy."""
        return self._decisions.model_facts()

    def begin(self, at: float) -> list[Command]:
        """Select and activate the first sensor of the interval.

        With ``next_activation = "at-once"``, select and activate all sensors planned for the
        interval. If no sensor is eligible, or no activation is worth its energy, only a decision is
        published.
        """
        state = self._state
        sensors = state.activations.planned
        if sensors > 1 and state.settings.next_activation == "at-once":
            return self._activate_several(sensors, at) or self._skip_activation(at)
        state.activations.left = sensors - 1
        if activated := self._activate_one(at, at + state.settings.reply_timeout):
            return activated
        state.activations.left = 0
        return self._skip_activation(at)

    def activate_next(self, at: float) -> list[Command]:
        """Select and activate the interval's next sensor, if one is planned and there is time."""
        state = self._state
        if not state.activations.left or state.paused or not state.begun:
            return []
        expires_at = state.activations.next_deadline(state.began, at)
        if expires_at is None:
            return []
        state.activations.left -= 1
        return self._activate_one(at, expires_at)

    def force(self, arm: int, at: float) -> list[Command]:
        """Select and activate the sensor `arm`, even if the policy would select another sensor."""
        eligible = self._only(arm)
        choice = self._state.checked_policy.select(eligible)
        expires_at = at + self._state.settings.reply_timeout
        return self._activate(choice, eligible, Reason.ASKED, at, expires_at)

    def _activate_one(self, at: float, expires_at: float) -> list[Command]:
        """Select the next sensor, and activate it if the activation is worth its energy."""
        state = self._state
        eligible, because = self._eligible(), None
        if eligible is not None and not eligible.any():
            return []
        if eligible is not None and state.health.all_unresponsive:
            eligible = self._only(state.health.next_in_turn(eligible))
            because = Reason.PROBE
        choice = state.checked_policy.select(eligible)
        if state.energy and not state.energy.is_worth_activating(choice.arm, choice.std):
            return []
        return self._activate(choice, eligible, because, at, expires_at)

    def _activate_several(self, sensors: int, at: float) -> list[Command]:
        """Select several sensors; activate each one whose activation is worth its energy."""
        state = self._state
        expires_at = at + state.settings.reply_timeout
        if state.health.all_unresponsive:
            return [each for _ in range(sensors) for each in self._activate_one(at, expires_at)]
        eligible = self._eligible()
        if eligible is not None and not eligible.any():
            return []
        commands: list[Command] = []
        for choice in state.checked_policy.select_many(sensors, eligible):
            left = self._eligible()
            if left is not None and not left[choice.arm]:  # no energy is left, or all are refused
                continue
            if state.energy and not state.energy.is_worth_activating(choice.arm, choice.std):
                continue
            commands += self._activate(choice, left, None, at, expires_at)
        return commands

    def _eligible(self) -> Mask | None:
        """Return a mask, (M,), of the sensors that can be selected; None for all."""
        state = self._state
        restricted = state.health.any_unresponsive or state.ignored.count
        eligible = state.health.eligible(state.interval) if restricted else None
        if state.refusals.count:
            eligible = self._without_refused(eligible)
        if state.faults.affects_selection:
            eligible = state.faults.eligible(state.interval, eligible)
        if state.energy:
            affordable = state.energy.affordable()
            eligible = affordable if eligible is None else eligible & affordable
        if state.activations.arms:
            eligible = np.ones(len(state.sensors), np.bool_) if eligible is None else eligible
            eligible[state.activations.arms] = False
        return eligible

    def _without_refused(self, eligible: Mask | None) -> Mask | None:
        """Return `eligible` without the sensors that are backed off because of refusals.

        If no sensor with enough energy would be left for the first activation of the interval,
        return `eligible` unchanged.
        """
        state = self._state
        accepted = state.refusals.eligible(state.interval)
        left = accepted if eligible is None else eligible & accepted
        affordable = left & state.energy.affordable() if state.energy else left
        return left if affordable.any() or state.activations.arms else eligible

    def _activate(
        self,
        choice: Choice,
        eligible: Mask | None,
        because: Reason | None,
        at: float,
        expires_at: float,
    ) -> list[Command]:
        state = self._state
        replaces = not state.activations.awaited
        state.activations.add(choice.arm, at)
        state.selected = choice.arm
        state.timeout_counts = state.online
        if because is Reason.PROBE:
            state.health.mark_probed(choice.arm)
        if state.refusals.count:
            state.refusals.mark_activated(choice.arm, state.interval)
        decision = PublishState(self._decision(choice, eligible, because, expires_at))
        if state.recommends:
            state.reports.recommend(state.activations.awaited, at)
            more = state.activations.left > 0
            return [Recommend(choice.sensor, state.interval, at, expires_at, more), decision]
        if state.energy:
            state.energy.charge(choice.arm)
        return [Activate(choice.sensor, state.interval, at, expires_at, replaces), decision]

    def _skip_activation(self, at: float) -> list[Command]:
        state = self._state
        assert state.energy
        state.energy.skip_interval()
        choice = state.hotspots.argmax_mean(state.selected)
        state.selected = choice.arm
        expires_at = at + state.settings.reply_timeout
        return [PublishState(self._decision(choice, self._eligible(), Reason.SAVED, expires_at))]

    def _decision(
        self,
        choice: Choice,
        eligible: Mask | None,
        because: Reason | None,
        expires_at: float,
    ) -> Decision:
        state = self._state
        return self._decisions.decision(
            choice,
            eligible,
            because=because,
            interval=state.interval,
            at=state.began,
            expires_at=expires_at,
            model=ModelState(state.policy.observations, state.policy.resets, state.last_reset),
            ineligible_reasons=self._ineligible_reasons,
            energy=state.energy.fact() if state.energy else None,
            earlier=state.activations.arms[:-1],
        )

    def _ineligible_reasons(self, arms: Sequence[int]) -> dict[int, Ineligible]:
        """Return the reason why each of the sensors `arms` cannot be selected now."""
        energy = self._state.energy
        shortages = energy.shortages(arms) if energy else {}
        return {arm: self._ineligible_reason(arm, shortages.get(arm)) for arm in arms}

    def _ineligible_reason(self, arm: int, shortage: EnergyShortage | None) -> Ineligible:
        state = self._state
        if arm in state.activations.arms:
            return WasActivated()
        if state.ignored.mask[arm]:
            return Ignored()
        if fact := state.faults.ineligible_reason(arm, state.interval):
            return fact
        if (until := state.refusals.retry_interval(arm)) > state.interval:
            return Refused(until)
        until = state.health.retry_interval(arm)
        if shortage and (until <= state.interval or state.health.all_unresponsive):
            return shortage
        received = state.filter.received[arm]
        return BackedOff(until, state.began - received if received > -inf else None)

    def _only(self, arm: int) -> Mask:
        eligible = np.zeros(len(self._state.sensors), np.bool_)
        eligible[arm] = True
        return eligible
