"""Number reservation: interval numbers that a checkpoint reserves, so that none is used twice.

Each checkpoint reserves as many unused interval numbers as are needed until two more checkpoints
are written. So the previous checkpoint, which is used if the newest is damaged, has reserved enough
numbers, too.

With ``interval = "on-reading"``, it is unknown how many numbers will be needed. The number is
estimated from the rate of intervals since the last checkpoint, and twice this number is reserved.
If the intervals become faster, the next checkpoints are written early: before the field has used
all numbers that the newest or the previous checkpoint has reserved.
"""

from math import ceil, inf
from typing import NamedTuple

RESERVED_NUMBERS = 10_000  # minimum of `_Reserve.usable`
RESERVE_MARGIN = 1_000  # if fewer of the usable numbers are left, a checkpoint is due


class _Reserve(NamedTuple):
    """Interval numbers that a checkpoint reserved for a field with the interval "on-reading"."""

    at: float  # monotonic time of the checkpoint
    used: int  # the highest number that was used at this time
    usable: int  # how many numbers can be used before the next checkpoint is due

    @property
    def last(self) -> int:
        """The highest reserved number."""
        return self.used + 2 * self.usable

    def usable_next(self, at: float, used: int, wait: float) -> int:
        """Return the value of `usable` for the next checkpoint, which is written at the time `at`.

        At this time, `used` is the highest used number. The result is the higher of two numbers:
        the present value, and twice the number of intervals expected in `wait` s. The expected
        number follows from the rate of intervals since the present checkpoint.
        """
        rate = (used - self.used) / max(1.0, at - self.at)
        return max(self.usable, ceil(2.0 * rate * wait))


class NumberReservation:
    """Reservation of the interval numbers of all fields, renewed by each checkpoint."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}  # field -> number whose use makes a checkpoint due
        self._reserves: dict[str, _Reserve] = {}  # of the last checkpoint, by "on-reading" field

    def reserve(self, field: str, used: int, every: float | None, at: float, wait: float) -> int:
        """Reserve numbers above `used` for a field; return the highest of them.

        The reservation is part of a checkpoint that is written at the monotonic time `at`; the next
        checkpoint is due in `wait` s. `every` is the length of an interval in s, or None for
        "on-reading".
        """
        usable = intervals_in(wait, every)
        if usable is None:
            return self._reserve_on_reading(field, used, at, wait)
        self._ends[field] = used + usable
        return used + 2 * usable

    def _reserve_on_reading(self, field: str, used: int, at: float, wait: float) -> int:
        usable, end = RESERVED_NUMBERS, inf
        if before := self._reserves.get(field):
            usable, end = before.usable_next(at, used, wait), before.last
        self._ends[field] = int(min(used + usable, end)) - RESERVE_MARGIN
        reserve = self._reserves[field] = _Reserve(at, used, usable)
        return reserve.last

    def is_used_up(self, field: str, used: int) -> bool:
        """Return whether a checkpoint is due because the field has used the number `used`."""
        return used >= self._ends.get(field, inf)

    def cancel(self) -> None:
        """Cancel the reservation: until the next call of `reserve`, `is_used_up` returns False.

        This method is called if a checkpoint could not be stored. The time of the next attempt does
        not depend on the numbers that are used until then.
        """
        self._ends = {}


def intervals_in(seconds: float, every: float | None) -> int | None:
    """Return how many intervals can begin before a write that is due in this number of `seconds`.

    `every` is the length of an interval in s. If it is None ("on-reading"), the result is None.

    >>> intervals_in(900.0, 600.0), intervals_in(900.0, None)
    (4, None)
    """
    return None if every is None else ceil(seconds / every) + 2
