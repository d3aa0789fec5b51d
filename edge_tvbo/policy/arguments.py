"""Checks of the arguments of `select` and `observe`, for all policies."""

from math import isfinite

import numpy as np

from edge_tvbo.models.arm_space import Arm
from edge_tvbo.numerics.types import Mask


def eligible_mask(eligible: Mask | None, all_arms: Mask) -> Mask:
    """Return the argument `eligible` as a contiguous mask, (M,); None means `all_arms`.

    Raises `ValueError` unless `eligible` has the dtype bool and the shape of `all_arms`. The
    compiled functions do not check dtype and shape.
    """
    if eligible is None:
        return all_arms
    if eligible.dtype != np.bool_ or eligible.shape != all_arms.shape:
        found = f"{eligible.dtype}{list(eligible.shape)}"
        raise ValueError(f"eligible is {found}; it must be bool[{len(all_arms)}]")
    return np.ascontiguousarray(eligible)


def check_reading(arm: Arm, y: float, arms: int) -> None:
    """Raise `ValueError` if the argument `y` is not finite, or `arm` is not 0 to `arms` - 1.

    An `arm` that is a point of a box is not checked.
    """
    if not isfinite(y):
        raise ValueError(f"the reading of arm {arm} is {y}; it must be finite")
    if not isinstance(arm, tuple) and not 0 <= arm < arms:
        raise ValueError(f"arm is {arm}; it can be 0 to {arms - 1}")
