"""Checks the tables that an encoder is given, and turns them into arrays where that can be done at once."""

from collections import Counter
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.dependencies import is_into_dataframe, is_into_series

NUMBER_TYPES = (
    *(nw.Int8, nw.Int16, nw.Int32, nw.Int64),
    *(nw.UInt8, nw.UInt16, nw.UInt32, nw.UInt64),
    *(nw.Float32, nw.Float64),
)


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of any library; arrays are told at once, where a look at all libraries takes 10 us."""
    return not isinstance(X, np.ndarray) and is_into_dataframe(X)


def check_frame(X: Any) -> None:
    """Raise ValueError where column names of a data frame repeat, or where it has no rows or no columns."""
    counts = Counter(X.column_names if type(X).__module__.startswith("pyarrow.") else X.columns)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise ValueError(f"column names must be unique, but these repeat: {twice}")
    check_size(X.shape)


def check_size(shape: tuple[int, ...]) -> None:
    """Raise ValueError where a table has no rows or no columns."""
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")


def as_one_array(X: Any) -> Any:
    """Return a frame of numbers and booleans as one array, to be encoded all at once; X otherwise."""
    if not is_frame(X):
        return X
    dtypes: Any = getattr(X, "dtypes", [None])
    if all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in dtypes):
        return X.to_numpy()
    frame = nw.from_native(X, eager_only=True)
    schema = frame.schema
    truths = [name for name, dtype in schema.items() if dtype == nw.Boolean]
    if not all(dtype in NUMBER_TYPES or dtype == nw.Boolean for dtype in schema.values()):
        return X
    array = (frame.with_columns(nw.col(truths).cast(nw.Float32)) if truths else frame).to_numpy()
    return array if array.dtype.kind in "iuf" else X


def as_array(X: Any) -> np.ndarray:
    """Array of shape (n, p) of whatever is neither a data frame nor sparse."""
    if not isinstance(X, np.ndarray) and is_into_series(X):
        raise ValueError("Expected 2D input, got a Series. Reshape your data, for example by X.to_frame()")
    if not isinstance(X, np.ndarray) and isinstance(nw.from_native(X, pass_through=True), nw.LazyFrame):
        raise TypeError(f"cannot encode a lazy {type(X).__name__}: collect or compute it first")
    array = np.asarray(X)
    if isinstance(X, (list, tuple)) and array.dtype.kind in "US":
        array = np.array(X, dtype=object)
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data either using "
            "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it contains a "
            "single sample."
        )
    return array
