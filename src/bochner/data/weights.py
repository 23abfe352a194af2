"""Weights of rows, and rows drawn by them; where all rows count as one their weights
take no memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.data.columns import unmasked
from bochner.scores.measures import require_scale

NEGLIGIBLE = 1e-30  # of the largest weight: no sum over rows differs by less


def refuse_column_name(parameter: str, value: Any) -> None:
    """Raise ValueError where a column is named whose table is an array."""
    if isinstance(value, str):
        raise ValueError(
            f"{parameter}={value!r} names a column, and X is an array, whose columns "
            "have no names: give a data frame, or one value for each row."
        )


def checked_weight(sample_weight: Any, X: Any) -> Floats | None:
    """Weights of the rows, or None; those that no sum would show are zero.

    Raises
    ------
    ValueError
        For the name of a column, negative weights, where all are zero, and where sums
        of them might not be finite.
    """
    if sample_weight is None:
        return None
    refuse_column_name("sample_weight", sample_weight)
    from sklearn.utils.validation import _check_sample_weight

    weight = _check_sample_weight(
        unmasked(sample_weight), np.empty((X.shape[0], 0)), dtype=np.float64
    )
    if (weight < 0).any():
        row = np.argmax(weight < 0)
        raise ValueError(
            f"sample_weight must not be negative; row {row} has {weight[row]}."
        )
    if not weight.any():
        raise ValueError(
            "sample_weight is zero in every row; at least one must be positive."
        )
    require_scale(largest := float(weight.max()))
    negligible = weight < NEGLIGIBLE * largest
    return np.where(negligible, 0.0, weight) if negligible.any() else weight


def unit_weights(n_rows: int) -> Floats:
    """Weights of one, shape (n_rows,), read-only: a single number in memory."""
    return np.broadcast_to(np.float64(1.0), (n_rows,))


def are_unit(weights: NDArray) -> bool:
    """Whether the weights are known to be one without a look at each, so that a
    product with them may be left out.
    """
    return weights.strides == (0,) and (len(weights) == 0 or weights[0] == 1.0)


def are_one(weights: NDArray) -> bool:
    """Whether all weights are one, by a look at each where that is not known."""
    return are_unit(weights) or bool((weights == 1).all())


def weights_of(weights: NDArray, rows: slice | NDArray) -> NDArray:
    """Weights of some rows, by a slice, numbers or a mask; unit weights stay what
    they are.
    """
    if isinstance(rows, slice) or not are_unit(weights):
        return weights[rows]
    return unit_weights(
        int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows)
    )


def group_sums(group: NDArray, y: NDArray, weight: Any, size: int) -> Floats:
    """Weighted sums of targets over the rows of each group, shape (L, K)."""
    return np.stack(
        [np.bincount(group, weight * target, size) for target in y.T], axis=1
    )


def group_means(
    group: NDArray, y: NDArray, weight: NDArray, size: int = 0
) -> tuple[NDArray, Floats]:
    """Weights of groups, (L,), and means of targets over their rows, (L, K); 0 of
    groups without weight.
    """
    total = np.bincount(group, weight, size)
    sums = group_sums(group, y, weight, size)
    return total, sums / np.where(total > 0, total, 1.0)[:, np.newaxis]


def draw_rows(
    weights: NDArray, size: int, rng: np.random.Generator
) -> tuple[NDArray, Floats | float]:
    """Draw rows without replacement, each with a probability in proportion to its
    weight, at most 1.

    A uniform sample of rows of very unequal weight misses most of what is summed over
    them. Sums over these rows with their weights times the factors estimate the sums
    over all, up to size / n, without bias (Horvitz and Thompson, 1952). The draw is
    systematic, in random order; with equal weights it is a uniform one.

    Parameters
    ----------
    weights : array of shape (n,)
        Rows of weight zero are never drawn.
    size : int
        Rows to draw; all that have weight where these are no more.
    rng : Generator

    Returns
    -------
    rows : int array of shape (m,)
        Ascending.
    factors : array of shape (m,), or None where all are 1
    """
    counted = np.arange(len(weights)) if are_unit(weights) else np.flatnonzero(weights)
    if len(counted) <= size:
        return counted, 1.0
    relative_weights = weights_of(weights, counted) / weights.max()
    if np.ptp(relative_weights) == 0:
        return np.sort(rng.choice(counted, size, replace=False)), 1.0
    # Rows whose probability would be more than 1 are certain
    certain = np.zeros(len(counted), bool)
    while True:
        rest = np.where(certain, 0.0, relative_weights)
        share = np.where(certain, 1.0, (size - certain.sum()) * rest / rest.sum())
        if not (share > 1.0).any():
            break
        certain |= share > 1.0
    order = rng.permutation(len(counted))
    ends = np.cumsum(share[order])
    drawn = np.searchsorted(
        ends, (rng.uniform() + np.arange(size)) * ends[-1] / size, side="right"
    )
    drawn = np.sort(order[np.unique(np.minimum(drawn, len(order) - 1))])
    return counted[drawn], size / len(counted) / share[drawn]
