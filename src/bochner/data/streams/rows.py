"""Rows of parts: read as the schema says, apart from their targets, and cut again into blocks of equal size."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.streams.base import READ_BYTES, Batch, Part, SourceError
from bochner.data.streams.checksums import Tally
from bochner.data.streams.roles import Roles, Rows
from bochner.data.streams.row_errors import RowError, infinite_value
from bochner.data.table_input import finite_numbers

MOST_PIECES = 256  # of a block, before they become one


def part_rows(part: Part, schema: Any, roles: Roles, tally: Tally, n_bytes: int = READ_BYTES) -> Generator[Rows]:
    """Yield the rows of a part, split by their roles.

    Parameters
    ----------
    part : Part
    schema : pyarrow.Schema or int
        Of the source: columns are taken by name, and become of its types.
    roles : Roles
    tally : Tally
        Takes in what is read.
    n_bytes : int
        Of a batch, about.

    Raises
    ------
    SourceError
        Naming the part, for rows that are not as the schema or the roles want them, for arrays of anything but finite
        numbers, and where there are not as many rows as the part has said.
    """
    for batch in part.read(n_bytes):
        try:
            first = tally.n_read
            batch = batch._replace(X=_conformed(batch.X, schema, first))
            tally.add(batch)
            rows = roles.rows(batch, first)
            _refuse_infinite(part, rows.X, rows.number)
        except ValueError as error:
            raise _located(part, error) from error
        tally.keep(len(rows.number))
        if len(rows.number):
            yield rows
    if part.n_rows not in (None, tally.n_read):
        raise SourceError(
            f"{part.name}: {tally.n_read:,} rows came where there were {part.n_rows:,} before; do not change the data "
            "while they are read, and start again"
        )


def _located(part: Part, error: ValueError) -> SourceError:
    """What is wrong in a part, with the line of the file where there are lines."""
    line, file = getattr(part, "line", None), getattr(part, "file", None)
    if line is None or file is None or not isinstance(error, RowError):
        return SourceError(f"{part.name}: {error}")
    return SourceError(f"{file.path}: {error.at(f'line {line(error.row)}')}")


def finite_batches(part: Part) -> Iterator[Batch]:
    """Yield the rows of a part; SourceError, with the line, at the first infinite value in lines of text."""
    first = 0
    for batch in part.read():
        number = np.arange(first, first + batch.X.shape[0])
        try:
            _refuse_infinite(part, batch.X, number)
        except RowError as error:
            raise _located(part, error) from error
        yield batch
        first += len(number)


def _refuse_infinite(part: Part, X: Any, number: NDArray[np.int64]) -> None:
    """Raise RowError at the first infinite value of lines of text; others are refused where they are encoded.

    Parameters
    ----------
    part : Part
    X : table of b rows
    number : array of shape (b,)
        Of the rows in the part.
    """
    if hasattr(part, "line") and isinstance(X, pa.Table) and (infinite := infinite_value(X)):
        raise RowError(infinite.before, int(number[infinite.row]), infinite.after)


def _conformed(X: Any, schema: Any, first: int) -> Any:
    """A batch with the columns of a schema, in their order and of their types; columns of no type stay as they come.

    Arrays and sparse matrices must hold finite numbers, as those in memory must.
    """
    if not isinstance(X, pa.Table):
        width = schema if isinstance(schema, int) else len(schema)
        if X.shape[1] != width:
            raise SourceError(f"the rows have {X.shape[1]:,} columns where {width:,} are expected")
        return finite_numbers(X, first)
    if isinstance(schema, int) or X.schema.equals(schema):
        return X
    missing = [name for name in schema.names if name not in X.column_names]
    if missing:
        raise SourceError(f"column {missing[0]!r} is missing; give all rows the same columns")
    columns = [_typed(X.column(field.name), field) for field in schema]
    return pa.table(columns, names=schema.names)


def _typed(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """A column of the type of a field, where the two differ."""
    if column.type == field.type or pa.types.is_null(field.type):
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise SourceError(
            f"column {field.name!r} holds {column.type} values where {field.type} values are expected; give all rows "
            "one type"
        ) from error


def recut(batches: Iterator[Rows], size: int) -> Iterator[Rows]:
    """Yield the same rows in blocks of exactly so many; the last one may be shorter."""
    held: list[Rows] = []
    count = 0
    for batch in batches:
        start, stop = 0, len(batch.number)
        while stop - start >= size - count:
            end = start + size - count
            held.append(cut(batch, start, end))
            yield joined(held)
            held, count, start = [], 0, end
        if start < stop:
            held.append(cut(batch, start, stop))
            count += stop - start
        if len(held) > MOST_PIECES:
            held = [joined(held, copied=True)]
    if held:
        yield joined(held)


def cut(rows: Rows, start: int, stop: int) -> Rows:
    """Some of the rows, not copied where they can be shared."""
    if start == 0 and stop == len(rows.number):
        return rows
    X = rows.X.slice(start, stop - start) if isinstance(rows.X, pa.Table) else rows.X[start:stop]
    y, weight = (None if values is None else values[start:stop] for values in (rows.y, rows.weight))
    return Rows(X, y, weight, rows.number[start:stop])


def joined(pieces: Sequence[Rows], copied: bool = False) -> Rows:
    """Several pieces as one; tables, on request, in one piece of memory."""
    rows = pieces[0]
    if len(pieces) > 1:
        X, *others, number = zip(*pieces, strict=True)
        y, weight = (None if some[0] is None else np.concatenate(some) for some in others)
        rows = Rows(stacked(X), y, weight, np.concatenate(number))
    return rows._replace(X=rows.X.combine_chunks()) if copied and isinstance(rows.X, pa.Table) else rows


def stacked(blocks: Sequence[Any]) -> Any:
    """Tables, or matrices and arrays, one below the other; a sparse matrix where one is."""
    if len(blocks) == 1:
        return blocks[0]
    if isinstance(blocks[0], pa.Table):
        return _stacked_tables(blocks)
    return sp.vstack(blocks, format="csr") if any(map(sp.issparse, blocks)) else np.concatenate(blocks)


def _stacked_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables below each other whose columns may lack a type, or hold text in one and its codes in another."""
    if any(table.schema != tables[0].schema for table in tables):
        tables = [table.cast(pa.schema([_decoded(field) for field in table.schema])) for table in tables]
    return pa.concat_tables(tables, promote_options="permissive")


def _decoded(field: pa.Field) -> pa.Field:
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
