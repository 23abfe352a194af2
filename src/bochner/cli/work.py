"""What the commands do: each returns its report, a dict fit for JSON."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bochner.cli import scores
from bochner.cli.facts import model_facts
from bochner.cli.faults import Fault, about, listed, no_column, printable
from bochner.cli.stored import Stored, check_output, read_model, write_model
from bochner.cli.target import Target, hold_out, labels_of, pose, read_target
from bochner.data.files import read_table, write_table
from bochner.data.table import TableEncoder

FEW_ROWS, DISTINCT = 20, 0.9


@dataclass(frozen=True)
class Fit:
    """The arguments of `bochner fit`.

    Attributes
    ----------
    data, out : Path
    target : str
    task : {"auto", "classification", "regression"}
    test_size : float
    exclude : list of str
    parameters : dict
        Of the estimator.
    """

    data: Path
    target: str
    out: Path | None
    task: str
    test_size: float
    exclude: list[str]
    parameters: dict[str, Any]

    @property
    def seed(self) -> int:
        """Seed of the split and of the features."""
        return self.parameters["random_state"]


def fit(what: Fit) -> dict[str, Any]:
    """Fit a model, score it on held-out rows, and save one fitted on all rows."""
    if what.out is not None:
        check_output(what.out, what.data)
    notes: list[str] = []
    table = read_table(what.data, note=notes.append)
    target = pose(read_target(table, what.target, what.data), what.task, what.data)
    X = _features(table, what)
    with about(what.data):
        TableEncoder().fit(X)  # refuses what cannot be encoded by its row in the file, not in a part of it
    notes += _remarks(X, target)
    if target.missing:
        X = X.take(pa.array(target.rows))
    report = {
        "command": "fit",
        "data": str(what.data),
        "rows": table.num_rows,
        "rows_without_target": target.missing,
        "columns": X.num_columns,
        "target": target.name,
        "task": target.task,
        "task_inferred_because": target.reason or None,
        "task_can_change": target.kind in ("integer", "boolean"),
        "seed": what.seed,
    }
    with about(what.data):
        return report | _scored_and_saved(what, X, target, notes)


def _scored_and_saved(what: Fit, X: pa.Table, target: Target, notes: list[str]) -> dict[str, Any]:
    """Fit on the rows that are not held out, score, and fit on all of them if the model is to be saved."""
    start, measured = time.perf_counter(), None
    train = test = np.arange(X.num_rows)
    if what.test_size:
        if X.num_rows < 2:
            raise Fault("one row with a target cannot be split; give more rows, or --test-size 0")
        train, test = hold_out(target, what.test_size, what.seed)
    part = X if not what.test_size else X.take(pa.array(train))
    model = _estimator(what, target.task).fit(part, target.values[train])
    facts = model_facts(model)
    if what.test_size:
        held_out = replace(target, values=target.values[test], rows=target.rows[test])
        measured, remarks = _measure(model, X.take(pa.array(test)), held_out, _baseline(target, train), what.data)
        notes = notes + remarks
    if what.out is not None:
        if what.test_size:
            model = _on_all_rows(model, what, X, target)
        write_model(model, what.out, target, _baseline(target), measured)
    return {
        "rows_train": len(train),
        "rows_test": len(test) if what.test_size else 0,
        "scores": measured,
        "baseline": _baseline_in_words(target, train),
        "model": facts,
        "seconds": time.perf_counter() - start,
        "out": None if what.out is None else str(what.out),
        "rows_saved_model": None if what.out is None else X.num_rows,
        "notes": notes,
    }


def _on_all_rows(model: Any, what: Fit, X: pa.Table, target: Target) -> Any:
    """The model that was scored, fitted to the rows held out too; chosen anew where these have classes of their own."""
    if target.task == "classification" and len(np.setdiff1d(target.values, model.classes_)):
        return _estimator(what, target.task).fit(X, target.values)
    return model.refit(X, target.values)


def _features(table: pa.Table, what: Fit) -> pa.Table:
    for name in what.exclude:
        if name not in table.column_names:
            raise no_column(name, table.column_names, what.data)
        if name == what.target:
            raise Fault(f"column '{name}' is the target; it cannot be excluded")
    X = table.drop_columns(list({what.target, *what.exclude}))
    if not any(column.null_count < len(column) for column in X.columns):
        state = "is empty" if X.num_columns else "there is none"
        raise Fault(f"{what.data}: no column to learn from: besides the target, every one {state}")
    return X


def _remarks(X: pa.Table, target: Target) -> list[str]:
    """Remarks on columns that do not look like features, and on a strange target."""
    notes = []
    for name, column in zip(X.column_names, X.columns, strict=True):
        kind, n = column.type, len(column) - column.null_count
        if (pa.types.is_string(kind) or pa.types.is_large_string(kind)) and n >= FEW_ROWS:
            distinct = pc.count_distinct(column).as_py()
            if distinct > DISTINCT * n:
                what = f"is text with {distinct:,} different values in {n:,} rows, as an identifier has"
                notes.append(f"Column '{name}' {what}; --exclude '{name}' leaves it out.")
        elif pa.types.is_integer(kind) and n == len(column) >= FEW_ROWS:
            steps = np.diff(column.to_numpy())
            if (steps == 1).all():
                notes.append(f"Column '{name}' numbers the rows; --exclude '{name}' leaves it out.")
    if target.task == "classification":
        distinct = pc.count_distinct(pa.array(target.values)).as_py()
        if distinct > max(len(target.values) // 2, FEW_ROWS):
            notes.append(f"The target has {distinct:,} classes in {len(target.values):,} rows, as an identifier has.")
    return notes


def _estimator(what: Fit, task: str) -> Any:
    from bochner.estimators import KernelMachineClassifier, KernelMachineRegressor

    cls = KernelMachineClassifier if task == "classification" else KernelMachineRegressor
    return cls(**what.parameters)


def _baseline(target: Target, rows: Any = slice(None)) -> Any:
    """Shares of the classes, or the mean, of the target in some rows."""
    values = target.values[rows]
    if target.task == "regression":
        return float(values.mean())
    counts = np.unique(values, return_counts=True)[1]
    return (counts / counts.sum()).tolist()


def _baseline_in_words(target: Target, rows: NDArray) -> dict[str, Any]:
    if target.task == "regression":
        return {"predicts": "the mean of the training rows", "value": _baseline(target, rows)}
    classes, counts = np.unique(target.values[rows], return_counts=True)
    best = int(counts.argmax())
    return {
        "predicts": "the most frequent class",
        "value": classes.tolist()[best],
        "share": counts[best] / counts.sum(),
    }


def _measure(model: Any, X: Any, target: Target, baseline: Any, path: Path) -> tuple[dict[str, Any], list[str]]:
    """Scores of a model on rows with a target, and remarks."""
    if target.task == "regression":
        mean = target.values.mean() if baseline is None else baseline
        return scores.regression(target.values, _finite(model.predict(X)), mean), []
    labels = labels_of(target, model.classes_, path)
    known = labels[labels >= 0]
    if not len(known) and len(labels) > 1:
        raise Fault(f"{path}: column '{target.name}' holds none of the classes {listed(model.classes_.tolist())}")
    shares = np.bincount(known, minlength=len(model.classes_)) / max(len(known), 1)
    shares = shares if baseline is None else np.asarray(baseline)
    predicted = np.searchsorted(model.classes_, model.predict(X))
    measured = scores.classification(labels, predicted, _finite(model.predict_proba(X)), shares)
    unknown = len(labels) - len(known)
    remark = f"{unknown:,} of {len(labels):,} rows have a class that the training rows do not have: "
    return measured, [remark + "wrong in the accuracy, left out of the log loss."] if unknown else []


def _finite(predicted: NDArray) -> NDArray:
    """Predictions; Fault where they are no finite numbers."""
    if not np.isfinite(predicted).all():
        raise Fault("the model predicts numbers that are not finite; fit it with a larger --alpha")
    return predicted


def predict(model_path: Path, data: Path, out: Path) -> dict[str, Any]:
    """Predict the rows of a table into another one."""
    check_output(out, data, model_path)
    stored, notes = read_model(model_path), list[str]()
    table = read_table(data, as_text=stored.text_columns, note=notes.append)
    start = time.perf_counter()
    with about(data):
        X = stored.features(table, data)
        columns = _predictions(stored, X)
    seconds = time.perf_counter() - start
    write_table(pa.table(columns), out)
    ignored = [name for name in table.column_names if name not in (stored.columns or table.column_names)]
    return {
        "command": "predict",
        "model": str(model_path),
        "data": str(data),
        "rows": table.num_rows,
        "out": str(out),
        "columns_written": list(columns),
        "columns_ignored": [name for name in ignored if name != stored.target],
        "seconds": seconds,
        "notes": notes,
    }


def _predictions(stored: Stored, X: Any) -> dict[str, Any]:
    name = "target" if stored.target is None else stored.target
    values = stored.model.predict(X)
    if values.ndim == 2:
        return {f"{name}_predicted_{k}": values[:, k] for k in range(values.shape[1])}
    columns = {f"{name}_predicted": pa.array(values)}
    if stored.task == "classification":
        proba = stored.model.predict_proba(X)
        for k, label in enumerate(stored.model.classes_.tolist()):
            columns[f"{name}_probability_{label}"] = pa.array(proba[:, k])
    return columns


def evaluate(model_path: Path, data: Path, name: str | None) -> dict[str, Any]:
    """Score a model on the rows of a table that has the target."""
    stored, notes = read_model(model_path), list[str]()
    name = stored.target if name is None else name
    if name is None:
        raise Fault(f"{model_path}: does not name its target; say which column it is by --target")
    if name in (stored.columns or []):
        cure = "" if stored.target is None else f"; the model predicts '{printable(stored.target)}'"
        raise Fault(f"{model_path}: column '{printable(name)}' is one that the model learns from, not its target{cure}")
    stored = replace(stored, target=name)
    table = read_table(data, as_text=stored.text_columns, note=notes.append)
    target = replace(read_target(table, name, data), task=stored.task)
    if stored.task == "regression" and target.values.dtype.kind not in "biuf":
        raise Fault(f"{data}: column '{name}' holds text, but the model predicts numbers")
    start = time.perf_counter()
    with about(data):
        X = stored.features(table, data)
        X = X.take(pa.array(target.rows)) if isinstance(X, pa.Table) else X[target.rows]
        if stored.task == "regression":
            target = replace(target, values=target.values.astype(np.float64))
        measured, remarks = _measure(stored.model, X, target, stored.baseline, data)
    return {
        "command": "evaluate",
        "model": str(model_path),
        "data": str(data),
        "rows": table.num_rows,
        "rows_without_target": target.missing,
        "rows_test": len(target.values),
        "target": name,
        "task": stored.task,
        "scores": measured,
        "seconds": time.perf_counter() - start,
        "notes": notes + remarks,
    }
