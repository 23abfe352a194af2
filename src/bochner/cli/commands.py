"""Predicts and evaluates for the command: each function returns its report, a dict fit for JSON."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bochner.cli.errors import CommandError, errors_of, missing_column, printable
from bochner.cli.evaluation import score
from bochner.cli.peak import peak_bytes
from bochner.cli.predictions import PredictionOptions, predictions
from bochner.cli.saved import SavedModel, check_output, read_model
from bochner.cli.streams import split_target
from bochner.cli.tables import joined, judging_rows, open_table, refuse_infinite
from bochner.cli.target import Target, read_target
from bochner.data.table_files import write_table
from bochner.engines.progress import progress
from bochner.inputs.predictions import predict_stream
from bochner.loops.clock import CLOCK
from bochner.sources.base import Batch, TableSource
from bochner.sources.hash_split import HashSplit


def predict(model_path: Path, data: Path, out: Path, options: PredictionOptions) -> dict[str, Any]:
    """Predict the rows of a table into another one."""
    check_output(out, data, model_path)
    saved, notes = read_model(model_path), list[str]()
    options.check(saved)
    table = open_table(data, notes.append, saved.text_columns, named=saved.columns or (), refused=saved.other_columns)
    start, written = CLOCK.seconds(), list[str]()

    def columns_of(X: Any) -> dict[str, Any]:
        inputs = saved.inputs(X, data)
        if isinstance(table, pa.Table):
            refuse_infinite(inputs, data)
        columns = predictions(saved, inputs, options)
        written[:] = columns
        return columns

    with errors_of(data):
        if isinstance(table, TableSource):
            names = table.names or []
            with progress("Predicting", table.n_rows, True) as advance:
                n_rows = predict_stream(table, columns_of, out, advance)
        else:
            names, n_rows, columns = table.column_names, table.num_rows, pa.table(columns_of(table))
    if isinstance(table, pa.Table):
        write_table(columns, out)
    ignored = [name for name in names if name not in (saved.columns or names)]
    return {
        "command": "predict",
        "model": str(model_path),
        "data": str(data),
        "rows": n_rows,
        "out": str(out),
        "columns_written": written,
        "columns_ignored": [name for name in ignored if name != saved.target],
        "seconds": CLOCK.seconds() - start,
        "peak_memory_bytes": peak_bytes(),
        "notes": notes,
    }


def evaluate(model_path: Path, data: Path, name: str | None, coverage: float | None) -> dict[str, Any]:
    """Score a model on the rows of a table that has the target."""
    saved, notes = read_model(model_path), list[str]()
    PredictionOptions(interval=coverage).check(saved)
    start = CLOCK.seconds()
    saved, X, target, n_rows = true_rows(saved, data, name, notes)
    with errors_of(data):
        scored, more = score(saved.model, X, target, saved.baseline, data, coverage)
    return {
        "command": "evaluate",
        "model": str(model_path),
        "data": str(data),
        "rows": n_rows,
        "rows_without_target": target.missing,
        "rows_test": len(target.values),
        "target": saved.target,
        "task": saved.task,
        "scores": scored,
        "seconds": CLOCK.seconds() - start,
        "peak_memory_bytes": peak_bytes(),
        "notes": notes + more,
    }


def true_rows(
    saved: SavedModel, data: Path, name: str | None, notes: list[str]
) -> tuple[SavedModel, Any, Target, int | None]:
    """The model with its target, the rows of a table that have one, their targets, and how many rows there are.

    Parameters
    ----------
    saved : SavedModel
    data : Path
    name : str or None
        Of the target, where it is another than the model names.
    notes : list of str
        Is told what a user should know.
    """
    name = saved.target if name is None else name
    if name is None:
        raise CommandError(f"{saved.path}: does not name its target; name the column with --target")
    if name in (saved.columns or []):
        cure = "" if saved.target is None else f"; the model predicts '{printable(saved.target)}'"
        raise CommandError(f"{saved.path}: column '{printable(name)}' is an input of the model, not its target{cure}")
    saved = replace(saved, target=name)
    named = [*(saved.columns or ()), name]
    table = open_table(data, notes.append, saved.text_columns, named=named, refused=saved.other_columns)
    n_rows = table.n_rows if isinstance(table, TableSource) else table.num_rows
    with errors_of(data):
        if isinstance(table, TableSource):
            rows = _judging(table, name, data, notes)
        else:
            rows = Batch(table)
            refuse_infinite(saved.inputs(table, data), data)
        return saved, *_truth(saved, rows, name, data), n_rows


def _judging(source: TableSource, name: str, data: Path, notes: list[str]) -> Batch:
    """Rows of a table that stays where it is, as many as tell the score."""
    n_rows = source.n_rows or 0
    judging, share = judging_rows(source, n_rows, 1.0, HashSplit(target=None if source.names is None else name))
    if source.names is not None and name not in source.names:
        raise missing_column(name, source.names, data)
    batches = [batch for part in judging.parts for batch in part.read() if batch.X.shape[0]]
    if not batches:
        raise CommandError(f"{data}: column '{name}' has no values; choose another target, or give rows that have one")
    if share < 1:
        notes.append(
            f"Scored on about {share * n_rows:,.0f} rows, sampled by a hash of their content, which is enough for the "
            "score."
        )
    return joined(batches)


def _truth(saved: SavedModel, rows: Batch, name: str, data: Path) -> tuple[Any, Target]:
    """The columns that the model needs, and the targets, of the rows that have one."""
    if not isinstance(rows.X, pa.Table):
        return split_target(rows, name, saved.task, data)
    target = replace(read_target(rows.X, name, data), task=saved.task)
    if saved.task == "regression":
        if target.values.dtype.kind not in "biuf":
            raise CommandError(f"{data}: column '{name}' holds text, but the model predicts numbers")
        target = replace(target, values=target.values.astype(np.float64))
    X = saved.inputs(rows.X, data)
    return X.take(pa.array(target.rows)) if isinstance(X, pa.Table) else X[target.rows], target
