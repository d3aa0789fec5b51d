"""Policies on a box for callers in Python: readings and predictions in the unit of the field."""

import warnings
from typing import Any

import msgspec
import numpy as np

from edge_tvbo.models.box import BoxField, Point
from edge_tvbo.models.facts import Fact
from edge_tvbo.models.posteriors.base import Prediction
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.policy.argument_checks import is_finite
from edge_tvbo.policy.base import Choice, ObserveResult, Policy

MAX_ROUNDS_WITHOUT_ADVANCE = 10  # rounds of `select` and `observe` before the first `advance`


class BoxPolicy:
    """A policy on a `BoxField` whose readings and predictions are in the unit of the field.

    `make_policy` returns this class for a box. All other policies compute in model units; this
    class converts readings to model units, and predictions to the unit of the field. With
    ``objective="min"``, the policy searches for the lowest reading, and `ucb` of a choice is the
    lower confidence bound. The posterior mean and standard deviation are also in the field's unit.

    Two mistakes cannot be seen in the results, so each of them causes one `UserWarning`:

    - `advance` is not called in ten rounds of `select` and `observe`.
    - `window` is not set, and the model has to drop readings.

    Other public attributes, such as `length_scales`, are those of `policy`, in model units.

    Parameters
    ----------
    policy : Policy
        Policy on a box, in model units.
    field : BoxField
        The box of this policy.
    warn_of_dropped_readings : bool
        Whether a warning is issued when the model begins to drop readings.
    """

    def __init__(self, policy: Policy, field: BoxField, *, warn_of_dropped_readings: bool) -> None:
        self.name = policy.name
        self.field = field
        self.uses_readings = policy.uses_readings
        self.learns_rates = policy.learns_rates
        self.resets = policy.resets
        self._policy = policy
        self._warn_if_full = warn_of_dropped_readings
        self._selected: tuple[Point, ...] = ()
        self._rounds: int | None = 0  # None after the first `advance`, or after the warning

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._policy, name)

    @property
    def observations(self) -> int:
        """Number of readings that the box policy's model holds."""
        return self._policy.observations

    def select(self, eligible: Mask | None = None) -> Choice:
        """Return the point of the box to read in the current interval, with its prediction."""
        choice = self._policy.select(eligible)
        self._selected = (choice.arm,)
        return self._in_unit(choice)

    def select_many(self, k: int, eligible: Mask | None = None) -> tuple[Choice, ...]:
        """Return up to `k` different points of the box to read in the current interval.

        The first point can be any point of the box. The other points are candidates of the box.
        """
        choices = self._policy.select_many(k, eligible)
        self._selected = tuple(choice.arm for choice in choices)
        return tuple(self._in_unit(choice) for choice in choices)

    def observe(self, arm: Point, y: float) -> ObserveResult:
        """Update the model with `y`, a reading of the box's point `arm`, in the field's unit.

        Raises
        ------
        ValueError
            If the reading is not finite or far too large, or the point lies outside the box.
        """
        arm = self._checked_point(arm)
        if not is_finite(y):
            raise ValueError(f"the reading of {arm} is {y}; it must be finite")
        before = self.observations
        result = self._policy.observe(arm, self.field.to_model(float(y)))
        self.resets = self._policy.resets
        if self._warn_if_full and not result.reset and 0 < self.observations <= before:
            self._warn_of_full_window()
        self._count_round(arm)
        threshold = None if result.threshold is None else result.threshold * self.field.scale
        abs_error = result.abs_error * self.field.scale
        return msgspec.structs.replace(result, abs_error=abs_error, threshold=threshold)

    def advance(self, dt: float = 1.0) -> None:
        """End the current interval of this box policy, whether or not a reading was observed.

        `dt` is the length of the interval, in the time unit of the policy's parameters. Raises
        `ValueError` if `dt` is not 1 and the policy requires 1.
        """
        if dt == 1.0:
            self._policy.advance()  # a policy of another package may have no parameter `dt`
        else:
            self._policy.advance(dt)
        self._rounds = None
        self.resets = self._policy.resets

    def reset(self) -> None:
        """Reset the box policy: discard all readings, but keep the time."""
        self._policy.reset()
        self.resets = self._policy.resets

    def set_time(self, at: float | None) -> None:
        """Set the start of the box policy's current interval, in seconds since 1970, UTC."""
        self._policy.set_time(at)

    def pass_time(self, seconds: float) -> None:
        """Let `seconds` pass for the box policy, while the time of day is unknown."""
        self._policy.pass_time(seconds)

    def facts(self) -> tuple[Fact, ...]:
        """Return the facts, besides mean and bound, that explain the box policy's choice.

        The facts are in model units.
        """
        return self._policy.facts()

    def prediction(self, arm: Point) -> Prediction:
        """Return the box policy's posterior mean and standard deviation of the point `arm`.

        Raises `ValueError` if the point lies outside the box.
        """
        arm = self._checked_point(arm)
        inner = self._policy.prediction(arm)
        return Prediction(arm, self.field.to_unit(inner.mean), inner.std * self.field.scale)

    def posterior(self) -> tuple[Array, Array]:
        """Return the box policy's posterior mean and standard deviation of all candidates."""
        mean, std = self._policy.posterior()
        return self.field.to_unit(mean), std * self.field.scale

    def snapshot(self) -> bytes:
        """Return the box policy's state as bytes, for `restore`."""
        return self._policy.snapshot()

    def restore(self, blob: bytes) -> None:
        """Load the box policy's state; if `SnapshotError` is raised, nothing changes."""
        self._policy.restore(blob)
        self.resets, self._selected = self._policy.resets, ()

    def restore_sensors(self, blob: bytes) -> int:
        """Load nothing, because the points of a box have no names; return 0."""
        return self._policy.restore_sensors(blob)

    def _in_unit(self, choice: Choice) -> Choice:
        field = self.field
        mean, bound = field.to_unit(choice.mean), field.to_unit(choice.ucb)
        return msgspec.structs.replace(choice, mean=mean, std=choice.std * field.scale, ucb=bound)

    def _checked_point(self, arm: Any) -> Point:
        """Return the box point `arm` as a tuple; raise `ValueError` if it is not in the box."""
        try:
            place = np.asarray(arm, np.float64)
        except (TypeError, ValueError, OverflowError):
            place = np.empty(0)
        if place.shape != self.field.lower.shape or not self.field.contains(place[None, :]):
            raise ValueError(
                f"{arm} is not a point of this box; allowed: {len(self.field.lower)} numbers from "
                f"{self.field.lower.tolist()} to {self.field.upper.tolist()}"
            )
        return tuple(place.tolist())

    def _count_round(self, arm: Point) -> None:
        if self._rounds is None or arm not in self._selected:
            return
        self._selected = ()
        self._rounds += 1
        if self._rounds >= MAX_ROUNDS_WITHOUT_ADVANCE:
            self._rounds = None
            warnings.warn(
                f"{self.name} has selected and observed {MAX_ROUNDS_WITHOUT_ADVANCE} times, and "
                "`advance` was never called. Time stands still for this policy, so it treats "
                "all readings as equally old. Call advance() at the end of each interval.",
                stacklevel=3,
            )

    def _warn_of_full_window(self) -> None:
        self._warn_if_full = False
        warnings.warn(
            f"The model of {self.name} holds {self.observations} readings, which is the default "
            "maximum for a box; each new reading now replaces the oldest one. Pass "
            "window=N, at most 4096, to choose the maximum and to turn this warning off.",
            stacklevel=3,
        )


def in_field_units(policy: Policy, window: int | None) -> Policy:
    """Return a policy on a box as a `BoxPolicy`; return any other policy unchanged.

    `window` is the largest number of readings that the caller allowed. If the caller set no number
    (None), the `BoxPolicy` warns when the model begins to drop readings.
    """
    if not isinstance(policy.field, BoxField):
        return policy
    return BoxPolicy(policy, policy.field, warn_of_dropped_readings=window is None)
