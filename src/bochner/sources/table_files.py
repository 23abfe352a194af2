"""Reads and writes whole tables in files, CSV and Parquet, by Arrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from bochner.data.files import COMPRESSED, HEAD, SUFFIXES, kind_by_content, kind_by_name, replacing
from bochner.sources.column_values import (
    Remarks,
    TextRange,
    Values,
    csv_options,
    csv_problem,
    first_line,
    index_columns,
    index_left_out,
    is_number,
    names_left_out,
    names_problem,
    not_utf8,
    numbered_columns,
    separator_of,
    text_head,
    unnamed_first,
    with_commas,
)

EXPORT = "write it as CSV or Parquet"


class TableFileError(ValueError):
    """A file holds no table that can be read; the message names the file, the place in it and the cure."""


def read_table(
    path: str | os.PathLike[str],
    *,
    as_text: Collection[str] = (),
    refused: Mapping[str, str] = MappingProxyType({}),
    named: Collection[str] = (),
    exclude: Collection[str] = (),
    note: Callable[[str], None] = lambda text: None,
) -> pa.Table:
    """Read a CSV or Parquet file.

    In a CSV the first row names the columns, and is left out where it is repeated; types follow from the values; empty
    fields, NA, NaN, null and their like are missing. A tab, semicolon or bar is taken for the separator where the first
    row has one and no comma; then numbers may have decimal commas. The index of a data frame is left out: columns that
    a Parquet file says are one, and first columns of a CSV without a name that number the rows.

    Parameters
    ----------
    path : str or path-like
    as_text : collection of str
        Columns of a CSV whose values are text, whatever they look like.
    refused : mapping of str to str
        Columns of a CSV that are refused where they are text because of few of their values, with a cure or nothing.
    named : collection of str
        Columns that are no index.
    exclude : collection of str
        Columns of which nothing is noted, as they are not used.
    note : callable
        Is told, in a sentence, what a user should know: that a name is misleading, that a separator is unusual, that a
        column is text because of few values, what is left out.

    Returns
    -------
    pyarrow.Table
        At least one row; no two columns of one name.

    Raises
    ------
    TableFileError
        If there is no such table in the file.
    OSError
        If it cannot be opened.
    """
    if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
        raise TableFileError(f"{path}: a pipe or device cannot be read twice; write its content to a file first")
    with open(path, "rb") as file:
        head = file.read(HEAD)
    content, kind = kind_by_content(head), kind_by_name(path)
    if not head:
        raise TableFileError(f"{path}: the file is empty; give a table with a row of column names")
    if content == "parquet":
        if kind != "parquet":
            note("This is a Parquet file despite its name, and was read as one.")
        table = _read_parquet(path, named, note)
    elif content in ("text", *COMPRESSED):
        if kind == "parquet":
            note("The name says Parquet, but this is a CSV file, and was read as one.")
        wanted = Wanted(as_text, refused, named, exclude, note)
        table = _read_csv(path, kind == "tsv", content if content in COMPRESSED else None, wanted)
    elif content == "safetensors":
        raise TableFileError(f"{path}: this is a model, not a table; a CSV or Parquet file is expected here")
    else:
        raise TableFileError(f"{path}: this is {content}; {EXPORT}")
    return _checked(table, path)


def _checked(table: pa.Table, path: Any) -> pa.Table:
    if problem := names_problem(table.column_names):
        raise TableFileError(f"{path}: {problem}")
    if not table.num_columns:
        raise TableFileError(f"{path}: the table has no columns")
    if not table.num_rows:
        raise TableFileError(f"{path}: the table has column names but no rows")
    return table


def _read_parquet(path: Any, named: Collection[str], note: Callable[[str], None]) -> pa.Table:
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise TableFileError(f"{path}: damaged Parquet file ({first_line(error)}); copy or write it again") from error
    index = [name for name in index_columns(table.schema) if name not in named]
    for sentence in index_left_out(index):
        note(sentence)
    return table.drop_columns(index)


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a CSV; see `read_table`."""

    as_text: Collection[str]
    refused: Mapping[str, str]
    named: Collection[str]
    exclude: Collection[str]
    note: Callable[[str], None]


