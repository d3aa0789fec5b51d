"""Refuse what is out of range, in the words the rest of the house uses."""

from math import isfinite

from edge_tvbo.errors import ConfigError


def positive(**values: float) -> None:
    """Refuse any value that is not above 0, by its name."""
    for name, value in values.items():
        if not 0 < value < float("inf"):
            raise ConfigError(f"{name} is {value}; it must be above 0.")


def not_negative(**values: float) -> None:
    """Refuse any value that is below 0, by its name."""
    for name, value in values.items():
        if not (isfinite(value) and value >= 0):
            raise ConfigError(f"{name} is {value}; it must be 0 or above.")


def probability(**values: float) -> None:
    """Refuse any value that is not strictly between 0 and 1, by its name."""
    for name, value in values.items():
        if not 0 < value < 1:
            raise ConfigError(f"{name} is {value}; it must lie between 0 and 1.")


def rate(**values: float) -> None:
    """Refuse any value outside [0, 1], by its name."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise ConfigError(f"{name} is {value}; it can be 0 to 1.")


def count(**values: int) -> None:
    """Refuse any value that is not a whole number of 1 or more, by its name."""
    for name, value in values.items():
        if not (value >= 1 and value == value // 1 and isfinite(value)):
            raise ConfigError(f"{name} is {value}; it must be a whole number, 1 or more.")


def block_within(block: int, horizon: int) -> None:
    """Refuse a block that is not 1 to `horizon` intervals long."""
    count(block=block, horizon=horizon)
    if block > horizon:
        raise ConfigError(f"block is {block}; it can be 1 to {horizon}, the horizon.")
