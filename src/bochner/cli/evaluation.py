"""Predicts, evaluates and reports for the command: each function returns its report,
a dict fit for JSON.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bochner.cli.failures import CommandError, Facts, errors_of, printable
from bochner.cli.model_files import SavedModel, read_model
from bochner.cli.tables import check_output, some_rows
from bochner.cli.target import Target, score, with_target
from bochner.data.outliers import drawn
from bochner.engines.progress import progress
from bochner.estimators.explained_scores import training_rows_among
from bochner.scores.summaries import NAMES, cells
from bochner.sources.base import take_rows
from bochner.sources.rowwise import named_columns, write_predictions
from bochner.sources.schema import require
from bochner.sources.writing import write_table


def require_uncertainty(saved: SavedModel, option: str) -> None:
    """Raise CommandError where an option is given that the model cannot serve."""
    if saved.task == "classification":
        raise CommandError(
            f"{saved.path}: predicts classes, and {option} is for regression; use "
            "--proba for probabilities"
        )
    if not getattr(saved.model, "uncertainty", False):
        raise CommandError(
            f"{saved.path}: was fitted without uncertainty, which {option} needs; fit "
            "it again with 'bochner fit --uncertainty' (in Python, uncertainty=True)"
        )


def predict(
    model: Path,
    data: Path,
    out: Path,
    interval: float | None,
    std: bool,
    proba: bool | None,
    **_: Any,
) -> Facts:
    """Predict the rows of a table into another one."""
    check_output(out, data, model)
    saved = read_model(model)
    machine = saved.model
    if saved.task == "regression" and proba:
        raise CommandError(
            f"{saved.path}: predicts numbers, and --proba is for classes; use "
            "--interval or --std for uncertainty"
        )
    if std or interval is not None:
        require_uncertainty(saved, "--std" if interval is None else "--interval")
    notes = list[str]()
    source = saved.open_rows(data, notes)
    target = "target" if saved.target is None else saved.target
    written = list[str]()
    unseen = Counter[str]()
    n_read = 0

    def columns_of(rows: Any) -> Facts:
        """Columns of predictions, by name."""
        nonlocal n_read
        X = saved.inputs(rows, data, n_read)
        n_read += rows.shape[0]
        unseen.update(machine.encoder_.count_unseen(X))
        if saved.task == "classification":
            columns = {f"{target}_predicted": pa.array(machine.predict(X))}
            if proba is not False:
                shares = machine.predict_proba(X).T
                for label, share in zip(machine.classes_.tolist(), shares, strict=True):
                    columns[f"{target}_probability_{label}"] = pa.array(share)
        else:
            if std:
                mean, deviation = machine.predict(X, return_std=True)
                numbers = {"predicted": mean, "std": deviation}
            else:
                numbers = {"predicted": machine.predict(X)}
            if interval is not None:
                # The rows are sound by now: what is refused is the coverage
                with errors_of(saved.path):
                    ends = machine.predict_interval(X, coverage=interval)
                numbers |= {"lower": ends[..., 0], "upper": ends[..., 1]}
            columns = named_columns(target, numbers)
        written[:] = columns
        return columns

    with errors_of(data), progress("Predicting", source.n_rows, True) as advance:
        n_rows = write_predictions(source, columns_of, out, advance)
    names = source.names or []
    used = {*(saved.columns or names), saved.target}
    notes += [
        f"{rows:,} of {n_rows:,} rows have a value of {name!r} that the fit did not "
        "see."
        for name, rows in unseen.items()
        if rows
    ]
    return {
        "rows": n_rows,
        "columns_written": written,
        "columns_ignored": [name for name in names if name not in used],
        "notes": notes,
    }


def explain(model: Path, data: Path, out: Path, rows: int) -> Facts:
    """Explain the predictions for at most `rows` rows of a table, in another table."""
    check_output(out, data, model)
    saved = read_model(model, "explain")
    notes = list[str]()
    source = saved.open_rows(data, notes)
    n_rows = source.n_rows or 0
    with errors_of(data):
        # As few rows of a large table are read as give enough of them by chance
        batch, share = some_rows(source, min(2 * rows / max(n_rows, 1), 1.0))
        X = saved.inputs(batch.X, data, 0 if share == 1 else None)
        numbers = drawn(np.arange(X.shape[0]), rows)
        X = take_rows(X, numbers)
        explanation = saved.model.explain(X)
    if len(explanation) < n_rows:
        notes.append(
            f"Explained {len(explanation):,} of {n_rows:,} rows, drawn at random; "
            "--rows sets how many."
        )
    if not explanation.is_exact:
        notes.append(
            "The values of this model's features are sampled: columns that end in "
            "_error are standard errors."
        )
    # Which row, and which output where there are several; prediction, base value, and
    # a value of each column. Names that an input column has, too, get an underscore.
    n, d, *several = explanation.values.shape
    K = several[0] if several else 1
    names = explanation.feature_names
    target = saved.target or "target"
    leading: Facts = {}
    if share == 1:
        leading["row"] = np.repeat(numbers, K)
    if several:
        leading["output"] = np.tile(np.array(explanation.output_names, object), n)
    leading[f"{target}_predicted"] = explanation.predictions.ravel()
    leading[f"{target}_base"] = np.tile(explanation.base_values, n)
    columns = {name + "_" * (name in names): leading[name] for name in leading}
    for suffix, values in (("", explanation.values), ("_error", explanation.errors)):
        if values is not None:
            flat = values.reshape(n, d, K).swapaxes(1, 2).reshape(n * K, d)
            columns |= {f"{name}{suffix}": flat[:, j] for j, name in enumerate(names)}
    write_table([pa.table(columns)], out)
    return {
        "rows": n_rows,
        "rows_explained": len(explanation),
        "columns_written": list(columns),
        "unit": explanation.unit,
        "exact": explanation.is_exact,
        "background_rows": explanation.n_background,
        "base_values": np.atleast_1d(explanation.base_values).tolist(),
        "mean_absolute_values": dict(explanation.top_columns(d)),
        "notes": notes,
    }


def evaluate(
    model: Path, data: Path, target: str | None, interval: float | None
) -> Facts:
    """Score a model on the rows of a table that has the target."""
    saved = read_model(model)
    notes = list[str]()
    if interval is not None:
        require_uncertainty(saved, "--interval")
    saved, X, truth, n_rows = true_rows(saved, data, target, notes)
    with errors_of(data):
        scored, more = score(saved.model, X, truth, saved.baseline, interval)
    notes += more
    share = len(truth.values) / max(n_rows - truth.missing, 1)
    if seen := training_rows_among(saved.model, X, share, saved.rows):
        note = (
            f"These are training rows ({seen}): their scores say nothing of new rows."
        )
        if saved.scores is not None:
            key = "accuracy" if saved.task == "classification" else "r2"
            held_out = f"{NAMES[key]} {cells(key, saved.scores[key])[0]}"
            note += f" On rows that it held out, 'bochner fit' measured {held_out}."
        notes.append(note)
    return {
        "rows": n_rows,
        "rows_without_target": truth.missing,
        "rows_test": len(truth.values),
        "target": saved.target,
        "task": saved.task,
        "scores": scored,
        "notes": notes,
    }


def true_rows(
    saved: SavedModel, data: Path, name: str | None, notes: list[str]
) -> tuple[SavedModel, Any, Target, int]:
    """The model with its target, the rows of a table that have one, their targets, and
    how many rows there are.

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
        raise CommandError(
            f"{saved.path}: does not name its target; name the column with --target"
        )
    if name in (saved.columns or []):
        cure = ""
        if saved.target is not None:
            cure = f"; the model predicts '{printable(saved.target)}'"
        raise CommandError(
            f"{saved.path}: column '{printable(name)}' is an input of the model, not "
            f"its target{cure}"
        )
    saved = replace(saved, target=name)
    source = saved.open_rows(data, notes, name)
    n_rows = source.n_rows or 0
    with errors_of(data):
        if source.names is not None:
            require(source.names, [name])
        rows, share = some_rows(source)
        if share < 1:
            notes.append(
                f"Scored on about {share * n_rows:,.0f} rows, sampled by a hash of "
                "their content, which is enough for the score."
            )
        # Classes that are numbers may have been read from text, as by the fit
        classes = getattr(saved.model, "classes_", None)
        is_text = classes is not None and classes.dtype.kind in "OU"
        asked = "classification" if is_text else "auto"
        X, target = with_target(rows.X, rows.y, name, saved.task, data, notes, asked)
        X = saved.inputs(X, data, 0 if share == 1 else None)
        return saved, take_rows(X, target.rows), target, n_rows


