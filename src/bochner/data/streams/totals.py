"""What rows of a table are like: sums, counts and a sample, to be added up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bochner.data.streams.base import Batch, SourceError
from bochner.data.streams.checksums import Tally
from bochner.data.streams.roles import Rows
from bochner.data.streams.samples import RowSample
from bochner.data.table_statistic import Summary, TableStatistic, rounded
from bochner.data.weights import unit_weights

MOST_LABELS = 1 << 16


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
    most_categories : int
        Of a column, to be counted; beyond that the heaviest are found, see `TableStatistic`.
    counts : list of int or None
        Rows of each part; None where these are not known, as not all rows have been looked at.
    checksums : list of int, or None
        Of the content of each part, where all rows have been looked at.
    """

    table: TableStatistic
    targets: Summary | None
    classes: dict[Any, float] | None
    drawn: RowSample
    most_categories: int
    counts: list[int | None] = field(default_factory=list)
    checksums: list[int] | None = field(default_factory=list)
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
        self.table.keep_heaviest(self.most_categories)
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

    def settle(self) -> None:
        """Round what was added up, so that neither parts nor their order change anything that is chosen by it."""
        self.table = replace(self.table, summary=self.table.summary.rounded())
        self.targets = None if self.targets is None else self.targets.rounded()
        if self.classes is not None:
            self.classes = {label: float(rounded(weight, weight)) for label, weight in self.classes.items()}
        self.weight = float(rounded(self.weight, self.weight))

    def __iadd__(self, other: Overview) -> Overview:
        self.table += other.table
        self.table.keep_heaviest(self.most_categories)
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
            raise SourceError("the target holds text; for classes use KernelMachineClassifier")
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
                f"the target has more than {MOST_LABELS:,} different labels; for numbers use KernelMachineRegressor"
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
