"""Array types of the whole project: what a value's elements are, not which shape it has."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Int64Array = NDArray[np.int64]  # integers that compiled kernels read
Indices = NDArray[np.intp]  # positions in an array, as numpy returns them
