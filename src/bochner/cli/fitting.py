"""Fits and plans for the command, of tables of any size: each function returns its
report, a dict fit for JSON.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bochner.cli.failures import CommandError, Facts, errors_of, listed, missing_column
from bochner.cli.hold_out import Split, TestRows, facts_of_split, hold_out
from bochner.cli.model_files import check_output, model_facts, write_model
from bochner.cli.references import reference_scores
from bochner.cli.tables import fitted_encoder, open_table, refuse_infinite
from bochner.cli.target import (
    TargetSummary,
    kind_of_type,
    learned_task,
    score,
    summary_of_target,
    with_target_read,
)
from bochner.estimators.parameters import CLASS_LOSSES, NUMBER_LOSSES
from bochner.loops.clock import CLOCK
from bochner.planning.plan import table_shape
from bochner.settings import peak_bytes, settings
from bochner.sources.base import TableSource

TEST_SIZE = 0.2  # unless another share is given
CONNECTING = 10  # seconds to wait for a scheduler
# Modules of 200 MB, imported before the memory of a run is measured
CODE = (
    "bochner.estimators.regressor",
    "bochner.estimators.classifier",
    "bochner.loops.trig",
)
FEW_ROWS, DISTINCT = 20, 0.9


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
    unbounded : bool
        Whether predictions may go beyond the range of the target.
    group, time : str or None
        Columns that tell which rows belong together, or come later.
    run : Run
    """

    data: Path
    target: str
    task: str
    exclude: list[str]
    parameters: Facts
    run: Run
    out: Path | None = None
    test_size: float = 0.0
    uncertainty: bool = False
    unbounded: bool = False
    group: str | None = None
    time: str | None = None

    @property
    def test_rows(self) -> TestRows:
        """Which rows are to be held out."""
        return TestRows(
            self.data,
            self.test_size,
            self.parameters["seed"],
            self.group,
            self.time,
            asked_of_text(self.parameters),
        )

    @property
    def options(self) -> list[str]:
        """What was given on the command line and changes the model or its scores, as
        it is given there.
        """
        values = dict(self.parameters)
        values["seed"] = values.pop("seed")  # behind what the model is made of
        values |= {"group": self.group, "time": self.time}
        values["memory_limit"] = self.run.memory_limit
        values |= {key: getattr(self.run, key) for key in ("sample", "dask", "device")}
        values |= {} if self.test_size == TEST_SIZE else {"test_size": self.test_size}
        several = {name: values.pop(name) or [] for name in ("numeric", "text")}
        several["exclude"] = self.exclude
        words = [
            word
            for key, value in values.items()
            if value not in ("auto", None)
            for word in (f"--{key.replace('_', '-')}", str(value))
        ]
        for key, names in several.items():
            words += [word for name in names for word in (f"--{key}", name)]
        words += ["--uncertainty"] if self.uncertainty else []
        return [*words, "--unbounded"] if self.unbounded else words


def asked_task(arguments: Fit) -> str:
    """The task that is asked for, perhaps by a loss that only one of the two has."""
    loss = arguments.parameters["loss"]
    if arguments.task != "auto":
        return arguments.task
    if loss in NUMBER_LOSSES:
        return "regression"
    return "classification" if loss in CLASS_LOSSES else "auto"


def asked_of_text(parameters: Facts) -> Facts:
    """How columns of text are to be read, as the options say, which a plan does not
    have: parameters of the encoder.
    """
    dates = parameters.get("dates")
    return {
        "text_features": parameters.get("text") or None,
        "day_first": None if dates is None else dates == "day-first",
    }


