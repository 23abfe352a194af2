"""What a table that is read part by part is: batches of rows, parts, the source that
holds them, and its errors.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.blocks import PART_BYTES
from bochner.data.array_source import rows_of


class SourceError(ValueError):
    """A table cannot be read; the message names the file, the place in it and what
    to do.
    """


def require_file(path: str) -> None:
    """Raise SourceError, which names this machine, where a file that was opened in
    another process is not seen here.
    """
    if not os.path.exists(path):
        raise SourceError(
            f"{path}: a worker on {socket.gethostname()} cannot find this file; put "
            "it where all workers see it under "
            "the same path, such as a shared disk"
        )


class Batch(NamedTuple):
    """Consecutive rows.

    Attributes
    ----------
    X : pyarrow.Table, array or CSR matrix of b rows
        Tables may hold the target and the weights among their columns.
    y : array of b rows, or None
        Targets that came apart from X.
    weight : array of shape (b,), or None
    group : array of shape (b,), or None
        To which group each row belongs, where a column tells it.
    """

    X: Any
    y: Any = None
    weight: Any = None
    group: Any = None

    def take(self, rows: slice | NDArray) -> Batch:
        """Some of the rows, by a slice or their numbers."""
        return Batch(*(take_rows(values, rows) for values in self))

    @property
    def n_bytes(self) -> int:
        """Bytes in memory."""
        X = self.X
        rows = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
        return sum(one.nbytes for one in (*rows, *self[1:]) if one is not None)

    def split(self, n_bytes: int) -> Iterator[Batch]:
        """Yield the rows in pieces of at most about `n_bytes` bytes."""
        n = self.X.shape[0]
        step = max(n * n_bytes // max(self.n_bytes, 1), 1)
        for start in range(0, n, step):
            yield self.take(slice(start, start + step))


def take_rows(values: Any, rows: slice | NDArray) -> Any:
    """Rows of a table, an array, a sparse matrix or a data frame, by a slice or their
    numbers; None of None.

    A slice of all rows is what is given, so that sparse matrices are not copied.
    """
    if values is None:
        return None
    if isinstance(rows, slice):
        start, stop, _ = rows.indices(values.shape[0])
        if stop - start == values.shape[0]:
            return values
    return rows_of(values, rows)


def is_a(value: Any, package: str, *names: str) -> bool:
    """Whether a value is of one of the classes of a package that need not be there."""
    return any(
        kind.__name__ in names and kind.__module__.partition(".")[0] == package
        for kind in type(value).__mro__
    )


def total(counts: Sequence[int | None]) -> int | None:
    """The sum of numbers of rows; None where one of them is not known."""
    told = [count for count in counts if count is not None]
    return sum(told) if len(told) == len(counts) else None


class Part(Protocol):
    """Consecutive rows of a table, cut by the data: a row group, a file, a slice of
    an array. Picklable.
    """

    @property
    def name(self) -> str:
        """Where the rows are, for messages: a file and the place in it."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if it is not known before they are read."""

    def read(self, n_bytes: int = PART_BYTES) -> Iterator[Batch]:
        """Yield the rows in order, in batches of at most about `n_bytes` bytes; again
        from the first at each call.

        Raises
        ------
        SourceError
            Where the rows cannot be read, or are other ones than when the source was
            opened.
        """


@dataclass(frozen=True)
class TableSource:
    """A table whose rows are read part by part, in as many passes as needed.

    `bochner.open_source` returns it.

    Attributes
    ----------
    parts : tuple of Part
    schema : pyarrow.Schema or int
        Names and types of the columns; the number of columns of arrays and sparse
        matrices.
    what : str
        Description, such as "3 Parquet files".
    sample : int or None
        Number of first rows on which the model is selected, which saves a pass; None
        for a sample of all rows.
    sparse : bool
        Whether batches are CSR matrices.
    expected : int or None
        Approximate number of rows, if some of those counted are filtered out.
    inferred : tuple of str
        Columns that are text because of their values alone, of files of text.
    """

    parts: tuple[Part, ...]
    schema: pa.Schema | int
    what: str
    sample: int | None = None
    sparse: bool = False
    expected: int | None = None
    inferred: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if it is not known before they are read."""
        return total([part.n_rows for part in self.parts])

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.schema if isinstance(self.schema, int) else len(self.schema)

    @property
    def names(self) -> list[str] | None:
        """Names of the columns; None for arrays."""
        return None if isinstance(self.schema, int) else list(self.schema.names)

    def __repr__(self) -> str:
        rows = (
            "rows not counted yet" if self.n_rows is None else f"{self.n_rows:,} rows"
        )
        return f"TableSource({rows} x {self.n_columns:,} columns: {self.what})"


class RowError(SourceError):
    """Something is wrong in a row of a table.

    Parameters
    ----------
    before, after : str
        The message around the name of the row.
    row : int
        Number of the row, from 0.
    """

    def __init__(self, before: str, row: int, after: str = "") -> None:
        super().__init__(before, row, after)
        self.row = row

    def message_at(self, place: str) -> str:
        """The message with another name of the row."""
        before, _, after = self.args
        return f"{before}{place}{after}"

    def __str__(self) -> str:
        return self.message_at(f"row {self.row}")


def infinite_value(table: pa.Table, first: int = 0) -> RowError | None:
    """The first infinite value of a table whose first row has this number, in the
    order of its columns; None where there is none.
    """
    import pyarrow.compute as pc

    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(column.type):
            row = pc.index(pc.is_inf(column), True).as_py()
            if row >= 0:
                return RowError(
                    f"Input X contains infinity: column {name!r}, ",
                    first + row,
                    "; drop or clip such values",
                )
    return None
