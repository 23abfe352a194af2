"""Arrays, sparse matrices and data frames in memory, and arrays mapped from files, as parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from bochner.data.array_source import rows_of
from bochner.data.streams.base import READ_BYTES, Batch, SourceError, TableSource
from bochner.data.streams.layouts import Columns, Layout
from bochner.data.streams.mapped import received, sendable
from bochner.data.streams.selection import Selection
from bochner.data.streams.tables import as_table, frame_schema
from bochner.data.table_input import as_array, check_frame, checked_sparse, is_frame

PART_ROWS, PART_BYTES, MOST_PARTS = 1 << 16, 16 << 20, 4096
STAMPED_ROWS = 64


@dataclass(frozen=True, eq=False)
class ArrayPart:
    """Consecutive rows of an array, a sparse matrix or a data frame, a `Part`.

    Attributes
    ----------
    X : array, CSR matrix or data frame of b rows
    y : array of b rows, or None
    weight : array of shape (b,), or None
    first : int
        Number of the first row in the source.
    schema : pyarrow.Schema or None
        Of frames.
    columns : Columns or None
        What is wanted of frames.
    """

    X: Any
    y: Any
    weight: Any
    first: int
    schema: pa.Schema | None = None
    columns: Columns | None = None

    @property
    def name(self) -> str:
        """Numbers of the rows."""
        return f"rows {self.first:,} to {self.first + self.X.shape[0] - 1:,}"

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where a condition leaves some out."""
        return None if self.columns and self.columns.selection.where is not None else self.X.shape[0]

    def read(self, n_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield the rows in order, in batches of about so many bytes at most; arrays are views of the rows."""
        step = max(n_bytes // _row_bytes(self.X), 1)
        for start in range(0, self.X.shape[0], step):
            rows = slice(start, start + step)
            y, weight = (None if values is None else values[rows] for values in (self.y, self.weight))
            batch, place = Batch(rows_of(self.X, rows), y, weight), f"rows {self.first + start:,} and after"
            if self.schema is not None:
                batch = batch._replace(X=as_table(batch.X, self.schema, place))
            yield batch if self.columns is None else self.columns.take(batch, place)

    def stamp(self) -> str:
        """Shape and types, and a hash of some of the rows."""
        wanted = "" if self.columns is None else self.columns.stamp()
        return f"{self.first} {stamp_of(self.X)} {stamp_of(self.y)} {stamp_of(self.weight)} {wanted}"

    def __reduce__(self) -> tuple[Any, tuple]:
        fields = (self.X, self.y, self.weight, self.first, self.schema, self.columns)
        return _received, tuple(map(sendable, fields))


def _received(*fields: Any) -> ArrayPart:
    return ArrayPart(*map(received, fields))


def of_arrays(
    X: Any,
    y: Any = None,
    weight: Any = None,
    selection: Selection | None = None,
    schema: pa.Schema | None = None,
) -> TableSource:
    """Open what is in memory, or mapped from a file, as a source; nothing is copied.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
    y : array of n rows, optional
    weight : array of shape (n,), optional
    selection : Selection, optional
        Of data frames.
    schema : pyarrow.Schema, optional
        Types that columns of data frames are to have.

    Returns
    -------
    TableSource
        Its parts depend on the shape alone.

    Raises
    ------
    ValueError
        Where X has no rows or no columns, or y or the weights have another number of rows.
    """
    X = _rows_in_order(X)
    n, width = X.shape
    y, weight = (_beside(values, n, name) for values, name in ((y, "y"), (weight, "sample_weight")))
    frame = frame_schema(X) if is_frame(X) else None
    columns = Columns.of(Layout(width if frame is None else frame, sp.issparse(X), False, False), selection, schema)
    read = frame and columns and pa.schema([frame.field(name) for name in columns.types.names])
    step, parts = max(min(PART_ROWS, PART_BYTES // _row_bytes(X)), -(-n // MOST_PARTS), 1), []
    for start in range(0, n, step):
        rows = slice(start, start + step)
        beside = [None if values is None else values[rows] for values in (y, weight)]
        parts.append(ArrayPart(rows_of(X, rows), beside[0], beside[1], start, read, columns))
    return TableSource(tuple(parts), columns.kept() if columns else width, _what(X), sparse=sp.issparse(X))


def _what(X: Any) -> str:
    if is_frame(X):
        return f"a data frame of {type(X).__module__.partition('.')[0]}"
    return "a sparse matrix" if sp.issparse(X) else f"an array of {X.dtype}"


def _rows_in_order(X: Any) -> Any:
    """X as an array, a CSR matrix or a frame, of two dimensions and at least one row."""
    if is_frame(X):
        check_frame(X)
        return X
    if sp.issparse(X):
        if X.ndim != 2:
            raise ValueError(f"Expected 2D sparse input, got {X.ndim}D input. Reshape your data")
        X = checked_sparse(X).tocsr()
    else:
        X = as_array(X)
    if 0 in X.shape:
        raise SourceError(f"an array of shape {X.shape} is not a table; give an array with rows and columns")
    return X


def _beside(values: Any, n: int, name: str) -> Any:
    """Targets or weights as an array; those of a frame or series as well."""
    if values is None:
        return None
    values = np.asarray(values)
    if values.ndim == 0 or len(values) != n:
        found = "a single value" if values.ndim == 0 else f"{len(values)} rows"
        raise ValueError(f"{name} has {found}, but X has {n}; give one for each row")
    return values


def _row_bytes(X: Any) -> int:
    if sp.issparse(X):
        return (X.data.itemsize + X.indices.itemsize) * X.nnz // max(X.shape[0], 1) + 1
    return max(X.shape[1] * getattr(getattr(X, "dtype", None), "itemsize", 8), 1)


def stamp_of(values: Any) -> str:
    """Shape and types of rows, and a hash of some of them."""
    if values is None:
        return "-"
    rows = np.unique(np.linspace(0, values.shape[0] - 1, min(STAMPED_ROWS, values.shape[0])).astype(np.int64))
    some = rows_of(values, rows)
    if sp.issparse(some):
        kind, content = str(some.dtype), b"".join(part.tobytes() for part in (some.data, some.indices, some.indptr))
    elif isinstance(some, np.ndarray):
        kind = str(some.dtype)
        content = str(some.tolist()).encode() if some.dtype.hasobject else np.ascontiguousarray(some).tobytes()
    else:
        table = as_table(some, frame_schema(some), "")
        kind, content = str(table.schema.to_string(show_schema_metadata=False)), str(table.to_pydict()).encode()
    return f"{values.shape} {kind} {blake2b(content, digest_size=16).hexdigest()}"