def estimator_of(arguments: Fit, task: str) -> Any:
    from bochner.estimators import KernelMachineClassifier, KernelMachineRegressor

    parameters = arguments.parameters | {"verbose": 1}
    parameters["random_state"] = parameters.pop("seed", None)
    parameters["numeric_features"] = parameters.pop("numeric", None) or None
    parameters |= asked_of_text(parameters)
    for option in ("text", "dates"):
        parameters.pop(option, None)
    if arguments.time is not None:
        from sklearn.model_selection import TimeSeriesSplit

        parameters["cv"] = TimeSeriesSplit()
    if task == "classification":
        return KernelMachineClassifier(**parameters)
    if parameters["loss"] == "auto":
        parameters["loss"] = "squared"
    return KernelMachineRegressor(
        uncertainty=arguments.uncertainty,
        bounded=not arguments.unbounded,
        **parameters,
    )


def fit(
    data: Path,
    target: str,
    out: Path | None,
    task: str,
    test_size: float,
    uncertainty: bool,
    unbounded: bool,
    group: str | None,
    time: str | None,
    exclude: list[str] | None,
    memory_limit: str | None,
    sample: int | None,
    dask: str | None,
    device: str | None,
    **parameters: Any,
) -> Facts:
    """Fit a model, score it on held-out rows, and save one fitted on all rows."""
    run = Run(memory_limit, sample, dask, device)
    arguments = Fit(
        data,
        target,
        str(task),
        exclude or [],
        parameters,
        run,
        out,
        test_size,
        uncertainty,
        unbounded,
        group,
        time,
    )
    with run.applied():
        return _fitted(arguments)


def _fitted(arguments: Fit) -> Facts:
    notes: list[str] = []
    table = _opened(arguments, notes)
    with errors_of(arguments.data):
        asked_for = asked_task(arguments)
        target = summary_of_target(table, arguments.target, asked_for, arguments.data)
        task, reason = learned_task(target, asked_for, arguments.data)
        asked = {
            "--uncertainty": arguments.uncertainty,
            "--unbounded": arguments.unbounded,
        }
        wanted = [option for option, given in asked.items() if given]
        if wanted and task == "classification":
            raise CommandError(
                f"{arguments.data}: column '{target.name}' holds classes; "
                f"{wanted[0]} is for regression: leave it out, or use --task "
                "regression"
            )
        if isinstance(table, pa.Table):
            notes += _check_columns(table, target, task, arguments, notes)
        split = hold_out(table, target, task, arguments.test_rows, notes)
        with warnings.catch_warnings():
            # The notes have it already
            for note in notes:
                warnings.filterwarnings("ignore", re.escape(note))
            report = _scored_and_saved(arguments, split, task)
    return {
        "data": str(arguments.data),
        "rows": target.n_rows,
        "rows_without_target": target.missing,
        "columns": table.schema
        if isinstance(table.schema, int)
        else len(table.schema) - 1 - (arguments.group is not None),
        "target": target.name,
        "task": task,
        "task_inferred_because": reason or None,
        "task_can_change": target.kind in ("integer", "boolean"),
        "seed": arguments.parameters["seed"],
        "split": facts_of_split(arguments.test_rows),
        **report,
        "peak_memory_bytes": peak_bytes(),
        "notes": notes + report["notes"],
    }


def _opened(arguments: Fit, notes: list[str]) -> pa.Table | TableSource:
    """The table, refused where its target is text because of few values, unless it
    holds classes.
    """
    path = arguments.data
    name = arguments.target
    asked = asked_task(arguments)
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
        notes.append,
        (),
        arguments.run.sample,
        arguments.exclude,
        [name, *beside],
    )
    if beside and not isinstance(table.schema, pa.Schema):
        raise CommandError(
            f"{path}: its columns have no names; leave out --group and --time"
        )
    if isinstance(table.schema, pa.Schema):
        names = table.schema.names
        for one in (name, *beside):
            if one not in names:
                raise missing_column(one, names, path)
        if names == [name] or {*names} == {name, arguments.group}:
            raise CommandError(
                f"{path}: no column to learn from: there is none besides the target"
            )
        table, note = with_target_read(table, name, asked, path)
        notes += [note] if note else []
    return table


