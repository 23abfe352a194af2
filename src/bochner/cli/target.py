"""The column to predict: its values, what is learned from them, which rows are held
out, and scores of predictions.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bochner.cli.failures import CommandError, Facts, errors_of, printable
from bochner.cli.tables import noted, place_of
from bochner.data.columns import as_written, base_kind, label_places, levels
from bochner.data.hashes import row_hashes
from bochner.data.written_values import written_kind
from bochner.notices import listed
from bochner.scores import summaries as scores
from bochner.sources.base import TableSource
from bochner.sources.opening import open_source
from bochner.sources.rows import finite_batches, has_lines, read_column
from bochner.sources.schema import is_text, why_text

MOST_COUNTED = 10_000  # different values of a target that is read piece by piece
# By the kind of their dtypes
KINDS = {"f": "number", "i": "integer", "b": "boolean", "O": "text"}


@dataclass(frozen=True)
class Target:
    """Values of the target in the rows that have one.

    Attributes
    ----------
    name : str
    kind : {"text", "category", "boolean", "integer", "number"}
    values : array of shape (n,)
        str, bool, integers or float64.
    rows : array of shape (n,)
        Where they are in the table.
    missing : int
        Rows without a value.
    group : array of shape (n,) or None
        Of rows that belong together.
    """

    name: str
    kind: str
    values: NDArray
    rows: NDArray
    missing: int
    group: NDArray | None = None

    def take(self, positions: NDArray) -> Target:
        """Some of the values."""
        return replace(
            self,
            values=self.values[positions],
            rows=self.rows[positions],
            missing=0,
            group=None if self.group is None else self.group[positions],
        )

    def as_numbers(self, path: Any) -> Target:
        """The values as float64; CommandError, with the row, for text that is no
        number.
        """
        numbers = self.values
        if numbers.dtype.kind not in "biuf":
            numbers = np.full(len(numbers), np.nan)
            for i, value in enumerate(self.values):
                with suppress(ValueError):
                    numbers[i] = float(value)
                if not math.isfinite(numbers[i]):
                    place = place_of(path, self.rows[i])
                    raise CommandError(
                        f"{path}: {place} of column '{self.name}' is '{value}'; "
                        "regression needs numbers: fix it, or use --task classification"
                    )
        return replace(self, kind="number", values=numbers.astype(np.float64))


@dataclass(frozen=True)
class TargetSummary:
    """What the values of the target are like, in rows that need not be in memory.

    Attributes
    ----------
    name, kind : str
        As of `Target`; numbers are integers as long as no fraction is found.
    n_known, missing : int
        Rows with a value, and those without one.
    total, low, high : float
        Sum and range of the numbers.
    counts : Counter or None
        How many rows have each value; None for fractions, and for pieces with more than
        10,000 different values.
    """

    name: str
    kind: str = ""
    n_known: int = 0
    missing: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    counts: Counter[Any] | None = field(default_factory=Counter)

    @classmethod
    def of(cls, target: Target) -> TargetSummary:
        """The summary of values in memory."""
        values = target.values
        counts = None
        if target.kind != "number":
            distinct, rows = pc.value_counts(pa.array(values)).flatten()
            counts = Counter(
                dict(zip(distinct.to_pylist(), rows.to_pylist(), strict=True))
            )
        is_number = values.dtype.kind in "biuf"
        numbers = np.asarray(values, np.float64) if is_number else np.empty(0)
        return cls(
            target.name,
            target.kind,
            len(values),
            target.missing,
            numbers.sum(),
            numbers.min(initial=math.inf),
            numbers.max(initial=-math.inf),
            counts,
        )

    def __add__(self, other: TargetSummary) -> TargetSummary:
        """The summary of the rows of both."""
        counts = None
        if self.counts is not None and other.counts is not None:
            counts = self.counts + other.counts
            counts = counts if len(counts) <= MOST_COUNTED else None
        return TargetSummary(
            self.name,
            "number" if "number" in (self.kind, other.kind) else other.kind,
            self.n_known + other.n_known,
            self.missing + other.missing,
            self.total + other.total,
            min(self.low, other.low),
            max(self.high, other.high),
            counts,
        )

    def without(self, test: Target) -> TargetSummary:
        """The summary of the other rows; their range is that of all."""
        n_known = self.n_known - len(test.values)
        if test.values.dtype.kind == "f":
            total = self.total - test.values.sum()
            return replace(self, n_known=n_known, total=total)
        counts = Counter(self.counts) - Counter(test.values.tolist())
        return replace(self, n_known=n_known, counts=counts)

    @property
    def distinct(self) -> int:
        """Number of different values; `MOST_COUNTED`, a lower bound, if not counted."""
        return MOST_COUNTED if self.counts is None else len(self.counts)

    def classes(self) -> dict[Any, int]:
        """Rows of each class, in the order of the classes."""
        return dict(sorted((self.counts or {}).items()))

    def baseline(self, task: str) -> tuple[Any, Facts]:
        """Shares of the classes, or the mean; and what a model without inputs predicts,
        for people.
        """
        if task == "regression":
            mean = self.total / self.n_known
            return mean, {"predicts": "the mean of the training rows", "value": mean}
        counts = self.classes()
        shares = {label: count / self.n_known for label, count in counts.items()}
        best = max(shares, key=lambda label: shares[label])
        facts = {"predicts": "the most frequent class", "value": best}
        return [*shares.values()], facts | {"share": shares[best]}


def read_target(table: pa.Table, name: str, path: Any, first: int = 0) -> Target:
    """Take the target from a table that has it; CommandError where it has no usable
    type.

    Parameters
    ----------
    table : pyarrow.Table
    name : str
    path : str or path-like
        Where it is, for messages.
    first : int, default=0
        Rows above, where the table is a piece of another one.
    """
    column = table[name]
    if pa.types.is_uint64(column.type):
        column = column.cast(pa.float64(), safe=False)
    with errors_of(path):
        values, gaps = read_column(column, name)
    if values.dtype.kind == "f" and np.isinf(values).any():
        place = place_of(path, int(np.argmax(np.isinf(values))) + first)
        raise CommandError(
            f"{path}: column '{name}' is infinite in {place}; a target must be finite"
        )
    rows = np.flatnonzero(~gaps)
    values = values[rows]
    kind = KINDS[values.dtype.kind]
    if pa.types.is_dictionary(column.type):
        kind = "category"
    elif kind == "number" and (
        # Integers that floating-point numbers hold exactly
        not (values % 1).any() and np.abs(values).max(initial=0) < 2**53
    ):
        kind = "integer"
        values = values.astype(np.int64)
    return Target(name, kind, values, rows, len(column) - len(rows))


def with_target_read(
    table: pa.Table | TableSource, name: str, asked: str, notes: list[str]
) -> Any:
    """The table with a target of text as numbers where it holds such as people write
    them, unless classes are asked for; `notes` are told so.

    Of a table that stays where it is, a target that is text because of few values is
    refused.
    """
    if isinstance(table, TableSource):
        if asked == "classification":
            # Text is meant, even if most of it is numbers
            return replace(table, inferred=())
        if why := why_text(table, name):
            raise ValueError(
                f"column '{name}' {why}; if it holds classes, use --task classification"
            )
        return table
    column = table[name]
    if asked == "classification" or not is_text(column.type):
        return table
    labels, codes = levels(column)
    rows = np.bincount(codes[codes >= 0], minlength=len(labels))
    written = written_kind(dict(zip(labels, rows.tolist(), strict=True)), name)
    if base_kind(written.kind) not in ("number", "text"):
        raise ValueError(
            f"column '{name}' holds dates or times; turn them into numbers, or use "
            "--task classification if they are classes"
        )
    if base_kind(written.kind) != "number":
        return table
    numbers = as_written(codes, labels, written.kind)[:, 0]
    place = table.column_names.index(name)
    notes.append(written.note)
    return table.set_column(place, name, pa.array(numbers, from_pandas=True))


def summary_of_target(
    table: pa.Table | TableSource, name: str, asked: str, path: Path
) -> TargetSummary:
    """Read the target alone, in all rows, as of a task that is asked for, perhaps.

    Of a table that stays where it is, numbers with something round them are refused.
    """
    if isinstance(table, pa.Table):
        return TargetSummary.of(read_target(table, name, path))
    summary = TargetSummary(name)
    # Of Parquet files one column is read; text has been read already
    if isinstance(table.schema, pa.Schema) and not has_lines(table.parts[0]):
        schema = pa.schema([table.schema.field(name)])
        with noted([]):  # again
            table = open_source(path, columns=[name], schema=schema)
    for part in table.parts:
        first = 0
        for batch in finite_batches([part]):
            piece = batch.X
            if not isinstance(piece, pa.Table):
                piece = pa.table({name: batch.y})
            summary += TargetSummary.of(read_target(piece, name, part.name, first))
            first += piece.num_rows
    if summary.kind != "text" or summary.counts is None or asked == "classification":
        return summary
    classes = summary.classes()
    if base_kind(written_kind(classes, name).kind) == "number":
        first_class = printable(next(iter(classes)))
        raise CommandError(
            f"{path}: column '{name}' holds numbers with something round them, such as "
            f"{first_class}; write plain numbers, or use --task classification if they "
            "are classes"
        )
    return summary


def with_target(
    X: Any,
    y: Any,
    name: str,
    task: str,
    path: Any,
    notes: list[str],
    asked: str | None = None,
) -> tuple[Any, Target]:
    """The other columns of all rows, and the targets of those that have one, as a
    model of this task predicts them; `notes` are told how text was read.

    Numbers are read from text unless classes are asked for, by default if that is the
    task.
    """
    if not isinstance(X, pa.Table):
        y = np.asarray(y).astype(np.float64 if task == "regression" else np.int64)
        return X, Target(name, "number", y, np.arange(len(y)), 0)
    table = with_target_read(X, name, asked or task, notes)
    target = read_target(table, name, path)
    X = table.drop_columns([name])
    if not len(target.values):
        raise no_values(name)
    if task == "classification":
        return X, target
    if target.values.dtype.kind not in "biuf":
        raise CommandError(
            f"{path}: column '{name}' holds text, but the model predicts numbers"
        )
    return X, target.as_numbers(path)


def no_values(name: str) -> ValueError:
    """The error where no row has a target."""
    return ValueError(
        f"column '{name}' has no values; choose another target, or give rows that have "
        "one"
    )


def learned_task(target: TargetSummary, asked: str) -> tuple[str, str]:
    """What is learned, and why if it is inferred; ValueError where the target cannot be
    learned.
    """
    n = target.n_known
    name = target.name
    if not n:
        raise no_values(name)
    # Fractions are not counted, and large integers are rounded in their range
    is_one = target.distinct == 1
    if target.counts is None:
        is_one = target.low == target.high
    if n > 1 and is_one:
        value = printable(next(iter(target.counts or [target.low])))
        missing = f", and missing in {target.missing:,}" if target.missing else ""
        raise ValueError(
            f"column '{name}' is {value} in all of its {n:,} rows{missing}; "
            "choose another target"
        )
    task = asked
    reason = ""
    distinct = target.distinct
    if task == "auto":
        few = distinct <= 20 and distinct * 10 <= n
        is_label = few and target.low >= 0 and target.high <= 100
        is_label |= distinct == 2
        of_kind = {
            "text": (True, "text"),
            "category": (True, "categories"),
            "boolean": (True, "booleans"),
            "number": (False, "fractional numbers"),
            "integer": (is_label, f"whole numbers with {distinct:,} distinct values"),
        }
        is_class, values = of_kind[target.kind]
        task = "classification" if is_class else "regression"
        reason = f"the target holds {values}"
    if task == "regression":
        return task, reason
    if target.kind == "number":
        raise ValueError(
            f"column '{name}' holds fractional numbers, not classes; use "
            "--task regression"
        )
    if target.counts is None:
        raise ValueError(
            f"column '{name}' has more than {MOST_COUNTED:,} different "
            "values, like an identifier; choose another target"
        )
    if distinct == n > 2:
        raise ValueError(
            f"column '{name}' has a different value in each of its {n:,} "
            "rows, like an identifier; choose another target"
        )
    return task, reason


def split_rows(
    X: pa.Table, target: Target, task: str, size: float, seed: int, notes: list[str]
) -> tuple[NDArray, NDArray]:
    """Split rows into train and test, both ascending positions; rows with equal
    features are on one side.

    Their targets do not count: a copy with another target still gives the model the
    features of a test row, and a class whose rows are all alike must not be learned
    from other targets alone. Where fewer than a tenth of the rows differ, equal
    features are no copies but values that come again, as in a table of a few levels:
    new rows will have them too, so that all rows are split as if they differed.

    Parameters
    ----------
    X : pyarrow.Table
        Features of the rows of the target.
    target : Target
    task : {"classification", "regression"}
    size : float
        Share of the test rows.
    seed : int
    notes : list of str
        Is told of equal rows, and on which side they are.
    """
    n = X.num_rows
    _, first, group = np.unique(row_hashes(X), return_index=True, return_inverse=True)
    few = len(first) < max(n * 0.1, 5)
    if few and len(first) < n:
        notes.append(
            f"The columns beside the target have {len(first):,} different rows of "
            f"values in {n:,} rows: most rows of the test split equal training rows, "
            "but for the target."
        )
    if few or len(first) == n:
        return stratified_split(target, task, size, seed)
    copies = n - len(first)
    notes.append(
        f"{copies:,} of {n:,} rows {'are copies' if copies > 1 else 'is a copy'} of "
        "another row in all columns but the target: equal rows are on one side of the "
        "test split."
    )
    leads = np.sort(first)
    _, test = stratified_split(target.take(leads), task, size, seed)
    tested = np.isin(group, group[leads[test]])
    return np.flatnonzero(~tested), np.flatnonzero(tested)


def stratified_split(
    target: Target, task: str, size: float, seed: int
) -> tuple[NDArray, NDArray]:
    """Split the target's rows into train and test, both ascending positions in
    `values`.

    Classes keep their shares where each part can have a row of each; a class of one row
    is learned, not tested.
    """
    from sklearn.model_selection import train_test_split

    every = np.arange(len(target.values))
    count = min(math.ceil(size * len(every)), len(every) - 1)
    split, classes = every, None
    if task == "classification":
        _, labels, sizes = np.unique(
            target.values, return_inverse=True, return_counts=True
        )
        common = np.flatnonzero(sizes[labels] > 1)
        if (sizes > 1).sum() <= min(count, len(common) - count):
            split, classes = common, labels[common]
    _, test = train_test_split(
        split, test_size=count, random_state=seed, stratify=classes
    )
    return np.setdiff1d(every, test), np.sort(test)


def score(
    model: Any,
    X: Any,
    target: Target,
    baseline: Any,
    coverage: float | None = None,
) -> tuple[Facts, list[str]]:
    """Scores of a model on rows with a target, and notes.

    Classes that the model does not know are wrong, and have no probability to be
    scored. Intervals are scored where the model was fitted with uncertainty: those of
    `coverage`, or of 90 %; where it has no such intervals, that is an error if
    `coverage` is given, else a note.
    """
    if hasattr(model, "classes_"):
        classes = model.classes_
        if classes.dtype.kind not in "OU" and target.values.dtype.kind not in "biuf":
            raise ValueError(
                f"column '{target.name}' holds text, but the classes of the model are "
                f"{classes.dtype.name}s"
            )
        labels = label_places(target.values.tolist(), classes.tolist())
        n = len(labels)
        unknown = np.count_nonzero(labels < 0)
        if unknown == n > 1:
            raise ValueError(
                f"column '{target.name}' holds none of the classes "
                f"{listed(classes.tolist())}"
            )
        predicted = np.searchsorted(classes, model.predict(X))
        proba = _finite_predictions(model.predict_proba(X))
        scored = scores.classification(labels, predicted, proba, baseline, target.group)
        if not unknown:
            return scored, []
        rows = f"{unknown:,} of {n:,} rows have" if unknown > 1 else "1 row has"
        return scored, [
            f"{rows} a class that is not in the training rows: counted as wrong in the "
            "accuracy, left out of the other scores."
        ]
    predicted = _finite_predictions(model.predict(X))
    scored = scores.regression(target.values, predicted, baseline, target.group)
    if not getattr(model, "uncertainty", False):
        return scored, []
    asked = 0.9 if coverage is None else coverage
    try:
        interval = model.predict_interval(X, coverage=asked)
    except ValueError as error:
        if coverage is not None:
            raise
        return scored, [f"Intervals are not scored: {error}"]
    ends = scores.intervals(target.values, interval, asked, target.group)
    return scored | ends, []


def _finite_predictions(predicted: NDArray) -> NDArray:
    """Predictions; CommandError where they are no finite numbers."""
    if not np.isfinite(predicted).all():
        raise CommandError(
            "the model predicts numbers that are not finite; fit it with a larger "
            "--alpha"
        )
    return predicted
