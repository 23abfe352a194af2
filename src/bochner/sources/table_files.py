"""Reads and writes whole tables in files, CSV and Parquet, by Arrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from bochner.data.files import COMPRESSED, HEAD, kind_by_content, kind_by_name, replacing, written_kind
from bochner.sources.base import SourceError
from bochner.sources.column_values import index_columns, index_left_out, names_problem
from bochner.sources.csv_files import read_csv
from bochner.sources.paths import reason


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
    SourceError
        If there is no such table in the file.
    OSError
        If it cannot be opened.
    """
    if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
        raise SourceError(f"{path}: a pipe or device cannot be read twice; write its content to a file first")
    with open(path, "rb") as file:
        head = file.read(HEAD)
    content, kind = kind_by_content(head), kind_by_name(path)
    if not head:
        raise SourceError(f"{path}: the file is empty; give a table with a row of column names")
    if content == "parquet":
        if kind != "parquet":
            note("This is a Parquet file despite its name, and was read as one.")
        table = _read_parquet(path, named, note)
    elif content in ("text", *COMPRESSED):
        if kind == "parquet":
            note("The name says Parquet, but this is a CSV file, and was read as one.")
        table = read_csv(Path(path), as_text, refused, named, exclude, note)
    elif content == "safetensors":
        raise SourceError(f"{path}: this is a model, not a table; a CSV or Parquet file is expected here")
    else:
        content = "an Arrow file" if content == "arrow" else content
        raise SourceError(f"{path}: this is {content}; write it as CSV or Parquet")
    return _checked(table, path)


def _checked(table: pa.Table, path: Any) -> pa.Table:
    if problem := names_problem(table.column_names):
        raise SourceError(f"{path}: {problem}")
    if not table.num_columns:
        raise SourceError(f"{path}: the table has no columns")
    if not table.num_rows:
        raise SourceError(f"{path}: the table has column names but no rows")
    return table


def _read_parquet(path: Any, named: Collection[str], note: Callable[[str], None]) -> pa.Table:
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: damaged Parquet file ({reason(error)}); copy or write it again") from error
    index = [name for name in index_columns(table.schema) if name not in named]
    for sentence in index_left_out(index):
        note(sentence)
    return table.drop_columns(index)


def write_table(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Write a table in the kind of file that the name asks for; the file appears once it is complete.

    Raises
    ------
    ValueError
        If the name asks for no known kind.
    OSError
        If it cannot be written.
    """
    kind = written_kind(path)
    with replacing(path) as temporary:
        if kind == "parquet":
            from pyarrow.parquet import write_table as write_parquet

            write_parquet(table, temporary)
            return
        from pyarrow import csv

        compression = {".gz": "gzip", ".zst": "zstd"}.get(Path(path).suffix.lower())
        with pa.output_stream(temporary, compression=compression) as stream:
            csv.write_csv(table, stream, csv.WriteOptions(delimiter="\t" if kind == "tsv" else ","))