def report(
    model: Path, data: Path, out: Path, target: str | None, training: Path | None
) -> Facts:
    """Write a page about a model, evaluated on the rows of a table that have the
    target.
    """
    from bochner.report import Origin, write_report

    check_output(out, data, model)
    saved = read_model(model, "report_html")
    notes = list[str]()
    saved, X, truth, n_rows = true_rows(saved, data, target, notes)
    words = ["bochner", "report", str(model), str(data), "--out", str(out)]
    words += [] if target is None else ["--target", target]
    fitted = None
    if training is not None:
        words += ["--training", str(training)]
        _, X_train, training_truth, n_train = true_rows(saved, training, target, notes)
        fitted = X_train, training_truth.values, _row_numbers(training_truth, n_train)
    lines = [shlex.join(words)]
    if saved.options is not None:
        # The table of the fit is not known
        told = ["--target", str(saved.target), "--task", saved.task, *saved.options]
        told += ["--out", str(saved.path)]
        lines.insert(0, f"bochner fit TRAINING_TABLE {shlex.join(told)}")
    origin = Origin(
        saved.target,
        model.name,
        saved.baseline,
        saved.scores,
        saved.references,
        saved.rows,
        _row_numbers(truth, n_rows),
        len(truth.values) / max(n_rows - truth.missing, 1),
        tuple(lines),
        saved.rows_held_out,
    )
    with errors_of(data):
        write_report(saved.model, X, truth.values, out, origin, fitted)
    return {
        "rows": n_rows,
        "rows_without_target": truth.missing,
        "target": saved.target,
        "bytes": os.path.getsize(out),
        "notes": notes,
    }


def _row_numbers(truth: Target, n_rows: int) -> NDArray | None:
    """Numbers of the rows in their table; None where only some of it were read."""
    return truth.rows if n_rows == len(truth.rows) + truth.missing else None
