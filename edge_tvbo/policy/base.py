"""Policy interface: the methods of a policy, and the types of their results.

All values of this module are in model units: a reading y is the measured value, centred and scaled
by the field, and negated if the field's objective is the minimum.
"""

from typing import Any, Protocol, runtime_checkable

import msgspec

from edge_tvbo.models.arm_space import Arm
from edge_tvbo.models.facts import Fact, Turn
from edge_tvbo.models.posteriors.base import Prediction
from edge_tvbo.numerics.types import Array, Mask


class Choice(msgspec.Struct, frozen=True, gc=False):
    """The arm to activate in the current interval, with its posterior, in model units.

    All numbers are Python numbers, not numpy's, because decisions are published as JSON.

    Attributes
    ----------
    arm : int or tuple of float
        Number of the sensor or, if the field is a box, a point in the box.
    sensor : str
        Name of the arm.
    mean, std : float
        Posterior mean and standard deviation of the arm.
    ucb : float
        Upper confidence bound of the arm, mean + width · std.
    width : float
        Number of standard deviations in the bound; 0 for policies without a model.
    same_width : bool
        Whether the bounds of all compared arms have the width `width`.
    unread : bool
        Whether the arm was never read. The bound of such an arm may be wider than the bounds of
        arms that were read.
    turn : Turn or None
        The reason for a selection in turn; None if the arm was selected by its bound.
    """

    arm: Arm
    sensor: str
    mean: float
    std: float
    ucb: float
    width: float = 0.0
    same_width: bool = True
    unread: bool = False
    turn: Turn | None = None


