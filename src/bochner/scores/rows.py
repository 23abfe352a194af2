"""Checks the weights of rows that are scored."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def checked_weights(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Weights of n rows, ones where none are given; ValueError for negative ones, and where all are zero."""
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weight.shape != (n,) or not (weight >= 0).all() or not weight.any():
        raise ValueError(f"sample_weight must be {n} numbers that are not negative, and not all zero.")
    return weight
