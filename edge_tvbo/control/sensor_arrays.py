"""Sensor arrays: the stored attributes of all sensors, in one array per attribute."""

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

WHOLE_NUMBERS = (int, bool, list[int])  # types of attributes that are stored as int64


def arrays_of(prefix: str, sensors: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """Return a dict of arrays, one for each attribute of the M dataclass objects in `sensors`.

    The dataclass has at least two attributes. The first axis of each array has the length M. Each
    key is `prefix` and the attribute's name.
    """
    attributes = fields(sensors[0])
    rows = map(attrgetter(*(each.name for each in attributes)), sensors)
    return {
        prefix + each.name: np.array(column, np.int64 if each.type in WHOLE_NUMBERS else np.float64)
        for each, column in zip(attributes, zip(*rows, strict=True), strict=True)
    }


def load_arrays(prefix: str, sensors: Sequence[Any], arrays: dict[str, Any]) -> None:
    """Set the attributes of all `sensors` from checked arrays, which `arrays_of` has returned."""
    for each in fields(sensors[0]):
        for sensor, value in zip(sensors, arrays[prefix + each.name].tolist(), strict=True):
            setattr(sensor, each.name, value)
