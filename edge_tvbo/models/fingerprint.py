"""Fingerprint: digests by which a snapshot recognises the field that it was made for."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from edge_tvbo.numerics.types import Array

AsBytes = Callable[[Array], Iterable[bytes | memoryview]]

PRECISION = 24  # bits that remain of the largest number of a rounded array
ROWS = 64  # of a rounded array that are in memory at the same time


class Fingerprint(NamedTuple):
    """Two digests of the definition of a field.

    Two processors, or two versions of numpy, can compute a kernel from the same settings with
    different last bits, because their functions exp and log round differently. In this case, the
    exact digests differ, and the rounded digests are equal.
    """

    exact: str  # of all bits; the only digest in snapshots of version 0.1.0
    rounded: str = ""  # of rounded numbers; "" if a snapshot does not contain it

    def agrees(self, other: "Fingerprint") -> bool:
        """Return whether both fingerprints are of the same field, apart from rounding errors."""
        return self.exact == other.exact or self.rounded == other.rounded != ""


def exact(array: Array) -> Iterator[memoryview]:
    """Yield an array as bytes, with all bits of its numbers."""
    yield np.ascontiguousarray(array).data


def rounded(array: Array) -> Iterator[bytes]:
    """Yield an array as bytes, with its numbers rounded to a multiple of the same power of two.

    The power of two is about 2^-24 times the largest absolute number of the array, so a rounding
    error in a small number does not count more than one in a large number.
    """
    rows = np.atleast_2d(array)
    largest = max(np.max(rows, initial=0.0), -np.min(rows, initial=0.0))
    _, exponent = np.frexp(largest * (1.0 + 2.0**-PRECISION))  # the same for 1 - 1e-16 and 1
    yield int(exponent).to_bytes(2, signed=True)
    for first in range(0, len(rows), ROWS):
        scaled = np.ldexp(rows[first : first + ROWS], PRECISION - exponent)
        yield np.rint(scaled).astype("<i4").tobytes()
