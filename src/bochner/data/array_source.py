"""Where rows come from: re-iterable blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from bochner.arrays import Indices, Mask
from bochner.blocks import BLOCK_ENTRIES, BLOCK_ROWS, LARGE_BLOCK_ROWS
from bochner.data.hashes import row_hashes
from bochner.data.row_splits import Fold, RowSplits
from bochner.data.weights import (
    are_one,
    draw_rows,
    group_means,
    unit_weights,
    weights_of,
)
from bochner.engines.local import in_threads, tiles

ROWS_A_PART, MOST_PARTS = 256, 4096
DISTINCT_SHARE = 0.8


class Block(NamedTuple):
    """Consecutive rows: X of shape (b, d), dense or CSR; y of shape (b, K); weight
    of shape (b,).
    """

    X: NDArray | sp.csr_array
    y: NDArray
    weight: NDArray


class Source(Protocol):
    """Rows that can be read again and again, a block at a time."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where that is not known before they have been read."""

    @property
    def n_outputs(self) -> int:
        """Number K of targets."""

    @property
    def n_parts(self) -> int:
        """Number of parts."""

    def span(self, first: int, stop: int) -> Source:
        """The rows of consecutive parts as one source. Parts are cut by the data,
        never by threads; picklable.
        """

    def blocks(self, rows: int) -> Iterator[Block]:
        """Yield all rows in order, at most `rows` at a time."""

    def whole(self) -> Block:
        """All rows as one block."""

    def sample(self, size: int, rng: np.random.Generator) -> Source:
        """A source of at most `size` rows, drawn by their weights."""


def as_it_is(values: Any) -> Any:
    """Return what is given."""
    return values


