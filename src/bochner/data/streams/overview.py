"""One look at all rows of a table: everything that must be known of them before any choice is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from bochner.data.streams.base import READ_BYTES, Batch, Part, SourceError, TableSource
from bochner.data.streams.checksums import Tally
from bochner.data.streams.folders import require_seen
from bochner.data.streams.roles import Roles, Rows, inputs
from bochner.data.streams.rows import cut, joined, part_rows, recut
from bochner.data.streams.samples import RowSample
from bochner.data.streams.totals import Overview
from bochner.data.table_statistic import MOST_CATEGORIES, TableStatistic
from bochner.engines.base import Engine, reduce
from bochner.engines.local import LOCAL, in_threads, pause, shards
from bochner.engines.prefetch import prefetched
from bochner.engines.progress import Advance, no_advance
from bochner.scores.rows import require_scale
from bochner.settings import current

LOOK_ENTRIES, SPARSE_ROWS = 1 << 21, 1 << 14  # of a block
FEWEST_ROWS, MOST_ROWS = 1 << 6, 1 << 16
CATEGORY_BYTES, CATEGORIES_BYTES = 512, 1 << 32  # of a category on all threads; of all categories
CATEGORIES_SHARE, FEWEST_CATEGORIES = 0.25, 1 << 10  # of a memory limit; of a column


@dataclass(frozen=True)
class Shard:
    """Consecutive parts, and the number of their first row."""

    parts: Sequence[Part]
    first: int


@dataclass(frozen=True)
class Look:
    """The work of one shard: an overview of the rows of its parts.

    Attributes
    ----------
    schema : pyarrow.Schema or int
        Of the source.
    roles : Roles
    labels, sparse : bool
    sample : tuple
        Size, seed and number of all rows, as of `RowSample`.
    most_categories : int
    ahead : bool
        Whether a thread reads ahead.
    most : int or None
        Rows to look at, at most.
    advance : callable
    elsewhere : bool
        Whether another process than that of the caller does it.
    """

    schema: pa.Schema | int
    roles: Roles
    labels: bool
    sparse: bool
    sample: tuple[int, int, int | None]
    most_categories: int
    ahead: bool = False
    most: int | None = None
    advance: Advance = no_advance
    elsewhere: bool = False

    @property
    def rows(self) -> int:
        """Rows of a block: a power of two that the number of columns decides."""
        if self.sparse:
            return SPARSE_ROWS
        columns = self.schema if isinstance(self.schema, int) else len(self.schema)
        return 1 << (min(max(LOOK_ENTRIES // max(columns, 1), FEWEST_ROWS), MOST_ROWS).bit_length() - 1)

    @property
    def n_bytes(self) -> int:
        """Memory of a call, without its part of the sample."""
        return 4 * READ_BYTES

    def __call__(self, shard: Shard, shared: None = None) -> Overview:
        """Look at the rows of the parts, in order."""
        overview, first = self._empty(), shard.first
        if self.elsewhere:
            require_seen(shard.parts)
        for part in shard.parts:
            tally = Tally()
            rows = part_rows(part, self.schema, self.roles, tally)
            with closing(prefetched(rows) if self.ahead else rows) as read:
                if self._add_part(overview, part, read, first):
                    break
            overview.end_part(tally)
            first += tally.n_read
        return overview

    def _empty(self) -> Overview:
        left = inputs(self.schema, self.roles)
        X = np.empty((0, left)) if isinstance(left, int) else left.empty_table()
        table = TableStatistic.of(sp.csr_array(X) if self.sparse else X)
        return Overview(table, None, {} if self.labels else None, RowSample(*self.sample), self.most_categories)

    def _add_part(self, overview: Overview, part: Part, rows: Iterator[Rows], first: int) -> bool:
        """Look at the rows of a part; whether no more are wanted."""
        for block in recut(rows, self.rows):
            pause()
            if self.most is not None:
                block = cut(block, 0, min(len(block.number), self.most - overview.n_seen))
            try:
                overview.add(block, first)
            except ValueError as error:
                raise SourceError(f"{part.name}, counted from row {block.number[0]:,}: {error}") from error
            self.advance(len(block.number))
            if overview.n_seen == self.most:
                return True
        return False


def look(
    source: TableSource,
    roles: Roles,
    labels: bool,
    seed: int,
    size: int,
    advance: Advance = no_advance,
    engine: Engine = LOCAL,
) -> Overview:
    """Look at all rows once, on all threads; or at the first ones only, where these stand for all.

    The same rows are drawn, and every figure has the same bits, on any number of threads and workers and in whatever
    batches the parts come. Where the parts do not know how many rows they have, they are looked at one after the other.

    Parameters
    ----------
    source : TableSource
    roles : Roles
    labels : bool
        Whether the targets are labels, which are counted, not numbers.
    seed : int
        Of the sample.
    size : int
        Rows of the sample, at most.
    advance : callable, optional
        Called with the number of rows done after each block, or after each shard that is done elsewhere.
    engine : Engine
        What looks at all rows; the first ones are looked at here.

    Returns
    -------
    Overview

    Raises
    ------
    SourceError
        Naming the part and the row, for columns, targets and weights from which nothing can be learned, and where there
        are no rows.
    """
    left = inputs(source.schema, roles)
    counts, partly = [part.n_rows for part in source.parts], source.sample is not None
    apart = not partly and None not in counts
    edges = shards(len(counts), 1) if apart else [(0, len(counts))]
    firsts = np.cumsum([0, *(count or 0 for count in counts)]) if apart else [0]
    items = [Shard(source.parts[a:b], int(firsts[a])) for a, b in edges]
    sample = size, seed, int(firsts[-1]) if apart and roles.without != "drop" else None
    most = counted_categories(left, current().memory_limit)
    work = Look(source.schema, roles, labels, source.sparse, sample, most, len(items) == 1, source.sample, advance)
    overview = reduce(LOCAL, items, work) if partly or not engine.is_remote else _afar(engine, items, work)
    if partly:
        overview.cut_short(counts if roles.without != "drop" else [None] * len(counts))
    _require_rows(overview, source)
    overview.settle()
    return overview


def _afar(engine: Engine, items: Sequence[Shard], work: Look) -> Overview:
    """The same work in other processes, each of which reads ahead; what is done is told of here."""
    rows = [sum(part.n_rows or 0 for part in item.parts) for item in items]
    there = replace(work, ahead=True, advance=no_advance, elsewhere=True)
    return reduce(engine, items, there, advance=lambda k: work.advance(rows[k]))


def counted_categories(schema: pa.Schema | int, memory_limit: int | None) -> int:
    """How many categories of a column are counted, such that all columns together stay within their share of memory."""
    if isinstance(schema, int):
        return MOST_CATEGORIES
    texts = sum(not pa.types.is_primitive(field.type) for field in schema)
    free = CATEGORIES_BYTES if memory_limit is None else int(CATEGORIES_SHARE * memory_limit)
    return max(min(free // (CATEGORY_BYTES * max(texts, 1)), MOST_CATEGORIES), FEWEST_CATEGORIES)


def _require_rows(overview: Overview, source: TableSource) -> None:
    if not overview.n_seen:
        why = "every target is missing" if overview.n_dropped else "there are no rows"
        raise SourceError(f"{source.what}: {why}; there is nothing to learn from")
    if not overview.weight:
        raise SourceError(f"{source.what}: the weight is zero in every row; at least one must be positive")
    try:
        require_scale(overview.largest_weight)
    except ValueError as error:
        raise SourceError(f"{source.what}: {error}") from None


def gathered(source: TableSource, roles: Roles) -> Batch:
    """All rows in memory: what `fit` takes.

    Returns
    -------
    Batch
        X is a pyarrow.Table, an array or a CSR matrix; y an array, and weight one or None.

    Raises
    ------
    SourceError
        As of `look`.
    """
    inputs(source.schema, roles)
    tallies = [Tally() for _ in source.parts]

    def read(k: int) -> list[Rows]:
        return list(part_rows(source.parts[k], source.schema, roles, tallies[k]))

    pieces = [rows for part in in_threads(read, range(len(source.parts))) for rows in part]
    if not pieces:
        why = "every target is missing" if any(tally.n_read for tally in tallies) else "there are no rows"
        raise SourceError(f"{source.what}: {why}; there is nothing to learn from")
    return Batch(*joined(pieces)[:3])
