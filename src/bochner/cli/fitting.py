"""Fits and plans for the command, of tables of any size: each function returns its
report, a dict fit for JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bochner.cli.evaluation import remark_on_score
from bochner.cli.failures import CommandError, errors_of, missing_column
from bochner.cli.model_files import check_output, model_facts, write_model
from bochner.cli.references import reference_scores
from bochner.cli.tables import (
    drawn_rows,
    noted,
    open_table,
    refuse_infinite,
    scored_share,
)
from bochner.cli.target import (
    Target,
    TargetSummary,
    kind_of_type,
    learned_task,
    read_target,
    score,
    split_rows,
    with_target,
)
from bochner.data.table import TableEncoder
from bochner.estimators.parameters import CLASS_LOSSES, NUMBER_LOSSES
from bochner.loops.clock import CLOCK
from bochner.planning.plan import table_shape
from bochner.settings import peak_bytes, settings
from bochner.sources.base import TableSource
from bochner.sources.hash_split import HashSplit, filter_rows
from bochner.sources.opening import open_source
from bochner.sources.rows import finite_batches
from bochner.sources.schema import bare

TEST_SIZE = 0.2  # unless another share is given
CONNECTING = 10  # seconds to wait for a scheduler
# Modules of 200 MB, imported before the memory of a run is measured
CODE = (
    "bochner.estimators.regressor",
    "bochner.estimators.classifier",
    "bochner.loops.trig",
)
FEW_ROWS, DISTINCT = 20, 0.9
FEWEST_SPLIT = 5  # rows, of which one can be held out for a score
CLASSES = "if it holds classes, use --task classification"
TEXT = {"text", "category"}


@dataclass(frozen=True)
class Run:
    """Settings of the run.

    Attributes
    ----------
    memory_limit : str or None
        A size such as 1.5GB.
    sample : int or None
        First rows that stand for all.
    dask : str or None
        Address of a scheduler.
    device : str or None
        Where features are computed.
    """

    memory_limit: str | None = None
    sample: int | None = None
    dask: str | None = None
    device: str | None = None

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Set memory limit, device and engine for the block; code is loaded before,
        so that it does not count.
        """
        for name in CODE:
            import_module(name)
        with ExitStack() as stack:
            if self.memory_limit is not None:
                stack.enter_context(settings(memory_limit=self.memory_limit))
            if self.device is not None:
                stack.enter_context(settings(device=self.device))
            if self.dask is not None:
                stack.enter_context(
                    settings(engine=stack.enter_context(dask_client(self.dask)))
                )
            yield


