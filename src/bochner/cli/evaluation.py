"""Predicts, evaluates and reports for the command: each function returns its report,
a dict fit for JSON.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bochner.cli.failures import (
    CommandError,
    Facts,
    errors_of,
    missing_column,
    printable,
)
from bochner.cli.model_files import SavedModel, check_output, read_model
from bochner.cli.tables import drawn_rows, refuse_infinite, scored_share
from bochner.cli.target import Target, no_values, score, with_target
from bochner.engines.progress import progress
from bochner.estimators.explained_scores import training_rows_among
from bochner.loops.clock import CLOCK
from bochner.scores.summaries import NAMES, cells
from bochner.settings import peak_bytes
from bochner.sources.base import Batch, TableSource
from bochner.sources.rowwise import named_columns, write_predictions
from bochner.sources.writing import write_table

OPTIONS = (
    "kernel",
    "features",
    "n_components",
    "alpha",
    "loss",
    "solver",
    "metric",
    "time_limit",
)


@dataclass(frozen=True)
class PredictionOptions:
    """Columns besides the predictions.

    Attributes
    ----------
    interval : float or None
        Coverage of prediction intervals, columns `lower` and `upper`.
    std : bool
        Standard deviations.
    proba : bool or None
        A probability for each class; None where the model has classes.
    """

    interval: float | None = None
    std: bool = False
    proba: bool | None = None

    def check(self, saved: SavedModel) -> None:
        """Raise CommandError where the model cannot predict what is asked for."""
        option = "--std" if self.interval is None else "--interval"
        if saved.task == "regression" and self.proba:
            raise CommandError(
                f"{saved.path}: predicts numbers, and --proba is for classes; use "
                "--interval or --std for uncertainty"
            )
        if self.interval is None and not self.std:
            return
        if saved.task == "classification":
            raise CommandError(
                f"{saved.path}: predicts classes, and {option} is for regression; "
                "use --proba for probabilities"
            )
        if not getattr(saved.model, "uncertainty", False):
            raise CommandError(
                f"{saved.path}: was fitted without uncertainty, which {option} "
                "needs; fit it again with 'bochner fit "
                "--uncertainty' (in Python, uncertainty=True)"
            )


def predictions(saved: SavedModel, X: Any, options: PredictionOptions) -> Facts:
    """Columns by name: one of predictions for each target, and the other columns
    asked for.
    """
    name = "target" if saved.target is None else saved.target
    if saved.task == "classification":
        columns = {f"{name}_predicted": pa.array(saved.model.predict(X))}
        if options.proba is not False:
            proba = saved.model.predict_proba(X)
            for k, label in enumerate(saved.model.classes_.tolist()):
                columns[f"{name}_probability_{label}"] = pa.array(proba[:, k])
        return columns
    return named_columns(name, _numbers(saved, X, options))


def _numbers(
    saved: SavedModel, X: Any, options: PredictionOptions
) -> dict[str, NDArray[np.float64]]:
    """Predictions and the other columns asked for, each of shape (n,) or (n, K)."""
    if options.std:
        mean, std = saved.model.predict(X, return_std=True)
        columns = {"predicted": mean, "std": std}
    else:
        columns = {"predicted": saved.model.predict(X)}
    if options.interval is not None:
        with errors_of(
            saved.path
        ):  # the rows are sound by now: what is refused is the coverage
            ends = saved.model.predict_interval(X, coverage=options.interval)
        columns |= {"lower": ends[..., 0], "upper": ends[..., 1]}
    return columns


def predict(
    model: Path,
    data: Path,
    out: Path,
    interval: float | None,
    std: bool,
    proba: bool | None,
    memory_limit: str | None,
    device: str | None,
) -> Facts:
    """Predict the rows of a table into another one."""
    from bochner.cli.fitting import Run

    with Run(memory_limit, device=device).applied():
        return _predicted(model, data, out, PredictionOptions(interval, std, proba))


def _predicted(
    model_path: Path, data: Path, out: Path, options: PredictionOptions
) -> Facts:
    check_output(out, data, model_path)
    saved = read_model(model_path)
    notes = list[str]()
    options.check(saved)
    table = saved.open_table(data, notes.append)
    start = CLOCK.seconds()
    written = list[str]()
    unseen = Counter[str]()

    def columns_of(X: Any) -> Facts:
        inputs = saved.inputs(X, data)
        if isinstance(table, pa.Table):
            refuse_infinite(inputs, data)
        unseen.update(saved.model.encoder_.count_unseen(inputs))
        columns = predictions(saved, inputs, options)
        written[:] = columns
        return columns

    with errors_of(data):
        if isinstance(table, TableSource):
            names = table.names or []
            with progress("Predicting", table.n_rows, True) as advance:
                n_rows = write_predictions(table, columns_of, out, advance)
        else:
            names = table.column_names
            n_rows = table.num_rows
            columns = pa.table(columns_of(table))
    if isinstance(table, pa.Table):
        write_table([columns], out)
    ignored = [name for name in names if name not in (saved.columns or names)]
    notes += [
        f"{rows:,} of {n_rows:,} rows have a value of {name!r} that the fit did not "
        "see."
        for name, rows in unseen.items()
        if rows
    ]
    return {
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


def explain(model: Path, data: Path, out: Path, rows: int) -> Facts:
    """Explain the predictions for at most `rows` rows of a table, in another table."""
    check_output(out, data, model)
    saved = read_model(model, "explain")
    notes = list[str]()
    table = saved.open_table(data, notes.append)
    start = CLOCK.seconds()
    with errors_of(data):
        sampled_rows, numbers, n_rows = _some_rows(table, rows, data)
        X = saved.inputs(sampled_rows, data)
        refuse_infinite(X, data)
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
    columns = _explained_columns(explanation, numbers, saved.target or "target")
    write_table([pa.table(columns)], out)
    return {
        "model": str(model),
        "data": str(data),
        "rows": n_rows,
        "rows_explained": len(explanation),
        "out": str(out),
        "columns_written": list(columns),
        "unit": explanation.unit,
        "exact": explanation.is_exact,
        "background_rows": explanation.n_background,
        "base_values": np.atleast_1d(explanation.base_values).tolist(),
        "mean_absolute_values": dict(
            explanation.top_columns(len(explanation.feature_names))
        ),
        "seconds": CLOCK.seconds() - start,
        "peak_memory_bytes": peak_bytes(),
        "notes": notes,
    }


def _some_rows(table: Any, most: int, data: Path) -> tuple[Any, NDArray | None, int]:
    """At most `most` rows of a table, their numbers if it is in memory, and how
    many rows there are.
    """
    if not isinstance(table, TableSource):
        numbers = np.sort(np.random.default_rng(0).permutation(table.num_rows)[:most])
        return table.take(pa.array(numbers)), numbers, table.num_rows
    n_rows = table.n_rows or 0
    share = scored_share(table, n_rows, min(2 * most / max(n_rows, 1), 1.0))
    rows = drawn_rows(table, share, 0, None)
    if rows is None:
        raise CommandError(f"{data}: the table has no rows")
    return rows.X[:most], None, n_rows


def _explained_columns(explanation: Any, numbers: NDArray | None, target: str) -> Facts:
    """Columns by name: which row, and which output where there are several; prediction,
    base value, a value for each.

    Names that an input column has, too, get an underscore at the end.
    """
    n, d = explanation.values.shape[:2]
    outputs = explanation.output_names if explanation.values.ndim == 3 else ("",)
    K = len(outputs)
    names = explanation.feature_names
    leading_columns: Facts = {} if numbers is None else {"row": np.repeat(numbers, K)}
    leading_columns |= (
        {"output": np.tile(np.array(outputs, dtype=object), n)}
        if explanation.values.ndim == 3
        else {}
    )
    leading_columns[f"{target}_predicted"] = explanation.predictions.ravel()
    leading_columns[f"{target}_base"] = np.tile(
        np.atleast_1d(explanation.base_values), n
    )
    columns = {
        name + "_" * (name in names): values for name, values in leading_columns.items()
    }
    for suffix, values in (("", explanation.values), ("_error", explanation.errors)):
        if values is not None:
            flat = values.reshape(n, d, K).swapaxes(1, 2).reshape(n * K, d)
            columns |= {f"{name}{suffix}": flat[:, j] for j, name in enumerate(names)}
    return columns


def evaluate(
    model: Path, data: Path, target: str | None, interval: float | None
) -> Facts:
    """Score a model on the rows of a table that has the target."""
    saved = read_model(model)
    notes = list[str]()
    PredictionOptions(interval=interval).check(saved)
    start = CLOCK.seconds()
    saved, X, truth, n_rows = true_rows(saved, data, target, notes)
    with errors_of(data):
        scored, more = score(saved.model, X, truth, saved.baseline, data, interval)
    return {
        "model": str(model),
        "data": str(data),
        "rows": n_rows,
        "rows_without_target": truth.missing,
        "rows_test": len(truth.values),
        "target": saved.target,
        "task": saved.task,
        "scores": scored,
        "seconds": CLOCK.seconds() - start,
        "peak_memory_bytes": peak_bytes(),
        "notes": notes + more + _remarks_on_rows(saved, X, _share(truth, n_rows)),
    }


def _share(target: Target, n_rows: int) -> float:
    """How much of the rows of a table those are that have been read."""
    return len(target.values) / max(n_rows - target.missing, 1)


def _remarks_on_rows(saved: SavedModel, X: Any, share: float) -> list[str]:
    """That a model was scored on its training rows, and what the fit measured on
    others.
    """
    seen = training_rows_among(saved.model, X, share, saved.rows)
    if not seen:
        return []
    remark = f"These are training rows ({seen}): their scores say nothing of new rows."
    if saved.scores is None:
        return [remark]
    key = "accuracy" if saved.task == "classification" else "r2"
    held_out = f"{NAMES[key]} {cells(key, saved.scores[key])[0]}"
    return [f"{remark} On rows that it held out, 'bochner fit' measured {held_out}."]


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
        cure = (
            ""
            if saved.target is None
            else f"; the model predicts '{printable(saved.target)}'"
        )
        raise CommandError(
            f"{saved.path}: column '{printable(name)}' is an input of the model, not "
            f"its target{cure}"
        )
    saved = replace(saved, target=name)
    table = saved.open_table(data, notes.append, name)
    n_rows = (table.n_rows or 0) if isinstance(table, TableSource) else table.num_rows
    with errors_of(data):
        rows = (
            _scored_rows(table, name, data, notes)
            if isinstance(table, TableSource)
            else Batch(table)
        )
        X, target = with_target(rows, name, saved.task, data)
        X = saved.inputs(X, data)
        if isinstance(table, pa.Table):
            refuse_infinite(X, data)
        if target.missing:
            X = (
                X.take(pa.array(target.rows))
                if isinstance(X, pa.Table)
                else X[target.rows]
            )
        return saved, X, target, n_rows


def _scored_rows(source: TableSource, name: str, data: Path, notes: list[str]) -> Batch:
    """Rows of a table that stays where it is, as many as tell the score."""
    n_rows = source.n_rows or 0
    if source.names is not None and name not in source.names:
        raise missing_column(name, source.names, data)
    share = scored_share(source, n_rows, 1.0)
    rows = drawn_rows(source, share, 0, name)
    if rows is None:
        raise no_values(name, data)
    if share < 1:
        notes.append(
            f"Scored on about {share * n_rows:,.0f} rows, sampled by a hash of their "
            "content, which is enough for the "
            "score."
        )
    return rows


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
    start = CLOCK.seconds()
    saved, X, truth, n_rows = true_rows(saved, data, target, notes)
    lines = (_fit_line(saved), _report_line(saved, data, out, target, training))
    fitted = None
    if training is not None:
        _, X_train, training_truth, n_train = true_rows(saved, training, target, notes)
        fitted = X_train, training_truth.values, _row_numbers(training_truth, n_train)
    origin = Origin(
        saved.target,
        model.name,
        saved.baseline,
        saved.scores,
        saved.references,
        saved.rows,
        _row_numbers(truth, n_rows),
        _share(truth, n_rows),
        lines,
        saved.rows_held_out,
    )
    with errors_of(data):
        write_report(saved.model, X, truth.values, out, origin, fitted)
    return {
        "model": str(model),
        "data": str(data),
        "rows": n_rows,
        "rows_without_target": truth.missing,
        "target": saved.target,
        "out": str(out),
        "bytes": os.path.getsize(out),
        "seconds": CLOCK.seconds() - start,
        "peak_memory_bytes": peak_bytes(),
        "notes": notes,
    }


def _row_numbers(truth: Target, n_rows: int) -> NDArray | None:
    """Numbers of the rows in their table; None where only some of it were read."""
    return truth.rows if n_rows == len(truth.rows) + truth.missing else None


def _fit_line(saved: SavedModel) -> str:
    """The command that fits such a model; the table of its rows is not known, nor
    all options of other programs.
    """
    options = saved.options
    if options is None:
        parameters = {name: getattr(saved.model, name, None) for name in OPTIONS} | {
            "seed": saved.model.random_state
        }
        plain = {
            key: value
            for key, value in parameters.items()
            if isinstance(value, str | int | float)
        }
        told = {
            key: value
            for key, value in plain.items()
            if value not in ("auto", "squared")
        }
        options = [
            word
            for key, value in told.items()
            for word in (f"--{key.replace('_', '-')}", str(value))
        ]
        options += (
            ["--uncertainty"] if getattr(saved.model, "uncertainty", False) else []
        )
        options += [] if getattr(saved.model, "bounded", True) else ["--unbounded"]
    words = [
        "--target",
        str(saved.target),
        "--task",
        saved.task,
        *options,
        "--out",
        str(saved.path),
    ]
    return "bochner fit TRAINING_TABLE " + shlex.join(words)


def _report_line(
    saved: SavedModel, data: Path, out: Path, name: str | None, training: Path | None
) -> str:
    named = [] if name is None else ["--target", name]
    named += [] if training is None else ["--training", str(training)]
    return shlex.join(
        ["bochner", "report", str(saved.path), str(data), "--out", str(out), *named]
    )
