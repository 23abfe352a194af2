"""Checks the tables that an encoder is given, and turns them into arrays where that
can be done at once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from narwhals.dependencies import is_into_dataframe, is_into_series
from numpy.typing import NDArray

from bochner.data.columns import (
    are_finite,
    is_missing,
    library_of,
    require_finite,
    unmasked,
)
from bochner.engines.local import require_memory
from bochner.notices import listed

# Columns whose memory is looked at; of the statistic and the encoding of one
WIDE, COLUMN_BYTES = 1 << 20, 160
FEWER = (
    "Give fewer columns, such as those that "
    "sklearn.feature_extraction.FeatureHasher makes of them."
)
IMPUTE = (
    "Impute them, or pass a dense array or a data frame, whose missing values "
    "are encoded."
)
FRAME = (
    "pass a data frame, for example pd.DataFrame(X), or an array of shape (n, "
    "d), such as X.data of a Bunch."
)


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of any library; arrays are told at once, where a
    look at all libraries takes 10 us.
    """
    return not isinstance(X, np.ndarray) and is_into_dataframe(X)


def check_names(X: Any) -> None:
    """Raise ValueError where column names of a data frame repeat."""
    counts = Counter(frame_names(X) or [])
    if twice := [name for name, count in counts.items() if count > 1]:
        raise ValueError(f"column names must be unique, but these repeat: {twice}")


def frame_names(X: Any) -> list[str] | None:
    """Texts of the names of the columns of a data frame, whatever they are; None of
    arrays and sparse matrices.
    """
    if not is_frame(X):
        return None
    is_arrow = type(X).__module__.startswith("pyarrow.")
    return list(map(str, X.column_names if is_arrow else X.columns))


def require_names(fitted: Sequence[str] | None, X: Any) -> None:
    """Raise ValueError where a data frame has other columns than that of the fit, or in
    another order.

    Columns numbered from 0 on, as of `pd.DataFrame(array)`, are those of an array,
    which may have any names.

    Parameters
    ----------
    fitted : sequence of str or None
        As of `frame_names`.
    X : data frame, array or sparse matrix of as many columns as in the fit
    """
    given = frame_names(X)
    if given is None:
        return
    numbered = [str(j) for j in range(len(given))]
    expected = numbered if fitted is None else list(fitted)
    is_array = numbered in (given, expected) and set(given) != set(expected)
    if given != expected and not is_array:
        raise ValueError(
            "The columns must be those of the fit, in their order: these are "
            f"{listed(expected)}, got {listed(given)}; order them by X[columns], or "
            "give an array."
        )


def check_size(shape: tuple[int, ...]) -> None:
    """Raise ValueError where a table has no rows or no columns."""
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 "
                "is required. Give a table with rows and columns."
            )


def require_width(n_columns: int, what: str = "A table of", cure: str = FEWER) -> None:
    """Raise MemoryError where the columns of a table alone would take more memory
    than there is.
    """
    if n_columns > WIDE:
        require_memory(COLUMN_BYTES * n_columns, f"{what} {n_columns:,} columns", cure)


def as_array(X: Any) -> np.ndarray:
    """Array of shape (n, p) of whatever is neither a data frame nor sparse; NaN
    where numbers are missing or masked.
    """
    is_array = isinstance(X, np.ndarray)  # told at once
    kind = f"X, a {type(X).__name__},"
    if not is_array and is_into_series(X):
        raise ValueError(
            "Expected 2D input, got a Series. Reshape your data: a column by "
            "X.to_frame(), and take a row as a frame, such as frame.iloc[[0]]."
        )
    if not is_array and isinstance(nw.from_native(X, pass_through=True), nw.LazyFrame):
        raise TypeError(f"X is a lazy {type(X).__name__}: collect or compute it first.")
    if type(X).__name__ == "RecordBatch":
        raise TypeError(f"{kind} is part of a table: pass pa.Table.from_batches([X]).")
    is_list = isinstance(X, list | tuple)
    if isinstance(X[0] if is_list and len(X) else X, Mapping):
        raise TypeError(f"{kind} has columns by name, or records: {FRAME}")
    try:
        array = np.asarray(unmasked(X))
    except ValueError as error:
        raise ValueError(
            f"{kind} has rows that are no arrays of one length: {FRAME}"
        ) from error
    if is_list and array.dtype.kind in "US":
        array = np.array(X, dtype=object)
    if array.ndim == 2:
        return as_numbers(array) if array.dtype == object else array
    if array.dtype == object and array.ndim == 0 and X is not None:
        raise TypeError(f"{kind} is no table: {FRAME}")
    raise ValueError(
        f"Expected 2D array, got {array.ndim}D array instead. Reshape your data "
        "either using array.reshape(-1, 1) if your data has a single feature or "
        "array.reshape(1, -1) if it contains a single sample."
    )


