"""The sums of a pass over the rows of a source, seen through a map, and the memory that they take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from bochner.data.array_source import Block, Source
from bochner.design.moments import Moments
from bochner.engines.local import limited, pause, require_memory
from bochner.engines.progress import Advance, no_advance
from bochner.features.base import DenseFeatures, FeatureMap
from bochner.features.binning import HeldBins
from bochner.features.stored import StoredBins

BLOCK_BYTES = 64 << 20
READING_BYTES = 64 << 20  # of a thread that reads and decodes its rows, about
OWN_MOMENTS_FEATURES = 4096


def typed_blocks(source: Source, rows: int, dtype: np.dtype, advance: Advance = no_advance) -> Iterator[Block]:
    """Yield blocks of a source in a precision, and tell of each that is done; work may be left between two of them."""
    for X, y, weight in source.blocks(rows):
        pause()
        yield Block(X if X.dtype == dtype else X.astype(dtype), y, weight)
        advance(len(y))


@dataclass(frozen=True)
class Work(ABC):
    """The work of one shard: a sum over the rows of a source, seen through a map.

    Attributes
    ----------
    n_features, n_outputs : int
    dtype : dtype
        Of the rows.
    rows : int
        Of a block.
    advance : callable
    """

    n_features: int
    n_outputs: int
    dtype: np.dtype
    rows: int
    advance: Advance = no_advance

    def blocks(self, source: Source) -> Iterator[Block]:
        """Yield the blocks of a source."""
        return typed_blocks(source, self.rows, self.dtype, self.advance)

    @property
    @abstractmethod
    def n_bytes(self) -> int:
        """Memory of a call."""

    def __call__(self, source: Source, features: Any) -> Moments:
        """Sum over the blocks."""
        return self.add(self.empty(), source, features)

    @abstractmethod
    def empty(self) -> Moments:
        """Moments of no rows."""

    @abstractmethod
    def add(self, moments: Moments, source: Source, features: Any) -> Moments:
        """Add all blocks of a source in place."""


@dataclass(frozen=True)
class SumMoments(Work):
    """The moments of dense features.

    Attributes
    ----------
    panels : bool
        Whether all threads share each product, so that shards follow on one another.
    """

    panels: bool = False

    @property
    def n_bytes(self) -> int:
        """Memory of a call."""
        columns, size = self.n_features + self.n_outputs + 1, self.dtype.itemsize
        return columns**2 * (8 + size) + self.rows * columns * size + READING_BYTES

    def empty(self) -> Moments:
        """Moments of no rows."""
        return Moments(self.n_features, self.n_outputs, self.dtype, self.panels)

    def add(self, moments: Moments, source: Source, features: DenseFeatures) -> Moments:
        """Add all blocks of a source in place."""
        workspace = moments.workspace(self.rows if source.n_rows is None else min(self.rows, source.n_rows))
        for X, y, weight in self.blocks(source):
            A = workspace[: len(y)]
            features.rows(X, out=A)
            moments.add_block(A, y, weight)
        return moments.trim()


class SumBins(Work):
    """The moments of hashed bins, which are added in double precision; threads share the panels of the Gram matrix."""

    @property
    def n_bytes(self) -> int:
        """Memory of a call."""
        return 8 * (self.n_features + self.n_outputs + 1) ** 2 + 2 * BLOCK_BYTES + READING_BYTES

    def empty(self) -> Moments:
        """Moments of no rows."""
        return Moments(self.n_features, self.n_outputs, np.float64)

    def add(self, moments: Moments, source: Source, features: FeatureMap) -> Moments:
        """Add all blocks of a source in place."""
        held = HeldBins(BLOCK_BYTES)
        for X, y, weight in self.blocks(source):
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


def require_factor_memory(n_bytes: int, n_features: int) -> None:
    """Raise MemoryError where the direct solution, of so many bytes, does not fit the memory that is free."""
    require_memory(n_bytes, f"Ridge regression on {n_features:,} features", "Use a smaller n_components.")
