"""Measures all that a report says of a model: scores, curves of refits, effects of
columns, the error of the kernel.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bochner.data.hashes import row_hashes, uniform
from bochner.estimators.explained_scores import training_rows_among
from bochner.report.explained import Explained, explained, n_waves_and_grids
from bochner.report.given_columns import Column, capped_share, columns
from bochner.report.given_rows import Predictions, Rows, predict, scores
from bochner.selection.report import RowsCurve
from bochner.theory import kernel_error
from bochner.theory.approximation import KernelError

HELD_OUT = 2000  # rows at most
FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0)
# Rows of a fit, their targets, and their numbers in their table where it is known
Training: TypeAlias = "tuple[Any, Any, NDArray | None] | None"


def curve_by_size(model: Any, rows: Rows) -> tuple[RowsCurve | None, str]:
    """Losses against features in place of rows, on rows that none of the fits has
    seen, if the map has a size; and what to know of it.

    What was chosen in the fit stays: metric, kernel, ridge penalty. Of many rows 5,000
    are drawn, and dense maps have 2,000 features at most, so that all fits together
    take seconds. There is none where the user says which rows validate, as here chance
    would.
    """
    if model.report_ is not None and model.report_.validated_on:
        return None, ""
    drawn = rows.sample(HELD_OUT + 3000, 1)
    m = min(len(drawn) // 4, HELD_OUT)
    # The content of a row decides on which side it is, as copies of learned rows would
    # tell nothing.
    place = uniform(row_hashes(model._encoded(drawn.X, np.float64)), 2)
    evaluates = place < np.partition(place, m)[m]
    held_out, learned = (
        drawn.take(np.flatnonzero(row_mask)) for row_mask in (evaluates, ~evaluates)
    )
    note = f"{len(learned):,} of the given rows fit, and {len(held_out):,} evaluate."
    if not len(held_out) or model.solver_ == "exact":
        return None, note
    n_features = model.features_.n_features_out
    most = 2000 if model.features_.is_dense else np.inf
    factors = [one for one in FACTORS if one * n_features <= most]
    losses_by_size: dict[int, NDArray] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that bins have few rows
        for factor in factors if len(factors) > 1 else ():
            try:
                again = model.resized(factor).refit(learned.X, learned.y)
                losses = predict(again, held_out).losses
            except (ValueError, MemoryError):  # too small for its kernel, too large
                continue
            losses_by_size[n_waves_and_grids(again)] = losses
    if len(losses_by_size) < 2:
        return None, note
    table = np.array(list(losses_by_size.values()))
    root = np.sqrt(table.shape[1])
    errors = table.std(axis=1, ddof=1) / root
    # What the last doubling takes off, on the same rows
    gains = (table[-2] - table[-1]) / (table[-2].mean() or 1.0)
    gain, noise = float(gains.mean()), float(gains.std(ddof=1) / root)
    means = table.mean(axis=1).tolist()
    return RowsCurve(list(losses_by_size), means, errors.tolist(), gain, noise), note


@dataclass(frozen=True)
class Origin:
    """What is known of a model and its rows beside themselves.

    Attributes
    ----------
    target : str or None
        Name of the column that is predicted.
    file : str or None
        Name of the file of the model.
    baseline : float, list of float, or None
        Mean, or shares of the classes, of the training rows.
    held_out : dict or None
        Scores of rows held out when the model was fitted.
    others : dict or None
        `scores` of other models on these rows, by their names, and training `rows` that
        they were fitted on.
    rows_fitted : int or None
    share : float
        Of the rows of their table, that which is given.
    numbers : array of int, or None
        Numbers of the rows in their table, where it is known.
    lines : tuple of str
        What makes the page again; empty for Python's lines.
    rows_held_out : str or None
        What the rows are that the fit held out, where chance did not draw them.
    """

    target: str | None = None
    file: str | None = None
    baseline: Any = None
    held_out: dict[str, Any] | None = None
    others: dict[str, Any] | None = None
    rows_fitted: int | None = None
    numbers: NDArray | None = None
    share: float = 1.0
    lines: tuple[str, ...] = ()
    rows_held_out: str | None = None


@dataclass(frozen=True)
class Findings:
    """What there is to say, by section; None where there is nothing.

    Attributes
    ----------
    model : KernelMachineRegressor or KernelMachineClassifier
    rows : Rows
    origin : Origin
    predictions : Predictions
    scores : dict
        As by `bochner.scores.summaries`.
    explained : Explained
    by_size : RowsCurve or None
        Its numbers are those of features or grids.
    curve_note : str
    error : KernelError or str
        Or why there is none.
    columns : list of Column
        Of the given rows; empty of very many columns.
    seen : str
        That the given rows are training rows, and why one knows; empty where they are
        not, as far as one knows.
    fitted : Rows or None
        Rows of the fit.
    capped : float
        Share of the rows that have the greatest target, where that seems to be a cap;
        0 where not.
    """

    model: Any
    rows: Rows
    origin: Origin
    predictions: Predictions
    scores: dict[str, Any]
    explained: Explained
    by_size: RowsCurve | None
    curve_note: str
    error: KernelError | str
    columns: list[Column]
    seen: str
    fitted: Rows | None
    capped: float

    @property
    def is_class(self) -> bool:
        """Whether the target is a class."""
        return self.predictions.proba is not None


def find(
    model: Any, X: Any, y: Any, origin: Origin, training: Training = None
) -> Findings:
    """Measure everything, in seconds."""
    rows = Rows.of(X, y, model, numbers=origin.numbers)
    predictions = predict(model, rows)
    is_class = predictions.proba is not None
    if origin.baseline is None and not is_class and not model._has_log_link:
        origin = replace(origin, baseline=float(model.target_mean_[0]))
    by_size, note = curve_by_size(model, rows)
    share = origin.share * len(rows) / rows.n_given
    # Of the kernel approximation on pairs of some rows, or why it is not known
    error: KernelError | str = (
        "This model has no random features: it holds the kernel with all training rows."
    )
    if model.solver_ != "exact":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            some_rows = rows.sample(2000, 4).X
            try:
                error = kernel_error(model, some_rows, n_pairs=1000, random_state=0)
            except (ValueError, TypeError) as reason:
                error = str(reason)
    fitted = None
    if training is not None:
        X_train, y_train, numbers = training
        try:
            fitted = Rows.of(X_train, y_train, model, 1, numbers)
            predict(model, fitted)
        except ValueError as reason:
            raise ValueError(f"Training rows: {reason}") from reason
    return Findings(
        model,
        rows,
        origin,
        predictions,
        scores(model, rows, predictions, origin.baseline),
        explained(model, rows, predictions),
        by_size,
        note,
        error,
        columns(model, rows, predictions),
        training_rows_among(model, rows.X, share, origin.rows_fitted),
        fitted,
        0.0 if is_class else capped_share(predictions.truth),
    )