def dask_client(address: str) -> Any:
    """A client of the scheduler at an address, which the caller closes."""
    try:
        from dask.distributed import Client
    except ImportError:
        raise CommandError("--dask needs Dask: pip install 'bochner[dask]'") from None
    logging.getLogger("distributed.client").setLevel(
        logging.CRITICAL
    )  # what is wrong is said by the error
    try:
        return Client(address, timeout=CONNECTING, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise CommandError(
            f"no Dask scheduler answers at {address}: {error}"
        ) from error


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
    def options(self) -> list[str]:
        """What was given on the command line and changes the model or its scores, as
        it is given there.
        """
        values = {
            f"--{key.replace('_', '-')}": value
            for key, value in self.parameters.items()
            if key != "verbose"
        }
        values["--seed"], numeric = (
            values.pop("--random-state"),
            values.pop("--numeric-features") or [],
        )
        values |= {
            f"--{key}": getattr(self.run, key) for key in ("sample", "dask", "device")
        }
        values |= {"--memory-limit": self.run.memory_limit}
        values |= {} if self.test_size == TEST_SIZE else {"--test-size": self.test_size}
        words = [
            word
            for key, value in values.items()
            if value not in ("auto", None)
            for word in (key, str(value))
        ]
        words += [word for name in self.exclude for word in ("--exclude", name)]
        words += [word for name in numeric for word in ("--numeric", name)]
        return [*words, "--uncertainty"] if self.uncertainty else words

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
        parameters = {
            **arguments.parameters,
            "loss": "squared" if loss == "auto" else loss,
        }
        return KernelMachineRegressor(uncertainty=arguments.uncertainty, **parameters)
    return KernelMachineClassifier(**arguments.parameters)


@dataclass(frozen=True)
class Split:
    """Rows to learn from, and rows that are held out of them.

    Attributes
    ----------
    train, all_rows : tuple
        Arguments of the estimator's `fit`: for the rows that are not held out, and for
        all rows with a target.
    test : tuple of rows and Target, or None
        The rows that are held out.
    train_target, target : TargetSummary
        Of the rows that are not held out, and of all.
    """

    train: tuple[Any, ...]
    all_rows: tuple[Any, ...]
    test: tuple[Any, Target] | None
    train_target: TargetSummary
    target: TargetSummary


def fit(arguments: Fit) -> dict[str, Any]:
    """Fit a model, score it on held-out rows, and save one fitted on all rows."""
    notes: list[str] = []
    table = _opened(arguments, notes)
    with errors_of(arguments.data):
        target = summary_of_target(table, arguments)
        task, reason = learned_task(target, asked_task(arguments), arguments.data)
        if arguments.uncertainty and task == "classification":
            raise CommandError(
                f"{arguments.data}: column '{target.name}' holds classes; "
                "--uncertainty is for regression: leave it "
                "out, or use --task regression"
            )
        if isinstance(table, pa.Table):
            notes += _check_columns(table, target, task, arguments, notes)
        split = hold_out(table, target, task, arguments, notes)
        report = _scored_and_saved(arguments, split, task)
    return {
        "data": str(arguments.data),
        "rows": target.n_rows,
        "rows_without_target": target.missing,
        "columns": table.schema
        if isinstance(table.schema, int)
        else len(table.schema) - 1,
        "target": target.name,
        "task": task,
        "task_inferred_because": reason or None,
        "task_can_change": target.kind in ("integer", "boolean"),
        "seed": arguments.seed,
        **report,
        "peak_memory_bytes": peak_bytes(),
        "notes": notes + report["notes"],
    }


def _opened(arguments: Fit, notes: list[str]) -> pa.Table | TableSource:
    """The table, refused where its target is text because of few values, unless it
    holds classes.
    """
    path, name, asked = arguments.data, arguments.target, asked_task(arguments)
    if arguments.out is not None:
        check_output(arguments.out, path)
    if name in arguments.exclude:
        raise CommandError(f"column '{name}' is the target; it cannot be excluded")
    refused = {} if asked == "classification" else {name: CLASSES}
    table = open_table(
        path, notes.append, (), arguments.run.sample, arguments.exclude, [name], refused
    )
    if isinstance(table.schema, pa.Schema):
        names = table.schema.names
        if name not in names:
            raise missing_column(name, names, path)
        if names == [name]:
            raise CommandError(
                f"{path}: no column to learn from: there is none besides the target"
            )
        if isinstance(table, TableSource) and asked == "classification":
            table = replace(
                table, schema=bare(table.schema)
            )  # text is meant, even if most of it is numbers
    return table


def summary_of_target(table: pa.Table | TableSource, arguments: Fit) -> TargetSummary:
    """Read the target alone, in all rows."""
    name = arguments.target
    if isinstance(table, pa.Table):
        return TargetSummary.of(read_target(table, name, arguments.data))
    found = TargetSummary(name)
    if isinstance(table.schema, pa.Schema):
        with noted(lambda text: None):  # again
            table = open_source(
                arguments.data,
                columns=[name],
                schema=pa.schema([table.schema.field(name)]),
            )
    for part in table.parts:
        first = 0
        for batch in finite_batches(part):
            piece = (
                batch.X if isinstance(batch.X, pa.Table) else pa.table({name: batch.y})
            )
            found += TargetSummary.of(read_target(piece, name, part.name, first))
            first += piece.num_rows
    return found


def hold_out(
    table: pa.Table | TableSource,
    target: TargetSummary,
    task: str,
    arguments: Fit,
    notes: list[str],
) -> Split:
    """Hold out a share of the rows that have a target, so that rows with equal features
    stay together: of a table in memory with as much of each class as there is in all
    rows, else by a hash of the content of each row.
    """
    if isinstance(table, TableSource):
        return _hold_out_by_content(table, target, task, arguments)
    own = read_target(table, target.name, arguments.data)
    own = own.as_numbers(arguments.data) if task == "regression" else own
    X = table.drop_columns([target.name])
    X = X.take(pa.array(own.rows)) if own.missing else X
    every, whole = (X, own.values), TargetSummary.of(own)
    if not arguments.test_size:
        return Split(every, every, None, whole, whole)
    if X.num_rows < FEWEST_SPLIT:
        found = f"{X.num_rows} row{'s' * (X.num_rows > 1)} with a target"
        raise CommandError(
            f"{found} cannot be split for a score; give {FEWEST_SPLIT} or more, or "
            "use --test-size 0"
        )
    train, test = split_rows(X, own, task, arguments.test_size, arguments.seed, notes)
    part = (X.take(pa.array(train)), own.values[train])
    return Split(
        part,
        every,
        (X.take(pa.array(test)), own.take(test)),
        TargetSummary.of(own.take(train)),
        whole,
    )


def _hold_out_by_content(
    source: TableSource, target: TargetSummary, task: str, arguments: Fit
) -> Split:
    """As `hold_out`, of a table that stays where it is; no more rows are held out
    than tell the score.
    """
    path, name, seed = arguments.data, target.name, arguments.seed
    if task == "regression" and target.kind in TEXT:
        raise CommandError(
            f"{path}: column '{name}' holds text; regression needs numbers: use "
            "--task classification"
        )
    names = () if source.names is None else (name,)
    every = (
        filter_rows(source, HashSplit(0.0, 1.0, seed, name))
        if target.missing
        else source,
        *names,
    )
    if not arguments.test_size:
        return Split(every, every, None, target, target)
    share = scored_share(source, target.n_known, arguments.test_size)
    drawn = drawn_rows(source, share, seed, name)
    if drawn is None:
        raise CommandError(
            f"{path}: the test split has no rows; give more rows, or a larger "
            "--test-size"
        )
    X, test = with_target(drawn, name, task, path)
    train = filter_rows(source, HashSplit(share, 1.0, seed, name))
    return Split((train, *names), every, (X, test), target.without(test), target)


def _scored_and_saved(arguments: Fit, split: Split, task: str) -> dict[str, Any]:
    """Fit on the rows that are not held out, score, and fit on all of them if the
    model is to be saved.
    """
    start, scored, notes, out = CLOCK.seconds(), None, list[str](), arguments.out
    others = None
    model = estimator_of(arguments, task).fit(*split.train)
    facts = model_facts(model)
    guesses = [] if model.report_ is None else model.report_.guesses
    if split.test is not None:
        scored, notes = score(
            model, *split.test, split.train_target.baseline(task), arguments.data
        )
        baseline = split.train_target.described_baseline(task)
        remark = remark_on_score(scored, len(split.test[1].values), model, baseline)
        notes = [*notes, *filter(None, [remark])]
        others = reference_scores(
            split.train, split.train_target.n_known, split.test, model, arguments.data
        )
    if out is not None:
        if split.test is not None:
            model = _on_all_rows(model, arguments, task, split)
        told = {
            "rows": split.target.n_known,
            "baseline": split.target.baseline(task),
            "scores": scored,
        }
        told |= {"references": others, "options": arguments.options}
        write_model(model, out, arguments.target, task, told)
    return {
        "rows_train": split.train_target.n_known,
        "rows_test": 0 if split.test is None else len(split.test[1].values),
        "scores": scored,
        "references": others,
        "baseline": split.train_target.described_baseline(task),
        "model": facts,
        "out": None if out is None else str(out),
        "rows_saved_model": None if out is None else split.target.n_known,
        "seconds": CLOCK.seconds() - start,
        "notes": notes + guesses,
    }


def _on_all_rows(model: Any, arguments: Fit, task: str, split: Split) -> Any:
    """The model that was scored, fitted to all rows; chosen again where held-out
    rows have new classes.
    """
    if task == "classification" and set(split.target.classes()) - set(
        model.classes_.tolist()
    ):
        return estimator_of(arguments, task).fit(*split.all_rows)
    return model.refit(*split.all_rows)


def _check_columns(
    table: pa.Table, target: TargetSummary, task: str, arguments: Fit, notes: list[str]
) -> list[str]:
    """Refuse what cannot be learned from, by its row in the file; remarks on what does
    not look like features.

    There are none on columns whose being text is explained in `notes`, nor on usual
    targets.
    """
    X = table.drop_columns([target.name])
    if not any(column.null_count < len(column) for column in X.columns):
        raise CommandError(
            f"{arguments.data}: no column to learn from: every column but the target "
            "is empty"
        )
    refuse_infinite(X, arguments.data)
    TableEncoder().fit(X)
    remarks = []
    for name, column in zip(X.column_names, X.columns, strict=True):
        kind, n = column.type, len(column) - column.null_count
        if (
            pa.types.is_string(kind) or pa.types.is_large_string(kind)
        ) and n >= FEW_ROWS:
            distinct = pc.count_distinct(column).as_py()
            explained = any(
                note.startswith(f"Column {name!r} is text because") for note in notes
            )
            if distinct > DISTINCT * n and not explained:
                what = (
                    f"is text with {distinct:,} different values in {n:,} rows, "
                    "like an identifier"
                )
                remarks.append(
                    f"Column '{name}' {what}; use --exclude '{name}' to leave it out."
                )
        elif (
            pa.types.is_integer(kind)
            and n == len(column) >= FEW_ROWS
            and (np.diff(column.to_numpy()) == 1).all()
        ):
            remarks.append(
                f"Column '{name}' is a row number; use --exclude '{name}' to leave "
                "it out."
            )
    if task == "classification" and target.distinct > max(
        target.n_known // 2, FEW_ROWS
    ):
        remarks.append(
            f"The target has {target.distinct:,} classes in {target.n_known:,} rows, "
            "like an identifier."
        )
    return remarks


def plan(arguments: Fit) -> dict[str, Any]:
    """Plan one fit of all rows, without a look at any."""
    path, run = arguments.data, arguments.run
    with run.applied(), errors_of(path):
        rows = table_shape(
            path, arguments.target, sample=run.sample, exclude=arguments.exclude
        )
        if rows.names is not None and arguments.target not in rows.names:
            raise missing_column(arguments.target, list(rows.names), path)
        task, notes = asked_task(arguments), list[str]()
        if task == "auto":
            kind = "" if rows.target is None else kind_of_type(rows.target)
            task = (
                "classification"
                if kind in ("text", "category", "boolean")
                else "regression"
            )
            notes.append(
                f"Planned as {task}; use --task if the target is something else."
            )
        found = estimator_of(arguments, task).plan_rows(rows)
    notes.append(
        "This is one fit: 'bochner fit' fits twice if it both scores and saves a model."
    )
    return {
        "data": str(path),
        "target": arguments.target,
        "task": task,
        "plan": found,
        "notes": notes,
    }
