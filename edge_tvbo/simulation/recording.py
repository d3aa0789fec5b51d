"""Recording of a sensor network: checked readings on a regular grid of times and sensors."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from edge_tvbo.errors import DataError
from edge_tvbo.messages.formatting import named

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

USUAL_INTERVALS = (  # s, from a minute to a day
    *(60.0, 120.0, 300.0, 600.0, 900.0, 1200.0, 1800.0),
    *(3600.0, 7200.0, 10_800.0, 14_400.0, 21_600.0, 43_200.0, 86_400.0),
)
DAY = 86_400.0  # s
ROUNDING = 1e-6  # s; largest rounding error of a difference of two times
MAX_ROUNDING = 0.05  # intervals; below 1/16, because an interval has up to 16 activations
TOPIC_LEVEL = re.compile(r"[A-Za-z0-9_.-]+")


class Recording(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Measurements of a sensor network in T intervals with M sensors.

    Parameters
    ----------
    name : str
        The dataset's name.
    unit : str
        Unit of the values, such as "°C".
    objective : str
        "max" if policies search for the highest value, "min" if they search for the lowest.
    sensors : tuple of str
        M distinct ids; each id is valid as one level of an MQTT topic.
    start : float
        Time of the first interval, seconds since 1970.
    interval : float
        Length of an interval, in seconds.
    values : float64[T, M]
        Finite readings; gaps are filled, and `observed` marks the gaps.
    observed : bool[T, M]
        False for each value that was not measured but filled in. There can be intervals in which no
        sensor was observed, for example because the sensors are off at night. Such an interval is
        neither trained on nor replayed, but counts as elapsed time.
    replies : bool[T, M], optional
        Whether a sensor replies if it is activated. By default, a sensor replies in the
        intervals in which it was observed. A reply in a gap is the value that fills the gap; this
        value is never scored as the truth.
    positions : float64[M, 2], optional
        Coordinates of the sensors, in m.
    names : mapping, optional
        Names of sensors for people, if they differ from the ids.
    source : str
        Origin and licence of the data, and whether they are real or synthetic, in one sentence.

    Raises
    ------
    DataError
        If a parameter does not fit its description.
    """

    name: str
    unit: str
    objective: str
    sensors: tuple[str, ...]
    start: float
    interval: float
    values: "NDArray[np.float64]"
    observed: "NDArray[np.bool_]"
    replies: "NDArray[np.bool_] | None" = None
    positions: "NDArray[np.float64] | None" = None
    names: Mapping[str, str] = {}
    source: str

    def __post_init__(self) -> None:
        """Check all parameters of the recording; raises `DataError` if a parameter is invalid."""
        _check_scalars(self)
        check_sensor_names(self.name, self.sensors)
        _check_arrays(self)

    @property
    def named_sensors(self) -> list[str]:
        """The names of all sensors of the recording, for people."""
        return named(self.sensors, self.names)

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the recorded readings and positions."""
        arrays = (self.values, self.observed, self.replies, self.positions)
        parts = (b"" if array is None else array.tobytes() for array in arrays)
        numbers = f"{self.sensors} {self.objective} {self.start} {self.interval}".encode()
        return sha256(b"\0".join((*parts, numbers))).hexdigest()[:16]

    @property
    def rounding(self) -> float:
        """Largest rounding error of the recording's times, as a share of an interval."""
        return min(ROUNDING * max(1.0, 1.0 / self.interval), MAX_ROUNDING)

    def replies_in(self, row: int, arm: int) -> bool:
        """Return whether the recording's sensor `arm` replies if it is activated in `row`."""
        replies = self.observed if self.replies is None else self.replies
        return bool(replies[row, arm])


def check_sensor_names(where: str, sensors: Sequence[str]) -> None:
    """Raise `DataError` unless a recording's sensor ids are distinct, valid MQTT topic levels."""
    if not sensors:
        raise DataError(f"{where}: no sensor has a reading; at least one sensor is needed.")
    for sensor in sensors:
        if type(sensor) is not str:
            raise DataError(f"{where}: sensor {sensor!r} is not a text; convert it with str(...).")
        if not TOPIC_LEVEL.fullmatch(sensor):
            raise DataError(
                f"{where}: sensor {sensor!r} does not fit an MQTT topic level; "
                "use letters, digits, '_', '.' and '-'."
            )
    if len(set(sensors)) < len(sensors):
        twice = sorted({sensor for sensor in sensors if sensors.count(sensor) > 1})
        raise DataError(
            f"{where}: several sensors have the name {', '.join(twice)}; "
            "each sensor needs a different name."
        )


def _check_scalars(recording: Recording) -> None:
    if recording.objective not in ("max", "min"):
        raise DataError(
            f"{recording.name}: the objective is {recording.objective!r}; "
            'it must be "max" (search for the highest value) or "min" (for the lowest).'
        )
    for name, value in (("start", recording.start), ("interval", recording.interval)):
        if type(value) not in (int, float):  # JSON of decisions cannot contain other types
            raise DataError(
                f"{recording.name}: the {name} is {value!r}; it must be a Python float. "
                "Convert it with float(...)."
            )
    if not isfinite(recording.start):
        raise DataError(f"{recording.name}: the start is {recording.start}; it must be finite.")
    if not 0 < recording.interval < float("inf"):
        raise DataError(
            f"{recording.name}: the interval is {recording.interval} s; it must be above 0."
        )


def _check_arrays(recording: Recording) -> None:
    import numpy as np

    M = len(recording.sensors)
    values, observed, positions = recording.values, recording.observed, recording.positions
    if values.ndim != 2 or values.shape[0] == 0 or values.shape[1] != M:
        raise DataError(
            f"{recording.name}: values have shape {values.shape}; with {M} sensors it must be "
            f"(T, {M}), with T at least 1."
        )
    if observed.shape != values.shape or observed.dtype != np.bool_:
        raise DataError(
            f"{recording.name}: observed is {observed.dtype} of shape {observed.shape}; "
            f"it must be bool of shape {values.shape}, the shape of the values."
        )
    if recording.replies is not None and recording.replies.shape != values.shape:
        raise DataError(
            f"{recording.name}: replies have shape {recording.replies.shape}; they must have the "
            f"shape of the values, {values.shape}."
        )
    if values.dtype != np.float64 or not np.isfinite(values).all():
        raise DataError(
            f"{recording.name}: values must be finite float64; fill gaps and mark them "
            "in `observed`."
        )
    if positions is not None and (positions.shape != (M, 2) or not np.isfinite(positions).all()):
        raise DataError(
            f"{recording.name}: positions have shape {positions.shape}; "
            f"they must be finite and ({M}, 2), x and y in metres."
        )


def with_replies(recording: Recording, gaps: str) -> Recording:
    """Return the `recording` with its gaps treated as "silent", "filled" or "paper".

    `dataset_lookup.load_recording` describes these values.
    """
    if gaps == "silent":
        return recording
    filled = recording.observed | recording.observed.any(axis=1, keepdims=True)
    if gaps == "paper":
        return replace(recording, observed=filled)
    return replace(recording, replies=filled)


def shift_to_today(recording: Recording, now: float) -> Recording:
    """Return a copy of a recording, moved in time to end on the UTC day of `now`.

    All times are moved by the same number of whole days. `now` is in seconds since 1970.
    """
    last = recording.start + (len(recording.values) - 1) * recording.interval
    return replace(recording, start=recording.start + DAY * (now // DAY - last // DAY))
