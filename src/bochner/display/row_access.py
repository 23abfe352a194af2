"""Finds columns and targets of the rows given to a model, and draws some of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.extmath import svd_flip

from bochner.arrays import Floats
from bochner.data.columns import column_names, column_number, parts_of, read_column
from bochner.data.table import column_values
from bochner.data.table_input import as_table_or_matrix, frame_names


def principal_axes(X: NDArray, n: int) -> Floats:
    """Directions of the `n` largest variances of rows, shape (n, d), their signs
    fixed.
    """
    apart = X - X.mean(axis=0)
    axes = np.linalg.eigh(apart.T @ apart)[1][:, ::-1].T[:n]
    return svd_flip(None, axes, u_based_decision=False)[1]


def column_of(X: Any, column: int | str) -> tuple[str, NDArray, str]:
    """Name, values and unit of a column: float64 with NaN where there are none, or text
    with "" there.

    Of dates the values are "days" since 1970, of durations "seconds", and of times
    shares of a "day"; other columns have no unit, "".

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
    column : int or str
        By number, or by name where columns have names.

    Raises
    ------
    ValueError
        Where there is no such column.
    """
    X = as_table_or_matrix(X)
    names = column_names(frame_names(X), X.shape[1])
    j = column_number(column, names)
    kind, values = read_column(column_values(X, j), names[j])
    if isinstance(values, tuple):
        codes, labels = values
        return names[j], np.array([*labels, ""], dtype=object)[codes], ""
    return names[j], values[:, 0], parts_of(kind)[0]


def target_of(y: ArrayLike) -> Floats:
    """Values of the target, shape (n,); ValueError for none, and for several."""
    values = np.asarray(y, np.float64)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or not len(values):
        raise ValueError(
            "A display is of one target, with one row at least, and this one has "
            f"values of shape {values.shape}."
        )
    return values


def interval_of(model: Any, X: Any, coverage: float) -> Floats:
    """Prediction intervals, shape (n, 2); ValueError for a model that has none."""
    if not hasattr(model, "predict_interval"):
        raise ValueError(
            f"{type(model).__name__} has no prediction intervals: give a "
            "KernelMachineRegressor, fitted with "
            "uncertainty=True, or another model with predict_interval."
        )
    return np.asarray(model.predict_interval(X, coverage=coverage), np.float64)
