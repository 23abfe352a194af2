"""What one pass over a table finds: a sample of the rows, weights of labels, and
summaries of columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bochner.data.columns import levels
from bochner.data.hashes import uniform
from bochner.data.table_statistic import (
    Summary,
    TableStatistic,
    rounded,
)
from bochner.sources.base import Batch, SourceError, total
from bochner.sources.rows import (
    MOST_PIECES,
    joined,
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
