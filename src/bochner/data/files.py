"""Reads and writes tables in files, CSV and Parquet, by Arrow."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from bochner.data.delimited import (
    HEAD,
    Commas,
    csv_options,
    csv_problem,
    first_line,
    is_number,
    not_utf8,
    separator_of,
    text_head,
    with_commas,
)
from bochner.data.replacing import replacing

__all__ = [
    "COMPRESSED",
    "HEAD",
    "SUFFIXES",
    "TableFileError",
    "kind_by_content",
    "kind_by_name",
    "read_table",
    "write_table",
]

SUFFIXES = {
    **dict.fromkeys((".csv", ".csv.gz", ".csv.zst"), "csv"),
    **dict.fromkeys((".tsv", ".tsv.gz", ".tsv.zst"), "tsv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}
COMPRESSED = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
FOREIGN = {
    b"PK\x03\x04": "an Excel workbook or a zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"ARROW1": "an Arrow file",
    b"\x89HDF": "an HDF5 file",
    b"SQLite format 3": "an SQLite database",
    b"\x80\x04\x95": "a pickle",
    b"\x93NUMPY": "a NumPy array",
}
PARQUET = b"PAR1"
EXPORT = "write it as CSV or Parquet"


class TableFileError(ValueError):
    """A file holds no table that can be read; the message names the file, the place in it and the cure."""


def kind_by_name(path: str | os.PathLike[str]) -> str | None:
    """Kind of file that a name asks for, "csv", "tsv" or "parquet"; None for other names."""
    name = os.fspath(path).lower()
    return next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), None)


def kind_by_content(head: bytes) -> str:
    """Kind of content that begins so: "parquet", "gzip", "zstd", "safetensors", "text", or foreign in words."""
    if head.startswith(PARQUET):
        return "parquet"
    for compression, magic in COMPRESSED.items():
        if head.startswith(magic):
            return compression
    if head[8:9] == b"{" and head[4:8] == bytes(4):
        return "safetensors"
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            return what
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "text in UTF-16"
    return "binary data" if b"\0" in head else "text"


def read_table(
    path: str | os.PathLike[str], *, as_text: Collection[str] = (), note: Callable[[str], None] = lambda text: None
) -> pa.Table:
    """Read a CSV or Parquet file.

    In a CSV the first row names the columns; types follow from the values; empty fields, NA, NaN, null and their like
    are missing. A tab, semicolon or bar is taken for the separator where the first row has one and no comma; then
    numbers may have decimal commas.

    Parameters
    ----------
    path : str or path-like
    as_text : collection of str
        Columns of a CSV whose values are text, whatever they look like.
    note : callable
        Is told, in a sentence, what a user should know: that a name is misleading, that a separator is unusual.

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
    content, named = kind_by_content(head), kind_by_name(path)
    if not head:
        raise TableFileError(f"{path}: the file is empty; give a table with a row of column names")
    if content == "parquet":
        if named != "parquet":
            note("This is a Parquet file despite its name, and was read as one.")
        table = _read_parquet(path)
    elif content in ("text", *COMPRESSED):
        if named == "parquet":
            note("The name says Parquet, but this is a CSV file, and was read as one.")
        table = _read_csv(
            path, "tsv" if named == "tsv" else None, content if content in COMPRESSED else None, as_text, note
        )
    elif content == "safetensors":
        raise TableFileError(f"{path}: this is a model, not a table; a CSV or Parquet file is expected here")
    else:
        raise TableFileError(f"{path}: this is {content}; {EXPORT}")
    return _checked(table, path)


def _checked(table: pa.Table, path: Any) -> pa.Table:
    twice = [name for name, count in Counter(table.column_names).items() if count > 1]
    if twice:
        raise TableFileError(f"{path}: column names repeat: {_listed(twice)}; give each column a name of its own")
    if not table.num_columns:
        raise TableFileError(f"{path}: the table has no columns")
    if not table.num_rows:
        raise TableFileError(f"{path}: the table has column names but no rows")
    return table


def _listed(names: Collection[str], limit: int = 8) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _read_parquet(path: Any) -> pa.Table:
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            return file.read()
    except (pa.ArrowException, OSError) as error:
        raise TableFileError(f"{path}: damaged Parquet file ({first_line(error)}); copy or write it again") from error


def _read_csv(
    path: Any, named: str | None, compression: str | None, as_text: Collection[str], note: Callable
) -> pa.Table:
    separator = "\t" if named == "tsv" else separator_of(checked_head(path, compression))
    if separator != "," and named != "tsv":
        note(f"Fields are separated by {'tabs' if separator == chr(9) else repr(separator)}.")
    parse = partial(_parse, path, separator, compression)
    try:
        return _refuse_binary(_decimals(parse(as_text), parse, separator, as_text, note), path)
    except UnicodeDecodeError:
        raise TableFileError(f"{path}: {not_utf8('the column names')}") from None
    except (pa.ArrowException, OSError):
        pass  # read in one thread, Arrow tells the row
    try:
        return _refuse_binary(parse(as_text, threads=False), path)
    except (pa.ArrowException, OSError) as error:
        raise TableFileError(f"{path}: {csv_problem(error)}") from error


def _decimals(table: pa.Table, parse: Callable, separator: str, as_text: Collection[str], note: Callable) -> pa.Table:
    """The table, its numbers with decimal commas read as such, where commas separate neither fields nor thousands."""
    columns = zip(table.column_names, table.columns, strict=True)
    commas = {name: Commas.of(column) for name, column in columns if name not in as_text}
    found, doubtful = with_commas(commas, separator)
    if len(doubtful) < len(found):
        again, before = parse([*as_text, *doubtful], decimal_point=","), _number_columns(table)
        if before < _number_columns(again):
            note("Numbers have decimal commas.")
            table = again
        doubtful = [name for name in found if name not in _number_columns(table)]
    if doubtful:
        note(doubtful_commas(doubtful))
    return table


def doubtful_commas(names: Collection[str]) -> str:
    """What to say of columns that may be numbers with commas."""
    what, are, were = ("Columns", "look", "were") if len(names) > 1 else ("Column", "looks", "was")
    return (
        f"{what} {_listed(names)} {are} like numbers with commas, and {were} read as text; write a decimal "
        "point, and nothing between thousands."
    )


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


def _parse(
    path: Any,
    separator: str,
    compression: str | None,
    as_text: Collection[str],
    threads: bool = True,
    decimal_point: str = ".",
) -> pa.Table:
    from pyarrow import csv

    options = csv_options(separator, decimal_point, {name: pa.string() for name in as_text})
    with pa.input_stream(os.fspath(path), compression=compression) as stream:
        return csv.read_csv(stream, read_options=csv.ReadOptions(use_threads=threads), **options)


def _refuse_binary(table: pa.Table, path: Any) -> pa.Table:
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_binary(column.type):
            for row, value in enumerate(column.to_pylist(), 1):
                try:
                    (value or b"").decode()
                except UnicodeDecodeError:
                    raise TableFileError(f"{path}: {not_utf8(f'row {row} of column {name!r}')}") from None
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
