"""Types of the columns of CSV files, by a look at all values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bochner.data.csv_text import Values, csv_options, is_number, unnamed_first
from bochner.data.streams.text_rows import TextSpan
from bochner.sources.base import READ_BYTES

Types = Mapping[str, pa.DataType]


@dataclass(frozen=True)
class Seen:
    """What a look at the rows of a span found.

    Attributes
    ----------
    n_rows : int
    types : dict of str to pyarrow.DataType
        Of each column: the first of Arrow's that all values have.
    values : dict of str to Values
        Of the columns whose types are not known.
    """

    n_rows: int
    types: dict[str, pa.DataType]
    values: dict[str, Values]

    def __add__(self, other: Seen) -> Seen:
        types = {name: widened(kind, other.types[name]) for name, kind in self.types.items()}
        values = {name: found + other.values[name] for name, found in self.values.items()}
        return Seen(self.n_rows + other.n_rows, types, values)


def look(span: TextSpan, columns: Sequence[str], known: Types) -> Seen:
    """Look at all rows once, and again at their values where the types of the first block do not hold below.

    Parameters
    ----------
    span : TextSpan
    columns : sequence of str
    known : dict of str to pyarrow.DataType
        Types that columns are to have.

    Raises
    ------
    SourceError
        Where a row has too few or too many fields, or a value is not of a type that is known.
    """
    with span.problems():
        try:
            types = {column.name: column.type for column in span.schema(columns, known)}
            if not any(pa.types.is_binary(kind) for name, kind in types.items() if name not in known):
                return _of_types(span, columns, types, known)
        except pa.ArrowInvalid as error:
            if "conversion error" not in str(error):
                raise
        return _of_values(span, columns, known)


def widened(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type that values of two types have when they are read from text."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if is_number(a) and is_number(b):
        return pa.float64()
    if all(pa.types.is_date(kind) or pa.types.is_timestamp(kind) for kind in (a, b)):
        times = [kind for kind in (a, b) if pa.types.is_timestamp(kind)]
        if len({kind.tz for kind in times}) == 1 and (len(times) == 2 or times[0].tz is None):
            return max(times, key=lambda kind: ("s", "ms", "us", "ns").index(kind.unit))
    return pa.string()


def _of_types(span: TextSpan, columns: Sequence[str], types: Types, known: Types) -> Seen:
    """What is found where all values have the types of the first block."""
    rows, values = 0, {name: Values.none() for name in columns if name not in known}
    for batch in span.batches(columns, types, READ_BYTES):
        rows += batch.num_rows
        _add_values(values, batch, span)
    return Seen(rows, dict(types), values)


def _of_values(span: TextSpan, columns: Sequence[str], known: Types) -> Seen:
    """What is found by the values of each block."""
    rows, values = 0, {name: Values.none() for name in columns if name not in known}
    types = {name: known.get(name, pa.null()) for name in columns}
    texts = {name: known.get(name, pa.string()) for name in columns}
    for batch in span.batches(columns, texts, READ_BYTES):
        rows += batch.num_rows
        _add_values(values, batch, span)
        for name in values:
            if not pa.types.is_string(types[name]):
                types[name] = widened(types[name], _type_of(batch.column(name), span.decimal_point))
    return Seen(rows, types, values)


def _add_values(values: dict[str, Values], batch: pa.RecordBatch, span: TextSpan) -> None:
    unnamed = unnamed_first(span.names)
    for name, found in values.items():
        values[name] = found.add(batch.column(name), span.decimal_point, name in unnamed)


def _type_of(values: Any, decimal_point: str) -> pa.DataType:
    """The type that Arrow gives to a column of texts when it reads them from a CSV."""
    from pyarrow import csv

    values = values.drop_null()
    if not len(values):
        return pa.null()
    lines = pa.ListArray.from_arrays([0, len(values)], values)
    import pyarrow.compute as pc

    text = pc.binary_join(lines, "\n")[0].as_buffer()
    options = csv_options("\x1f", decimal_point, {})
    reading = csv.ReadOptions(use_threads=False, column_names=["text"], block_size=max(text.size, 1))
    try:
        table = csv.read_csv(pa.BufferReader(text), read_options=reading, **options)
    except pa.ArrowInvalid:  # quotes and separators in the values
        return pa.string()
    kind = table.schema.field(0).type
    return kind if len(table) == len(values) and not pa.types.is_binary(kind) else pa.string()
