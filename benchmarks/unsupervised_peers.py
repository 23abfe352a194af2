"""What ``python -m benchmarks unsupervised`` compares with, and no installed library has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm


def median_distance(X: NDArray) -> float:
    """The median distance of pairs of rows, of at most 1,000 of them."""
    few = X[:: max(1, len(X) // 1000)]
    norms = np.sum(few**2, axis=1)
    squares = norms[:, np.newaxis] + norms - 2 * few @ few.T
    return float(np.sqrt(np.median(squares[np.triu_indices(len(few), 1)])))


def linear_time_mmd(X: NDArray, Y: NDArray) -> float:
    """p-value of the linear-time test of the maximum mean discrepancy (Gretton et al., 2012, section 6)."""
    both = np.concatenate([X[::2], Y[::2]])  # of every other row: X and Y have been drawn in any order
    gamma = 1 / median_distance(both) ** 2
    n = len(X) // 2 * 2

    def kernel(A: NDArray, B: NDArray) -> NDArray:
        return np.exp(-gamma * np.sum((A - B) ** 2, axis=1))

    a, b, c, d = X[:n:2], X[1:n:2], Y[:n:2], Y[1:n:2]
    h = kernel(a, b) + kernel(c, d) - kernel(a, d) - kernel(b, c)
    return float(norm.sf(h.mean() / (h.std(ddof=1) / np.sqrt(len(h)))))


def linear_correlations(train: tuple[NDArray, NDArray], test: tuple[NDArray, NDArray], alpha: float, k: int) -> float:
    """The sum of the leading linear canonical correlations on test rows, with a ridge term in mean variances."""
    means = [A.mean(axis=0, dtype=np.float64) for A in train]
    A, B = (half - mean for half, mean in zip(train, means, strict=True))
    roots = []
    for half in (A, B):
        variances, vectors = np.linalg.eigh(half.T @ half / len(half))
        roots.append(vectors / np.sqrt(np.maximum(variances, 0) + alpha * variances.mean()))
    U, _, Vt = np.linalg.svd(roots[0].T @ (A.T @ B / len(A)) @ roots[1])
    P, Q = (test[0] - means[0]) @ roots[0] @ U[:, :k], (test[1] - means[1]) @ roots[1] @ Vt[:k].T
    return float(sum(np.corrcoef(P[:, j], Q[:, j])[0, 1] for j in range(k)))


def hyppo_test() -> Callable[..., Any] | None:
    """The test by HSIC of hyppo, compiled, or None where hyppo is not installed."""
    try:
        from hyppo.independence import Hsic
    except ImportError:
        return None
    X = np.random.default_rng(0).standard_normal((50, 1))
    Hsic().test(X, X, auto=True)
    return lambda x, y, **options: Hsic().test(x, y, **options)[1]
