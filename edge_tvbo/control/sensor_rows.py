"""Sensor rows: how to restore a snapshot after sensors were added, removed or reordered.

Most arrays of a snapshot have one row for each sensor, in the order of the field's configuration.
`SensorRows` converts the snapshot: it finds the rows of the field's present sensors by their ids,
and puts these rows into the present order. Then the snapshot is checked and restored like any
snapshot of the field.
"""

from collections.abc import Sequence
from math import inf, nan
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from edge_tvbo.control.controller_state import ControllerState
from edge_tvbo.control.fault_detection import BY_DIRECTION
from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import AnyArray, State, read_count

# Arrays without one row for each sensor.
WHOLE = ("fault_pool", "prices", "rises", "silence_at", "spent")

Entry = TypeVar("Entry")


class SensorRows:
    """The rows of a field's sensors in a snapshot that has a different set of sensors.

    A sensor that the snapshot does not contain gets a row of zeros. In every array, a row of zeros
    stands for a sensor that has neither readings nor time-outs.

    Parameters
    ----------
    stored : sequence of str
        The sensors of the snapshot, in the order of its rows.
    sensors : sequence of str
        The sensors of the field.

    Examples
    --------
    >>> rows = SensorRows(("attic", "bath", "hall"), ("hall", "loft", "attic"))
    >>> rows.pick({"turn": 3, "misses": np.array([0, 7, 2])})
    {'turn': 1, 'misses': array([2, 0, 0])}

    `turn` is 1 + the row of the sensor that was probed last. In this example, the hall was probed
    last, which has row 2 in the snapshot and row 0 in the field.
    """

    def __init__(self, stored: Sequence[str], sensors: Sequence[str]) -> None:
        rows = {sensor: row for row, sensor in enumerate(stored)}
        self._stored = len(stored)
        self._rows = [rows.get(sensor, self._stored) for sensor in sensors]

    def pick(self, state: State) -> State:
        """Return the state of a snapshot, with one row for each present sensor of the field.

        Entries about the field as a whole are not changed. For example, the statistics of fault
        detection still include the removed sensors, because the evidence against each sensor was
        computed with these statistics. If the sensor that was probed last is removed, the first
        sensor is probed next.

        Raises `SnapshotError` if an array does not have a row for each sensor of the snapshot.
        """
        picked = dict(state)
        for name, value in state.items():
            if isinstance(value, np.ndarray) and name not in WHOLE:
                picked[name] = self._pick_array(name, value)
        last = read_count(state, "turn") - 1
        picked["turn"] = 1 + self._rows.index(last) if last in self._rows else 0
        return picked

    def pick_readings(self, held: ControllerState) -> ControllerState:
        """Return a copy of the controller state `held`, with one list entry per present sensor.

        Raises `SnapshotError` if `held` does not have a row for each sensor of the snapshot.
        """
        return replace(
            held,
            last_at=self._pick_list(held.last_at, -inf),
            last_received=self._pick_list(held.last_received, -inf),
            last_value=self._pick_list(held.last_value, nan),
        )

    def _pick_array(self, name: str, array: AnyArray) -> AnyArray:
        axis = 1 if name in BY_DIRECTION else 0
        if array.ndim <= axis or array.shape[axis] != self._stored:
            raise SnapshotError(f"The snapshot's {name!r} does not have one row per sensor.")
        return np.insert(array, self._stored, 0, axis).take(self._rows, axis)

    def _pick_list(self, column: list[Entry], new: Entry) -> list[Entry]:
        if len(column) != self._stored:
            raise SnapshotError("The controller's snapshot contains invalid last readings.")
        return [[*column, new][row] for row in self._rows]
