"""One pass over all rows of a table: everything that must be known of them before
any choice is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from bochner.blocks import PART_BYTES
from bochner.data.table_statistic import (
    MOST_CATEGORIES,
    TableStatistic,
)
from bochner.engines.base import Engine
from bochner.engines.local import LOCAL, pause, prefetched, shards
from bochner.engines.progress import Advance, no_advance
from bochner.engines.sums import reduce
from bochner.scores.measures import require_scale
from bochner.settings import current
from bochner.sources.base import Part, SourceError, TableSource
from bochner.sources.rows import (
    PartChecksum,
    Roles,
    errors_from,
    inputs,
    no_rows,
    part_rows,
    rebatch,
)
from bochner.sources.table_summary import RowSample, TableSummary

LOOK_ENTRIES, SPARSE_ROWS = 1 << 21, 1 << 14  # of a block
FEWEST_ROWS, MOST_ROWS = 1 << 6, 1 << 16
# Of a category on all threads; of all categories
CATEGORY_BYTES, CATEGORIES_BYTES = 512, 1 << 32
CATEGORIES_SHARE, FEWEST_CATEGORIES = 0.25, 1 << 10  # of a memory limit; of a column


@dataclass(frozen=True)
class ScanPart:
    """The work of one shard: an overview of the rows of its parts.

    Attributes
    ----------
    schema : pyarrow.Schema or int
        Of the source.
    roles : Roles
    empty : TableSummary
        Of no rows.
    rows : int
        Of a block.
    ahead : bool
        Whether a thread reads ahead.
    most : int or None
        Rows to look at, at most.
    advance : callable
    """

    schema: pa.Schema | int
    roles: Roles
    empty: TableSummary
    rows: int
    ahead: bool = False
    most: int | None = None
    advance: Advance = no_advance

    @property
    def n_bytes(self) -> int:
        """Memory of a call, without its part of the sample."""
        return 4 * PART_BYTES

    def __call__(
        self, shard: tuple[Sequence[Part], int], shared: None = None
    ) -> TableSummary:
        """Look at the rows of the parts, of which the first has a number, in order."""
        overview, (parts, first) = deepcopy(self.empty), shard
        for part in parts:
            tally = PartChecksum()
            first_of_part = first
            rows = part_rows(part, self.schema, self.roles, tally)
            with closing(prefetched(rows) if self.ahead else rows) as read:
                for block in rebatch(read, self.rows):
                    pause()
                    if self.most is not None:
                        block = block.take(slice(self.most - overview.n_seen))
                    with errors_from(part, first - first_of_part):
                        overview.add(block, first)
                    first += block.X.shape[0]
                    self.advance(block.X.shape[0])
                    if overview.n_seen == self.most:
                        return overview
            overview.counts.append(tally.n_rows)
            overview.checksums.append(tally.checksum)
        return overview


def scan(
    source: TableSource,
    roles: Roles,
    labels: bool,
    seed: int,
    size: int,
    advance: Advance = no_advance,
    engine: Engine = LOCAL,
) -> TableSummary:
    """Look at all rows once, on all threads; or at the first ones only, where these
    stand for all.

    The same rows are drawn, and every figure has the same bits, on any number of
    threads and workers and in whatever batches the parts come. Where the parts do not
    know how many rows they have, they are looked at one after the other.

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
        Called with the number of rows done after each block, or after each shard that
        is done elsewhere.
    engine : Engine
        What looks at all rows; the first ones are looked at here.

    Returns
    -------
    TableSummary

    Raises
    ------
    SourceError
        Naming the part and the row, for columns, targets and weights from which nothing
        can be learned, and where there are no rows.
    """
    input_schema = inputs(source.schema, roles)
    counts = [part.n_rows for part in source.parts]
    partly = source.sample is not None
    apart = not partly and None not in counts
    edges = shards(len(counts), 1) if apart else [(0, len(counts))]
    firsts = np.cumsum([0, *(count or 0 for count in counts)])
    items = [(source.parts[a:b], int(firsts[a])) for a, b in edges]
    X = (
        np.empty((0, input_schema))
        if isinstance(input_schema, int)
        else input_schema.empty_table()
    )
    table = TableStatistic.of(sp.csr_array(X) if source.sparse else X)
    drawn = RowSample(size, seed, int(firsts[-1]) if apart else None)
    most = counted_categories(input_schema, current().memory_limit)
    empty = TableSummary(table, None, {} if labels else None, drawn, most)
    # A power of two that the number of columns decides
    rows = min(max(LOOK_ENTRIES // max(source.n_columns, 1), FEWEST_ROWS), MOST_ROWS)
    rows = SPARSE_ROWS if source.sparse else 1 << (rows.bit_length() - 1)
    work = ScanPart(
        source.schema, roles, empty, rows, len(items) == 1, source.sample, advance
    )
    if partly or not engine.is_remote:
        overview = reduce(LOCAL, items, work)
    else:
        # Other processes read ahead, and what is done there is told of here
        sizes = [sum(part.n_rows or 0 for part in parts) for parts, _ in items]
        there = replace(work, ahead=True, advance=no_advance)
        overview = reduce(engine, items, there, advance=lambda k: advance(sizes[k]))
    if partly:
        # Of rows that nobody has looked at only what the parts tell is known
        checksums = [None] * len(counts)
        overview = replace(overview, counts=counts, checksums=checksums)
    if not overview.n_seen:
        raise no_rows(source)
    if not overview.weight:
        raise SourceError(
            f"{source.what}: the weight is zero in every row; at least one must be "
            "positive"
        )
    try:
        require_scale(overview.largest_weight)
    except ValueError as error:
        raise SourceError(f"{source.what}: {error}") from None
    overview.settle()
    return overview


def counted_categories(schema: pa.Schema | int, memory_limit: int | None) -> int:
    """How many categories of a column are counted, such that all columns together
    stay within their share of memory.
    """
    if isinstance(schema, int):
        return MOST_CATEGORIES
    texts = sum(not pa.types.is_primitive(field.type) for field in schema)
    free = (
        CATEGORIES_BYTES
        if memory_limit is None
        else int(CATEGORIES_SHARE * memory_limit)
    )
    return max(
        min(free // (CATEGORY_BYTES * max(texts, 1)), MOST_CATEGORIES),
        FEWEST_CATEGORIES,
    )
