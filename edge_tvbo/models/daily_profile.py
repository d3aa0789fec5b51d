"""What the time of day says of a field: its mean, its scale, and how the rest co-varies."""

from hashlib import sha256

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.spatial_kernels import BETWEEN, LARGEST, SMALLEST

Array = NDArray[np.float64]
DAY = 86_400.0  # s


class DailyProfile(msgspec.Struct, frozen=True, eq=False):
    """A daily course learned from training days: f = mean + scale u, u of covariance `kernel`.

    Parameters
    ----------
    mean : (P, M) array
        Of each sensor in each of the P intervals of a day, model units.
    scale : (P,) array
        Standard deviation about it, in each interval of the day, model units, > 0.
    kernel : (M, M) array
        Covariance of u, without unit.
    days : float
        How many days taught it.
    exploration : float
        c1 of β_t = c1 ln(c2 t), found by replaying those days.
    noise_variance : float
        Of one reading, in model units², found by replaying them too.

    Raises
    ------
    ConfigError
        For shapes that do not fit, or numbers that cannot be.
    """

    mean: Array
    scale: Array
    kernel: Array
    days: float
    exploration: float
    noise_variance: float

    def __post_init__(self) -> None:
        P, M = self.mean.shape if self.mean.ndim == 2 else (0, 0)
        if not P or self.scale.shape != (P,) or self.kernel.shape != (M, M):
            raise ConfigError("A rhythm's mean is (P, M), its scale (P,), its kernel (M, M).")
        arrays = (self.mean, self.scale, self.kernel)
        if not all((np.abs(each) <= LARGEST).all() for each in arrays):
            raise ConfigError(f"A rhythm holds values that are not finite, or beyond {LARGEST:g}.")
        if not (self.scale >= SMALLEST).all():
            raise ConfigError(f"A rhythm's scale must be {BETWEEN}.")
        numbers = (self.days, self.exploration, self.noise_variance)
        if not all(SMALLEST <= number <= LARGEST for number in numbers):
            raise ConfigError(f"A rhythm's days, exploration, noise_variance must be {BETWEEN}.")

    def phase(self, at: float) -> int:
        """Give the interval of the day, 0 to P - 1, at time `at`, s since 1970, UTC."""
        P = len(self.scale)
        return int((at % DAY) * P / DAY + 1e-6) % P

    def fingerprint(self) -> bytes:
        """Give bytes that differ between rhythms."""
        parts = (self.mean, self.scale, self.kernel)
        numbers = f"{self.days!r} {self.exploration!r} {self.noise_variance!r}".encode()
        return sha256(b"".join(part.tobytes() for part in parts) + numbers).digest()

    def of(self, arms: NDArray[np.intp] | list[int]) -> "DailyProfile":
        """Give the rhythm of some of the sensors."""
        kernel = np.ascontiguousarray(self.kernel[arms][:, arms])
        mean = np.ascontiguousarray(self.mean[:, arms])
        return replace(self, mean=mean, kernel=kernel)
