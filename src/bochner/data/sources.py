"""Where rows come from: re-iterable blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from bochner.data.draws import draw_rows

TILE_ROWS, KEYED_ROWS, STORED_ROWS = 1 << 12, 1 << 14, 1 << 18
DISTINCT_SHARE = 0.8


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
        weight = None if self.weight is None else self.weight[part]
        return Block(self._encoded(part), self.targets(self.y[part]), weight)

    def encoded(self, dtype: DTypeLike) -> ArraySource:
        """Return the same rows with X encoded already, and held in memory."""
        blocks = [self._encoded(slice(a, a + STORED_ROWS)) for a in range(0, self.n_rows, STORED_ROWS)]
        X = sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)
        return ArraySource(X.astype(dtype, copy=False), self.y, self.weight, targets=self.targets)

    def sample(self, size: int, rng: np.random.Generator) -> ArraySource:
        """Return a source of at most `size` rows, drawn by their weights, which change so that sums keep their mean."""
        rows, factors = draw_rows(self.n_rows, self.weight, size, rng)
        if len(rows) == self.n_rows:
            return self
        source = self.take(rows)
        if factors is not None and source.weight is not None:
            source.weight = source.weight * factors
        return source

    def distinct(self) -> ArraySource:
        """Return a source of the encoded rows in which equal ones are one, with their weight and their mean target.

        To leave such a row out is to leave out all its copies, which would otherwise tell of one another.
        """
        ((X, y, weight),) = self.blocks(self.n_rows)
        source = ArraySource(X, y, weight)
        return source.merged(source.first_duplicates(row_hashes(X)), most=1.0)[0]

    def merged(
        self, first_duplicate: NDArray[np.intp], most: float = DISTINCT_SHARE
    ) -> tuple[ArraySource, NDArray[np.bool_]]:
        """Return a source in which equal rows are one, with their weight and mean target, where that saves much.

        Least squares on them has the same solution.

        Parameters
        ----------
        first_duplicate : int array of shape (n,)
            As of `first_duplicates`.
        most : float, default=0.8
            The largest share of the rows that may be left.

        Returns
        -------
        ArraySource
            This one where more would be left.
        bool array of shape (n,)
            The rows that it has.
        """
        leads = first_duplicate == np.arange(self.n_rows)
        if leads.all() or leads.mean() > most:
            return self, np.ones(self.n_rows, bool)
        group = (np.cumsum(leads) - 1)[first_duplicate]
        weight = np.ones(self.n_rows) if self.weight is None else self.weight
        total = np.bincount(group, weight)
        sums = np.stack([np.bincount(group, weight * column) for column in self.targets(self.y).T], axis=1)
        mean = sums / np.where(total > 0, total, 1.0)[:, np.newaxis]
        return ArraySource(rows_of(self.X, np.flatnonzero(leads)), mean, total, self.encode), leads

    def keys(self) -> NDArray[np.float64]:
        """Numbers of the encoded rows, shape (n,), equal for equal rows."""
        parts = [slice(first, first + KEYED_ROWS) for first in range(0, self.n_rows, KEYED_ROWS)]
        return np.concatenate([row_hashes(self._encoded(part)) for part in parts] or [np.empty(0)])

    def first_duplicates(self, keys: NDArray, apart: NDArray[np.bool_] | None = None) -> NDArray[np.intp]:
        """Return the first of the rows that are equal to each, shape (n,).

        Parameters
        ----------
        keys : array of shape (n,)
            As of `keys`; rows that have the same are compared.
        apart : bool array of shape (n,), optional
            Rows that are led by themselves, and lead no others.
        """
        first_duplicate = np.arange(self.n_rows)
        rest = first_duplicate.copy() if apart is None else np.flatnonzero(~apart)
        _, first, group = np.unique(keys[rest], return_index=True, return_inverse=True)
        first_duplicate[rest] = rest[first[group]]
        led = np.flatnonzero(first_duplicate != np.arange(self.n_rows))
        for start in range(0, len(led), KEYED_ROWS):
            part = led[start : start + KEYED_ROWS]
            other = part[~_equal(self._encoded(part), self._encoded(first_duplicate[part]))]
            first_duplicate[other] = other
        return first_duplicate

    def _encoded(self, part: slice | NDArray[np.intp]) -> Any:
        return self.encode(rows_of(self.X, part))

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


def _equal(A: NDArray | sp.csr_array, B: NDArray | sp.csr_array) -> NDArray[np.bool_]:
    """Whether rows of the two are equal, shape (n,)."""
    return np.asarray((A != B).sum(axis=1)).ravel() == 0


def row_hashes(X: NDArray | sp.csr_array) -> NDArray[np.float64]:
    """Project the rows at random onto one number each, equal for equal rows and hardly ever for others."""
    direction = np.random.default_rng(0).standard_normal(X.shape[1])
    if sp.issparse(X):
        return X @ direction
    tiles = range(0, len(X), TILE_ROWS)
    return np.concatenate([(X[a : a + TILE_ROWS] * direction).sum(axis=1) for a in tiles] or [np.empty(0)])
