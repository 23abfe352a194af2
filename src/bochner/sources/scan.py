"""One pass over all rows of a table: everything that must be known of them before
any choice is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.blocks import PART_BYTES
from bochner.data.columns import levels
from bochner.data.hashes import uniform
from bochner.data.table_statistic import (
    MOST_CATEGORIES,
    Summary,
    TableStatistic,
    rounded,
)
from bochner.engines.base import Engine
from bochner.engines.local import LOCAL, in_threads, pause, prefetched, shards
from bochner.engines.progress import Advance, no_advance
from bochner.engines.sums import reduce
from bochner.scores.measures import require_scale
from bochner.settings import current
from bochner.sources.base import Batch, Part, SourceError, TableSource, total
from bochner.sources.rows import (
    MOST_PIECES,
    PartChecksum,
    Roles,
    inputs,
    joined,
    part_rows,
    rebatch,
)

SPARE = 1.25  # times as many rows as are wanted are held


class RowSample:
    """The rows with the smallest hashes of a seed and their number, in their order;
    those of two tables add up.

    Parameters
    ----------
    size : int
        Rows, at most.
    seed : int
    n_rows : int or None
        Of the whole table, where that is known: rows that will hardly be among the
        smallest are not even collected, so that each of many samples of parts is small.
    """

    def __init__(self, size: int, seed: int, n_rows: int | None = None) -> None:
        self.size = size
        self.seed = seed
        self.limit = 1.0 if n_rows is None else sure_limit(size, n_rows)
        self._pieces: list[Batch] = []
        self._hashes: list[NDArray] = []

    def add(self, rows: Batch, first: int) -> None:
        """Draw from the next rows, the first of which has this number."""
        numbers = np.arange(first, first + rows.X.shape[0], dtype=np.uint64)
        hashes = uniform(numbers, self.seed)
        index = np.flatnonzero(hashes <= self.limit)
        if len(index):
            self._pieces.append(rows.take(index))
            self._hashes.append(hashes[index])
            self._leave_out()

    def __iadd__(self, other: RowSample) -> RowSample:
        self._pieces += other._pieces
        self._hashes += other._hashes
        self.limit = min(self.limit, other.limit)
        self._leave_out()
        return self

    @property
    def batch(self) -> Batch:
        """The rows, at least one."""
        self._leave_out(most_pieces=1, spare=1)
        return self._pieces[0]

    def _leave_out(self, most_pieces: int = MOST_PIECES, spare: float = SPARE) -> None:
        """Make one piece of too many, of no more than the smallest."""
        count = sum(map(len, self._hashes))
        if len(self._pieces) <= most_pieces and count <= spare * self.size:
            return
        rows = joined(self._pieces, copied=True)
        hashes = np.concatenate(self._hashes)
        if count > self.size:
            self.limit = np.partition(hashes, self.size - 1)[self.size - 1]
            index = np.flatnonzero(hashes <= self.limit)
            rows = rows.take(index)
            hashes = hashes[index]
        self._pieces = [rows]
        self._hashes = [hashes]


def sure_limit(size: int, n_rows: int) -> float:
    """A number below which lie the `size` smallest of `n_rows` random ones from 0 to 1,
    but once in 10^15 times.

    Their number below it is binomial, with mean m = s + 8 sqrt(s) + 64, which exceeds s
    by 8 deviations.
    """
    mean = size + 8 * math.sqrt(size) + 64
    return 1.0 if mean >= n_rows else mean / n_rows


MOST_LABELS = 1 << 16


@dataclass
class TableSummary:
    """What all rows are like; those of two tables add up.

    Attributes
    ----------
    table : TableStatistic
        Of the columns to learn from.
    targets : Summary or None
        Of targets that are numbers, one part for each.
    classes : dict of label to float, or None
        Weight of each label, where targets are labels, in the order in which they come.
    n_seen : int
        Rows that have been looked at.
    weight, largest_weight : float
        Of the rows that have been looked at.
    drawn : RowSample
    most_categories : int
        Of a column, to be counted; beyond that the heaviest are found, see
        `TableStatistic`.
    counts : list of int or None
        Rows of each part; None where these are not known, as not all rows have been
        looked at.
    checksums : list of int or None
        Of the content of each part; None where not all rows have been looked at.
    """

    table: TableStatistic
    targets: Summary | None
    classes: dict[Any, float] | None
    drawn: RowSample
    most_categories: int
    counts: list[int | None] = field(default_factory=list)
    checksums: list[int | None] = field(default_factory=list)
    n_seen: int = 0
    weight: float = 0.0
    largest_weight: float = 0.0

    @property
    def n_rows(self) -> int | None:
        """Number of all rows; None where it is not known."""
        return total(self.counts)

    @property
    def sample(self) -> Batch:
        """Rows with the smallest hashes of a seed and their number, in their order;
        X without targets and weights.
        """
        return self.drawn.batch

    def add(self, rows: Batch, first: int) -> None:
        """Look at the next rows, the first of which has this number."""
        X, y, weight, _ = rows
        n = X.shape[0]
        weight = np.ones(n) if weight is None else weight
        self.table += TableStatistic.of(X, weight, kinds=self.table.expected())
        self.table.keep_heaviest(self.most_categories)
        columns = None if y is None else y.reshape(n, -1)
        if columns is not None and self.classes is not None:
            if columns.shape[1] != 1:
                raise SourceError(f"labels must be one column, not {columns.shape[1]}")
            self._add_labels(label_weights(columns[:, 0], weight))
        elif columns is not None:
            if columns.dtype == object:
                raise SourceError(
                    "the target holds text; for classes use KernelMachineClassifier"
                )
            counts = weight > 0
            summary = Summary.of(columns[counts].astype(np.float64), weight[counts])
            self.targets = _sum(self.targets, summary)
        self.drawn.add(rows, first)
        self.n_seen += n
        self.weight += float(weight.sum())
        self.largest_weight = max(self.largest_weight, float(weight.max()))

    def settle(self) -> None:
        """Round what was added up, so that neither parts nor their order change
        anything that is chosen by it.
        """
        self.table = replace(self.table, summary=self.table.summary.rounded())
        self.targets = None if self.targets is None else self.targets.rounded()
        if self.classes is not None:
            self.classes = {
                label: float(rounded(weight, weight))
                for label, weight in self.classes.items()
            }
        self.weight = float(rounded(self.weight, self.weight))

    def __iadd__(self, other: TableSummary) -> TableSummary:
        self.table += other.table
        self.table.keep_heaviest(self.most_categories)
        self.drawn += other.drawn
        self.targets = _sum(self.targets, other.targets)
        if self.classes is not None and other.classes is not None:
            self._add_labels(other.classes)
        self.counts += other.counts
        self.checksums += other.checksums
        self.n_seen += other.n_seen
        self.weight += other.weight
        self.largest_weight = max(self.largest_weight, other.largest_weight)
        return self

    def _add_labels(self, weights: dict[Any, float]) -> None:
        classes = self.classes if self.classes is not None else {}
        for label, weight in weights.items():
            classes[label] = classes.get(label, 0.0) + weight
        if len(classes) > MOST_LABELS:
            raise SourceError(
                f"the target has more than {MOST_LABELS:,} different labels; for "
                "numbers use KernelMachineRegressor"
            )


def _sum(a: Summary | None, b: Summary | None) -> Summary | None:
    return b if a is None else a if b is None else a + b


def label_weights(y: NDArray, weight: NDArray) -> dict[Any, float]:
    """Weight of each label, in the order in which they come."""
    codes: Any
    try:
        labels, codes = levels(pa.array(y))
    except (pa.ArrowException, TypeError):  # objects of several kinds
        places: dict[Any, int] = {}
        codes = [places.setdefault(label, len(places)) for label in y.tolist()]
        labels = list(places)
    return dict(
        zip(labels, np.bincount(codes, weight, len(labels)).tolist(), strict=True)
    )


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
                    try:
                        overview.add(block, first)
                    except ValueError as error:
                        row = first - first_of_part
                        raise SourceError(
                            f"{part.name}, counted from row {row:,}: {error}"
                        ) from error
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
        raise _no_rows(source)
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


def _no_rows(source: TableSource) -> SourceError:
    return SourceError(
        f"{source.what}: there are no rows; there is nothing to learn from"
    )


def read_all(source: TableSource, roles: Roles) -> Batch:
    """All rows in memory: what `fit` takes.

    Returns
    -------
    Batch
        X is a pyarrow.Table, an array or a CSR matrix; y an array, and weight one or
        None.

    Raises
    ------
    SourceError
        As of `look`.
    """
    inputs(source.schema, roles)

    def read(part: Part) -> list[Batch]:
        return list(part_rows(part, source.schema, roles, PartChecksum()))

    pieces = [rows for part in in_threads(read, source.parts) for rows in part]
    if not pieces:
        raise _no_rows(source)
    return joined(pieces)