@dataclass(eq=False)
class ArraySource:
    """Rows of arrays, sparse matrices or data frames held in memory.

    Parameters
    ----------
    X : array, CSR matrix or data frame of n rows
    y : array of n rows
    weights : array of shape (n,), optional
        One for each row by default.
    encode, targets : callable, optional
        Turn a slice of X into a numeric matrix, and one of y into an array of shape (b,
        K), block by block, so that no encoded copy of all rows is ever held. Picklable,
        where the rows go to other processes.
    content : array, CSR matrix or data frame of n rows, optional
        The rows as they came, where X is what has become of them; they are
        distinguished by their values.
    splits : RowSplits, optional
        Which rows validate which, where that is given.

    Attributes
    ----------
    weights : array of shape (n,)
    """

    X: Any
    y: NDArray
    weights: Any = None
    encode: Callable[[Any], Any] = as_it_is
    targets: Callable[[NDArray], NDArray] = as_it_is
    content: Any = None
    splits: RowSplits | None = None

    def __post_init__(self) -> None:
        if self.content is None:
            self.content = self.X
        if self.weights is None or are_one(self.weights):
            self.weights = unit_weights(len(self.y))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def n_outputs(self) -> int:
        """Number K of targets."""
        return self.targets(self.y[:1]).shape[1]

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    @property
    def n_counted(self) -> int:
        """Number of rows of positive weight."""
        return int(np.count_nonzero(self.weights))

    def counted(self) -> ArraySource:
        """The rows of positive weight; the source itself where all are."""
        rows = np.flatnonzero(self.weights)
        return self if len(rows) == self.n_rows else self.take(rows)

    @property
    def n_parts(self) -> int:
        """Number of parts: one for each 256 rows, 4,096 at most."""
        return min(-(-self.n_rows // ROWS_A_PART), MOST_PARTS)

    def span(self, first: int, stop: int) -> ArraySource:
        """View of the rows of consecutive parts."""
        n, parts = self.n_rows, max(self.n_parts, 1)
        return self.take(slice(n * first // parts, n * stop // parts))

    def blocks(self, rows: int) -> Iterator[Block]:
        """Yield all rows in order, at most `rows` at a time."""
        yield from map(self._block, tiles(0, self.n_rows, rows))

    def whole(self) -> Block:
        """All rows as one block, its weights an array that BLAS takes."""
        every = self._block(slice(0, self.n_rows))
        return every._replace(weight=np.ascontiguousarray(self.weights))

    def _block(self, part: slice) -> Block:
        return Block(
            self._encoded(part), self.targets(self.y[part]), self.weights[part]
        )

    def encoded(self, dtype: DTypeLike) -> ArraySource:
        """Return the same rows with X encoded already, and held in memory."""
        step = max(BLOCK_ENTRIES // max(self.X.shape[1], 1), BLOCK_ROWS)
        parts = tiles(0, self.n_rows, step)
        threads = None if isinstance(self.X, np.ndarray) else 1
        blocks = in_threads(self._encoded, parts, threads)
        is_sparse = sp.issparse(blocks[0])
        X = sp.vstack(blocks, format="csr") if is_sparse else np.concatenate(blocks)
        return replace(self, X=X.astype(dtype, copy=False), encode=as_it_is)

    def weighted(self, factors: NDArray | float) -> ArraySource:
        """Return the same rows, their weights times these factors."""
        return replace(self, weights=self.weights * factors)

    def sample(self, size: int, rng: np.random.Generator) -> ArraySource:
        """Return a source of at most `size` rows, drawn by their weights, which
        change so that sums keep their mean.
        """
        rows, factors = draw_rows(self.weights, size, rng)
        if len(rows) == self.n_rows:
            return self
        return self.take(rows).weighted(factors)

    def distinct(self) -> ArraySource:
        """Return a source of the encoded rows in which equal ones are one, with their
        weight and their mean target.

        To leave such a row out is to leave out all its copies, which would otherwise
        tell of one another.
        """
        source = ArraySource(*self.whole(), content=self.content, splits=self.splits)
        return source.merged(source.first_duplicates(source.row_hashes()), most=1.0)[0]

    def merged(
        self, first_duplicate: Indices, most: float = DISTINCT_SHARE
    ) -> tuple[ArraySource, Mask]:
        """Return a source in which equal rows are one, with their weight and mean
        target, where that saves much.

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
        targets = self.targets(self.y)
        total, mean = group_means(group, targets, self.weights)
        if self.splits is not None:
            # Rows without weight may validate, by their own targets
            mean = np.where(total[:, np.newaxis] > 0, mean, targets[leads])
        rows = self.take(np.flatnonzero(leads))
        return replace(rows, y=mean, weights=total, targets=as_it_is), leads

    def row_hashes(self) -> NDArray:
        """Hashes of what the rows hold as they came, shape (n,); rows that do not
        belong together, or validate in different splits, differ.

        So neither weights nor the scales of columns, whose last bits these change,
        decide which rows are held out.
        """
        places = tiles(0, self.n_rows, LARGE_BLOCK_ROWS)
        parts = [rows_of(self.content, place) for place in places]
        hashes = np.concatenate([np.empty(0, np.uint64), *map(row_hashes, parts)])
        return hashes if self.splits is None else self.splits.told_apart(hashes)

    @property
    def group(self) -> Indices | None:
        """The group of each row, shape (n,), where rows belong to such."""
        return None if self.splits is None else self.splits.group

    @property
    def validation_weights(self) -> NDArray:
        """Weights with which rows validate a fit, shape (n,)."""
        splits = self.splits
        return self.weights if splits is None else splits.weights(self.weights)

    def validating(self, rows: Indices) -> ArraySource:
        """Return a source of some rows, with the weights with which they validate."""
        source = self.take(rows)
        return replace(source, weights=source.validation_weights)

    def parts(self, fold: Fold) -> tuple[ArraySource, ArraySource]:
        """The rows to fit in a fold, and those that validate."""
        fitted = self.take(np.flatnonzero(fold.fitted))
        return fitted, self.validating(np.flatnonzero(fold.held_out))

    def first_duplicates(self, hashes: NDArray, apart: Mask | None = None) -> Indices:
        """Return the first of the rows that are equal to each, shape (n,).

        Parameters
        ----------
        hashes : array of shape (n,)
            As of `row_hashes`; rows that have the same are compared.
        apart : bool array of shape (n,), optional
            Rows that are led by themselves, and lead no others.
        """
        rows = np.arange(self.n_rows)
        rest = rows if apart is None else np.flatnonzero(~apart)
        _, first, group = np.unique(
            hashes[rest], return_index=True, return_inverse=True
        )
        first_duplicate = rows.copy()
        first_duplicate[rest] = rest[first[group]]
        led = np.flatnonzero(first_duplicate != rows)
        for place in tiles(0, len(led), LARGE_BLOCK_ROWS):
            part = led[place]
            differ = self._encoded(part) != self._encoded(first_duplicate[part])
            other = part[np.asarray(differ.sum(axis=1)).ravel() > 0]
            first_duplicate[other] = other
        return first_duplicate

    def _encoded(self, part: slice | Indices) -> Any:
        return self.encode(rows_of(self.X, part))

    def take(self, rows: slice | Indices) -> ArraySource:
        """Return a source of some of the rows, in the order of their numbers."""
        return replace(
            self,
            X=rows_of(self.X, rows),
            y=self.y[rows],
            weights=weights_of(self.weights, rows),
            content=rows_of(self.content, rows),
            splits=None if self.splits is None else self.splits.take(rows),
        )


def rows_of(X: Any, part: slice | Indices) -> Any:
    """Rows of an array, a sparse matrix or a data frame of any library that narwhals
    knows.
    """
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return X[part]
    import narwhals as nw

    return nw.from_native(X, eager_only=True)[part].to_native()