def _read_csv(path: Any, is_tsv: bool, compression: str | None, wanted: Wanted) -> pa.Table:
    separator = "\t" if is_tsv else separator_of(checked_head(path, compression))
    if separator != "," and not is_tsv:
        wanted.note(f"Fields are separated by {'tabs' if separator == chr(9) else repr(separator)}.")
    text = TextRange(os.fspath(path), compression, separator)
    try:
        text = replace(text, without=text.names_again())
        table = _refuse_binary(_inferred(_parse(text, wanted.as_text), text, wanted), text)
    except UnicodeDecodeError:
        raise TableFileError(f"{path}: {not_utf8('the column names')}") from None
    except (pa.ArrowException, OSError):
        table = None  # read in one thread, Arrow tells the row
    try:
        table = _refuse_binary(_parse(text, wanted.as_text, threads=False), text) if table is None else table
    except (pa.ArrowException, OSError) as error:
        raise TableFileError(f"{path}: {csv_problem(error, (), text.line)}") from error
    if text.without:
        wanted.note(names_left_out([row.line for row in text.without]))
    return table


def _inferred(table: pa.Table, text: TextRange, wanted: Wanted) -> pa.Table:
    """The table, its numbers with decimal commas read as such, without an index; what else it is is noted."""
    point, values = ".", _values(table, ".", wanted)
    found, doubtful = with_commas({name: one.commas for name, one in values.items()}, text.separator)
    if len(doubtful) < len(found):
        again, before = _parse(text, [*wanted.as_text, *doubtful], decimal_point=","), _number_columns(table)
        if before < _number_columns(again):
            wanted.note("Numbers have decimal commas.")
            table, point = again, ","
            values = _values(table, point, wanted)
        doubtful = [name for name in found if name not in _number_columns(table)]
    types = {field.name: field.type for field in table.schema}
    doubtful = [name for name in doubtful if name not in wanted.exclude]
    remarks = Remarks.of(values, types, doubtful, lambda row: f"line {text.line(row + 1)}")
    for name, why in remarks.reasons.items():
        if name in wanted.refused:
            raise TableFileError(f"{text.path}: column {name!r} {'; '.join(filter(None, (why, wanted.refused[name])))}")
    index = [name for name in numbered_columns(table.column_names, values) if name not in wanted.named]
    for sentence in remarks.sentences(index, wanted.exclude):
        wanted.note(sentence)
    return table.drop_columns(index)


def _values(table: pa.Table, decimal_point: str, wanted: Wanted) -> dict[str, Values]:
    first = unnamed_first(table.column_names)
    return {
        name: Values.none().add(column, decimal_point, name in first)
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name not in (*wanted.as_text, *wanted.exclude)
    }


def _number_columns(table: pa.Table) -> set[str]:
    return {field.name for field in table.schema if is_number(field.type)}


def checked_head(path: str | os.PathLike[str], compression: str | None) -> bytes:
    """The first bytes of a CSV without its compression; TableFileError where it is damaged, or holds no text."""
    try:
        head = text_head(path, compression)
    except OSError as error:
        if compression is None:
            raise
        raise TableFileError(f"{path}: damaged {compression} file ({first_line(error)}); copy it again") from error
    if (content := kind_by_content(head)) != "text":
        what = f"this is {content} under {compression}; {EXPORT}" if compression else "not a CSV"
        raise TableFileError(f"{path}: {what}")
    return head


def _parse(text: TextRange, as_text: Collection[str], threads: bool = True, decimal_point: str = ".") -> pa.Table:
    from pyarrow import csv

    options = csv_options(text.separator, decimal_point, {name: pa.string() for name in as_text})
    with text.opened() as stream:
        return csv.read_csv(stream, read_options=csv.ReadOptions(use_threads=threads), **options)


def _refuse_binary(table: pa.Table, text: TextRange) -> pa.Table:
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_binary(column.type):
            for row, value in enumerate(column.to_pylist(), 1):
                try:
                    (value or b"").decode()
                except UnicodeDecodeError:
                    place = f"line {text.line(row)}, column {name!r}"
                    raise TableFileError(f"{text.path}: {not_utf8(place)}") from None
    return table


def write_table(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Write a table in the kind of file that the name asks for; the file appears once it is complete.

    Raises
    ------
    ValueError
        If the name asks for no known kind.
    OSError
        If it cannot be written.
    """
    kind = kind_by_name(path)
    if kind is None:
        raise ValueError(f"{path}: the name must end in one of {', '.join(SUFFIXES)}")
    with replacing(path) as temporary:
        if kind == "parquet":
            from pyarrow.parquet import write_table as write_parquet

            write_parquet(table, temporary)
            return
        from pyarrow import csv

        compression = {".gz": "gzip", ".zst": "zstd"}.get(Path(path).suffix.lower())
        with pa.output_stream(temporary, compression=compression) as stream:
            csv.write_csv(table, stream, csv.WriteOptions(delimiter="\t" if kind == "tsv" else ","))
