"""Interval lengths: check and error message for `dt`, the time by which a policy advances."""

import sys


def check_step(dt: float) -> None:
    """Raise `ValueError` unless the interval length `dt` is a finite number above 0."""
    if not 0.0 < dt <= sys.float_info.max:
        raise ValueError(f"dt is {dt}; it must be a finite number above 0")


def counts_intervals(policy: str, dt: float) -> ValueError:
    """Return the error for a policy that cannot advance by `dt`, because `dt` must be 1."""
    return ValueError(
        f"dt is {dt}; {policy} counts intervals on this field, so dt must be 1. "
        "docs/continuous.md lists the policies that accept other lengths."
    )
