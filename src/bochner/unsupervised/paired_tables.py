"""Two tables of the same rows, in memory or read side by side in passes, and the
moments of the features of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource
from bochner.data.columns import unmasked
from bochner.data.hashes import row_hashes, uniform
from bochner.data.table import TableEncoder
from bochner.data.table_input import as_table_or_matrix, checked_matrix, is_frame
from bochner.data.weights import weights_of
from bochner.design.design import Design
from bochner.design.moments import Moments
from bochner.design.reductions import (
    Blocks,
    SumOverRows,
    factor_bytes,
    require_factor_memory,
)
from bochner.engines.base import Engine
from bochner.engines.local import LOCAL
from bochner.engines.progress import Advance
from bochner.features.base import DenseFeatures, FeatureMap
from bochner.inputs.opened import Given, Stream, columns_apart, open_data
from bochner.sources.memory import of_arrays
from bochner.sources.opening import is_streamed
from bochner.sources.rows import Roles
from bochner.sources.stream import PartRange


def given_pair(X: Any, y: Any, sample_weight: Any) -> tuple[Given, Given]:
    """Both tables in memory, or both as streams.

    Raises
    ------
    ValueError, TypeError
        Where there is no second table; where weights that are a column of files are not
        known of the other table.
    """
    named = isinstance(sample_weight, str)
    X, y = columns_apart(X, y, sample_weight if named else None)
    first = open_data(X, None, sample_weight)
    second = open_data(y, None, sample_weight if named and is_streamed(y) else None)
    if second.stream is None:
        second = second._replace(X=second_table(second.X))
    if first.stream is not None and second.stream is None:
        if named and second.weight is None:
            raise ValueError(
                f"The weights are the column {sample_weight!r} of X, which is read "
                "in passes, and y has none: give y "
                "as a source with this column, or by the names of columns of X."
            )
        return first, _streamed(second)
    if first.stream is None and second.stream is not None:
        return _streamed(first), second
    return first, second


def _streamed(table: Given) -> Given:
    """A table in memory as a stream."""
    return table._replace(
        stream=Stream(of_arrays(table.X, None, table.weight), Roles(None))
    )


def second_table(y: Any) -> Any:
    """The second table, checked; one column as a table of one."""
    if y is None:
        raise ValueError(
            "KernelCCA requires y to be passed, but the target y is None: give the "
            "second table."
        )
    if not is_frame(y) and not sp.issparse(y):
        y = np.asarray(unmasked(y if hasattr(y, "ndim") else np.asarray(y)))
        y = y.reshape(-1, 1) if y.ndim == 1 else y
    y = as_table_or_matrix(y)
    return y if is_frame(y) else checked_matrix(y.tocsr() if sp.issparse(y) else y)


class Hashed(NamedTuple):
    """Encoded rows of shape (b, d), and the hashes of what they were, shape (b,)."""

    X: Any
    hashes: NDArray[np.uint64]


@dataclass(frozen=True)
class HashedEncode:
    """Encodes rows and hashes them; a class, that it may go to other processes.

    Attributes
    ----------
    encoder : TableEncoder
    dtype : dtype
    """

    encoder: TableEncoder
    dtype: np.dtype

    def __call__(self, X: Any) -> Hashed:
        """Encoded rows and their hashes."""
        return Hashed(self.encoder.encode(X, self.dtype), row_hashes(X))


class PairSpan(NamedTuple):
    """Parts of two tables that hold one set of rows, to be sent."""

    x: PartRange
    y: PartRange

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.x.n_rows


class PairBlock(NamedTuple):
    """Consecutive rows of both tables, encoded, their weights, and hashes of what
    they are in the first one.
    """

    X: Any
    y: Any
    weight: NDArray
    hashes: NDArray[np.uint64]


@dataclass(frozen=True)
class Pairs:
    """Two tables of the same rows.

    Attributes
    ----------
    x, y : ArraySource or StreamSource
        Both of the same number of rows; that of x gives `Hashed` rows.
    """

    x: Any
    y: Any

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.x.n_rows

    @property
    def n_parts(self) -> int:
        """Number of parts that are the same rows of both tables."""
        if isinstance(self.x, ArraySource) and isinstance(self.y, ArraySource):
            return self.x.n_parts
        same = getattr(self.x, "counts", 0) == getattr(self.y, "counts", 1)
        return self.x.n_parts if same else 1

    def span(self, first: int, stop: int) -> Pairs:
        """The rows of consecutive parts."""
        if self.n_parts == 1:
            return self
        return Pairs(self.x.span(first, stop), self.y.span(first, stop))

    def part_range(self, first: int, stop: int) -> PairSpan:
        """Consecutive parts, to be sent."""
        return PairSpan(self.x.part_range(first, stop), self.y.part_range(first, stop))

    def without_parts(self) -> Pairs:
        """Both tables without their parts, as `StreamSource.without_parts` has them."""
        return Pairs(self.x.without_parts(), self.y.without_parts())

    def with_parts(self, span: PairSpan) -> Pairs:
        """The rows of a span, in the process that reads them."""
        return Pairs(self.x.with_parts(span.x), self.y.with_parts(span.y))

    def blocks(self, rows: int) -> Iterator[PairBlock]:
        """Yield all rows in order, at most `rows` at a time.

        Raises
        ------
        ValueError
            Where the weights of the two tables differ.
        """
        for first, second in zip(self.x.blocks(rows), self.y.blocks(rows), strict=True):
            if not np.array_equal(first.weight, second.weight):
                raise ValueError(
                    "The weights of X and y differ: give both tables the same ones, "
                    "row by row."
                )
            yield PairBlock(first.X.X, second.X, first.weight, first.X.hashes)


class Halves:
    """Moments of the features of two halves of the rows, those of y as targets; they
    add up.

    The hashes of rows decide their half, so that equal rows are in one.

    Parameters
    ----------
    sizes : (int, int)
        Features of the tables.
    dtype : dtype
    seed : int
        Of the halves.
    shared : bool
        Whether all threads make each product.
    """

    def __init__(
        self, sizes: tuple[int, int], dtype: np.dtype, seed: int, shared: bool = False
    ) -> None:
        self.first, self.second = (Moments(*sizes, dtype, shared) for _ in range(2))
        self.seed = seed

    def add(
        self, maps: tuple[DenseFeatures, DenseFeatures], blocks: Iterable[PairBlock]
    ) -> None:
        """Add the rows of some blocks, seen through a map for each table."""
        workspace = None
        for block in blocks:
            if workspace is None:
                workspace = self.first.workspace(len(block.weight))
            in_first = uniform(block.hashes, self.seed) < 0.5
            for moments, is_in in ((self.first, in_first), (self.second, ~in_first)):
                rows = np.flatnonzero(is_in & (block.weight > 0))
                if len(rows):
                    A = workspace[: len(rows)]
                    maps[0].rows(block.X[rows], out=A)
                    B = maps[1].rows(block.y[rows])
                    moments.add_block(A, B, weights_of(block.weight, rows))

    def __iadd__(self, other: Halves) -> Halves:
        self.first += other.first
        self.second += other.second
        return self


def sum_halves(
    pairs: Pairs,
    maps: tuple[FeatureMap, FeatureMap],
    dtype: np.dtype,
    seed: int,
    engine: Engine,
    advance: Advance,
) -> Halves:
    """The moments of both halves of the rows in one pass, to the same bits on any
    number of threads and workers.

    Raises
    ------
    MemoryError
        Before the pass, where the moments would not fit in memory that is free.
    """
    engine = engine if pairs.n_parts > 1 else LOCAL
    designs = [
        Design(pairs, features, dtype, advance, engine=engine) for features in maps
    ]
    sizes = maps[0].n_features_out, maps[1].n_features_out
    columns = sum(sizes) + 1
    wide = max(designs, key=lambda design: design.features.n_features_out)
    spans = wide.spans()
    rows = max(256, min(design.block_rows for design in designs) // 2)
    n_sums = 2 * len(spans).bit_length()
    n_bytes = factor_bytes(columns - 1, columns - 1, 0, dtype, n_sums=n_sums)
    require_factor_memory(n_bytes, columns - 1)
    empty = partial(Halves, sizes, dtype, seed, wide.has_one_sum or len(spans) == 1)
    size = dtype.itemsize
    n_bytes = 2 * columns * (columns * (8 + size) + rows * size) + Blocks.reading_bytes
    work = SumOverRows(empty, rows, n_bytes)
    return wide.reduce(work, (designs[0].dense, designs[1].dense), spans)
