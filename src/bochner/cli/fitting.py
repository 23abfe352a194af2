"""Fits and plans for the command, of tables of any size: each function returns its
report, a dict fit for JSON.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bochner.cli.arguments import Arguments
from bochner.cli.failures import CommandError, Facts, errors_of
from bochner.cli.hold_out import hold_out
from bochner.cli.model_files import model_facts, write_model
from bochner.cli.references import reference_scores
from bochner.cli.tables import (
    DECIMAL_COMMAS,
    check_output,
    fitted_encoder,
    open_table,
    refuse_infinite,
)
from bochner.cli.target import (
    learned_task,
    score,
    summary_of_target,
    with_target_read,
)
from bochner.data.written_values import is_missing_word
from bochner.notices import listed
from bochner.planning.table_shape import table_shape
from bochner.sources.base import TableSource
from bochner.sources.schema import require

FEW_ROWS = 20


def estimator_of(arguments: Arguments, task: str) -> Any:
    from bochner import KernelMachineClassifier, KernelMachineRegressor

    model: Any = KernelMachineClassifier()
    if task == "regression":
        model = KernelMachineRegressor(bounded=not arguments.unbounded)
    # Options that are parameters have their names, and "auto" is the default of all
    given = {
        name: value
        for name, value in vars(arguments).items()
        if name in model.get_params() and value != "auto"
    }
    given |= {"random_state": arguments.seed, "verbose": 1}
    given |= {"numeric_features": arguments.numeric or None}
    if arguments.time is not None:
        from sklearn.model_selection import TimeSeriesSplit

        given["cv"] = TimeSeriesSplit()
    return model.set_params(**given, **arguments.how_text_is_read)


def fit(**given: Any) -> Facts:
    """Fit a model, score it on held-out rows, and save one fitted on all rows."""
    arguments = Arguments(**given)
    path = arguments.data
    out = arguments.out
    notes: list[str] = []
    n_test = 0
    scored = others = n_saved = None
    with errors_of(path):
        table = _opened(arguments, notes)
        target = summary_of_target(table, arguments.target, arguments.asked_task, path)
        task, reason = learned_task(target, arguments.asked_task)
        for option in ("uncertainty", "unbounded"):
            if task == "classification" and getattr(arguments, option):
                is_text = target.kind in ("text", "category")
                cure = "" if is_text else ", or use --task regression"
                raise CommandError(
                    f"{path}: column '{target.name}' holds classes; --{option} is "
                    f"for regression: leave it out{cure}"
                )
        if task == "classification":
            words = [
                label
                for label in target.classes()
                if isinstance(label, str) and is_missing_word(label)
            ]
            if words:
                notes.append(
                    f"Column {target.name!r}: {listed(words)} may stand for a missing "
                    "value, and counts as a class; write nothing there to leave such "
                    "rows out."
                )
        if isinstance(table, pa.Table):
            # Columns that cannot be learned from, or do not look like features; what
            # is text for a reason that the notes tell is explained already
            beside = [arguments.group] if arguments.group else []
            X = table.drop_columns([target.name, *beside])
            if not any(column.null_count < len(column) for column in X.columns):
                raise CommandError(
                    f"{path}: no column to learn from: every column but the target is "
                    "empty"
                )
            refuse_infinite(X, path)
            said = "\n".join(notes)
            encoder = fitted_encoder(X, notes, arguments.how_text_is_read)
            for name, column in zip(X.column_names, X.columns, strict=True):
                kind = column.type
                n = len(column) - column.null_count
                is_explained = f"Column {name!r} is text because" in said
                if name in encoder.written or n < FEW_ROWS or is_explained:
                    continue
                if pa.types.is_string(kind) or pa.types.is_large_string(kind):
                    distinct = pc.count_distinct(column).as_py()
                    if distinct > 0.9 * n:
                        notes.append(
                            f"Column '{name}' is text with {distinct:,} different "
                            f"values in {n:,} rows, like an identifier; use --exclude "
                            f"'{name}' to leave it out."
                        )
            n = target.n_known
            if task == "classification" and target.distinct > max(n // 2, FEW_ROWS):
                notes.append(
                    f"The target has {target.distinct:,} classes in {n:,} rows, like "
                    "an identifier."
                )
        split = hold_out(table, target, task, arguments, notes)
        with warnings.catch_warnings():
            # The notes have it already
            for note in notes:
                warnings.filterwarnings("ignore", re.escape(note))
                column, read, _ = note.partition(": read as numbers")
                if read:  # of parts of the rows, with other counts
                    gaps = f"{column} has missing values, and had none"
                    warnings.filterwarnings("ignore", re.escape(column + read))
                    warnings.filterwarnings("ignore", re.escape(gaps))
            n_train = split.train_target.n_known
            model = estimator_of(arguments, task).fit(*split.train)
            facts = model_facts(model)
            guesses = [] if model.report_ is None else model.report_.guesses
            of_baseline, baseline = split.train_target.baseline(task)
            if split.test is not None:
                n_test = len(split.test[1].values)
                scored, remarks = score(model, *split.test, of_baseline)
                notes += remarks
                if remark := remark_on_score(scored, n_test, model, baseline):
                    notes.append(remark)
                others = reference_scores(split, n_train, model, of_baseline, path)
            if out is not None:
                if split.test is not None:
                    if task == "classification" and set(target.classes()) - set(
                        model.classes_.tolist()
                    ):
                        model = estimator_of(arguments, task).fit(*split.all_rows)
                        notes.append(
                            "The saved model was chosen again on all rows, as the test "
                            "rows have classes that the training rows lack; it is "
                            "another one than was scored."
                        )
                    else:
                        model = model.refit(*split.all_rows)
                n_saved = target.n_known
                told: Facts = {
                    "rows": n_saved,
                    "baseline": target.baseline(task)[0],
                    "rows_held_out": split.said,
                    "options": arguments.options,
                    "scores": scored,
                    "references": others,
                    "decimal_commas": DECIMAL_COMMAS in notes,
                }
                if isinstance(table, TableSource) and table.sparse:
                    told["first_index"] = getattr(table.parts[0], "first_index", None)
                write_model(model, out, arguments.target, task, told)
    n_columns = table.schema
    if isinstance(n_columns, pa.Schema):
        n_columns = len(n_columns) - 1 - (arguments.group is not None)
    by = "group" if arguments.group else "time" if arguments.time else "chance"
    return {
        "rows": target.n_known + target.missing,
        "rows_without_target": target.missing,
        "columns": n_columns,
        "target": target.name,
        "task": task,
        "task_inferred_because": reason or None,
        "task_can_change": target.kind in ("integer", "boolean"),
        "seed": arguments.seed,
        "split": {"by": by, "column": arguments.group or arguments.time},
        "rows_train": n_train,
        "rows_test": n_test,
        "rows_test_are": split.said or None,
        "scores": scored,
        "references": others,
        "baseline": baseline,
        "model": facts,
        "out": None if out is None else str(out),
        "rows_saved_model": n_saved,
        "notes": notes + guesses,
    }


def _opened(arguments: Arguments, notes: list[str]) -> pa.Table | TableSource:
    """The table, refused where its target is text because of few values, unless it
    holds classes.
    """
    path = arguments.data
    name = arguments.target
    if arguments.out is not None:
        check_output(arguments.out, path)
    if name in arguments.exclude:
        raise CommandError(f"column '{name}' is the target; it cannot be excluded")
    if arguments.group is not None and arguments.time is not None:
        raise CommandError(
            "--group and --time say two things of the rows held out: leave one out"
        )
    beside = [one for one in (arguments.group, arguments.time) if one is not None]
    for one in beside:
        if one == name or one in arguments.exclude:
            what = "the target" if one == name else "excluded"
            raise CommandError(f"column '{one}' is {what}; name another one")
    table = open_table(
        path,
        notes,
        arguments.exclude,
        [name, *beside],
        as_text=arguments.text or (),
        sample=arguments.sample,
    )
    if not isinstance(table.schema, pa.Schema):
        if beside:
            raise CommandError(
                f"{path}: its columns have no names; leave out --group and --time"
            )
        return table
    names = table.schema.names
    require(names, [name, *beside])
    if names == [name] or {*names} == {name, arguments.group}:
        raise CommandError(
            f"{path}: no column to learn from: there is none besides the target"
        )
    return with_target_read(table, name, arguments.asked_task, notes)


def remark_on_score(
    scores: Facts, n_rows: int, model: Any, baseline: Facts
) -> str | None:
    """What is suspect about the scores of test rows: nearly perfect ones by a few
    columns, or ones of chance.

    Parameters
    ----------
    scores : dict
        As of `score`.
    n_rows : int
        Test rows.
    model : fitted estimator
    baseline : dict
        What a model without inputs predicts.
    """
    # The scores of few rows tell nothing
    if n_rows < 30:
        return None
    one = scores["r2" if "r2" in scores else "log_loss"]
    value, of_baseline = one["value"], one["baseline"]
    gain = of_baseline - value
    perfect = value <= 0.05 * of_baseline
    if "r2" in scores:
        gain = value - of_baseline
        perfect = value >= 0.999
    if gain <= (one["standard_error"] or 0.0):
        return (
            f"The score is no better than that of {baseline['predicts']}, predicted "
            "for every row: the columns tell nothing about the target, or more rows "
            "are needed."
        )
    if not perfect:
        return None
    importance = getattr(model, "importance_", None)
    if importance is None:
        return (
            "The score is nearly perfect: does a column tell what is known only "
            "with the target?"
        )
    # Few columns that have nearly all of the importance
    names, shares = zip(*importance.top_columns(3), strict=True)
    n_telling = np.searchsorted(np.cumsum(shares), 0.95) + 1
    if n_telling > len(names):
        return None
    telling = names[:n_telling]
    tells, are = ("tells", "is it") if len(telling) == 1 else ("tell", "are they")
    return (
        f"The score is nearly perfect, and {listed(telling)} {tells} the target: "
        f"{are} known before the target is? If not, --exclude leaves a column out."
    )


def plan(**given: Any) -> Facts:
    """Plan one fit of all rows, without a look at any."""
    arguments = Arguments(**given, seed=None)
    data, target, task = arguments.data, arguments.target, arguments.asked_task
    notes: list[str] = []
    with errors_of(data):
        rows = table_shape(
            data, target, sample=arguments.sample, exclude=arguments.exclude
        )
        if rows.names is not None:
            require(rows.names, [target])
        if task == "auto":
            kind = pa.float64() if rows.target is None else rows.target
            is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
            task = "regression" if is_number else "classification"
            notes.append(
                f"Planned as {task}; use --task if the target is something else."
            )
        fit_plan = estimator_of(arguments, task).plan_rows(rows)
    notes.append(
        "This is one fit: 'bochner fit' fits twice if it both scores and saves a model."
    )
    return {"target": target, "task": task, "plan": fit_plan, "notes": notes}
