"""Arrays, sparse matrices and data frames in memory, and arrays mapped from files,
as parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.blocks import PART_BYTES, PART_ROWS
from bochner.data.columns import is_missing, lone_surrogate, values_of
from bochner.data.table_input import as_table_or_matrix, is_frame
from bochner.sources.base import (
    Batch,
    SourceError,
    TableSource,
    require_file,
)
from bochner.sources.paths import reason
from bochner.sources.schema import EVERYTHING, Columns, Selection


@dataclass(frozen=True)
class MappedArray:
    """Place of an array in a file; another process gets the array itself, as it is in
    the file there.

    Attributes
    ----------
    path : str
    offset : int
        Bytes of the file before its first element.
    dtype : numpy.dtype
    shape : tuple of int
    strides : tuple of int
        Bytes from one element to the next, none negative.
    """

    path: str
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: Any) -> MappedArray | None:
        """The place of an array, where it is mapped from a file and read forwards."""
        owner: Any = array
        mapped: Any = None
        while owner is not None:
            mapped = owner if isinstance(owner, np.memmap) else mapped
            owner = getattr(owner, "base", None)
        if (
            mapped is None
            or mapped.filename is None
            or min(array.strides, default=0) < 0
            or array.dtype.hasobject
        ):
            return None
        # The first of the arrays that are views of it knows its place in the file
        offset = mapped.offset + array.ctypes.data - mapped.ctypes.data
        return cls(
            str(mapped.filename), offset, array.dtype, array.shape, array.strides
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, tuple(vars(self).values())


def _opened(
    path: str,
    offset: int,
    dtype: np.dtype,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> NDArray:
    """An array of a file, mapped to be read; SourceError where this process cannot see
    the file.
    """
    require_file(path)
    raw = np.memmap(path, np.uint8, "r")
    return np.ndarray(shape, dtype, raw, offset, strides)


def frame_schema(frame: Any) -> pa.Schema:
    """Arrow schema of all rows of a data frame; columns of objects of several kinds are
    text.

    Raises
    ------
    SourceError
        For a column whose type Arrow does not have.
    """
    if isinstance(frame, pa.Table):
        return frame.schema.remove_metadata()
    import narwhals as nw

    fields = []
    for column in nw.from_native(frame, eager_only=True).iter_columns():
        try:
            values = _arrow(column) if _by_numpy(column) else _arrow(column[:1])
        except UnicodeEncodeError:
            raise SourceError(
                str(lone_surrogate(column.to_numpy(), column.name))
            ) from None
        except (pa.ArrowException, TypeError, NotImplementedError) as error:
            kind = getattr(column.to_native(), "dtype", column.dtype)
            raise SourceError(
                f"column {column.name!r} is of type {kind}, which Arrow lacks; "
                "convert it"
            ) from error
        fields.append(pa.field(str(column.name), values.type))
    return pa.schema(fields)


def as_table(frame: Any, schema: pa.Schema, place: str) -> pa.Table:
    """Rows of a data frame as a table, with the columns of a schema that all its rows
    have.

    Raises
    ------
    SourceError
        Where that is not so; names the place.
    """
    if isinstance(frame, pa.Table):
        return frame.select(schema.names).replace_schema_metadata()
    import narwhals as nw

    columns = {
        str(column.name): column
        for column in nw.from_native(frame, eager_only=True).iter_columns()
    }
    try:
        arrays = [_arrow(columns[field.name], field.type) for field in schema]
    except pa.ArrowException as error:
        raise SourceError(
            f"{place}: {reason(error)}; give columns of one type each"
        ) from error
    return pa.table(arrays, schema=schema)


def _arrow(column: Any, kind: pa.DataType | None = None) -> Any:
    """Values of a column as an Arrow array, those of several kinds as text."""
    if not _by_numpy(column):
        array = column.to_arrow()
        return array if kind is None else array.cast(kind)
    values = column.to_numpy()
    try:
        return pa.array(values, type=kind, from_pandas=True)
    except (pa.ArrowException, OverflowError):
        if kind is not None and not pa.types.is_string(kind):
            raise
        return pa.array(
            [None if is_missing(value) else str(value) for value in values], pa.string()
        )


def _by_numpy(column: Any) -> bool:
    """Whether a column is one of pandas that Arrow reads as an array: of objects, or
    sparse.
    """
    kind = getattr(column.to_native(), "dtype", None)
    return (isinstance(kind, np.dtype) and kind.hasobject) or str(kind).startswith(
        "Sparse["
    )


MOST_PARTS = 4096


@dataclass(frozen=True, eq=False)
class ArrayPart:
    """Consecutive rows of an array, a sparse matrix or a data frame, a `Part`.

    Attributes
    ----------
    rows : Batch
        X an array, a CSR matrix or a data frame.
    first : int
        Number of the first row in the source.
    schema : pyarrow.Schema or None
        Of frames.
    columns : Columns
        What is wanted of frames.
    """

    rows: Batch
    first: int
    schema: pa.Schema | None
    columns: Columns

    @property
    def name(self) -> str:
        """Numbers of the rows."""
        return f"rows {self.first:,} to {self.first + self.rows.X.shape[0] - 1:,}"

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where a condition leaves some out."""
        return self.rows.X.shape[0] if self.columns.selection.where is None else None

    def read(self, n_bytes: int = PART_BYTES) -> Iterator[Batch]:
        """Yield the rows in order, in batches of at most about `n_bytes` bytes; arrays
        are views of the rows.
        """
        step = max(n_bytes // _row_bytes(self.rows.X), 1)
        for start in range(0, self.rows.X.shape[0], step):
            batch = self.rows.take(slice(start, start + step))
            place = f"rows {self.first + start:,} and after"
            if self.schema is not None:
                batch = batch._replace(X=as_table(batch.X, self.schema, place))
            yield self.columns.take(batch, place)

    def __reduce__(self) -> tuple[Any, tuple]:
        sent = []
        for value in self.rows:
            if isinstance(value, np.ndarray):
                # An array of a file goes as its place
                value = MappedArray.of(value) or value
            elif isinstance(value, pa.Table):
                # A copy, not the whole buffers that the rows are cut of
                value = value.take(np.arange(len(value)))
            sent.append(value)
        return ArrayPart, (Batch(*sent), self.first, self.schema, self.columns)


def of_arrays(
    X: Any,
    y: Any = None,
    weight: Any = None,
    selection: Selection = EVERYTHING,
) -> TableSource:
    """Open what is in memory, or mapped from a file, as a source; nothing is copied.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
    y : array of n rows, optional
    weight : array of shape (n,), optional
    selection : Selection, optional
        Of data frames.

    Returns
    -------
    TableSource
        Its parts depend on the shape alone.

    Raises
    ------
    ValueError
        Where X has no rows or no columns, or y or the weights have another number of
        rows.
    """
    X = as_table_or_matrix(X)
    X = X.tocsr() if sp.issparse(X) else X
    n = X.shape[0]
    y = values_beside(y, n, "y")
    weight = values_beside(weight, n, "sample_weight")
    rows = Batch(X, y, weight)
    is_sparse = sp.issparse(X)
    read = None
    if is_frame(X):
        frame = frame_schema(X)
        what = f"a data frame of {type(X).__module__.partition('.')[0]}"
        columns = Columns.of(rows._replace(X=frame.empty_table()), selection)
        read = selection.needed(frame)
    else:
        what = "a sparse matrix" if is_sparse else f"an array of {X.dtype}"
        columns = Columns.of(rows, selection)
    step = max(min(PART_ROWS, PART_BYTES // _row_bytes(X)), -(-n // MOST_PARTS), 1)
    parts = [
        ArrayPart(rows.take(slice(start, start + step)), start, read, columns)
        for start in range(0, n, step)
    ]
    return TableSource(tuple(parts), columns.kept(), what, sparse=is_sparse)


def values_beside(values: Any, n: int, name: str) -> Any:
    """Targets or weights as an array, those of a frame or series as well;
    SourceError where there are not n of them.
    """
    if values is None:
        return None
    values = np.asarray(values_of(values))
    if values.ndim == 0 or len(values) != n:
        description = "a single value" if values.ndim == 0 else f"{len(values):,} rows"
        raise SourceError(
            f"{name} has {description}, but X has {n:,}; give one for each row"
        )
    return values


def _row_bytes(X: Any) -> int:
    if sp.issparse(X):
        return (X.data.itemsize + X.indices.itemsize) * X.nnz // max(X.shape[0], 1) + 1
    return max(X.shape[1] * getattr(getattr(X, "dtype", None), "itemsize", 8), 1)
