"""A source of rows seen through a feature map: every reduction that solvers ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.data.sources import Block, Source
from bochner.engines.base import accumulate, reduce
from bochner.engines.journal import Journal, Keeper
from bochner.engines.local import LOCAL, MOST_SHARDS, available_memory, limited, pause, require_memory, shards
from bochner.features.base import FeatureMap
from bochner.features.dense import Centres, DenseFeatures
from bochner.features.hashed import DenseBins, HeldBins, hashed_bins
from bochner.features.stored import StoredBins, StoredRows
from bochner.moments import Moments

BLOCK_BYTES = 64 << 20
STORED_BYTES = 1 << 30
STORED_SHARE = 0.5
LEARNED = 4  # times fewer rows at once where a map numbers their bins, which takes several times the memory of these
READING_BYTES = 64 << 20  # of a thread that reads and decodes its rows, about
OWN_MOMENTS_FEATURES = 4096
SHARD_ROWS = 1024
MANY_ROWS, LARGE_SHARD, MOST_LARGE_SHARDS = 1 << 20, 64, 1024  # rows for each feature of a shard of many rows
BINNED_ROWS = 1 << 16
UNKNOWN_ROWS = 1 << 40  # where nobody knows how many
Advance = Callable[[int], None]


def no_advance(rows: int) -> None:
    """Tell nobody of the rows that are done."""


def typed_blocks(source: Source, rows: int, dtype: np.dtype, advance: Advance = no_advance) -> Iterator[Block]:
    """Yield blocks of a source in a precision, and tell of each that is done; work may be left between two of them."""
    for X, y, weight in source.blocks(rows):
        pause()
        yield Block(X if X.dtype == dtype else X.astype(dtype), y, weight)
        advance(len(y))


@dataclass(frozen=True)
class SumMoments:
    """The work of one shard: the moments of the rows of a source, seen through a map.

    Attributes
    ----------
    n_features, n_outputs : int
    dtype : dtype
    rows : int
        Of a block.
    panels : bool
        Whether all threads share each product, so that shards follow on one another.
    advance : callable
    """

    n_features: int
    n_outputs: int
    dtype: np.dtype
    rows: int
    panels: bool
    advance: Advance = no_advance

    @property
    def n_bytes(self) -> int:
        """Memory of a call."""
        columns, size = self.n_features + self.n_outputs + 1, self.dtype.itemsize
        return columns**2 * (8 + size) + self.rows * columns * size + READING_BYTES

    def __call__(self, source: Source, features: DenseFeatures) -> Moments:
        """Sum over the blocks."""
        return self.add(self.empty(), source, features)

    def empty(self) -> Moments:
        """Moments of no rows."""
        return Moments(self.n_features, self.n_outputs, self.dtype, self.panels)

    def add(self, moments: Moments, source: Source, features: DenseFeatures) -> Moments:
        """Add all blocks of a source in place."""
        workspace = moments.workspace(self.rows if source.n_rows is None else min(self.rows, source.n_rows))
        for X, y, weight in typed_blocks(source, self.rows, self.dtype, self.advance):
            A = workspace[: len(y)]
            features.rows(X, out=A)
            moments.add_block(A, y, weight)
        return moments.trim()


@dataclass(frozen=True)
class SumBins:
    """The same of hashed bins, one shard after the other; threads share the panels of the Gram matrix.

    Attributes
    ----------
    n_features, n_outputs : int
    dtype : dtype
        Of the rows; bins are added in double precision.
    rows : int
        Of a block.
    advance : callable
    """

    n_features: int
    n_outputs: int
    dtype: np.dtype
    rows: int
    advance: Advance = no_advance

    def empty(self) -> Moments:
        """Moments of no rows."""
        return Moments(self.n_features, self.n_outputs, np.float64)

    def add(self, moments: Moments, source: Source, features: FeatureMap) -> Moments:
        """Add all blocks of a source in place."""
        held = HeldBins(BLOCK_BYTES)
        for X, y, weight in typed_blocks(source, self.rows, self.dtype, self.advance):
            stored = features.store(X)
            assert isinstance(stored, StoredBins)
            held.put(stored, y, weight)
            if held.is_full:
                moments.add_bins(*held.take())
        if held.n_rows:
            moments.add_bins(*held.take())
        return moments


class Design:
    """The rows of a source, mapped to features one block at a time; never all of them at once.

    Parameters
    ----------
    source : ArraySource, or another Source
        Of another one there are passes alone, and samples.
    features : FeatureMap
        Drawn already.
    dtype : dtype, default=float32
        Precision of the features; sums over blocks are in float64 always.
    advance : callable, optional
        Called with the number of rows done after each block.
    fixed : bool, default=False
        Whether the map has its training rows already, and is to take note of no others.
    """

    def __init__(
        self,
        source: Any,
        features: FeatureMap,
        dtype: DTypeLike = np.float32,
        advance: Advance = no_advance,
        fixed: bool = False,
    ) -> None:
        self.source, self.features, self.dtype, self.advance = source, features, np.dtype(dtype), advance
        self.fixed = fixed

    @property
    def dense(self) -> DenseFeatures:
        """The map to dense features, as which hashed bins may stand; TypeError where there are none."""
        dense = self.features.dense
        if dense is None and hashed_bins(self.features) is not None:
            return DenseBins(self.features)
        if dense is None:
            raise TypeError(f"{type(self.features).__name__} are no dense features: store them.")
        return dense

    @cached_property
    def row_hashes(self) -> NDArray:
        """Numbers of the rows, shape (n,), by which equal ones are known."""
        return self.source.row_hashes()

    def telling(self, advance: Advance) -> Design:
        """The same, which tells of the rows that are done."""
        return Design(self.source, self.features, self.dtype, advance, self.fixed)

    def counted(self) -> Design:
        """The rows that have weight."""
        if self.source.n_counted == self.source.n_rows:
            return self
        return Design(self.source.take(np.flatnonzero(self.source.weights)), self.features, self.dtype, self.advance)

    def distinct(self) -> Design:
        """Equal rows as one, with their weight and mean target."""
        return Design(self.source.distinct(), self.features, self.dtype, self.advance)

    @property
    def block_rows(self) -> int:
        """Rows of a block, such that they and their features take 64 MB each at most; at least 256.

        Bits of sums depend on it, so that memory must not.
        """
        return self._rows_of(BLOCK_BYTES)

    def _rows_of(self, n_bytes: int) -> int:
        inputs = self.features.n_features_in_ * self.dtype.itemsize
        row = max(inputs, self.features.stored_bytes(self.dtype, packed=False))
        return max(256, min(n_bytes // row, self.n_rows))

    @property
    def n_rows(self) -> int:
        """Number of rows; many, where it is not known."""
        return UNKNOWN_ROWS if self.source.n_rows is None else self.source.n_rows

    def _blocks(self, rows: int) -> Iterator[Block]:
        return typed_blocks(self.source, rows, self.dtype, self.advance)

    def mapped(self, most: int | None = None) -> Iterator[Block]:
        """Yield blocks, of `most` rows at the most, with their features in the place of X."""
        dense = self.dense
        rows = max(256, BLOCK_BYTES // (dense.n_features_out * self.dtype.itemsize))
        for X, y, weight in self._blocks(min(self.block_rows, rows, most or rows)):
            yield Block(dense.rows(X), y, weight)

    def whole(self) -> Block:
        """All rows with their features in the place of X, held at once."""
        X, y, weight = self.source.whole()
        return Block(self.dense.rows(X.astype(self.dtype, copy=False)), y, weight)

    def moments(self, keeper: Keeper | None = None) -> Moments:
        """Weighted moments of features and targets, in one pass and O(D^2 + block) memory.

        Threads sum the moments of shards of the rows that do not depend on their number, unless D is so large that one
        sum must do, of whose products they make panels. An interrupt stops all of them at their next block. What is
        summed at once depends on the rows and the map alone, and neither on threads nor on the memory that is free.

        Parameters
        ----------
        keeper : Keeper, optional
            Keeps what is done; what it holds of the same sum is gone on from.

        Raises
        ------
        MemoryError
            Before the pass, where the moments and their factorisation would not fit the memory that is free.
        """
        D, K, binned = self.features.n_features_out, self.source.n_outputs, hashed_bins(self.features) is not None
        sources = [self.source.span(*span) for span in self.spans()]
        rows, shared = max(256, self.block_rows // 2), len(sources) == 1 or self.has_one_sum
        blocks = min(4 * rows * (D + K + 1) * self.dtype.itemsize, 2 * BLOCK_BYTES)
        require_factor_memory(D, D, K, self.dtype, binned, 1 if shared else len(sources).bit_length(), blocks)
        features: Any = self.features if binned else self.dense
        work: Any = SumMoments(D, K, self.dtype, rows, shared, self.advance)
        if binned:
            work = SumBins(D, K, self.dtype, min(rows, BINNED_ROWS), self.advance)
        journal = None if keeper is None else Journal(keeper, Moments.of)
        if not (shared or binned):
            return reduce(LOCAL, sources, work, features, journal)
        return accumulate(work.empty, sources, lambda total, source: work.add(total, source, features), journal)

    def spans(self) -> list[tuple[int, int]]:
        """Ranges of parts whose moments are summed by themselves: a power of two of them, by the rows and D alone.

        Some for the threads, of few rows; more where these are so many that sums of them are worth keeping, and adding
        up costs nothing beside. Where there is one sum alone, shards are added to it in order.
        """
        D, parts, n = self.features.n_features_out, self.source.n_parts, max(self.n_rows, 1)
        few, many = (-(-rows * parts // n) for rows in (max(2 * D, SHARD_ROWS), LARGE_SHARD * max(D, SHARD_ROWS)))
        most = 1 if self.has_one_sum else MOST_SHARDS
        return max(shards(parts, few, most), shards(parts, many, MOST_LARGE_SHARDS), key=len)

    @property
    def has_one_sum(self) -> bool:
        """Whether several sums would take too much memory, of many rows also those that wait for one another."""
        D = self.features.n_features_out
        waiting = 2 if self.n_rows >= MANY_ROWS else 1
        return waiting * D > OWN_MOMENTS_FEATURES or hashed_bins(self.features) is not None

    def store(self, packed: bool, centres: Centres | None = None) -> Iterable[StoredRows]:
        """Blocks with stored features in the place of X, for any number of passes; the map takes note of the rows.

        They stay in memory where half of what is free can hold them; otherwise every pass computes them anew.

        Parameters
        ----------
        packed : bool
            Whether dense features may be rounded to 8 bits.
        centres : sequence of array or None, one for each part of the map, optional
            Taken from the features.
        """
        row = self.features.stored_bytes(self.dtype, packed)
        free = available_memory()
        kept = free is None or row * self.n_rows <= STORED_SHARE * free
        if not kept:
            if not self.fixed:
                self._fit_rows()
            return self.again(centres)
        store = self.features.store if self.fixed else self.features.fit_store
        blocks = [
            StoredRows(store(X, packed, centres), y, weight) for X, y, weight in self._blocks(self._stored_rows(row))
        ]
        self.features.finalize()
        return blocks

    def _fit_rows(self) -> None:
        """Let the map take note of all rows, and of nothing where it asks for none."""
        rows = self._stored_rows(self.features.stored_bytes(self.dtype, packed=False))
        if not self.features.is_dense:
            for X, _, _ in self._blocks(max(rows // LEARNED, 256)):
                self.features.fit_rows(X)
        self.features.finalize()

    def _stored_rows(self, row: int) -> int:
        """Rows of a stored block: 1 GB of features and 64 MB of their columns at most, or what the limit allows."""
        inputs = limited(BLOCK_BYTES) // (self.features.n_features_in_ * self.dtype.itemsize)
        return max(256, min(limited(STORED_BYTES) // row, inputs, self.n_rows))

    def again(self, centres: Centres | None = None) -> Iterable[StoredRows]:
        """Blocks with stored features, computed anew and without rounding in every pass."""
        return _Passes(self, centres)

    def stored_blocks(self, centres: Centres | None = None) -> Iterator[StoredRows]:
        """Yield blocks with stored features, without rounding, of a map that has its training rows."""
        for X, y, weight in self._blocks(self._stored_rows(self.features.stored_bytes(self.dtype, packed=False))):
            yield StoredRows(self.features.store(X, centres=centres), y, weight)

    def predict(self, coef: NDArray, intercept: NDArray) -> NDArray:
        """Predictions Z coef + intercept of all rows, shape (n, K)."""
        coef = coef.astype(self.dtype, copy=False)
        result, done = np.empty((self.source.n_rows, coef.shape[1])), 0
        for X, _, _ in self._blocks(self._rows_of(limited(BLOCK_BYTES))):
            result[done : done + X.shape[0]] = self.features.dot(X, coef)
            done += X.shape[0]
        result += intercept
        return result


@dataclass(frozen=True)
class _Passes:
    """Blocks whose features are computed anew in every pass, without rounding."""

    design: Design
    centres: Centres | None

    @property
    def squares_at_once(self) -> bool:
        """Whether the diagonal will be asked for, as it is of bins, which another pass would be too much for."""
        return not self.design.features.is_dense

    def __iter__(self) -> Iterator[StoredRows]:
        return self.design.stored_blocks(self.centres)


def factor_bytes(
    n_rows: int,
    n_features: int,
    n_outputs: int,
    dtype: DTypeLike,
    binned: bool = False,
    n_sums: int = 5,
    blocks: int = 2 * BLOCK_BYTES,
) -> int:
    """Memory of the direct solution, where blocks of features take so much.

    It is that of the moments, so many sums of them at a time at least, a product and blocks, and of the factorisation,
    which takes the place of a large sum; or of the rows' features and their kernel matrix, where there are fewer rows
    than features.
    """
    size = np.dtype(dtype).itemsize
    if n_rows < n_features:
        return (n_rows + n_outputs + 1) ** 2 * (5 * 8 + size) + 3 * n_rows * n_features * size
    held = 1 if n_features > OWN_MOMENTS_FEATURES else max(n_sums, 3)
    return (n_features + n_outputs + 1) ** 2 * (held * 8 + (not binned) * size) + blocks + binned * BLOCK_BYTES


def require_factor_memory(
    n_rows: int,
    n_features: int,
    n_outputs: int,
    dtype: DTypeLike,
    binned: bool = False,
    n_sums: int = 5,
    blocks: int = 2 * BLOCK_BYTES,
) -> None:
    """Raise MemoryError where the direct solution does not fit the memory that is free; see `factor_bytes`."""
    need = factor_bytes(n_rows, n_features, n_outputs, dtype, binned, n_sums, blocks)
    require_memory(need, f"Ridge regression on {n_features:,} features", "Take a smaller n_components.")
