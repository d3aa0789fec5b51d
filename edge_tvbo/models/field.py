"""Who the sensors are, how they co-vary, and how their unit maps to the model's."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.daily_profile import DailyProfile
from edge_tvbo.models.spatial_kernels import BETWEEN, LARGEST, SMALLEST, SpatialKernel


class SensorField:
    """The arms of the bandit and the prior over them; never written to once made.

    Parameters
    ----------
    sensors : sequence of str
        M different names; an arm is an index into them.
    kernel : (M, M) array
        Prior covariance in model units², symmetric, positive semi-definite.
    noise_variance : float
        Of one reading, in model units², > 0.
    unit : str
        Of the readings, "°C".
    center, scale : float
        ``model value = (reading - center) / scale``, negated where `objective` is "min": one
        mapping for all sensors, which keeps the arg max.
    objective : "max" or "min"
        Which end of the readings is worth following; the model always looks for its maximum.
    positions : (M, d) array or None
        Where the sensors are, for policies that learn how fast the field changes in space.
    rhythm : Rhythm or None
        What the time of day says of the field, for policies that go by it.

    Raises
    ------
    ConfigError
        For anything that breaks the above.

    Examples
    --------
    >>> field = SensorField(("a", "b"), [[1, 0.5], [0.5, 1]], 0.01, unit="°C", center=20, scale=2)
    >>> field.to_model(23.0), field.to_unit(1.5)
    (1.5, 23.0)
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
        objective: Literal["max", "min"] = "max",
        positions: ArrayLike | None = None,
        rhythm: DailyProfile | None = None,
    ) -> None:
        self.sensors = tuple(sensors)
        M = len(self.sensors)
        self.kernel = _covariance(kernel, M)
        if len(set(self.sensors)) != M:
            raise ConfigError("sensors: each name can be there only once.")
        self.noise_variance = float(noise_variance)
        self.unit = unit
        self.objective = objective
        self.center = float(center)
        self.scale = float(scale)
        if not SMALLEST <= self.noise_variance <= LARGEST:
            raise ConfigError(f"noise_variance is {noise_variance}; it must be {BETWEEN}.")
        if not SMALLEST <= self.scale <= LARGEST:
            raise ConfigError(f"scale is {scale}; it must be {BETWEEN}.")
        if not abs(self.center) <= LARGEST:
            raise ConfigError(f"center is {center}; it must be finite, and {LARGEST:g} at most.")
        if objective not in ("max", "min"):
            raise ConfigError(f'objective is {objective!r}; it can be "max" or "min".')
        self._sign = 1.0 if objective == "max" else -1.0
        if rhythm is not None and rhythm.mean.shape[1] != M:
            raise ConfigError(f"The rhythm is of {rhythm.mean.shape[1]} sensors, not of {M}.")
        self.rhythm = rhythm
        self.positions = None if positions is None else _positions(positions, M)

    def __len__(self) -> int:
        return len(self.sensors)

    def arm(self, index: int) -> int:
        """Give the arm of a number: they are the same."""
        return index

    def index(self, arm: int) -> int:
        """Give the number of an arm: they are the same."""
        return arm

    def name(self, arm: int) -> str:
        """Give the sensor an arm stands for."""
        return self.sensors[arm]

    def holds(self, places: NDArray[np.float64]) -> bool:
        """Say whether places (n, 1), which are arms as numbers, are arms of this field."""
        return bool(((places >= 0) & (places < len(self)) & (places % 1 == 0)).all())

    def to_model(self, reading: float) -> float:
        """Give a reading in model units."""
        return self._sign * (reading - self.center) / self.scale

    def to_unit(self, value: float) -> float:
        """Give a model value as a reading."""
        return self.center + self._sign * value * self.scale

    def fingerprint(self) -> str:
        """Give 16 hex digits that differ between fields a snapshot cannot be shared by."""
        parts = ("\0".join(self.sensors).encode(), self.kernel.tobytes())
        numbers = (self.noise_variance, self.center, self.scale)
        settings = f"{numbers!r} {self.objective}".encode()
        rhythm = b"" if self.rhythm is None else self.rhythm.fingerprint()
        places = b"" if self.positions is None else self.positions.tobytes()
        return sha256(b"\0".join((*parts, settings, rhythm, places))).hexdigest()[:16]


def grid(side: int, kernel: SpatialKernel, noise_variance: float) -> SensorField:
    """Give the field over `side` × `side` places of [0, 1]², row by row.

    >>> grid(3, SpatialKernel(length_scale=0.2), 0.01).positions[5].tolist()
    [0.5, 1.0]
    """
    line = np.linspace(0.0, 1.0, side)
    places = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    names = tuple(f"{i}-{j}" for i in range(side) for j in range(side))
    return SensorField(names, kernel(places, places), noise_variance, positions=places)


def _positions(positions: ArrayLike, M: int) -> NDArray[np.float64]:
    places = np.array(positions, np.float64, ndmin=2)
    if places.shape[0] != M or not np.isfinite(places).all():
        raise ConfigError(f"positions have shape {places.shape}; {M} sensors need ({M}, d).")
    return places


def _covariance(kernel: ArrayLike, M: int) -> NDArray[np.float64]:
    try:
        K = np.array(kernel, dtype=np.float64, order="C")
    except ValueError as error:
        raise ConfigError(f"kernel is no matrix of numbers: {error}") from None
    if K.shape != (M, M):
        raise ConfigError(f"kernel has shape {K.shape}; {M} sensors need ({M}, {M}).")
    if M == 0:
        raise ConfigError("sensors: there must be at least one.")
    if not np.isfinite(K).all():
        raise ConfigError("kernel holds values that are not finite.")
    largest = float(np.max(np.diag(K)))
    if not largest > 0 or np.min(np.diag(K)) < 0:
        raise ConfigError("kernel: its diagonal, each sensor's prior variance, must be positive.")
    if not SMALLEST <= largest <= LARGEST:
        raise ConfigError(f"kernel: its largest variance is {largest:g}; it must be {BETWEEN}.")
    if np.max(np.abs(K - K.T)) > 1e-9 * largest:
        raise ConfigError("kernel is not symmetric; (K + K.T) / 2 would be.")
    K = (K + K.T) / 2
    try:
        np.linalg.cholesky(K + 1e-8 * largest * M * np.eye(M))
    except np.linalg.LinAlgError:
        raise ConfigError(
            "kernel is not positive semi-definite: no field co-varies like that."
        ) from None
    return np.ascontiguousarray(K)
