"""Ignored sensors: the sensors of a field that a user took out of use by command."""

from typing import Any

import numpy as np

from edge_tvbo.models.snapshot import read_names


class IgnoredSensors:
    """The ignored sensors of a field, which are never selected and never the hot spot.

    The model does not learn from them. At least one sensor is always in use.

    Parameters
    ----------
    sensors : tuple of str
        The M sensors of the field.

    Attributes
    ----------
    mask : bool array (M,)
        Whether each sensor is ignored.
    count : int
        Number of ignored sensors.

    Examples
    --------
    >>> ignored = IgnoredSensors(("hall", "attic"))
    >>> ignored.set(1, ignored=True), ignored.set(1, ignored=True), ignored.names()
    (True, False, ['attic'])
    """

    def __init__(self, sensors: tuple[str, ...]) -> None:
        self._sensors = sensors
        self.mask = np.zeros(len(sensors), np.bool_)
        self.count = 0

    def set(self, arm: int, *, ignored: bool) -> bool:
        """Set whether the sensor `arm` is ignored; return whether its state has changed."""
        changed = bool(self.mask[arm]) is not ignored
        self.mask[arm] = ignored
        self.count = int(self.mask.sum())
        return changed

    def is_last(self, arm: int) -> bool:
        """Return whether `arm` is the only sensor that is not ignored."""
        return not self.mask[arm] and self.count == len(self.mask) - 1

    def names(self) -> list[str]:
        """Return the names of the ignored sensors."""
        return [self._sensors[arm] for arm in np.flatnonzero(self.mask)]

    def snapshot(self) -> dict[str, Any]:
        """Return the ignored sensors as a state for a snapshot; {} if there are none."""
        return {"ignored": self.names()} if self.count else {}

    @staticmethod
    def check(state: dict[str, Any]) -> None:
        """Raise `SnapshotError` if `state` contains invalid ignored sensors."""
        if "ignored" in state:
            read_names(state, "ignored")

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the ignored sensors from a `state` that `check` accepts.

        Ids of sensors that the field does not have are skipped. If the state names all sensors of
        the field, no sensor is ignored.
        """
        names = set(state.get("ignored", ()))
        self.mask[:] = [sensor in names for sensor in self._sensors]
        if self.mask.all():
            self.mask[:] = False
        self.count = int(self.mask.sum())
