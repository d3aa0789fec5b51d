"""Sensor field: the sensors, their prior covariance, and the conversion to model units."""

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from math import inf
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.fingerprint import AsBytes, Fingerprint, exact, rounded
from edge_tvbo.models.spatial_kernels import ALLOWED_RANGE, MAX_NUMBER, MIN_NUMBER, SpatialKernel
from edge_tvbo.models.structural_model import StructuralModel
from edge_tvbo.numerics.types import Array

Number = TypeVar("Number", float, Array)
MAX_EXPONENT = 100.0  # limit of a value on the log scale, so that every reading is finite
BLOCK = 256  # rows of a covariance that are factored in one step


class SensorField:
    """The sensors that a policy chooses from (the arms), and the prior of their readings.

    A field is immutable.

    Parameters
    ----------
    sensors : sequence of str
        M different names; an arm is an index into them.
    kernel : (M, M) array
        Prior covariance in model units², symmetric, positive semi-definite.
    noise_variance : float
        Noise variance of a reading, in model units², > 0.
    unit : str
        Unit of the readings, such as "°C".
    center, scale : float
        ``model value = (reading - center) / scale``, negated if `objective` is "min". The mapping
        is the same for all sensors, so that the best sensor in model units is also the best sensor
        in `unit`.
    log1p_scale : float or None
        If this is a number, the model works on a log scale: model values are proportional to
        ``log1p(reading / log1p_scale) - log1p(center / log1p_scale)``, and `scale` is the size of a
        model unit at `center`. On the log scale, a reading below 0 counts as 0.
    objective : "max" or "min"
        Whether the policy searches for the highest or the lowest reading. The model always
        maximises.
    positions : (M, d) array or None
        Positions of the sensors, for policies that learn how fast the field changes in space.
    structure : StructuralModel or None
        Course, season and rates of change of the field, learned from training readings or assumed
        beforehand (a prior).

    Raises
    ------
    ConfigError
        If an argument is invalid.

    Examples
    --------
    >>> field = SensorField(("a", "b"), [[1, 0.5], [0.5, 1]], 0.01, unit="°C", center=20, scale=2)
    >>> field.to_model(23.0), field.to_unit(1.5)
    (1.5, 23.0)
    >>> field = SensorField(("a",), [[1]], 0.01, center=20, scale=10, log1p_scale=10)
    >>> round(field.to_model(50.0), 3), field.to_model(20.0), field.to_unit(-100.0)
    (2.079, 0.0, 0.0)
    """

    def __init__(
        self,
        sensors: Sequence[str],
        kernel: ArrayLike,
        noise_variance: float,
        *,
        unit: str = "",
        center: float = 0.0,
        scale: float = 1.0,
        log1p_scale: float | None = None,
        objective: Literal["max", "min"] = "max",
        positions: ArrayLike | None = None,
        structure: StructuralModel | None = None,
    ) -> None:
        self.sensors = _checked_names(sensors)
        M = len(self.sensors)
        if structure is not None and (found := len(structure.spread)) != M:
            raise ConfigError(f"The structure has {found} sensors; the field has {M}.")
        if structure is not None and structure.correlation is not kernel:
            _checked_covariance(structure.correlation, M)
        self.structure = structure
        self.kernel = _checked_covariance(kernel, M)
        self.noise_variance = _checked_size("noise_variance", noise_variance)
        self.unit = unit
        self.objective = objective
        self.center = _checked_number("center", center)
        self.scale = _checked_size("scale", scale)
        self.log1p_scale = (
            None if log1p_scale is None else _checked_size("log1p_scale", log1p_scale)
        )
        if not abs(self.center) <= MAX_NUMBER:
            raise ConfigError(f"center is {center}; it can be -{MAX_NUMBER:g} to {MAX_NUMBER:g}.")
        if self.log1p_scale is not None and self.center < 0.0:
            raise ConfigError(f"center is {center}; on a log scale, it must be at least 0.")
        if objective not in ("max", "min"):
            raise ConfigError(f'objective is {objective!r}; it can be "max" or "min".')
        self._sign = 1.0 if objective == "max" else -1.0
        self.positions = None if positions is None else _checked_positions(positions, M)

    def __len__(self) -> int:
        return len(self.sensors)

    def arm(self, index: int) -> int:
        """Return the arm of the sensor with this index; in a sensor field, arm and index are equal.

        Parameters
        ----------
        index : int
            0 to M - 1.

        Returns
        -------
        int
            The arm.
        """
        return index

    def index(self, arm: int) -> int:
        """Return the index of an arm's sensor; in a sensor field, arm and index are equal.

        Parameters
        ----------
        arm : int
            0 to M - 1.

        Returns
        -------
        int
            The index.
        """
        return arm

    def name(self, arm: int) -> str:
        """Return the name of an arm's sensor in the sensor field.

        Parameters
        ----------
        arm : int
            0 to M - 1.

        Returns
        -------
        str
            The name, as in `sensors`.
        """
        return self.sensors[arm]

    def contains(self, places: Array) -> bool:
        """Return whether all places are arms of this sensor field.

        Parameters
        ----------
        places : (n, 1) array
            Indices of arms, as floats.

        Returns
        -------
        bool
            Whether each place is a whole number from 0 to M - 1.
        """
        return bool(((places >= 0) & (places < len(self)) & (places % 1 == 0)).all())

    def to_model(self, reading: Number) -> Number:
        """Convert readings of a sensor field from the field's unit to model units.

        Parameters
        ----------
        reading : float or array
            Readings in the field's unit.

        Returns
        -------
        float or array
            (reading - center) / scale or, if the field has a log scale, the value on that scale.
            The result is negated if `objective` is "min".
        """
        if self.log1p_scale is None:
            return self._sign * (reading - self.center) / self.scale
        pole = self.center + self.log1p_scale
        value = np.log1p((np.maximum(reading, 0.0) - self.center) / pole)
        return _like(reading, self._sign * pole / self.scale * value)

    def to_unit(self, value: Number) -> Number:
        """Convert values of a sensor field from model units to the field's unit.

        The conversion is monotone, so a quantile in model units becomes a quantile in the field's
        unit, and the median becomes the median.

        Parameters
        ----------
        value : float or array
            Values in model units.

        Returns
        -------
        float or array
            The values in the field's unit; this is the inverse of `to_model`.
        """
        if self.log1p_scale is None:
            return self.center + self._sign * value * self.scale
        pole = self.center + self.log1p_scale
        exponent = np.minimum(self._sign * value * self.scale / pole, MAX_EXPONENT)
        return _like(value, np.maximum(self.center + pole * np.expm1(exponent), 0.0))

    def std_to_unit(self, value: Number, std: Number) -> Number:
        """Convert standard deviations of a sensor field from model units to the field's unit.

        Parameters
        ----------
        value, std : float or array
            Values and the standard deviations around them, in model units.

        Returns
        -------
        float or array
            Half the width of the interval from `value` - `std` to `value` + `std`, after both ends
            are converted to the field's unit.
        """
        if self.log1p_scale is None:
            return std * self.scale
        return abs(self.to_unit(value + std) - self.to_unit(value - std)) / 2.0

    def distance_to_unit(self, value: float, distance: float) -> float:
        """Return the distance between `value` and `value` + `distance`, in the sensor field's unit.

        Parameters
        ----------
        value, distance : float
            A value and a positive or negative distance from it, in model units.

        Returns
        -------
        float
            The distance in the field's unit, not negative.
        """
        if self.log1p_scale is None:
            return abs(distance) * self.scale
        return abs(self.to_unit(value + distance) - self.to_unit(value))

    def log_slope(self, readings: Array) -> Array:
        """Return the logarithm of the absolute slope of `SensorField.to_model` at each reading.

        The log density of a reading in the field's unit is the log density of its value in model
        units, plus this logarithm.

        Parameters
        ----------
        readings : array
            Readings in the field's unit.

        Returns
        -------
        array
            The logarithm of the absolute slope at each reading.
        """
        if self.log1p_scale is None:
            return np.full(readings.shape, -np.log(self.scale))
        pole = self.center + self.log1p_scale
        shifted = np.maximum(readings, 0.0) + self.log1p_scale
        return np.asarray(np.log(pole / self.scale) - np.log(shifted))

    def bounds(self, farthest: float) -> tuple[float, float]:
        """Return the lowest and the highest reading whose model value is within ±`farthest`.

        On a log scale, the lowest reading is always -`log1p_scale`, which is below 0. The reason: a
        reading slightly below 0 can be a measurement error, and must be within the bounds.

        Parameters
        ----------
        farthest : float
            The largest absolute model value, in model units.

        Returns
        -------
        tuple of float
            The lowest and the highest reading, in the field's unit.
        """
        ends = self.to_unit(-farthest), self.to_unit(farthest)
        return min(ends) if self.log1p_scale is None else -self.log1p_scale, max(ends)

    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint with which a sensor field recognises its own snapshots.

        Returns
        -------
        Fingerprint
            Digests of 16 hex digits.
        """
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> Fingerprint:
        numbers: tuple[float, ...] = (self.noise_variance, self.center, self.scale)
        if self.log1p_scale is not None:
            numbers = (*numbers, self.log1p_scale)
        in_short = " ".join(f"{each:.9g}" for each in numbers)
        return Fingerprint(self._digest(exact, repr(numbers)), self._digest(rounded, in_short))

    def _digest(self, as_bytes: AsBytes, numbers: str) -> str:
        """Return a digest of the sensor field, for its fingerprint.

        The function `as_bytes` converts the field's arrays to bytes. The text `numbers` contains
        the noise variance, and the numbers that define the conversion to model units.
        """
        digest = sha256("\0".join(self.sensors).encode() + b"\0")
        for each in as_bytes(self.kernel):
            digest.update(each)
        digest.update(f"\0{numbers} {self.objective}\0".encode())
        digest.update(b"" if self.structure is None else self.structure.digest(as_bytes))
        digest.update(b"\0" + (b"" if self.positions is None else self.positions.tobytes()))
        return digest.hexdigest()[:16]


def grid(side: int, kernel: SpatialKernel, noise_variance: float) -> SensorField:
    """Return the sensor field of a grid of `side` × `side` places in [0, 1]², row by row.

    >>> grid(3, SpatialKernel(length_scale=0.2), 0.01).positions[5].tolist()
    [0.5, 1.0]
    """
    line = np.linspace(0.0, 1.0, side)
    places = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    names = tuple(f"{i}-{j}" for i in range(side) for j in range(side))
    return SensorField(names, kernel(places, places), noise_variance, positions=places)


def _like(given: Number, result: Array) -> Number:
    """Return `result` as an array if `given` is an array, otherwise as a float.

    `result` was computed from `given`.
    """
    return result if isinstance(given, np.ndarray) else float(result)


def _checked_number(name: str, value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number beyond the range of floats
        return inf
    except (TypeError, ValueError):
        raise ConfigError(
            f"{name} is {value!r}; it must be one number, which applies to all sensors."
        ) from None


def _checked_size(name: str, value: float) -> float:
    """Return a variance or a scale as a float; raise `ConfigError` if the value is out of range."""
    size = _checked_number(name, value)
    if not MIN_NUMBER <= size <= MAX_NUMBER:
        raise ConfigError(f"{name} is {value}; it must be {ALLOWED_RANGE}.")
    return size


def _checked_positions(positions: ArrayLike, M: int) -> Array:
    try:
        places = np.array(positions, np.float64, ndmin=2)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"positions is not a matrix of numbers: {error}") from None
    if places.ndim != 2 or places.shape[0] != M or not np.isfinite(places).all():
        raise ConfigError(
            f"positions: the shape is {places.shape}, and the field has {M} sensors; "
            f"allowed: {M} rows of d finite coordinates."
        )
    return places


def _checked_names(sensors: Sequence[str]) -> tuple[str, ...]:
    if isinstance(sensors, str):
        raise ConfigError(f"sensors is the text {sensors!r}; it must be a list of names.")
    names = tuple(sensors)
    for name in names:
        if not isinstance(name, str):
            raise ConfigError(f"sensors holds {name!r}; each name must be a text.")
    if len(set(names)) != len(names):
        raise ConfigError("sensors: the same name is listed more than once.")
    return names


def _checked_covariance(kernel: ArrayLike, M: int) -> Array:
    try:
        K = np.asarray(kernel, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"kernel is not a matrix of numbers: {error}") from None
    if K.shape != (M, M):
        raise ConfigError(f"kernel has shape {K.shape}; for {M} sensors it must be ({M}, {M}).")
    if M == 0:
        raise ConfigError("sensors: at least one sensor is needed.")
    if not np.isfinite(K).all():
        raise ConfigError("kernel holds values that are not finite.")
    largest = float(np.max(np.diag(K)))
    if not largest > 0 or np.min(np.diag(K)) < 0:
        raise ConfigError(
            "kernel: its diagonal holds the prior variances; none of these variances may be "
            "negative, and at least one must be above 0."
        )
    if not MIN_NUMBER <= largest <= MAX_NUMBER:
        raise ConfigError(
            f"kernel: its largest variance is {largest:g}; it must be {ALLOWED_RANGE}."
        )
    symmetric = K - K.T
    if np.max(np.abs(symmetric, out=symmetric)) > 1e-9 * largest:
        raise ConfigError(
            "kernel is not symmetric; if rounding is the cause, pass (kernel + kernel.T) / 2."
        )
    np.divide(np.add(K, K.T, out=symmetric), 2, out=symmetric)
    lifted = symmetric.copy()
    lifted.reshape(-1)[:: M + 1] += 1e-8 * largest * M
    if not _overwrite_with_factor(lifted):
        raise ConfigError("kernel is not positive semi-definite, so it is not a covariance matrix.")
    return symmetric


def _overwrite_with_factor(A: Array) -> bool:
    """Return True if a field's covariance `A` is positive definite. Part of `A` is overwritten.

    The Cholesky factor is computed one block of rows after the other. `np.linalg.cholesky` would
    need memory for two more matrices, 64 MB for 2000 sensors.
    """
    for begin in range(0, len(A), BLOCK):
        end = begin + BLOCK
        try:
            L = np.linalg.cholesky(A[begin:end, begin:end])
        except np.linalg.LinAlgError:
            return False
        below = np.linalg.solve(L, A[end:, begin:end].T)
        for first in range(0, below.shape[1], BLOCK):
            last = first + BLOCK
            A[end + first : end + last, end : end + last] -= (
                below[:, first:last].T @ below[:, :last]
            )
    return True
