"""What every policy offers, and the upper confidence bound that most of them share."""

from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_tvbo.model.exploration import Exploration
from edge_tvbo.model.field import SensorField
from edge_tvbo.model.posterior import Posterior
from edge_tvbo.model.snapshot import inner, seal, unseal, whole
from edge_tvbo.model.triggers import Trigger
from edge_tvbo.numerics.acquisition import highest_bound

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Choice(msgspec.Struct, frozen=True, gc=False):
    """The arm to activate in the current interval, and what is believed of it, in model units."""

    arm: int
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
    field: SensorField
    learns: bool  # whether readings change what it chooses
    observations: int  # readings the model holds
    resets: int  # how often it began anew

    def select(self, eligible: Mask | None = None) -> Choice:
        """Give the arm for the current interval, among the eligible (bool[M]) if any are named.

        Pure: the same answer until something is observed or time advances.
        """
        ...

    def observe(self, arm: int, y: float) -> Outcome:
        """Take in a reading of any arm, in model units; as often in an interval as there are any.

        Only the first reading of the arm that was selected last is put to the event trigger.
        """
        ...

    def advance(self) -> None:
        """End the interval: time moves on by one, observed or not."""
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


class UpperConfidence:
    """A policy that activates the arm with the highest mean + width · std.

    Parameters
    ----------
    name : str
        As registered.
    field : SensorField
        M arms.
    posterior : Posterior
        What is believed of them; owned from now on.
    exploration : Exploration
        The width, interval by interval.
    trigger : Trigger
        When the posterior is stale.
    keep_last : bool
        Whether the reading that fired the trigger is the first of the new model.
    seed : int
        Decides between arms that tie.
    """

    learns = True

    def __init__(
        self,
        name: str,
        field: SensorField,
        posterior: Posterior,
        exploration: Exploration,
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
        self._asked = -1  # the arm whose first reading goes to the trigger

    @property
    def observations(self) -> int:
        """Readings the model holds."""
        return self._posterior.observations

    def select(self, eligible: Mask | None = None) -> Choice:
        """Give the arm with the highest upper confidence bound."""
        posterior = self._posterior
        width = self._exploration.width(self._time + 1, posterior.observations)
        arm = highest_bound(
            posterior.mean,
            posterior.variance,
            width,
            self._everyone if eligible is None else eligible,
            self._seed,
            self._events,
        )
        if arm < 0:
            raise ValueError("no arm is eligible")
        self._asked = arm
        mean = float(posterior.mean[arm])
        std = float(posterior.variance[arm]) ** 0.5
        return Choice(arm, self.field.sensors[arm], mean, std, mean + width * std)

    def observe(self, arm: int, y: float) -> Outcome:
        """Take a reading in, after the trigger judged it if it is the answer."""
        posterior = self._posterior
        surprise = abs(y - float(posterior.mean[arm]))
        self._events += 1
        if arm != self._asked:
            posterior.observe(arm, y)
            return Outcome(False, surprise, None, self._trigger.age)
        self._asked = -1
        std = float(posterior.variance[arm]) ** 0.5
        stale, threshold, age = self._trigger.judge(surprise, std)
        if stale:
            self._reset()
        if self._keep_last or not stale:
            posterior.observe(arm, y)
        return Outcome(stale, surprise, threshold, age)

    def advance(self) -> None:
        """End the interval; a model that expires by schedule begins anew."""
        self._posterior.advance()
        self._time += 1
        self._events += 1
        self._asked = -1
        if self._trigger.expires(self._time):
            self._reset()

    def posterior(self) -> tuple[Array, Array]:
        """Give mean and standard deviation (M,) of all arms at the current interval."""
        return self._posterior.mean_std()

    def snapshot(self) -> bytes:
        """Give the state as bytes; the continuation from them is bit-identical."""
        state = {
            "time": self._time,
            "events": self._events,
            "asked": self._asked + 1,
            "age": self._trigger.age,
            "resets": self.resets,
            "posterior": self._posterior.snapshot(),
        }
        return seal(self.name, self.field.fingerprint(), state)

    def restore(self, blob: bytes) -> None:
        """Return to the state of a snapshot; raises `SnapshotError` and then changes nothing."""
        state = unseal(self.name, self.field.fingerprint(), blob)
        time, events, asked = (whole(state, key) for key in ("time", "events", "asked"))
        age, resets = whole(state, "age"), whole(state, "resets")
        self._posterior.restore(inner(state, "posterior"))
        self._time, self._events, self._asked = time, events, asked - 1
        self._trigger.age, self.resets = age, resets

    def _reset(self) -> None:
        self._posterior.reset()
        self._trigger.clear()
        self.resets += 1
