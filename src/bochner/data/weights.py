"""Weights of rows, also of rows that all count as one, which take no memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def unit_weights(n_rows: int) -> NDArray[np.float64]:
    """Weights of one, shape (n_rows,), read-only: a single number in memory."""
    return np.broadcast_to(np.float64(1.0), (n_rows,))


def are_unit(weights: NDArray) -> bool:
    """Whether the weights are known to be one without a look at each, so that a product with them may be left out."""
    return weights.strides == (0,) and (len(weights) == 0 or weights[0] == 1.0)


def are_one(weights: NDArray) -> bool:
    """Whether all weights are one, by a look at each where that is not known."""
    return are_unit(weights) or bool((weights == 1).all())


def weights_of(weights: NDArray, rows: slice | NDArray) -> NDArray:
    """Weights of some rows, by a slice, numbers or a mask; unit weights stay what they are."""
    if isinstance(rows, slice) or not are_unit(weights):
        return weights[rows]
    return unit_weights(int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows))
