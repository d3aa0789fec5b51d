"""Upper confidence bound: the base class of most policies."""

import numpy as np

from edge_tvbo.models.arm_space import Arm, Field, arm_state, arms_from_state
from edge_tvbo.models.beta import BetaSchedule
from edge_tvbo.models.facts import Fact
from edge_tvbo.models.posteriors.base import (
    Posterior,
    Prediction,
    RealTimePosterior,
    SkippingPosterior,
)
from edge_tvbo.models.snapshot import (
    State,
    decode_snapshot,
    encode_snapshot,
    read_bytes,
    read_count,
)
from edge_tvbo.models.triggers import EveryPeriod, Never, Trigger, TriggerInput
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.policy.argument_checks import (
    check_number_of_arms,
    check_step,
    checked_arm,
    checked_reading,
    checked_skipped,
    counts_intervals,
    eligible_mask,
)
from edge_tvbo.policy.base import Choice, ObserveResult


class UpperConfidence:
    """A policy that selects the arm with the highest mean + width · std.

    Parameters
    ----------
    name : str
        Name under which the policy is registered.
    field : SensorField or BoxField
        M arms, or a box with M candidates.
    posterior : Posterior
        Posterior of the arms, which the caller must not change after this call.
    exploration : BetaSchedule
        Schedule of the width of the bound.
    trigger : Trigger, optional
        Rule that decides when the posterior is reset; by default, it is never reset.
    keep_last : bool
        Whether the reading that fired the trigger becomes the first reading after the reset.
    seed : int
        Seed of the draws that break ties between arms.
    """

    uses_readings = True
    learns_rates = False

    def __init__(
        self,
        name: str,
        field: Field,
        posterior: Posterior,
        exploration: BetaSchedule,
        trigger: Trigger | None = None,
        *,
        keep_last: bool = True,
        seed: int = 0,
    ) -> None:
        self.name = name
        self.field = field
        self._posterior = posterior
        self._exploration = exploration
        self._trigger = Never() if trigger is None else trigger
        self._keep_last = keep_last
        self._seed = seed
        self._all_arms = np.ones(len(field), np.bool_)
        self._time = 0  # number of intervals that have ended
        self._events = 0  # number of readings and intervals, the counter of tie-breaking draws
        self.resets = 0
        self._selected: list[Arm] = []  # arms whose first reading the trigger tests
        self._replies = 0  # number of replies in this interval

    @property
    def observations(self) -> int:
        """Number of readings that the upper-confidence policy's posterior holds."""
        return self._posterior.observations

    @property
    def length_scales(self) -> Array | None:
        """Length scales that the upper-confidence policy fitted, (d,); None without a fit."""
        return getattr(self._posterior, "length_scales", None)

    def select(self, eligible: Mask | None = None) -> Choice:
        """Return the eligible arm with the highest upper confidence bound."""
        choice = self._best_choice(eligible_mask(eligible, self._all_arms))
        if choice is None:
            raise ValueError("no arm is eligible")
        self._selected = [choice.arm]
        return choice

    def select_many(self, k: int, eligible: Mask | None = None) -> tuple[Choice, ...]:
        """Return up to k different arms by upper confidence bound, chosen one after the other.

        After each choice, the posterior is updated as if the chosen arm had already replied with
        its posterior mean (a hallucinated reading). The update reduces the variances (GP-BUCB,
        Desautels, Krause & Burdick 2014; [M24] section 11.1 considers the same situation). In a
        box, only the first arm can be any point; the other arms are candidates of the box.
        """
        check_number_of_arms(k)
        left = eligible_mask(eligible, self._all_arms).copy()
        before, replies = self._posterior.snapshot(), self._replies
        choices: list[Choice] = []
        while len(choices) < k and (choice := self._best_choice(left)) is not None:
            choices.append(choice)
            self._hallucinate(choice)
            self._replies += 1
            left[self.field.index(choice.arm)] = False
        self._undo(before)
        self._replies = replies
        if not choices:
            raise ValueError("no arm is eligible")
        self._selected = [choice.arm for choice in choices]
        return tuple(choices)

    def observe(self, arm: Arm, y: float) -> ObserveResult:
        """Update the upper-confidence posterior with a reading.

        If the reading is a reply, the trigger checks the reply before the update.
        """
        arm, y = checked_reading(self.field, arm, y)
        posterior = self._posterior
        before = posterior.at(arm)
        abs_error = abs(y - before.mean)
        self._events += 1
        if arm not in self._selected:
            posterior.observe(arm, y)
            return ObserveResult(False, abs_error, None, self._trigger.age)
        self._selected.remove(arm)
        self._replies += 1
        reply = TriggerInput(y, before.mean, before.std, posterior.prior_std(arm))
        result = self._trigger.check(reply)
        if result.stale:
            self.reset()
        if self._keep_last or not result.stale:
            posterior.observe(arm, y)
        return ObserveResult(result.stale, abs_error, result.threshold, result.age)

    def advance(self, dt: float = 1.0) -> None:
        """End the upper-confidence policy's interval; reset its model if a scheduled reset is due.

        The model advances by `dt`. The width of the bound depends on the number of intervals that
        have ended, whatever their lengths are.
        """
        if dt == 1.0:
            self._posterior.advance()
        else:
            self._real_time_posterior(dt).advance_by(float(dt))
        self._time += 1
        self._events += 1
        self._selected, self._replies = [], 0
        if self._trigger.due_times(self._time - 1, self._time):
            self.reset()

    def reset(self) -> None:
        """Reset the upper-confidence policy: discard all readings, and clear the trigger."""
        self._posterior.reset()
        self._trigger.clear()
        self.resets += 1

    def set_time(self, at: float | None) -> None:
        """Do nothing, because the time of day does not affect the confidence bound."""

    def pass_time(self, seconds: float) -> None:
        """Do nothing, because the posterior of the confidence bound counts time in intervals."""

    def facts(self) -> tuple[Fact, ...]:
        """Return the facts of the upper-confidence posterior, such as its approximations."""
        return self._posterior.facts()

    def prediction(self, arm: Arm) -> Prediction:
        """Return the upper-confidence policy's posterior mean and std of `arm` in this interval."""
        return self._posterior.at(checked_arm(self.field, arm))

    def posterior(self) -> tuple[Array, Array]:
        """Return the upper-confidence policy's posterior mean and std of each arm, both (M,)."""
        return self._posterior.mean_std()

    def snapshot(self) -> bytes:
        """Return the states of the upper-confidence policy, posterior and trigger as bytes."""
        return encode_snapshot(self.name, self.field.fingerprint(), self._state())

    def restore(self, blob: bytes) -> None:
        """Restore the upper-confidence policy, its posterior and its trigger from a snapshot.

        If `SnapshotError` is raised, nothing changes.
        """
        self._load(decode_snapshot(self.name, self.field.fingerprint(), blob))

    def restore_sensors(self, blob: bytes) -> int:
        """Return 0 and load nothing: this upper-confidence posterior cannot be split by sensor."""
        return 0

    def _state(self) -> State:
        """Return the upper-confidence policy's state for a snapshot; subclasses extend it."""
        state: State = {
            "time": self._time,
            "events": self._events,
            "asked": [arm_state(arm) for arm in self._selected],
            "age": self._trigger.age,
            "resets": self.resets,
            "posterior": self._posterior.snapshot(),
        }
        if self._replies:
            state["replies"] = self._replies
        return state

    def _load(self, state: State) -> None:
        """Load an upper-confidence policy's state; change nothing if `SnapshotError` is raised."""
        time, events = read_count(state, "time"), read_count(state, "events")
        selected = list(arms_from_state(self.field, state.get("asked")))
        age, resets = read_count(state, "age"), read_count(state, "resets")
        replies = read_count(state, "replies") if "replies" in state else 0
        self._posterior.restore(read_bytes(state, "posterior"))
        self._time, self._events, self._selected = time, events, selected
        self._replies = replies
        self._trigger.age, self.resets = age, resets

    def _real_time_posterior(self, dt: float) -> RealTimePosterior:
        check_step(dt)
        posterior = self._posterior
        if isinstance(posterior, RealTimePosterior) and not isinstance(self._trigger, EveryPeriod):
            return posterior
        raise counts_intervals(self.name, dt)

    def _hallucinate(self, choice: Choice) -> None:
        """Update the upper-confidence posterior as if the chosen arm had replied with its mean."""
        self._posterior.observe(choice.arm, choice.mean)

    def _undo(self, before: bytes) -> None:
        """Undo updates: load a state that the upper-confidence posterior's `snapshot` returned."""
        undo = getattr(self._posterior, "undo", self._posterior.restore)
        undo(before)

    def _best_choice(self, eligible: Mask) -> Choice | None:
        return self._highest(eligible, self._width())

    def _highest(self, eligible: Mask, width: float) -> Choice | None:
        """Return the eligible arm with the highest upper confidence bound, or None."""
        best = self._posterior.highest(width, eligible, self._seed, self._events)
        return None if best is None else self._choice(best, width)

    def _choice(self, best: Prediction, width: float) -> Choice:
        bound = best.mean + width * best.std
        return Choice(best.arm, self.field.name(best.arm), best.mean, best.std, bound, width)

    def _width(self) -> float:
        """Return the width of the upper confidence bound in standard deviations."""
        return self._exploration.width(self._time + 1, self._posterior.observations)


class SkippingUpperConfidence(UpperConfidence):
    """An upper-confidence policy that ends many intervals without readings at once.

    The posterior must be a `SkippingPosterior`. A subclass whose `advance` does more than end an
    interval must also extend `skip`.
    """

    _posterior: SkippingPosterior
    skips_gaps = False

    def skip(self, intervals: int) -> None:
        """End several intervals of the upper-confidence policy at once, as after a downtime.

        If several scheduled resets are due, the model is reset once, because further resets would
        change nothing. The attribute `resets` counts all of them.
        """
        skipped = checked_skipped(intervals) - 1
        resets = self._trigger.due_times(self._time, self._time + skipped)
        self._posterior.skip(skipped)
        self._time += skipped
        self._events += skipped
        if resets:
            self.reset()
            self.resets += resets - 1
        self.advance()
