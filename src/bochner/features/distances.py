"""Distances of pairs of rows, by which lengthscales are chosen where none is given."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.data.array_source import ArraySource
from bochner.data.hashes import distinct_rows
from bochner.data.weights import unit_weights
from bochner.features.base import Rows
from bochner.kernels import Gaussian

PAIRED_ROWS = 512  # each of which is compared with all others
ROUNDING = 1e-9  # of the mass below a quantile


def paired_rows(rows: ArraySource, seed: int) -> tuple[Rows, NDArray]:
    """At most 512 of the rows, drawn by weight and encoded, and the weights that
    they have then.
    """
    X, _, weight = rows.sample(PAIRED_ROWS, np.random.default_rng(seed)).whole()
    return X, weight


def pair_distances(
    X: Rows, weight: NDArray | None = None, p: int = 2
) -> tuple[Floats, NDArray]:
    """Distances of all pairs of distinct rows, and what part of all pairs each stands
    for.

    Equal rows are one, of the weight of all of them: a weight of w is the same as w
    equal rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    weight : array of shape (n,), optional
    p : {1, 2}
        Sum of absolute differences, or root of the sum of their squares.

    Returns
    -------
    distances, shares : arrays of shape (m,)
        The shares sum to one. Both are empty where all rows are equal.
    """
    weight = unit_weights(X.shape[0]) if weight is None else weight
    first, total = distinct_rows(X, weight)
    if len(total) == 1:
        return np.empty(0), np.empty(0)
    few: Any = X[first].astype(np.float64)
    i, j = np.triu_indices(len(total), 1)
    if sp.issparse(few):
        from sklearn.metrics import pairwise_distances

        columns, positions = np.unique(few.indices, return_inverse=True)
        # Of 64 bits are not taken
        indices = positions.astype(np.int32)
        starts = few.indptr.astype(np.int32)
        few = sp.csr_array((few.data, indices, starts), (len(total), len(columns)))
        metric = "manhattan" if p == 1 else "euclidean"
        distances = pairwise_distances(few, metric=metric)[i, j]
    else:
        from scipy.spatial.distance import pdist

        distances = pdist(few, "cityblock" if p == 1 else "euclidean")
    shares = total[i] * total[j]
    return distances, shares / max(float(shares.sum()), np.finfo(np.float64).tiny)


def weighted_quantile(values: NDArray, weight: NDArray, share: float) -> float:
    """A number below which values have a share of the weight: the mean of two values
    where it lies between them.
    """
    order = np.argsort(values)
    mass = np.cumsum(weight[order])
    ends = np.searchsorted(
        mass, mass[-1] * share * np.array([1 - ROUNDING, 1 + ROUNDING])
    )
    return float(values[order[ends]].mean())


def median(distances: NDArray, shares: NDArray) -> float:
    """Weighted median; 1 where there are no distances, or most are too small for a
    number.
    """
    if not len(distances):
        return 1.0
    return weighted_quantile(distances, shares, 0.5) or 1.0


def median_distance(X: Rows, weight: NDArray | None = None, p: int = 2) -> float:
    """Median distance of two distinct rows, 1 where all are equal; for parameters
    see `pair_distances`.
    """
    return median(*pair_distances(X, weight, p))


def median_gaussian(rows: ArraySource, seed: int) -> Gaussian:
    """The Gaussian kernel that is exp(-1) at the median distance of two distinct ones
    of at most 512 rows.
    """
    return Gaussian(median_distance(*paired_rows(rows, seed)) / sqrt(2))
