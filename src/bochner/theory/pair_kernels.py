"""The kernel that a map estimates, as a function of rows and of pairs of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.data.table_input import as_dense
from bochner.engines.local import tiles
from bochner.features.binning import BinningFeatures
from bochner.features.concatenate import LinearFeatures
from bochner.features.fourier import FourierFeatures
from bochner.features.leaves import LeafMap, estimated_kernel, leaves
from bochner.kernels import Kernel

Matrix = Callable[
    [Any, Any], NDArray
]  # from rows and other rows, a number for each row and each other one
Pairs = Callable[
    [Any, Any], NDArray
]  # from rows and as many others, a number for each pair of them
GRAM = 64  # rows of the kernel matrices of which the diagonals are taken


def exact_values(features: Any) -> Pairs:
    """The kernel that a map estimates, of pairs of its rows; TypeError where it is
    not known.
    """
    parts = [(leaf, _values(leaf.features)) for leaf in leaves(features)]

    def values(A: Any, B: Any) -> NDArray:
        each = [
            leaf.weight * kernel(leaf.rows(A), leaf.rows(B)) for leaf, kernel in parts
        ]
        return np.sum(each, axis=0)

    return values


def _values(features: Any) -> Pairs:
    if isinstance(features, LinearFeatures):
        return lambda A, B: inner_products(features.transform(A), features.transform(B))
    return pairwise(estimated_kernel(features))


def pairwise(kernel: Matrix) -> Pairs:
    """The kernel of pairs of rows, from small matrices."""

    def values(A: Any, B: Any) -> NDArray:
        A = dense(A)
        B = dense(B)
        blocks = [
            np.diagonal(kernel(A[rows], B[rows])) for rows in tiles(0, len(A), GRAM)
        ]
        return np.concatenate(blocks).astype(np.float64)

    return values


def dense(X: Any) -> Floats:
    """Rows as a kernel takes them."""
    return np.asarray(as_dense(X), dtype=np.float64)


def inner_products(A: Any, B: Any) -> Floats:
    """Inner products of rows and as many others, in float64."""
    if sp.issparse(A):
        return np.asarray(
            A.astype(np.float64).multiply(B.astype(np.float64)).sum(axis=1)
        ).ravel()
    return np.einsum("ij,ij->i", np.asarray(A, np.float64), np.asarray(B, np.float64))


BiasAndVariance = Callable[
    [Any, Any], tuple[NDArray, NDArray]
]  # bias and variance of z(x)'z(y), for each pair of rows


def bias_and_variance(features: Any) -> BiasAndVariance | None:
    """Bias and variance of z(x)'z(y) over independent draws of frequencies or grids;
    None where they are not known.

    A frequency of weight u gives u cos(w'D), of variance u^2 ((1 + k(2 D)) / 2 -
    k(D)^2); one with a random offset u^2 / 2 more, of cos(w'(x + y) + 2 b). A grid
    gives u for rows in one bin, which they are with probability k; in one of B buckets
    they are with probability p = k + (1 - k) / B, so that the variance is u^2 p (1 - p)
    and the bias p - k of the kernel. Each of the terms of a kernel has draws by itself,
    and so has each of the maps side by side.
    """
    parts: list[tuple[LeafMap, Any]] = [
        (leaf, _of_single(leaf.features)) for leaf in leaves(features)
    ]
    if any(moments is None for _, moments in parts):
        return None

    def values(A: Any, B: Any) -> tuple[NDArray, NDArray]:
        total_bias = np.zeros(A.shape[0])
        total_variance = np.zeros(A.shape[0])
        for leaf, moments in parts:
            bias, variance = moments(leaf.rows(A), leaf.rows(B))
            total_bias += leaf.weight * bias
            total_variance += leaf.weight**2 * variance
        return total_bias, total_variance

    return values


def _of_single(features: Any) -> BiasAndVariance | None:
    if isinstance(features, LinearFeatures):
        return lambda A, B: (np.zeros(A.shape[0]), np.zeros(A.shape[0]))
    if isinstance(features, FourierFeatures) and features.sampling != "leverage":

        def of_wave(k: NDArray, twice: NDArray) -> tuple[NDArray, NDArray]:
            return np.zeros_like(k), (1 + twice) / 2 - k**2

        m = features.frequencies_.shape[1]
        return _over_terms(features.kernel, m, of_wave, len(features.offsets_) / 2)
    if (
        isinstance(features, BinningFeatures)
        and features.column_share == 1
        and not features._smooth.any()
    ):
        # Bins share a column by chance
        chance = 1 / features.n_buckets if features.n_buckets else 0.0

        def of_grid(k: NDArray, twice: NDArray) -> tuple[NDArray, NDArray]:
            bias = (1 - k) * chance
            return bias, (k + bias) * (1 - k - bias)

        return _over_terms(features.kernel, len(features.values_), of_grid, 0.0)
    return None


def _over_terms(
    kernel: Kernel,
    draws: int,
    of_term: Callable[[NDArray, NDArray], tuple[NDArray, NDArray]],
    more: float,
) -> BiasAndVariance:
    """Bias and variance of the sum of the terms' estimates, which share the draws in
    proportion to their variances.
    """
    total = kernel.variance
    terms = [
        (variance, [pairwise(leaf) for leaf in factors])
        for variance, factors in kernel.terms()
    ]

    def values(A: Any, B: Any) -> tuple[NDArray, NDArray]:
        A = dense(A)
        B = dense(B)
        bias = np.zeros(len(A))
        squares = np.full(len(A), more * total**2 / draws**2)
        for variance, factors in terms:
            kernel_values, twice = (
                np.prod([factor(U, V) for factor in factors], axis=0)
                for U, V in ((A, B), (2 * A, 2 * B))
            )
            off, term_variance = of_term(kernel_values, twice)
            bias += variance * off
            squares += variance * total / draws * np.maximum(term_variance, 0.0)
        return bias, squares

    return values
