"""Fits for the command: each function returns its report, a dict fit for JSON."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bochner.cli.errors import CommandError, errors_of, missing_column
from bochner.cli.facts import model_facts
from bochner.cli.saved import check_output, write_model
from bochner.cli.tables import joined, judging_rows, noted, open_table, refuse_infinite
from bochner.cli.target import (
    Target,
    baseline,
    described_baseline,
    hold_out,
    infer_task,
    kind_of_type,
    read_target,
    score,
    split_target,
    with_task,
)
from bochner.data.table import TableEncoder
from bochner.estimators.parameters import CLASS_LOSSES, NUMBER_LOSSES
from bochner.loops.clock import CLOCK
from bochner.persistence import describe, load, save
from bochner.planning.plan import described
from bochner.settings import peak_bytes, settings
from bochner.sources.base import TableSource
from bochner.sources.hash_split import HashSplit, filter_rows
from bochner.sources.opening import open_source
from bochner.sources.rows import finite_batches
from bochner.sources.schema import bare

CONNECTING = 10  # seconds to wait for a scheduler
CODE = ("bochner.estimators.regressor", "bochner.estimators.classifier", "bochner.loops.trig")  # 200 MB
MOST_COUNTED = 10_000  # different values of a target
FEW_ROWS, DISTINCT = 20, 0.9
CLASSES = "if it holds classes, use --task classification"


@dataclass(frozen=True)
class Run:
    """Settings of the run.

    Attributes
    ----------
    memory_limit : str or None
        A size such as 1.5GB.
    checkpoint : Path or None
    resume : bool
    sample : int or None
        First rows that stand for all.
    dask : str or None
        Address of a scheduler.
    device : str or None
        Where features are computed.
    """

    memory_limit: str | None = None
    checkpoint: Path | None = None
    resume: bool = False
    sample: int | None = None
    dask: str | None = None
    device: str | None = None

    @contextmanager
    def limited(self) -> Iterator[None]:
        """The memory limit and the place of all that is done inside, beside the code that is loaded before."""
        for name in CODE:
            import_module(name)
        with ExitStack() as stack:
            if self.memory_limit is not None:
                stack.enter_context(settings(memory_limit=self.memory_limit))
            if self.device is not None:
                stack.enter_context(settings(device=self.device))
            if self.dask is not None:
                stack.enter_context(settings(engine=stack.enter_context(dask_client(self.dask))))
            yield

    def kept(self) -> AbstractContextManager[Any]:
        """The checkpoint, for the fit inside."""
        return nullcontext() if self.checkpoint is None else settings(checkpoint=self.checkpoint, resume=self.resume)


def dask_client(address: str) -> Any:
    """A client of the scheduler at an address, which the caller closes."""
    try:
        from dask.distributed import Client
    except ImportError:
        raise CommandError("--dask needs Dask: pip install 'bochner[dask]'") from None
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what is wrong is said by the error
    try:
        return Client(address, timeout=CONNECTING, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise CommandError(f"no Dask scheduler answers at {address}: {error}") from error


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
    uncertainty : bool
        Whether the model is to know intervals and standard deviations.
    run : Run
    """

    data: Path
    target: str
    out: Path | None
    task: str
    test_size: float
    exclude: list[str]
    parameters: dict[str, Any]
    uncertainty: bool = False
    run: Run = Run()

    @property
    def seed(self) -> int:
        """Seed of the split and of the features."""
        return self.parameters["random_state"]


def asked_task(arguments: Fit) -> str:
    """The task that is asked for, perhaps by a loss that only one of the two has."""
    loss = arguments.parameters["loss"]
    if arguments.task != "auto":
        return arguments.task
    if loss in NUMBER_LOSSES:
        return "regression"
    return "classification" if loss in CLASS_LOSSES else "auto"


def estimator_of(arguments: Fit, task: str) -> Any:
    from bochner.estimators import KernelMachineClassifier, KernelMachineRegressor

    if task == "regression":
        loss = arguments.parameters["loss"]
        parameters = {**arguments.parameters, "loss": "squared" if loss == "auto" else loss}
        return KernelMachineRegressor(uncertainty=arguments.uncertainty, **parameters)
    return KernelMachineClassifier(**arguments.parameters)


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
        report = _stream_scored_and_saved(arguments, source, targets, task)
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


def _stream_scored_and_saved(arguments: Fit, source: TableSource, targets: Targets, task: str) -> dict[str, Any]:
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
            model = _stream_on_all_rows(model, arguments, task, whole, targets)
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


def _stream_on_all_rows(model: Any, arguments: Fit, task: str, source: TableSource, targets: Targets) -> Any:
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


def plan(arguments: Fit) -> dict[str, Any]:
    """Plan one fit of all rows, without a look at any."""
    path, run = arguments.data, arguments.run
    with run.limited(), errors_of(path):
        rows = described(path, arguments.target, sample=run.sample, exclude=arguments.exclude)
        if rows.names is not None and arguments.target not in rows.names:
            raise missing_column(arguments.target, list(rows.names), path)
        task, notes = asked_task(arguments), list[str]()
        if task == "auto":
            kind = "" if rows.target is None else kind_of_type(rows.target)
            task = "classification" if kind in ("text", "category", "boolean") else "regression"
            notes.append(f"Planned as {task}; use --task if the target is something else.")
        found = estimator_of(arguments, task).plan_rows(rows)
    notes.append("This is the cost of one fit: 'bochner fit' fits twice if it both scores and saves a model.")
    return {
        "command": "plan",
        "data": str(path),
        "target": arguments.target,
        "task": task,
        "plan": found,
        "notes": notes,
    }
