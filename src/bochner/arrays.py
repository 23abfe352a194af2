"""Types of arrays that all parts have in common."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]  # of double precision
Indices: TypeAlias = NDArray[np.intp]  # of rows and columns
Mask: TypeAlias = NDArray[np.bool_]
