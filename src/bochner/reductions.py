"""The sums of a pass over the rows of a source, seen through a map, and the memory that they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from bochner.data.sources import Block, Source
from bochner.engines.local import limited, pause, require_memory
from bochner.features.base import FeatureMap
from bochner.features.dense import DenseFeatures
from bochner.features.hashed import HeldBins
from bochner.features.stored import StoredBins
from bochner.moments import Moments

BLOCK_BYTES = 64 << 20
READING_BYTES = 64 << 20  # of a thread that reads and decodes its rows, about
OWN_MOMENTS_FEATURES = 4096
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


def factor_bytes(
    n_rows: int,
    n_features: int,
    n_outputs: int,
    dtype: DTypeLike,
    binned: bool = False,
    n_sums: int = 5,
    blocks: int | None = None,
) -> int:
    """Memory of the direct solution, where blocks of features take so much.

    It is that of the moments, so many sums of them at a time at least, a product and blocks, and of the factorisation,
    which takes the place of a large sum; or of the rows' features and their kernel matrix, where there are fewer rows
    than features.
    """
    size, block = np.dtype(dtype).itemsize, limited(BLOCK_BYTES)
    blocks = 2 * block if blocks is None else blocks
    if n_rows < n_features:
        return (n_rows + n_outputs + 1) ** 2 * (5 * 8 + size) + 3 * n_rows * n_features * size
    held = 1 if n_features > OWN_MOMENTS_FEATURES else max(n_sums, 3)
    return (n_features + n_outputs + 1) ** 2 * (held * 8 + (not binned) * size) + blocks + binned * block


def require_factor_memory(
    n_rows: int,
    n_features: int,
    n_outputs: int,
    dtype: DTypeLike,
    binned: bool = False,
    n_sums: int = 5,
    blocks: int | None = None,
) -> None:
    """Raise MemoryError where the direct solution does not fit the memory that is free; see `factor_bytes`."""
    need = factor_bytes(n_rows, n_features, n_outputs, dtype, binned, n_sums, blocks)
    require_memory(need, f"Ridge regression on {n_features:,} features", "Take a smaller n_components.")
