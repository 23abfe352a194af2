"""What models make of rows, of Dask's collections: block by block, when the result is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from bochner.engines.local import at_most
from bochner.sources.base import SourceError
from bochner.sources.dask_parts import blocks_of, is_collection, is_frame_of_dask, whole_rows

Method = TypeVar("Method", bound=Callable[..., Any])
Columns = Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class MethodCall:
    """A method of a model, with what is given to it beside the rows.

    Attributes
    ----------
    model : object
        A copy: what becomes of the original changes nothing.
    method : str
    arguments : tuple
    named : dict
    """

    model: Any
    method: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]

    @classmethod
    def of(cls, model: Any, method: str, *arguments: Any, **named: Any) -> MethodCall:
        """The call, on the model as it is now."""
        bare = getattr(model, "_without_sums", None)
        return cls(copy(model) if bare is None else bare(), method, arguments, named)

    def __call__(self, rows: Any) -> Any:
        """What the method makes of rows in memory."""
        return getattr(self.model, self.method)(rows, *self.arguments, **self.named)


def lazy(method: Method) -> Method:
    """Let a method of a fitted model take collections of Dask for rows, and return arrays of Dask for them."""

    @wraps(method)
    def call(self: Any, X: Any, *arguments: Any, **named: Any) -> Any:
        if not is_collection(X):
            return method(self, X, *arguments, **named)
        check_is_fitted(self)
        return dask_map(
            X, MethodCall.of(self, method.__name__, *arguments, **named), getattr(self, "feature_names_in_", None)
        )

    return call  # type: ignore[return-value]


def dask_map(X: Any, call: MethodCall, names: Sequence[str] | None, columns_of: Columns | None = None) -> Any:
    """The results of a call on the rows of a collection, not computed yet.

    The model travels once, and each block is mapped in one thread. What comes of it is found out on rows that stand for
    those to come.

    Parameters
    ----------
    X : Dask array of shape (n, d), or Dask data frame
    call : Call
        Gives an array or a CSR matrix with a row for each of its rows.
    names : sequence of str or None
        Columns that the model needs.
    columns_of : callable, optional
        Columns by name of such an array, for results of data frames that are data frames.

    Returns
    -------
    Dask array; of a data frame, with `columns_of`, a Dask series of one column, or else a Dask data frame
        Of arrays the sizes of chunks are those of X. Series and frames have the index of X.

    Raises
    ------
    SourceError
        Where columns are missing.
    """
    from dask import delayed

    model = delayed(call, name=f"{type(call.model).__name__}-{uuid4().hex}", traverse=False)
    if is_frame_of_dask(X):
        X = _named(X, names)
        rows = _rows_like(X)
        example = call(rows)
        if columns_of is not None:
            empty = _as_frame(example, columns_of, rows.index).iloc[:0]
            return X.map_partitions(_frame_of_block, model, columns_of, empty, meta=empty)
        return X.map_partitions(_array_of_block, model, _empty(example), meta=_empty(example))
    return _array(whole_rows(X), model, _empty(call(_example(X))), call.method)


def _array(X: Any, model: Any, empty: Any, name: str) -> Any:
    """An array of Dask with as many rows in each chunk."""
    from dask.array import blockwise

    axes = {k: size for k, size in enumerate(empty.shape) if k}
    axes_in, axes_out = (0, len(empty.shape)), (0, *axes)
    given = (_array_of_block, axes_out, X, axes_in, model, None, empty, None)
    alike = {"dtype": empty.dtype, "meta": empty, "align_arrays": False, "token": name}
    return blockwise(*given, new_axes=axes, concatenate=True, **alike)


def _named(X: Any, names: Sequence[str] | None) -> Any:
    """A frame with the columns that a model needs, in their order."""
    if names is None:
        return X
    labels = {str(label): label for label in X.columns}
    if absent := [name for name in names if name not in labels]:
        raise SourceError(f"the model needs columns that are missing: {', '.join(map(repr, absent))}")
    X = X[[labels[name] for name in names]]
    return X if all(isinstance(label, str) for label in labels.values()) else X.rename(columns=str)


def _rows_like(X: Any) -> Any:
    """Rows like those of a frame: made up, but where there are columns of objects, of which only values tell more."""
    if not any(str(kind) == "object" for kind in X.dtypes):
        return X._meta_nonempty
    return next(blocks_of(X), X._meta_nonempty).iloc[:1]


def _example(X: Any) -> Any:
    """A row like those of an array."""
    row = np.zeros((1, int(X.shape[1])), X.dtype)
    return sp.csr_matrix(row) if sp.issparse(X._meta) else row


def _empty(example: Any) -> Any:
    return example[:0]


def _array_of_block(rows: Any, call: MethodCall, empty: Any) -> Any:
    if not rows.shape[0]:
        return empty
    with at_most(1):
        return call(rows)


def _frame_of_block(rows: Any, call: MethodCall, columns_of: Columns, empty: Any) -> Any:
    if not len(rows):
        return empty.set_axis(rows.index)
    with at_most(1):
        return _as_frame(call(rows), columns_of, rows.index)


def _as_frame(found: Any, columns_of: Columns, index: Any) -> Any:
    """A series of one column, which is named so, or a data frame."""
    from pandas import DataFrame

    frame = DataFrame(columns_of(found), index=index)
    return frame.iloc[:, 0] if frame.shape[1] == 1 else frame
