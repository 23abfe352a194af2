"""What ``python -m benchmarks unsupervised`` compares with, and no installed library
has.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def median_distance(X: NDArray) -> float:
    """The median distance of pairs of rows, of at most 1,000 of them."""
    few = X[:: max(1, len(X) // 1000)]
    norms = np.sum(few**2, axis=1)
    squares = norms[:, np.newaxis] + norms - 2 * few @ few.T
    return float(np.sqrt(np.median(squares[np.triu_indices(len(few), 1)])))


def linear_correlations(
    train: tuple[NDArray, NDArray], test: tuple[NDArray, NDArray], alpha: float, k: int
) -> float:
    """The sum of the leading linear canonical correlations on test rows, with a
    ridge term in mean variances.
    """
    means = [A.mean(axis=0, dtype=np.float64) for A in train]
    A, B = (half - mean for half, mean in zip(train, means, strict=True))
    roots = []
    for half in (A, B):
        variances, vectors = np.linalg.eigh(half.T @ half / len(half))
        roots.append(
            vectors / np.sqrt(np.maximum(variances, 0) + alpha * variances.mean())
        )
    U, _, Vt = np.linalg.svd(roots[0].T @ (A.T @ B / len(A)) @ roots[1])
    P, Q = (
        (test[0] - means[0]) @ roots[0] @ U[:, :k],
        (test[1] - means[1]) @ roots[1] @ Vt[:k].T,
    )
    return float(sum(np.corrcoef(P[:, j], Q[:, j])[0, 1] for j in range(k)))
