"""Sensor arrays: the stored attributes of all sensors, in one array per attribute."""

from collections.abc import Sequence
from dataclasses import Field, fields
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

WHOLE_NUMBERS = (int, bool, list[int])  # types of attributes that are stored as int64
LISTS = (list[int], list[float])  # types of attributes whose arrays have a second axis


def arrays_of(prefix: str, sensors: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """Return a dict of arrays, one for each attribute of the M dataclass objects in `sensors`.

    The first axis of each array has the length M. Each key is `prefix` and the attribute's name.
    """
    return {prefix + each.name: _array(each, sensors) for each in fields(sensors[0])}


def _array(attribute: Field[Any], sensors: Sequence[Any]) -> NDArray[Any]:
    """Return one attribute of all `sensors`; NumPy takes longer if it has to look for lists."""
    dtype = np.int64 if attribute.type in WHOLE_NUMBERS else np.float64
    values = map(attrgetter(attribute.name), sensors)
    if attribute.type in LISTS:
        return np.fromiter(chain.from_iterable(values), dtype).reshape(len(sensors), -1)
    return np.fromiter(values, dtype, len(sensors))


def load_arrays(prefix: str, sensors: Sequence[Any], arrays: dict[str, Any]) -> None:
    """Set the attributes of all `sensors` from checked arrays, which `arrays_of` has returned."""
    for each in fields(sensors[0]):
        for sensor, value in zip(sensors, arrays[prefix + each.name].tolist(), strict=True):
            setattr(sensor, each.name, value)
