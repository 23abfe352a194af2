"""Writes a table to a file batch by batch, so that it need never be in memory as a
whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from bochner.data.file_kinds import AnyPath, written_kind
from bochner.sources.paths import arrow_file
from bochner.whole_files import replacing


def write_table(batches: Iterable[Mapping[str, Any] | pa.Table], path: AnyPath) -> int:
    """Write batches of rows to a CSV or Parquet file, which appears once it is
    complete; the number of rows.

    Parameters
    ----------
    batches : iterable of tables, or of arrays by the name of their column
    path : str or path-like
        Its name says the kind of file.

    Raises
    ------
    ValueError
        Where the name asks for no known kind, later batches have other columns than the
        first, or there is none.
    OSError
        Where the file cannot be written.
    """
    path, kind = os.fspath(path), written_kind(path)
    tables: Iterator[Any] = (
        columns if isinstance(columns, pa.Table) else pa.table(dict(columns))
        for columns in batches
    )
    n_rows = 0
    with replacing(path) as temporary, ExitStack() as stack:
        file: Any = stack.enter_context(arrow_file(temporary, "wb"))
        first = next(tables, None)
        if first is None:
            raise ValueError(f"{path}: there are no rows to write")
        schema = first.schema
        if kind == "parquet":
            from pyarrow.parquet import ParquetWriter

            writer = stack.enter_context(ParquetWriter(file, schema))
        else:
            from pyarrow import csv

            suffix = Path(path).suffix.lower()
            compression = {".gz": "gzip", ".zst": "zstd"}.get(suffix)
            file = stack.enter_context(pa.output_stream(file, compression=compression))
            options = csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
            writer = stack.enter_context(
                csv.CSVWriter(file, schema, write_options=options)
            )
        for table in chain([first], tables):
            if table.column_names != schema.names:
                raise ValueError(
                    f"{path}: columns {table.column_names} follow on {schema.names}"
                )
            writer.write_table(table.cast(schema))
            n_rows += table.num_rows
    return n_rows
