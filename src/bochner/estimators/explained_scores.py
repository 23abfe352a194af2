"""The linear function of the features that explanations of a fitted model are of, and the rows that they start from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bochner.data.array_source import ArraySource, rows_of
from bochner.data.columns import column_names
from bochner.data.table_input import as_dense, is_frame
from bochner.engines.progress import progress
from bochner.explanations.attribution import Explanation
from bochner.explanations.column_factors import terms
from bochner.explanations.interactions import Interactions, shapley_interactions
from bochner.explanations.shapley import shapley_values

BACKGROUND_ROWS, BACKGROUND_BYTES, FEWEST_ROWS = 100, 200_000, 10  # that a model keeps
MANY_PAIRS = 1_000_000  # of a row and a background row, from which on a bar tells how long the rest takes


class ExplainedFunction(NamedTuple):
    """A function that is linear in the features of a fitted model.

    Attributes
    ----------
    coef : array of shape (D, K)
    intercept : array of shape (K,)
    unit : str
    names : tuple of K str
    has_outputs : bool
        Whether there are several outputs, so that arrays have an axis for them.
    """

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    unit: str
    names: tuple[str, ...]
    has_outputs: bool


def explained_function(model: Any) -> ExplainedFunction:
    """The predictions of a regressor, or the log-odds of a classifier as far as they are linear.

    A link makes log-odds of scores: a f + b f^3 of those by the squared loss, c g of those by the logistic loss, and
    the sum for a stack of both. Its linear part, with its slope at zero, is additive in the features; the rest, which
    makes the model surer of what is far from zero, is a function of the same scores and is left out. The logarithm of
    the mean takes the place of the prediction with loss="poisson".
    """
    coef, intercept = np.asarray(model.coef_, np.float64), np.asarray(model.intercept_, np.float64)
    if is_classifier(model):
        slope, stack, classes = float(model.link_[0]), getattr(model, "stack_", None), model.classes_
        if stack is not None:
            K = len(intercept) // 2
            coef = stack[0] * coef[:, :K] + stack[2] * coef[:, K:]
            intercept = stack[0] * intercept[:K] + stack[2] * intercept[K:]
        several = len(intercept) > 1
        names = tuple(map(str, classes if several else classes[-1:]))
        return ExplainedFunction(slope * coef, slope * intercept, "log-odds", names, several)
    scale, mean = model.target_scale_, model.target_mean_
    unit = "logarithm of the mean" if model.loss == "poisson" else "unit of the target"
    names = ("prediction",) if len(intercept) == 1 else tuple(f"y{k}" for k in range(len(intercept)))
    return ExplainedFunction(coef * scale, intercept * scale + mean, unit, names, not model._one_target)


def background_rows(source: ArraySource, seed: int) -> NDArray[np.float32] | None:
    """At most 100 encoded rows, drawn by their weights; None of columns so many that few rows take much memory."""
    first = source.encode(rows_of(source.X, slice(0, 1)))
    size = min(BACKGROUND_ROWS, BACKGROUND_BYTES // (4 * max(first.shape[1], 1)))
    if size < FEWEST_ROWS:
        return None
    some = source.sample(size, np.random.default_rng(seed))
    return np.asarray(as_dense(some.encode(some.X)), np.float32)


def explain(model: Any, X: Any, background: Any, n_background: int | None) -> Explanation:
    """Shapley values of checked rows; see `KernelMachine.explain`."""
    function, encoder, dtype = explained_function(model), model.encoder_, model.coef_.dtype
    rows = _background(model, background, n_background)
    d = encoder.n_features_in_
    parts = list(terms(model.features_, function.coef, encoder.sources()))
    shown = X.shape[0] * rows.shape[0] > MANY_PAIRS or bool(model.verbose)
    with progress("Explaining", X.shape[0], shown) as advance:
        found = shapley_values(parts, encoder.encode(X, dtype), rows, d, 0, advance)
    axis = () if function.has_outputs else (0,)
    values, base = np.squeeze(found.values, axis=(2,) * len(axis)), np.squeeze(found.base + function.intercept, axis)
    errors = None if found.errors is None else found.errors.reshape(values.shape)
    names = tuple(column_names(getattr(model, "feature_names_in_", None), d))
    return Explanation(values, base, _values(X), names, function.names, function.unit, len(rows), errors)


def interactions(model: Any, X: Any, background: Any, n_background: int | None) -> Interactions:
    """Interactions of the columns at checked rows; see `KernelMachine.interactions`."""
    own = explain(model, X, background, n_background)
    function, encoder, dtype = explained_function(model), model.encoder_, model.coef_.dtype
    parts = list(terms(model.features_, function.coef, encoder.sources()))
    rows, values = _background(model, background, n_background), own.values.reshape(*own.values.shape[:2], -1)
    with progress("Finding interactions", X.shape[0], True) as advance:
        found, is_exact = shapley_interactions(parts, encoder.encode(X, dtype), rows, values, 0, advance)
    pairs = found if function.has_outputs else found[..., 0]
    return Interactions(pairs, own.feature_names, own.output_names, own.unit, is_exact)


def _background(model: Any, background: Any, n_background: int | None) -> NDArray:
    """Encoded background rows: those that are given, or that the model keeps; ValueError where there are none."""
    if n_background is not None and (not isinstance(n_background, int | np.integer) or n_background < 1):
        raise ValueError(f"n_background must be a positive integer or None, got {n_background!r}.")
    if background is None:
        rows = getattr(model, "background_", None)
        if rows is None:
            raise ValueError(
                "The model has no background rows, as its file was saved without them, by an earlier version, or for "
                "very many columns: give some training rows, as explain(X, background=X_train)."
            )
        rows = rows.astype(model.coef_.dtype)
    else:
        rows = as_dense(model.encoder_.encode(model._rows(background, reset=False), model.coef_.dtype))
    if not len(rows):
        raise ValueError("background has no rows: give some, such as training rows.")
    if n_background is None or n_background >= len(rows):
        return rows
    return rows[np.sort(np.random.default_rng(0).choice(len(rows), n_background, replace=False))]


def _values(X: Any) -> NDArray:
    """Rows as they were given, as an array."""
    if not is_frame(X):
        return np.asarray(as_dense(X))
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True)
    if all(kind.is_numeric() for kind in frame.schema.values()):
        return frame.to_numpy()
    values = np.empty(frame.shape, object)  # of dates beside numbers polars makes no array
    for j, column in enumerate(frame.iter_columns()):
        values[:, j] = column.to_list()
    return values
