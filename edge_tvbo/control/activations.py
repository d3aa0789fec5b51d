"""Activations of the running interval: the sensors activated so far, and how many may follow."""

from math import floor, isfinite
from typing import Any

import msgspec

from edge_tvbo.config.controller_settings import ROUNDING, ControllerSettings
from edge_tvbo.control.controller_state import ControllerState
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.commands import MIN_REPLY_SHARE
from edge_tvbo.models.snapshot import MAX_COUNT, decode_struct, read_bytes


class ActivationsState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """State of `Activations` in a snapshot; the class `Activations` describes the attributes."""

    arms: list[int]
    awaited: list[int]
    at: float
    left: int
    begun: int

    @classmethod
    def decode(
        cls, snapshot: dict[str, Any], held: ControllerState, sensors: int
    ) -> "ActivationsState":
        """Return the activations in the `snapshot` of a field.

        `held` is the controller state in this snapshot; `sensors` is the number of sensors. Old
        versions stored no activations for a field with at most one activation in each interval. If
        the snapshot contains no activations, they are derived from `held`. Raises `SnapshotError`
        for invalid activations.
        """
        if "activations" not in snapshot:
            arms = [held.selected] if held.waiting else []
            return cls(arms, arms, held.began, 0, held.interval + 1)
        blob = read_bytes(snapshot, "activations")
        state = decode_struct("The controller's snapshot", cls, blob)
        if not state._is_valid(sensors):
            raise SnapshotError("The controller's snapshot contains invalid activations.")
        return state

    def _is_valid(self, sensors: int) -> bool:
        arms, awaited = set(self.arms), set(self.awaited)
        return (
            all(0 <= arm < sensors for arm in arms)
            and awaited <= arms
            and len(arms) == len(self.arms)
            and len(awaited) == len(self.awaited)
            and isfinite(self.at)
            and 0 <= self.left <= MAX_COUNT
            and 0 <= self.begun <= MAX_COUNT
        )


class Activations:
    """The activations of one interval, and the number of intervals since the field began.

    Parameters
    ----------
    settings : ControllerSettings
        How many sensors are activated in an interval, and how long each may take to reply.

    Attributes
    ----------
    arms : list of int
        The sensors that were activated in the interval, in the order of activation.
    awaited : list of int
        The sensors whose replies the controller waits for. They were activated at the same time, or
        recommended one after the other.
    at : float
        When the awaited sensors were activated, in s since 1970.
    undelivered : list of int
        The sensors whose activations were not confirmed by the broker, or were withdrawn by a
        restart.
    resumed : list of int
        The sensors that were activated before a restart.
    left : int
        Number of sensors that may still be activated in the interval, one after the other.
    begun : int
        Number of intervals since the field began, including the running interval and intervals that
        were skipped. If the length of an interval changes, the number is converted to intervals of
        the new length.
    """

    def __init__(self, settings: ControllerSettings) -> None:
        self._settings = settings
        self.arms: list[int] = []
        self.awaited: list[int] = []
        self.undelivered: list[int] = []
        self.resumed: list[int] = []
        self.at = 0.0
        self.left = 0
        self.begun = 0

    @property
    def planned(self) -> int:
        """Number of activations planned for the running interval if enough sensors are eligible."""
        survey = self._settings.survey
        if survey and self.begun <= self._settings.survey_intervals:
            return survey.per_interval
        return self._settings.per_interval

    @property
    def awaits_latest(self) -> bool:
        """Whether the controller waits for a reply to the latest activation."""
        return bool(self.arms) and self.arms[-1] in self.awaited

    @property
    def awaits_delivered(self) -> bool:
        """Whether the controller awaits a reply to an activation that may have been delivered."""
        return not set(self.awaited) <= set(self.undelivered)

    @property
    def survey_left(self) -> int:
        """Number of intervals of the survey that have not begun yet; 0 without a survey."""
        return max(0, self._settings.survey_intervals - self.begun)

    def next_deadline(self, began: float, at: float) -> float | None:
        """Return the deadline for the reply of the next sensor, which is activated at time `at`.

        All times are in s since 1970; `began` is the start of the interval. The reply of the jth
        sensor of an interval is due j times `reply_timeout` after `began`, so that all activations
        fit in the interval. Return None if too little time is left.
        """
        timeout = self._settings.reply_timeout
        deadline = began + (len(self.arms) + 1) * timeout
        return deadline if deadline - at >= MIN_REPLY_SHARE * timeout else None

    def begin_interval(self) -> None:
        """Remove the previous interval's activations."""
        self.arms.clear()
        self.awaited.clear()
        self.undelivered.clear()
        self.resumed.clear()
        self.left = 0

    def add(self, arm: int, at: float) -> None:
        """Add an activation of the sensor `arm` at time `at`; the reply of `arm` is awaited."""
        if arm in self.arms:  # a user can activate a sensor again
            self.arms.remove(arm)
            self.undelivered = [each for each in self.undelivered if each != arm]
            self.resumed = [each for each in self.resumed if each != arm]
        self.arms.append(arm)
        self.awaited.append(arm)
        self.at = at

    def end(self, arm: int) -> None:
        """Stop waiting for the reply to the activation of `arm`."""
        self.awaited.remove(arm)

    def end_all(self) -> list[int]:
        """Stop waiting for the replies to all activations; return the awaited sensors."""
        awaited, self.awaited = self.awaited, []
        return awaited

    def scale_begun(self, ratio: float) -> None:
        """Convert `begun`, the number of intervals so far, to intervals of another length.

        `ratio` is the old length divided by the new length. The end of a survey moves by at most
        one interval, of the old or the new length, whichever is longer.
        """
        self.begun = min(floor(self.begun * ratio + ROUNDING), MAX_COUNT)

    def state(self) -> ActivationsState:
        """Return the activations for a snapshot."""
        return ActivationsState(self.arms, self.awaited, self.at, self.left, self.begun)

    def restore(self, state: ActivationsState) -> None:
        """Restore the activations from a state that `decode` has returned."""
        self.arms, self.awaited = list(state.arms), list(state.awaited)
        self.at, self.begun = state.at, state.begun
        self.left = min(state.left, max(0, self._settings.max_per_interval - len(self.arms)))
