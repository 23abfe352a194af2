"""Rows of a source, with something else made of each block of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bochner.data.array_source import Block, Source


@dataclass(frozen=True)
class ChangedRows:
    """A source whose rows and targets are functions of those of another one, block by block; a `Source`.

    Attributes
    ----------
    source : Source
    change : callable
        Turns a block into another one of as many rows.
    n_outputs : int
        Targets of these.
    """

    source: Source
    change: Callable[[Block], Block]
    n_outputs: int

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where that is not known."""
        return self.source.n_rows

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return self.source.n_parts

    def parts(self) -> Sequence[Source]:
        """Sources of one part each."""
        return [self.span(k, k + 1) for k in range(self.n_parts)]

    def span(self, first: int, stop: int) -> ChangedRows:
        """The rows of consecutive parts as one source."""
        return replace(self, source=self.source.span(first, stop))

    def blocks(self, rows: int) -> Iterator[Block]:
        """Yield all rows in order, at most `rows` at a time."""
        return map(self.change, self.source.blocks(rows))

    def whole(self) -> Block:
        """All rows as one block."""
        return self.change(self.source.whole())

    def sample(self, size: int, rng: np.random.Generator) -> ChangedRows:
        """A source of at most `size` rows, drawn by their weights."""
        return replace(self, source=self.source.sample(size, rng))
