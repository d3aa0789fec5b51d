"""Array types of the whole project: they state the type of the elements, not the shape."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Int64Array = NDArray[np.int64]  # integers that compiled kernels read
Indices = NDArray[np.intp]  # positions in an array, in the type that numpy returns