class ObserveResult(msgspec.Struct, frozen=True, gc=False):
    """The effect of one reading on the model of a policy, in model units.

    Attributes
    ----------
    reset : bool
        Whether the event trigger fired, so that the model was reset.
    abs_error : float
        |y - mean|, with the posterior mean of the arm before the reading y.
    threshold : float or None
        κ_t, the largest error at which the event trigger's test does not fire; None if no error
        was tested.
    age : int
        Number of replies since the last reset, including this reading if it is a reply.
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
        Name under which the policy is registered.
    field : SensorField or BoxField
        Field that contains the arms.
    uses_readings : bool
        Whether readings affect the selection.
    learns_rates : bool
        Whether the model learns how much the field varies (from the readings) or how fast the field
        changes (from recorded days). For such a model, a series of large errors is attributed to
        the sensor and not to the model.
    resets : int
        Number of resets of the model.
    """

    name: str
    field: Any  # a SensorField, or a BoxField for callers that need no sensors
    uses_readings: bool
    learns_rates: bool
    resets: int

    @property
    def observations(self) -> int:
        """Number of readings that the policy's model holds."""
        ...

    def select(self, eligible: Mask | None = None) -> Choice:
        """Return the arm to activate in the current interval.

        The same arm is returned until a reading is observed or the interval ends. Ties between arms
        are broken by the policy's seeded draws.

        Parameters
        ----------
        eligible : (M,) bool array, optional
            Arms that may be selected; by default, all arms.

        Returns
        -------
        Choice
            The arm, with its posterior at the current interval.

        Raises
        ------
        ValueError
            If no arm is eligible, or `eligible` has another dtype or shape.
        """
        ...

    def select_many(self, k: int, eligible: Mask | None = None) -> tuple[Choice, ...]:
        """Return several different arms that the policy selects in the current interval.

        Parameters
        ----------
        k : int
            Number of arms, at least 1.
        eligible : (M,) bool array, optional
            Arms that may be selected; by default, all arms.

        Returns
        -------
        tuple of Choice
            k choices, or fewer if fewer arms are eligible.

        Raises
        ------
        ValueError
            If `k` is not a whole number above 0, if no arm is eligible, or if `eligible` has
            another dtype or shape.
        """
        ...

    def observe(self, arm: Arm, y: float) -> ObserveResult:
        """Update the policy's model with a reading of any arm.

        An interval may have any number of readings. The event trigger checks only replies. A reply
        is the first reading of an arm that the last call of `select` or `select_many` returned.

        Parameters
        ----------
        arm : int or tuple of float
            The arm that was read.
        y : float
            The reading, in model units.

        Returns
        -------
        ObserveResult
            Whether the reading reset the model, and the error of the estimate before the reading.

        Raises
        ------
        ValueError
            If `y` is not finite or outside ±1e101, or if `arm` is not an arm of the field. The
            policy's state does not change.
        """
        ...

    def advance(self, dt: float = 1.0) -> None:
        """End the policy's current interval, whether or not a reading was observed.

        Parameters
        ----------
        dt : float
            Length of the interval, above 0, in the time unit of the policy's parameters. Most
            policies on sensors require 1.

        Raises
        ------
        ValueError
            If `dt` is not a finite number above 0, or if `dt` is not 1 and the policy requires 1.
            The policy's state does not change.
        """
        ...

    def reset(self) -> None:
        """Reset the policy's model: discard all readings, but keep the time.

        The event trigger resets the model in the same way.
        """
        ...

    def set_time(self, at: float | None) -> None:
        """Set the start of the policy's current interval, for policies that use the time of day.

        Parameters
        ----------
        at : float or None
            Seconds since 1970, UTC; None if the time is unknown until the next call.

        Raises
        ------
        ValueError
            If the policy uses the time of day, and `at` is neither None nor a finite number. The
            policy's state does not change.
        """
        ...

    def pass_time(self, seconds: float) -> None:
        """Let `seconds` pass for the policy's model, while the time of day is unknown.

        The method has an effect only if the model computes the lengths of intervals from the times
        of `set_time`.

        Parameters
        ----------
        seconds : float
            Seconds, at least 0, since the last call of `set_time` or `pass_time`.

        Raises
        ------
        ValueError
            If the policy uses the time of day, and `seconds` is not a finite number of at least 0.
            The policy's state does not change.
        """
        ...

    def facts(self) -> tuple[Fact, ...]:
        """Return the facts, besides mean and bound, that explain the policy's choice.

        Returns
        -------
        tuple of Fact
            The facts; empty if the policy has none.
        """
        ...

    def prediction(self, arm: Arm) -> Prediction:
        """Return the policy's posterior of one arm in the current interval, in model units.

        Parameters
        ----------
        arm : int or tuple of float
            The arm.

        Returns
        -------
        Prediction
            Posterior mean and standard deviation of the arm, equal to those that `posterior`
            returns.

        Raises
        ------
        ValueError
            If `arm` is not an arm of the field.
        """
        ...

    def posterior(self) -> tuple[Array, Array]:
        """Return the policy's posterior of all arms in the current interval.

        Returns
        -------
        mean, std : (M,) array of float64
            Posterior means and standard deviations of the arms, in model units. The arrays are
            new: the caller may change them.
        """
        ...

    def snapshot(self) -> bytes:
        """Return the policy's state; a restored policy makes the same decisions, bit for bit.

        Returns
        -------
        bytes
            Snapshot that a policy with the same settings and field can restore.
        """
        ...

    def restore(self, blob: bytes) -> None:
        """Load the policy's state from a snapshot.

        Parameters
        ----------
        blob : bytes
            Snapshot that `snapshot` returned.

        Raises
        ------
        SnapshotError
            If the snapshot is damaged, or belongs to another policy or field. In this case, the
            policy's state does not change.
        """
        ...

    def restore_sensors(self, blob: bytes) -> int:
        """Load the state of the sensors that this field and the snapshot's field have in common.

        Parameters
        ----------
        blob : bytes
            Snapshot of the same policy on a field with other sensors.

        Returns
        -------
        int
            Number of this policy's sensors that the snapshot contains; 0 if nothing was loaded.

        Raises
        ------
        SnapshotError
            If the snapshot cannot be decoded.
        """
        ...


@runtime_checkable
class SkippingPolicy(Protocol):
    """Protocol of a policy that ends many intervals as fast as one interval.

    Attributes
    ----------
    skips_gaps : bool
        Whether `skip` is also used for the gaps of recordings. If `skips_gaps` is False,
        `Policy.advance` is called for each interval of a gap, because the rounding errors of `skip`
        could change the decisions after the gap.
    """

    skips_gaps: bool

    def skip(self, intervals: int) -> None:
        """End several intervals at once, all of them without readings.

        Apart from rounding errors, the result is the same as after one call of `Policy.advance` for
        each interval.

        Parameters
        ----------
        intervals : int
            Number of intervals, 1 to 10^15.

        Raises
        ------
        ValueError
            If `intervals` is not a whole number in this range. The policy's state does not change.
        """
        ...
