"""The kernel that a map estimates, as a function of rows and of pairs of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.features.leaves import leaves
from bochner.features.linear import LinearFeatures
from bochner.kernels import Kernel

Matrix = Callable[[Any, Any], NDArray]  # from rows and other rows, a number for each row and each other one
Pairs = Callable[[Any, Any], NDArray]  # from rows and as many others, a number for each pair of them
GRAM = 64  # rows of the kernel matrices of which the diagonals are taken


def kernel_of(features: Any) -> Kernel | None:
    """The kernel of which a single map is one; None where that is not known."""
    kernel = getattr(features, "kernel", None)
    return kernel if isinstance(kernel, Kernel) else None


def estimated_kernel(features: Any) -> Matrix:
    """The kernel that the inner products of a single map estimate.

    Where grids split only a share q of the columns, each factor k_j of a column of the map's kernel counts as
    1 - q + q k_j. TypeError where it is not known.
    """
    kernel, q = kernel_of(features), getattr(features, "column_share", 1.0)
    if kernel is None:
        raise TypeError(
            f"The kernel of {type(features).__name__} is not known: give it as kernel=, one of bochner.kernels or a "
            "callable of (X, Y)."
        )
    return kernel if q == 1 else lambda X, Y: _of_some_columns(kernel, q, X, Y)


def _of_some_columns(kernel: Kernel, q: float, X: NDArray, Y: NDArray) -> NDArray[np.float64]:
    total = np.zeros((len(X), len(Y)))
    for variance, factors in kernel.terms():
        product = np.full(total.shape, float(variance))
        for leaf in factors:
            for j in leaf.columns(X.shape[1]):
                alone = np.arange(X.shape[1]) == j
                product *= 1 - q + q * leaf(X * alone, Y * alone)
        total += product
    return total


def exact_values(features: Any) -> Pairs:
    """The kernel that a map estimates, of pairs of its rows; TypeError or ValueError where it is not known."""
    parts = [(leaf, _values(leaf.features)) for leaf in leaves(features)]
    return lambda A, B: np.sum([leaf.weight * own(leaf.rows(A), leaf.rows(B)) for leaf, own in parts], axis=0)


def _values(features: Any) -> Pairs:
    if isinstance(features, LinearFeatures):
        return lambda A, B: inner_products(features.transform(A), features.transform(B))
    if getattr(features, "column_share", 1.0) < 1:
        raise ValueError(
            "With column_share below 1 the kernel of the map is a mixture over subsets of the columns: give it as "
            "kernel=, a callable of (X, Y)."
        )
    return pairwise(estimated_kernel(features))


def pairwise(kernel: Matrix) -> Pairs:
    """The kernel of pairs of rows, from small matrices."""

    def values(A: Any, B: Any) -> NDArray:
        A, B = dense(A), dense(B)
        blocks = [np.diagonal(kernel(A[a : a + GRAM], B[a : a + GRAM])) for a in range(0, len(A), GRAM)]
        return np.concatenate(blocks).astype(np.float64)

    return values


def dense(X: Any) -> NDArray[np.float64]:
    """Rows as a kernel takes them."""
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def inner_products(A: Any, B: Any) -> NDArray[np.float64]:
    """Inner products of rows and as many others, in float64."""
    if sp.issparse(A):
        return np.asarray(A.astype(np.float64).multiply(B.astype(np.float64)).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", np.asarray(A, np.float64), np.asarray(B, np.float64))
