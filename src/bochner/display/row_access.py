"""Finds columns and targets of the rows given to a model, and makes typical rows of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.arrays import Floats
from bochner.data.columns import PARTS, column_names, column_number, read_column
from bochner.data.table_input import as_array, is_frame
from bochner.features.metric import Metric


def coordinate_names(metric: Metric, names: Sequence[str]) -> list[str]:
    """Names of the coordinates of a metric: columns, warped ones as w(column), mixed
    ones by number.
    """
    coordinate_labels = [names[j] for j in metric.source_]
    for i in metric.warped_:
        coordinate_labels[i] = f"w({coordinate_labels[i]})"
    r, q = metric.linear_.shape
    return [f"coordinate {i}" for i in range(r)] + coordinate_labels[q:]


def sample(X: NDArray, max_rows: int, random_state: int) -> NDArray:
    """At most `max_rows` of the rows, in their order."""
    if max_rows < 1:
        raise ValueError(f"max_rows must be positive, got {max_rows}.")
    if len(X) <= max_rows:
        return X
    return X[
        np.sort(
            np.random.default_rng(random_state).choice(len(X), max_rows, replace=False)
        )
    ]


def principal_axes(X: NDArray, n: int) -> Floats:
    """Directions of the `n` largest variances of rows, shape (n, d), their signs
    fixed.
    """
    apart = X - X.mean(axis=0)
    axes = np.linalg.eigh(apart.T @ apart)[1][:, ::-1].T[:n]
    largest = np.abs(axes).argmax(axis=1, keepdims=True)
    return axes * np.sign(np.take_along_axis(axes, largest, axis=1))


def column_of(X: Any, column: int | str) -> tuple[str, NDArray, str]:
    """Name, values and unit of a column: float64 with NaN where there are none, or text
    with "" there.

    Of dates the values are "days" since 1970, and of durations "seconds"; other columns
    have no unit, "".

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
    if is_frame(X):
        frame = nw.from_native(X, eager_only=True)
        j = column_number(column, column_names(frame.columns, len(frame.columns)))
        name = frame.columns[j]
        kind, values = read_column(frame[:, j], name)
        parts = PARTS[kind]
        if not parts:
            codes, labels = values
            return name, np.array([*labels, ""], dtype=object)[codes], ""
        unit = parts[0] if parts[0] in ("days", "seconds") else ""
        return name, values[:, 0], unit
    j = column_number(column, column_names(None, n_columns(X)))
    column_values = X[:, [j]].toarray() if hasattr(X, "toarray") else as_array(X)[:, j]
    return f"x{j}", np.asarray(column_values, np.float64).ravel(), ""


def n_columns(X: Any) -> int:
    """Number of columns of rows of any kind."""
    return int(X.shape[1] if hasattr(X, "shape") else as_array(X).shape[1])


def target_of(y: ArrayLike, target: int = 0) -> Floats:
    """One of several targets, shape (n,); ValueError where there is none."""
    values = np.asarray(y, np.float64)
    if values.ndim not in (1, 2) or not len(values):
        raise ValueError(
            "y must be of shape (n,) or (n, K), with one row at least, got "
            f"{values.shape}."
        )
    return _one(values[:, np.newaxis] if values.ndim == 1 else values, target)


def interval_of(model: Any, X: Any, coverage: float, target: int = 0) -> Floats:
    """Prediction intervals of a target, shape (n, 2); ValueError for a model that
    has none.
    """
    if not hasattr(model, "predict_interval"):
        raise ValueError(
            f"{type(model).__name__} has no prediction intervals: give a "
            "KernelMachineRegressor, fitted with "
            "uncertainty=True, or another model with predict_interval."
        )
    ends = np.asarray(model.predict_interval(X, coverage=coverage), np.float64)
    return _one(ends[:, np.newaxis] if ends.ndim == 2 else ends, target)


def _one(values: Floats, target: int) -> Floats:
    if not isinstance(target, int | np.integer) or not 0 <= target < values.shape[1]:
        raise ValueError(
            f"target must be from 0 to {values.shape[1] - 1}, got {target!r}."
        )
    return values[:, int(target)]
