"""Sums over the pairs of rows of two tables, as they are and with the rows of one of them permuted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.array_source import Source
from bochner.engines.algebra import gram
from bochner.engines.local import pause
from bochner.features.fourier import FourierFeatures
from bochner.hypotheses.maps import Axes

BLOCK_ROWS = 1 << 12
GROUPS = 32  # of a block
SOME_ROWS = 128  # that tell distances and slopes
Blocks = Iterable[tuple[NDArray, NDArray]]


@dataclass(frozen=True)
class Pairs:
    """Two tables, row by row.

    Attributes
    ----------
    sources : tuple of Source
        Of as many rows each.
    maps : tuple of FourierFeatures
    centres : tuple of array
        Mean features of some rows, taken from all; they change nothing but rounding.
    n_rows : int
    """

    sources: tuple[Source, Source]
    maps: tuple[FourierFeatures, FourierFeatures]
    centres: tuple[NDArray, NDArray]
    n_rows: int

    def features(self) -> Iterator[tuple[NDArray, NDArray]]:
        """Features of both, block by block."""
        for rows in self.blocks():
            X, Y = (
                features.rows(part) - centre
                for features, part, centre in zip(self.maps, rows, self.centres, strict=True)
            )
            yield X, Y

    def blocks(self) -> Iterator[tuple[Any, Any]]:
        """Rows of both, block by block."""
        for first, second in zip(*(source.blocks(BLOCK_ROWS) for source in self.sources), strict=True):
            pause()
            yield first.X, second.X

    def spread_rows(self) -> tuple[Any, Any]:
        """Some rows of both, as far apart as all of them reach."""
        step, done, parts = max(1, self.n_rows // SOME_ROWS), 0, []
        for X, Y in self.blocks():
            kept = np.flatnonzero((np.arange(X.shape[0]) + done) % step == 0)
            parts.append((X[kept], Y[kept]))
            done += X.shape[0]
        X, Y = zip(*parts, strict=True)
        return _stacked(X), _stacked(Y)


@dataclass(frozen=True)
class PairSums:
    """Means and covariances of the features of two tables.

    Attributes
    ----------
    means : tuple of array
        Less the centres.
    own : tuple of array of shape (D, D)
        Covariances within each table.
    cross : array of shape (D, D)
        Between them.
    """

    means: tuple[NDArray[np.float64], NDArray[np.float64]]
    own: tuple[NDArray[np.float64], NDArray[np.float64]]
    cross: NDArray[np.float64]

    @classmethod
    def of(cls, blocks: Blocks, n_rows: int, n_first: int) -> PairSums:
        """Sums over all rows, of features of which so many are those of the first table."""
        total: Any = 0.0
        products: Any = 0.0
        for block in blocks:
            Z = np.hstack(block)
            products = products + gram(Z, np.empty((Z.shape[1], Z.shape[1]), Z.dtype)).astype(np.float64)
            total = total + Z.sum(axis=0, dtype=np.float64)
        mean = total / n_rows
        C, D = products / n_rows - np.outer(mean, mean), n_first
        return cls((mean[:D], mean[D:]), (C[:D, :D], C[D:, D:]), C[:D, D:])


def permuted_covariances(
    blocks: Blocks, means: tuple[NDArray, NDArray], axes: tuple[Axes, Axes], n_permutations: int, rng: Any
) -> NDArray[np.float64]:
    """Sums of products of the projections of both tables, whose means are zero, the second permuted within each block.

    The pairs of a block are shuffled, and 32 groups of as many rows of the second are permuted as they are. Such
    permutations are a group, and so what they make of rows that are independent is exact (Domingo-Enrich, Dwivedi and
    Mackey, 2025). All of them are sums of 32 x 32 products of groups, so that none reads the rows.

    Returns
    -------
    array of shape (B + 1, r, s)
        The first of the rows as they are.
    """
    r, s = (len(one.variances) for one in axes)
    found = np.zeros((n_permutations + 1, r * s))
    for block in blocks if r * s else ():
        order = rng.permutation(len(block[0]))
        X, Y = (
            Z[order] @ one.vectors.astype(Z.dtype) - (mean @ one.vectors).astype(Z.dtype)
            for Z, mean, one in zip(block, means, axes, strict=True)
        )
        found += _permuted_groups(X, Y, n_permutations, rng)
    return found.reshape(n_permutations + 1, r, s)


def _permuted_groups(X: NDArray, Y: NDArray, n_permutations: int, rng: Any) -> NDArray:
    """Sums of products of the rows of a block, shape (B + 1, r s); rows that fill no group stay where they are."""
    (n, r), s = X.shape, Y.shape[1]
    size = -(-n // GROUPS)
    G = n // size
    left = X[: G * size].reshape(G, size, r).transpose(0, 2, 1).reshape(G * r, size)
    right = Y[: G * size].reshape(G, size, s).transpose(1, 0, 2).reshape(size, G * s)
    products = (left @ right).reshape(G, r, G, s).transpose(0, 2, 1, 3).reshape(G, G, r * s)
    orders = rng.random((n_permutations + 1, G)).argsort(axis=1)
    orders[0] = np.arange(G)
    found = np.tile((X[G * size :].T @ Y[G * size :]).ravel(), (n_permutations + 1, 1))
    chosen = np.empty_like(found)
    for own, others in zip(products, np.ascontiguousarray(orders.T), strict=True):
        found += np.take(own, others, axis=0, out=chosen, mode="clip")
    return found


def _stacked(parts: Any) -> Any:
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)
