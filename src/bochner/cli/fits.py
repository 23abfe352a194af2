"""Fits for the command: a report, a dict fit for JSON."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bochner.cli.errors import CommandError, errors_of, missing_column
from bochner.cli.evaluation import baseline, described_baseline, score
from bochner.cli.facts import model_facts
from bochner.cli.fitting import Fit, asked_task, estimator_of
from bochner.cli.peak import peak_bytes
from bochner.cli.saved import check_output, write_model
from bochner.cli.streams import fit_source
from bochner.cli.tables import open_table, refuse_infinite
from bochner.cli.target import Target, hold_out, read_target, with_task
from bochner.data.table import TableEncoder
from bochner.loops.clock import CLOCK
from bochner.sources.base import TableSource

FEW_ROWS, DISTINCT = 20, 0.9
CLASSES = "if it holds classes, use --task classification"


def fit(arguments: Fit) -> dict[str, Any]:
    """Fit a model, score it on held-out rows, and save one fitted on all rows."""
    if arguments.out is not None:
        check_output(arguments.out, arguments.data)
    notes: list[str] = []
    if arguments.target in arguments.exclude:
        raise CommandError(f"column '{arguments.target}' is the target; it cannot be excluded")
    table = _opened(arguments, notes)
    if isinstance(table, TableSource):
        report = fit_source(arguments, table)
        return report | {"notes": notes + report["notes"]}
    target = with_task(read_target(table, arguments.target, arguments.data), asked_task(arguments), arguments.data)
    if arguments.uncertainty and target.task == "classification":
        raise CommandError(
            f"{arguments.data}: column '{target.name}' holds classes; --uncertainty is for regression: leave it out, "
            "or use --task regression"
        )
    X = _input_columns(table, arguments)
    with errors_of(arguments.data):
        refuse_infinite(X, arguments.data)
        TableEncoder().fit(X)  # refuses what cannot be encoded by its row in the file, not in a part of it
    notes += _notes(X, target, [name for name in X.column_names if any(_says_why(note, name) for note in notes)])
    if target.missing:
        X = X.take(pa.array(target.rows))
    report = {
        "command": "fit",
        "data": str(arguments.data),
        "rows": table.num_rows,
        "rows_without_target": target.missing,
        "columns": X.num_columns,
        "target": target.name,
        "task": target.task,
        "task_inferred_because": target.reason or None,
        "task_can_change": target.kind in ("integer", "boolean"),
        "seed": arguments.seed,
    }
    with errors_of(arguments.data):
        return report | _scored_and_saved(arguments, X, target, notes)


def _opened(arguments: Fit, notes: list[str]) -> pa.Table | TableSource:
    """The table, refused where its target is text because of few values, unless it holds classes."""
    return open_table(
        arguments.data,
        notes.append,
        sample=arguments.run.sample,
        exclude=arguments.exclude,
        named=[arguments.target],
        refused={} if asked_task(arguments) == "classification" else {arguments.target: CLASSES},
    )


def _scored_and_saved(arguments: Fit, X: pa.Table, target: Target, notes: list[str]) -> dict[str, Any]:
    """Fit on the rows that are not held out, score, and fit on all of them if the model is to be saved."""
    start, scored = CLOCK.seconds(), None
    train = test = np.arange(X.num_rows)
    if arguments.test_size:
        if X.num_rows < 2:
            raise CommandError("one row with a target cannot be split; give more rows, or use --test-size 0")
        train, test = hold_out(target, arguments.test_size, arguments.seed)
    part = X if not arguments.test_size else X.take(pa.array(train))
    model = estimator_of(arguments, target.task).fit(part, target.values[train])
    facts = model_facts(model)
    if arguments.test_size:
        held_out = replace(target, values=target.values[test], rows=target.rows[test])
        scored, more = score(model, X.take(pa.array(test)), held_out, baseline(target, train), arguments.data)
        notes = notes + more
    if arguments.out is not None:
        if arguments.test_size:
            model = _on_all_rows(model, arguments, X, target)
        write_model(model, arguments.out, target.name, target.task, len(target.values), baseline(target), scored)
    return {
        "rows_train": len(train),
        "rows_test": len(test) if arguments.test_size else 0,
        "scores": scored,
        "baseline": described_baseline(target, train),
        "model": facts,
        "seconds": CLOCK.seconds() - start,
        "peak_memory_bytes": peak_bytes(),
        "out": None if arguments.out is None else str(arguments.out),
        "rows_saved_model": None if arguments.out is None else X.num_rows,
        "notes": notes,
    }


def _on_all_rows(model: Any, arguments: Fit, X: pa.Table, target: Target) -> Any:
    """The model that was scored, fitted to all rows; chosen again where held-out rows have new classes."""
    if target.task == "classification" and len(np.setdiff1d(target.values, model.classes_)):
        return estimator_of(arguments, target.task).fit(X, target.values)
    return model.refit(X, target.values)


def _input_columns(table: pa.Table, arguments: Fit) -> pa.Table:
    one_file = arguments.data.is_file()  # of several only those columns were read that are not left out
    for name in arguments.exclude:
        if one_file and name not in table.column_names:
            raise missing_column(name, table.column_names, arguments.data)
    X = table.drop_columns([name for name in table.column_names if name in (arguments.target, *arguments.exclude)])
    if not any(column.null_count < len(column) for column in X.columns):
        why = "every column but the target is empty" if X.num_columns else "there is none besides the target"
        raise CommandError(f"{arguments.data}: no column to learn from: {why}")
    return X


def _says_why(note: str, name: str) -> bool:
    """Whether a note tells why a column is text."""
    return note.startswith(f"Column {name!r} is text because")


def _notes(X: pa.Table, target: Target, explained: Collection[str]) -> list[str]:
    """Remarks on columns that do not look like features, and on a strange target; none on text that is explained."""
    notes = []
    for name, column in zip(X.column_names, X.columns, strict=True):
        kind, n = column.type, len(column) - column.null_count
        if (pa.types.is_string(kind) or pa.types.is_large_string(kind)) and n >= FEW_ROWS and name not in explained:
            distinct = pc.count_distinct(column).as_py()
            if distinct > DISTINCT * n:
                what = f"is text with {distinct:,} different values in {n:,} rows, like an identifier"
                notes.append(f"Column '{name}' {what}; use --exclude '{name}' to leave it out.")
        elif pa.types.is_integer(kind) and n == len(column) >= FEW_ROWS:
            steps = np.diff(column.to_numpy())
            if (steps == 1).all():
                notes.append(f"Column '{name}' is a row number; use --exclude '{name}' to leave it out.")
    if target.task == "classification":
        distinct = pc.count_distinct(pa.array(target.values)).as_py()
        if distinct > max(len(target.values) // 2, FEW_ROWS):
            notes.append(f"The target has {distinct:,} classes in {len(target.values):,} rows, like an identifier.")
    return notes
