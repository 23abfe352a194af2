"""Rows of a table as features are computed of them: encoded, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.data.sources import ArraySource, Block
from bochner.data.streams.base import TableSource
from bochner.data.streams.roles import Roles


@dataclass(frozen=True)
class StreamSource:
    """Rows of a table that is read anew in every pass; a `Source`.

    Blocks have as many rows as is asked for whatever the parts and their batches are, but at the end of a span.

    Attributes
    ----------
    table : TableSource
    roles : Roles
    encode : callable
        Turns the X of a batch into a matrix of numbers.
    targets : callable
        Turns the y of a batch into an array of shape (b, K).
    counts : tuple of int
        Rows of each part.
    checksums : tuple of int or None
        Of each part, with which what is read is compared; None where that is not wanted.
    gathered : ArraySource
        A sample of the rows in memory, encoded already; what `sample` draws from.
    total_weight : float
    """

    table: TableSource
    roles: Roles
    encode: Callable[[Any], Any]
    targets: Callable[[Any], NDArray]
    counts: tuple[int, ...]
    checksums: tuple[int, ...] | None
    gathered: ArraySource
    total_weight: float

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.counts)

    @property
    def n_outputs(self) -> int:
        """Number K of targets."""
        return self.gathered.n_outputs

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self.counts)

    def parts(self) -> Sequence[StreamSource]:
        """Sources of one part each."""
        return [self.span(k, k + 1) for k in range(self.n_parts)]

    def span(self, first: int, stop: int) -> StreamSource:
        """The rows of consecutive parts as one source."""
        raise NotImplementedError

    def blocks(self, rows: int) -> Iterator[Block]:
        """Yield all rows in order, at most `rows` at a time."""
        raise NotImplementedError

    def whole(self) -> Block:
        """All rows as one block."""
        raise NotImplementedError

    def sample(self, size: int, rng: np.random.Generator) -> ArraySource:
        """A source of at most `size` of the rows, drawn by their weights from the sample in memory."""
        return self.gathered.sample(size, rng)