def as_numbers(array: np.ndarray) -> np.ndarray:
    """Objects that are real numbers, or missing, as numbers; others as they are."""
    for value in {type(value): value for value in array.flat}.values():
        if not (is_missing(value) or isinstance(value, Real | Decimal | np.bool_)):
            return array
    gaps = np.fromiter(map(is_missing, array.flat), bool, array.size)
    return np.where(gaps.reshape(array.shape), np.nan, array).astype(np.float64)


def as_table_or_matrix(X: Any) -> Any:
    """X as a checked data frame, an array, or a sound sparse matrix, of two dimensions
    with rows and columns.
    """
    if is_frame(X):
        check_names(X)
        import pyarrow as pa

        # Arrow takes no rows of views of text, which become plain text; a frame of
        # pandas with such becomes a table of Arrow
        view = pa.string_view()
        if library_of(X) == "pandas" and any(
            getattr(kind, "pyarrow_dtype", None) == view for kind in X.dtypes
        ):
            X = pa.Table.from_pandas(X, preserve_index=False)
        if isinstance(X, pa.Table) and view in X.schema.types:
            plain = pa.large_string()
            kinds = [plain if kind == view else kind for kind in X.schema.types]
            X = X.cast(pa.schema(zip(X.column_names, kinds, strict=True)))
    elif not sp.issparse(X):
        X = as_array(X)
    elif X.ndim != 2:
        raise ValueError(
            f"Expected 2D sparse input, got {X.ndim}D input. Reshape your data"
        )
    else:
        X = checked_sparse(X)
    check_size(X.shape)
    return X


def checked_sparse(X: Any) -> Any:
    """Return X as it is, masked values missing; ValueError for a sparse matrix that
    names what it does not have.

    SciPy makes such matrices without a look at their indices, and its own code reads by
    them, as compiled loops do.
    """
    if not sp.issparse(X) or X.ndim != 2:
        return unmasked(X)
    if X.format not in ("csr", "csc", "bsr", "coo"):
        X = X.tocsr()
    try:
        if X.format == "coo":
            type(X)((X.data, X.coords), shape=X.shape)  # which checks its indices
        else:
            X.check_format()
            if (np.diff(X.indptr) < 0).any():  # also where there are no entries
                raise ValueError("indptr falls")
    except ValueError as error:
        raise ValueError(
            f"X is a damaged sparse matrix: {error}. Build it again, for example from "
            "its entries: csr_array((data, (rows, columns)), shape=...)."
        ) from None
    return X


def checked_matrix(X: Any, start: int = 0) -> Any:
    """An array or sparse matrix as it is; ValueError for what an encoder does not take.

    An array may hold NaN, and objects of all kinds that a column of a data frame may
    hold; a sparse matrix may not.

    Parameters
    ----------
    X : array or sparse matrix of shape (b, p)
    start : int
        Number of its first row, for messages.
    """
    if X.dtype.kind in "USTMm":
        what = "dates" if X.dtype.kind in "Mm" else "text"
        raise ValueError(
            f"X is an array of {what}; pass a data frame, whose columns of {what} are "
            "encoded, or where another estimator makes arrays of frames, encode them "
            "before it: make_pipeline(TableEncoder(), ...)."
        )
    if X.dtype.kind == "c":
        raise ValueError(
            "Complex data not supported; give real and imaginary parts as columns."
        )
    require_finite(X, None, start, IMPUTE if sp.issparse(X) else "")
    return X


def finite_predictions(values: NDArray) -> NDArray:
    """The predictions; ValueError, which names a row, where they are not all finite."""
    if not are_finite(values):
        row = np.isfinite(values.reshape(len(values), -1)).all(axis=1).argmin()
        raise ValueError(
            f"Input X, row {row}: the prediction overflows, so large are the values; "
            "drop or clip such rows."
        )
    return values


def as_dense(X: Any) -> NDArray:
    """Rows as an array of NumPy, with all their zeros."""
    return X.toarray() if sp.issparse(X) else X
