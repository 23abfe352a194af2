"""The sums of a pass over the rows of a source, seen through a map, and the memory
that they take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from bochner.data.array_source import Block, Source
from bochner.engines.local import limited, pause, require_memory
from bochner.engines.progress import Advance, no_advance

OWN_MOMENTS_FEATURES = 4096


@dataclass(frozen=True)
class Blocks:
    """The blocks of a source, in any number of passes.

    Attributes
    ----------
    source : Source
    rows : int
        Of a block.
    dtype : dtype, optional
        To which rows are converted.
    advance : callable
        Called with the number of rows of each block that is done.
    """

    source: Source
    rows: int
    dtype: np.dtype | None = None
    advance: Advance = no_advance

    most_bytes: ClassVar[int] = 64 << 20  # of a block
    # Of a thread that reads and decodes its rows, about
    reading_bytes: ClassVar[int] = 64 << 20

    def __iter__(self) -> Iterator[Block]:
        for block in self.source.blocks(self.rows):
            pause()  # work may be left between two of them
            dtype = block.X.dtype if self.dtype is None else self.dtype
            yield block._replace(X=block.X.astype(dtype, copy=False))
            self.advance(len(block.weight))


@dataclass(frozen=True)
class SumOverRows:
    """The work of a shard: a statistic of the rows of a source, seen through a map.

    Attributes
    ----------
    empty : callable
        Returns the statistic of no rows. It has ``add(features, blocks)`` for rows that
        are seen through a map, and ``+=`` for the sums over other rows.
    rows : int
        Of a block.
    n_bytes : int
        Memory of a call.
    dtype : dtype, optional
        To which rows are converted.
    advance : callable
        Called with the number of rows of each block.
    """

    empty: Callable[[], Any]
    rows: int
    n_bytes: int
    dtype: np.dtype | None = None
    advance: Advance = no_advance

    def __call__(self, rows: Any, shared: tuple[Any, Any]) -> Any:
        """The sum over a shard.

        Parameters
        ----------
        rows : Source, or PartRange
        shared : (source, features)
            The source without its parts, where the rows are a range of those parts, as
            for other processes; else None.
        """
        source, features = shared
        rows = rows if source is None else source.with_parts(rows)
        total = self.empty()
        total.add(features, Blocks(rows, self.rows, self.dtype, self.advance))
        return total


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

    It is that of the moments, `n_sums` sums of them at a time (three at least, or one
    for many features), a product and blocks, and of the factorisation, which takes the
    place of a large sum; or of the rows' features and their kernel matrix, where there
    are fewer rows than features.
    """
    size = np.dtype(dtype).itemsize
    block = limited(Blocks.most_bytes)
    blocks = 2 * block if blocks is None else blocks
    if n_rows < n_features:
        kernel = (n_rows + n_outputs + 1) ** 2 * (5 * 8 + size)
        return kernel + 3 * n_rows * n_features * size
    held = 1 if n_features > OWN_MOMENTS_FEATURES else max(n_sums, 3)
    columns = n_features + n_outputs + 1
    if binned:
        return columns**2 * held * 8 + blocks + block
    return columns**2 * (held * 8 + size) + blocks


def require_factor_memory(n_bytes: int, n_features: int) -> None:
    """Raise MemoryError where the direct solution, of `n_bytes` bytes, does not fit
    the memory that is free.
    """
    require_memory(
        n_bytes,
        f"Ridge regression on {n_features:,} features",
        "Use a smaller n_components.",
    )
