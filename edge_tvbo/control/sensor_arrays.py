"""Sensor arrays: the stored attributes of all sensors, in one array per attribute."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

WHOLE_NUMBERS = (int, bool, list[int])  # types of attributes that are stored as int64
LISTS = (list[int], list[float])  # types of attributes whose arrays have a second axis


class _Attribute(NamedTuple):
    """One stored attribute of a sensor, and the type of its array."""

    name: str
    dtype: type[Any]
    is_list: bool  # NumPy would need time to find out

    def array(self, values: Iterable[Any], count: int) -> NDArray[Any]:
        """Return the array of the attribute, from its values for `count` sensors."""
        if self.is_list:
            return np.fromiter(chain.from_iterable(values), self.dtype).reshape(count, -1)
        return np.fromiter(values, self.dtype, count)


def arrays_of(prefix: str, sensors: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """Return a dict of arrays, one for each attribute of the M dataclass objects in `sensors`.

    The dataclass has at least two attributes, and the lists of an attribute all have the same
    length. The first axis of each array has the length M. Each key is `prefix` and the attribute's
    name.
    """
    kind: Any = type(sensors[0])
    row, attributes = _attributes(kind)
    columns = zip(*map(row, sensors), strict=True)
    return {
        prefix + each.name: each.array(column, len(sensors))
        for each, column in zip(attributes, columns, strict=True)
    }


def load_arrays(prefix: str, sensors: Sequence[Any], arrays: dict[str, Any]) -> None:
    """Set the attributes of all `sensors` from checked arrays, which `arrays_of` has returned."""
    kind: Any = type(sensors[0])
    for each in _attributes(kind)[1]:
        for sensor, value in zip(sensors, arrays[prefix + each.name].tolist(), strict=True):
            setattr(sensor, each.name, value)


@cache  # dataclasses and types are slow to inspect, and every snapshot would do so
def _attributes(kind: type[Any]) -> tuple[Callable[[Any], Any], list[_Attribute]]:
    """Return a function that returns all attributes of a sensor, and the list of attributes."""
    attributes = [
        _Attribute(
            each.name,
            np.int64 if each.type in WHOLE_NUMBERS else np.float64,
            is_list=each.type in LISTS,
        )
        for each in fields(kind)
    ]
    return attrgetter(*(each.name for each in attributes)), attributes
