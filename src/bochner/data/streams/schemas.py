"""One schema for the tables of many files."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from bochner.data.csv_text import listed
from bochner.data.streams.base import SourceError
from bochner.data.streams.selection import require


def unified(schemas: Iterable[tuple[str, pa.Schema]], asked: pa.Schema | None = None) -> pa.Schema:
    """One schema for tables that have the same columns, in any order.

    Types that differ become the one that holds both: of whole numbers and of floats the wider, floats of both, text of
    text and categories, anything of nothing but nulls.

    Parameters
    ----------
    schemas : pairs of a name for messages and a schema
        The order of columns is that of the first.
    asked : pyarrow.Schema, optional
        Types that columns are to have whatever they have in the files; it may leave columns out.

    Raises
    ------
    SourceError
        Where a column is missing, is there in some tables only, or changes its type; names the file and the column.
    """
    asked = pa.schema([]) if asked is None else asked
    pairs = iter(schemas)
    first, schema = next(pairs)
    require(schema.names, asked.names, "schema: ")
    schema = pa.schema([pa.field(column.name, plain(column.type)) for column in schema])
    for name, other in pairs:
        _check_names(first, schema, name, other)
        if schema.types != [other.field(column).type for column in schema.names]:
            columns = [(column.name, column.type, other.field(column.name).type) for column in schema]
            schema = pa.schema([_wider(first, name, column, a, b, column in asked.names) for column, a, b in columns])
    return pa.schema([asked.field(column.name) if column.name in asked.names else column for column in schema])


def fitted(table: pa.Table, schema: pa.Schema, place: str) -> pa.Table:
    """The table with the columns and types of a schema that it was unified in.

    Raises
    ------
    SourceError
        Where a value does not fit the type; names the place and the column.
    """
    table = table.select(schema.names)
    if table.schema.types == schema.types:
        return table
    columns = zip(schema, table.columns, strict=True)
    return pa.table([_cast(values, column, place) for column, values in columns], schema=schema)


def bare(schema: pa.Schema) -> pa.Schema:
    """The names and types alone."""
    return pa.schema([(column.name, column.type) for column in schema])


def plain(kind: pa.DataType) -> pa.DataType:
    """The type of the same values in the usual layout."""
    return pa.string() if str(kind) == "string_view" else kind


def _cast(values: pa.ChunkedArray, column: pa.Field, place: str) -> pa.ChunkedArray:
    try:
        if pa.types.is_dictionary(values.type) and not pa.types.is_dictionary(column.type):
            values = values.cast(values.type.value_type)
        return values.cast(column.type)
    except pa.ArrowException as error:
        what = f"column {column.name!r} does not fit its type {column.type}"
        raise SourceError(f"{place}: {what} ({str(error).partition(chr(10))[0]}); give its type in schema=") from error


def _check_names(first: str, schema: pa.Schema, name: str, other: pa.Schema) -> None:
    there, wanted = set(other.names), set(schema.names)
    missing = [column for column in schema.names if column not in there]
    if missing:
        raise SourceError(f"{name}: there is no column {listed(missing)}, which {first} has; add it, or exclude it")
    more = [column for column in other.names if column not in wanted]
    if more:
        raise SourceError(f"{name}: column {listed(more)} is not in {first}; exclude it")


def _wider(first: str, name: str, column: str, a: pa.DataType, b: pa.DataType, asked: bool) -> pa.Field:
    """A field of the type that holds the values of two, the first of which is plain."""
    b, empty = plain(b), a == pa.null() or b == pa.null()
    if pa.types.is_dictionary(a) != pa.types.is_dictionary(b) and not empty:
        a, b = (kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (a, b))
    try:
        if empty or _is_bytes(a) == _is_bytes(b):
            one, two = (pa.schema([pa.field(column, kind)]) for kind in (a, b))
            return pa.unify_schemas([one, two], promote_options="permissive").field(0)
    except pa.ArrowException:
        pass
    if asked:
        return pa.field(column, a)
    raise SourceError(f"{name}: column {column!r} is {b}, but {a} in {first}; give its type in schema=, or exclude it")


def _is_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