def _scored_and_saved(arguments: Fit, split: Split, task: str) -> Facts:
    """Fit on the rows that are not held out, score, and fit on all of them if the
    model is to be saved.
    """
    start = CLOCK.seconds()
    scored = None
    notes = list[str]()
    out = arguments.out
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
        "rows_test_are": split.said or None,
        "scores": scored,
        "references": others,
        "baseline": split.train_target.described_baseline(task),
        "model": facts,
        "out": None if out is None else str(out),
        "rows_saved_model": None if out is None else split.target.n_known,
        "seconds": CLOCK.seconds() - start,
        "notes": notes + guesses,
    }


# R2, and share of the log loss without inputs, that look too good
PERFECT_R2, PERFECT_SHARE = 0.999, 0.05
FEWEST_REMARKED = 30  # test rows, of fewer of which scores tell nothing
# Columns that may tell the target alone, and their share of the importance
FEW_TELLING, TELLING = 3, 0.95


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
    name = "r2" if "r2" in scores else "log_loss"
    value, of_baseline, error = (
        scores[name][key] for key in ("value", "baseline", "standard_error")
    )
    gain = value - of_baseline if name == "r2" else of_baseline - value
    if n_rows < FEWEST_REMARKED:
        return None
    if gain <= (error or 0.0):
        return (
            f"The score is no better than that of {baseline['predicts']}, predicted "
            "for every row: the columns tell "
            "nothing about the target, or more rows are needed."
        )
    perfect = (
        value >= PERFECT_R2 if name == "r2" else value <= PERFECT_SHARE * of_baseline
    )
    if not perfect:
        return None
    importance = getattr(model, "importance_", None)
    if importance is None:
        return (
            "The score is nearly perfect: does a column tell what is known only "
            "with the target?"
        )
    names, shares = zip(*importance.top_columns(FEW_TELLING), strict=True)
    n_telling = int(np.searchsorted(np.cumsum(shares), TELLING)) + 1
    if n_telling > len(names):
        return None
    telling = names[:n_telling]
    tells, are = ("tells", "is it") if len(telling) == 1 else ("tell", "are they")
    return (
        f"The score is nearly perfect, and {listed(telling)} {tells} the target: "
        f"{are} known before the target is? "
        "If not, --exclude leaves a column out."
    )


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
    beside = [arguments.group] if arguments.group else []
    X = table.drop_columns([target.name, *beside])
    if not any(column.null_count < len(column) for column in X.columns):
        raise CommandError(
            f"{arguments.data}: no column to learn from: every column but the target "
            "is empty"
        )
    refuse_infinite(X, arguments.data)
    remarks = list[str]()
    encoder = fitted_encoder(X, remarks.append, asked_of_text(arguments.parameters))
    for name, column in zip(X.column_names, X.columns, strict=True):
        kind = column.type
        if name in encoder.written:
            continue
        n = len(column) - column.null_count
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


def plan(
    data: Path,
    target: str,
    task: str,
    exclude: list[str] | None,
    memory_limit: str | None,
    sample: int | None,
    **parameters: Any,
) -> Facts:
    """Plan one fit of all rows, without a look at any."""
    parameters["loss"] = "auto"
    run = Run(memory_limit, sample)
    notes = list[str]()
    learned = str(task)
    with run.applied(), errors_of(data):
        rows = table_shape(data, target, sample=sample, exclude=exclude or [])
        if rows.names is not None and target not in rows.names:
            raise missing_column(target, list(rows.names), data)
        if learned == "auto":
            kind = "" if rows.target is None else kind_of_type(rows.target)
            learned = (
                "classification"
                if kind in ("text", "category", "boolean")
                else "regression"
            )
            notes.append(
                f"Planned as {learned}; use --task if the target is something else."
            )
        arguments = Fit(data, target, learned, exclude or [], parameters, run)
        fit_plan = estimator_of(arguments, learned).plan_rows(rows)
    notes.append(
        "This is one fit: 'bochner fit' fits twice if it both scores and saves a model."
    )
    return {
        "data": str(data),
        "target": target,
        "task": learned,
        "plan": fit_plan,
        "notes": notes,
    }
