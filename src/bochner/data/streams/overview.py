"""One look at all rows of a table: everything that must be known of them before any choice is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.streams.base import READ_BYTES, Batch, Part, SourceError, TableSource
from bochner.data.streams.checksums import Tally
from bochner.data.streams.roles import Roles, Rows, inputs
from bochner.data.streams.rows import cut, joined, part_rows, recut
from bochner.data.streams.samples import RowSample
from bochner.data.table_statistic import Summary, TableStatistic
from bochner.data.weights import unit_weights
from bochner.engines.base import reduce
from bochner.engines.local import LOCAL, in_threads, pause, shards
from bochner.engines.prefetch import prefetched

LOOK_ENTRIES, SPARSE_ROWS = 1 << 21, 1 << 14  # of a block
FEWEST_ROWS, MOST_ROWS = 1 << 6, 1 << 16
MOST_LABELS = 1 << 16
Advance = Callable[[int], None]


def no_advance(rows: int) -> None:
    """Tell nobody of the rows that are done."""


@dataclass
class Overview:
    """What all rows are like; those of two tables add up.

    Rows whose target is missing do not count, where they are dropped.

    Attributes
    ----------
    table : TableStatistic
        Of the columns to learn from.
    targets : Summary or None
        Of targets that are numbers, one part for each.
    classes : dict of label to float, or None
        Weight of each label, where targets are labels, in the order in which they come.
    n_seen, n_dropped : int
        Rows that have been looked at, and those without a target beside them.
    weight, largest_weight : float
        Of the rows that have been looked at.
    drawn : RowSample
    counts : list of int or None
        Rows of each part; None where these are not known, as not all rows have been looked at.
    checksums : list of int, or None
        Of the content of each part, where all rows have been looked at.
    """

    table: TableStatistic
    targets: Summary | None
    classes: dict[Any, float] | None
    drawn: RowSample
    counts: list[int | None]
    checksums: list[int] | None
    n_seen: int = 0
    n_dropped: int = 0
    weight: float = 0.0
    largest_weight: float = 0.0

    @property
    def n_rows(self) -> int | None:
        """Number of all rows; None where it is not known."""
        return None if None in self.counts else sum(count or 0 for count in self.counts)

    @property
    def sample(self) -> Batch:
        """Rows with the smallest hashes of a seed and their number, in their order; X without targets and weights."""
        return self.drawn.batch

    def add(self, rows: Rows, first: int) -> None:
        """Look at the next rows of a part whose first row has this number."""
        X, y, weight, number = rows
        self.table += TableStatistic.of(X, weight, kinds=self.table.expected())
        if y is not None:
            self._add_targets(y, unit_weights(len(y)) if weight is None else weight)
        self.drawn.add(rows, first)
        self.n_seen += len(number)
        self.weight += float(len(number) if weight is None else weight.sum())
        self.largest_weight = max(self.largest_weight, 1.0 if weight is None else float(weight.max()))

    def end_part(self, tally: Tally) -> None:
        """Note how many rows a part has, and their checksum."""
        self.counts.append(tally.n_kept)
        self.n_dropped += tally.n_read - tally.n_kept
        if self.checksums is not None:
            self.checksums.append(tally.checksum)

    def cut_short(self, counts: list[int | None]) -> None:
        """Note that not all rows have been looked at, and the rows of each part that are known without."""
        self.counts, self.checksums = counts, None

    def __iadd__(self, other: Overview) -> Overview:
        self.table += other.table
        self.drawn += other.drawn
        self.targets = _sum(self.targets, other.targets)
        if self.classes is not None and other.classes is not None:
            self._add_labels(other.classes)
        self.counts += other.counts
        if self.checksums is not None and other.checksums is not None:
            self.checksums += other.checksums
        self.n_seen, self.n_dropped = self.n_seen + other.n_seen, self.n_dropped + other.n_dropped
        self.weight += other.weight
        self.largest_weight = max(self.largest_weight, other.largest_weight)
        return self

    def _add_targets(self, y: NDArray, weight: NDArray) -> None:
        columns = y.reshape(len(y), -1)
        if self.classes is not None:
            if columns.shape[1] != 1:
                raise SourceError(f"labels must be one column, not {columns.shape[1]}")
            self._add_labels(label_weights(columns[:, 0], weight))
            return
        if y.dtype == object:
            raise SourceError("the target holds text; for classes take KernelMachineClassifier")
        counts = weight > 0
        values = columns.astype(np.float64)
        summary = Summary.of(values, weight) if counts.all() else Summary.of(values[counts], weight[counts])
        self.targets = _sum(self.targets, summary)

    def _add_labels(self, weights: dict[Any, float]) -> None:
        classes = self.classes if self.classes is not None else {}
        for label, weight in weights.items():
            classes[label] = classes.get(label, 0.0) + weight
        if len(classes) > MOST_LABELS:
            raise SourceError(
                f"the target has more than {MOST_LABELS:,} different labels; for numbers take KernelMachineRegressor"
            )


def _sum(a: Summary | None, b: Summary | None) -> Summary | None:
    return b if a is None else a if b is None else a + b


def label_weights(y: NDArray, weight: NDArray) -> dict[Any, float]:
    """Weight of each label, in the order in which they come."""
    try:
        encoded = pa.array(y).dictionary_encode()
    except (pa.ArrowException, TypeError):  # objects of several kinds
        labels = list(dict.fromkeys(y.tolist()))
        place = {label: i for i, label in enumerate(labels)}
        codes = np.array([place[label] for label in y.tolist()])
    else:
        labels, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    return dict(zip(labels, np.bincount(codes, weight, len(labels)).tolist(), strict=True))


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
    ahead : bool
        Whether a thread reads ahead.
    most : int or None
        Rows to look at, at most.
    advance : callable
    """

    schema: pa.Schema | int
    roles: Roles
    labels: bool
    sparse: bool
    sample: tuple[int, int, int | None]
    ahead: bool = False
    most: int | None = None
    advance: Advance = no_advance

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
        return Overview(table, None, {} if self.labels else None, RowSample(*self.sample), [], [])

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
    source: TableSource, roles: Roles, labels: bool, seed: int, size: int, advance: Advance = no_advance
) -> Overview:
    """Look at all rows once, on all threads; or at the first ones only, where these stand for all.

    The same rows are drawn, and every figure has the same bits, on any number of threads and in whatever batches the
    parts come. Where the parts do not know how many rows they have, they are looked at one after the other.

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
        Called with the number of rows done after each block.

    Returns
    -------
    Overview

    Raises
    ------
    SourceError
        Naming the part and the row, for columns, targets and weights that nothing can be learned from, and where there
        are no rows.
    """
    inputs(source.schema, roles)
    counts, partly = [part.n_rows for part in source.parts], source.sample is not None
    apart = not partly and None not in counts
    edges = shards(len(counts), 1) if apart else [(0, len(counts))]
    firsts = np.cumsum([0, *(count or 0 for count in counts)]) if apart else [0]
    items = [Shard(source.parts[a:b], int(firsts[a])) for a, b in edges]
    sample = size, seed, int(firsts[-1]) if apart and roles.without == "refuse" else None
    ahead = len(items) == 1
    work = Look(source.schema, roles, labels, source.sparse, sample, ahead, source.sample, advance)
    overview = reduce(LOCAL, items, work)
    if partly:
        overview.cut_short(counts if roles.without == "refuse" else [None] * len(counts))
    _require_rows(overview, source)
    return overview


def _require_rows(overview: Overview, source: TableSource) -> None:
    if not overview.n_seen:
        why = "every target is missing" if overview.n_dropped else "there are no rows"
        raise SourceError(f"{source.what}: {why}; nothing can be learned")
    if not overview.weight:
        raise SourceError(f"{source.what}: the weight is zero in every row; at least one must be positive")


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
        raise SourceError(f"{source.what}: {why}; nothing can be learned")
    return Batch(*joined(pieces)[:3])
