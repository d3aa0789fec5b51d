"""Policy interface, and the upper confidence bound that most policies share.

Everything here is in model units: a reading y is the measured value, centred and scaled by the
field, and negated where the minimum is looked for.
"""

from typing import Any, Protocol

import msgspec
import numpy as np

from edge_tvbo.models.beta import BetaSchedule
from edge_tvbo.models.domain import Arm, Field, arm_state, arms_from_state
from edge_tvbo.models.facts import Fact
from edge_tvbo.models.posteriors.base import Posterior
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot, read_bytes, read_count
from edge_tvbo.models.triggers import Trigger, TriggerInput
from edge_tvbo.numerics.types import Array, Mask


class Choice(msgspec.Struct, frozen=True, gc=False):
    """The arm to activate in the current interval, with its posterior, in model units.

    Attributes
    ----------
    arm : int or tuple of float
        The sensor's number; in a box a point.
    sensor : str
        Name of the arm.
    mean, std : float
        Posterior mean and standard deviation of the arm.
    ucb : float
        The bound that was compared, mean + width · std.
    width : float
        Standard deviations of optimism, the same for all arms; 0 for policies without a model.
    """

    arm: Arm
    sensor: str
    mean: float
    std: float
    ucb: float
    width: float = 0.0


class ObserveResult(msgspec.Struct, frozen=True, gc=False):
    """What one reading did to the model, in model units.

    Attributes
    ----------
    reset : bool
        Whether the event trigger fired, so that the model was reset.
    abs_error : float
        |y - mean|, with the posterior mean before the reading.
    threshold : float or None
        κ_t, the largest error that causes no reset; None where no error was tested.
    age : int
        Replies since the last reset, this one included.
    """

    reset: bool
    abs_error: float
    threshold: float | None
    age: int


class Policy(Protocol):
    """A sequential decision maker: selects an arm in each interval and learns from readings.

    Attributes
    ----------
    name : str
        As registered.
    field : SensorField or BoxField
        The arms.
    uses_readings : bool
        Whether readings change the choices.
    resets : int
        How often the model was reset.
    """

    name: str
    field: Any  # a SensorField, or a BoxField for callers that need no sensors
    uses_readings: bool
    resets: int

    @property
    def observations(self) -> int:
        """Number of readings that the model holds."""
        ...

    def select(self, eligible: Mask | None = None) -> Choice:
        """Return the arm to activate in the current interval.

        The same arm is returned until a reading is observed or time advances. The
        policy's seeded generator decides between arms that tie.

        Parameters
        ----------
        eligible : (M,) bool array, optional
            Arms that may be selected; all of them by default.

        Returns
        -------
        Choice
            The arm, with its posterior at the current interval.

        Raises
        ------
        ValueError
            If no arm is eligible, or the mask has another dtype or shape.
        """
        ...

    def select_many(self, k: int, eligible: Mask | None = None) -> tuple[Choice, ...]:
        """Return several different arms for the current interval.

        Parameters
        ----------
        k : int
            Number of arms, at least 1.
        eligible : (M,) bool array, optional
            Arms that may be selected; all of them by default.

        Returns
        -------
        tuple of Choice
            k of them, or fewer if fewer arms are eligible.

        Raises
        ------
        ValueError
            If no arm is eligible, or the mask has another dtype or shape.
        """
        ...

    def observe(self, arm: Arm, y: float) -> ObserveResult:
        """Update the model with a reading; any arm, any number of times in an interval.

        Only the first reading of an arm that was selected last goes to the event trigger.

        Parameters
        ----------
        arm : int or tuple of float
            The arm that was read.
        y : float
            The reading, in model units.

        Returns
        -------
        ObserveResult
            Whether the model was reset, and the error of its estimate.
        """
        ...

    def advance(self) -> None:
        """End the interval: time moves on by one, whether or not a reading was observed."""
        ...

    def reset(self) -> None:
        """Discard every reading, as when the event trigger fires; the time continues."""
        ...

    def set_time(self, at: float) -> None:
        """Set when the current interval began, for policies that use the time of day.

        Parameters
        ----------
        at : float
            Seconds since 1970, UTC.
        """
        ...

    def facts(self) -> tuple[Fact, ...]:
        """Return the facts that explain the choice, beside mean and bound.

        Returns
        -------
        tuple of Fact
            Empty for a policy that has none.
        """
        ...

    def posterior(self) -> tuple[Array, Array]:
        """Return the posterior of all arms at the current interval.

        Returns
        -------
        mean, std : (M,) array
            In model units.
        """
        ...

    def snapshot(self) -> bytes:
        """Return the state; a policy restored from it continues bit for bit.

        Returns
        -------
        bytes
            A checksummed snapshot, for `restore` of a policy with the same settings and field.
        """
        ...

    def restore(self, blob: bytes) -> None:
        """Load the state of a snapshot.

        Parameters
        ----------
        blob : bytes
            What `snapshot` returned.

        Raises
        ------
        SnapshotError
            For a damaged snapshot, or one of another policy or field; the state is unchanged then.
        """
        ...


