"""Argument checks that the methods of all policies use."""

import sys
from math import isfinite
from numbers import Integral

import numpy as np

from edge_tvbo.models.arm_space import Arm, Field
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.parameter_checks import is_finite_number
from edge_tvbo.numerics.types import Mask

MAX_READING = 1e101  # largest reading in model units; the squares of larger ones would overflow
MAX_TIME_S = 1e50  # limit of a time or a duration, in s; a snapshot can hold a sum of durations
MAX_SKIPPED = 10**15  # intervals that `skip` may end; a downtime has at most 10^12 (of 10 ms)


def eligible_mask(eligible: Mask | None, all_arms: Mask) -> Mask:
    """Return the argument `eligible` as a contiguous mask, (M,); None means `all_arms`.

    Raises `ValueError` unless `eligible` has the dtype bool and the shape of `all_arms`. The
    compiled functions do not check dtype and shape.
    """
    if eligible is None:
        return all_arms
    mask = np.ascontiguousarray(eligible)
    if mask.dtype != np.bool_ or mask.shape != all_arms.shape:
        raise ValueError(
            f"eligible is {mask.dtype}{list(mask.shape)}; it must be bool[{len(all_arms)}]"
        )
    return mask


def check_number_of_arms(k: int) -> None:
    """Raise `ValueError` unless the argument `k` of `select_many` is a whole number above 0."""
    if not isinstance(k, Integral) or k < 1:
        raise ValueError(f"k is {k!r}; it must be a whole number, 1 or more")


def check_step(dt: float) -> None:
    """Raise `ValueError` unless the interval length `dt` is a finite number above 0."""
    if not 0.0 < dt <= sys.float_info.max:
        raise ValueError(f"dt is {dt}; it must be a finite number above 0")


def counts_intervals(policy: str, dt: float) -> ValueError:
    """Return the error for a `dt` other than 1, for a policy that counts whole intervals."""
    return ValueError(
        f"dt is {dt}; {policy} counts intervals on this field, so dt must be 1. "
        "docs/continuous.md lists the policies that accept other lengths."
    )


def checked_skipped(intervals: int) -> int:
    """Return the argument of `skip` as an int, because a snapshot cannot contain numpy's numbers.

    Raises `ValueError` unless `intervals` is a whole number from 1 to 10^15.
    """
    if not isinstance(intervals, Integral) or not 1 <= intervals <= MAX_SKIPPED:
        raise ValueError(f"intervals is {intervals!r}; it must be a whole number, 1 to 10^15")
    return int(intervals)


def checked_time(at: float | None) -> float | None:
    """Return the argument of `set_time` as a float, or None.

    Raises `ValueError` unless `at` is None or a number from -`MAX_TIME_S` to `MAX_TIME_S`.
    """
    if at is None:
        return None
    if not is_finite_number(at) or abs(float(at)) > MAX_TIME_S:
        raise ValueError(
            f"at is {at!r}; it must be a finite number of seconds since 1970, from {-MAX_TIME_S:g} "
            f"to {MAX_TIME_S:g}, or None"
        )
    return float(at)


def checked_duration(seconds: float) -> float:
    """Return the argument of `pass_time` as a float.

    Raises `ValueError` unless `seconds` is a number from 0 to `MAX_TIME_S`.
    """
    if not is_finite_number(seconds) or not 0.0 <= float(seconds) <= MAX_TIME_S:
        raise ValueError(
            f"seconds is {seconds!r}; it must be a finite number, 0 or more, at most {MAX_TIME_S:g}"
        )
    return float(seconds)


def checked_reading(field: Field, arm: Arm, y: float) -> tuple[Arm, float]:
    """Return the arguments `arm` and `y` of `observe` with the types that compiled functions take.

    Raises `ValueError` if `arm` is invalid, or if `y` is not finite or outside ±`MAX_READING`.
    """
    if not is_finite(y):
        raise ValueError(f"the reading of arm {arm} is {y}; it must be finite")
    value = float(y)
    if not -MAX_READING <= value <= MAX_READING:
        raise ValueError(
            f"the reading of arm {arm} is {value:g} in model units; it can be {-MAX_READING:g} to "
            f"{MAX_READING:g}"
        )
    return checked_arm(field, arm), value


def checked_arm(field: Field, arm: Arm) -> Arm:
    """Return the arm of a `SensorField` as an int; return a point of a box unchecked.

    Raises `ValueError` unless the arm of a `SensorField` is a whole number from 0 to M - 1.
    """
    if type(arm) is int:  # most callers pass an int, and `isinstance` takes longer
        index = arm
    elif isinstance(field, BoxField):
        return arm
    else:
        index = int(arm) if isinstance(arm, Integral) and not isinstance(arm, bool) else -1
    if not 0 <= index < len(field):
        raise ValueError(f"arm is {arm!r}; it can be 0 to {len(field) - 1}, and must be an int")
    return index


def is_finite(y: float) -> bool:
    """Return True if the reading `y` is a finite float, or an int in the range of floats."""
    try:
        return isfinite(y)
    except OverflowError:
        return False
