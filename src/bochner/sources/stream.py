"""Rows of a table, read anew in each pass and encoded as numbers, block by block,
before a map sees them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource, Block
from bochner.data.weights import unit_weights
from bochner.engines.local import prefetched
from bochner.sources.base import Batch, Part, SourceError, TableSource, total
from bochner.sources.rows import (
    PartChecksum,
    Roles,
    errors_from,
    joined,
    part_rows,
    rebatch,
)


@dataclass(frozen=True)
class PartRange:
    """Consecutive parts of a source, with nothing else of it: what is sent to those who
    read them.

    Attributes
    ----------
    parts : tuple of Part
    counts : tuple of int or None
    checksums : tuple of int or None
    """

    parts: tuple[Part, ...]
    counts: tuple[int | None, ...]
    checksums: tuple[int | None, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows, as far as it is known."""
        return sum(count or 0 for count in self.counts)


def even_ranges(sizes: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Cut consecutive things into at most `most` ranges, of about the same size: where
    they begin and stop.
    """
    ends = np.cumsum(sizes)
    inner = [
        int(np.abs(ends - ends[-1] * k / most).argmin()) + 1 for k in range(1, most)
    ]
    return list(pairwise(sorted({0, *inner, len(sizes)})))


@dataclass(frozen=True)
class StreamSource:
    """Rows of a table that is read again in every pass; a `Source`.

    Blocks have as many rows as is asked for whatever the parts and their batches are,
    but at the end of a span.

    Attributes
    ----------
    table : TableSource
    roles : Roles
    encode : callable
        Turns the X of a batch into a matrix of numbers.
    targets : callable
        Turns the y of a batch into an array of shape (b, K).
    counts : tuple of int or None
        Rows of each part; None where these are not known.
    checksums : tuple of int or None
        Of each part, with which what is read is compared; None where these are not
        known.
    gathered : ArraySource
        A sample of the rows in memory, encoded already; what `sample` draws from.
    total_weight : float or None
        None where it is not known.
    ahead : bool
        Whether a thread reads the next rows while the present ones are worked on: for a
        single consumer.
    """

    table: TableSource
    roles: Roles
    encode: Callable[[Any], Any]
    targets: Callable[[Any], NDArray]
    counts: tuple[int | None, ...]
    checksums: tuple[int | None, ...]
    gathered: ArraySource
    total_weight: float | None = None
    ahead: bool = False

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where that is not known."""
        return total(self.counts)

    @property
    def n_outputs(self) -> int:
        """Number K of targets."""
        return self.gathered.n_outputs

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self.counts)

    def span(self, first: int, stop: int) -> StreamSource:
        """The rows of consecutive parts as one source."""
        return self.with_parts(self.part_range(first, stop))

    def part_range(self, first: int, stop: int) -> PartRange:
        """Consecutive parts, to be sent."""
        part = slice(first, stop)
        return PartRange(
            self.table.parts[part], self.counts[part], self.checksums[part]
        )

    def part_ranges(self, most: int) -> list[PartRange]:
        """All parts, in at most `most` groups of consecutive ones, of about equally
        many rows.
        """
        sizes = [1 if self.n_rows is None else count or 0 for count in self.counts]
        return [self.part_range(*edges) for edges in even_ranges(sizes, most)]

    def without_parts(self) -> StreamSource:
        """Return the source without parts, and with one row of the sample: what is
        sent once for all spans of it.
        """
        first = ArraySource(*self.gathered.take(slice(0, 1)).whole())
        without = self.with_parts(PartRange((), (), ()))
        return replace(without, gathered=first, ahead=True)

    def with_parts(self, span: PartRange) -> StreamSource:
        """The rows of a span."""
        return replace(
            self,
            table=replace(self.table, parts=span.parts),
            counts=span.counts,
            checksums=span.checksums,
            total_weight=None,
        )

    def blocks(self, rows: int) -> Iterator[Block]:
        """Yield all rows in order, `rows` at a time; fewer only at the end.

        Raises
        ------
        SourceError
            Where rows cannot be read, or are others than in the first pass.
        """
        starts: list[int] = []
        done = 0
        rows_of_parts = self._rows(starts)
        if self.ahead:
            rows_of_parts = prefetched(rows_of_parts)
        with closing(rows_of_parts) as read:
            for X, y, weight, _ in rebatch(read, rows):
                n = X.shape[0]
                k = bisect_right(starts, done) - 1
                with errors_from(self.table.parts[k], done - starts[k]):
                    X = self.encode(X)
                y = np.empty((n, 0)) if y is None else self.targets(y)
                yield Block(X, y, unit_weights(n) if weight is None else weight)
                done += n

    def whole(self) -> Block:
        """All rows as one block, its weights an array that BLAS takes."""
        block = joined(list(self.blocks(1 << 16)))
        return block._replace(weight=np.ascontiguousarray(block.weight))

    def sample(self, size: int, rng: np.random.Generator) -> ArraySource:
        """A source of at most `size` of the rows, drawn by their weights from the
        sample in memory.
        """
        return self.gathered.sample(size, rng)

    def _rows(self, starts: list[int]) -> Generator[Batch]:
        """Yield the rows as they come, and note how many there are before each part."""
        done = 0
        for k, part in enumerate(self.table.parts):
            starts.append(done)
            tally = PartChecksum()
            yield from part_rows(part, self.table.schema, self.roles, tally)
            done += tally.n_rows
            are_as_many = self.counts[k] in (None, tally.n_rows)
            if not are_as_many or self.checksums[k] not in (None, tally.checksum):
                raise SourceError(
                    f"{part.name}: the rows or their order differ from the first "
                    "pass; give the same rows each time"
                )
