"""What targets hold: where a value is missing, and what cannot be one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.data.columns import is_missing

DATES = "The target holds dates or durations; turn them into numbers, or into strings for classes."


def missing_targets(y: NDArray) -> NDArray[np.bool_]:
    """Where an array of targets lacks a value, of its shape; ValueError where it holds dates."""
    if y.dtype.kind in "mM":
        raise ValueError(DATES)
    if y.dtype.kind == "f":
        return np.isnan(y)
    if y.dtype != object:
        return np.zeros(y.shape, bool)
    return np.fromiter(map(is_missing, y.ravel()), bool, y.size).reshape(y.shape)


def first_row(where: Any) -> int:
    """Number of the first row that is marked, or has an entry that is; shape (n,) or (n, K)."""
    return int(np.argwhere(where)[0, 0])