class UpperConfidence:
    """A policy that selects the arm with the highest mean + width · std.

    Parameters
    ----------
    name : str
        As registered.
    field : SensorField or BoxField
        M arms, or a box with M candidates.
    posterior : Posterior
        Mean and standard deviation of the arms; the policy owns it from now on.
    exploration : BetaSchedule
        The width in each interval.
    trigger : Trigger
        When to reset the posterior.
    keep_last : bool
        Whether the reading that fired the trigger is the first of the new model.
    seed : int
        Decides between arms that tie.
    """

    uses_readings = True

    def __init__(
        self,
        name: str,
        field: Field,
        posterior: Posterior,
        exploration: BetaSchedule,
        trigger: Trigger,
        *,
        keep_last: bool = True,
        seed: int = 0,
    ) -> None:
        self.name = name
        self.field = field
        self._posterior = posterior
        self._exploration = exploration
        self._trigger = trigger
        self._keep_last = keep_last
        self._seed = seed
        self._all_arms = np.ones(len(field), np.bool_)
        self._time = 0  # intervals that ended
        self._events = 0  # readings and intervals so far: the counter of tie-breaking draws
        self.resets = 0
        self._selected: list[Arm] = []  # arms whose first reading goes to the trigger

    @property
    def observations(self) -> int:
        """Number of readings that the model holds."""
        return self._posterior.observations

    def select(self, eligible: Mask | None = None) -> Choice:
        """Return the eligible arm with the highest upper confidence bound."""
        choice = self._best_choice(self._mask(eligible))
        if choice is None:
            raise ValueError("no arm is eligible")
        self._selected = [choice.arm]
        return choice

    def select_many(self, k: int, eligible: Mask | None = None) -> tuple[Choice, ...]:
        """Return up to k different arms, each chosen as if the ones before had read their mean.

        Such hallucinated readings change no mean and reduce the variances (Desautels, Krause &
        Burdick 2014, GP-BUCB; [M24] section 11.1 has the same setting).
        """
        left = self._mask(eligible).copy()
        before = self._posterior.snapshot()
        choices: list[Choice] = []
        while len(choices) < k and (choice := self._best_choice(left)) is not None:
            choices.append(choice)
            self._posterior.observe(choice.arm, choice.mean)
            left[self.field.index(choice.arm)] = False
        self._posterior.restore(before)
        if not choices:
            raise ValueError("no arm is eligible")
        self._selected = [choice.arm for choice in choices]
        return tuple(choices)

    def observe(self, arm: Arm, y: float) -> ObserveResult:
        """Update the posterior with a reading; if it is a reply, check the trigger first."""
        posterior = self._posterior
        before = posterior.at(arm)
        abs_error = abs(y - before.mean)
        self._events += 1
        if arm not in self._selected:
            posterior.observe(arm, y)
            return ObserveResult(False, abs_error, None, self._trigger.age)
        self._selected.remove(arm)
        reply = TriggerInput(y, before.mean, before.std, posterior.prior_std(arm))
        result = self._trigger.check(reply)
        if result.stale:
            self.reset()
        if self._keep_last or not result.stale:
            posterior.observe(arm, y)
        return ObserveResult(result.stale, abs_error, result.threshold, result.age)

    def advance(self) -> None:
        """End the interval, and reset a model whose schedule says so."""
        self._posterior.advance()
        self._time += 1
        self._events += 1
        self._selected = []
        if self._trigger.expires(self._time):
            self.reset()

    def reset(self) -> None:
        """Forget every reading and the trigger's count of replies."""
        self._posterior.reset()
        self._trigger.clear()
        self.resets += 1

    def set_time(self, at: float) -> None:
        """Do nothing: the time of day has no influence."""

    def facts(self) -> tuple[Fact, ...]:
        """Return the facts of the posterior, such as its approximations."""
        return self._posterior.facts()

    def posterior(self) -> tuple[Array, Array]:
        """Return mean and standard deviation of all arms at the current interval, both (M,)."""
        return self._posterior.mean_std()

    def snapshot(self) -> bytes:
        """Return the state as bytes; a policy restored from them continues bit for bit."""
        state = {
            "time": self._time,
            "events": self._events,
            "asked": [arm_state(arm) for arm in self._selected],
            "age": self._trigger.age,
            "resets": self.resets,
            "posterior": self._posterior.snapshot(),
        }
        return encode_snapshot(self.name, self.field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Load the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        state = decode_snapshot(self.name, self.field.fingerprint(), blob)
        time, events = read_count(state, "time"), read_count(state, "events")
        selected = list(arms_from_state(self.field, state.get("asked")))
        age, resets = read_count(state, "age"), read_count(state, "resets")
        self._posterior.restore(read_bytes(state, "posterior"))
        self._time, self._events, self._selected = time, events, selected
        self._trigger.age, self.resets = age, resets

    def _mask(self, eligible: Mask | None) -> Mask:
        """Return a checked mask: kernels compiled ahead of time check neither dtype nor shape."""
        if eligible is None:
            return self._all_arms
        if eligible.dtype != np.bool_ or eligible.shape != self._all_arms.shape:
            found = f"{eligible.dtype}{list(eligible.shape)}"
            raise ValueError(f"eligible is {found}; it can be bool[{len(self._all_arms)}]")
        return np.ascontiguousarray(eligible)

    def _best_choice(self, eligible: Mask) -> Choice | None:
        width = self._exploration.width(self._time + 1, self._posterior.observations)
        best = self._posterior.highest(width, eligible, self._seed, self._events)
        if best is None:
            return None
        bound = best.mean + width * best.std
        return Choice(best.arm, self.field.name(best.arm), best.mean, best.std, bound, width)
