"""The linear function of the features that explanations of a fitted model are of,
and the rows that they start from.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Floats, n_distinct
from bochner.blocks import BLOCK_ROWS
from bochner.data.array_source import ArraySource, rows_of
from bochner.data.encodings import TextColumn
from bochner.data.hashes import row_hashes
from bochner.data.outliers import drawn
from bochner.data.table_input import as_dense, is_frame
from bochner.engines.progress import progress
from bochner.estimators.measured_importance import input_names
from bochner.explanations.attribution import Explanation
from bochner.explanations.column_factors import terms
from bochner.explanations.interactions import Interactions, shapley_interactions
from bochner.explanations.shapley import shapley_values
from bochner.inputs.checks import require_one_of
from bochner.inputs.training import rows_to_map

BACKGROUND_ROWS, BACKGROUND_BYTES, FEWEST_ROWS = 100, 200_000, 10  # that a model keeps


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

    coef: Floats
    intercept: Floats
    unit: str
    names: tuple[str, ...]
    has_outputs: bool

    def shown(self, of_outputs: Any) -> Any:
        """An array of all outputs, without an axis for them where there is one."""
        if of_outputs is None or self.has_outputs:
            return of_outputs
        return of_outputs[..., 0]


def explained_function(model: Any) -> ExplainedFunction:
    """The predictions of a regressor, or the log-odds of a classifier as far as they
    are linear.

    A link makes log-odds of scores: a f + b f^3 of those by the squared loss, a f of
    those by another. Its linear part, with its slope at zero, is additive in the
    features; the rest, which makes the model surer of what is far from zero, is a
    function of these scores and is left out, as is a curve in place of the link: the
    unit says "first-order log-odds" where either is.
    The logarithm of the mean takes the place of the prediction with loss="poisson".
    """
    coef = np.asarray(model.feature_weights_, np.float64)
    intercept = np.asarray(model.intercept_, np.float64)
    if is_classifier(model):
        slope = float(model.link_[0])
        classes = model.classes_
        several = len(intercept) > 1
        names = tuple(map(str, classes if several else classes[-1:]))
        is_linear = not model.link_[1] and model.curve_ is None
        unit = "log-odds" if is_linear else "first-order log-odds"
        return ExplainedFunction(slope * coef, slope * intercept, unit, names, several)
    scale = model.target_scale_
    return ExplainedFunction(
        coef * scale,
        intercept * scale + model.target_mean_,
        "logarithm of the mean" if model._has_log_link else "unit of the target",
        output_names(model),
        not model._one_target,
    )


def output_names(model: Any) -> tuple[str, ...]:
    """Names of the outputs of a regressor."""
    K = len(model.target_mean_)
    return ("prediction",) if K == 1 else tuple(f"y{k}" for k in range(K))


def background_rows(source: ArraySource, seed: int) -> NDArray[np.floating] | None:
    """At most 100 encoded rows, drawn by their weights; None where the columns are so
    many that even ten rows would take too much memory.

    In single precision, but for numbers that it does not hold.
    """
    first = source.encode(rows_of(source.X, slice(0, 1)))
    size = min(BACKGROUND_ROWS, BACKGROUND_BYTES // (4 * max(first.shape[1], 1)))
    if size < FEWEST_ROWS:
        return None
    sample = source.sample(size, np.random.default_rng(seed))
    rows = np.asarray(as_dense(sample.encode(sample.X)))
    sizes = np.abs(rows[rows != 0])
    single = np.finfo(np.float32)
    holds = (
        sizes.min(initial=1.0) >= single.tiny and sizes.max(initial=0.0) <= single.max
    )
    return rows.astype(np.float32) if holds else rows


def training_rows_among(
    model: Any, X: Any, share: float = 1.0, n_fitted: int | None = None
) -> str:
    """How many of the training rows that a model keeps are among given rows, in words;
    empty where these are others.

    The given rows count as training rows where they hold at least half of the kept rows
    that they would hold then. Rows that mostly equal one another, as in a table of a
    few levels, may have equal training rows by chance: they count only where they are
    as many as the model was fitted on.

    Parameters
    ----------
    model : fitted KernelMachineRegressor or KernelMachineClassifier
    X : array, sparse matrix or data frame of shape (n, d)
    share : float
        Of the rows of a table, that which is given.
    n_fitted : int, optional
        Training rows.
    """
    training_rows = getattr(model, "background_", None)
    if training_rows is None:
        return ""
    encoder = model.encoder_
    # Mean targets of levels are left out: those of a training row are by other rows
    # only, unlike those of a new row.
    is_compared = np.ones(training_rows.shape[1], bool)
    for column in encoder.columns_:
        if isinstance(column, TextColumn):
            is_compared[column.mean_columns] = False

    def hashes_of(encoded: Any) -> NDArray[np.uint64]:
        return row_hashes(encoded[:, is_compared].astype(training_rows.dtype))

    rows = model._rows(X, reset=False)
    source = rows_to_map(encoder, rows, model.feature_weights_.dtype)
    hashes = np.concatenate([hashes_of(block.X) for block in source.blocks(BLOCK_ROWS)])
    n_matches = int(np.isin(hashes_of(training_rows), hashes).sum())
    mostly_repeat = 2 * n_distinct(hashes) < len(hashes)
    if (
        2 * n_matches < share * len(training_rows)
        or not n_matches
        or (mostly_repeat and len(hashes) != n_fitted)
    ):
        return ""
    return (
        f"{n_matches:,} of the {len(training_rows):,} training rows that the model "
        "keeps are among them"
    )


def explained(
    model: Any, X: Any, background: Any, n_background: int | None, pairs: bool = False
) -> Any:
    """The `Explanation` of rows, by those that are given or that the model keeps; or
    the `Interactions` of pairs of columns at these rows.
    """
    check_is_fitted(model)
    X = model._rows(X, reset=False)
    function = explained_function(model)
    encoder = model.encoder_
    dtype = model.feature_weights_.dtype
    parts = list(terms(model.features_, function.coef, encoder.sources()))
    Z = encoder.encode(X, dtype)
    require_one_of("n_background", n_background, "a positive integer", None)
    if background is None:
        rows = getattr(model, "background_", None)
        if rows is None:
            raise ValueError(
                "The model has no background rows, as its file was saved without them, "
                "by an earlier version, or for very many columns: give some training "
                "rows, as explain(X, background=X_train)."
            )
        rows = rows.astype(dtype)
    else:
        try:
            background = model._rows(background, reset=False)
        except ValueError as error:
            raise ValueError(
                f"background is of no use for this model. {error}"
            ) from error
        rows = np.asarray(as_dense(encoder.encode(background, dtype)))
    most = len(rows) if n_background is None else n_background
    rows = rows[drawn(np.arange(len(rows)), most)]
    size = encoder.n_features_in_, len(function.intercept)
    with progress("Explaining", Z.shape[0], True) as advance:
        values, errors = shapley_values(parts, Z, rows, *size, advance)
    about = input_names(model), function.names, function.unit
    if pairs:
        with progress("Finding interactions", X.shape[0], True) as advance:
            values, errors = shapley_interactions(
                parts, Z, rows, values, errors, advance
            )
        return Interactions(function.shown(values), *about, function.shown(errors))
    rows = rows.astype(np.float64)
    base = model.features_.dot(rows, function.coef).mean(axis=0) + function.intercept
    return Explanation(
        function.shown(values),
        function.shown(base),
        _values(X),
        *about,
        len(rows),
        function.shown(errors),
    )


def _values(X: Any) -> NDArray:
    """Rows as they were given, as an array."""
    if not is_frame(X):
        return np.asarray(as_dense(X))
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True)
    if all(kind.is_numeric() for kind in frame.schema.values()):
        return frame.to_numpy()
    values = np.empty(
        frame.shape, object
    )  # of dates beside numbers polars makes no array
    for j, column in enumerate(frame.iter_columns()):
        values[:, j] = column.to_list()
    return values
