"""Fits and scores for the command where a table stays where it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bochner.cli.errors import CommandError, errors_of, missing_column
from bochner.cli.evaluation import score
from bochner.cli.facts import model_facts
from bochner.cli.fitting import Fit, asked_task, estimator_of
from bochner.cli.peak import peak_bytes
from bochner.cli.saved import check_output, write_model
from bochner.cli.tables import joined, judging_rows, noted
from bochner.cli.target import Target, infer_task, kind_of_type, read_target
from bochner.loops.clock import CLOCK
from bochner.persistence import describe, load, save
from bochner.sources.base import Batch, TableSource
from bochner.sources.hash_split import HashSplit, filter_rows
from bochner.sources.opening import open_source
from bochner.sources.rows import finite_batches
from bochner.sources.schema import bare

MOST_COUNTED = 10_000  # different values of a target


@dataclass
class Targets:
    """What the values of the target are like, of all rows that have one.

    Attributes
    ----------
    name, kind : str
        As of `Target`; numbers are whole ones as long as no fraction is found.
    n_rows, missing : int
        Of all rows, and those without a value.
    total : float
        Sum of the numbers.
    low, high : float
    counts : Counter or None
        Rows of each value; None where there are more than 10,000 values.
    """

    name: str
    kind: str
    n_rows: int = 0
    missing: int = 0
    total: float = 0.0
    low: float = np.inf
    high: float = -np.inf
    counts: Counter | None = None

    @property
    def n_known(self) -> int:
        """Rows with a value."""
        return self.n_rows - self.missing

    def add(self, target: Target, n_rows: int) -> None:
        """Add the values of some more rows."""
        self.n_rows += n_rows
        self.missing += target.missing
        if target.kind == "number":
            self.kind, self.counts = "number", None
        if target.values.dtype.kind in "biuf" and len(target.values):
            self.total += float(target.values.sum(dtype=np.float64))
            self.low, self.high = min(self.low, target.values.min()), max(self.high, target.values.max())
        if self.counts is not None:
            found = pc.value_counts(pa.array(target.values))
            pairs = zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True)
            self.counts.update(dict(pairs))
            if len(self.counts) > MOST_COUNTED:
                self.counts = None

    def baseline(self, task: str, without: Target | None = None) -> Any:
        """Shares of the classes, or the mean, but for some rows."""
        if task == "regression":
            total, n = self.total, self.n_known
            if without is not None:
                total, n = total - float(without.values.sum(dtype=np.float64)), n - len(without.values)
            return total / n
        counts = self.class_counts(without)
        return [count / sum(counts.values()) for count in counts.values()]

    def class_counts(self, without: Target | None = None) -> dict[Any, int]:
        """Rows of each class, in the order of the classes."""
        counts = Counter(self.counts)
        if without is not None:
            counts.subtract(without.values.tolist())
        return {label: counts[label] for label in sorted(counts) if counts[label] > 0}

    def described(self, task: str, without: Target | None = None) -> dict[str, Any]:
        """What the baseline predicts, for people."""
        if task == "regression":
            return {"predicts": "the mean of the training rows", "value": self.baseline(task, without)}
        counts = self.class_counts(without)
        best = max(counts, key=lambda label: counts[label])
        return {"predicts": "the most frequent class", "value": best, "share": counts[best] / sum(counts.values())}


def fit_source(arguments: Fit, source: TableSource) -> dict[str, Any]:
    """Fit a model to a table that stays where it is, score it on rows held out, and save one fitted to all rows."""
    if source.names is not None and arguments.target not in source.names:
        raise missing_column(arguments.target, source.names, arguments.data)
    if source.names == [arguments.target]:
        raise CommandError(f"{arguments.data}: no column to learn from: there is none besides the target")
    _check_checkpoint(arguments)
    if asked_task(arguments) == "classification" and isinstance(source.schema, pa.Schema):
        source = replace(source, schema=bare(source.schema))  # text is meant, even if most of it is numbers
    with errors_of(arguments.data):
        targets = look_at_target(source, arguments)
        task, reason = _task(arguments, targets)
        report = _scored_and_saved(arguments, source, targets, task)
    return report | {
        "command": "fit",
        "data": str(arguments.data),
        "rows": targets.n_rows,
        "rows_without_target": targets.missing,
        "columns": source.schema if isinstance(source.schema, int) else len(source.schema) - 1,
        "target": arguments.target,
        "task": task,
        "task_inferred_because": reason or None,
        "task_can_change": targets.kind in ("integer", "boolean"),
        "seed": arguments.seed,
        "out": None if arguments.out is None else str(arguments.out),
        "rows_saved_model": None if arguments.out is None else targets.n_known,
        "peak_memory_bytes": peak_bytes(),
    }


def _check_checkpoint(arguments: Fit) -> None:
    """Raise CommandError where no checkpoint can be written, or another one would be lost, before any work."""
    file, out = arguments.run.checkpoint, arguments.out
    if file is None:
        return
    check_output(file, arguments.data)
    if out is not None and out.resolve() == file.resolve():
        raise CommandError(f"{file}: is also the name of the model; give the checkpoint another name")
    if file.exists() and not arguments.run.resume:
        raise CommandError(
            f"{file}: the checkpoint exists; continue from it with --resume, delete it, or use another name"
        )


def _scored_and_saved(arguments: Fit, source: TableSource, targets: Targets, task: str) -> dict[str, Any]:
    """Fit on the rows that are not held out, score, and fit on all of them if the model is to be saved."""
    start, scored, held, notes = CLOCK.seconds(), None, None, list[str]()
    rule = HashSplit(0.0, 1.0, arguments.seed, arguments.target)
    train = whole = filter_rows(source, rule) if targets.missing else source
    if arguments.test_size:
        judging, share = judging_rows(source, targets.n_known, arguments.test_size, rule)
        X, held = _held_out(judging, arguments, task)
        train = filter_rows(source, replace(rule, low=share))
    model = _fitted(arguments, task, train, held is not None)
    facts = model_facts(model)
    if held is not None:
        scored, notes = score(model, X, held, targets.baseline(task, held), arguments.data)
    if arguments.out is not None:
        if held is not None:
            model = _on_all_rows(model, arguments, task, whole, targets)
        write_model(model, arguments.out, arguments.target, task, targets.n_known, targets.baseline(task), scored)
    _forget(arguments)
    n_test = 0 if held is None else len(held.values)
    return {
        "rows_train": targets.n_known - n_test,
        "rows_test": n_test,
        "scores": scored,
        "baseline": targets.described(task, held),
        "model": facts,
        "seconds": CLOCK.seconds() - start,
        "notes": notes,
    }


def _on_all_rows(model: Any, arguments: Fit, task: str, source: TableSource, targets: Targets) -> Any:
    """The model that was scored, fitted to all rows; chosen again where held-out rows have new classes."""
    if task == "classification" and set(targets.class_counts()) - set(model.classes_.tolist()):
        return _fitted(arguments, task, source)
    with arguments.run.kept():
        return model.refit(source) if source.names is None else model.refit(source, arguments.target)


def look_at_target(source: TableSource, arguments: Fit) -> Targets:
    """Read the target alone, in all rows."""
    name, path, kind = arguments.target, arguments.data, "integer"
    if source.names is not None:
        assert isinstance(source.schema, pa.Schema)
        kind = kind_of_type(source.schema.field(name).type)
        with noted(lambda text: None):  # again
            source = open_source(path, columns=[name], schema=pa.schema([source.schema.field(name)]))
    targets = Targets(name, "integer" if kind == "number" else kind, counts=Counter())
    for part in source.parts:
        first = 0
        for batch in finite_batches(part):
            table = batch.X if isinstance(batch.X, pa.Table) else pa.table({name: batch.y})
            targets.add(read_target(table, name, part.name, first), table.num_rows)
            first += table.num_rows
    if not targets.n_known:
        raise CommandError(f"{path}: column '{name}' has no values; choose another target, or give rows that have one")
    return targets


def _task(arguments: Fit, targets: Targets) -> tuple[str, str]:
    """What is learned, and why."""
    path, name, counts = arguments.data, targets.name, targets.counts
    if counts is not None and len(counts) == 1 and targets.n_known > 1:
        raise CommandError(
            f"{path}: column '{name}' is {next(iter(counts))} in all of its {targets.n_known:,} rows; "
            "choose another target"
        )
    task, reason = asked_task(arguments), ""
    if task == "auto":
        distinct = MOST_COUNTED if counts is None else len(counts)
        task, reason = infer_task(targets.kind, distinct, targets.n_known, targets.low, targets.high)
    if task == "regression" and targets.kind in ("text", "category"):
        raise CommandError(f"{path}: column '{name}' holds text; regression needs numbers: use --task classification")
    if task == "classification" and targets.kind == "number":
        raise CommandError(f"{path}: column '{name}' holds fractional numbers, not classes; use --task regression")
    if task == "classification" and counts is None:
        raise CommandError(
            f"{path}: column '{name}' has more than {MOST_COUNTED:,} different values, like an identifier; "
            "choose another target"
        )
    if arguments.uncertainty and task == "classification":
        raise CommandError(
            f"{path}: column '{name}' holds classes; --uncertainty is for regression: leave it out, or use --task "
            "regression"
        )
    return task, reason


def _held_out(source: TableSource, arguments: Fit, task: str) -> tuple[Any, Target]:
    """The rows that judge, and their targets."""
    batches = [batch for part in source.parts for batch in part.read() if batch.X.shape[0]]
    if not batches:
        raise CommandError(f"{arguments.data}: the test split has no rows; give more rows, or a larger --test-size")
    return split_target(joined(batches), arguments.target, task, arguments.data)


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


def _fitted(arguments: Fit, task: str, source: TableSource, scored: bool = False) -> Any:
    """A fitted model; of one that is to be scored, with another fit after it, a file tells beside the checkpoint."""
    model, file = estimator_of(arguments, task), _scored_file(arguments)
    if not scored or file is None or arguments.out is None:
        with arguments.run.kept():
            return model.fit(source) if source.names is None else model.fit(source, arguments.target)
    identity = f"{source.fingerprint()} {model!r}"
    if arguments.run.resume and file.exists():
        if describe(file)["metadata"].get("identity") != identity:
            raise CommandError(
                f"{file}: belongs to other data or options; use the same ones, or remove it and the checkpoint"
            )
        return load(file)
    model = _fitted(arguments, task, source)
    save(model, file, metadata={"identity": identity})
    return model


def _scored_file(arguments: Fit) -> Path | None:
    checkpoint = arguments.run.checkpoint
    return None if checkpoint is None else Path(f"{checkpoint}.scored")


def _forget(arguments: Fit) -> None:
    """Remove what was kept beside the checkpoint."""
    file = _scored_file(arguments)
    if file is not None:
        file.unlink(missing_ok=True)
