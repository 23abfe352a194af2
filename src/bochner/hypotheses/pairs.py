"""Sums over the pairs of rows of two tables, as they are and with the rows of one of them permuted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.sources import Source
from bochner.engines.algebra import gram
from bochner.engines.local import pause
from bochner.features.fourier import FourierFeatures
from bochner.hypotheses.maps import MEDIAN_ROWS, Axes

BLOCK_ROWS = 1 << 12
PERMUTED_ENTRIES = 1 << 22
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
        step, done, parts = max(1, self.n_rows // MEDIAN_ROWS), 0, []
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

    Permutations within blocks are a group, and so what they make of rows that are independent is exact.

    Returns
    -------
    array of shape (B + 1, r, s)
        The first of the rows as they are.
    """
    r, s = (len(one.variances) for one in axes)
    found = np.zeros((n_permutations + 1, r, s))
    for block in blocks:
        X, Y = (
            np.ascontiguousarray((Z - mean.astype(Z.dtype)) @ one.vectors.astype(Z.dtype))
            for Z, mean, one in zip(block, means, axes, strict=True)
        )
        found[0] += X.T @ Y
        order, step = np.arange(len(X)), max(1, PERMUTED_ENTRIES // (len(X) * s))
        for first in range(1, n_permutations + 1, step):
            count = min(step, n_permutations + 1 - first)
            orders = rng.permuted(np.tile(order, (count, 1)), axis=1)
            products = X.T @ Y[orders.T].reshape(len(X), count * s)
            found[first : first + count] += products.reshape(r, count, s).transpose(1, 0, 2)
    return found


def _stacked(parts: Any) -> Any:
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)
