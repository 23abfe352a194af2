"""The column to predict: reads it, tells its task, holds rows out, and scores predictions of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bochner.cli.errors import CommandError, listed, missing_column, printable
from bochner.cli.tables import place_of
from bochner.scores import summaries as scores
from bochner.sources.base import Batch

MOST_CLASSES, CLASS_ROWS, LARGEST_LABEL = 20, 10, 100
COVERAGE = 0.9  # of the intervals that are scored where no other is asked for


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
    task : {"", "classification", "regression"}
    reason : str
        Why this task, where it was inferred.
    """

    name: str
    kind: str
    values: NDArray
    rows: NDArray
    missing: int
    task: str = ""
    reason: str = ""


def read_target(table: pa.Table, name: str, path: Any, first: int | None = None) -> Target:
    """Take the target from a table; CommandError where it is not there, has no value, or no usable type.

    Parameters
    ----------
    table : pyarrow.Table
    name : str
    path : str or path-like
        Where it is, for messages.
    first : int, optional
        Rows above, where the table is a piece of another one, and may be without values.
    """
    if name not in table.column_names:
        raise missing_column(name, table.column_names, path)
    column = table[name].combine_chunks()
    kind = kind_of_type(column.type)
    if kind == "":
        raise CommandError(f"{path}: column '{name}' has type {column.type}; a target holds numbers, text or booleans")
    column = _plain(column)
    known = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    if pa.types.is_floating(column.type):
        known &= ~np.isnan(column.to_numpy(zero_copy_only=False))
    rows = np.flatnonzero(known)
    if not len(rows) and first is None:
        raise CommandError(f"{path}: column '{name}' has no values; choose another target, or give rows that have one")
    values = column.take(pa.array(rows)).to_numpy(zero_copy_only=False)
    if kind == "number":
        values = _finite_values(values, rows + (first or 0), name, path)
        kind = "integer" if (values % 1 == 0).all() and np.abs(values).max(initial=0) < 2**53 else kind
        values = values.astype(np.int64) if kind == "integer" else values
    return Target(name, kind, values, rows, len(column) - len(rows))


def kind_of_type(kind: pa.DataType) -> str:
    """Kind of the values of an Arrow type; empty for those that are no targets."""
    is_a = pa.types
    if is_a.is_dictionary(kind):
        return "category" if kind_of_type(kind.value_type) else ""
    for name, tests in {
        "text": (is_a.is_string, is_a.is_large_string, is_a.is_string_view),
        "boolean": (is_a.is_boolean,),
        "integer": (is_a.is_integer,),
        "number": (is_a.is_floating, is_a.is_decimal, is_a.is_null),
    }.items():
        if any(test(kind) for test in tests):
            return name
    return ""


def _plain(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type) or pa.types.is_floating(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.float64(), safe=False)
    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def _finite_values(values: NDArray, rows: NDArray, name: str, path: Any) -> NDArray:
    if not np.isfinite(values).all():
        place = place_of(path, int(rows[np.argmin(np.isfinite(values))]))
        raise CommandError(f"{path}: column '{name}' is infinite in {place}; a target must be finite")
    return values


def with_task(target: Target, task: str, path: Any) -> Target:
    """Set the task, inferred where it is "auto"; CommandError where the target cannot be learned."""
    distinct = pc.count_distinct(pa.array(target.values)).as_py()
    n, name = len(target.values), target.name
    if distinct == 1 and n > 1:
        value = printable(target.values[0])
        raise CommandError(f"{path}: column '{name}' is {value} in all of its {n:,} rows; choose another target")
    reason = ""
    if task == "auto":
        low, high = (target.values.min(), target.values.max()) if target.kind == "integer" else (0, 0)
        task, reason = infer_task(target.kind, distinct, n, low, high)
    if task == "regression":
        return replace(target, task=task, reason=reason, values=_numbers(target, path))
    if target.kind == "number":
        raise CommandError(f"{path}: column '{name}' holds fractional numbers, not classes; use --task regression")
    if distinct == n > 2:
        raise CommandError(
            f"{path}: column '{name}' has a different value in each of its {n:,} rows, like an identifier; choose "
            "another target"
        )
    return replace(target, task=task, reason=reason)


def infer_task(kind: str, distinct: int, n_rows: int, low: Any, high: Any) -> tuple[str, str]:
    """What is learned, and why, from the kind of the values, how many differ, and the least and the largest."""
    words = {"text": "text", "category": "categories", "boolean": "booleans"}
    if kind in words:
        return "classification", f"the target holds {words[kind]}"
    if kind == "number":
        return "regression", "the target holds fractional numbers"
    few = distinct <= MOST_CLASSES and distinct * CLASS_ROWS <= n_rows
    if distinct == 2 or (few and low >= 0 and high <= LARGEST_LABEL):
        return "classification", f"the target holds whole numbers with {distinct} distinct values"
    return "regression", f"the target holds whole numbers with {distinct:,} distinct values"


def _numbers(target: Target, path: Any) -> NDArray:
    """Values as float64."""
    if target.values.dtype.kind in "biuf":
        return target.values.astype(np.float64)
    for row, value in zip(target.rows, target.values, strict=True):
        try:
            finite = math.isfinite(float(value))
        except ValueError:
            finite = False
        if not finite:
            raise CommandError(
                f"{path}: {place_of(path, int(row))} of column '{target.name}' is '{value}'; regression needs numbers: "
                "fix it, or use --task classification"
            )
    return target.values.astype(np.float64)


