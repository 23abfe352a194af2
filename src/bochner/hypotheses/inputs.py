"""What users pass as a table, as something with two dimensions and with columns named by text."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bochner.arrays import place_of, to_host
from bochner.sources.dask_parts import is_collection

ONE = "value"  # name of a column of text or a series without one


def as_table(X: Any, name: str, column: str | None = None) -> Any:
    """Arrays of other libraries on the host, and what has one dimension as a column.

    Parameters
    ----------
    X : table of any kind, series, or sequence of values
    name : str
        Of the argument, for errors.
    column : str, optional
        Name of the column that a series becomes, in the place of its own.
    """
    if is_collection(X):
        return _of_collection(X)
    if place_of(X) is not None:
        X = to_host(X)
    if not isinstance(X, np.ndarray):
        found = nw.from_native(X, allow_series=True, pass_through=True)
        if isinstance(found, nw.Series):
            return found.alias(column or str(_name_of(found))).to_frame().to_native()
        if isinstance(found, nw.DataFrame):
            return _named_by_text(found).to_native()
        X = _values(X)
    if not isinstance(X, np.ndarray) or X.ndim != 1:
        return X
    return _of_text(X, name) if _is_text(X) else X.reshape(-1, 1)


def shared_column(X: Any, Y: Any) -> str | None:
    """The name that two series have as samples of one column, that of the first; None where X or Y is no series."""
    pair = [nw.from_native(Z, allow_series=True, pass_through=True) for Z in (X, Y) if not is_collection(Z)]
    if len(pair) < 2 or not all(isinstance(one, nw.Series) for one in pair):
        return None
    return str(_name_of(pair[0]))


def _name_of(series: Any) -> Any:
    return ONE if series.name is None or series.name == "" else series.name


def _of_collection(X: Any) -> Any:
    """A collection of Dask with two dimensions."""
    if X.ndim != 1:
        return X
    if hasattr(X, "to_frame"):
        return X.to_frame(name=ONE if X.name is None else str(X.name))
    return X.reshape(-1, 1)


def _named_by_text(frame: nw.DataFrame) -> nw.DataFrame:
    """A frame whose columns pandas numbers, with the numbers as text."""
    others = {column: str(column) for column in frame.columns if not isinstance(column, str)}
    return frame.rename(others) if others else frame


def _values(X: Any) -> Any:
    """Lists of numbers and rows, and one-dimensional arrays of other kinds, as arrays of NumPy."""
    if isinstance(X, list | tuple) and X and isinstance(X[0], bool | int | float | np.number | list | np.ndarray):
        return np.asarray(X)
    return np.asarray(X) if getattr(X, "ndim", None) == 1 and hasattr(X, "__array__") else X


def _is_text(values: NDArray) -> bool:
    if values.dtype.kind == "O":
        return any(isinstance(value, str) for value in values)
    return values.dtype.kind == "U"


def _of_text(values: NDArray, name: str) -> pa.Table:
    """Labels as a table of one column."""
    try:
        return pa.table({ONE: pa.array(values.tolist(), pa.string(), from_pandas=True)})
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise ValueError(f"{name} holds both text and other values: make all of them text.") from None
