"""What every policy offers, and the upper confidence bound that most of them share."""

from typing import Any, Protocol

import msgspec
import numpy as np

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.beta import BetaSchedule
from edge_tvbo.models.domain import Arm, Field, arm_state, arms_from_state
from edge_tvbo.models.facts import Fact
from edge_tvbo.models.posteriors.base import Posterior
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot, read_bytes, read_count
from edge_tvbo.models.triggers import Trigger, TriggerInput
from edge_tvbo.numerics.types import Array, Mask

FITTED = "fitted"  # a parameter to be learned from the readings as they come


class Choice(msgspec.Struct, frozen=True, gc=False):
    """The arm to activate in the current interval, and what is believed of it, in model units."""

    arm: Arm  # int; in a box a tuple of floats
    sensor: str
    mean: float
    std: float
    ucb: float  # mean + width · std: what was compared


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What a reading told the model, in model units."""

    reset: bool  # the event trigger fired, and the model began anew
    surprise: float  # |reading - mean| before it was taken in
    threshold: float | None  # κ_t, the surprise allowed; None where none was tested
    age: int  # answers since the last reset, this one included


class Policy(Protocol):
    """Chooses arms and learns from their readings."""

    name: str
    field: Any  # SensorField, or BoxField where nobody wants to know of sensors
    uses_readings: bool  # whether readings change what it chooses
    resets: int  # how often it began anew

    @property
    def observations(self) -> int:
        """Readings the model holds."""
        ...

    def select(self, eligible: Mask | None = None) -> Choice:
        """Give the arm for the current interval, among the eligible (bool[M]) if any are named.

        Pure: the same answer until something is observed or time advances.
        """
        ...

    def select_many(self, k: int, eligible: Mask | None = None) -> tuple[Choice, ...]:
        """Give k different arms for the current interval, fewer where fewer are eligible."""
        ...

    def observe(self, arm: Arm, y: float) -> Outcome:
        """Take in a reading of any arm, in model units; as often in an interval as there are any.

        Only the first reading of an arm that was selected last is put to the event trigger.
        """
        ...

    def advance(self) -> None:
        """End the interval: time moves on by one, observed or not."""
        ...

    def reset(self) -> None:
        """Begin anew, as after a reset that the event trigger asks for: every reading is forgotten.

        Time goes on as it does, and an arm that was selected may still answer.
        """
        ...

    def set_time(self, at: float) -> None:
        """Say when the current interval began, s since 1970, UTC: some go by the time of day."""
        ...

    def facts(self) -> tuple[Fact, ...]:
        """Return what explains the choice beside mean and bound: approximations, the best model."""
        ...

    def posterior(self) -> tuple[Array, Array]:
        """Give mean and standard deviation (M,) of all arms at the current interval."""
        ...

    def snapshot(self) -> bytes:
        """Give the state as bytes; the continuation from them is bit-identical."""
        ...

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        ...


def number(name: str, value: float | str) -> float:
    """Give the value of a parameter that is a number, or raise `ConfigError`."""
    if isinstance(value, str | bool):
        raise ConfigError(f'{name} is {value!r}; it can be a number, or "{FITTED}".')
    return value


class UpperConfidence:
    """A policy that activates the arm with the highest mean + width · std.

    Parameters
    ----------
    name : str
        As registered.
    field : SensorField or BoxField
        M arms, or a box with M candidates.
    posterior : Posterior
        What is believed of them; owned from now on.
    exploration : BetaSchedule
        The width, interval by interval.
    trigger : Trigger
        When the posterior is stale.
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
        self._everyone = np.ones(len(field), np.bool_)
        self._time = 0  # intervals gone by
        self._events = 0  # readings and intervals so far: the counter of tie-breaking draws
        self.resets = 0
        self._asked: list[Arm] = []  # whose first readings go to the trigger

    @property
    def observations(self) -> int:
        """Readings the model holds."""
        return self._posterior.observations

    def select(self, eligible: Mask | None = None) -> Choice:
        """Give the arm with the highest upper confidence bound."""
        choice = self._highest(self._among(eligible))
        if choice is None:
            raise ValueError("no arm is eligible")
        self._asked = [choice.arm]
        return choice

    def select_many(self, k: int, eligible: Mask | None = None) -> tuple[Choice, ...]:
        """Give up to k different arms, each as if those before it had read what is expected.

        Hallucinated readings leave the means alone and narrow what they would tell (Desautels,
        Krause & Burdick 2014, GP-BUCB; the setting is that of [M24] section 11.1).
        """
        left = self._among(eligible).copy()
        before = self._posterior.snapshot()
        choices: list[Choice] = []
        while len(choices) < k and (choice := self._highest(left)) is not None:
            choices.append(choice)
            self._posterior.observe(choice.arm, choice.mean)
            left[self.field.index(choice.arm)] = False
        self._posterior.restore(before)
        if not choices:
            raise ValueError("no arm is eligible")
        self._asked = [choice.arm for choice in choices]
        return tuple(choices)

    def observe(self, arm: Arm, y: float) -> Outcome:
        """Take a reading in, after the trigger judged it if it is the answer."""
        posterior = self._posterior
        before = posterior.at(arm)
        surprise = abs(y - before.mean)
        self._events += 1
        if arm not in self._asked:
            posterior.observe(arm, y)
            return Outcome(False, surprise, None, self._trigger.age)
        self._asked.remove(arm)
        answer = TriggerInput(y, before.mean, before.std, posterior.prior_std(arm))
        verdict = self._trigger.check(answer)
        if verdict.stale:
            self.reset()
        if self._keep_last or not verdict.stale:
            posterior.observe(arm, y)
        return Outcome(verdict.stale, surprise, verdict.threshold, verdict.age)

    def advance(self) -> None:
        """End the interval; a model that expires by schedule begins anew."""
        self._posterior.advance()
        self._time += 1
        self._events += 1
        self._asked = []
        if self._trigger.expires(self._time):
            self.reset()

    def reset(self) -> None:
        """Forget every reading, and what the trigger counts."""
        self._posterior.reset()
        self._trigger.clear()
        self.resets += 1

    def set_time(self, at: float) -> None:
        """Take no notice: the time of day does not matter."""

    def facts(self) -> tuple[Fact, ...]:
        """Return the facts of the posterior."""
        return self._posterior.facts()

    def posterior(self) -> tuple[Array, Array]:
        """Give mean and standard deviation (M,) of all arms at the current interval."""
        return self._posterior.mean_std()

    def snapshot(self) -> bytes:
        """Give the state as bytes; the continuation from them is bit-identical."""
        state = {
            "time": self._time,
            "events": self._events,
            "asked": [arm_state(arm) for arm in self._asked],
            "age": self._trigger.age,
            "resets": self.resets,
            "posterior": self._posterior.snapshot(),
        }
        return encode_snapshot(self.name, self.field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        state = decode_snapshot(self.name, self.field.fingerprint(), blob)
        time, events = read_count(state, "time"), read_count(state, "events")
        asked = list(arms_from_state(self.field, state.get("asked")))
        age, resets = read_count(state, "age"), read_count(state, "resets")
        self._posterior.restore(read_bytes(state, "posterior"))
        self._time, self._events, self._asked = time, events, asked
        self._trigger.age, self.resets = age, resets

    def _among(self, eligible: Mask | None) -> Mask:
        """Give who may be chosen, as kernels that were compiled ahead of time take on trust."""
        if eligible is None:
            return self._everyone
        if eligible.dtype != np.bool_ or eligible.shape != self._everyone.shape:
            found = f"{eligible.dtype}{list(eligible.shape)}"
            raise ValueError(f"eligible is {found}; it can be bool[{len(self._everyone)}]")
        return np.ascontiguousarray(eligible)

    def _highest(self, eligible: Mask) -> Choice | None:
        width = self._exploration.width(self._time + 1, self._posterior.observations)
        best = self._posterior.highest(width, eligible, self._seed, self._events)
        if best is None:
            return None
        bound = best.mean + width * best.std
        return Choice(best.arm, self.field.name(best.arm), best.mean, best.std, bound)
