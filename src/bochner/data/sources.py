"""Where rows come from: re-iterable blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

KEYED_ROWS, HELD_ROWS = 4096, 1 << 18


class Block(NamedTuple):
    """Consecutive rows: X of shape (b, d), dense or CSR; y of shape (b, K); weight of shape (b,) or None."""

    X: NDArray | sp.csr_array
    y: NDArray
    weight: NDArray | None


class ArraySource:
    """Rows of arrays, sparse matrices or data frames held in memory.

    Parameters
    ----------
    X : array, CSR matrix or data frame of n rows
    y : array of n rows
    weight : array of shape (n,), optional
    encode, targets : callable, optional
        Turn a slice of X into a numeric matrix, and one of y into an array of shape (b, K), block by block, so that no
        encoded copy of all rows is ever held.
    """

    def __init__(
        self,
        X: Any,
        y: NDArray,
        weight: NDArray | None = None,
        encode: Callable[[Any], Any] = lambda X: X,
        targets: Callable[[NDArray], NDArray] = lambda y: y,
    ) -> None:
        self.X, self.y, self.weight, self.encode, self.targets = X, y, weight, encode, targets
        self.n_rows = len(y)

    @property
    def n_outputs(self) -> int:
        """Number K of targets."""
        return self.targets(self.y[:1]).shape[1]

    @property
    def total_weight(self) -> float:
        """Sum of the weights; the number of rows where there are none."""
        return float(self.n_rows if self.weight is None else self.weight.sum())

    def blocks(self, rows: int, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """Yield the rows from `start` to `stop`, all by default, in order and at most `rows` at a time."""
        stop = self.n_rows if stop is None else stop
        for first in range(start, stop, rows):
            yield self._block(slice(first, min(first + rows, stop)))

    def _block(self, part: slice) -> Block:
        X = rows_of(self.X, part)
        weight = None if self.weight is None else self.weight[part]
        return Block(self.encode(X), self.targets(self.y[part]), weight)

    def encoded(self, dtype: DTypeLike) -> ArraySource:
        """Return the same rows with X encoded already, and held in memory."""
        blocks = [self.encode(rows_of(self.X, slice(a, a + HELD_ROWS))) for a in range(0, self.n_rows, HELD_ROWS)]
        X = sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)
        return ArraySource(X.astype(dtype, copy=False), self.y, self.weight, targets=self.targets)

    def sample(self, size: int, rng: np.random.Generator) -> ArraySource:
        """Return a source of at most `size` rows, drawn without replacement among those of positive weight."""
        rows = np.arange(self.n_rows) if self.weight is None else np.flatnonzero(self.weight)
        if len(rows) > size:
            rows = np.sort(rng.choice(rows, size, replace=False))
        return self if len(rows) == self.n_rows else self.take(rows)

    def distinct(self) -> ArraySource:
        """Return a source of the encoded rows in which equal ones are one, with their weight and their mean target.

        To leave such a row out is to leave out all its copies, which would otherwise tell of one another. Rows are told
        apart by a random projection.
        """
        ((X, y, weight),) = self.blocks(self.n_rows)
        _, first, group = np.unique(row_keys(X), return_index=True, return_inverse=True)
        if len(first) == len(y):
            return ArraySource(X, y, weight)
        weight = np.ones(len(y)) if weight is None else weight
        total = np.bincount(group, weight)
        mean = np.stack([np.bincount(group, weight * column) for column in y.T], axis=1) / total[:, np.newaxis]
        return ArraySource(X[first], mean, total)

    def take(self, indices: NDArray[np.intp]) -> ArraySource:
        """Return a source of some of the rows, in the order of `indices`."""
        weight = None if self.weight is None else self.weight[indices]
        return ArraySource(rows_of(self.X, indices), self.y[indices], weight, self.encode, self.targets)


def rows_of(X: Any, part: slice | NDArray[np.intp]) -> Any:
    """Rows of an array, a sparse matrix or a data frame of any library that narwhals knows."""
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return X[part]
    import narwhals as nw

    return nw.from_native(X, eager_only=True)[part].to_native()


def row_keys(X: NDArray | sp.csr_array) -> NDArray[np.float64]:
    """Project the rows at random onto one number each, equal for equal rows and, almost surely, for no others."""
    direction = np.random.default_rng(0).standard_normal(X.shape[1])
    if sp.issparse(X):
        return X @ direction
    tiles = range(0, len(X), KEYED_ROWS)
    return np.concatenate([(X[a : a + KEYED_ROWS] * direction).sum(axis=1) for a in tiles] or [np.empty(0)])
