"""Permutation importance of the columns of fitted models: on given rows, and by a
fit on rows held out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bochner.arrays import Floats, Indices
from bochner.data.array_source import ArraySource
from bochner.data.columns import column_names
from bochner.design.design import Design
from bochner.engines.progress import progress
from bochner.estimators.class_probabilities import log_loss_of_rows
from bochner.estimators.incremental import SolvedAttribute
from bochner.estimators.ridge.out_of_sample import UnseenRows
from bochner.explanations.importance import Importance, growths
from bochner.features.base import Rows
from bochner.selection.budget import Budget
from bochner.selection.policy import POLICY

TRAINED, MOST_REPEATS = "training rows", 5
# Of a column of a row, from which on a bar tells how long the rest takes
MANY_CHANGES = 1_000_000
# Of a regressor, by the loss that it was fitted by
LOSS_NAMES = {
    "squared": "squared error",
    "huber": "Huber loss",
    "quantile": "pinball loss",
    "poisson": "Poisson deviance",
}
Scores = Callable[[Rows, Indices], Floats]


def losses_of_rows(model: Any, T: NDArray, F: NDArray) -> Floats:
    """Losses by which a fitted model is evaluated, in units of the target where there
    is one, shape (n,): of solver's targets and scores, both of shape (n, K).
    """
    if is_classifier(model):
        return log_loss_of_rows(T, model._probabilities(F))
    scale = model.target_scale_
    K = len(scale)
    unit = float(scale[0]) if K == 1 else 1.0
    if model.loss_ == "squared":
        return unit**2 * np.square(T - F).mean(axis=1)
    loss = model._fitted_loss
    if model.loss_ == "huber":
        return unit**2 / K * loss.value(T.T, F.T)
    if model.loss_ == "quantile":
        q = loss.q
        return unit * np.maximum(q * (T - F), (q - 1) * (T - F)).mean(axis=1)
    if T.min(initial=0.0) < 0:
        raise ValueError(
            "loss='poisson' needs counts, and the target has negative values."
        )
    return 2 / K * loss.value(T.T, F.T)


class MeasuredAttribute(SolvedAttribute):
    """A result that is measured by a fit, and after `partial_fit` when it is read."""

    completes = "_measure_if_needed"
    missing = (
        "This {} has no {!r}: it is not fitted, or the fit had too many columns, too "
        "few rows or too little time to measure it. Call importance(X, y), with rows "
        "that the model has not seen."
    )


def permutation_importance(
    model: Any, source: ArraySource, n_rows: int, n_repeats: int, seed: int
) -> Importance:
    """Permutation importance of a fitted model on rows of a source, with the solver's
    targets.

    Parameters
    ----------
    model : KernelMachineRegressor or KernelMachineClassifier
    source : ArraySource
    n_rows : int
        Number of rows that are drawn, by their weights, where there are more.
    n_repeats, seed : int
    """
    rows = source.counted().sample(n_rows, np.random.default_rng(seed))
    if rows.n_rows < 2:
        raise ValueError(
            f"Importance needs two rows of positive weight or more, got {rows.n_rows}."
        )
    return _measured(
        model, rows, lambda Z, numbers: scores_at(model, Z), n_repeats, seed, "rows"
    )


def n_evaluated(n_columns: int) -> int:
    """Number of rows on which a fit measures the importance of `n_columns` columns; 0
    where it would be too few.
    """
    n_rows = POLICY.compared_rows // n_columns
    return n_rows if n_rows >= POLICY.fewest_evaluated else 0


def importance_of_fit(
    model: Any,
    unseen: UnseenRows | None,
    source: ArraySource,
    seed: int,
    budget: Budget,
) -> Importance | None:
    """Permutation importance as a fit measures it; None with too many columns, too few
    rows, or too little time.

    Parameters
    ----------
    model : KernelMachineRegressor or KernelMachineClassifier
        Fitted.
    unseen : UnseenRows or None
        Rows, and the function without them, which is evaluated in the place of that of
        the model.
    source : ArraySource
        Rows of the fit, on which the model itself is evaluated where there is no such
        function.
    seed : int
    budget : Budget
        Of the fit.
    """
    d = model.encoder_.n_features_in_
    size = n_evaluated(d)
    if not size or budget.is_over:
        return None
    # Some rows, and their scores by the function without them, or where there is none
    # by the model
    scores: Scores
    if unseen is None:
        counted = replace(source.counted(), targets=model._known_targets())
        rows = counted.sample(size, np.random.default_rng(seed))
        scores, name = lambda Z, numbers: scores_at(model, Z), TRAINED
    else:
        held_out = unseen.sample(size, seed)
        rows = held_out.design.source
        scores, name = held_out.scores, held_out.name
    if rows.n_rows < 2:
        return None
    changes_of_all = rows.n_rows * d
    n_repeats = int(np.clip(POLICY.compared_rows // changes_of_all, 1, MOST_REPEATS))
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            importance = _measured(model, rows, scores, n_repeats, seed, name)
    except ValueError:  # predictions that overflow, at rows of no fit
        return None
    numbers = [importance.baseline, *importance.values, *importance.errors]
    return importance if np.isfinite(numbers).all() else None


def _measured(
    model: Any, rows: ArraySource, scores: Scores, n_repeats: int, seed: int, name: str
) -> Importance:
    """Permutation importance on rows, by the scores of rows like these, each of
    which has the number of one.
    """
    X, T, weight = rows.whole()
    loss = "log loss" if is_classifier(model) else LOSS_NAMES[model.loss_]
    d = model.encoder_.n_features_in_
    total = len(T) * (1 + n_repeats * d)
    with progress("Permuting columns", total, total > MANY_CHANGES) as advance:

        def losses(Z: Rows, numbers: Indices) -> Floats:
            advance(len(numbers))
            return losses_of_rows(model, T[numbers], scores(Z, numbers))

        values, errors, mean = growths(
            losses, X, weight, model.encoder_.sources(), d, n_repeats, seed
        )
    return Importance(
        input_names(model), values, errors, loss, mean, len(T), n_repeats, name
    )


def scores_at(model: Any, Z: Rows) -> Floats:
    """The fitted function at encoded rows, shape (n, K): standardised targets, or
    scores of classes.
    """
    source = ArraySource(Z, np.empty((Z.shape[0], 0)))
    return Design(source, model.features_, model.feature_weights_.dtype).predict(
        model.feature_weights_, model.intercept_
    )


def input_names(model: Any) -> tuple[str, ...]:
    """Names of the columns as they were given, or x0, x1, ..."""
    return tuple(
        column_names(
            getattr(model, "feature_names_in_", None), model.encoder_.n_features_in_
        )
    )
