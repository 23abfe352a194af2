"""Weights of rows, also of rows that all count as one, which take no memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.scores.rows import require_scale

NEGLIGIBLE = 1e-30  # of the largest weight: no sum over rows differs by less


def checked_weight(sample_weight: Any, X: Any) -> NDArray[np.float64] | None:
    """Weights of the rows, or None; those that no sum would show are zero.

    Raises
    ------
    ValueError
        For negative weights, where all are zero, and where sums of them might not be finite.
    """
    if sample_weight is None:
        return None
    from sklearn.utils.validation import _check_sample_weight

    weight = _check_sample_weight(sample_weight, np.empty((X.shape[0], 0)), dtype=np.float64)
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise ValueError(f"sample_weight must not be negative; row {row} has {weight[row]}.")
    if not weight.any():
        raise ValueError("sample_weight is zero in every row; at least one must be positive.")
    require_scale(largest := float(weight.max()))
    negligible = weight < NEGLIGIBLE * largest
    return np.where(negligible, 0.0, weight) if negligible.any() else weight


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
