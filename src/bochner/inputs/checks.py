"""Checks of rows, targets and weights, with errors that say where and what to do."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_y,
    assert_all_finite,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from bochner.arrays import Floats
from bochner.data.columns import first_row, missing_targets, values_of
from bochner.data.table_input import (
    as_table_or_matrix,
    checked_matrix,
    is_frame,
    require_names,
)
from bochner.data.table_statistic import floats_of_targets
from bochner.notices import warn

MOST_NUMBERS = 100  # that may be classes without a word about it


def require_target(estimator: Any, y: Any) -> None:
    """Raise ValueError where there is no target, or none in some row."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y "
            "is None."
        )
    if sp.issparse(y):
        raise TypeError("y is sparse, and must be dense: pass y.toarray().")
    values = np.asarray(y, None if hasattr(y, "dtype") else object)
    missing = missing_targets(values)
    refuse_infinite_target(values)
    if missing.any():
        row = first_row(missing)
        kind = "Classifier" if is_classifier(estimator) else "Regressor"
        raise ValueError(
            f"Input y contains NaN (a missing target), first in row {row}; drop such "
            "rows, or learn from them too "
            f"with SemiSupervised{kind}."
        )


def checked_numbers(estimator: Any, X: Any, y: Any) -> Floats:
    """Targets of regression, shape (n,) or (n, K); a ValueError names the classifier,
    where they are text.
    """
    y = values_of(y)
    require_target(estimator, y)
    try:
        y = floats_of_targets(
            _check_y(y, multi_output=True, y_numeric=True, estimator=estimator)
        )
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(f"{error}. For classes use KernelMachineClassifier.") from None
    with np.errstate(invalid="ignore"):  # of a sum of inf and -inf
        assert_all_finite(y, input_name="y")  # also of text, as "NaN"
    check_consistent_length(X, y)
    return y


def checked_labels(estimator: Any, X: Any, y: Any) -> NDArray:
    """Labels of classification, shape (n,); ValueError where there are none, or not
    one for each row.
    """
    y = values_of(y)
    require_target(estimator, y)
    y = one_label_a_row(y)
    refuse_mixed(y)
    if y.dtype == object and y.size and isinstance(y[0], Real):
        y = np.asarray(y.tolist())
    check_classification_targets(y)
    check_consistent_length(X, y)
    return y


def one_label_a_row(y: Any) -> NDArray:
    """Labels of shape (n,); ValueError where rows have several."""
    try:
        return column_or_1d(y, warn=True)
    except ValueError as error:
        raise ValueError(
            f"{error} A row has one label: where each has several, fit "
            "sklearn.multioutput.MultiOutputClassifier to columns of 0 and 1, one for "
            "each label; where one column of each row is 1, give y.argmax(axis=1)."
        ) from None


def refuse_mixed(labels: NDArray) -> None:
    """Raise ValueError where some labels are text and others are not, of which NumPy
    would make text.
    """
    if labels.dtype == object:
        other = [label for label in labels if not isinstance(label, str)]
        if 0 < len(other) < len(labels):
            raise ValueError(
                f"Some labels are text and others, such as {other[0]!r}, are not: "
                "make all of them text."
            )


def refuse_infinite_target(y: NDArray) -> None:
    """Raise ValueError where a target is infinite."""
    if y.dtype.kind == "f" and np.isinf(y).any():
        row = first_row(np.isinf(y))
        raise ValueError(
            f"Input y contains infinity or a value too large for {y.dtype!r}. See "
            f"row {row}."
        )


def caution_unlabelled(classes: NDArray) -> None:
    """Warn where -1 stands among labels 0, 1, ..., as scikit-learn marks rows
    without a label.
    """
    if (
        len(classes) > 2
        and classes.dtype.kind in "if"
        and classes[0] == -1
        and classes[1] in (0, 1)
    ):
        warn(
            "The label -1 counts as a class of its own. If it marks rows without a "
            "label, drop these rows, or learn "
            "from them too with SemiSupervisedClassifier."
        )


def caution_numbers(classes: NDArray) -> None:
    """Warn where so many different numbers are classes that they are likely to be a
    quantity.
    """
    if len(classes) > MOST_NUMBERS and classes.dtype.kind in "iuf":
        warn(
            f"The target has {len(classes):,} different numbers, each of which is a "
            "class of its own. If it is a "
            "quantity, use regression: KernelMachineRegressor, or --task regression "
            "in the command."
        )


def threads_of(n_jobs: Any) -> int | None:
    """The most threads to use, None for all; -1 is all too, as in scikit-learn."""
    if n_jobs is None or n_jobs == -1:
        return None
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool):
        raise TypeError(f"n_jobs must be an integer or None, got {n_jobs!r}.")
    if n_jobs < 1:
        raise ValueError(
            f"n_jobs must be positive, or -1 or None for all threads, got {n_jobs}."
        )
    return int(n_jobs)


def normalised_weights(weight: NDArray | None) -> NDArray | None:
    """Weights over the largest, so that a common factor leaves no trace, not even in
    rounding.
    """
    return None if weight is None else weight / weight.max()


def require_one_of(name: str, value: Any, *allowed: Any) -> None:
    """Raise ValueError where a parameter is in none of the `RANGES` that are named,
    and none of the other values.
    """
    for one in allowed:
        if one in RANGES:
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            if is_number and RANGES[one](value):
                return
        elif value is one or (isinstance(value, str | int | np.bool_) and value == one):
            return
    *most, last = [one if one in RANGES else repr(one) for one in allowed]
    choice = f"{', '.join(most)} or {last}" if most else last
    raise ValueError(f"{name} must be {choice}, got {value!r:.200}.")


# Of real numbers
RANGES: dict[str, Callable[[Any], bool]] = {
    "a positive integer": lambda value: isinstance(value, Integral) and int(value) >= 1,
    "a positive number": lambda value: 0 < value < np.inf,
    "a number of at least 0": lambda value: 0 <= value < np.inf,
    "above 0 and at most 1": lambda value: 0 < value <= 1,
    "above 0 and at most 0.5": lambda value: 0 < value <= 0.5,
    "a number between 0 and 1, both left out,": lambda value: 0 < value < 1,
}
SCALINGS = True, False, "auto"


def checked_rows(estimator: Any, X: Any, *, reset: bool, cautions: bool = True) -> Any:
    """X as a data frame, an array or a CSR matrix that an encoder takes, its columns
    checked.

    Parameters
    ----------
    estimator : estimator
    X : rows in memory
    reset : bool
        Whether the columns are those of a new fit.
    cautions : bool
        Whether to warn of what other rows have that the fit did not see.
    """
    X = as_table_or_matrix(X)
    if not is_frame(X):
        X = checked_matrix(X)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    X = X.tocsr() if sp.issparse(X) else X
    if not reset and hasattr(estimator, "encoder_"):
        require_names(estimator.encoder_.statistic_.names, X)
        if cautions:
            estimator.encoder_.caution_unseen(X)
    return X
