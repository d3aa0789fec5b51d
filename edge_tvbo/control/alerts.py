"""Alerts: whether the hot spot of a field is beyond the threshold, or probably beyond it.

There are two kinds of alert:

- *by reading*: a reading of a sensor was above the threshold, and none of the sensor's later
  readings was below the release level, which is the threshold minus the hysteresis. If this
  sensor becomes silent, the alert continues until two conditions hold: the sensor is ignored or
  excluded, and the model has a reading.
- *by estimate*: the posterior probability that the hot spot is above the threshold has reached the
  configured probability. This alert lasts until the posterior median of the hot spot falls below
  the release level.

The computation uses model units, in which the hot spot always has the highest value. If the
objective is "min", a value is "above" the threshold if it is lower in the field's unit. The
conversion between the units is monotonic, also on a log scale. Therefore a probability is the same
in both units, and a converted median is the median in the other unit.
"""

from collections.abc import Sequence
from math import erfc, isfinite, sqrt
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from edge_tvbo.config.alert_settings import AlertSettings
from edge_tvbo.errors import ConfigError, SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.snapshot import (
    check_arrays,
    decode_struct,
    encode_struct,
    read_bytes,
    read_number,
)
from edge_tvbo.numerics.types import Mask

NEVER = 0.0  # the time of an event that has not occurred
NOISE_STDS = 2.0  # default hysteresis, in standard deviations of the noise of a reading


