"""Fingerprints of fields, and comparisons of snapshots without regard to rounding errors.

Two processors, or two versions of a library, can round exp, log and pow differently. The same
number then differs in its last bits. The comparisons of this module allow such differences.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from math import isclose
from typing import NamedTuple

import numpy as np

from edge_tvbo.numerics.types import Array

AsBytes = Callable[[Array], Iterable[bytes | memoryview]]

PRECISION = 24  # number of bits to which the largest number of an array is rounded
ROWS = 64  # number of rows of an array that are rounded at the same time
REL_TOLERANCE = 1e-9  # largest relative difference of two numbers that count as equal
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)")


class Fingerprint(NamedTuple):
    """The exact and the rounded digest of the definition of a field.

    If the numbers of two fields differ only in the last bits, the rounded digests of the fields are
    equal. The rounded digest does not contain the length of an interval.
    """

    exact: str  # digest of all bits; the only digest in snapshots of version 0.1.0
    rounded: str = ""  # digest of rounded numbers; "" if there is none

    def agrees(self, other: "Fingerprint") -> bool:
        """Return whether both fingerprints are of the same field, apart from rounding errors."""
        return self.exact == other.exact or self.rounded == other.rounded != ""


def exact(array: Array) -> Iterator[memoryview]:
    """Yield an array as bytes, with all bits of its numbers, for an exact digest."""
    yield np.ascontiguousarray(array).data


def rounded(array: Array) -> Iterator[bytes]:
    """Yield an array as bytes, with its numbers rounded, for a rounded digest.

    Every number is rounded to a multiple of the same power of two, which is about 2^-24 times the
    largest absolute number of the array. Small numbers are thus rounded as coarsely as large
    numbers.
    """
    rows = np.atleast_2d(array)
    largest = max(np.max(rows, initial=0.0), -np.min(rows, initial=0.0))
    _, exponent = np.frexp(largest * (1.0 + 2.0**-PRECISION))  # the same for 1 - 1e-16 and 1
    yield int(exponent).to_bytes(2, signed=True)
    for first in range(0, len(rows), ROWS):
        scaled = np.ldexp(rows[first : first + ROWS], PRECISION - exponent)
        yield np.rint(scaled).astype("<i4").tobytes()


def agree(found: object, expected: object) -> bool:
    """Return whether two values of snapshots are equal, apart from rounding errors in numbers.

    >>> agree(["°C", 2.0], ["°C", 2.0000000000000004]), agree([1.0], [1.0, 2.0]), agree(None, 2.0)
    (True, False, False)
    """
    match found, expected:
        case float(), float():
            return isclose(found, expected, rel_tol=REL_TOLERANCE)
        case list(), list():
            return len(found) == len(expected) and all(map(agree, found, expected))
    return found == expected


def kinds_agree(found: str, expected: str) -> bool:
    """Return whether two snapshots have the same kind, apart from rounding errors in numbers.

    The kind of a snapshot is a text with the class and the settings of the object.

    >>> kinds_agree("state-space 0.97 0.03", "state-space 0.9700000000000001 0.03")
    True
    >>> kinds_agree("state-space 0.97 0.03", "state-space 0.98 0.03")
    False
    """
    return found == expected or agree(_parts(found), _parts(expected))


def _parts(kind: str) -> list[str | float]:
    """Split the `kind` of a snapshot into its numbers and the texts around the numbers."""
    parts = _NUMBER.split(kind)
    return [float(each) if index % 2 else each for index, each in enumerate(parts)]
