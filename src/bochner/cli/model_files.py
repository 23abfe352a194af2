"""Writes, reads and describes the model files of the command: a model with its
target and what `fit` measured.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bochner.cli.failures import CommandError, Facts, errors_of, inconsistent
from bochner.cli.tables import open_rows, refuse_infinite
from bochner.data.file_kinds import COMPRESSED, HEAD, kind_by_content, kind_by_name
from bochner.data.written_values import WRITTEN
from bochner.estimators.interpretation import MOST_COLUMNS, most_relevant
from bochner.features import BinningFeatures
from bochner.features.leaves import LeafMap, kernel_of, leaves
from bochner.notices import listed, quiet
from bochner.sources.base import TableSource
from bochner.sources.rowwise import inputs_of
from bochner.sources.schema import Selection

# Beside the target and the task
FACTS = (
    "baseline",
    "scores",
    "references",
    "rows",
    "rows_held_out",
    "options",
    "decimal_commas",
    "first_index",
)


@dataclass(frozen=True)
class SavedModel:
    """A model from a file.

    Attributes
    ----------
    path : Path
    model : KernelMachineRegressor or KernelMachineClassifier
    task : {"classification", "regression"}
    target : str or None
        None where a program saved the model without naming it.
    baseline : list of float, float or None
        Shares of the classes, or mean, of the target in training.
    scores : dict or None
        What `fit` measured on held-out rows.
    references : dict or None
        What other models reach on these rows: see `bochner.cli.references`.
    rows : int or None
        Rows of training.
    rows_held_out : str or None
        What the rows are that `fit` held out, where chance did not draw them.
    options : list of str or None
        Of the command that fitted the model, but for the table, the target, the task
        and the file.
    decimal_commas : bool or None
        Whether numbers had them in the table of the fit.
    first_index : int or None
        Of the columns of a LIBSVM file that the model was fitted on.
    description : dict
        Of the file, by `bochner.persistence.describe`.
    """

    path: Path
    model: Any
    task: str
    target: str | None
    baseline: Any
    scores: Facts | None
    references: Facts | None
    rows: int | None
    rows_held_out: str | None
    options: list[str] | None
    decimal_commas: bool | None
    first_index: int | None
    description: Facts

    @property
    def columns(self) -> list[str] | None:
        """Names of the columns that the model needs, None where it was fitted on a
        nameless array.
        """
        names = getattr(self.model, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def open_rows(self, path: Path, notes: list[str], *named: str) -> TableSource:
        """A table with rows for the model; `named` are columns beside its inputs.

        What was text in the fit is text, whatever its values look like in a CSV, also
        where the model has read it as numbers or dates.
        """
        columns = self.columns or []
        kinds = zip(columns, self.model.encoder_.statistic_.kinds, strict=False)
        text = [
            name for name, kind in kinds if kind in ("text", "mixed") or WRITTEN in kind
        ]
        classes = getattr(self.model, "classes_", np.empty(0))
        if classes.dtype.kind in "OU" and self.target is not None:
            text.append(self.target)
        selection = Selection(
            named=(*columns, *named),
            types=None if columns else self.model.n_features_in_,
            has_decimal_commas=bool(self.decimal_commas),
            first_index=self.first_index,
            others_may_differ=True,
        )
        return open_rows(path, notes, selection, text)

    def inputs(self, table: Any, path: Path, first: int | None = 0) -> Any:
        """The columns that the model needs, in its order; CommandError for those
        that are missing, and for infinite values in a table that has names.

        Parameters
        ----------
        table : pyarrow.Table, array or sparse matrix
        path : Path
            Where it is, for messages.
        first : int or None, default=0
            Number of the first row in the file; None of rows that chance drew, in
            which the model refuses infinite values itself.
        """
        names = self.columns
        if not hasattr(table, "column_names"):
            if names is not None:
                raise CommandError(
                    f"{path}: the columns have no names, and the model needs "
                    f"{listed(names)}"
                )
            return table
        if names is None:
            n = self.model.n_features_in_
            if table.num_columns != n:
                raise CommandError(
                    f"{path}: {table.num_columns} columns, but {self.path} has {n} "
                    "columns without names; give a file with just these, in their order"
                )
            return np.stack([column.to_numpy() for column in table.columns], axis=1)
        with errors_of(path):
            X = inputs_of(table, names)
        if first is not None:
            refuse_infinite(X, path, first)
        return X


def write_model(model: Any, path: Path, target: str, task: str, facts: Facts) -> None:
    """Save a model together with what `SavedModel` tells of it: rows, baseline,
    scores and options are its facts.
    """
    from bochner.persistence import save

    told = {name: json.dumps(fact, allow_nan=False) for name, fact in facts.items()}
    save(model, path, metadata={"target": target, "task": task, **told})


def read_model(path: Path, method: str = "predict") -> SavedModel:
    """Load a model; CommandError where the file holds a table, or something without a
    method that is needed.

    The model predicts for a row without values, lest what is inconsistent in its file
    is put down to a table.
    """
    from bochner.persistence import describe, load

    with open(path, "rb") as file:
        content = kind_by_content(file.read(HEAD))
    if content == "parquet" or (
        kind_by_name(path) and content in ("text", *COMPRESSED)
    ):
        raise CommandError(
            f"{path}: this is a table, not a model; the model comes first, then the "
            "table"
        )
    model = load(path)
    description = describe(path)
    if not hasattr(model, method):
        raise CommandError(
            f"{path}: holds a {type(model).__name__}, which this command is not for; "
            "give a KernelMachineRegressor or a KernelMachineClassifier"
        )
    task = "classification" if hasattr(model, "classes_") else "regression"
    metadata = description["metadata"]
    with errors_of(path):
        facts = {key: json.loads(metadata.get(key, "null")) for key in FACTS}
    saved = SavedModel(
        path, model, task, metadata.get("target"), **facts, description=description
    )
    try:
        X: Any = np.zeros((1, len(model.encoder_.statistic_.kinds)))
        if saved.columns is not None:
            X = pa.table({name: pa.nulls(1) for name in saved.columns})
        with quiet():
            model.predict(X)
    except MemoryError:
        raise
    except Exception as error:
        raise inconsistent(path, error) from error
    return saved


def model_facts(model: Any) -> Facts:
    """Maps, ridge penalty, sizes and solution of a fitted estimator; kernel and so
    on at the top for a single map.
    """
    features = model.features_
    maps = [_map_facts(leaf) for leaf in leaves(features)]
    # Shares of the most important columns, their standard errors, and by which rows
    shares = errors = measured_on = None
    importance = getattr(model, "importance_", None)
    if importance is not None:
        shares = dict(importance.top_columns(MOST_COLUMNS))
        of_all = dict(zip(importance.names, importance.share_errors(), strict=True))
        errors = {name: of_all[name] for name in shares}
        measured_on = f"{importance.n_rows:,} {importance.rows}"
    # How the model was chosen, where something was learned
    choice = None
    report = getattr(model, "report_", None)
    if report is not None and report.candidates:
        ranked = sorted(report.candidates, key=lambda one: one.loss)
        choice = {
            "chosen": report.chosen,
            "reason": report.reason,
            "criterion": report.criterion,
            "rows_held_out": report.rows_held_out,
            "candidates": list(map(vars, ranked)),
            "seconds": report.seconds,
        }
    return {
        "class": type(model).__name__,
        **{
            key: maps[0][key] if len(maps) == 1 else None
            for key in ("kernel", "lengthscale", "n_components")
        },
        "alpha": float(model.alpha_),
        "n_features": int(features.n_features_out),
        "encoded_columns": int(model.encoder_.n_features_out_),
        "maps": maps,
        "uncertainty": bool(getattr(model, "uncertainty", False)),
        "choice": choice,
        "importances": shares,
        "importance_errors": errors,
        "importance_rows": measured_on,
        "relevances": most_relevant(model) or None,
        **{
            key: getattr(model, f"{key}_", None)
            for key in ("solver", "solver_reason", "n_iter", "residual")
        },
    }


def _map_facts(leaf: LeafMap) -> Facts:
    """Kernel, lengthscale and sizes of a fitted map; of random bins also how the
    training rows fill them.
    """
    features = leaf.features
    kernel = kernel_of(features)
    terms = kernel.terms() if kernel is not None else ()
    kernels = [_bare(factor) for _, factors in terms for factor in factors]
    scales = [np.ravel(getattr(factor, "lengthscale", [])) for factor in kernels]
    values = np.concatenate([*scales, []])
    names = dict.fromkeys(type(factor).__name__ for factor in kernels)
    size = int(features.n_features_out)
    facts: Facts = {
        "map": type(getattr(features, "transformer", features)).__name__,
        "kernel": " and ".join(names) or None,
        "lengthscale": None,
        "n_components": size if kernels else None,
        "n_features": size,
    }
    if len(values):
        facts["lengthscale"] = {
            "min": values.min(),
            "median": np.median(values),
            "max": values.max(),
        }
    if isinstance(features, BinningFeatures):
        facts["n_components"] = len(features.values_)
        facts["n_buckets"] = features.n_buckets
        facts["rows_per_bin"] = features.rows_per_bin_
        facts["alone"] = features.singleton_share_
    if leaf.metrics:
        facts["metric"] = "full" if leaf.metrics[-1].linear_.size else "ard"
    return facts | {"weight": leaf.weight}


def _bare(kernel: Any) -> Any:
    """The kernel inside of one that sees some of the columns, or combinations of
    them.
    """
    return _bare(kernel.leaf) if hasattr(kernel, "leaf") else kernel


def inspect(model: Path) -> Facts:
    """Report on a model file."""
    saved = read_model(model, "report_html")
    classes = getattr(saved.model, "classes_", None)
    kinds = saved.model.encoder_.statistic_.kinds
    names = saved.columns or [f"x{k}" for k in range(len(kinds))]
    of_file = {
        key: saved.description[key]
        for key in ("file_bytes", "format_version", "library_version")
    }
    return {
        "model_file": str(model),
        **of_file,
        "task": saved.task,
        "target": saved.target,
        "classes": None if classes is None else classes.tolist(),
        "columns": dict(zip(names, kinds, strict=False)),
        "rows_train": saved.rows,
        "model": model_facts(saved.model),
        "scores": saved.scores,
        "notes": [],
    }
