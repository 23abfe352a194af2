"""A Gaussian kernel that suits the distances of the rows, where none is given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.data.sources import ArraySource
from bochner.features.dense import Rows
from bochner.features.nystroem import distinct_rows
from bochner.kernels import Gaussian

COMPARED_ROWS = 2000


def median_gaussian(sample: ArraySource, seed: int) -> Gaussian:
    """The Gaussian kernel that is exp(-1) at the median of the distances of distinct rows.

    Parameters
    ----------
    sample : ArraySource
        Rows, encoded on the way out.
    seed : int
        Of the 2,000 of them that are compared.
    """
    X, _, weight = sample.sample(COMPARED_ROWS, np.random.default_rng(seed)).whole()
    return Gaussian(median_lengthscale(X[distinct_rows(X, weight)]))


def median_lengthscale(X: Rows) -> float:
    """Root of half of the median squared distance of different rows; 1 where all are equal."""
    from sklearn.metrics.pairwise import euclidean_distances  # whose package takes long to import

    squares: NDArray = euclidean_distances(X.astype(np.float64), squared=True)
    apart = squares[np.triu_indices(len(squares), 1)]
    apart = apart[apart > 0]
    return float(np.sqrt(np.median(apart) / 2)) if len(apart) else 1.0
