"""Daily profile of a field: mean and spread by time of day, and covariance of the deviations."""

from hashlib import sha256

import msgspec
import numpy as np
from msgspec.structs import replace

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.spatial_kernels import ALLOWED_RANGE, MAX_NUMBER, MIN_NUMBER
from edge_tvbo.numerics.types import Array, Indices

DAY = 86_400.0  # s


class DailyProfile(msgspec.Struct, frozen=True, eq=False):
    """The time-of-day model of a field: f = mean + scale · u, and u has the covariance `kernel`.

    Parameters
    ----------
    mean : (P, M) array
        Mean of each of M sensors in each of the P intervals of a day, in model units.
    scale : (P,) array
        Standard deviation around the mean in each interval of the day, in model units, > 0.
    kernel : (M, M) array
        Covariance of u, which has no unit.
    days : float
        Number of training days.
    exploration : float
        c1 of the exploration schedule β_t = c1 ln(c2 t), found by replaying the training days.
    noise_variance : float
        Noise variance of a reading, in model units², found by replaying the training days.

    Raises
    ------
    ConfigError
        If the shapes do not match, or a number is not finite or out of range.
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
            raise ConfigError(
                f"The daily profile's mean has shape {self.mean.shape}, its scale "
                f"{self.scale.shape} and its kernel {self.kernel.shape}; they must be (P, M), (P,) "
                "and (M, M) for P intervals a day and M sensors."
            )
        arrays = (self.mean, self.scale, self.kernel)
        if not all((np.abs(each) <= MAX_NUMBER).all() for each in arrays):
            raise ConfigError(
                "The daily profile contains a value that is not finite, or is outside "
                f"-{MAX_NUMBER:g} to {MAX_NUMBER:g}."
            )
        if not (self.scale >= MIN_NUMBER).all():
            raise ConfigError(f"The daily profile's scale must be {ALLOWED_RANGE}.")
        numbers = (self.days, self.exploration, self.noise_variance)
        if not all(MIN_NUMBER <= number <= MAX_NUMBER for number in numbers):
            raise ConfigError(
                f"The daily profile's days, exploration and noise_variance must be {ALLOWED_RANGE}."
            )

    def phase(self, at: float) -> int:
        """Return the interval of the day, 0 to P - 1, that contains the Unix time `at`."""
        P = len(self.scale)
        return int((at % DAY) * P / DAY + 1e-6) % P

    def fingerprint(self) -> bytes:
        """Return a 32-byte digest of the daily profile."""
        parts = (self.mean, self.scale, self.kernel)
        numbers = f"{self.days!r} {self.exploration!r} {self.noise_variance!r}".encode()
        return sha256(b"".join(part.tobytes() for part in parts) + numbers).digest()

    def of_sensors(self, arms: Indices | list[int]) -> "DailyProfile":
        """Return the part of the daily profile for the sensors with the indices `arms`."""
        kernel = np.ascontiguousarray(self.kernel[arms][:, arms])
        mean = np.ascontiguousarray(self.mean[:, arms])
        return replace(self, mean=mean, kernel=kernel)
