"""Checks the weights of rows that are scored."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEAST, MOST = 1e-25, 1e25  # of the largest weight: sums stay within single precision, and so do their reciprocals


def checked_weights(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Weights of n rows, ones where none are given; ValueError for negative ones, and where all are zero."""
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weight.shape != (n,) or not (weight >= 0).all() or not weight.any():
        raise ValueError(f"sample_weight must be {n} numbers that are not negative, and not all zero.")
    require_scale(float(weight.max()))
    return weight


def require_scale(largest: float) -> None:
    """Raise ValueError where the largest weight is so small or large that sums of products might not be finite."""
    if not LEAST <= largest <= MOST:
        raise ValueError(
            f"The largest sample_weight is {largest:.3g}, and must be within {LEAST:g} and {MOST:g}: divide all "
            "weights by their mean, and a given ridge penalty too."
        )