def hold_out(target: Target, size: float, seed: int) -> tuple[NDArray, NDArray]:
    """Split the target's rows into train and test, both ascending positions in `values`.

    Classes keep their shares where each part can have a row of each; a class of one row is learned, not tested.
    """
    from sklearn.model_selection import train_test_split

    every = np.arange(len(target.values))
    count = min(math.ceil(size * len(every)), len(every) - 1)
    if target.task == "classification":
        _, labels, sizes = np.unique(target.values, return_inverse=True, return_counts=True)
        common = np.flatnonzero(sizes[labels] > 1)
        if (sizes > 1).sum() <= min(count, len(common) - count):
            _, test = train_test_split(common, test_size=count, random_state=seed, stratify=labels[common])
            return np.setdiff1d(every, test), np.sort(test)
    train, test = train_test_split(every, test_size=count, random_state=seed)
    return np.sort(train), np.sort(test)


def labels_of(target: Target, classes: NDArray, path: Any) -> NDArray:
    """Positions of the target's values among a model's classes, -1 where there is none."""
    values = target.values
    if classes.dtype.kind in "OU":
        values = np.array([str(value) for value in values], dtype=object)
    elif values.dtype.kind not in "biuf":
        raise CommandError(
            f"{path}: column '{target.name}' holds text, but the classes of the model are {classes.dtype.name}s"
        )
    where = {value: k for k, value in enumerate(classes.tolist())}
    return np.array([where.get(value, -1) for value in values.tolist()])


def baseline(target: Target, rows: Any = slice(None)) -> Any:
    """Shares of the classes, or the mean, of the target in some rows."""
    values = target.values[rows]
    if target.task == "regression":
        return float(values.mean())
    counts = np.unique(values, return_counts=True)[1]
    return (counts / counts.sum()).tolist()


def described_baseline(target: Target, rows: NDArray) -> dict[str, Any]:
    """What the baseline of these rows predicts, for people."""
    if target.task == "regression":
        return {"predicts": "the mean of the training rows", "value": baseline(target, rows)}
    classes, counts = np.unique(target.values[rows], return_counts=True)
    best = int(counts.argmax())
    return {
        "predicts": "the most frequent class",
        "value": classes.tolist()[best],
        "share": counts[best] / counts.sum(),
    }


def score(
    model: Any, X: Any, target: Target, known_baseline: Any, path: Path, coverage: float | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Scores of a model on rows with a target, and notes.

    Intervals are scored where the model was fitted with uncertainty: those of `coverage`, or of 90 %; where it has none
    of these, that is an error for the former and a note for the latter.
    """
    if target.task == "regression":
        mean = target.values.mean() if known_baseline is None else known_baseline
        scored = scores.regression(target.values, _finite_predictions(model.predict(X)), mean)
        if not getattr(model, "uncertainty", False):
            return scored, []
        try:
            interval = model.predict_interval(X, coverage=COVERAGE if coverage is None else coverage)
        except ValueError as error:
            if coverage is not None:
                raise
            return scored, [f"Intervals are not scored: {error}"]
        return scored | scores.intervals(target.values, interval, COVERAGE if coverage is None else coverage), []
    return _score_classes(model, X, target, known_baseline, path)


def _score_classes(
    model: Any, X: Any, target: Target, known_baseline: Any, path: Path
) -> tuple[dict[str, Any], list[str]]:
    """Scores of classes; those that the model does not know are wrong, and have no probability to be scored."""
    labels = labels_of(target, model.classes_, path)
    known = labels[labels >= 0]
    if not len(known) and len(labels) > 1:
        raise CommandError(
            f"{path}: column '{target.name}' holds none of the classes {listed(model.classes_.tolist())}"
        )
    shares = np.bincount(known, minlength=len(model.classes_)) / max(len(known), 1)
    shares = shares if known_baseline is None else np.asarray(known_baseline)
    predicted = np.searchsorted(model.classes_, model.predict(X))
    scored = scores.classification(labels, predicted, _finite_predictions(model.predict_proba(X)), shares)
    unknown = len(labels) - len(known)
    remark = f"{unknown:,} of {len(labels):,} rows have a class that the training rows do not have: "
    return scored, [remark + "counted as wrong in the accuracy, left out of the other scores."] if unknown else []


def _finite_predictions(predicted: NDArray) -> NDArray:
    """Predictions; CommandError where they are no finite numbers."""
    if not np.isfinite(predicted).all():
        raise CommandError("the model predicts numbers that are not finite; fit it with a larger --alpha")
    return predicted


def split_target(rows: Batch, name: str, task: str, path: Any) -> tuple[Any, Target]:
    """The columns of rows, and their targets."""
    X = rows.X
    if isinstance(X, pa.Table):
        target, X = read_target(X, name, path), X.drop_columns([name])
    else:
        target = Target(name, "number", np.asarray(rows.y), np.arange(len(rows.y)), 0)
    if task == "regression":
        target = replace(target, values=target.values.astype(np.float64))
    elif target.kind == "number":
        target = replace(target, values=target.values.astype(np.int64))
    return X, replace(target, task=task)
