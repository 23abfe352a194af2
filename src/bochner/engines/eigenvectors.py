"""Leading eigenvectors of symmetric matrices, dense and sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh

from bochner.engines.blas import single_threaded_blas

DENSE = 1000  # rows, up to which LAPACK is as fast
SPARE, ROUNDS, DEGREE = 20, 8, 8
LEAST_EDGE = 1e-3  # of the damped part, over the largest eigenvalue
SMALLEST = 1e-12  # eigenvalue that tells of a direction, over the largest


@single_threaded_blas()
def leading(matrix: Any, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest eigenvalues of a matrix that has none below zero, and their vectors; fewer where others are zero.

    Parameters
    ----------
    matrix : array or sparse array of shape (m, m)
        Symmetric.
    count : int

    Returns
    -------
    array of shape (k,)
        The largest first.
    array of shape (m, k)
        Of length one, the largest entry of each positive.
    """
    m = matrix.shape[0]
    count = min(count, m)
    if m <= max(DENSE, 2 * (count + SPARE)):
        dense = matrix.toarray() if sp.issparse(matrix) else matrix
        values, vectors = eigh(dense, subset_by_index=[m - count, m - 1])
    else:
        values, vectors = _filtered(matrix, count)
    kept = np.flatnonzero(values > SMALLEST * max(float(values[-1]), 0.0))[::-1]
    values, vectors = values[kept], vectors[:, kept]
    largest = np.abs(vectors).argmax(axis=0)
    return values, vectors * np.where(vectors[largest, np.arange(len(kept))] < 0, -1.0, 1.0)


def _filtered(matrix: Any, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same by filtered subspace iteration, the smallest first.

    Each round damps what is below the least of the block by a Chebyshev polynomial (Zhou, Saad, Tiago and Chelikowsky,
    2006). Its work does not depend on the gaps: of a graph in many parts the value one is as frequent as these, where
    Lanczos' method stalls.
    """
    start = np.random.default_rng(0).standard_normal((matrix.shape[0], count + SPARE))
    Q = np.linalg.qr(start)[0]
    for _ in range(ROUNDS):
        values, inner = np.linalg.eigh(Q.T @ (matrix @ Q))
        Q = Q @ inner
        half = max(float(values[0]), LEAST_EDGE * float(values[-1]), np.finfo(np.float64).tiny) / 2
        before, now = Q, (matrix @ Q) / half - Q
        for _ in range(DEGREE - 1):
            before, now = now, 2 * ((matrix @ now) / half - now) - before
        Q = np.linalg.qr(now)[0]
    values, inner = np.linalg.eigh(Q.T @ (matrix @ Q))
    return values[SPARE:], (Q @ inner)[:, SPARE:]