class _Held(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Part of an alert's state in a snapshot.

    Do not add an attribute: earlier versions would reject the snapshot. Store a new value under its
    own name in `AlertMonitor.snapshot`.
    """

    estimated: bool
    active: bool
    since: float
    announced: bool | None = None  # None in an old snapshot, for which `active` is used
    threshold: float | None = None  # set by a command, in the field's unit; None if unchanged
    configured: float | None = None  # threshold in the settings when the snapshot was taken
    objective: str | None = None  # of the field; only old snapshots have it here


class AlertMonitor:
    """State of the alert of one field.

    Parameters
    ----------
    field : SensorField
        M sensors.
    settings : AlertSettings
        The threshold, the hysteresis and the probability.

    Attributes
    ----------
    threshold : float
        The threshold, in the field's unit.
    release : float
        The level at which an alert is over, in the field's unit.
    active : bool
        Whether there is an alert.
    since : float
        When `active` changed last, in s since 1970; `NEVER` before the first alert.
    why_replaced : str
        Why the last `apply_settings` replaced the threshold of a command; "" if it did not.
    """

    def __init__(self, field: SensorField, settings: AlertSettings) -> None:
        self._field = field
        self._settings = settings
        self._configured: float | None = settings.threshold  # when `threshold` was chosen
        self._use(settings.threshold)
        self._probability = settings.probability
        self._beyond = np.zeros(len(field), np.int64)  # 1 for sensors that cause an alert
        self._estimated = False
        self._announced = False  # the state that the last event reported
        # the objective and the release level when the causes were found:
        self._objective: str = field.objective
        self._applied_release: float | None = self.release  # None: unknown, or no alert yet
        self.active = False
        self.since = NEVER
        self.why_replaced = ""

    def set_threshold(self, threshold: float, values: Sequence[float]) -> bool:
        """Set the alert's threshold, in the field's unit; return whether it has changed.

        The threshold applies until a command sets another threshold, or until `apply_settings`
        replaces it. `values` contains the last reading of each sensor.
        """
        if threshold == self.threshold:
            return False
        self._use(threshold)
        self._find_causes(values)
        return True

    def forget_values(self) -> None:
        """Use the alert's configured threshold, and forget which sensors cause an alert.

        The first `update` with a hot spot ends an active alert, unless there is a new cause.
        """
        self._configured = self._settings.threshold
        self._use(self._settings.threshold)
        self._estimated = False
        self._beyond[:] = 0

    def observe(self, arm: int, y: float) -> None:
        """Compare `y`, a reading of `arm` in model units, with the threshold of the alert."""
        if y > self._threshold:
            self._beyond[arm] = 1
        elif y < self._release:
            self._beyond[arm] = 0

    def update(self, hotspot: tuple[float, float] | None, hidden: Mask, at: float) -> None:
        """Update the alert at time `at`.

        Parameters
        ----------
        hotspot : (float, float) or None
            Posterior mean and standard deviation of the hot spot. None before the model has
            its first reading: until then, a reading can begin an alert, but no alert ends.
        hidden : bool array (M,)
            Sensors that are ignored or excluded; their readings do not count.
        at : float
            Time in s since 1970.
        """
        self._beyond[hidden] = 0
        if hotspot is not None:
            if self.probability(*hotspot) >= self._probability:
                self._estimated = True
            elif hotspot[0] < self._release:
                self._estimated = False
        active = self._estimated or bool(self._beyond.any())
        active |= hotspot is None and self.active
        if active is not self.active:
            self.active, self.since = active, at

    @property
    def has_event(self) -> bool:
        """Whether the alert is active now but was not at the last `take_event`, or vice versa."""
        return self.active is not self._announced

    def take_event(self) -> Literal["alert", "alert-over"] | None:
        """Return the change of the alert since the last call.

        The result is "alert" if the alert has begun, "alert-over" if it has ended, and None if
        there is no change.
        """
        if not self.has_event:
            return None
        self._announced = self.active
        return "alert" if self.active else "alert-over"

    def probability(self, mean: float, std: float) -> float:
        """Return the probability that a value is above the alert's threshold.

        `mean` and `std` are the value's posterior mean and standard deviation, in model units.

        >>> field = SensorField(("a",), [[1.0]], 0.01, center=20.0)
        >>> monitor = AlertMonitor(field, AlertSettings(threshold=21.0))
        >>> [round(monitor.probability(mean, 0.5), 3) for mean in (0.0, 1.0, 2.0)]
        [0.023, 0.5, 0.977]
        """
        below = self._threshold - mean
        return erfc(below / std / sqrt(2.0)) / 2.0 if std > 0.0 else float(below < 0.0)

    def arms_beyond(self) -> list[int]:
        """Return the sensors whose readings cause an alert."""
        return [int(arm) for arm in np.flatnonzero(self._beyond)]

    def shift_timestamps(self, by: float) -> None:
        """Add `by` seconds to the time of the alert's last change, because the clock was set."""
        if self.since != NEVER:
            self.since += by

    # --- snapshots ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the alert for a snapshot."""
        set_by_command = None if self.threshold == self._settings.threshold else self.threshold
        held = _Held(
            self._estimated,
            self.active,
            self.since,
            self._announced,
            set_by_command,
            self._settings.threshold,
        )
        return {
            "alert": encode_struct(held),
            "alert_beyond": self._beyond,
            "alert_objective": self._field.objective,
            "alert_release": self.release,
        }

    def check(self, state: dict[str, Any]) -> None:
        """Raise `SnapshotError` if `state` contains an invalid alert."""
        if "alert" not in state:
            return
        check_arrays({"alert_beyond": self._beyond}, state)
        beyond = state["alert_beyond"]
        held = _held(state)
        if "alert_release" in state:
            read_number(state, "alert_release")
        if (
            not isinstance(state.get("alert_objective", ""), str)
            or not isfinite(held.since)
            or not isfinite(held.threshold or 0.0)
            or ((beyond != 0) & (beyond != 1)).any()
        ):
            raise SnapshotError("The snapshot's alert is invalid.")

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the alert from a `state` that `check` accepts.

        If `state` contains no alert, an active alert ends.
        """
        held = _held(state) if "alert" in state else _Held(False, False, NEVER)
        self._estimated, self.active, self.since = held.estimated, held.active, held.since
        self._announced = held.active if held.announced is None else held.announced
        self._configured = held.configured
        self._objective = state.get("alert_objective") or held.objective or self._field.objective
        self._applied_release = state.get("alert_release")
        in_use = (held.threshold, held.configured, self._settings.threshold)
        self._use(next(each for each in in_use if each is not None))
        self._beyond[:] = state.get("alert_beyond", 0)

    def apply_settings(self, values: Sequence[float], plausible: tuple[float, float]) -> None:
        """Apply the alert settings that have changed since the snapshot; call `restore` first.

        - Use the configured threshold if it has changed. Also use it if the alert could never begin
          or never end with the threshold that a command has set; see `check_levels`.
        - If the field's objective has changed, determine again which sensors cause the alert.
        - If the release level has changed, or is not in the snapshot, compare the last readings
          with the present levels.

        `values` contains the last reading of each sensor. `plausible` contains the lowest and the
        highest plausible reading.
        """
        is_changed = self._configured != self._settings.threshold
        self.why_replaced = "" if is_changed else self._problem(plausible)
        if is_changed or self.why_replaced:
            self._configured = self._settings.threshold
            self.set_threshold(self._settings.threshold, values)
        if self._objective != self._field.objective:
            self._objective = self._field.objective
            self._find_causes(values)
        if self._applied_release != self.release:
            self._applied_release = self.release
            for arm, value in enumerate(values):
                if isfinite(value):
                    self.observe(arm, self._field.to_model(value))

    def _problem(self, plausible: tuple[float, float]) -> str:
        """Return why the alert could never begin, or never end, with the threshold of a command.

        Return "" if the alert can begin and end, or if no command has set the threshold.
        """
        if self.threshold == self._settings.threshold:
            return ""
        try:
            check_levels(self._field, replace(self._settings, threshold=self.threshold), plausible)
        except ConfigError as error:
            return str(error)
        return ""

    def _find_causes(self, values: Sequence[float]) -> None:
        """Find the sensors whose last reading is above the threshold: they cause the alert."""
        self._estimated = False
        self._beyond[:] = [
            isfinite(value) and bool(self._field.to_model(value) > self._threshold)
            for value in values
        ]

    def _use(self, threshold: float) -> None:
        self.threshold = threshold
        self.release = release_level(self._field, replace(self._settings, threshold=threshold))
        self._threshold = self._field.to_model(self.threshold)
        self._release = self._field.to_model(self.release)


def announced_alert(state: dict[str, Any], sensors: int) -> dict[str, Any]:
    """Return, from the `state` of a field, an alert whose end was not announced; {} without one.

    `state` is from a snapshot, and the field has no alert settings any more. The next snapshot of
    the field contains the result, in which no sensor causes the alert. `sensors` is the number of
    sensors.
    """
    if "alert" not in state:
        return {}
    held = _held(state)
    announced = held.active if held.announced is None else held.announced
    beyond = np.zeros(sensors, np.int64)
    return {"alert": state["alert"], "alert_beyond": beyond} if announced else {}


def _held(state: dict[str, Any]) -> _Held:
    return decode_struct("The snapshot's alert", _Held, read_bytes(state, "alert"))


def release_level(field: SensorField, settings: AlertSettings) -> float:
    """Return the level at which an alert ends, in the field's unit."""
    hysteresis = settings.hysteresis
    if hysteresis is None:
        noise = NOISE_STDS * sqrt(field.noise_variance)
        hysteresis = field.std_to_unit(field.to_model(settings.threshold), noise)
    return settings.threshold + (hysteresis if field.objective == "min" else -hysteresis)


def check_levels(
    field: SensorField, settings: AlertSettings, plausible: tuple[float, float]
) -> None:
    """Raise `ConfigError` if an alert could never begin, or could never end.

    `plausible` contains the lowest and the highest plausible reading, in the field's unit.
    """
    lowest, highest = plausible
    if field.log1p_scale is not None:
        lowest = max(lowest, 0.0)  # readings below 0 count as 0
    for name, level in (
        ("threshold is", settings.threshold),
        ("with this hysteresis, the alert would end at", release_level(field, settings)),
    ):
        if not lowest < level < highest:
            raise ConfigError(
                f"{name} {level:g}, which is not within the plausible range of {lowest:g} to "
                f"{highest:g}; every accepted reading would be on the same side of this level. Set "
                "a level within this range, or set another range with `plausible`."
            )
